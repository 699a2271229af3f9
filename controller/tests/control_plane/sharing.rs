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
use rand::SeedableRng;
use rand::rngs::StdRng;
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
    name: &'static str,
    slots: u32,
    port: u16,
    movable: bool,
    tenant: Option<&'static str>,
    from: [IpAddr; 2],
}

impl Pair {
    fn new(name: &'static str, slots: u32, port: u16) -> Self {
        Self { name, slots, port, movable: true, tenant: None, from: [[127, 0, 0, 1].into(); 2] }
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
            let join = Join::new(self.name, (rank, 2), Mode::Bfp16, self.slots, self.port + rank);
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
        assert_eq!(bench.received[&b[0]].refusal(), Some(Refusal::Slots), "{sharing:?}");
        assert_eq!((slots(&bench, a), moved(&bench, a)), (Some(1024), None));
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
    assert_eq!(slots(&bench, a), Some(256));
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
