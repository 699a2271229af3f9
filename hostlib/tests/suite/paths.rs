//! Ranks without a switch: in shared memory, in a ring, and in both.

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Element, Error, Mode, Network, ReduceOp, bf16, f16};
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;

use crate::support::HANG_GUARD;

/// Runs `rank` on every rank of a job of threads, each built by `build`.
fn job<R: Send>(
    world: u16,
    build: impl Fn(u16, Builder) -> Builder + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let at = vacant_address().unwrap();
    on_all_ranks(world, |number| {
        let builder = Communicator::builder()
            .job("paths")
            .rank(number)
            .world_size(world)
            .join_timeout(Duration::from_secs(20))
            .stall_timeout(Duration::from_secs(20))
            .rendezvous(at)
            .unwrap();
        rank(build(number, builder).connect().unwrap())
    })
}

/// How the ranks of a shape are built.
type Build = fn(u16, Builder) -> Builder;

/// Three shapes: a ring, one host, and hosts of two ranks (the last of one, where the world is odd).
fn shapes() -> [(&'static str, Build); 3] {
    [
        ("ring", |_, builder| builder.shared_memory(false)),
        ("shared_memory", |_, builder| builder),
        ("ring", |rank, builder| builder.host(format!("host {}", rank / 2))),
    ]
}

/// A small whole number for element `index` of rank `rank`, whose sums and products are exact in every type.
fn value(rank: u16, index: usize) -> u8 {
    1 + (index % 3 + usize::from(rank) % 2) as u8 % 3
}

fn tensor<T: Element + From<u8>>(rank: u16, len: usize) -> Vec<T> {
    (0..len).map(|index| T::from(value(rank, index))).collect()
}

/// All collectives on one element type, checked against whole numbers.
fn collectives<T: Element + From<u8> + PartialEq + std::fmt::Debug>(comm: &Communicator, shape: usize) {
    let (rank, world) = (comm.rank(), comm.world_size());
    for len in [0, 1, 7, 1000] {
        let expected = |op: ReduceOp| -> Vec<T> {
            let of = |index: usize| (0..world).map(move |rank| value(rank, index));
            (0..len)
                .map(|index| match op {
                    ReduceOp::Sum => of(index).sum(),
                    ReduceOp::Product => of(index).product(),
                    ReduceOp::Min => of(index).min().unwrap(),
                    _ => of(index).max().unwrap(),
                })
                .map(T::from)
                .collect()
        };
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max] {
            let mut all = tensor::<T>(rank, len);
            comm.all_reduce(&mut all, op).unwrap();
            assert_eq!(all, expected(op), "all_reduce {op} {} {len} in shape {shape}", T::DTYPE);
            let root = world - 1;
            let mut one = tensor::<T>(rank, len);
            comm.reduce(&mut one, op, root).unwrap();
            assert_eq!(one, if rank == root { expected(op) } else { tensor(rank, len) }, "reduce {op}");
        }
        let mut from_root = tensor::<T>(rank, len);
        comm.broadcast(&mut from_root, 1 % world).unwrap();
        assert_eq!(from_root, tensor::<T>(1 % world, len));
        let mut gathered = vec![T::default(); len * usize::from(world)];
        comm.all_gather(&tensor::<T>(rank, len), &mut gathered).unwrap();
        assert_eq!(gathered, (0..world).flat_map(|rank| tensor::<T>(rank, len)).collect::<Vec<_>>());
        let mut part = vec![T::default(); len];
        let whole = tensor::<T>(rank, len * usize::from(world));
        comm.reduce_scatter(&whole, &mut part, ReduceOp::Sum).unwrap();
        let start = usize::from(rank) * len;
        let sums = (start..start + len).map(|index| (0..world).map(|rank| value(rank, index)).sum::<u8>());
        assert_eq!(part, sums.map(T::from).collect::<Vec<_>>());
        let mut swapped = vec![T::default(); whole.len()];
        comm.all_to_all(&whole, &mut swapped).unwrap();
        let own = |rank: u16| tensor::<T>(rank, whole.len())[start..start + len].to_vec();
        assert_eq!(swapped, (0..world).flat_map(own).collect::<Vec<_>>());
        comm.barrier().unwrap();
    }
}

#[test]
fn every_collective_of_every_type_on_every_shape() {
    for (shape, (name, build)) in shapes().into_iter().enumerate() {
        for world in [1, 2, 4, 5] {
            let paths = job(world, build, |comm| {
                collectives::<f32>(&comm, shape);
                collectives::<f64>(&comm, shape);
                collectives::<f16>(&comm, shape);
                collectives::<bf16>(&comm, shape);
                collectives::<u8>(&comm, shape);
                collectives::<i16>(&comm, shape);
                collectives::<i32>(&comm, shape);
                collectives::<u64>(&comm, shape);
                let path = comm.path();
                comm.leave().unwrap();
                path
            });
            let alone = world == 1 || shape == 2 && world == 2;
            for path in &paths {
                assert_eq!(path.network, paths[0].network, "the same path on all ranks");
                if !alone {
                    assert_eq!(path.name(), name, "{world} ranks in shape {shape}: {path}");
                }
            }
        }
    }
}

#[test]
fn averages_divide_on_every_shape_and_bits_are_integers() {
    for (_, build) in shapes() {
        job(4, build, |comm| {
            let mut mean = vec![f32::from(comm.rank()); 100];
            comm.all_reduce(&mut mean, ReduceOp::Avg).unwrap();
            assert_eq!(mean, [1.5; 100]);
            let mut bits = vec![1u32 << comm.rank(); 3];
            comm.all_reduce(&mut bits, ReduceOp::BitOr).unwrap();
            assert_eq!(bits, [15; 3]);
            let error = comm.all_reduce(&mut mean, ReduceOp::BitXor).unwrap_err();
            assert_eq!((error.kind(), error.ends_the_job()), ("unsupported", false));
            comm.barrier().unwrap();
        });
    }
}

/// 16-bit floats are summed in binary32: a sum that every step of 16 bits would lose is kept.
#[test]
fn half_precision_is_rounded_once() {
    for (_, build) in shapes() {
        job(4, build, |comm| {
            let mut tensor = vec![f16::from_f32(if comm.rank() == 0 { 2048.0 } else { 1.0 }); 9];
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            // 2048 + 1 + 1 + 1 = 2051, halfway between 2050 and 2052; binary16 would stay at 2048 step by step.
            assert_eq!(tensor, [f16::from_f32(2052.0); 9]);
            comm.barrier().unwrap();
        });
    }
}

#[test]
fn many_are_in_flight_and_all_are_the_same_on_all_ranks() {
    for (_, build) in shapes() {
        let sums = job(3, build, |comm| {
            let handles: Vec<_> = (0..40u16)
                .map(|step| {
                    let tensor: Vec<f32> =
                        (0..500).map(|i| 0.1 * f32::from(comm.rank() + step) + i as f32).collect();
                    comm.all_reduce_async(tensor, ReduceOp::Sum).unwrap()
                })
                .collect();
            let sums: Vec<Vec<u32>> = handles
                .into_iter()
                .map(|handle| handle.wait().unwrap().0.iter().map(|x| x.to_bits()).collect())
                .collect();
            comm.leave().unwrap();
            sums
        });
        assert!(sums.iter().all(|other| *other == sums[0]), "the same bits on every rank");
    }
}

#[test]
fn a_rank_that_leaves_is_named_on_all_others() {
    for (shape, (_, build)) in shapes().into_iter().enumerate() {
        let outcomes = job(4, build, |comm| {
            if comm.rank() == 3 {
                comm.barrier().unwrap();
                drop(comm);
                return None;
            }
            comm.barrier().unwrap();
            let started = Instant::now();
            let mut tensor = vec![1.0f32; 1_000_000];
            let error = (0..200).find_map(|_| comm.all_reduce(&mut tensor, ReduceOp::Sum).err());
            assert!(started.elapsed() < HANG_GUARD, "in bounded time");
            let error = error.expect("a rank is missing");
            assert_eq!(comm.failure(), Some(error.clone()));
            assert_eq!(comm.leave().unwrap_err(), error);
            Some(error)
        });
        for error in outcomes.into_iter().flatten() {
            assert_eq!(error.kind(), "peer_lost", "{error} in shape {shape}");
            assert_eq!(error.advice(), netfold::Advice::Shrink);
        }
    }
}

#[test]
fn different_calls_are_a_mismatch_on_every_rank() {
    for (_, build) in shapes() {
        let kinds = job(3, build, |comm| {
            let mut tensor = vec![1.0f64; if comm.rank() == 2 { 11 } else { 10 }];
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err().kind()
        });
        assert_eq!(kinds, ["mismatch"; 3]);
    }
}

#[test]
fn an_abort_ends_a_call_that_waits_for_the_others() {
    for (_, build) in shapes() {
        let (aborted, wait_for_abort) = mpsc::channel();
        let wait_for_abort = Mutex::new(wait_for_abort);
        job(2, build, |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 1 {
                // Does not call before the other has given up.
                wait_for_abort.lock().unwrap().recv_timeout(HANG_GUARD).unwrap();
                let error = comm.all_reduce(&mut [0.0f32; 4], ReduceOp::Sum).unwrap_err();
                assert_eq!((error.kind(), error.peer()), ("peer_lost", Some(0)), "{error}");
                return;
            }
            thread::scope(|inner| {
                let call = inner.spawn(|| comm.all_reduce(&mut [0.0f32; 4], ReduceOp::Sum).unwrap_err());
                thread::sleep(Duration::from_millis(100));
                assert!(!call.is_finished(), "it waits");
                comm.abort();
                assert_eq!(call.join().unwrap().kind(), "interrupted");
            });
            aborted.send(()).unwrap();
        });
    }
}

/// Rows and columns of a grid, as tensor- and data-parallel training want them, both in use at once.
#[test]
fn groups_work_beside_each_other_and_the_whole_job() {
    for (_, build) in shapes() {
        job(6, build, |comm| {
            let (row, column) = (u32::from(comm.rank() / 3), u32::from(comm.rank() % 3));
            let rows = comm.split(Some(row), 0).unwrap().expect("a row").connect().unwrap();
            // Numbered from the last row to the first.
            let columns = comm
                .split(Some(column), -i32::from(comm.rank()))
                .unwrap()
                .expect("a column")
                .connect()
                .unwrap();
            assert_eq!((rows.world_size(), columns.world_size()), (3, 2));
            assert_eq!((rows.rank(), columns.rank()), (column as u16, 1 - row as u16));
            for step in 0..5u64 {
                let mut sum = [u64::from(comm.rank()) + step];
                rows.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
                assert_eq!(sum[0], 3 * step + if row == 0 { 3 } else { 12 });
                columns.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
                comm.all_reduce(&mut sum, ReduceOp::Max).unwrap();
                assert_eq!(sum[0], 6 * step + 15);
            }
            let even = comm.split((comm.rank() % 2 == 0).then_some(9), 0).unwrap();
            assert_eq!(even.is_some(), comm.rank() % 2 == 0);
            if let Some(even) = even {
                let even = even.connect().unwrap();
                let mut ones = [1i16; 4];
                even.all_reduce(&mut ones, ReduceOp::Sum).unwrap();
                assert_eq!(ones, [3; 4]);
                even.leave().unwrap();
            }
            comm.barrier().unwrap();
        });
    }
}

#[test]
fn ranks_that_are_built_differently_are_refused() {
    let at = vacant_address().unwrap();
    let errors: Vec<Error> = thread::scope(|scope| {
        let ranks: Vec<_> = (0..2u16)
            .map(|rank| {
                scope.spawn(move || {
                    let mode = if rank == 0 { Mode::Bfp16 } else { Mode::Bfp32 };
                    let builder = Communicator::builder().job("differ").rank(rank).world_size(2).mode(mode);
                    builder.rendezvous(at).unwrap().connect().unwrap_err()
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    for error in errors {
        assert_eq!(error.kind(), "differs", "{error}");
        assert!(error.to_string().contains("bfp16") && error.to_string().contains("bfp32"), "{error}");
    }
}

#[test]
fn an_unreachable_switch_falls_back_or_is_an_error() {
    let nowhere = vacant_address().unwrap();
    for fall_back in [true, false] {
        let at = vacant_address().unwrap();
        let outcomes: Vec<Result<Network, Error>> = thread::scope(|scope| {
            let ranks: Vec<_> = (0..3u16)
                .map(|rank| {
                    scope.spawn(move || {
                        let builder = Communicator::builder().job("lost").rank(rank).world_size(3);
                        let builder = builder.rendezvous(at).unwrap().switch(nowhere).unwrap();
                        let comm = builder.shared_memory(false).fall_back(fall_back).connect()?;
                        let mut tensor = [1.0f32; 5];
                        comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
                        assert_eq!(tensor, [3.0; 5]);
                        let network = comm.path().network;
                        comm.leave()?;
                        Ok(network)
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        for outcome in &outcomes {
            match outcome {
                Ok(Network::Ring { reason }) if fall_back => {
                    assert!(reason.starts_with("rank 0 could not use the switch"), "{reason}");
                    assert!(reason.contains(&nowhere.to_string()), "{reason}");
                }
                Err(error) if !fall_back => assert_eq!(error.kind(), "no_switch", "{error}"),
                other => panic!("{other:?} with fall-back {fall_back}"),
            }
        }
    }
}
