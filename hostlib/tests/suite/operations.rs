//! Communicators over in-process rings and a reference switch: results, order, errors, ends.

use std::time::{Duration, Instant};

use netfold::quantize::{Float, Lanes, Quantizer, simulate};
use netfold::{Communicator, DType, Element, Error, Mode, ReduceOp, bf16, f16};
use netfold_io::fault::{FaultConfig, Faulty};

use crate::support::{self, HANG_GUARD, LANE_WORDS, builder, job, switch};

/// Around the boundaries of chunks (64 words: 64 or 128 elements), of windows, and beyond.
const LENGTHS: [usize; 12] = [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000, 8192, 20_011];

/// A number that depends on rank and place, of either sign and of several magnitudes.
fn value(rank: u16, at: usize) -> f32 {
    let mix = (at as u32).wrapping_mul(2_654_435_761).wrapping_add(u32::from(rank).wrapping_mul(0x9e37_79b9));
    let mix = (mix ^ mix >> 15).wrapping_mul(0x85eb_ca6b);
    (mix as i32 >> 8) as f32 * 2f32.powi(-((at / 100 % 30) as i32) - 20)
}

fn share<T: Float>(rank: u16, len: usize) -> Vec<T> {
    (0..len).map(|at| T::from_f32(value(rank, at))).collect()
}

fn expected<T: Float>(world: u16, len: usize, lanes: Lanes) -> Vec<T> {
    let quantizer = Quantizer::new(lanes, world);
    let block = quantizer.block_elements(LANE_WORDS as usize * 4);
    let shares: Vec<Vec<T>> = (0..world).map(|rank| share(rank, len)).collect();
    let blocks = (0..len).step_by(block).flat_map(|start| {
        let end = len.min(start + block);
        simulate(&quantizer, &shares.iter().map(|share| &share[start..end]).collect::<Vec<_>>())
    });
    blocks.collect()
}

fn integer(rank: u16, at: usize) -> i32 {
    (value(rank, at).to_bits() as i32).wrapping_mul(77)
}

fn check_floats<T: Float + PartialEq + std::fmt::Debug>(comm: &mut Communicator, lanes: Lanes) {
    for len in LENGTHS {
        let mut tensor: Vec<T> = share(comm.rank(), len);
        let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        assert_eq!(tensor, expected::<T>(comm.world_size(), len, lanes), "{} x {len}", T::DTYPE);
        assert_eq!((report.elements, report.non_finite), (len as u64, 0));
        assert_eq!(report.chunks as usize, len.div_ceil(LANE_WORDS as usize * 4 / lanes.element_bytes()));
    }
}

fn check_integers(comm: &mut Communicator) {
    type Fold = fn(i32, i32) -> i32;
    let folds: [(ReduceOp, Fold); 3] =
        [(ReduceOp::Sum, i32::wrapping_add), (ReduceOp::Min, i32::min), (ReduceOp::Max, i32::max)];
    for (op, fold) in folds {
        for len in LENGTHS {
            let mut tensor: Vec<i32> = (0..len).map(|at| integer(comm.rank(), at)).collect();
            comm.all_reduce(&mut tensor, op).unwrap();
            let exact = |at| (0..comm.world_size()).map(|rank| integer(rank, at)).reduce(fold).unwrap();
            assert_eq!(tensor, (0..len).map(exact).collect::<Vec<_>>(), "{op} of {len}");
        }
    }
}

#[test]
fn every_type_and_mode_gives_the_specified_result() {
    for world in [1, 2, 3, 8] {
        for (mode, lanes) in [(Mode::Bfp32, Lanes::Bfp32), (Mode::Bfp16, Lanes::Bfp16)] {
            job(world, mode, 16, |mut comm| {
                check_floats::<f32>(&mut comm, lanes);
                check_floats::<f16>(&mut comm, lanes);
                check_floats::<bf16>(&mut comm, lanes);
                check_integers(&mut comm);
                comm.leave().unwrap();
            });
        }
    }
    job(5, Mode::I32, 1, |mut comm| {
        check_integers(&mut comm);
        comm.leave().unwrap();
    });
}

#[test]
fn many_operations_in_flight_of_mixed_types() {
    job(4, Mode::Bfp16, 8, |comm| {
        let mut floats = Vec::new();
        let mut integers = Vec::new();
        for i in 0..200 {
            floats.push((i, comm.all_reduce_async(share::<f32>(comm.rank(), i * 7), ReduceOp::Sum).unwrap()));
            let tensor = (0..i).map(|at| integer(comm.rank(), at)).collect();
            integers.push(comm.all_reduce_async(tensor, ReduceOp::Max).unwrap());
        }
        // Waited for in another order than submitted, some by asking.
        for (i, handle) in floats.into_iter().rev() {
            assert_eq!(handle.wait().unwrap().0, expected::<f32>(4, i * 7, Lanes::Bfp16));
        }
        for (i, mut handle) in integers.into_iter().enumerate() {
            if i == 199 {
                // The one submitted after all that were waited for.
                while !handle.is_done() {
                    std::thread::yield_now();
                }
            }
            assert!(handle.is_done(), "submitted before the last one that was waited for");
            let (tensor, _) = handle.try_wait().unwrap().unwrap();
            assert_eq!(tensor.len(), i);
            assert!(matches!(handle.try_wait(), Some(Err(Error::Taken))));
        }
        comm.leave().unwrap();
    });
}

#[test]
fn more_operations_than_any_queue_holds() {
    job(2, Mode::Bfp32, 4, |comm| {
        let handles: Vec<_> =
            (0..3000).map(|i| comm.all_reduce_async(vec![i; 2], ReduceOp::Sum).unwrap()).collect();
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.wait().unwrap().0, [2 * i as i32; 2]);
        }
        assert_eq!(comm.stats().worker.ops_done, 3000);
        comm.leave().unwrap();
    });
}

#[test]
fn leave_finishes_what_is_pending() {
    job(3, Mode::Bfp32, 4, |comm| {
        let handles: Vec<_> =
            (0..300).map(|_| comm.all_reduce_async(vec![1i32; 500], ReduceOp::Sum).unwrap()).collect();
        comm.leave().unwrap();
        for handle in handles {
            assert_eq!(handle.wait().unwrap().0, [3; 500]);
        }
    });
}

fn bits<T: Element>(tensor: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(tensor)];
    netfold::quantize::Kernel::SCALAR.pack_words(tensor, &mut bytes);
    bytes
}

fn check_broadcast<T: Element>(comm: &mut Communicator, make: fn(u32) -> T) {
    for root in 0..comm.world_size() {
        for len in LENGTHS {
            let of = |rank: u16| -> Vec<T> {
                (0..len as u32)
                    .map(|at| make(at.wrapping_mul(0x9e37_79b9).rotate_left(7) ^ u32::from(rank)))
                    .collect()
            };
            let mut tensor = of(comm.rank());
            comm.broadcast(&mut tensor, root).unwrap();
            assert_eq!(bits(&tensor), bits(&of(root)), "{} x {len} from {root}", T::DTYPE);
        }
    }
}

#[test]
fn broadcast_is_exact_for_every_bit_pattern_in_every_mode_of_word_switches() {
    for mode in Mode::ALL.iter().copied().filter(|mode| mode.numerics() == Mode::Bfp32.numerics()) {
        job(3, mode, 8, |mut comm| {
            check_broadcast(&mut comm, f32::from_bits); // NaN payloads, infinities and -0 among them
            check_broadcast(&mut comm, |bits| f16::from_bits(bits as u16));
            check_broadcast(&mut comm, |bits| bf16::from_bits(bits as u16));
            check_broadcast(&mut comm, |bits| bits as i32);
            let world = comm.world_size();
            assert!(matches!(comm.broadcast(&mut [0i32], world), Err(Error::Root { root: 3, world: 3 })));
            comm.barrier().unwrap();
            comm.leave().unwrap();
        });
    }
}

#[test]
fn a_barrier_waits_for_the_last_rank() {
    let late = std::sync::atomic::AtomicBool::new(false);
    job(3, Mode::I32, 4, |comm| {
        if comm.rank() == 2 {
            // The others have been waiting since their own barrier call or will find the flag set; either way the flag
            // is set before any of them passes.
            late.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        comm.barrier().unwrap();
        assert!(late.load(std::sync::atomic::Ordering::SeqCst));
        comm.leave().unwrap();
    });
}

#[test]
fn blocks_with_nan_are_nan_everywhere_and_reported() {
    for (mode, lanes) in [(Mode::Bfp32, Lanes::Bfp32), (Mode::Bfp16, Lanes::Bfp16)] {
        job(3, mode, 4, |comm| {
            let len = 1000;
            let block = LANE_WORDS as usize * 4 / lanes.element_bytes();
            let mut tensor: Vec<f32> = share(comm.rank(), len);
            match comm.rank() {
                0 => tensor[block] = f32::NAN,            // second block
                1 => tensor[len - 1] = f32::NEG_INFINITY, // last block
                _ => {}
            }
            let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            assert_eq!(report.non_finite, 2);
            let mut wanted = expected::<f32>(3, len, lanes);
            wanted[block..2 * block].fill(f32::NAN);
            wanted[(len - 1) / block * block..].fill(f32::NAN);
            assert_eq!(bits(&tensor), bits(&wanted));
            // The next operation is not affected.
            let mut tensor: Vec<f32> = share(comm.rank(), len);
            assert_eq!(comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap().non_finite, 0);
            comm.leave().unwrap();
        });
    }
}

#[test]
fn what_cannot_be_reduced_is_refused_before_anything_is_sent() {
    job(2, Mode::Bfp16, 4, |comm| {
        if comm.rank() == 0 {
            // On one rank alone: had anything been sent, the ranks would differ.
            let error = comm.all_reduce(&mut [1.0f32], ReduceOp::Product).unwrap_err();
            assert!(
                matches!(error, Error::Unsupported { op: ReduceOp::Product, dtype: DType::F32, .. }),
                "{error}"
            );
            assert_eq!((error.kind(), error.ends_the_job()), ("unsupported", false));
            assert!(comm.all_reduce_async(vec![1.0f64], ReduceOp::Max).is_err());
            assert!(comm.all_reduce_async(vec![1i64], ReduceOp::Min).is_err());
        }
        comm.barrier().unwrap();
        comm.leave().unwrap();
    });
    job(2, Mode::I32, 4, |comm| {
        let error = comm.all_reduce(&mut [1.0f32], ReduceOp::Sum).unwrap_err();
        assert!(error.to_string().contains("bfp32 or bfp16"), "{error}");
        comm.leave().unwrap();
    });
}

#[test]
fn different_lengths_are_found_on_every_rank() {
    let errors = job(4, Mode::Bfp32, 8, |comm| {
        let pending = comm.all_reduce_async(vec![1i32; 300], ReduceOp::Sum).unwrap();
        let mut tensor = vec![1.0f32; if comm.rank() == 2 { 5001 } else { 5000 }];
        let error = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err();
        assert_eq!(pending.wait().unwrap().0, [4; 300], "what was submitted before is not affected");
        // The same error from now on, from every call.
        assert_eq!(comm.barrier().unwrap_err(), error);
        assert_eq!(comm.all_reduce_async(vec![1i32], ReduceOp::Sum).unwrap().wait().unwrap_err(), error);
        assert_eq!(comm.failure(), Some(error.clone()));
        assert_eq!(comm.leave().unwrap_err(), error);
        error
    });
    for (rank, error) in errors.into_iter().enumerate() {
        let Error::Mismatch { rank: other, mine, theirs } = &error else { panic!("{error:?}") };
        assert_eq!(*other, Some(if rank == 2 { 0 } else { 2 }), "the first rank that differs from this one");
        assert!(mine.contains(if rank == 2 { "5001" } else { "5000" }), "{mine}");
        assert!(theirs.as_deref().unwrap().contains(if rank == 2 { "5000" } else { "5001" }), "{theirs:?}");
        assert!(error.to_string().contains("5001"), "{error}");
    }
}

#[test]
fn another_operation_type_or_root_is_a_mismatch() {
    let kinds = job(2, Mode::Bfp32, 8, |comm| {
        let error = match comm.rank() {
            0 => comm.barrier().unwrap_err(),
            _ => comm.broadcast(&mut [1.0f32], 1).unwrap_err(),
        };
        error.kind()
    });
    assert_eq!(kinds, ["mismatch"; 2]);
    let kinds = job(2, Mode::Bfp32, 8, |comm| {
        let rank = comm.rank();
        comm.broadcast(&mut [1.0f32], rank).unwrap_err().kind()
    });
    assert_eq!(kinds, ["mismatch"; 2]);
}

#[test]
fn a_lossy_path_changes_no_result() {
    let (world, len) = (3, 3000);
    let (spokes, switch) = switch(world);
    std::thread::scope(|scope| {
        for (rank, io) in (0..world).zip(spokes) {
            scope.spawn(move || {
                let wrap = move |io| {
                    Box::new(Faulty::new(io, FaultConfig::with_loss(u64::from(rank) + 1, 0.05))) as _
                };
                let comm = builder(io, rank, world, Mode::Bfp16, 16).middleware(wrap).connect().unwrap();
                for _ in 0..5 {
                    let mut tensor: Vec<f32> = share(rank, len);
                    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                    assert_eq!(tensor, expected::<f32>(world, len, Lanes::Bfp16));
                }
                assert!(comm.stats().worker.retransmitted > 0, "packets were lost");
                comm.leave().unwrap();
            });
        }
    });
    switch.join().unwrap();
}

#[test]
fn the_loss_of_the_switch_ends_the_job_with_one_error() {
    let (hub, spokes) = netfold_io::loopback::star(1, 64, 2048);
    let comm = builder(spokes.into_iter().next().unwrap(), 0, 1, Mode::Bfp32, 8).connect().unwrap();
    let pending = comm.all_reduce_async(vec![1.0f32; 100_000], ReduceOp::Sum).unwrap();
    let start = Instant::now();
    drop(hub);
    let error = pending.wait().unwrap_err();
    assert_eq!(error.kind(), "switch_lost", "{error}");
    assert_eq!(comm.all_reduce(&mut [1.0f32], ReduceOp::Sum).unwrap_err(), error);
    assert!(start.elapsed() < HANG_GUARD);
}

#[test]
fn a_missing_rank_is_a_stall_without_a_control_session() {
    let (spokes, switch) = switch(2);
    let mut spokes = spokes.into_iter();
    let io = spokes.next().unwrap();
    let comm = builder(io, 0, 2, Mode::Bfp32, 8).stall_timeout(Duration::from_millis(300)).connect().unwrap();
    let error = comm.all_reduce(&mut vec![1.0f32; 5000], ReduceOp::Sum).unwrap_err();
    assert_eq!(error.kind(), "stalled", "{error}");
    assert_eq!(comm.barrier().unwrap_err(), error);
    drop((comm, spokes));
    switch.join().unwrap();
}

#[test]
fn dropping_fails_pending_operations_and_does_not_hang() {
    let (spokes, switch) = switch(2);
    let mut spokes = spokes.into_iter();
    let comm = builder(spokes.next().unwrap(), 0, 2, Mode::Bfp32, 8).connect().unwrap();
    let handles: Vec<_> =
        (0..500).map(|_| comm.all_reduce_async(vec![1.0f32; 1000], ReduceOp::Sum).unwrap()).collect();
    drop(comm);
    for handle in handles {
        assert_eq!(handle.wait().unwrap_err(), Error::Closed);
    }
    drop(spokes);
    switch.join().unwrap();
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let transportless = || Communicator::builder().job("x").rank(0).world_size(2);
    let kind = |builder: netfold::Builder| builder.connect().unwrap_err();
    assert!(matches!(kind(transportless()), Error::Missing("switch")));
    assert!(matches!(kind(Communicator::builder().rank(0).world_size(2)), Error::Missing("job")));
    assert!(matches!(kind(Communicator::builder().world_size(2)), Error::Missing("rank")));
    assert!(matches!(kind(Communicator::builder().rank(0)), Error::Missing("world_size")));
    assert!(matches!(kind(transportless().job("")), Error::JobName { len: 0 }));
    for bad in [
        transportless().world_size(0),
        transportless().world_size(32769),
        transportless().world_size(129).mode(Mode::Bfp16),
        transportless().rank(2),
        transportless().slots(3),
    ] {
        let error = kind(bad);
        assert_eq!(error.kind(), "argument", "{error}");
    }
    let error = kind(transportless().world_size(129).mode(Mode::Bfp16));
    assert!(error.to_string().contains("use mode bfp32"), "{error}");
    let error = Communicator::builder().switch("no-port").unwrap_err();
    assert_eq!(error.kind(), "address", "{error}");
    // An admission that no worker can run by, and a transport that cannot carry its packets.
    let (_hub, mut spokes) = netfold_io::loopback::star(2, 4, 64);
    let mut bad = support::admission(2, 3, 0);
    let io = Box::new(spokes.pop().unwrap());
    let error = kind(Communicator::builder().rank(0).world_size(2).transport(io, bad.clone()));
    assert!(matches!(error, Error::Config(_)), "{error}");
    bad.slots = 4;
    let io = Box::new(spokes.pop().unwrap());
    let error = kind(Communicator::builder().rank(0).world_size(2).transport(io, bad));
    assert!(matches!(error, Error::Datagram { need: 288, max: 64 }), "{error}");
}
