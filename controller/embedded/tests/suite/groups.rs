//! Groups of a job through a switch: split, named, left, lost, and what they leave behind.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use netfold::{Builder, Communicator, Network, ReduceOp};
use netfold_controller::JobEvent;
use netfold_embedded::EmbeddedSwitch;
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;
use netfold_testkit::process;
use netfold_testkit::wait::eventually;

use crate::TIMEOUT;

fn builder(switch: SocketAddr, (rank, world): (u16, u16), at: SocketAddr) -> Builder {
    Communicator::builder()
        .job("groups")
        .rank(rank)
        .world_size(world)
        .slots(16)
        .join_timeout(TIMEOUT)
        .stall_timeout(TIMEOUT)
        .shared_memory(false)
        .switch(switch)
        .unwrap()
        .rendezvous(at)
        .unwrap()
}

/// Runs `rank` on every rank of a job of threads at a switch.
fn job<R: Send>(world: u16, switch: SocketAddr, rank: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    let at = vacant_address().unwrap();
    on_all_ranks(world, |number| rank(builder(switch, (number, world), at).connect().unwrap()))
}

fn through_switch(comm: &Communicator) {
    let path = comm.path();
    assert!(matches!(path.network, Network::Switch { .. }), "{path}");
}

/// Sums over a group, five times, and checks each.
fn check(group: &Communicator, members: &[u16]) {
    let mine = members[usize::from(group.rank())];
    for step in 0..5u16 {
        let mut sums: Vec<f32> = (0..1000u16).map(|index| f32::from(mine * 3 + step + index % 101)).collect();
        group.all_reduce(&mut sums, ReduceOp::Sum).unwrap();
        for (index, sum) in (0..1000u16).zip(&sums) {
            let expected: u16 = members.iter().map(|rank| rank * 3 + step + index % 101).sum();
            assert_eq!(*sum, f32::from(expected), "element {index} of step {step}");
        }
    }
}

/// Rows and columns of a 2 x 2 grid, and a group within a row: each has slots of its own, under the name of the one job.
#[test]
fn groups_of_a_split_use_the_switch_as_groups_of_their_job() {
    let started = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&started);
    let note = move |event: &JobEvent| {
        if let JobEvent::Started { name, group, spec, .. } = event {
            log.lock().unwrap().push((name.to_string(), group.clone(), spec.world));
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    job(4, switch.control(), |comm| {
        let (row, column) = (comm.rank() / 2, comm.rank() % 2);
        let rows = comm.split(Some(row.into()), 0).unwrap().expect("a row").connect().unwrap();
        // Numbered from the last row to the first.
        let columns = comm.split(Some(column.into()), -i32::from(row)).unwrap().expect("a column");
        let columns = columns.connect().unwrap();
        let nested = rows.split((row == 1).then_some(7), 0).unwrap();
        assert_eq!(nested.is_some(), row == 1);
        let nested = nested.map(|builder| builder.connect().unwrap());
        through_switch(&rows);
        check(&rows, &[2 * row, 2 * row + 1]);
        through_switch(&columns);
        check(&columns, &[2 + column, column]);
        if let Some(nested) = &nested {
            through_switch(nested);
            check(nested, &[2, 3]);
        }
        check(&comm, &[0, 1, 2, 3]);
        nested.into_iter().chain([columns, rows, comm]).for_each(|left| left.leave().unwrap());
    });
    let mut started = started.lock().unwrap().clone();
    started.sort();
    let of_job = |group: &str, world| ("groups".to_owned(), group.to_owned(), world);
    let expected = [
        of_job("", 4),
        of_job("1.0", 2),
        of_job("1.1", 2),
        of_job("1.1:1.7", 2),
        of_job("2.0", 2),
        of_job("2.1", 2),
    ];
    assert_eq!(started, expected);
}

/// The ranks of a group that the caller names find each other as those of a job do.
#[test]
fn a_group_has_the_name_that_its_builder_gives() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&names);
    let note = move |event: &JobEvent| {
        if let JobEvent::Started { group, .. } = event {
            log.lock().unwrap().push(group.clone());
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    let at = vacant_address().unwrap();
    job(2, switch.control(), |comm| {
        let place = (1 - comm.rank(), 2);
        let group = builder(switch.control(), place, at).group("tensor parallel").connect().unwrap();
        through_switch(&group);
        check(&group, &[0, 1]);
        group.leave().unwrap();
        comm.leave().unwrap();
    });
    assert_eq!(*names.lock().unwrap(), ["", "tensor parallel"]);
    for wrong in ["", "a/b", &"x".repeat(65)] {
        let error = builder(switch.control(), (0, 1), at).group(wrong).connect().unwrap_err();
        assert_eq!(error.kind(), "argument", "{error}");
    }
}

/// Ranks that give one group different sizes or names.
#[test]
fn members_that_disagree_about_their_group_are_named() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    for (sizes, names, what) in
        [([2, 3], ["tp", "tp"], "refused rank 1: it expects 2 ranks"), ([2, 2], ["tp", "dp"], "dp")]
    {
        let at = vacant_address().unwrap();
        let errors = on_all_ranks(2, |rank| {
            let world = sizes[usize::from(rank)];
            let build = builder(switch.control(), (rank, world), at).group(names[usize::from(rank)]);
            build.join_timeout(Duration::from_secs(2)).connect().unwrap_err()
        });
        let chain = |error: &netfold::Error| {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(next) = cause {
                text = format!("{text}: {next}");
                cause = next.source();
            }
            text
        };
        let texts: Vec<String> = errors.iter().map(chain).collect();
        assert!(texts.iter().any(|text| text.contains(what)), "{texts:?}");
    }
}

/// What a process holds: threads, then open descriptors.
fn held() -> [usize; 2] {
    let count = |folder: &str| std::fs::read_dir(Path::new("/proc/self").join(folder)).unwrap().count();
    [count("task"), count("fd")]
}

/// A group that loses a member ends, one that is in use when it is aborted too; their job goes on, and nothing is left.
#[test]
fn groups_that_are_lost_or_destroyed_in_use_leave_nothing() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let barrier = Barrier::new(3);
    job(3, switch.control(), |comm| {
        let lost = comm.split(Some(0), 0).unwrap().unwrap().connect().unwrap();
        let aborted = comm.split(Some(0), 0).unwrap().unwrap().connect().unwrap();
        through_switch(&lost);
        through_switch(&aborted);
        barrier.wait();
        let pending = aborted.all_reduce_async(vec![1.0f32; 100_000], ReduceOp::Sum).unwrap();
        if comm.rank() == 2 {
            lost.abort();
            aborted.abort();
            drop(pending);
        } else {
            let error = lost.all_reduce(&mut [1.0f32; 1000], ReduceOp::Sum).unwrap_err();
            assert_eq!((error.kind(), error.peer()), ("peer_lost", Some(2)), "{error}");
            // It may have been over before it was aborted.
            if let Err(error) = pending.wait() {
                assert_eq!(error.kind(), "peer_lost", "{error}");
            }
        }
        drop((lost, aborted));
        check(&comm, &[0, 1, 2]);
        comm.leave().unwrap();
    });
    switch.stop().unwrap();
}

/// The variable that makes [`many_groups`] do its work, in a process whose threads and descriptors are its own.
const ALONE: &str = "NETFOLD_TEST_MANY_GROUPS";

#[test]
fn groups_that_are_left_leave_nothing() {
    let mut child = process::this_test("groups::many_groups");
    let status = child.env(ALONE, "1").status().unwrap();
    assert!(status.success(), "{status}");
}

/// Many splits after each other, of which as many groups are made: what the process holds does not grow.
#[test]
fn many_groups() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let rounds = if std::env::var_os("NETFOLD_LONG").is_some() { 1000 } else { 60 };
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let before = Mutex::new(None);
    let barrier = Barrier::new(2);
    job(2, switch.control(), |comm| {
        for round in 0..rounds {
            let group = comm.split(Some(round % 3), 0).unwrap().unwrap().connect().unwrap();
            through_switch(&group);
            let mut sum = [u64::from(comm.rank()) + 1; 3];
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(sum, [3; 3]);
            group.leave().unwrap();
            if round == 4 || round + 1 == rounds {
                barrier.wait();
                if comm.rank() == 0 {
                    let limit = *before.lock().unwrap().get_or_insert_with(held);
                    // Sessions of the last group may be about to end.
                    eventually("threads and descriptors are as many as before", || {
                        held().iter().zip(limit).all(|(now, before)| *now <= before)
                    });
                }
                barrier.wait();
            }
        }
        comm.leave().unwrap();
    });
    switch.stop().unwrap();
}

/// Names of groups in the order in which they were admitted and in which they ended; empty for their job.
#[derive(Default)]
struct Log {
    started: Vec<String>,
    ended: Vec<String>,
}

/// A switch of so many slots, and what it does.
fn logged(slots: u32) -> (EmbeddedSwitch, Arc<Mutex<Log>>) {
    let log = Arc::new(Mutex::new(Log::default()));
    let events = Arc::clone(&log);
    let note = move |event: &JobEvent| match event {
        JobEvent::Started { group, .. } => events.lock().unwrap().started.push(group.clone()),
        JobEvent::Ended { group, .. } => events.lock().unwrap().ended.push(group.clone()),
        _ => {}
    };
    (EmbeddedSwitch::builder().slots(slots).on_event(note).start().unwrap(), log)
}

/// A group of all ranks that is idle after so many milliseconds.
fn idle_group(comm: &Communicator, timeout_ms: u64) -> Communicator {
    let group = comm.split(Some(0), 0).unwrap().expect("a group of all ranks");
    group.idle_timeout(Duration::from_millis(timeout_ms)).connect().unwrap()
}

/// A group has slots from its first operation on, until it has had none for its idle timeout; and again from the next one on.
#[test]
fn groups_have_slots_while_they_are_used() {
    let (switch, log) = logged(512);
    let at = vacant_address().unwrap();
    let barrier = Barrier::new(3);
    let lists = || {
        let log = log.lock().unwrap();
        let group = |list: &[String]| list.iter().filter(|group| !group.is_empty()).count();
        (group(&log.started), group(&log.ended))
    };
    on_all_ranks(3, |rank| {
        let comm = builder(switch.control(), (rank, 3), at).connect().unwrap();
        let [group, unused] = [idle_group(&comm, 300), idle_group(&comm, 300)];
        for round in 0..3 {
            barrier.wait();
            assert_eq!((group.path().idle, group.attachments().len()), (vec![0], 0));
            assert_eq!(lists(), (round, round), "before the first operation, and after an idle time");
            barrier.wait();
            check(&group, &[0, 1, 2]);
            assert_eq!((group.path().idle, group.attachments().len()), (vec![], 1));
            eventually("the group has given its slots back", || {
                !group.path().idle.is_empty() && lists() == (round + 1, round + 1)
            });
            through_switch(&group);
            check(&comm, &[0, 1, 2]);
        }
        [unused, group, comm].into_iter().for_each(|left| left.leave().unwrap());
    });
    assert_eq!(log.lock().unwrap().started, ["", "1.0", "1.0", "1.0"]);
    switch.stop().unwrap();
}

/// Four times as many groups as the switch has slots for are used after each other.
#[test]
fn slots_of_idle_groups_are_for_others() {
    let (switch, log) = logged(128);
    let at = vacant_address().unwrap();
    on_all_ranks(2, |rank| {
        let comm = builder(switch.control(), (rank, 2), at).connect().unwrap();
        let groups: Vec<Communicator> = (0..32).map(|_| idle_group(&comm, 100)).collect();
        for group in &groups {
            check(group, &[0, 1]);
            through_switch(group);
            eventually("the group is idle", || !group.path().idle.is_empty());
        }
        groups.into_iter().chain([comm]).for_each(|left| left.leave().unwrap());
    });
    assert_eq!(log.lock().unwrap().started.len(), 33);
    switch.stop().unwrap();
}

/// Operations that begin about when the idle timeout is over, on some ranks before and on others after it.
#[test]
fn operations_that_begin_while_others_become_idle_are_right() {
    let (switch, log) = logged(512);
    let at = vacant_address().unwrap();
    on_all_ranks(3, |rank| {
        let comm = builder(switch.control(), (rank, 3), at).connect().unwrap();
        let group = idle_group(&comm, 60);
        for round in 0..40u64 {
            // Differs between ranks and rounds: 0 to 120 ms.
            let pause = (round * 7 + u64::from(rank) * 5 * (round % 4)) % 13 * 10;
            std::thread::sleep(Duration::from_millis(pause));
            // Executed by the engine's thread, which is idle meanwhile.
            let sum = group.all_reduce_async(vec![u64::from(rank) + round; 1000], ReduceOp::Sum).unwrap();
            let (sum, _) = sum.wait().unwrap();
            assert!(sum.iter().all(|sum| *sum == 3 + 3 * round), "round {round}: {:?}", &sum[..3]);
        }
        [group, comm].into_iter().for_each(|left| left.leave().unwrap());
    });
    assert!(log.lock().unwrap().started.len() > 3, "it has been idle");
    switch.stop().unwrap();
}

/// A group that gets no slots goes on among its ranks, and says why.
#[test]
fn a_group_without_room_at_its_first_operation_uses_a_ring() {
    let switch = EmbeddedSwitch::builder().slots(16).start().unwrap();
    let at = vacant_address().unwrap();
    on_all_ranks(2, |rank| {
        let comm = builder(switch.control(), (rank, 2), at).connect().unwrap();
        let group = comm.split(Some(0), 0).unwrap().unwrap().connect().unwrap();
        through_switch(&group);
        check(&group, &[0, 1]);
        assert!(matches!(group.path().network, Network::Ring { .. }), "{}", group.path());
        [group, comm].into_iter().for_each(|left| left.leave().unwrap());
    });
    switch.stop().unwrap();
}

/// The next operation is done among the ranks.
#[test]
fn a_switch_that_is_lost_while_a_group_is_idle_is_done_without() {
    let (switch, log) = logged(512);
    let control = switch.control();
    let switch = Mutex::new(Some(switch));
    let at = vacant_address().unwrap();
    let barrier = Barrier::new(2);
    on_all_ranks(2, |rank| {
        let comm = builder(control, (rank, 2), at).connect().unwrap();
        let group = idle_group(&comm, 100);
        check(&group, &[0, 1]);
        through_switch(&group);
        eventually("the group is idle", || !group.path().idle.is_empty());
        if barrier.wait().is_leader() {
            switch.lock().unwrap().take().unwrap().stop().unwrap();
        }
        barrier.wait();
        check(&group, &[0, 1]);
        let path = group.path();
        assert!(matches!(path.network, Network::Ring { .. }) && path.idle.is_empty(), "{path}");
        [group, comm].into_iter().for_each(|left| drop(left.leave()));
    });
    assert_eq!(log.lock().unwrap().started, ["", "1.0"]);
}
