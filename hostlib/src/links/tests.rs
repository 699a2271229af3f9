use std::sync::Mutex;
use std::time::Duration;

use netfold_collectives::mesh::{FnExchange, MeshConfig};
use netfold_testkit::job::on_all_ranks;

use super::*;
use crate::confidential::{Members, agree};
use crate::group_key::GroupKey;

const WORLD: u16 = 3;

/// Runs `rank` on the links of every rank, encrypted or in clear.
fn linked<R: Send>(encrypted: bool, rank: impl Fn(&mut Links) -> R + Sync) -> Vec<R> {
    let (barrier, board) =
        (std::sync::Barrier::new(WORLD.into()), Mutex::new(vec![Vec::new(); WORLD.into()]));
    on_all_ranks(WORLD, |number| {
        let gather = |mine: &[u8]| {
            board.lock().unwrap()[usize::from(number)] = mine.to_vec();
            barrier.wait();
            let all = board.lock().unwrap().clone();
            barrier.wait();
            Ok(all)
        };
        let mut exchange = FnExchange::new(number, WORLD, gather).unwrap();
        let mut mesh = Mesh::connect(&mut exchange, MeshConfig::default()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let members = Members { job: "links", index: number, count: WORLD };
        let agreed = agree(&GroupKey::from([5; 32]), members, |mine| {
            mesh.all_gather_bytes(mine, deadline).map_err(|error| mesh_error(error, &[0, 1, 2]))
        });
        let key = agreed.unwrap().key("test");
        rank(&mut Links::new(mesh, (10..10 + WORLD).collect(), encrypted.then_some(&key)))
    })
}

/// Whole numbers, the same in every run.
fn numbers(rank: u16, len: usize) -> Vec<u8> {
    (0..len).flat_map(|at| ((at * 7 % 1000) as i32 * (i32::from(rank) + 1) - 999).to_ne_bytes()).collect()
}

/// Every collective, in place and not, of lengths that are no multiple of anything; the results.
fn everything(links: &mut Links) -> Vec<Vec<u8>> {
    let (rank, world) = (links.mesh.rank(), usize::from(WORLD));
    let mut results = Vec::new();
    for len in [0, 1, 5, 1001, 1_100_003] {
        let input = numbers(rank, len);
        let parts = numbers(rank, len * world);
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::BitXor] {
            let mut tensor = input.clone();
            links.run(Collective::AllReduce, DType::I32, op, Buffers::InPlace(&mut tensor)).unwrap();
            results.push(tensor);
            let mut output = vec![0; input.len()];
            let split = Buffers::Split { input: &input, output: &mut output };
            links.run(Collective::Reduce { root: 1 }, DType::I32, op, split).unwrap();
            results.push(output);
            let mut output = vec![0; input.len()];
            let split = Buffers::Split { input: &parts, output: &mut output };
            links.run(Collective::ReduceScatter, DType::I32, op, split).unwrap();
            results.push(output);
        }
        let mut in_place = parts.clone();
        links
            .run(Collective::ReduceScatter, DType::I32, ReduceOp::Sum, Buffers::InPlace(&mut in_place))
            .unwrap();
        results.push(in_place);
        for collective in [Collective::AllGather, Collective::Broadcast { root: 2 }, Collective::AllToAll] {
            let input = if collective == Collective::AllToAll { &parts } else { &input };
            let len =
                if matches!(collective, Collective::Broadcast { .. }) { input.len() } else { parts.len() };
            let mut output = vec![0; len];
            let split = Buffers::Split { input, output: &mut output };
            links.run(collective, DType::I32, ReduceOp::Sum, split).unwrap();
            results.push(output);
        }
        for collective in [Collective::AllGather, Collective::Broadcast { root: 0 }] {
            let mut tensor = parts.clone();
            links.run(collective, DType::I32, ReduceOp::Sum, Buffers::InPlace(&mut tensor)).unwrap();
            results.push(tensor);
        }
        links.run(Collective::Barrier, DType::None, ReduceOp::Sum, Buffers::InPlace(&mut [])).unwrap();
    }
    results
}

#[test]
fn encrypted_links_give_the_results_of_plain_ones() {
    let (plain, encrypted) = (linked(false, everything), linked(true, everything));
    for (rank, (plain, encrypted)) in plain.iter().zip(&encrypted).enumerate() {
        let differs = (0..plain.len()).find(|at| plain[*at] != encrypted[*at]);
        assert_eq!(differs, None, "rank {rank}: result of the first call that differs");
    }
}

/// What is handed to the mesh holds nothing of the tensors, and is never the same.
#[test]
fn what_is_sent_is_encrypted() {
    let mut sent = linked(true, |links| {
        let mut sent = Vec::new();
        for collective in [Collective::AllReduce, Collective::Broadcast { root: 0 }, Collective::AllGather] {
            let mut zeros = vec![0; 3000];
            links.run(collective, DType::I32, ReduceOp::Sum, Buffers::InPlace(&mut zeros)).unwrap();
            assert_eq!(zeros, [0; 3000]);
            let cipher = links.cipher.as_ref().unwrap();
            // A broadcast is decrypted where it was received.
            if !matches!(collective, Collective::Broadcast { .. }) {
                sent.push(cipher.sent().to_vec());
            }
        }
        sent
    });
    let mut blocks: Vec<[u8; 16]> = Vec::new();
    for bytes in sent.drain(..).flatten() {
        assert!(bytes.len() >= 996, "{} bytes", bytes.len());
        blocks.extend(bytes.as_chunks::<16>().0);
    }
    let all = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), all, "blocks that occur twice");
}

#[test]
fn other_calls_are_a_mismatch_on_every_rank() {
    let errors = linked(true, |links| {
        let op = if links.mesh.rank() == 2 { ReduceOp::Max } else { ReduceOp::Sum };
        let mut tensor = numbers(0, 100);
        links.run(Collective::AllReduce, DType::I32, op, Buffers::InPlace(&mut tensor)).unwrap_err()
    });
    let mismatch = |rank, mine: &str, theirs: &str| Error::Mismatch {
        rank: Some(rank),
        mine: format!("all_reduce(400 bytes of i32, {mine})"),
        theirs: Some(format!("all_reduce(400 bytes of i32, {theirs})")),
    };
    assert_eq!(errors, [mismatch(12, "sum", "max"), mismatch(12, "sum", "max"), mismatch(10, "max", "sum")]);
}
