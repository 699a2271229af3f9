//! Sessions that break while the switch continues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Error, Mode, ReduceOp};
use netfold_control::MemberCounters;
use netfold_embedded::EmbeddedSwitch;
use netfold_testkit::wait::eventually;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::test_controller::TestController;
use super::{builder, job, tensor, wrong};

/// Long enough for tests on a loaded machine.
const GRACE: Duration = Duration::from_secs(60);

#[test]
fn a_tenant_is_admitted_only_with_its_token() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, Some("sesame"));
    let build = |builder: netfold::Builder| builder.tenant("acme", "sesame");
    job(2, controller.address(), build, |comm| {
        let mut sum = tensor(comm.rank(), 0, 5000);
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert_eq!(wrong(&sum, 2, 0), 0);
        comm.leave().unwrap();
    });
    for with in [None, Some("guess")] {
        let builder = builder(controller.address(), 0, 1);
        let builder = match with {
            Some(token) => builder.tenant("acme", token),
            None => builder,
        };
        let error = builder.connect().unwrap_err();
        let Error::Refused { reason, message, .. } = &error else { panic!("{error}") };
        assert_eq!((reason.name(), error.advice()), ("credentials", netfold::Advice::Stop));
        assert!(message.contains("administrator"), "{message}");
    }
}

#[test]
fn heartbeats_report_what_was_reduced_and_sent() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let bytes = 3 * 5000 * 4;
    let complete = |counters: &MemberCounters| counters.tensor_bytes == bytes;
    job(
        2,
        controller.address(),
        |builder| builder.mode(Mode::Bfp16),
        |comm| {
            for step in 0..3 {
                let mut sum = tensor(comm.rank(), step, 5000);
                comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            }
            comm.barrier().unwrap();
            eventually("both ranks report all tensors", || {
                controller.reports().iter().filter(|counters| complete(counters)).count() >= 2
            });
            comm.leave().unwrap();
        },
    );
    for counters in controller.reports() {
        assert!(
            counters.may_follow(&MemberCounters::default()) && counters.tensor_bytes <= bytes,
            "{counters:?}"
        );
        if complete(&counters) {
            let sent = counters.packets_sent - counters.packets_retransmitted;
            assert!(counters.results_received > 20 && sent >= counters.results_received, "{counters:?}");
        }
    }
}

/// All-reduces of several lengths until `over` is set, the same number on all ranks; returns the numbers of operations and of wrong
/// elements.
fn work(comm: &netfold::Communicator, over: &AtomicBool) -> (usize, usize) {
    let (rank, world) = (comm.rank(), comm.world_size());
    let mut wrongs = 0;
    for step in 0.. {
        let mut sum = tensor(rank, step, [3, 1000, 40_000][step % 3]);
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        wrongs += wrong(&sum, world, step);
        let mut stop = [i32::from(over.load(Ordering::Relaxed))];
        comm.all_reduce(&mut stop, ReduceOp::Max).unwrap();
        if stop[0] == 1 {
            return (step, wrongs);
        }
    }
    unreachable!("the loop has no end")
}

/// What a thread that disturbs a job knows of its ranks.
#[derive(Default)]
struct Ranks {
    begun: AtomicBool,
    ended: AtomicBool,
}

impl Ranks {
    /// On every rank: all ranks have received their admissions. A rank that loses its own cannot enter the job that the others are in.
    fn begin(&self, comm: &netfold::Communicator) {
        comm.barrier().unwrap();
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Waits until all ranks have begun, or one has failed.
    fn wait_until_begun(&self) {
        while !self.begun.load(Ordering::Relaxed) && self.run() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn run(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }
}

/// Ends the wait of threads beside ranks that have ended or panicked.
struct EndOnDrop<'a>(&'a Ranks);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_controller_that_fails_fifty_times_disturbs_no_job() {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let (over, ranks) = (AtomicBool::new(false), Ranks::default());
    let done = thread::scope(|scope| {
        let _ended = EndOnDrop(&ranks);
        scope.spawn(|| {
            ranks.wait_until_begun();
            for _ in 0..50 {
                let before = controller.resumed();
                controller.fail();
                thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
                controller.restart();
                // Some failures come before all sessions are resumed.
                let wanted = before + rng.random_range(0..4);
                let restarted = Instant::now();
                while controller.resumed() < wanted && restarted.elapsed() < GRACE / 2 && ranks.run() {
                    thread::sleep(Duration::from_micros(200));
                }
                thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
            }
            over.store(true, Ordering::Relaxed);
        });
        job(
            3,
            controller.address(),
            |builder| builder,
            |comm| {
                ranks.begin(&comm);
                let done = work(&comm, &over);
                let control = comm.stats().control;
                assert!(control.breaks > 5 && control.switches_lost == 0, "{control:?}");
                comm.leave().unwrap();
                done
            },
        )
    });
    println!("{done:?} operations and wrong elements; {} resumptions", controller.resumed());
    assert!(done.iter().all(|(operations, wrong)| *operations > 10 && *wrong == 0), "{done:?}");
    assert!(controller.resumed() > 30, "{}", controller.resumed());
}

#[test]
fn connections_that_break_at_random_disturb_no_job() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let switch = EmbeddedSwitch::builder().start().unwrap();
        let controller = TestController::start(vec![switch.control()], GRACE, None);
        let (over, ranks) = (AtomicBool::new(false), Ranks::default());
        let done = thread::scope(|scope| {
            let _ended = EndOnDrop(&ranks);
            scope.spawn(|| {
                ranks.wait_until_begun();
                // On a loaded machine, until enough sessions were resumed.
                let mut cuts = 0;
                while (cuts < 40 || controller.resumed() <= 5) && ranks.run() {
                    thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
                    controller.cut(rng.random_range(0..8));
                    cuts += 1;
                }
                over.store(true, Ordering::Relaxed);
            });
            job(
                2,
                controller.address(),
                |builder| builder,
                |comm| {
                    ranks.begin(&comm);
                    let done = work(&comm, &over);
                    comm.leave().unwrap();
                    done
                },
            )
        });
        assert!(done.iter().all(|(_, wrong)| *wrong == 0), "{done:?}");
        assert!(controller.resumed() > 5, "{}", controller.resumed());
    }
}

/// The whole job leaves while the controller is away: all ranks wait, and leave gracefully when it is back.
#[test]
fn ranks_leave_gracefully_while_the_controller_is_away() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    job(
        2,
        controller.address(),
        |builder| builder,
        |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                controller.fail();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_millis(700));
                        controller.restart();
                    });
                    comm.leave().unwrap();
                });
            } else {
                // Dropped, at another time.
                thread::sleep(Duration::from_millis(300));
                drop(comm);
            }
        },
    );
    // The switch was notified of both, and admits a job of the same name before the grace period is over.
    let started = Instant::now();
    let again = || builder(controller.address(), 0, 1).connect();
    while let Err(error) = again() {
        assert!(matches!(&error, Error::Refused { reason, .. } if reason.name() == "job_running"), "{error}");
        assert!(started.elapsed() < GRACE / 2, "{:?}", started.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
}

/// If the controller stays away, the switch is lost when the grace period is over.
#[test]
fn a_controller_that_stays_away_is_an_error_after_the_grace_period() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let grace = Duration::from_secs(1);
    let controller = TestController::start(vec![switch.control()], grace, None);
    let kinds = job(
        2,
        controller.address(),
        |builder| builder,
        |comm| {
            // Before the controller fails, so that the bound below holds whenever this thread runs.
            let started = Instant::now();
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                controller.fail();
            }
            let mut sum = vec![1.0f32; 1000];
            let error = loop {
                if let Err(error) = comm.all_reduce(&mut sum, ReduceOp::Sum) {
                    break error;
                }
            };
            assert!(started.elapsed() > grace / 2, "operations continue during the grace period");
            (error.kind(), error.advice())
        },
    );
    for (kind, advice) in kinds {
        // The slower rank may be notified of the other's end.
        assert!(["switch_lost", "peer_lost", "rejected"].contains(&kind), "{kind}");
        assert_ne!(advice, netfold::Advice::Stop);
    }
}
