//! Ranks whose switch is lost, refuses them, or serves one stream per host.

use std::net::SocketAddr;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use netfold::{Builder, Communicator, Error, Mode, Network, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{PacketIo, vacant_address};
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

/// Runs `rank` on every rank of a job of threads at a switch, each built by `build`.
fn job<R: Send>(
    world: u16,
    switch: SocketAddr,
    build: impl Fn(u16, Builder) -> Builder + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let at = vacant_address().unwrap();
    on_all_ranks(world, |number| {
        let builder = Communicator::builder()
            .job(format!("paths {}", at.port()))
            .rank(number)
            .world_size(world)
            .slots(64)
            .join_timeout(TIMEOUT)
            .stall_timeout(TIMEOUT)
            .switch(switch)
            .unwrap()
            .rendezvous(at)
            .unwrap();
        rank(build(number, builder).connect().unwrap())
    })
}

fn separate(_: u16, builder: Builder) -> Builder {
    builder.shared_memory(false)
}

/// Rank `rank`'s element `index` of operation `step`: whole numbers, so that sums are exact on every path.
fn value(rank: u16, step: usize, index: usize) -> f32 {
    (usize::from(rank) * 3 + step + index % 101) as f32
}

fn check(tensor: &[f32], world: u16, step: usize) {
    for (index, sum) in tensor.iter().enumerate() {
        let expected: f32 = (0..world).map(|rank| value(rank, step, index)).sum();
        assert_eq!(*sum, expected, "element {index} of operation {step}");
    }
}

/// Elements of a tensor, microseconds until the switch stops, classes, and the fraction of packets that are lost.
const SWITCH_LOSSES: [(usize, u64, u8, f64); 15] = [
    (200_000, 0, 1, 0.0),
    (200_000, 1500, 1, 0.0),
    (1_000_000, 4000, 1, 0.0),
    (3, 700, 1, 0.0),
    (40_000, 9000, 1, 0.0),
    (5000, 300, 1, 0.0),
    (200_000, 1500, 2, 0.0),
    (40_000, 9000, 4, 0.0),
    (700_000, 6000, 4, 0.0),
    (3, 700, 16, 0.0),
    (5000, 2000, 1, 0.1),
    (5000, 5000, 2, 0.1),
    (40_000, 9000, 1, 0.05),
    (40_000, 20_000, 4, 0.05),
    (1000, 1000, 1, 0.2),
];

/// The switch stops during a stream of operations of all kinds: none is lost, none is added twice, all ranks agree, and more
/// operations follow. If packets are lost too, chunks complete before their operation's first packet arrives.
#[test]
fn no_operation_is_lost_when_the_switch_is_lost_in_mid_operation() {
    for (round, (len, delay_us, classes, loss)) in (0..).zip(SWITCH_LOSSES) {
        let world = 3;
        let lossy =
            move |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(round, loss))) as Box<dyn PacketIo>);
        let switch = Mutex::new(Some(EmbeddedSwitch::builder().middleware(lossy).start().unwrap()));
        let address = switch.lock().unwrap().as_ref().unwrap().control();
        let build = |rank, builder| separate(rank, builder).classes(classes);
        let paths = job(world, address, build, |comm| {
            // Before any rank may stop the switch.
            assert_eq!(comm.path().network, Network::Switch { address: Some(address) });
            comm.barrier().unwrap();
            let stop = || {
                if comm.rank() == 0 {
                    thread::sleep(Duration::from_micros(delay_us));
                    drop(switch.lock().unwrap().take());
                }
            };
            thread::scope(|scope| {
                scope.spawn(stop);
                let handles: Vec<_> = (0..12)
                    .map(|step| {
                        let tensor: Vec<f32> =
                            (0..len).map(|index| value(comm.rank(), step, index)).collect();
                        let class = (step * 5 % usize::from(classes)) as u8;
                        comm.all_reduce_in_class(tensor, ReduceOp::Sum, class).unwrap()
                    })
                    .collect();
                let mut broadcast = vec![u64::from(comm.rank()) + 7; 1000];
                comm.broadcast(&mut broadcast, 2).unwrap();
                assert_eq!(broadcast, [9; 1000]);
                for (step, handle) in handles.into_iter().enumerate() {
                    check(&handle.wait().unwrap().0, world, step);
                }
            });
            let mut mean = vec![f32::from(comm.rank()); 500];
            comm.all_reduce(&mut mean, ReduceOp::Avg).unwrap();
            assert_eq!(mean, [1.0; 500]);
            let mut largest = vec![i32::from(comm.rank()); 5];
            comm.all_reduce(&mut largest, ReduceOp::Max).unwrap();
            assert_eq!(largest, [2; 5]);
            let mut part = [0.0f32; 10];
            comm.reduce_scatter(&[1.0; 30], &mut part, ReduceOp::Sum).unwrap();
            assert_eq!(part, [3.0; 10]);
            comm.barrier().unwrap();
            let path = comm.path();
            comm.leave().unwrap();
            path
        });
        for path in paths {
            assert_eq!(path.name(), "ring", "round {round}: {path}");
        }
    }
}

/// Without failover a lost switch is an error on every rank.
#[test]
fn a_lost_switch_is_an_error_without_failover() {
    let switch = Mutex::new(Some(EmbeddedSwitch::builder().start().unwrap()));
    let address = switch.lock().unwrap().as_ref().unwrap().control();
    let kinds = job(
        3,
        address,
        |rank, builder| separate(rank, builder).fall_back(false),
        |comm| {
            // Rank 1 may pass, and stop the switch, before the others are notified that all have arrived.
            if let Err(error) = comm.barrier() {
                return error.kind();
            }
            if comm.rank() == 1 {
                drop(switch.lock().unwrap().take());
            }
            let mut tensor = vec![1.0f32; 10_000];
            let error = (0..10_000).find_map(|_| comm.all_reduce(&mut tensor, ReduceOp::Sum).err());
            error.expect("the switch is lost").kind()
        },
    );
    for kind in kinds {
        assert!(["switch_lost", "rejected", "refused"].contains(&kind), "{kind}");
    }
}

/// A lost rank is always an error, and the others can continue as a smaller job on the same switch.
#[test]
fn a_lost_rank_is_named_and_the_others_form_a_smaller_job() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let errors: Vec<Option<Error>> = job(3, switch.control(), separate, |comm| {
        let met = comm.barrier();
        if comm.rank() == 1 {
            comm.abort();
            return None;
        }
        // Rank 1 may be lost before the others are notified that all have arrived.
        if let Err(error) = met {
            return Some(error);
        }
        let mut tensor = vec![1.0f32; 100_000];
        let error = (0..10_000).find_map(|_| comm.all_reduce(&mut tensor, ReduceOp::Sum).err());
        Some(error.expect("a rank is lost"))
    });
    for error in errors.into_iter().flatten() {
        assert_eq!((error.kind(), error.peer()), ("peer_lost", Some(1)), "{error}");
    }
    job(2, switch.control(), separate, |comm| {
        let mut tensor = [1.0f32; 10];
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        assert_eq!((tensor, comm.path().name()), ([2.0; 10], "switch"));
        comm.leave().unwrap();
    });
}

/// One rank leaves gracefully while the others continue: they get an error that names it, and finished operations stay finished.
#[test]
fn ranks_that_continue_get_an_error_that_names_the_one_that_left() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let at = switch.control();
    let rank_0_closed = &Barrier::new(2);
    let errors: Vec<Option<Error>> = thread::scope(|scope| {
        let ranks: Vec<_> = (0..3u16)
            .map(|rank| {
                scope.spawn(move || {
                    let builder = Communicator::builder().job("early").rank(rank).world_size(3).slots(64);
                    let comm = builder.switch(at).unwrap().connect().unwrap();
                    let mut tensor = vec![1.0f32; 10_000];
                    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                    assert_eq!(tensor, [3.0; 10_000]);
                    if rank == 2 {
                        comm.leave().unwrap();
                        return None;
                    }
                    // Rank 0's session is closed before rank 1 begins: its error must name rank 2 nevertheless.
                    if rank == 1 {
                        rank_0_closed.wait();
                    }
                    let error = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap_err();
                    drop(comm);
                    if rank == 0 {
                        rank_0_closed.wait();
                    }
                    Some(error)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    for error in errors.into_iter().flatten() {
        assert_eq!((error.kind(), error.peer()), ("peer_lost", Some(2)), "{error}");
    }
}

/// Ranks that disagree on the number of classes would use each other's slots.
#[test]
fn different_numbers_of_classes_are_refused() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let at = switch.control();
    let kinds: Vec<_> = thread::scope(|scope| {
        let rank = |rank: u16| {
            let builder = Communicator::builder().job("classes").rank(rank).world_size(2);
            let builder =
                builder.slots(if rank == 0 { 64 } else { 32 }).classes(if rank == 0 { 1 } else { 2 });
            let builder = builder.join_timeout(Duration::from_secs(1)).switch(at).unwrap();
            builder.connect().map(drop).unwrap_err()
        };
        let ranks: Vec<_> = (0..2u16).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(
        kinds.iter().any(|error: &Error| error.to_string().contains("classes of operations")),
        "{kinds:?}"
    );
    let at = vacant_address().unwrap();
    thread::scope(|scope| {
        for rank in 0..2u16 {
            scope.spawn(move || {
                let builder =
                    Communicator::builder().job("classes").rank(rank).world_size(2).rendezvous(at).unwrap();
                let error = builder.classes(1 + u8::try_from(rank).unwrap()).connect().map(drop).unwrap_err();
                assert!(error.to_string().contains("classes"), "{error}");
            });
        }
    });
}

/// Hosts do small all-reduces among themselves if configured so: exactly, and without the switch.
#[test]
fn small_tensors_are_summed_between_hosts_if_configured() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let build = |rank, builder| separate(rank, builder).mode(Mode::Bfp16).small(400);
    job(3, switch.control(), build, |comm| {
        let mut tensor = [0.1f32, 1e-9, 1e9].repeat(33);
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        // Magnitudes within one block differ widely, and none is lost.
        for (sum, contribution) in tensor.iter().zip([0.1f32, 1e-9, 1e9].iter().cycle()) {
            assert!((sum / contribution - 3.0).abs() < 1e-6, "{sum}");
        }
        assert_eq!(comm.path().name(), "switch");
        comm.leave().unwrap();
    });
    assert_eq!(switch.counters().unwrap().results, 0);
    job(3, switch.control(), build, |comm| {
        let mut tensor = vec![1.0f32; 101];
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        assert_eq!(tensor, [3.0; 101]);
        comm.leave().unwrap();
    });
    assert!(switch.counters().unwrap().results > 0, "larger ones use the switch");
}

/// Four ranks on two hosts: the switch sees two workers.
#[test]
fn a_host_sends_one_stream() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    for mode in [Mode::Bfp32, Mode::Bfp16] {
        let before = switch.counters().unwrap();
        job(
            4,
            switch.control(),
            |rank, builder| builder.mode(mode).host(format!("host {}", rank / 2)),
            |comm| {
                let path = comm.path();
                assert_eq!((path.name(), path.hosts, path.shared), ("switch", 2, 2), "{path}");
                let len = 700_000;
                let mut tensor: Vec<f32> = (0..len).map(|index| (index % 64) as f32).collect();
                comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                for (index, sum) in tensor.iter().enumerate() {
                    let error = (sum - 4.0 * (index % 64) as f32).abs();
                    assert!(error <= 0.1, "element {index} is {sum}");
                }
                let mut mean = vec![f32::from(comm.rank()); 10];
                comm.all_reduce(&mut mean, ReduceOp::Avg).unwrap();
                assert!(mean.iter().all(|mean| (mean - 1.5).abs() < 1e-3), "{mean:?}");
                let mut sums = vec![i64::from(comm.rank()) << 40; 9];
                comm.all_reduce(&mut sums, ReduceOp::Sum).unwrap();
                assert_eq!(sums, [6 << 40; 9]);
                comm.barrier().unwrap();
                comm.leave().unwrap();
            },
        );
        let results = switch.counters().unwrap().results - before.results;
        let chunks = 700_000 / if mode == Mode::Bfp16 { 704 } else { 352 };
        assert!((chunks..2 * chunks + 5000).contains(&results), "{results} results of {chunks} chunks");
    }
}

/// Two hosts of two ranks lose their switch.
#[test]
fn hosts_of_several_ranks_continue_without_their_switch() {
    let switch = Mutex::new(Some(EmbeddedSwitch::builder().start().unwrap()));
    let address = switch.lock().unwrap().as_ref().unwrap().control();
    job(
        4,
        address,
        |rank, builder| builder.host(format!("host {}", rank / 2)),
        |comm| {
            comm.barrier().unwrap();
            for step in 0..30 {
                if step == 5 && comm.rank() == 3 {
                    drop(switch.lock().unwrap().take());
                }
                let mut tensor: Vec<f32> = (0..50_000).map(|index| value(comm.rank(), step, index)).collect();
                comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                check(&tensor, 4, step);
            }
            comm.barrier().unwrap();
        },
    );
}

/// More ranks than the switch has slots for: every rank takes the ring, for the same reason.
#[test]
fn a_refusal_is_explained_on_every_rank() {
    let switch = EmbeddedSwitch::builder().slots(16).start().unwrap();
    let other = {
        let switch = switch.control();
        thread::spawn(move || {
            let builder = Communicator::builder().job("first").rank(0).world_size(1).slots(16);
            builder.switch(switch).unwrap().connect().unwrap()
        })
        .join()
        .unwrap()
    };
    let paths = job(2, switch.control(), separate, |comm| {
        let mut tensor = [1.0f32; 10];
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        assert_eq!(tensor, [2.0; 10]);
        comm.path()
    });
    assert_eq!(paths[0], paths[1]);
    let Network::Ring { reason } = &paths[0].network else { panic!("{}", paths[0]) };
    assert!(reason.contains("slots"), "{reason}");
    drop(other);
}
