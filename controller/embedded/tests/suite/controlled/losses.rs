//! Losing a switch, and rejoining it.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Network, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::test_controller::TestController;
use super::{job, linked_job, tensor, wrong};
use crate::TIMEOUT;

const GRACE: Duration = Duration::from_secs(20);

fn start() -> EmbeddedSwitch {
    EmbeddedSwitch::builder().start().unwrap()
}

/// Other collectives than all-reduce; the number of wrong elements. Sums of whole numbers are exact on every path, residuals are 0.
fn other_collectives(comm: &Communicator, step: usize) -> usize {
    let (rank, world) = (comm.rank(), comm.world_size());
    let ranks = usize::from(world);
    let part_len = 30_000;
    let mut part = vec![0.0f32; part_len];
    comm.reduce_scatter(&tensor(rank, step, part_len * ranks), &mut part, ReduceOp::Sum).unwrap();
    let mut whole = vec![0.0f32; part_len * ranks];
    comm.all_gather(&part, &mut whole).unwrap();
    let mut wrongs = wrong(&whole, world, step);
    let root = (step % ranks) as u16;
    let mut reduced = tensor(rank, step, 50_000);
    comm.reduce(&mut reduced, ReduceOp::Sum, root).unwrap();
    let mut sent = if rank == root { reduced } else { vec![0.0; 50_000] };
    comm.broadcast(&mut sent, root).unwrap();
    wrongs += wrong(&sent, world, step);
    wrongs
}

/// Runs collectives until `over` is true on every rank; returns the numbers of wrong elements and of operations.
pub(crate) fn work_until(comm: &Communicator, over: impl Fn() -> bool) -> (usize, usize) {
    let (rank, world) = (comm.rank(), comm.world_size());
    let (mut wrongs, started) = (0, Instant::now());
    for step in 0.. {
        let handles: Vec<_> = [3, 100_000, 1000, 250_000]
            .into_iter()
            .map(|len| comm.all_reduce_async(tensor(rank, step, len), ReduceOp::Sum).unwrap())
            .collect();
        for handle in handles {
            wrongs += wrong(&handle.wait().unwrap().0, world, step);
        }
        wrongs += other_collectives(comm, step);
        let mut stop = [i32::from(over())];
        comm.all_reduce(&mut stop, ReduceOp::Min).unwrap();
        if stop[0] == 1 {
            return (wrongs, 9 * (step + 1));
        }
        assert!(started.elapsed() < TIMEOUT, "not over in time: {}, {:?}", comm.path(), comm.stats().control);
    }
    unreachable!("the loop has no end")
}

#[test]
fn ranks_that_lost_their_switch_rejoin_and_use_it_again() {
    expect_rejoin(10, |builder| builder);
}

/// Jobs, each built by `build`, lose their switch at times that follow from as many seeds, and rejoin another one: no operation is lost and no
/// element wrong.
pub(super) fn expect_rejoin(seeds: u64, build: impl Fn(Builder) -> Builder + Sync) {
    for seed in 0..seeds {
        println!("seed {seed}");
        let delay = Duration::from_micros(StdRng::seed_from_u64(seed).random_range(0..60_000));
        let (first, second) = (start(), start());
        let controller = TestController::start(vec![first.control()], GRACE, None);
        let failing = Mutex::new(Some(first));
        let done = linked_job(3, controller.address(), &build, |comm| {
            comm.barrier().unwrap();
            let (found, count) = thread::scope(|scope| {
                if comm.rank() == 0 {
                    scope.spawn(|| {
                        thread::sleep(delay);
                        controller.set_switch(0, second.control());
                        if seed % 2 == 0 {
                            controller.lose(0, "the switch is drained");
                        } else {
                            drop(failing.lock().unwrap().take());
                        }
                    });
                }
                let results = Cell::new(0);
                work_until(&comm, || {
                    let now = comm.stats().worker.results;
                    assert!(now >= results.replace(now), "counters never decrease");
                    comm.stats().control.rejoined == 1
                })
            });
            let control = comm.stats().control;
            assert_eq!((control.switches_lost, control.rejoined), (1, 1));
            assert_eq!((comm.path().name(), comm.path().lost), ("switch", vec![]));
            let before = comm.stats().worker.results;
            let mut sum = tensor(comm.rank(), 1, 5000);
            comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(wrong(&sum, 3, 1), 0);
            assert!(comm.stats().worker.results > before, "over the switch");
            comm.leave().unwrap();
            (found, count)
        });
        println!("after {delay:?}: {done:?} wrong elements and operations");
        assert!(done.iter().all(|(found, _)| *found == 0), "{done:?}");
        assert!(second.counters().unwrap().results > 0);
    }
}

/// While joins are refused the ranks continue in a ring; they retry at a bounded rate.
#[test]
fn ranks_stay_in_a_ring_until_they_are_admitted() {
    let switch = start();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let reopened = AtomicBool::new(false);
    linked_job(
        2,
        controller.address(),
        |builder| builder,
        |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                controller.set_closed(true);
                controller.lose(0, "preempted");
            }
            let started = Instant::now();
            let (wrong, _) = work_until(&comm, || started.elapsed() > Duration::from_secs(2));
            assert_eq!((wrong, comm.path().name()), (0, "ring"));
            let Network::Ring { reason } = comm.path().network else { panic!("a ring") };
            assert!(reason.contains("preempted") || reason.contains("another rank"), "{reason}");
            comm.barrier().unwrap();
            if comm.rank() == 1 {
                let (refused, seconds) = (controller.refused() as f64, started.elapsed().as_secs_f64());
                assert!(refused < 20.0 * seconds, "{refused} refusals in {seconds} s");
                controller.set_closed(false);
                reopened.store(true, Ordering::Relaxed);
            }
            let (wrong, _) = work_until(&comm, || comm.path().name() == "switch");
            assert_eq!(wrong, 0);
            assert!(reopened.load(Ordering::Relaxed));
            comm.leave().unwrap();
        },
    );
}

#[test]
fn ranks_without_rejoin_stay_in_the_ring() {
    let switch = start();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    linked_job(
        2,
        controller.address(),
        |builder| builder.rejoin(false),
        |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                controller.lose(0, "drained");
            }
            let started = Instant::now();
            assert_eq!(work_until(&comm, || started.elapsed() > Duration::from_secs(1)).0, 0);
            assert_eq!((comm.path().name(), controller.admitted()), ("ring", 2));
            comm.leave().unwrap();
        },
    );
}

#[test]
fn without_connections_between_the_ranks_a_lost_switch_is_an_error() {
    let switch = start();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let errors = job(
        2,
        controller.address(),
        |builder| builder,
        |comm| {
            // The first rank to pass may end the session while the other is still in the barrier.
            if let Err(error) = comm.barrier() {
                return error;
            }
            if comm.rank() == 0 {
                controller.lose(0, "the link to the spine failed");
            }
            let mut sum = vec![1.0f32; 1000];
            loop {
                if let Err(error) = comm.all_reduce(&mut sum, ReduceOp::Sum) {
                    return error;
                }
            }
        },
    );
    for error in errors {
        assert_eq!((error.kind(), error.advice()), ("switch_lost", netfold::Advice::Retry), "{error}");
        assert!(error.to_string().contains("the link to the spine failed"), "{error}");
    }
}

/// The switch stops forwarding packets, while its control port works.
#[test]
fn ranks_leave_a_switch_that_sends_no_packets() {
    let silent = std::sync::Arc::new(AtomicBool::new(false));
    let flag = silent.clone();
    let switch = EmbeddedSwitch::builder()
        .middleware(move |io| Ok(Box::new(super::dropping::DroppingIo(io, flag.clone(), 0))))
        .start()
        .unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    linked_job(
        2,
        controller.address(),
        |builder| builder.rejoin(false),
        |comm| {
            comm.barrier().unwrap();
            // Waiting for a straggler is not a failure: the switch acknowledges probes.
            thread::sleep(Duration::from_secs(7) * u32::from(comm.rank()));
            comm.barrier().unwrap();
            assert_eq!(comm.path().name(), "switch");
            silent.store(true, Ordering::Relaxed);
            let mut sum = tensor(comm.rank(), 0, 50_000);
            comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(wrong(&sum, 2, 0), 0);
            assert_eq!(comm.path().name(), "ring");
            comm.leave().unwrap();
        },
    );
}

/// Short packets pass and long ones are dropped silently, as by a router with a smaller MTU.
#[test]
fn ranks_leave_a_path_that_drops_long_packets() {
    let switch = start();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let narrow = || {
        let dropping = std::sync::Arc::new(AtomicBool::new(true));
        move |io| Box::new(super::dropping::DroppingIo(io, dropping, 1000)) as Box<dyn netfold_io::PacketIo>
    };
    let paths = linked_job(
        2,
        controller.address(),
        |builder| builder.rejoin(false).middleware(narrow()),
        |comm| {
            assert_eq!(comm.path().name(), "switch");
            let mut sum = tensor(comm.rank(), 0, 50_000);
            comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(wrong(&sum, 2, 0), 0);
            assert_eq!(comm.path().name(), "ring");
            let path = comm.path().to_string();
            comm.leave().unwrap();
            path
        },
    );
    // The rank that detects it first notifies the other.
    assert!(paths.iter().any(|path| path.contains("1440 bytes")), "{paths:?}");
    assert!(switch.counters().unwrap().results < 100, "except packets without lanes");
}
