//! Jobs whose workers are at two leaves below a spine. Each of the three switches has an aggregator, or some have.

use super::*;
use crate::stalls::{explain, fill, report};
use netfold_controller::command::Command;
use netfold_controller::view::{PlaceView, SnapshotScope};

/// Two leaves with a host each below a spine, and the switches that are aggregators.
const NAMES: [&str; 6] = ["leaf1", "leaf2", "spine", "agg1", "agg2", "top"];
const LEAF1: usize = 0;
const LEAF2: usize = 1;
const SPINE: usize = 2;
const AGG1: usize = 3;
const TOP: usize = 5;

/// The aggregators of the three switches, as the topology has them.
type Aggregators = [Option<&'static str>; 3];

const ALL: Aggregators = [Some("agg1"), Some("agg2"), Some("top")];
const LEAVES: Aggregators = [Some("agg1"), Some("agg2"), None];

fn topology(aggregators: Aggregators) -> String {
    let mut text = String::new();
    for (at, name) in NAMES.iter().enumerate() {
        text += &format!("[[switch]]\nname = \"{name}\"\np4runtime = \"10.9.0.{}:9559\"\n", at + 1);
        if let Some(aggregator) = aggregators.get(at).copied().flatten() {
            text += &format!("aggregator = \"{aggregator}\"\n");
        }
    }
    let above = aggregators.iter().zip(NAMES).filter_map(|(above, name)| Some((name, (*above)?)));
    for (a, b) in above.chain([("leaf1", "spine"), ("leaf2", "spine")]) {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
    }
    for (name, network, switch) in [("left", 1, "leaf1"), ("right", 2, "leaf2")] {
        text += &format!(
            "[[host]]\nname = \"{name}\"\naddresses = [\"127.0.{network}.0/24\"]\nswitch = \"{switch}\"\n"
        );
    }
    text
}

fn fleet(aggregators: Aggregators, fakes: &[Fake]) -> Fleet {
    fleet_of(&topology(aggregators), fakes)
}

struct Trees {
    bench: Bench,
    aggregators: Aggregators,
    fakes: Vec<Fake>,
    members: BTreeMap<String, [SessionId; 2]>,
}

impl Trees {
    /// Leaves and spine have [`SLOTS`], aggregators eight times as many.
    fn new(aggregators: Aggregators) -> Self {
        Self::with_spine(aggregators, SLOTS)
    }

    fn with_spine(aggregators: Aggregators, slots: u32) -> Self {
        let slots = [SLOTS, SLOTS, slots, 8 * SLOTS, 8 * SLOTS, 8 * SLOTS];
        Self::over(aggregators, &topology(aggregators), &slots)
    }

    fn over(aggregators: Aggregators, topology: &str, slots: &[u32]) -> Self {
        let fakes: Vec<Fake> = slots.iter().map(|slots| Fake::new(*slots, 256, 128)).collect();
        let fleet = fleet_of(topology, &fakes);
        let bench = Bench::over(fakes.clone(), lasting(), fleet, StoredRecords::default());
        Self { bench, aggregators, fakes, members: BTreeMap::new() }
    }

    fn ask(&mut self, name: &str, slots: u32, port: u16) -> [SessionId; 2] {
        let ends = [1, 2].map(|leaf| ([127, 0, leaf, 1], port));
        let members = join_both(&mut self.bench, name, slots, ends);
        self.members.insert(name.into(), members);
        members
    }

    /// A job of a worker at each leaf that is admitted with all slots that it asks for.
    fn start(&mut self, name: &str, slots: u32, port: u16) -> [SessionId; 2] {
        let members = self.ask(name, slots, port);
        expect_admitted(&self.bench, name, members, slots, 0b1);
        members
    }

    fn tree(&self, name: &str) -> TreeView {
        tree_of(&self.bench, name)
    }

    /// Switch, parent, and the first slot where slots are shared or the job's own, from the root down.
    fn places(&self, name: &str) -> Vec<String> {
        let place = |PlaceView { switch, parent, first_slot, shared, .. }| {
            let below = parent.map(|parent| format!(" below {parent}")).unwrap_or_default();
            format!("{switch}{below}: {}{first_slot}", if shared { "shared " } else { "" })
        };
        self.tree(name).places.into_iter().map(place).collect()
    }

    fn sharing(&self, name: &str) -> String {
        self.tree(name).sharing.expect("a decision")
    }

    /// Heartbeats of all members, and the counting that is due.
    fn pass(&mut self, time: Duration) {
        let end = self.bench.now + time;
        while self.bench.now < end {
            for id in self.members.values().flatten() {
                if !self.bench.received[id].closed {
                    self.bench.say(*id, SessionRequest::Alive { counters: None });
                }
            }
            self.bench.pass(Duration::from_millis(500));
            self.bench.run_tasks();
        }
    }

    fn leave(&mut self, name: &str) {
        for id in self.members.remove(name).unwrap() {
            self.bench.say(id, SessionRequest::Leave {});
            self.bench.run_tasks();
        }
    }

    /// The group of a job's copies to the aggregator at a switch.
    fn up(&self, job: &str, at: usize) -> u16 {
        let number = self.tree(job).number.unwrap();
        let action = netfold_p4::p4info::action_id(netfold_p4::allreduce::id::ADMIT_SHARED);
        let entries = self.fakes[at].lock().entries.clone();
        let mut of_job = entries.iter().filter(|entry| {
            entry.action == action && crate::fake::admits(entry).is_some_and(|admits| admits.job == number)
        });
        of_job.next().unwrap().params[5] as u16
    }

    fn spill(&self, job: &str, at: usize, count: u64) {
        let up = self.up(job, at);
        *self.fakes[at].lock().spilled.entry(up).or_default() += count;
    }
}

#[test]
fn jobs_that_ask_for_all_slots_share_those_of_each_switch() {
    let mut rig = Trees::new(ALL);
    for (at, name) in (0..).zip(["one", "two", "three"]) {
        rig.start(name, SLOTS, 5000 + at as u16);
        let own = at * SLOTS;
        assert_eq!(
            rig.places(name),
            [
                format!("top: {own}"),
                "spine below top: shared 0".into(),
                format!("agg1 below spine: {own}"),
                format!("agg2 below spine: {own}"),
                "leaf1 below agg1: shared 0".into(),
                "leaf2 below agg2: shared 0".into(),
            ]
        );
    }
    let shares = "shares slots of 'spine' below aggregator 'top', of 'leaf1' below aggregator 'agg1' and of 'leaf2' below aggregator 'agg2': ";
    assert!(rig.sharing("one").starts_with(shares), "{}", rig.sharing("one"));
    // Each link that a tree uses counts it, and that of a leaf to the spine what goes from the leaf's aggregator to the spine.
    let links = rig.bench.coordinator.snapshot(SnapshotScope::All).links;
    let trees: Vec<_> = links.iter().map(|link| (&link.a[..], &link.b[..], link.trees)).collect();
    let all =
        [("leaf1", "agg1"), ("leaf2", "agg2"), ("spine", "top"), ("leaf1", "spine"), ("leaf2", "spine")];
    assert_eq!(trees, all.map(|(a, b)| (a, b, 3)));
    rig.bench.finish_all();
}

#[test]
fn each_switch_of_a_tree_is_decided_by_itself() {
    let mut rig = Trees::with_spine(LEAVES, 8 * SLOTS);
    // One leaf is in use by a job of its own.
    for rank in 0..2 {
        let id = rig.bench.open_from([127, 0, 1, 1].into()).expect("there is room");
        let join = Join::new("at_leaf1", (rank, 2), Mode::I32, SLOTS / 2, 4000 + rank);
        rig.bench.say(id, SessionRequest::Join(join));
    }
    rig.bench.run_tasks();
    assert_eq!(rig.places("at_leaf1"), ["leaf1: 0"]);
    rig.start("one", SLOTS / 2, 5000);
    assert_eq!(
        rig.places("one"),
        ["spine: 0", "agg1 below spine: 0", "leaf2 below spine: 0", "leaf1 below agg1: shared 128"]
    );
    let sharing = rig.sharing("one");
    assert!(sharing.starts_with("shares slots of 'leaf1' below aggregator 'agg1': "), "{sharing}");
    assert!(sharing.ends_with("; it has slots of its own at 'spine' and 'leaf2'"), "{sharing}");
    // The next one finds no half of the other leaf left.
    rig.start("two", SLOTS / 2, 5001);
    let places = rig.places("two");
    let below = ["leaf1 below agg1: shared 128", "leaf2 below agg2: shared 128"];
    assert_eq!((&places[0][..], &places[3..]), ("spine: 128", &below.map(String::from)[..]));
    rig.bench.finish_all();
}

#[test]
fn a_spine_that_names_no_aggregator_refuses_what_it_has_no_slots_for() {
    let mut rig = Trees::new(LEAVES);
    rig.start("one", SLOTS, 5000);
    let more = rig.ask("two", SLOTS, 5001);
    assert_eq!(rig.bench.received[&more[0]].refusal(), Some(Refusal::Slots));
    rig.bench.finish_all();
}

#[test]
fn an_ended_job_releases_what_it_occupies_at_each_switch() {
    let mut rig = Trees::new(ALL);
    rig.start("one", SLOTS, 5000);
    rig.start("two", SLOTS, 5001);
    let epoch = rig.tree("one").epoch.unwrap();
    rig.leave("one");
    for at in [LEAF1, LEAF2, SPINE] {
        assert_eq!(rig.fakes[at].lock().released, [(0, SLOTS, epoch)], "{}", NAMES[at]);
    }
    for (name, fake) in NAMES.iter().zip(&rig.fakes).skip(AGG1) {
        assert!(fake.lock().released.is_empty(), "{name}: slots of its own are advanced");
    }
    assert!(rig.members["two"].iter().all(|id| !rig.bench.received[id].closed));
    rig.bench.finish_all();
}

#[test]
fn spilled_contributions_are_counted_at_each_switch() {
    let mut rig = Trees::new(ALL);
    rig.start("one", SLOTS, 5000);
    assert_eq!(rig.tree("one").spilled, Some(0));
    for (at, count) in [(LEAF1, 70), (LEAF2, 7), (SPINE, 1)] {
        rig.spill("one", at, count);
    }
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.tree("one").spilled, Some(78));
    // One of them counts from the beginning: that of the others is what it was.
    let up = rig.up("one", LEAF1);
    rig.fakes[LEAF1].lock().spilled.insert(up, 3);
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.tree("one").spilled, Some(81));
    rig.bench.finish_all();
}

#[test]
fn a_restarted_controller_knows_the_trees_that_share_slots() {
    let mut rig = Trees::new(ALL);
    rig.start("one", SLOTS, 5000);
    rig.start("two", SLOTS, 5001);
    let known = |rig: &Trees| {
        let trees = ["one", "two"].map(|name| (rig.tree(name).places, rig.tree(name).sharing));
        let links = rig.bench.coordinator.snapshot(SnapshotScope::All).links;
        (trees, links.iter().map(|link| link.trees).collect::<Vec<_>>())
    };
    let before = known(&rig);
    rig.bench = rig.bench.restart_over(lasting(), fleet(rig.aggregators, &rig.fakes));
    rig.bench.run_tasks();
    assert_eq!(known(&rig), before);
    rig.start("three", SLOTS, 5002);
    assert_eq!(rig.places("three")[1], "spine below top: shared 0");
    rig.bench.finish_all();
}

#[test]
fn jobs_lose_their_trees_with_an_aggregator_and_come_again() {
    let mut rig = Trees::new(ALL);
    let all = [rig.start("one", SLOTS, 5000), rig.start("two", SLOTS, 5001)].concat();
    rig.bench.act(|plane, now| plane.switch_down(now, AGG1, "it was killed".into()));
    rig.pass(Duration::from_secs(2));
    for id in &all {
        let received = &rig.bench.received[id];
        let lost = |event: &SessionEvent| matches!(event, SessionEvent::SwitchLost { .. });
        assert!(received.events.iter().any(lost), "{received:?}");
    }
    // Without it each has half of what is free at its leaf, and shares the others' slots.
    for (at, (job, slots)) in (0..).zip([("one", SLOTS / 2), ("two", SLOTS / 4)]) {
        rig.ask(job, SLOTS, 5010 + at);
        assert_eq!(rig.tree(job).slots, Some(slots), "{job}");
        assert_eq!(rig.tree(job).places.len(), 5, "{job}");
        let sharing = rig.sharing(job);
        assert!(
            sharing.starts_with("shares slots of 'spine' below aggregator 'top' and of 'leaf2'"),
            "{sharing}"
        );
        let why = "; it has slots of its own at 'leaf1'; aggregator 'agg1' cannot be used: it is down (it was killed)";
        assert!(sharing.ends_with(why), "{sharing}");
    }
    rig.pass(lasting().settle * 2);
    assert_eq!(rig.tree("one").slots, Some(SLOTS / 2), "the aggregator is still down");
    // With it they share everywhere again.
    rig.bench.act(|plane, now| plane.switch_up(now, AGG1, SwitchUp { fresh: true, ..SwitchUp::default() }));
    rig.pass(Duration::from_secs(5));
    let moved = rig.bench.ends().into_iter().filter(|reason| matches!(reason, EndReason::Moved { .. }));
    assert_eq!(moved.count(), 2);
    for (at, job) in (0..).zip(["one", "two"]) {
        rig.start(job, SLOTS, 6000 + at);
        assert_eq!(rig.places(job)[4], "leaf1 below agg1: shared 0", "{job}");
    }
    rig.pass(lasting().settle * 2);
    assert!(rig.members.values().flatten().all(|id| !rig.bench.received[id].closed), "they are moved once");
    rig.bench.finish_all();
}

/// A second spine, which has an aggregator, too.
#[test]
fn jobs_that_share_slots_leave_drained_links() {
    let mut text = topology(ALL);
    for (name, at, more) in [("spine2", 7, "aggregator = \"top2\"\n"), ("top2", 8, "")] {
        text += &format!("[[switch]]\nname = \"{name}\"\np4runtime = \"10.9.0.{at}:9559\"\n{more}");
    }
    for (a, b) in [("spine2", "top2"), ("leaf1", "spine2"), ("leaf2", "spine2")] {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
    }
    let above = 8 * SLOTS;
    let mut rig = Trees::over(ALL, &text, &[SLOTS, SLOTS, SLOTS, above, above, above, SLOTS, above]);
    rig.start("one", SLOTS, 5000);
    assert_eq!(rig.places("one")[1], "spine below top: shared 0");
    let drain = |rig: &mut Trees, a: &str, b: &str| {
        let command = Command::DrainLink { a: a.into(), b: b.into(), drained: true, evict: false };
        rig.bench.act(|plane, now| plane.execute(now, command)).unwrap();
        rig.pass(lasting().settle * 2);
    };
    drain(&mut rig, "leaf1", "spine");
    let ends = rig.bench.ends();
    assert!(matches!(ends[..], [EndReason::Moved { .. }]), "{ends:?}");
    rig.start("one", SLOTS, 5001);
    let places = rig.places("one");
    assert_eq!(places[..3], ["top2: 0", "spine2 below top2: shared 0", "agg1 below spine2: 0"]);
    // Without its aggregator it would have half of the leaf's.
    drain(&mut rig, "leaf1", "agg1");
    assert_eq!(rig.bench.ends().len(), 1, "it stays");
    rig.bench.finish_all();
}

/// What aggregators have is what counts: a shared switch may have released it.
#[test]
fn a_rank_that_is_missing_is_found_below_aggregators() {
    let mut rig = Trees::new(ALL);
    let members = rig.start("one", SLOTS, 5000);
    let first = rig.bench.received[&members[0]].admission().unwrap().first_chunk;
    // The sum of the first leaf's aggregator has passed the spine.
    fill(&rig.fakes[TOP], (0, SLOTS), first, 0b01);
    rig.bench.say(members[0], SessionRequest::Stalled(report(first)));
    rig.bench.run_tasks();
    let read = rig.fakes.iter().map(|fake| fake.lock().slots_read > 0).collect::<Vec<_>>();
    assert_eq!(
        read,
        [false, false, false, false, true, true],
        "the two aggregators that lack a contribution"
    );
    let record = explain(&mut rig.bench, "one").remove(0);
    assert_eq!((&record.chunks[0].missing[..], record.chunks.len()), (&[1][..], 1));
    assert!(record.conclusion.starts_with("rank 1 has not contributed"), "{}", record.conclusion);
    rig.bench.finish_all();
}

/// One sum goes from an aggregator to its parent, so it serves one switch of a tree.
#[test]
fn an_aggregator_serves_one_switch_of_a_tree() {
    let mut rig = Trees::new([Some("agg1"), Some("agg1"), Some("top")]);
    rig.ask("one", SLOTS, 5000);
    assert_eq!(rig.tree("one").slots, Some(SLOTS / 2), "half of the other leaf's");
    let places = rig.places("one");
    let found = |place: &str| places.iter().any(|at| at == place);
    assert!(found("leaf1 below agg1: shared 0") && found("leaf2 below spine: 0"), "{places:?}");
    let sharing = rig.sharing("one");
    let why = "; it has slots of its own at 'leaf2'; aggregator 'agg1' cannot be used: in this tree it is that of 'leaf1'";
    assert!(sharing.ends_with(why), "{sharing}");
    // That does not change with time.
    rig.pass(lasting().settle * 2);
    assert!(rig.bench.ends().is_empty());
    rig.bench.finish_all();
}

/// A job at one switch is placed as if there were no others.
#[test]
fn jobs_at_one_switch_share_with_those_of_trees() {
    let mut rig = Trees::new(ALL);
    rig.start("tree", SLOTS, 5000);
    for rank in 0..2 {
        let id = rig.bench.open_from([127, 0, 1, 1].into()).expect("there is room");
        let join = Join::new("one", (rank, 2), Mode::I32, SLOTS, 4000 + rank);
        rig.bench.say(id, SessionRequest::Join(join));
    }
    rig.bench.run_tasks();
    assert_eq!(rig.places("one"), [format!("agg1: {SLOTS}"), "leaf1 below agg1: shared 0".into()]);
    rig.bench.finish_all();
}
