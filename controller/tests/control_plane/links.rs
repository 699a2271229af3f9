//! Links between switches: the demand of the jobs over them, links that are drained, and trees that are moved.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod closed_loop;
mod simulation;

use crate::bench::{Bench, FLOOR};
use crate::fake::Fake;
use netfold_control::{
    CommunicationPattern, Join, MemberCounters, Mode, Numerics, SessionEvent, SessionRequest,
};
use netfold_controller::admission::{Config, DRAINED_AT_ONCE, SessionId};
use netfold_controller::bands::Banding;
use netfold_controller::command::{Command, CommandError};
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::policy::Sharing;
use netfold_controller::rebalance::PlacementPolicy;
use netfold_controller::record::{JobName, LinkName, StoredRecords};
use netfold_controller::topology::Topology;
use netfold_controller::view::{LinkView, SnapshotScope};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Bits a second of every link.
const RATE: u64 = 1_000_000_000;

/// Two leaves with a host each, and two spines.
fn fabric() -> Topology {
    let mut text = String::new();
    for (switch, role) in [("leaf1", "leaf"), ("leaf2", "leaf"), ("spine1", "spine"), ("spine2", "spine")] {
        text +=
            &format!("[[switch]]\nname = \"{switch}\"\nrole = \"{role}\"\np4runtime = \"{switch}:9559\"\n");
    }
    for host in 1..=2 {
        text += &format!(
            "[[host]]\nname = \"host{host}\"\naddresses = [\"10.0.{host}.0/24\"]\nswitch = \"leaf{host}\"\n"
        );
    }
    for (leaf, spine) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        text += &format!("[[link]]\na = \"leaf{leaf}\"\nb = \"spine{spine}\"\nrate = \"1G\"\n");
    }
    Topology::from_toml(&text).unwrap()
}

fn lasting(placement: PlacementPolicy) -> Config {
    Config {
        tenants: false,
        placement,
        sharing: Sharing::Static,
        banding: Banding { link_bps: RATE, ..Banding::default() },
        jobs_kept: 1000,
        ..Config::controller(FLOOR, 1_000_000)
    }
}

fn fleet(fakes: &[Fake], seed: u64) -> Fleet {
    let topology = fabric();
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let known = links(&topology);
    Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(seed)).linked(known)
}

/// Two workers, one at each leaf, that join again whenever they lose their place, as the host library does.
#[derive(Debug, Clone)]
struct Pair {
    name: String,
    port: u16,
    movable: bool,
    members: [SessionId; 2],
    /// Cumulative bytes that they report; none are reported while this is 0.
    bytes: u64,
}

struct Rig {
    bench: Bench,
    fakes: Vec<Fake>,
    pairs: Vec<Pair>,
}

impl Rig {
    fn new(placement: PlacementPolicy) -> Self {
        Self::over(lasting(placement))
    }

    fn over(config: Config) -> Self {
        let fakes: Vec<Fake> = (0..4).map(|_| Fake::new(1 << 14, 256, 128)).collect();
        let fleet = fleet(&fakes, 3);
        let bench = Bench::over(fakes.clone(), config, fleet, StoredRecords::default());
        Self { bench, fakes, pairs: Vec::new() }
    }

    fn ask(&mut self, name: &str, port: u16, movable: bool) -> [SessionId; 2] {
        [0, 1].map(|rank: u16| {
            let id = self.bench.open().expect("there is room");
            // Each worker is at a host of its own: nothing is shared but links between switches.
            let address = Some([10, 0, rank as u8 + 1, (port % 250) as u8 + 1].into());
            let join = Join::new(name, (rank, 2), Mode::Bfp16, 64, port);
            self.bench.say(id, SessionRequest::Join(Join { movable, address, ..join }));
            id
        })
    }

    fn start(&mut self, name: &str, movable: bool) {
        let port = 5000 + self.pairs.len() as u16;
        let members = self.ask(name, port, movable);
        self.bench.run_tasks();
        self.pairs.push(Pair { name: name.into(), port, movable, members, bytes: 0 });
    }

    fn root(&self, name: &str) -> Option<String> {
        let name = JobName { tenant: String::new(), job: name.into() };
        let job = self.bench.coordinator.view_job(&name)?;
        Some(job.trees.first()?.places.first()?.switch.clone())
    }

    fn link(&self, leaf: &str, spine: &str) -> LinkView {
        let links = self.bench.coordinator.snapshot(SnapshotScope::Live).links;
        links.into_iter().find(|link| link.a == leaf && link.b == spine).expect("there is such a link")
    }

    fn drain(&mut self, leaf: &str, spine: &str, drained: bool, evict: bool) -> Result<(), CommandError> {
        let command = Command::DrainLink { a: leaf.into(), b: spine.into(), drained, evict };
        self.bench.act(|plane, now| plane.execute(now, command))
    }

    /// Those that lost their place join again; returns how many.
    fn join_again(&mut self) -> usize {
        let mut again = 0;
        for at in 0..self.pairs.len() {
            let Pair { name, port, movable, members, .. } = self.pairs[at].clone();
            if members.iter().all(|id| self.bench.received[id].closed) {
                for id in members {
                    let events = &self.bench.received[&id].events;
                    let notified =
                        events.iter().any(|event| matches!(event, SessionEvent::SwitchLost { .. }));
                    assert!(notified || self.bench.received[&id].refusal().is_some(), "{name}: {events:?}");
                }
                self.pairs[at].members = self.ask(&name, port, movable);
                again += 1;
            }
        }
        again
    }

    /// Heartbeats, tasks and joins for so long.
    fn pass(&mut self, time: Duration) {
        let end = self.bench.now + time;
        while self.bench.now < end {
            for pair in self.pairs.clone() {
                let counters = MemberCounters {
                    packets_sent: pair.bytes / 1000,
                    bytes_sent: pair.bytes,
                    results_received: pair.bytes / 1000,
                    ..MemberCounters::default()
                };
                let counters = (pair.bytes > 0).then_some(counters);
                for id in pair.members {
                    if !self.bench.received[&id].closed {
                        self.bench.say(id, SessionRequest::Alive { counters });
                    }
                }
            }
            self.bench.pass(HEARTBEAT);
            self.bench.run_tasks();
            self.join_again();
            self.bench.run_tasks();
        }
    }

    fn report(&mut self, at: usize, pattern: CommunicationPattern) {
        for id in self.pairs[at].members {
            if !self.bench.received[&id].closed {
                self.bench.say(id, SessionRequest::Pattern(pattern));
            }
        }
    }
}

/// A job that needs a part of its links, in percent, and has it more slowly than alone or not.
fn pattern(percent: u64, slowed: bool) -> CommunicationPattern {
    let bytes = RATE / 8 * percent / 100 / 10;
    let alone_us = (bytes as f64 * 8e6 / (RATE as f64 * 0.96)) as u64;
    let compute_us = 100_000 - alone_us.min(100_000);
    let busy_us = if slowed { 2 * alone_us } else { alone_us };
    CommunicationPattern {
        iterations: 20,
        period_us: compute_us + busy_us,
        span_us: busy_us,
        busy_us,
        compute_us,
        bytes,
        deviation: 0,
        age_us: 0,
    }
}

#[test]
fn jobs_leave_a_drained_link_a_few_at_a_time() {
    let mut rig = Rig::new(PlacementPolicy::Static);
    for job in 0..16 {
        rig.start(&format!("job{job}"), true);
    }
    assert_eq!(rig.link("leaf1", "spine1").trees, 8, "jobs are spread by number");
    rig.drain("spine1", "leaf1", true, false).unwrap();
    let link = rig.link("leaf1", "spine1");
    assert!(link.drained && !rig.link("leaf2", "spine1").drained);
    let moved = |rig: &Rig| {
        let ends = rig.bench.ends();
        assert!(ends.iter().all(|reason| matches!(reason, EndReason::Moved { .. })), "{ends:?}");
        ends.len()
    };
    assert_eq!(moved(&rig), DRAINED_AT_ONCE, "not all at once");
    rig.bench.run_tasks();
    rig.bench.pass(HEARTBEAT * 4);
    assert_eq!(moved(&rig), DRAINED_AT_ONCE, "the others wait until these are back");
    rig.pass(5 * SECOND);
    assert_eq!((moved(&rig), rig.link("leaf1", "spine1").trees), (8, 0));
    for job in 0..16 {
        assert_eq!(rig.root(&format!("job{job}")).as_deref(), Some("spine2"));
    }
    // No worker was refused, and those that had another tree noticed nothing.
    assert!(rig.bench.received.values().all(|received| received.refusal().is_none()));
    rig.start("late", true);
    assert_eq!(rig.root("late").as_deref(), Some("spine2"), "no new tree uses it");
    rig.drain("leaf1", "spine1", false, false).unwrap();
    rig.start("later", true);
    assert_eq!(rig.root("later").as_deref(), Some("spine1"));
    rig.bench.finish_all();
}

#[test]
fn jobs_that_cannot_move_stay_and_are_named_until_they_are_evicted() {
    let mut rig = Rig::new(PlacementPolicy::Static);
    rig.start("fixed", false);
    rig.start("free", true);
    // Both over spine1: nothing else is left.
    for spine in ["spine1", "spine2"] {
        rig.drain("leaf2", spine, true, false).unwrap();
        rig.pass(3 * SECOND);
    }
    let stays: BTreeMap<String, String> = ["spine1", "spine2"]
        .iter()
        .flat_map(|spine| rig.link("leaf2", spine).jobs)
        .map(|job| (job.job.job.clone(), job.stays.expect("it has no other tree")))
        .collect();
    assert!(stays["fixed"].contains("not connected with each other"), "{stays:?}");
    assert!(
        stays["free"].contains("no other tree is possible") && stays["free"].contains("drained"),
        "{stays:?}"
    );
    assert!(rig.bench.ends().len() <= 1, "no job loses a tree for nothing");
    let ended = rig.bench.ends().len();
    for spine in ["spine1", "spine2"] {
        rig.drain("leaf2", spine, true, true).unwrap();
    }
    let ends: Vec<_> = rig.bench.ends()[ended..].iter().map(|reason| (*reason).clone()).collect();
    assert!(
        ends.len() == 2 && ends.iter().all(|reason| matches!(reason, EndReason::Displaced { .. })),
        "{ends:?}"
    );
    rig.bench.run_tasks();
    rig.join_again();
    rig.bench.run_tasks();
    // Workers try again: until a link can be used there is no tree.
    for id in rig.pairs[1].members {
        let received = &rig.bench.received[&id];
        assert_eq!(received.refusal(), Some(netfold_control::Refusal::Unavailable), "{}", received.text());
        assert!(received.text().contains("some links are drained"), "{}", received.text());
    }
    rig.drain("leaf2", "spine1", false, false).unwrap();
    rig.pass(SECOND);
    assert_eq!(rig.root("free").as_deref(), Some("spine1"));
    rig.bench.finish_all();
}

#[test]
fn drained_links_outlive_the_controller() {
    let mut rig = Rig::new(PlacementPolicy::Static);
    rig.start("one", true);
    assert_eq!(rig.root("one").as_deref(), Some("spine1"));
    rig.drain("leaf2", "spine2", true, false).unwrap();
    assert_eq!(rig.bench.kept.links_drained, [LinkName::new("spine2", "leaf2")].into());
    let fleet = fleet(&rig.fakes, 4);
    rig.bench = rig.bench.restart_over(lasting(PlacementPolicy::Static), fleet);
    assert!(rig.link("leaf2", "spine2").drained && !rig.link("leaf1", "spine2").drained);
    rig.start("two", true);
    assert_eq!(rig.root("two").as_deref(), Some("spine1"), "although the other spine has fewer trees");
    rig.drain("leaf2", "spine2", false, false).unwrap();
    assert!(rig.bench.kept.links_drained.is_empty());
    rig.bench.pass(30 * SECOND);
    rig.bench.run_tasks();
    rig.bench.finish_all();
}

#[test]
fn a_link_that_is_not_there_is_answered_by_those_that_are() {
    let mut rig = Rig::new(PlacementPolicy::Static);
    let refused = |rig: &mut Rig, a: &str, b: &str| rig.drain(a, b, true, false).unwrap_err().to_string();
    assert_eq!(
        refused(&mut rig, "leaf1", "spine3"),
        "there is no link 'leaf1 - spine3'; there are leaf1 - spine1, leaf1 - spine2"
    );
    let all = refused(&mut rig, "a", "");
    assert!(all.ends_with("leaf1 - spine1, leaf1 - spine2, leaf2 - spine1, leaf2 - spine2"), "{all}");
    assert!(rig.bench.kept.links_drained.is_empty());
    rig.bench.finish_all();
}

#[test]
fn demand_is_assumed_then_measured_and_bounded() {
    let mut rig = Rig::new(PlacementPolicy::Measured);
    rig.start("one", true);
    let seen = |rig: &Rig| {
        let link = rig.link("leaf1", "spine1");
        let job = link.jobs.first().expect("a job uses it").clone();
        assert_eq!(job.demand, link.demand, "the demand of a link is that of its jobs");
        (link.demand, link.demand_measured, job.source)
    };
    assert_eq!(seen(&rig), (RATE / 8, 0, "assumed"));
    // Traffic counts once it was measured for a while.
    let mut sources = Vec::new();
    for _ in 0..40 {
        rig.pairs[0].bytes += 5_000_000;
        rig.pass(HEARTBEAT);
        sources.push(seen(&rig).2);
    }
    assert_eq!((sources[8], sources[39]), ("assumed", "traffic"));
    let (demand, measured, _) = seen(&rig);
    assert!(demand == measured && demand.abs_diff(80_000_000) < 20_000_000, "{demand}");
    // A pattern counts more, and for what the job would send if it were alone.
    for _ in 0..30 {
        rig.report(0, pattern(30, true));
        rig.pass(HEARTBEAT);
    }
    let (demand, _, source) = seen(&rig);
    assert!(source == "pattern" && demand.abs_diff(300_000_000) < 10_000_000, "{demand} {source}");
    // Whatever is reported, a job demands no more than its hosts' links carry.
    for _ in 0..60 {
        let most = CommunicationPattern {
            bytes: RATE / 80,
            compute_us: 0,
            period_us: 100_000,
            ..pattern(99, false)
        };
        rig.report(0, CommunicationPattern { busy_us: 100_000, span_us: 100_000, ..most });
        rig.pass(HEARTBEAT);
    }
    let (demand, _, source) = seen(&rig);
    assert!(source == "pattern" && demand > RATE * 9 / 10 && demand <= RATE, "{demand} {source}");
    // More bytes than they carry in the time were not measured: what was measured counts until something else is.
    for _ in 0..600 {
        rig.pairs[0].bytes += 5_000_000;
        rig.report(0, CommunicationPattern { bytes: 1 << 40, ..pattern(30, true) });
        rig.pass(HEARTBEAT);
    }
    let (demand, _, source) = seen(&rig);
    assert!(source == "traffic" && demand < RATE / 5, "{demand} {source}");
    rig.bench.finish_all();
}

#[test]
fn the_groups_of_a_job_count_for_no_more_than_its_hosts_carry() {
    let mut rig = Rig::new(PlacementPolicy::Static);
    rig.drain("leaf1", "spine2", true, false).unwrap();
    rig.start("one", true);
    let single = rig.link("leaf1", "spine1").demand;
    assert_eq!(single, RATE / 8);
    for group in 1..=10 {
        for rank in 0..2 {
            let id = rig.bench.open().unwrap();
            let address = Some([10, 0, rank as u8 + 1, 200].into());
            let join = Join::new("one", (rank, 2), Mode::Bfp16, 64, 7000 + group);
            let join = Join { group: format!("tp{group}"), address, ..join };
            rig.bench.say(id, SessionRequest::Join(join));
        }
        rig.bench.run_tasks();
        let link = rig.link("leaf1", "spine1");
        assert_eq!(
            (u64::from(link.trees), link.jobs.len() as u64),
            (u64::from(group) + 1, u64::from(group) + 1)
        );
        assert_eq!(link.demand, (single * (u64::from(group) + 1)).min(RATE), "with {group} groups");
    }
    rig.bench.finish_all();
}

#[test]
fn a_job_is_moved_from_the_most_loaded_link() {
    let mut rig = Rig::new(PlacementPolicy::Measured);
    for job in ["a", "b", "c", "d"] {
        rig.start(job, true);
    }
    let roots = |rig: &Rig| ["a", "b", "c", "d"].map(|job| rig.root(job).unwrap_or_default());
    assert_eq!(roots(&rig), ["spine1", "spine2", "spine1", "spine2"], "by number, as nothing is measured");
    let percent = [45, 5, 45, 5];
    let mut moved = 0;
    for _ in 0..400 {
        for (at, percent) in percent.into_iter().enumerate() {
            let here = rig.root(["a", "b", "c", "d"][at]);
            let shared = (0..4).filter(|other| rig.root(["a", "b", "c", "d"][*other]) == here).count();
            let slowed = at % 2 == 0 && shared > 1 && rig.root("a") == rig.root("c");
            rig.report(at, pattern(percent, slowed));
        }
        rig.pass(HEARTBEAT);
        moved = rig.bench.ends().len();
    }
    assert_eq!(moved, 1, "{:?}", rig.bench.ends());
    assert_ne!(rig.root("a"), rig.root("c"));
    let decisions: Vec<String> = rig
        .bench
        .log
        .iter()
        .filter_map(|event| match event {
            JobEvent::Rebalanced { name, decision, .. } => Some(format!("{name} {decision}")),
            _ => None,
        })
        .collect();
    assert!(decisions[0].contains("moved to another tree"), "{decisions:?}");
    assert!(decisions.iter().any(|text| text.contains("made it faster")), "{decisions:?}");
    let view = |job: &str| {
        rig.bench.coordinator.view_job(&JobName { tenant: String::new(), job: job.into() }).unwrap()
    };
    let placed = ["a", "c"].map(|job| view(job).placement.unwrap());
    assert!(placed.iter().any(|text| text.contains("made it faster")), "{placed:?}");
    // A new job is placed by demand.
    rig.start("heavy", true);
    for (at, percent) in [(1, 90), (3, 90)] {
        for _ in 0..30 {
            rig.report(at, pattern(percent, false));
            rig.pass(HEARTBEAT);
        }
    }
    rig.bench.finish_all();
}
