//! Jobs that share the slots of a switch below its aggregator.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod trees;

use crate::bench::{Bench, FLOOR};
use crate::fake::Fake;
use netfold_control::{Join, Mode, Numerics, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{JobName, StoredRecords};
use netfold_controller::switch_status::SwitchUp;
use netfold_controller::topology::Topology;
use netfold_controller::view::TreeView;
use netfold_controller::{EndReason, JobEvent};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::time::Duration;

const TOPOLOGY: &str = r#"
[[switch]]
name = "tor"
p4runtime = "10.9.0.1:9559"
aggregator = "agg"
[[switch]]
name = "agg"
p4runtime = "10.9.0.2:9559"
[[host]]
name = "hosts"
addresses = ["127.0.0.0/8"]
switch = "tor"
[[link]]
a = "tor"
b = "agg"
"#;

/// Slots of the switch, of which its aggregator has eight times as many.
const SLOTS: u32 = 256;

fn lasting() -> Config {
    Config {
        tenants: false,
        sharing: Sharing::BestEffort,
        jobs_kept: 100,
        ..Config::controller(FLOOR, 1_000_000)
    }
}

fn fleet(fakes: &[Fake]) -> Fleet {
    fleet_of(TOPOLOGY, fakes)
}

fn fleet_of(topology: &str, fakes: &[Fake]) -> Fleet {
    let topology = Topology::from_toml(topology).unwrap();
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let known = links(&topology);
    Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(5)).linked(known)
}

/// Two workers join a job, each from an address and with a UDP port.
fn join_both(bench: &mut Bench, name: &str, slots: u32, ends: [([u8; 4], u16); 2]) -> [SessionId; 2] {
    let mut rank = 0;
    let members = ends.map(|(address, port)| {
        let id = bench.open_from(address.into()).expect("there is room");
        let join = Join::new(name, (rank, 2), Mode::I32, slots, port);
        bench.say(id, SessionRequest::Join(Join { movable: true, ..join }));
        rank += 1;
        id
    });
    bench.run_tasks();
    members
}

/// Both are admitted with all slots that they asked for.
fn expect_admitted(bench: &Bench, name: &str, members: [SessionId; 2], slots: u32, bitmap: u32) {
    for id in members {
        let received = &bench.received[&id];
        let admission = received.admission().unwrap_or_else(|| panic!("{name}: {}", received.text()));
        assert_eq!((admission.slots, admission.bitmap), (slots, bitmap), "{name}");
    }
}

fn tree_of(bench: &Bench, name: &str) -> TreeView {
    let name = JobName { tenant: String::new(), job: name.into() };
    bench.coordinator.view_job(&name).unwrap().trees.remove(0)
}

struct Rig {
    bench: Bench,
    switch: Fake,
    aggregator: Fake,
    /// The sessions of each job.
    members: BTreeMap<String, [SessionId; 2]>,
}

impl Rig {
    fn new() -> Self {
        let fakes = vec![Fake::new(SLOTS, 256, 128), Fake::new(8 * SLOTS, 256, 128)];
        let fleet = fleet(&fakes);
        Self::over(fakes, fleet)
    }

    fn over(fakes: Vec<Fake>, fleet: Fleet) -> Self {
        let [switch, aggregator] = [fakes[0].clone(), fakes[1].clone()];
        let bench = Bench::over(fakes, lasting(), fleet, StoredRecords::default());
        Self { bench, switch, aggregator, members: BTreeMap::new() }
    }

    fn ask(&mut self, name: &str, slots: u32, port: u16) -> [SessionId; 2] {
        let ends = [0, 1].map(|rank| ([127, 0, 0, 1], port + rank));
        let members = join_both(&mut self.bench, name, slots, ends);
        self.members.insert(name.into(), members);
        members
    }

    /// A job of two workers that is admitted.
    fn start(&mut self, name: &str, slots: u32, port: u16) -> [SessionId; 2] {
        let members = self.ask(name, slots, port);
        expect_admitted(&self.bench, name, members, slots, 0b11);
        members
    }

    fn tree(&self, name: &str) -> TreeView {
        tree_of(&self.bench, name)
    }

    /// Switch, first slot, and whether slots are shared there, from the root down.
    fn places(&self, name: &str) -> Vec<(String, u32, bool)> {
        let place =
            |place: netfold_controller::view::PlaceView| (place.switch, place.first_slot, place.shared);
        self.tree(name).places.into_iter().map(place).collect()
    }

    /// Why a job shares slots or not, as it is shown and as it was logged.
    fn sharing(&self, name: &str) -> String {
        let shown = self.tree(name).sharing.expect("a decision");
        let logged = self.bench.log.iter().rev().find_map(|event| match event {
            JobEvent::Started { name: job, placement, .. } if job.job == name => placement.sharing.clone(),
            _ => None,
        });
        assert_eq!(logged.expect("a decision").to_string(), shown);
        shown
    }

    /// What the driver reports as spilled of a job.
    fn spill(&self, job: &str, count: u64) {
        let number = self.tree(job).number.unwrap();
        let entries = self.switch.lock().entries.clone();
        let admits = netfold_p4::p4info::action_id(netfold_p4::allreduce::id::ADMIT_SHARED);
        let of_job = |entry: &&netfold_p4::entry::TableEntry| {
            entry.action == admits && crate::fake::admits(entry).is_some_and(|admits| admits.job == number)
        };
        let up = entries.iter().find(of_job).unwrap().params[5] as u16;
        *self.switch.lock().spilled.entry(up).or_default() += count;
    }

    /// Heartbeats of these sessions, and the counting that is due.
    fn pass(&mut self, members: &[SessionId], time: Duration) {
        let end = self.bench.now + time;
        while self.bench.now < end {
            for id in members {
                self.bench.say(*id, SessionRequest::Alive { counters: None });
            }
            self.bench.pass(Duration::from_millis(500));
            self.bench.run_tasks();
        }
    }
}

#[test]
fn jobs_that_ask_for_all_slots_share_them() {
    let mut rig = Rig::new();
    rig.start("one", SLOTS, 5000);
    let below = |first| vec![("agg".to_owned(), first, false), ("tor".to_owned(), 0, true)];
    assert_eq!(rig.places("one"), below(0));
    for (at, name) in (1..).zip(["two", "three", "four"]) {
        rig.start(name, SLOTS, 5000 + 10 * at as u16);
        assert_eq!(rig.places(name), below(at * SLOTS), "slots of its own at the aggregator");
    }
    // Smaller ones have the parts that the fewest use, which are all alike at first.
    assert!(rig.sharing("one").starts_with("shares slots of 'tor' below aggregator 'agg': "));
    rig.start("small", 64, 6000);
    rig.start("other", 64, 6010);
    assert_eq!([rig.places("small")[1].1, rig.places("other")[1].1], [0, 64]);
    rig.bench.finish_all();
}

#[test]
fn what_an_ended_job_occupies_is_released_once_its_packets_are_not_admitted() {
    let mut rig = Rig::new();
    let one = rig.start("one", SLOTS, 5000);
    let two = rig.start("two", SLOTS, 5010);
    let epoch = rig.tree("one").epoch.unwrap();
    for id in one {
        rig.bench.say(id, SessionRequest::Leave {});
        rig.bench.run_tasks();
    }
    assert_eq!(rig.switch.lock().released, [(0, SLOTS, epoch)]);
    assert!(rig.aggregator.lock().released.is_empty(), "slots of its own are advanced");
    assert!(two.iter().all(|id| rig.bench.received[id].is_untouched() || !rig.bench.received[id].closed));
    // The range stays shared as long as one job uses it.
    rig.start("three", SLOTS, 5020);
    assert!(rig.places("three")[1].2);
    rig.bench.finish_all();
}

#[test]
fn a_job_has_slots_of_its_own_while_half_of_them_are_left() {
    let mut rig = Rig::new();
    let own = |rig: &Rig, name: &str| matches!(&rig.places(name)[..], [(at, _, false)] if at == "tor");
    rig.start("one", SLOTS / 4, 5000);
    rig.start("two", SLOTS / 4, 5010);
    assert!(own(&rig, "one") && own(&rig, "two"));
    assert!(rig.sharing("two").starts_with("has slots of its own at 'tor': "));
    // The other half is shared, however few ask for it, and those that have their own keep it.
    rig.start("three", SLOTS / 4, 5020);
    assert_eq!(rig.places("three")[1], ("tor".to_owned(), SLOTS / 2, true));
    rig.start("four", SLOTS / 2, 5030);
    assert_eq!(rig.places("four")[1], ("tor".to_owned(), SLOTS / 2, true));
    assert!(own(&rig, "one") && own(&rig, "two"));
    rig.bench.finish_all();
}

#[test]
fn spilled_contributions_are_counted_from_the_jobs_beginning() {
    let mut rig = Rig::new();
    let one = rig.start("one", SLOTS, 5000);
    assert_eq!(rig.tree("one").spilled, Some(0));
    rig.spill("one", 70);
    rig.pass(&one, Duration::from_secs(3));
    assert_eq!(rig.tree("one").spilled, Some(70));
    for id in one {
        rig.bench.say(id, SessionRequest::Leave {});
    }
    rig.bench.run_tasks();
    // The next job has the same group, whose counter has those of the first.
    let two = rig.start("two", SLOTS, 5010);
    assert_eq!(rig.tree("two").spilled, Some(0));
    rig.spill("two", 5);
    rig.pass(&two, Duration::from_secs(3));
    assert_eq!(rig.tree("two").spilled, Some(5));
    rig.bench.finish_all();
}

#[test]
fn jobs_lose_their_place_with_the_aggregator_and_come_again() {
    let mut rig = Rig::new();
    let all = [rig.start("one", SLOTS, 5000), rig.start("two", SLOTS, 5010)].concat();
    rig.bench.act(|plane, now| plane.switch_down(now, 1, "it was killed".into()));
    rig.pass(&all, Duration::from_secs(2));
    for id in &all {
        let received = &rig.bench.received[id];
        assert!(
            received.events.iter().any(|event| matches!(event, SessionEvent::SwitchLost { .. })),
            "{received:?}"
        );
    }
    // Without it each has half of what is free for itself.
    for (job, slots) in [("one", SLOTS / 2), ("two", SLOTS / 4)] {
        rig.ask(job, SLOTS, 5020 + slots as u16);
        assert_eq!((rig.tree(job).slots, rig.places(job).len()), (Some(slots), 1), "{job}");
        let why = "shares no slots: aggregator 'agg' cannot be used: it is down (it was killed)";
        assert_eq!(rig.sharing(job), why);
    }
    let all = ["one", "two"].map(|job| rig.members[job]).concat();
    rig.pass(&all, lasting().settle * 2);
    assert_eq!(rig.tree("one").slots, Some(SLOTS / 2), "the aggregator is still down");
    // With it they share again.
    rig.bench.act(|plane, now| plane.switch_up(now, 1, SwitchUp { fresh: true, ..SwitchUp::default() }));
    rig.pass(&all, Duration::from_secs(5));
    let moved = rig.bench.ends().into_iter().filter(|reason| matches!(reason, EndReason::Moved { .. }));
    assert_eq!(moved.count(), 2);
    for (at, job) in (0..).zip(["one", "two"]) {
        rig.start(job, SLOTS, 6000 + 10 * at as u16);
        assert_eq!(rig.places(job)[1], ("tor".to_owned(), 0, true), "{job}");
    }
    let all = ["one", "two"].map(|job| rig.members[job]).concat();
    rig.pass(&all, lasting().settle * 2);
    assert!(all.iter().all(|id| !rig.bench.received[id].closed), "they are moved once");
    rig.bench.finish_all();
}

#[test]
fn a_restarted_controller_knows_which_slots_are_shared() {
    let mut rig = Rig::new();
    rig.start("one", SLOTS, 5000);
    rig.start("two", SLOTS, 5010);
    let known = |rig: &Rig| [rig.tree("one"), rig.tree("two")].map(|tree| (tree.places, tree.sharing));
    let before = known(&rig);
    let fleet = fleet(&[rig.switch.clone(), rig.aggregator.clone()]);
    rig.bench = rig.bench.restart_over(lasting(), fleet);
    rig.bench.run_tasks();
    assert_eq!(known(&rig), before);
    rig.start("three", SLOTS, 5020);
    assert_eq!(rig.places("three"), [("agg".to_owned(), 2 * SLOTS, false), ("tor".to_owned(), 0, true)]);
    rig.bench.finish_all();
}

#[test]
fn authenticated_jobs_share_nothing() {
    let fakes = vec![Fake::new(SLOTS, 256, 128), Fake::new(8 * SLOTS, 256, 128)];
    fakes.iter().for_each(|fake| fake.lock().limits.authenticates = true);
    let over = fleet(&fakes);
    let mut rig = Rig::over(fakes, over);
    for rank in 0..2 {
        let id = rig.bench.open().expect("there is room");
        let join = Join::new("one", (rank, 2), Mode::I32, SLOTS, 5000 + rank);
        rig.bench.say(id, SessionRequest::Join(Join { authenticated: true, ..join }));
    }
    rig.bench.run_tasks();
    assert_eq!(rig.places("one"), [("tor".to_owned(), 0, false)]);
    assert!(rig.sharing("one").starts_with("shares no slots: its packets are authenticated"));
    // Others share what it has left.
    for (job, port) in [("two", 5010), ("three", 5020)] {
        rig.ask(job, SLOTS, port);
        assert_eq!(
            (rig.tree(job).slots, &rig.places(job)[1]),
            (Some(SLOTS / 2), &("tor".to_owned(), SLOTS / 2, true))
        );
    }
    rig.bench.finish_all();
}

#[test]
fn a_job_for_which_neither_has_slots_is_refused() {
    let mut rig = Rig::new();
    for at in 0..8 {
        rig.start(&format!("job{at}"), SLOTS, 5000 + 10 * at);
    }
    // Its slots are used up, and all of the switch's are shared.
    let more = rig.ask("more", SLOTS, 6000);
    assert_eq!(rig.bench.received[&more[0]].refusal(), Some(Refusal::Slots));
    rig.bench.finish_all();
}
