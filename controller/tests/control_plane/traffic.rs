//! Traffic of jobs, as their members report it with their heartbeats.

use crate::bench::{Bench, config};
use crate::fake::Fake;
use netfold_control::{MemberCounters, SessionRequest};
use netfold_controller::admission::SessionId;
use netfold_controller::record::JobName;
use netfold_controller::view::{JobView, MemberView};
use std::time::Duration;

fn counters(tensor_bytes: u64, packets_sent: u64, packets_retransmitted: u64) -> MemberCounters {
    let results_received = packets_sent.saturating_sub(packets_retransmitted);
    MemberCounters { tensor_bytes, packets_sent, packets_retransmitted, results_received }
}

fn report(bench: &mut Bench, id: SessionId, counters: MemberCounters) {
    bench.say(id, SessionRequest::Alive { counters: Some(counters) });
}

fn job(bench: &Bench, name: &str) -> JobView {
    let name = JobName { tenant: String::new(), job: name.into() };
    bench.coordinator.view_job(&name).expect("the job forms or runs")
}

fn member(bench: &Bench, name: &str, rank: usize) -> MemberView {
    job(bench, name).trees[0].members[rank].clone()
}

/// Heartbeats of a job's members for ten seconds, each with a million bytes and 1,000 packets more, of which 10 are retransmissions.
fn work(bench: &mut Bench, members: &[SessionId]) {
    for beat in 0..20 {
        members.iter().for_each(|id| report(bench, *id, counters(1_000_000 * beat, 1_000 * beat, 10 * beat)));
        bench.pass(Duration::from_millis(500));
    }
}

#[test]
fn traffic_is_that_of_each_job() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    let (a, b) = (bench.start("a", 3, 5000), bench.start("b", 2, 6000));
    assert_eq!(job(&bench, "a").traffic, None);
    let all = [&a[..], &b[..]].concat();
    bench.pass(Duration::from_millis(100));
    work(&mut bench, &all);
    for (name, world) in [("a", 3), ("b", 2)] {
        let traffic = job(&bench, name).traffic.unwrap();
        assert_eq!(traffic.goodput, 2_000_000, "bytes a second for each worker");
        assert_eq!(traffic.retransmission_ratio, 0.01);
        assert_eq!(traffic.totals, counters(19_000_000 * world, 19_000 * world, 190 * world));
    }
    assert_eq!(member(&bench, "a", 2).counters, Some(counters(19_000_000, 19_000, 190)));

    // One job is idle, the other ends.
    b.iter().for_each(|id| bench.say(*id, SessionRequest::Leave {}));
    bench.run_tasks();
    for _ in 0..12 {
        a.iter().for_each(|id| bench.say(*id, SessionRequest::ALIVE));
        bench.pass(Duration::from_millis(500));
    }
    let idle = job(&bench, "a").traffic.unwrap();
    assert_eq!((idle.goodput, idle.retransmission_ratio, idle.totals.packets_sent), (0, 0.0, 57_000));
    bench.finish();
}

#[test]
fn wrong_counters_change_nothing_of_any_job_and_end_no_session() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    let (a, b) = (bench.start("a", 2, 5000), bench.start("b", 2, 6000));
    let all = [&a[..], &b[..]].concat();
    work(&mut bench, &all);
    let (before, other) = (job(&bench, "a").traffic, job(&bench, "b").traffic);
    for wrong in [
        MemberCounters::default(),
        counters(0, u64::MAX, 0),
        counters(u64::MAX, 0, 0),
        counters(u64::MAX, 19_000, 190_000),
    ] {
        report(&mut bench, a[0], wrong);
        assert_eq!(job(&bench, "a").traffic, before, "{wrong:?}");
    }
    // Counters that are too large to be true stay in their job.
    a.iter().for_each(|id| report(&mut bench, *id, counters(u64::MAX, u64::MAX, 190)));
    bench.pass(Duration::from_millis(500));
    assert_eq!(job(&bench, "a").traffic.unwrap().totals.tensor_bytes, u64::MAX);
    assert_eq!(job(&bench, "b").traffic.unwrap().totals, other.unwrap().totals);
    assert!(all.iter().all(|id| !bench.received[id].closed));
    bench.finish();
}

#[test]
fn a_worker_that_waits_for_its_peers_reports_nothing() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    let first = bench.join("demo", 0, 2, 5000);
    report(&mut bench, first, counters(7, 7, 0));
    assert_eq!((job(&bench, "demo").traffic, bench.received[&first].is_untouched()), (None, true));
    bench.join("demo", 1, 2, 5001);
    bench.run_tasks();
    assert_eq!(member(&bench, "demo", 0).counters, None);
    bench.finish();
}
