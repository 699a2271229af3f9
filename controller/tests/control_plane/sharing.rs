//! Slots that are taken from some jobs for others: from which jobs, and how these continue.

use crate::bench::{Bench, FLOOR, LEAF_SPINE, config};
use crate::fake::Fake;
use netfold_control::{Credentials, Join, Mode, Numerics, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, Coordinator, SessionId};
use netfold_controller::command::Command;
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{Quota, StoredRecords, TenantRecord};
use netfold_controller::topology::Topology;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(10);

fn shared(sharing: Sharing) -> Bench {
    let config = Config { sharing, settle: SETTLE, ..config() };
    Bench::new(Fake::new(1024, 64, 16), config)
}

/// Two workers who want so many slots, and can do without for a while or not.
struct Pair {
    name: Cow<'static, str>,
    slots: u32,
    port: u16,
    movable: bool,
    tenant: Option<&'static str>,
    from: [IpAddr; 2],
}

impl Pair {
    fn new(name: impl Into<Cow<'static, str>>, slots: u32, port: u16) -> Self {
        Self { name: name.into(), slots, port, movable: true, tenant: None, from: [[127, 0, 0, 1].into(); 2] }
    }

    fn join(&self, bench: &mut Bench) -> [SessionId; 2] {
        let ids = self.ask(bench);
        bench.run_tasks();
        ids
    }

    /// The same, and the switch does nothing yet.
    fn ask(&self, bench: &mut Bench) -> [SessionId; 2] {
        [0, 1].map(|rank: u16| {
            let id = bench.open().expect("there is room");
            let join = Join::new(&*self.name, (rank, 2), Mode::Bfp16, self.slots, self.port + rank);
            let credentials = |tenant: &str| Credentials { tenant: tenant.into(), token: String::new() };
            let credentials = self.tenant.map(credentials);
            let address = Some(self.from[usize::from(rank)]);
            bench.say(id, SessionRequest::Join(Join { movable: self.movable, credentials, address, ..join }));
            id
        })
    }
}

fn slots(bench: &Bench, members: [SessionId; 2]) -> Option<u32> {
    let slots = members.map(|id| bench.received[&id].admission().map(|admission| admission.slots));
    assert_eq!(slots[0], slots[1], "all members receive the same");
    slots[0]
}

/// The reason that the members received when they lost their place, if they did.
fn moved(bench: &Bench, members: [SessionId; 2]) -> Option<String> {
    let lost = members.map(|id| {
        bench.received[&id].events.iter().find_map(|event| match event {
            SessionEvent::SwitchLost { message } => Some(message.clone()),
            _ => None,
        })
    });
    assert_eq!(lost[0], lost[1], "all members receive the same");
    lost[0].clone()
}

/// Lets time pass while all sessions send heartbeats, and the switch does its work.
fn pass(bench: &mut Bench, time: Duration) {
    let end = bench.now + time;
    while bench.now < end {
        let open = bench.received.iter().filter(|(_, received)| !received.closed).map(|(id, _)| *id);
        open.collect::<Vec<_>>().into_iter().for_each(|id| bench.say(id, SessionRequest::ALIVE));
        bench.pass(SECOND.min(end - bench.now));
        bench.run_tasks();
    }
}

fn leave(bench: &mut Bench, members: [SessionId; 2]) {
    members.into_iter().for_each(|id| bench.say(id, SessionRequest::Leave {}));
    bench.run_tasks();
}

#[test]
fn a_job_shrinks_for_another_and_grows_back_when_that_has_gone() {
    let mut bench = shared(Sharing::Elastic);
    let (first, second) = (Pair::new("first", 1024, 5000), Pair::new("second", 1024, 5010));
    let a = first.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(1024));
    let b = second.join(&mut bench);
    assert_eq!(
        moved(&bench, a).as_deref(),
        Some("job 'second' needs slots: this one goes on with 512 slots")
    );
    assert_eq!(slots(&bench, b), Some(512));
    assert_eq!(bench.closed(&a).len(), 2, "their sessions are over, as with a switch that is lost");
    let a = first.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(512), "not all that it wants, or the two would never come to rest");
    pass(&mut bench, 3 * SETTLE);
    assert_eq!((moved(&bench, a), moved(&bench, b)), (None, None), "no job is moved without need");

    leave(&mut bench, b);
    pass(&mut bench, SETTLE);
    assert_eq!(moved(&bench, a).as_deref(), Some("slots are shared anew: this one goes on with 1024 slots"));
    let a = first.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(1024));
    pass(&mut bench, 3 * SETTLE);
    assert_eq!(moved(&bench, a), None);
    bench.finish();
}

#[test]
fn a_job_that_arrives_while_another_is_set_up_waits_for_it() {
    let mut bench = shared(Sharing::Elastic);
    let (first, second) = (Pair::new("first", 1024, 5000), Pair::new("second", 1024, 5010));
    let a = first.ask(&mut bench);
    let b = second.ask(&mut bench);
    assert_eq!(
        (slots(&bench, a), bench.received[&b[0]].refusal()),
        (None, None),
        "the switch has done nothing yet"
    );
    bench.run_tasks();
    assert_eq!(slots(&bench, a), Some(1024));
    assert!(moved(&bench, a).is_some());
    assert_eq!(slots(&bench, b), Some(512));
    bench.finish();
}

#[test]
fn three_jobs_reach_a_stable_allocation() {
    let mut bench = shared(Sharing::Elastic);
    let pairs = [Pair::new("a", 1024, 5000), Pair::new("b", 1024, 5010), Pair::new("c", 1024, 5020)];
    let mut members = pairs.each_ref().map(|_| None::<[SessionId; 2]>);
    for (index, pair) in pairs.iter().enumerate() {
        members[index] = Some(pair.join(&mut bench));
        // Moved jobs join again at once, as ranks do, until all have a place.
        for _ in 0..20 {
            for (at, pair) in pairs.iter().enumerate().take(index + 1) {
                let gone = members[at].is_some_and(|ids| bench.closed(&ids).len() == 2);
                if gone {
                    members[at] = Some(pair.join(&mut bench));
                }
            }
            pass(&mut bench, 2 * SECOND);
        }
        let held: Vec<u32> = members.iter().flatten().filter_map(|ids| slots(&bench, *ids)).collect();
        assert_eq!(held.len(), index + 1, "every job has a place: {held:?}");
        assert!(held.iter().sum::<u32>() >= 768 && held.iter().all(|slots| *slots >= 256), "{held:?}");
    }
    bench.finish();
}

#[test]
fn a_job_that_needs_the_switch_keeps_its_slots() {
    for sharing in Sharing::ALL {
        let mut bench = shared(sharing);
        let a = Pair { movable: false, ..Pair::new("first", 1024, 5000) }.join(&mut bench);
        let b = Pair::new("second", 1024, 5010).join(&mut bench);
        if sharing == Sharing::Elastic {
            assert_eq!(
                (slots(&bench, a), slots(&bench, b)),
                (Some(128), Some(512)),
                "an eighth, and the largest range"
            );
        } else {
            assert_eq!(bench.received[&b[0]].refusal(), Some(Refusal::Slots), "{sharing:?}");
            assert_eq!(slots(&bench, a), Some(1024));
        }
        assert_eq!(moved(&bench, a), None);
        bench.finish();
    }
    let mut bench = shared(Sharing::Static);
    let a = Pair::new("first", 1024, 5000).join(&mut bench);
    let b = Pair::new("second", 1024, 5010).join(&mut bench);
    assert_eq!(bench.received[&b[0]].refusal(), Some(Refusal::Slots));
    assert_eq!(moved(&bench, a), None, "what a job has it keeps");
    bench.finish();
}

#[test]
fn slots_are_not_given_away_before_the_switch_has_released_them() {
    let mut bench = shared(Sharing::Elastic);
    let a = Pair::new("first", 1024, 5000).join(&mut bench);
    bench.fake.lock().failing = Box::new(|_| true);
    let b = Pair::new("second", 1024, 5010).join(&mut bench);
    assert!(moved(&bench, a).is_some());
    pass(&mut bench, SECOND);
    assert_eq!((slots(&bench, b), bench.received[&b[0]].refusal()), (None, None), "it waits");
    bench.fake.lock().failing = Box::new(|_| false);
    for _ in 0..10 {
        pass(&mut bench, SECOND);
    }
    assert_eq!(slots(&bench, b), Some(512));
    bench.finish();
}

fn tenant(bench: &mut Bench, name: &str, priority: u8, slots: u32) {
    let quota = Quota { slots, ..Quota::UNLIMITED };
    let record = TenantRecord { name: name.into(), quota, weight: 1, priority, token: None };
    let add = |plane: &mut Coordinator, now| plane.execute(now, Command::AddTenant(record));
    bench.act(add).expect("a new tenant");
}

#[test]
fn a_higher_priority_displaces_a_lower_one_and_not_twice_in_a_row() {
    let config = Config { sharing: Sharing::Priority, settle: SETTLE, ..Config::controller(FLOOR, 0) };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config);
    tenant(&mut bench, "low", 1, u32::MAX);
    tenant(&mut bench, "high", 2, u32::MAX);
    let low = Pair { tenant: Some("low"), ..Pair::new("batch", 1024, 5000) };
    let high = Pair { tenant: Some("high"), ..Pair::new("urgent", 1024, 5010) };
    let a = low.join(&mut bench);
    let other = Pair { tenant: Some("low"), ..Pair::new("other", 1024, 5030) }.join(&mut bench);
    assert_eq!(bench.received[&other[0]].refusal(), Some(Refusal::Slots), "of the same priority");
    let b = high.join(&mut bench);
    assert_eq!(
        moved(&bench, a).as_deref(),
        Some("job 'high/urgent' needs slots: this one goes on when slots are free")
    );
    assert_eq!(slots(&bench, b), Some(1024));
    let a = low.join(&mut bench);
    assert_eq!(bench.received[&a[0]].refusal(), Some(Refusal::Slots), "it asks again, later");
    leave(&mut bench, b);
    let a = low.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(1024));
    // Another urgent one at once: the same job is not displaced a second time so soon.
    let late = Pair { tenant: Some("high"), ..Pair::new("late", 1024, 5020) };
    let b = late.join(&mut bench);
    assert_eq!((bench.received[&b[0]].refusal(), moved(&bench, a)), (Some(Refusal::Slots), None));
    pass(&mut bench, SETTLE);
    let b = late.join(&mut bench);
    assert_eq!(slots(&bench, b), Some(1024));
    bench.finish();
}

#[test]
fn no_job_grows_beyond_a_quota() {
    let config = Config { sharing: Sharing::Elastic, settle: SETTLE, ..Config::controller(FLOOR, 0) };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config);
    tenant(&mut bench, "red", 0, 300);
    let a = Pair { tenant: Some("red"), ..Pair::new("a", 1024, 5000) }.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(128), "half of the quota is for other jobs of the tenant");
    pass(&mut bench, 5 * SETTLE);
    assert_eq!(moved(&bench, a), None, "to be moved in vain costs a job its switch for a while");
    bench.finish();
}

#[test]
fn a_tree_makes_room_at_every_switch_and_grows_when_all_have_it() {
    let topology = Topology::from_toml(LEAF_SPINE).unwrap();
    let fakes: Vec<Fake> = (0..3).map(|_| Fake::new(1024, 64, 16)).collect();
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let links = links(&topology);
    let fleet = Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(3));
    let config = Config { sharing: Sharing::Elastic, settle: SETTLE, ..config() };
    let mut bench = Bench::over(fakes, config, fleet.linked(links), StoredRecords::default());
    let (left, right): (IpAddr, IpAddr) = ([10, 0, 1, 1].into(), [10, 0, 2, 1].into());
    let across = Pair { from: [left, right], ..Pair::new("across", 1024, 5000) };
    let a = across.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(1024));
    // A job that needs a single leaf makes the whole tree shrink.
    let local = Pair { from: [left, left], ..Pair::new("local", 512, 5010) };
    let b = local.join(&mut bench);
    assert_eq!(slots(&bench, b), Some(512));
    assert!(moved(&bench, a).is_some());
    let a = across.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(512));
    // There is room at two of its three switches: it stays as it is.
    pass(&mut bench, 5 * SETTLE);
    assert_eq!(moved(&bench, a), None);
    leave(&mut bench, b);
    pass(&mut bench, 2 * SETTLE);
    assert!(moved(&bench, a).is_some(), "now there is room everywhere");
    let a = across.join(&mut bench);
    assert_eq!(slots(&bench, a), Some(1024));
    bench.finish_all();
}

/// Has every job join whose sessions are over, as ranks do that are linked, until all have a place or `seconds` have passed.
fn settle(bench: &mut Bench, pairs: &[Pair], members: &mut [[SessionId; 2]], seconds: u32) {
    for _ in 0..seconds {
        let mut complete = true;
        for (pair, ids) in pairs.iter().zip(members.iter_mut()) {
            if bench.closed(&*ids).len() == 2 {
                complete = false;
                *ids = pair.join(bench);
            }
        }
        if complete {
            return;
        }
        pass(bench, SECOND);
    }
}

/// A switch with the capacities of the software switch, shared by default, and its tenants with their quotas of slots.
fn large(tenants: &[(&str, u32)]) -> Bench {
    let mut bench = Bench::new(Fake::new(8192, 4095, 2048), Config::controller(FLOOR, 0));
    tenants.iter().for_each(|(name, slots)| tenant(&mut bench, name, 0, *slots));
    bench
}

/// So many jobs of a tenant that want 256 slots each.
fn many(tenant: &'static str, count: u16, movable: bool) -> Vec<Pair> {
    let first = if tenant == "red" { 1000 } else { 5000 };
    let pair = |job: u16| Pair::new(format!("job{job}"), 256, first + 2 * job);
    (0..count).map(|job| Pair { movable, tenant: Some(tenant), ..pair(job) }).collect()
}

fn held(bench: &Bench, members: &[[SessionId; 2]]) -> Vec<u32> {
    members.iter().filter_map(|ids| slots(bench, *ids)).collect()
}

#[test]
fn forty_jobs_that_keep_their_slots_are_admitted() {
    let mut bench = large(&[("red", u32::MAX)]);
    let members: Vec<_> = many("red", 40, false).iter().map(|pair| pair.join(&mut bench)).collect();
    let held = held(&bench, &members);
    assert_eq!(
        held.len(),
        40,
        "the third was refused when half of 1,024 slots were a tenant's, and the 17th for its number"
    );
    assert_eq!((held[0], held[16], held.iter().min()), (256, 256, Some(&32)), "{held:?}");
    assert!(
        held.is_sorted_by(|one, other| one >= other),
        "each leaves seven eighths of what is free: {held:?}"
    );
    bench.finish();
}

#[test]
fn jobs_that_follow_others_at_once_get_as_many_slots_as_those() {
    let mut bench = large(&[("red", u32::MAX)]);
    let pairs = many("red", 40, false);
    let first: Vec<_> = pairs.iter().map(|pair| pair.join(&mut bench)).collect();
    let before = held(&bench, &first);
    let leave = |id: &SessionId| bench.say(*id, SessionRequest::Leave {});
    first.iter().flatten().for_each(leave);
    // The switch still has all places of the first jobs; the others use other ports.
    let next = (0..40).map(|job| Pair::new(format!("next{job}"), 256, 2000 + 2 * job));
    let next: Vec<_> =
        next.map(|pair| Pair { movable: false, tenant: Some("red"), ..pair }.ask(&mut bench)).collect();
    bench.run_tasks();
    assert_eq!(held(&bench, &next), before);
    bench.finish();
}

#[test]
fn jobs_that_start_at_once_make_room_within_a_quota() {
    let mut bench = large(&[("red", 256)]);
    let pairs = many("red", 16, true);
    let mut members: Vec<_> = pairs.iter().map(|pair| pair.ask(&mut bench)).collect();
    assert_eq!(bench.received.values().filter_map(|received| received.refusal()).next(), None);
    bench.run_tasks();
    settle(&mut bench, &pairs, &mut members, 20);
    assert_eq!(held(&bench, &members), [16; 16]);
    bench.finish();
}

#[test]
fn hundreds_of_jobs_shrink_to_a_few_slots_each() {
    let mut bench = large(&[("red", u32::MAX)]);
    let pairs = many("red", 300, true);
    let mut members = Vec::new();
    for pair in &pairs {
        members.push(pair.join(&mut bench));
        settle(&mut bench, &pairs, &mut members, 20);
    }
    settle(&mut bench, &pairs, &mut members, 20);
    let held = held(&bench, &members);
    assert!(members.iter().all(|ids| bench.closed(ids).is_empty()), "no job is without a place");
    assert!(held.iter().all(|slots| (16..=64).contains(slots)), "{held:?}");
    assert!(held.iter().sum::<u32>() >= 6144, "and most slots are in use: {held:?}");
    bench.finish();
}

#[test]
fn jobs_of_one_tenant_make_room_within_its_quota_and_others_keep_their_slots() {
    for movable in [true, false] {
        let mut bench = large(&[("red", 512), ("blue", u32::MAX)]);
        let (red, blue) = (many("red", 30, movable), many("blue", 2, false));
        let first = blue[0].join(&mut bench);
        let mut members = Vec::new();
        for pair in &red {
            members.push(pair.join(&mut bench));
            settle(&mut bench, &red, &mut members, 20);
        }
        let held = held(&bench, &members);
        assert!(held.iter().sum::<u32>() <= 512, "no tenant has more than its quota: {held:?}");
        if movable {
            assert_eq!(held.len(), 30, "they shrink for each other: {held:?}");
        } else {
            assert_eq!(
                (held.len(), held[0]),
                (22, 64),
                "the first has an eighth, and a job has 16 at least: {held:?}"
            );
            assert_eq!(bench.received[&members[29][0]].refusal(), Some(Refusal::Quota));
        }
        let second = blue[1].join(&mut bench);
        assert_eq!(
            (slots(&bench, first), slots(&bench, second)),
            (Some(256), Some(256)),
            "the other tenant notices nothing"
        );
        assert_eq!(moved(&bench, first), None);
        bench.finish();
    }
}

#[test]
fn a_job_that_would_overfill_the_table_of_its_switch_is_refused() {
    let fake = Fake::new(1024, 64, 64);
    // Four jobs of two children: 13 entries each.
    fake.lock().limits.entries = 4 * 13;
    let mut bench = Bench::new(fake, config());
    let pairs = ["a", "b", "c", "d", "e"].into_iter().zip([5000, 5010, 5020, 5030, 5040]);
    let members: Vec<_> = pairs.map(|(name, port)| Pair::new(name, 16, port).join(&mut bench)).collect();
    assert_eq!(held(&bench, &members), [16; 4]);
    let last = &bench.received[&members[4][0]];
    assert_eq!(
        (last.refusal(), last.text().contains("job table")),
        (Some(Refusal::Busy), true),
        "{}",
        last.text()
    );
    leave(&mut bench, members[0]);
    let again = Pair::new("e", 16, 5050).join(&mut bench);
    assert_eq!(slots(&bench, again), Some(16), "what a job held is free after it");
    bench.finish();
}

/// A step: the number of a job, whether it is red's, whether it may be moved, and the logarithm of its slots. A job that runs ends.
type Step = (u16, bool, bool, u8);

/// Jobs come and go. No tenant has more than its quota, a job that keeps its slots takes at most an eighth of what is free or as few as it can do with,
/// and no job is refused slots while one that could give some up has more than twice as many as it needs.
fn come_and_go(quota: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let config = Config { settle: SETTLE, ..Config::controller(FLOOR, 0) };
    let mut bench = Bench::new(Fake::new(512, 128, 64), config);
    tenant(&mut bench, "red", 0, quota);
    tenant(&mut bench, "blue", 0, u32::MAX);
    let mut running: BTreeMap<(bool, u16), (Pair, [SessionId; 2])> = BTreeMap::new();
    for &(job, red, movable, log) in steps {
        if let Some((_, ids)) = running.remove(&(red, job)) {
            leave(&mut bench, ids);
            continue;
        }
        let port = 1000 + 2 * job + if red { 0 } else { 100 };
        let tenant = Some(if red { "red" } else { "blue" });
        let pair = Pair { movable, tenant, ..Pair::new(format!("job{job}"), 1 << log, port) };
        let total = |running: &BTreeMap<(bool, u16), (Pair, [SessionId; 2])>, bench: &Bench| -> u32 {
            running
                .values()
                .filter(|(_, ids)| bench.closed(ids).is_empty())
                .filter_map(|(_, ids)| slots(bench, *ids))
                .sum()
        };
        let before = 512 - total(&running, &bench);
        let ids = pair.join(&mut bench);
        // Jobs from which slots were taken for this one are over when it gets its part of what is free, and come back for the rest.
        let free = before.max(512 - total(&running, &bench));
        if let (Some(granted), false) = (slots(&bench, ids), movable) {
            prop_assert!(granted <= 16.max(free / 8), "{granted} of {free}");
        }
        running.insert((red, job), (pair, ids));
        let (pairs, mut members): (Vec<_>, Vec<_>) = running.into_values().unzip();
        settle(&mut bench, &pairs, &mut members, 20);
        let keyed = pairs.into_iter().zip(members).map(|(pair, ids)| {
            let number = pair.name.trim_start_matches("job").parse().expect("jobs are numbered");
            ((pair.tenant == Some("red"), number), (pair, ids))
        });
        running = keyed.collect();
        let of_red =
            running.iter().filter(|((red, _), _)| *red).filter_map(|(_, (_, ids))| slots(&bench, *ids));
        prop_assert!(of_red.sum::<u32>() <= quota);
        let refused = running.iter().find(|(_, (_, ids))| slots(&bench, *ids).is_none());
        if let Some(((of_red, _), (refused, ids))) = refused {
            let gives = |((red, _), (pair, ids)): (&(bool, u16), &(Pair, [SessionId; 2]))| {
                pair.movable && slots(&bench, *ids).is_some_and(|slots| slots > 32) && (!*of_red || *red)
            };
            let reason = bench.received[&ids[0]].refusal();
            prop_assert!(!running.iter().any(gives), "'{}' was refused: {reason:?}", refused.name);
        }
        running.retain(|_, (_, ids)| slots(&bench, *ids).is_some());
    }
    bench.finish();
    Ok(())
}

/// A job that keeps its slots, when none are free, gets its part of those of a job that is to come back with half of them.
#[test]
fn slots_of_a_job_that_is_to_come_back_count_as_free() {
    let steps = [
        (14, false, false, 4),
        (1, false, true, 7),
        (2, false, true, 8),
        (0, true, false, 4),
        (1, true, false, 4),
        (2, true, false, 4),
        (10, false, false, 4),
        (3, false, true, 5),
        (4, false, true, 6),
        (10, false, false, 4),
        (3, true, false, 4),
        (0, false, false, 5),
    ];
    come_and_go(48, &steps).unwrap();
}

proptest! {
    #[test]
    fn a_refusal_is_the_exception(
        quota in prop::sample::select(vec![48_u32, 128, 512, u32::MAX]),
        steps in prop::collection::vec((0_u16..24, any::<bool>(), any::<bool>(), 4_u8..9), 1..40),
    ) {
        come_and_go(quota, &steps)?;
    }
}
