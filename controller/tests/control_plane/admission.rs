//! Admission and the executor together, on a fake switch and under the test's clock.

use crate::bench::{Bench, FLOOR, config, join};
use crate::fake::Fake;
use netfold_control::{Admission, Join, Mode, Refusal, SessionRequest};
use netfold_controller::jobs::{EndReason, JobEvent};
use std::time::Duration;

fn bench() -> Bench {
    Bench::new(Fake::new(1024, 64, 16), config())
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_members_get_the_same_admission_once_all_are_in() {
    let mut bench = bench();
    let members = bench.join_all("demo", 4, 5000);
    assert!(bench.received[&members[0]].is_untouched(), "not before the switch is ready");
    bench.run_tasks();
    let admission = bench.received[&members[0]].admission().unwrap().clone();
    for (rank, id) in members.iter().enumerate() {
        let own = Admission { own_bit: 1 << rank, ..admission.clone() };
        assert_eq!(bench.received[id].admission(), Some(&own), "the same but for its own bit");
    }
    assert_eq!((admission.job, admission.epoch, admission.slots), (1, FLOOR, 256));
    assert_eq!((admission.lane_words, admission.udp_port, admission.first_chunk), (352, 20038, 1));
    assert_ne!(admission.key, 0);
    {
        let switch = bench.fake.lock();
        let ranks: Vec<_> =
            switch.admitted().iter().map(|entry| (entry.bit, entry.others, entry.world)).collect();
        assert_eq!(ranks, [(1, 14, 4), (2, 13, 4), (4, 11, 4), (8, 7, 4)]);
        let ports: Vec<_> = switch.ports.values().map(|peer| peer.port()).collect();
        assert_eq!(ports, [5000, 5001, 5002, 5003]);
        assert_eq!(switch.groups[&1].len(), 4);
    }
    bench.finish();
}

#[test]
fn members_leave_gracefully_one_by_one() {
    let mut bench = bench();
    let members = bench.start("demo", 3, 5000);
    for (left, id) in members.iter().enumerate() {
        bench.say(*id, SessionRequest::Leave {});
        bench.run_tasks();
        assert!(bench.received[id].closed && bench.received[id].lost().is_none());
        let rest = 2 - left;
        assert_eq!(bench.closed(&members).len(), left + 1);
        assert_eq!(bench.fake.lock().admitted().len(), rest);
        assert_eq!(bench.fake.lock().ports.len(), rest);
    }
    assert_eq!(bench.ends(), [&EndReason::Finished]);
    assert!(bench.fake.lock().is_empty() && bench.coordinator.is_unused());
    bench.finish();
}

#[test]
fn a_lost_member_ends_its_job_and_no_other() {
    let mut bench = bench();
    let a = bench.start("a", 3, 5000);
    let b = bench.start("b", 2, 6000);
    bench.drop_session(a[1]);
    assert_eq!(bench.received[&a[0]].lost(), Some(1));
    assert_eq!(bench.received[&a[2]].lost(), Some(1));
    assert!(
        bench.received[&a[0]].text().contains("rank 1 of job 'a' closed"),
        "{}",
        bench.received[&a[0]].text()
    );
    assert_eq!(bench.closed(&a).len(), 3);
    assert_eq!(bench.closed(&b).len(), 0);
    bench.run_tasks();
    assert_eq!(bench.fake.lock().admitted().len(), 2);
    // The same name, the same endpoints, at once.
    let again = bench.start("a", 3, 5000);
    let admission = bench.received[&again[0]].admission().unwrap();
    assert_eq!((admission.job, admission.epoch), (3, FLOOR + 2));
    bench.finish();
}

#[test]
fn a_silent_member_is_lost_after_the_lease() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    for _ in 0..10 {
        bench.pass(SECOND / 2);
        bench.say(members[0], SessionRequest::ALIVE);
        if bench.now < 7 * SECOND {
            bench.say(members[1], SessionRequest::ALIVE);
        }
    }
    assert_eq!(bench.received[&members[0]].lost(), Some(1));
    assert_eq!(
        bench.received[&members[1]].lost(),
        Some(1),
        "the event is sent if the connection still works"
    );
    assert!(bench.received[&members[0]].text().contains("no heartbeat"));
    bench.finish();
}

#[test]
fn a_pause_of_the_control_plane_begins_every_lease_anew() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    // Neither it nor the workers ran meanwhile.
    bench.now += 10 * SECOND;
    bench.act(|coordinator, now| {
        coordinator.note_pause(now);
        coordinator.handle_timeout(now);
    });
    bench.pass(SECOND * 29 / 10);
    assert!(members.iter().all(|id| !bench.received[id].closed));
    bench.pass(SECOND / 5);
    assert!(members.iter().all(|id| bench.received[id].closed));
    bench.finish();
}

#[test]
fn a_waiting_worker_need_not_send_heartbeats_but_receives_them() {
    let mut bench = bench();
    let first = bench.join("demo", 0, 2, 5000);
    bench.pass(10 * SECOND);
    assert!(bench.received[&first].is_untouched());
    assert!(
        (18..=20).contains(&bench.received[&first].events.len()),
        "{:?}",
        bench.received[&first].events.len()
    );
    bench.join("demo", 1, 2, 5001);
    bench.run_tasks();
    assert!(bench.received[&first].admission().is_some());
    bench.pass(SECOND * 29 / 10);
    assert!(!bench.received[&first].closed, "the lease begins with the admission");
    bench.pass(SECOND / 5);
    assert!(bench.received[&first].closed);
    bench.finish();
}

#[test]
fn missing_ranks_are_named() {
    let mut bench = bench();
    let ids = [bench.join("demo", 0, 4, 5000), bench.join("demo", 2, 4, 5002)];
    bench.pass(29 * SECOND);
    assert!(bench.received[&ids[0]].is_untouched());
    bench.pass(2 * SECOND);
    for id in &ids {
        assert_eq!(bench.received[id].refusal(), Some(Refusal::PeersMissing));
        assert!(
            bench.received[id].text().contains("ranks 1, 3 of job 'demo'"),
            "{}",
            bench.received[id].text()
        );
    }
    assert!(bench.fake.lock().calls == 0);
    bench.finish();
}

#[test]
fn a_waiting_worker_may_go_and_come_again() {
    let mut bench = bench();
    let first = bench.join("demo", 0, 2, 5000);
    let second = bench.join("demo", 0, 2, 5001);
    assert_eq!(bench.received[&second].refusal(), Some(Refusal::RankTaken));
    bench.drop_session(first);
    let third = bench.join("demo", 0, 2, 5000);
    let fourth = bench.join("demo", 1, 2, 5001);
    bench.run_tasks();
    assert!(bench.received[&third].admission().is_some() && bench.received[&fourth].admission().is_some());
    let late = bench.join("demo", 0, 2, 5002);
    assert_eq!(bench.received[&late].refusal(), Some(Refusal::JobRunning));
    assert_eq!(bench.closed(&[third, fourth]).len(), 0);
    bench.finish();
}

/// A join that differs from what the first member said in its rank and port alone.
struct Ask {
    job: String,
    rank: u16,
    world: u16,
    mode: Mode,
    slots: u32,
    classes: u8,
    udp_port: u16,
    version: u8,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            job: "demo".into(),
            rank: 1,
            world: 2,
            mode: Mode::Bfp16,
            slots: 256,
            classes: 1,
            udp_port: 5001,
            version: netfold_wire::VERSION,
        }
    }
}

#[test]
fn every_mismatch_is_refused_with_a_message_and_affects_no_other_member() {
    let mut bench = bench();
    let first = bench.join("demo", 0, 2, 5000);
    let mut refused = |change: fn(&mut Ask), want: Refusal, text: &str| {
        let mut ask = Ask::default();
        change(&mut ask);
        let Ask { job, rank, world, mode, slots, classes, udp_port, version } = ask;
        let id = bench.open().unwrap();
        let join = Join { version, classes, ..Join::new(job, (rank, world), mode, slots, udp_port) };
        bench.say(id, SessionRequest::Join(join));
        assert_eq!(bench.received[&id].refusal(), Some(want), "{text}");
        assert!(
            bench.received[&id].closed && bench.received[&id].text().contains(text),
            "{}",
            bench.received[&id].text()
        );
    };
    refused(|ask| ask.version = 9, Refusal::Version, "version 9");
    refused(|ask| ask.job = String::new(), Refusal::Argument, "0 bytes");
    refused(|ask| ask.job = "x".repeat(65), Refusal::Argument, "65 bytes");
    refused(|ask| ask.job = "a\u{1b}[2J".into(), Refusal::Argument, "control characters");
    refused(|ask| ask.rank = 2, Refusal::Argument, "ranks are 0 to 1");
    refused(|ask| ask.world = 0, Refusal::Argument, "1 to 32");
    refused(|ask| ask.world = 33, Refusal::Argument, "1 to 32");
    refused(|ask| ask.world = 3, Refusal::WorldMismatch, "has 2 workers");
    refused(|ask| ask.mode = Mode::I32, Refusal::ModeMismatch, "mode bfp16");
    refused(
        |ask| ask.mode = Mode::Wide,
        Refusal::Numerics,
        "give mode i32, bfp32 or bfp16, or start the switch with --numerics wide",
    );
    refused(|ask| ask.slots = 0, Refusal::Argument, "power of two");
    refused(|ask| ask.slots = 100, Refusal::Argument, "power of two");
    refused(|ask| ask.slots = 128, Refusal::Argument, "asks for 256 slots");
    refused(|ask| ask.classes = 3, Refusal::Argument, "3 classes in");
    refused(|ask| ask.classes = 0, Refusal::Argument, "0 classes in");
    refused(|ask| ask.classes = 32, Refusal::Argument, "at most 16");
    refused(|ask| ask.classes = 2, Refusal::Argument, "has 1 classes of operations and this worker 2");
    refused(|ask| ask.udp_port = 0, Refusal::Argument, "UDP port 0");
    refused(|ask| ask.udp_port = 5000, Refusal::Argument, "127.0.0.1:5000");
    refused(|ask| ask.rank = 0, Refusal::RankTaken, "rank 0");
    assert!(bench.received[&first].is_untouched());
    bench.join("demo", 1, 2, 5001);
    bench.run_tasks();
    assert!(bench.received[&first].admission().is_some());
    bench.finish();
}

#[test]
fn requests_out_of_order_end_the_session() {
    let mut bench = bench();
    let early = bench.open().unwrap();
    bench.say(early, SessionRequest::ALIVE);
    assert_eq!(bench.received[&early].refusal(), Some(Refusal::Protocol));
    let mute = bench.open().unwrap();
    bench.pass(4 * SECOND);
    assert_eq!(bench.received[&mute].refusal(), Some(Refusal::Protocol));
    let members = bench.start("demo", 2, 5000);
    bench.say(members[0], join("other", 0, 2, 5000));
    assert_eq!(bench.received[&members[0]].refusal(), Some(Refusal::Protocol));
    assert_eq!(bench.received[&members[1]].lost(), Some(0));
    let flood = bench.join("flood", 0, 2, 7000);
    (0..300).for_each(|_| bench.say(flood, SessionRequest::ALIVE));
    assert_eq!(bench.received[&flood].refusal(), Some(Refusal::Protocol));
    bench.finish();
}

#[test]
fn limits_refuse_and_free_again() {
    let mut config = config();
    (config.sessions_max, config.jobs_max, config.pending_joins_max) = (5, 2, 3);
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config);
    let a = bench.start("a", 2, 5000);
    let waiting = bench.join("b", 0, 4, 6000);
    let third = bench.join("c", 0, 2, 7000);
    assert_eq!(bench.received[&third].refusal(), Some(Refusal::Busy), "two jobs are the limit");
    bench.join("b", 1, 4, 6001);
    let open = bench.open().unwrap();
    assert_eq!(bench.open().unwrap_err().reason, Refusal::Busy, "five sessions are the limit");
    bench.drop_session(open);
    bench.drop_session(a[0]);
    bench.run_tasks();
    bench.join("b", 2, 4, 6002);
    let fourth = bench.join("b", 3, 4, 6003);
    assert_eq!(bench.received[&fourth].refusal(), Some(Refusal::Busy), "three waiting workers are the limit");
    assert!(bench.received[&waiting].is_untouched());
    bench.finish();
}

#[test]
fn slots_are_shared_out_and_refused_when_gone() {
    let mut bench = Bench::new(Fake::new(288, 64, 16), config());
    let a = bench.start("a", 2, 5000);
    let b = bench.start("b", 2, 6000);
    let c = bench.start("c", 2, 7000);
    let granted =
        |bench: &Bench, ids: &[_]| bench.received[&ids[0]].admission().map(|admission| admission.slots);
    assert_eq!((granted(&bench, &a), granted(&bench, &b)), (Some(256), Some(32)));
    assert_eq!(bench.received[&c[1]].refusal(), Some(Refusal::Slots));
    assert!(bench.received[&c[0]].text().contains("16 slots"), "{}", bench.received[&c[0]].text());
    bench.finish();
}

#[test]
fn a_job_waits_for_the_place_of_one_that_is_over() {
    let mut bench = Bench::new(Fake::new(256, 4, 1), config());
    let a = bench.start("a", 4, 5000);
    let first = bench.received[&a[0]].admission().unwrap().epoch;
    bench.drop_session(a[3]);
    // The withdrawal is under way; the workers come back with the same name and ports.
    let b = bench.join_all("a", 4, 5000);
    assert!(b.iter().all(|id| bench.received[id].is_untouched()));
    bench.run_tasks();
    let second = bench.received[&b[0]].admission().unwrap();
    assert_eq!(second.slots, 256);
    // That its first chunk is newer than all that its slots hold is asserted at each start.
    assert!(second.epoch > first);
    bench.finish();
}

#[test]
fn a_job_does_not_wait_for_ever() {
    let mut bench = Bench::new(Fake::new(256, 8, 4), config());
    let a = bench.start("a", 4, 5000);
    bench.fake.lock().failing = Box::new(|_| true);
    bench.drop_session(a[3]);
    let b = bench.join_all("b", 4, 6000);
    for _ in 0..40 {
        bench.run_tasks();
        bench.pass(SECOND);
    }
    assert!(b.iter().all(|id| bench.received[id].refusal() == Some(Refusal::Slots)));
    let failures = bench.log.iter().filter(|event| matches!(event, JobEvent::SwitchFailed { .. })).count();
    assert!((5..20).contains(&failures), "backs off: {failures} attempts in 40 s");
    bench.finish();
}

#[test]
fn a_member_lost_while_the_switch_is_set_up() {
    let mut bench = bench();
    let members = bench.join_all("demo", 3, 5000);
    bench.drop_session(members[2]);
    assert_eq!(bench.received[&members[0]].refusal(), Some(Refusal::PeersMissing));
    assert_eq!(bench.closed(&members).len(), 3);
    bench.run_tasks();
    assert!(bench.coordinator.is_unused() && bench.fake.lock().is_empty());
    bench.finish();
}

#[test]
fn any_failing_call_refuses_the_job_and_leaks_nothing() {
    // A job of three is installed in this many calls, and withdrawn in as many again at most.
    let calls = {
        let mut bench = bench();
        bench.start("demo", 3, 5000);
        let calls = bench.fake.lock().calls;
        bench.finish();
        calls
    };
    assert!(calls >= 6);
    for first in 1..=calls {
        for count in 1..=3 {
            let mut bench = bench();
            let other = bench.start("other", 2, 6000);
            let base = bench.fake.lock().calls;
            bench.fake.lock().failing = Box::new(move |call| (first..first + count).contains(&(call - base)));
            let members = bench.start("demo", 3, 5000);
            for id in &members {
                assert_eq!(bench.received[id].refusal(), Some(Refusal::Busy), "call {first}");
                assert!(
                    bench.received[id].text().contains("the table is full"),
                    "{}",
                    bench.received[id].text()
                );
            }
            bench.fake.lock().failing = Box::new(|_| false);
            bench.pass(SECOND);
            bench.run_tasks();
            assert_eq!(bench.closed(&other).len(), 0, "the other job is untouched");
            let again = bench.start("demo", 3, 5000);
            assert!(bench.received[&again[0]].admission().is_some());
            bench.finish();
        }
    }
}

#[test]
fn any_failing_call_of_a_withdrawal_is_made_up_for() {
    for leave_first in [false, true] {
        for failing in 1..=12 {
            let mut bench = bench();
            let members = bench.start("demo", 3, 5000);
            let base = bench.fake.lock().calls;
            bench.fake.lock().failing = Box::new(move |call| call - base == failing);
            if leave_first {
                bench.say(members[0], SessionRequest::Leave {});
                bench.run_tasks();
                assert_eq!(bench.closed(&members).len(), 1, "the others go on");
            }
            bench.drop_session(members[1]);
            bench.run_tasks();
            bench.pass(SECOND);
            bench.run_tasks();
            assert!(bench.coordinator.is_unused() && bench.fake.lock().is_empty(), "call {failing}");
            bench.finish();
        }
    }
}

#[test]
fn the_first_chunk_is_newer_than_all_that_the_slots_hold() {
    let half = 1_u32 << 31;
    for stored in [1, half / 2, half / 2 + 1, half - 1, half, half + 1, u32::MAX] {
        let mut bench = bench();
        bench.fake.lock().chunks[100..140].fill([stored, 0]);
        // The bench checks the first chunk of every job that starts against all its slots.
        let members = bench.start("demo", 2, 5000);
        let first = bench.received[&members[0]].admission().unwrap().first_chunk;
        assert_eq!(first, if stored > half { 1 } else { stored + 1 });
        bench.finish();
    }
}

#[test]
fn shutdown_notifies_all_sessions_and_empties_the_switch() {
    let mut bench = bench();
    let running = bench.start("a", 2, 5000);
    let waiting = bench.join("b", 0, 2, 6000);
    let half = bench.join_all("c", 2, 7000);
    let fresh = bench.open().unwrap();
    bench.shutdown();
    for id in [running[0], waiting, half[1], fresh] {
        assert_eq!(bench.received[&id].refusal(), Some(Refusal::Busy));
        assert!(bench.received[&id].closed);
    }
    assert_eq!(bench.open().unwrap_err().reason, Refusal::Busy);
    assert!(!bench.coordinator.is_idle());
    bench.run_tasks();
    assert!(bench.coordinator.is_idle() && bench.fake.lock().is_empty());
    assert_eq!(bench.ends(), [&EndReason::Shutdown]);
    bench.finish();
}
