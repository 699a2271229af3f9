//! Error feedback and stochastic rounding, over rings that lose, double and reorder, and over every other path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use netfold::quantize::Rounding;
use netfold::{Builder, Call, Collective, Communicator, DType, Error, Mode, Network, ReduceOp};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{IoError, PacketIo, RxBatch, vacant_address};

use crate::support::{builder, job, switch};

const STOCHASTIC: Rounding = Rounding::Stochastic { seed: 5 };

/// Element `at` of rank `rank`'s gradient in step `step`: of either sign, and of magnitudes that differ within a block.
fn gradient(rank: u16, step: u32, at: usize) -> f32 {
    let mix = (at as u32).wrapping_mul(0x9e37_79b9) ^ step.wrapping_mul(0x85eb_ca6b) ^ u32::from(rank) << 20;
    let mix = (mix ^ mix >> 15).wrapping_mul(0x2c1b_3c6d);
    let mix = mix ^ mix >> 13;
    (mix as i32 as f32) * 2f32.powi(-31 - (at % 5) as i32 * 4)
}

/// What a rank saw over some steps.
struct Run {
    /// The sums of every step.
    sums: Vec<Vec<f32>>,
    residual: Vec<f32>,
    retransmitted: u64,
}

fn steps(comm: &Communicator, count: u32, len: usize) -> Run {
    let mut residual = vec![0.0; len];
    let sums = (0..count).map(|step| {
        let mut tensor: Vec<f32> = (0..len).map(|at| gradient(comm.rank(), step, at)).collect();
        comm.all_reduce_with_feedback(&mut tensor, &mut residual, ReduceOp::Sum).unwrap();
        tensor
    });
    let sums = sums.collect();
    Run { sums, residual, retransmitted: comm.stats().worker.retransmitted }
}

/// Everything that was given was delivered or is left: within the roundings of binary32 that the codec does not make, those of
/// adding a residual to a tensor.
fn assert_nothing_lost(runs: &[Run], len: usize) {
    for at in 0..len {
        let count = runs[0].sums.len() as u32;
        let ranks = 0..runs.len() as u16;
        let given: f64 = ranks
            .clone()
            .flat_map(|rank| (0..count).map(move |step| (rank, step)))
            .map(|(rank, step)| f64::from(gradient(rank, step, at)))
            .sum();
        let delivered: f64 = runs[0].sums.iter().map(|sums| f64::from(sums[at])).sum();
        let left: f64 = runs.iter().map(|run| f64::from(run.residual[at])).sum();
        let largest = 2f64.powi(-(at as i32 % 5) * 4);
        let slack = f64::from(count) * runs.len() as f64 * largest * 2f64.powi(-22);
        assert!(
            (given - delivered - left).abs() <= slack,
            "element {at}: {given} was given, {delivered} delivered, {left} left"
        );
    }
    for run in runs {
        let bits = |run: &Run| run.sums.concat().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(run), bits(&runs[0]), "the same bits on every rank");
    }
}

fn faulty(mode: Mode, rounding: Rounding, faults: &str, len: usize) -> Vec<Run> {
    let (spokes, switch) = switch(3);
    let runs = thread::scope(|scope| {
        let ranks = (0..3u16).zip(spokes).map(|(rank, io)| {
            let config: FaultConfig = format!("{faults},seed={rank}").parse().unwrap();
            scope.spawn(move || {
                let wrap = move |io| Box::new(Faulty::new(io, config)) as Box<dyn PacketIo>;
                let comm =
                    builder(io, rank, 3, mode, 16).rounding(rounding).middleware(wrap).connect().unwrap();
                let run = steps(&comm, 8, len);
                comm.leave().unwrap();
                run
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<Run>>()
    });
    switch.join().unwrap();
    runs
}

#[test]
fn nothing_is_lost_whatever_the_network_does() {
    let len = 5003;
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        for rounding in [Rounding::Nearest, STOCHASTIC] {
            let calm = faulty(mode, rounding, "loss=0", len);
            let rough = faulty(mode, rounding, "loss=0.03,duplicate=0.05,reorder=0.1", len);
            for runs in [&calm, &rough] {
                assert_nothing_lost(runs, len);
            }
            assert!(rough.iter().any(|run| run.retransmitted > 0), "packets were lost");
            for (calm, rough) in calm.iter().zip(&rough) {
                assert_eq!(
                    calm.sums, rough.sums,
                    "a retransmission holds the same bytes, whatever the rounding"
                );
                assert_eq!(calm.residual, rough.residual);
            }
            if mode == Mode::Bfp16 {
                assert!(calm.iter().all(|run| run.residual.iter().any(|left| *left != 0.0)));
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_sums_and_another_seed_others() {
    let sums = |rounding| faulty(Mode::Bfp16, rounding, "loss=0", 700).swap_remove(0).sums;
    let first = sums(STOCHASTIC);
    assert_eq!(first, sums(STOCHASTIC));
    assert_ne!(first, sums(Rounding::Stochastic { seed: 6 }));
    assert_ne!(first, sums(Rounding::Nearest));
}

/// Gradient descent on a quadratic. Element 0 of each block sees a large gradient that turns its sign at every step, so the others' are
/// far below the block's quantum.
fn descend(comm: &Communicator, feedback: bool) -> f32 {
    const RATE: f32 = 0.02;
    let len = 256;
    let targets: Vec<f32> = (0..len).map(|at| 1e-3 * ((at % 7) as f32 - 3.0)).collect();
    let (mut weights, mut residual) = (vec![0.0f32; len], vec![0.0f32; len]);
    for step in 0..4000 {
        let mut tensor: Vec<f32> = weights.iter().zip(&targets).map(|(w, t)| (w - t) * 0.5).collect();
        for at in (0..len).step_by(16) {
            tensor[at] = if step % 2 == 0 { 64.0 } else { -64.0 };
        }
        if feedback {
            comm.all_reduce_with_feedback(&mut tensor, &mut residual, ReduceOp::Avg).unwrap();
        } else {
            comm.all_reduce(&mut tensor, ReduceOp::Avg).unwrap();
        }
        for (at, (weight, gradient)) in weights.iter_mut().zip(&tensor).enumerate() {
            if at % 16 != 0 {
                *weight -= RATE * gradient;
            }
        }
    }
    let off = weights.iter().zip(&targets).enumerate().filter(|(at, _)| at % 16 != 0);
    off.map(|(_, (w, t))| (w - t).abs()).fold(0.0, f32::max)
}

#[test]
fn descent_stands_still_without_feedback_and_arrives_with_it() {
    let off = |feedback, rounding| {
        let (spokes, switch) = switch(2);
        let off = thread::scope(|scope| {
            let ranks: Vec<_> = (0..2u16)
                .zip(spokes)
                .map(|(rank, io)| {
                    scope.spawn(move || {
                        let comm = builder(io, rank, 2, Mode::Bfp16, 8).rounding(rounding).connect().unwrap();
                        let off = descend(&comm, feedback);
                        comm.leave().unwrap();
                        off
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<f32>>()
        });
        switch.join().unwrap();
        assert_eq!(off[0], off[1]);
        off[0]
    };
    let (plain, chance) = (off(false, Rounding::Nearest), off(false, STOCHASTIC));
    let (fed, both) = (off(true, Rounding::Nearest), off(true, STOCHASTIC));
    println!("farthest from the target: {plain} plain, {chance} stochastic, {fed} fed back, {both} both");
    assert_eq!(plain, 3e-3, "nothing arrives: every gradient is rounded to zero");
    assert!(fed < 0.2 * plain && both < 0.3 * plain, "{fed}, {both}");
}

#[test]
fn a_block_with_nan_leaves_zero_and_others_what_they_must() {
    job(2, Mode::Bfp16, 4, |comm| {
        let mut tensor: Vec<f32> = (0..512).map(|at| gradient(comm.rank(), 1, at)).collect();
        if comm.rank() == 1 {
            tensor[200] = f32::NAN; // the second block of 128
        }
        let mut residual = vec![1e-3; 512];
        let report = comm.all_reduce_with_feedback(&mut tensor, &mut residual, ReduceOp::Sum).unwrap();
        assert_eq!(report.non_finite, 1);
        assert!(residual[128..256].iter().all(|left| *left == 0.0));
        assert!(residual[..128].iter().any(|left| *left != 0.0));
        assert!(tensor[128..256].iter().all(|value| value.is_nan()));
        comm.leave().unwrap();
    });
}

#[test]
fn what_cannot_be_fed_back_is_refused_and_leaves_all_as_it_was() {
    job(2, Mode::Bfp16, 4, |comm| {
        let (mut tensor, mut residual) = ([1.0f32; 4], [2.0f32; 4]);
        if comm.rank() == 0 {
            // On one rank alone: had anything been sent, the ranks would differ.
            let error =
                comm.all_reduce_with_feedback(&mut tensor, &mut residual[..3], ReduceOp::Sum).unwrap_err();
            assert!(matches!(error, Error::ResidualLength { tensor: 4, residual: 3 }), "{error}");
            assert_eq!((error.kind(), error.ends_the_job()), ("length", false));
            let error = comm.all_reduce_with_feedback(&mut tensor, &mut residual, ReduceOp::Max).unwrap_err();
            assert!(matches!(error, Error::Feedback { op: ReduceOp::Max, .. }), "{error}");
            assert_eq!((error.kind(), error.ends_the_job()), ("unsupported", false));
            assert_eq!((tensor, residual), ([1.0; 4], [2.0; 4]));
        }
        comm.barrier().unwrap();
        comm.leave().unwrap();
    });
    for mode in [Mode::Half, Mode::Float, Mode::I32] {
        let builder = Communicator::builder().job("x").rank(0).world_size(2).mode(mode).rounding(STOCHASTIC);
        let error = builder.connect().unwrap_err();
        assert!(matches!(error, Error::Rounding { .. }), "{error}");
        assert_eq!(error.kind(), "argument");
    }
}

/// The untyped call: out of place, at odd addresses, and with nothing where something is needed.
#[test]
#[expect(unsafe_code, reason = "promises memory of the test's own")]
fn the_untyped_call_adds_and_keeps_the_same() {
    job(2, Mode::Bfp16, 4, |comm| {
        let given: Vec<f32> = (0..300).map(|at| gradient(comm.rank(), 3, at)).collect();
        let (mut wanted, mut left) = (given.clone(), vec![0.25f32; 300]);
        comm.all_reduce_with_feedback(&mut wanted, &mut left, ReduceOp::Avg).unwrap();
        let send: Vec<u8> = std::iter::once(0).chain(given.iter().flat_map(|v| v.to_ne_bytes())).collect();
        let (mut recv, mut residual) = (vec![0u8; 1203], vec![0.25f32; 300]);
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Avg, 300);
        // SAFETY: all three live until the work has been waited for, and are not touched before.
        let work = unsafe {
            comm.submit_with_feedback(
                &call,
                send[1..].as_ptr(),
                recv[3..].as_mut_ptr(),
                residual.as_mut_ptr(),
            )
        };
        work.unwrap().wait().unwrap();
        let got: Vec<f32> =
            recv[3..].as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        assert_eq!((got, residual), (wanted, left));
        // SAFETY: refused before anything is touched.
        let refused = unsafe {
            let half = Call::new(Collective::AllReduce, DType::F16, ReduceOp::Sum, 4);
            let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
            let nowhere = comm.submit_with_feedback(&call, send, recv, std::ptr::null_mut());
            [nowhere, comm.submit_with_feedback(&half, send, recv, std::ptr::dangling_mut())]
        };
        let kinds = refused.map(|refused| refused.unwrap_err().kind());
        assert_eq!(kinds, ["argument", "unsupported"]);
        comm.leave().unwrap();
    });
}

fn met(at: SocketAddr, rank: u16, world: u16) -> Builder {
    let builder = Communicator::builder().job("fed").rank(rank).world_size(world).mode(Mode::Bfp16);
    builder
        .join_timeout(Duration::from_secs(20))
        .stall_timeout(Duration::from_secs(20))
        .rendezvous(at)
        .unwrap()
}

#[test]
fn paths_that_lose_nothing_leave_nothing() {
    type Shape = fn(u16, Builder) -> Builder;
    let shapes: [Shape; 3] = [
        |_, builder| builder.shared_memory(false),
        |_, builder| builder,
        |rank, builder| builder.host(format!("host {}", rank / 2)),
    ];
    for shape in shapes {
        let at = vacant_address().unwrap();
        thread::scope(|scope| {
            for rank in 0..4u16 {
                scope.spawn(move || {
                    let comm = shape(rank, met(at, rank, 4)).rounding(STOCHASTIC).connect().unwrap();
                    for op in [ReduceOp::Sum, ReduceOp::Avg] {
                        let mut tensor = vec![f32::from(rank); 10_000];
                        let mut residual = vec![0.5f32; 10_000];
                        comm.all_reduce_with_feedback(&mut tensor, &mut residual, op).unwrap();
                        assert_eq!(tensor, vec![if op == ReduceOp::Sum { 8.0 } else { 2.0 }; 10_000]);
                        assert_eq!(residual, vec![0.0; 10_000]);
                    }
                    comm.leave().unwrap();
                });
            }
        });
    }
}

/// Two hosts of two ranks and a switch: the leaders keep what was left out of their hosts' sums.
#[test]
fn the_leader_keeps_what_its_host_leaves_out() {
    let len = 300_000; // several segments of shared memory
    let (spokes, switch) = switch(2);
    let (idle_hub, idle) = netfold_io::loopback::star(2, 4, 2048);
    let mut spokes = spokes.into_iter().zip(idle).flat_map(|(used, idle)| [used, idle]);
    let at = vacant_address().unwrap();
    let runs: Vec<Run> = thread::scope(|scope| {
        let ranks: Vec<_> = (0..4u16)
            .map(|rank| {
                let io = Box::new(spokes.next().unwrap());
                scope.spawn(move || {
                    let admission = crate::support::admission(2, 16, 0);
                    let builder =
                        met(at, rank, 4).host(format!("host {}", rank / 2)).transport(io, admission);
                    let comm = builder.connect().unwrap();
                    assert_eq!(comm.path().name(), "switch", "{}", comm.path());
                    let run = steps(&comm, 3, len);
                    comm.leave().unwrap();
                    run
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    switch.join().unwrap();
    drop(idle_hub);
    assert_nothing_lost(&runs, len);
    for (rank, run) in runs.iter().enumerate() {
        let left = run.residual.iter().filter(|left| **left != 0.0).count();
        if rank % 2 == 0 { assert!(left > len / 2) } else { assert_eq!(left, 0) }
    }
}

/// A transport that fails for all ranks once they have received so many packets together.
struct FailingIo {
    io: Box<dyn PacketIo>,
    left: Arc<AtomicU32>,
    failed: Arc<AtomicBool>,
}

impl netfold_io::Middleware for FailingIo {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(IoError::PeerClosed);
        }
        let count = self.inner_mut().receive(batch)?;
        let before = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(count as u32)));
        if before.unwrap() <= count as u32 {
            self.failed.store(true, Ordering::SeqCst);
        }
        Ok(count)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.inner_mut().wait(timeout.min(Duration::from_millis(20)))
    }
}

/// The switch is lost in the middle of an operation, at many places: what ranks pass on and what they reduce again add up with what was
/// left out before.
#[test]
fn nothing_is_lost_with_the_switch() {
    let len = 6000; // 47 chunks, of which 16 are under way
    for cut in [40, 97, 150, 211, 260, 333] {
        let (spokes, switch) = switch(3);
        let at = vacant_address().unwrap();
        let (left, failed) = (Arc::new(AtomicU32::new(cut)), Arc::new(AtomicBool::new(false)));
        let runs: Vec<Run> = thread::scope(|scope| {
            let ranks: Vec<_> = (0..3u16)
                .zip(spokes)
                .map(|(rank, io)| {
                    let (left, failed) = (Arc::clone(&left), Arc::clone(&failed));
                    scope.spawn(move || {
                        let admission = crate::support::admission(3, 16, 0);
                        let wrap = move |io| Box::new(FailingIo { io, left, failed }) as Box<dyn PacketIo>;
                        let builder =
                            met(at, rank, 3).shared_memory(false).transport(Box::new(io), admission);
                        let comm = builder.rounding(STOCHASTIC).middleware(wrap).connect().unwrap();
                        let run = steps(&comm, 4, len);
                        assert!(matches!(comm.path().network, Network::Ring { .. }), "{}", comm.path());
                        comm.leave().unwrap();
                        run
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        switch.join().unwrap();
        assert_nothing_lost(&runs, len);
    }
}
