//! Traffic of jobs, as their members report it with their heartbeats.

use crate::bench::{Bench, FLOOR, LEAF_SPINE, config};
use crate::fake::Fake;
use netfold_control::{Join, MemberCounters, Mode, Numerics, SessionRequest};
use netfold_controller::admission::SessionId;
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::record::{JobName, StoredRecords};
use netfold_controller::topology::Topology;
use netfold_controller::view::{JobView, LinkTraffic, MemberView, SnapshotScope};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::Duration;

fn counters(tensor_bytes: u64, packets_sent: u64, packets_retransmitted: u64) -> MemberCounters {
    let results_received = packets_sent.saturating_sub(packets_retransmitted);
    let bytes_sent = packets_sent.saturating_mul(1_000);
    MemberCounters {
        tensor_bytes,
        packets_sent,
        bytes_sent,
        packets_retransmitted,
        results_received,
        ..MemberCounters::default()
    }
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

/// A job of two workers at each of these hosts, over the switches of [`LEAF_SPINE`].
fn start_at(bench: &mut Bench, name: &str, hosts: &[u8], port: u16) -> Vec<SessionId> {
    let world = 2 * hosts.len() as u16;
    let members: Vec<SessionId> = (0..world)
        .map(|rank| {
            let id = bench.open().expect("there is room for a session");
            let address = Some([10, 0, hosts[usize::from(rank / 2)], 1].into());
            let join = Join::new(name, (rank, world), Mode::Bfp16, 256, port + rank);
            bench.say(id, SessionRequest::Join(Join { address, ..join }));
            id
        })
        .collect();
    bench.run_tasks();
    members
}

#[test]
fn traffic_of_links_is_that_of_the_members_whose_packets_they_carry() {
    let topology = Topology::from_toml(LEAF_SPINE).unwrap();
    let fakes: Vec<Fake> = (0..3).map(|_| Fake::new(1024, 64, 16)).collect();
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let known = links(&topology);
    let fleet =
        Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(3)).linked(known);
    let mut bench = Bench::over(fakes, config(), fleet, StoredRecords::default());
    let both = start_at(&mut bench, "both", &[1, 2], 5000);
    let left = start_at(&mut bench, "left", &[1], 6000);
    let silent = bench.coordinator.snapshot(SnapshotScope::Live);
    assert!(silent.links.iter().all(|link| link.traffic.is_none()), "{:?}", silent.links);
    assert_eq!(silent.access.iter().map(|access| access.workers).collect::<Vec<_>>(), [4, 2]);

    // 2,000 packets of 1,000 bytes a second each, of which 20 are retransmissions.
    work(&mut bench, &[both, left].concat());
    let snapshot = bench.coordinator.snapshot(SnapshotScope::Live);
    let traffic = |bytes_per_second, packets_per_second| {
        Some(LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio: 0.01 })
    };
    let access: Vec<_> = snapshot
        .access
        .iter()
        .map(|access| (access.host.as_str(), access.switch.as_str(), access.workers, access.traffic))
        .collect();
    assert_eq!(
        access,
        [("left", "leaf1", 4, traffic(8_000_000, 8_000)), ("right", "leaf2", 2, traffic(4_000_000, 4_000))]
    );
    // One job's tree has both links; each carries one packet for each chunk.
    for (link, rate) in snapshot.links.iter().zip([1_000_000_000, 100_000_000_000]) {
        assert_eq!((link.trees, link.rate), (1, Some(rate)), "{link:?}");
        assert_eq!(link.traffic, traffic(1_980_000, 1_980), "{link:?}");
    }
    bench.finish_all();
}
