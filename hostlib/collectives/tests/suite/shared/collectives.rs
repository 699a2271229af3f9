//! Every collective, type, operation and number of ranks against a plain model, with threads as ranks.

use netfold_collectives::shared::SharedGroup;
use netfold_collectives::{Buffers, DType, ReduceOp};
use proptest::prelude::*;

use crate::shared::ranks::{config, fold, group, tensor};

const WORLDS: [u16; 6] = [1, 2, 3, 4, 5, 8];

fn types() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| *dtype != DType::None)
}

/// Elements: none, one, small, one segment and a bit, many segments.
fn counts(dtype: DType) -> [usize; 6] {
    let size = dtype.size();
    [0, 1, 1000 / size, 4096 / size + 1, 70_000 / size + 3, 300_000 / size]
}

#[test]
fn all_reduce_and_reduce_of_every_type() {
    for world in WORLDS {
        for dtype in types() {
            check_reductions(world, dtype, ReduceOp::Sum, &counts(dtype));
        }
    }
}

#[test]
fn every_operation() {
    for op in ReduceOp::ALL {
        for dtype in types().filter(|dtype| netfold_collectives::reduce::supports(*op, *dtype)) {
            check_reductions(3, dtype, *op, &[5, 20_000]);
        }
    }
}

fn check_reductions(world: u16, dtype: DType, op: ReduceOp, counts: &[usize]) {
    group(config(world), world, |mut shared| {
        for (index, count) in counts.iter().enumerate() {
            let tensors: Vec<_> =
                (0..world).map(|rank| tensor(dtype, *count, u64::from(rank) * 100 + index as u64)).collect();
            let expected = fold(dtype, op, &tensors);
            let mine = &tensors[usize::from(shared.local_rank())];
            let at = format!("{world} ranks, {count} {}, {op}", dtype.name());

            let mut in_place = mine.clone();
            shared.all_reduce(dtype, op, &mut in_place[..]).unwrap();
            assert!(in_place == expected, "all_reduce in place: {at}");
            let mut apart = vec![0xa5; mine.len()];
            shared.all_reduce(dtype, op, (&mine[..], &mut apart[..])).unwrap();
            assert!(apart == expected, "all_reduce: {at}");

            let root = index as u16 % world;
            let mut in_place = mine.clone();
            shared.reduce(dtype, op, root, &mut in_place[..]).unwrap();
            let is_root = shared.local_rank() == root;
            assert!(in_place == *if is_root { &expected } else { mine }, "reduce in place: {at}");
            let mut apart = vec![0xa5; if is_root { mine.len() } else { 0 }];
            shared.reduce(dtype, op, root, (&mine[..], &mut apart[..])).unwrap();
            assert!(!is_root || apart == expected, "reduce: {at}");
        }
    });
}

#[test]
fn everything_that_moves_bytes() {
    for world in WORLDS {
        for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
            group(config(world), world, |mut shared| {
                for count in counts(dtype) {
                    check_moves(&mut shared, dtype, count);
                }
            });
        }
    }
}

fn check_moves(shared: &mut SharedGroup, dtype: DType, count: usize) {
    let (world, rank) = (usize::from(shared.world()), usize::from(shared.local_rank()));
    let at = format!("rank {rank} of {world}, {count} {}", dtype.name());
    let len = count * dtype.size();
    let part = |bytes: &[u8], index: usize| bytes[index * len..(index + 1) * len].to_vec();
    // What each rank sends to all, or to each.
    let wide: Vec<_> = (0..world).map(|peer| tensor(dtype, count * world, peer as u64 + 7)).collect();
    let narrow: Vec<_> = wide.iter().map(|bytes| part(bytes, 0)).collect();

    for root in [0, world - 1] {
        let mut bytes = if rank == root { narrow[root].clone() } else { vec![0; len] };
        shared.broadcast(dtype, root as u16, &mut bytes[..]).unwrap();
        assert!(bytes == narrow[root], "broadcast in place: {at}");
        let mut bytes = vec![0; len];
        let send: &[u8] = if rank == root { &narrow[root] } else { &[] };
        shared.broadcast(dtype, root as u16, (send, &mut bytes[..])).unwrap();
        assert!(bytes == narrow[root], "broadcast: {at}");
    }

    let gathered = narrow.concat();
    let mut bytes = vec![0; len * world];
    bytes[rank * len..(rank + 1) * len].copy_from_slice(&narrow[rank]);
    shared.all_gather(dtype, &mut bytes[..]).unwrap();
    assert!(bytes == gathered, "all_gather in place: {at}");
    let mut bytes = vec![0; len * world];
    shared.all_gather(dtype, (&narrow[rank][..], &mut bytes[..])).unwrap();
    assert!(bytes == gathered, "all_gather: {at}");

    let parts: Vec<_> = wide.iter().map(|bytes| part(bytes, rank)).collect();
    let mut bytes = wide[rank].clone();
    shared.all_to_all(dtype, &mut bytes[..]).unwrap();
    assert!(bytes == parts.concat(), "all_to_all in place: {at}");
    let mut bytes = vec![0; len * world];
    shared.all_to_all(dtype, (&wide[rank][..], &mut bytes[..])).unwrap();
    assert!(bytes == parts.concat(), "all_to_all: {at}");

    let folded = fold(dtype, ReduceOp::Avg, &parts);
    let mut bytes = wide[rank].clone();
    shared.reduce_scatter(dtype, ReduceOp::Avg, &mut bytes[..]).unwrap();
    let mut expected = wide[rank].clone();
    expected[rank * len..(rank + 1) * len].copy_from_slice(&folded);
    assert!(bytes == expected, "reduce_scatter in place: {at}");
    let mut bytes = vec![0; len];
    let buffers = Buffers::Split { input: &wide[rank], output: &mut bytes };
    shared.reduce_scatter(dtype, ReduceOp::Avg, buffers).unwrap();
    assert!(bytes == folded, "reduce_scatter: {at}");
}

#[test]
fn barriers_hold() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let arrived = AtomicU32::new(0);
    group(config(5), 5, |mut shared| {
        for round in 1..=200 {
            arrived.fetch_add(1, Ordering::SeqCst);
            shared.barrier().unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= round * 5);
            shared.barrier().unwrap();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Operations of all kinds and sizes behind each other, at odd addresses: what one leaves behind must not disturb the next.
    #[test]
    fn any_sequence(world in 1u16..6, sequence in prop::collection::vec((0u8..7, 0usize..40_000, 0usize..8), 1..25)) {
        group(config(world), world, |mut shared| {
            for (index, (kind, count, skew)) in sequence.iter().copied().enumerate() {
                one_of_many(&mut shared, kind, count, skew, index as u64);
            }
        });
    }
}

fn one_of_many(shared: &mut SharedGroup, kind: u8, count: usize, skew: usize, seed: u64) {
    let (world, rank) = (usize::from(shared.world()), usize::from(shared.local_rank()));
    let len = if kind < 4 { count } else { count / 4 * world };
    let tensors: Vec<_> = (0..world).map(|peer| tensor(DType::U8, len, seed * 16 + peer as u64)).collect();
    let part = |bytes: &[u8], index: usize| bytes[index * len / world..(index + 1) * len / world].to_vec();
    let mut memory = vec![0; skew];
    memory.extend_from_slice(&tensors[rank]);
    let bytes = &mut memory[skew..];
    let root = seed as u16 % shared.world();
    let mine = match kind {
        0 => {
            shared.all_reduce(DType::U8, ReduceOp::Sum, bytes).unwrap();
            fold(DType::U8, ReduceOp::Sum, &tensors)
        }
        1 => {
            shared.reduce(DType::U8, ReduceOp::Max, root, bytes).unwrap();
            if rank == usize::from(root) {
                fold(DType::U8, ReduceOp::Max, &tensors)
            } else {
                tensors[rank].clone()
            }
        }
        2 => {
            shared.broadcast(DType::U8, root, bytes).unwrap();
            tensors[usize::from(root)].clone()
        }
        3 => {
            shared.barrier().unwrap();
            tensors[rank].clone()
        }
        4 => {
            shared.all_gather(DType::U8, bytes).unwrap();
            tensors.iter().enumerate().flat_map(|(peer, bytes)| part(bytes, peer)).collect()
        }
        5 => {
            shared.all_to_all(DType::U8, bytes).unwrap();
            tensors.iter().flat_map(|bytes| part(bytes, rank)).collect()
        }
        _ => {
            shared.reduce_scatter(DType::U8, ReduceOp::Sum, bytes).unwrap();
            let parts: Vec<_> = tensors.iter().map(|bytes| part(bytes, rank)).collect();
            let mut expected = tensors[rank].clone();
            expected[rank * len / world..(rank + 1) * len / world].copy_from_slice(&fold(
                DType::U8,
                ReduceOp::Sum,
                &parts,
            ));
            expected
        }
    };
    assert!(memory[skew..] == mine, "kind {kind}, {count} bytes, rank {rank} of {world}");
}
