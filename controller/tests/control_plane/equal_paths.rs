//! Equal paths whose hash is known: the ports that members are ordered to use, and the paths that a schedule chooses.

use crate::bench::{Bench, FLOOR};
use crate::fake::Fake;
use netfold_control::{
    CommunicationPattern, Join, Mode, Multipath, PathPolicy, PathReport, PortSet, Resume, SessionEvent,
    SessionRequest,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::bands::Banding;
use netfold_controller::equal_paths::{EqualPaths, Way};
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::JobName;
use netfold_controller::schedule::paths::{CHANGE_INTERVAL, SETTLING_MIN};
use netfold_controller::schedule::{Decision, Schedule, paths};
use netfold_controller::view::JobView;
use std::net::SocketAddr;
use std::time::Duration;

const PORTS: u8 = 32;
const HEARTBEAT: Duration = Duration::from_millis(500);
const ALL: PortSet = PortSet::first(PORTS);

fn equal_paths() -> EqualPaths {
    "linux,seed=7,paths=4".parse().expect("equal paths")
}

fn settings(schedule: Schedule) -> Config {
    Config {
        schedule,
        multipath: Some(Multipath { udp_ports: PORTS, policy: PathPolicy::Weighted }),
        equal_paths: Some(equal_paths()),
        own_address: Some([10, 9, 0, 1].into()),
        banding: Banding { link_bps: 100_000_000, ..Banding::default() },
        tenants: false,
        ..Config::controller(FLOOR, 1_000_000)
    }
}

fn bench(schedule: Schedule) -> Bench {
    let fake = Fake::new(4096, 64, 16);
    fake.lock().limits.multipath = true;
    Bench::new(fake, settings(schedule))
}

/// A job of two workers with so many ports each, from `first` on.
fn start(bench: &mut Bench, name: &str, first: u16, udp_ports: u8) -> Vec<SessionId> {
    let member = |bench: &mut Bench, rank: u16| {
        let id = bench.open().expect("there is room");
        let join = Join { udp_ports, ..Join::new(name, (rank, 2), Mode::Bfp16, 256, first + 32 * rank) };
        bench.say(id, SessionRequest::Join(join));
        id
    };
    let members = vec![member(bench, 0), member(bench, 1)];
    bench.run_tasks();
    members
}

fn report(ordered: Option<PortSet>) -> SessionRequest {
    let ports = usize::from(PORTS);
    SessionRequest::Paths(PathReport { sent: vec![9; ports], round_trip_us: vec![100; ports], ordered })
}

/// Orders that a member has received.
fn orders(bench: &Bench, id: SessionId) -> Vec<PortSet> {
    let events = bench.received[&id].events.iter();
    events
        .filter_map(|event| if let SessionEvent::UsePorts { ports } = event { Some(*ports) } else { None })
        .collect()
}

fn ways(first: u16) -> Vec<Way> {
    let worker = SocketAddr::new([127, 0, 0, 1].into(), first);
    let switch = "10.9.0.1:20038".parse().expect("an address");
    equal_paths().ways(worker, PORTS, switch).expect("both are of IPv4")
}

/// Ports of each path, upwards.
fn by_path(first: u16, ports: PortSet) -> [usize; 4] {
    let ways = ways(first);
    [0, 1, 2, 3]
        .map(|path| (0..).zip(&ways).filter(|(port, way)| ports.contains(*port) && way.up == path).count())
}

fn view(bench: &Bench, name: &str) -> JobView {
    bench.coordinator.view_job(&JobName { tenant: String::new(), job: name.into() }).expect("it runs")
}

#[test]
fn members_use_ports_that_spread_exactly() {
    let mut bench = bench(Schedule::Off);
    let members = start(&mut bench, "demo", 6000, PORTS);
    assert_ne!(by_path(6000, ALL), [8; 4], "all ports together do not");
    bench.say(members[0], report(Some(ALL)));
    let ordered = orders(&bench, members[0]);
    assert_eq!(ordered.len(), 1);
    assert_eq!(by_path(6000, ordered[0]), [4; 4]);
    // Once; and not to a library that takes none.
    bench.say(members[0], report(Some(ALL)));
    bench.say(members[0], report(Some(ordered[0])));
    bench.say(members[1], report(None));
    assert_eq!((orders(&bench, members[0]).len(), orders(&bench, members[1]).len()), (1, 0));
    // A report that cannot be is no reason for an order.
    bench.say(members[1], report(Some(PortSet(1 << 40))));
    bench.say(members[1], report(Some(PortSet(0))));
    assert_eq!(orders(&bench, members[1]), []);
    bench.finish();
}

/// Its part of an iteration of 100 ms without, and of 150 ms with another job on its path.
fn pattern(span_us: u64) -> CommunicationPattern {
    CommunicationPattern {
        iterations: 20,
        period_us: 100_000 + span_us,
        span_us,
        busy_us: span_us,
        compute_us: 100_000,
        bytes: 1_200_000,
        deviation: 0,
        age_us: 0,
    }
}

/// Both jobs report, and a heartbeat passes.
fn beat(bench: &mut Bench, jobs: &[(&[SessionId], u64, Option<PortSet>)]) {
    for (members, span_us, ordered) in jobs {
        for id in *members {
            bench.say(*id, SessionRequest::Pattern(pattern(*span_us)));
            if ordered.is_some() {
                bench.say(*id, report(*ordered));
            }
        }
    }
    bench.pass(HEARTBEAT);
}

#[test]
fn a_job_leaves_the_path_that_another_is_bound_to() {
    let mut bench = bench(Schedule::Crux);
    let bound = start(&mut bench, "bound", 5000, 1);
    let free = start(&mut bench, "free", 6000, PORTS);
    beat(&mut bench, &[(&bound, 150_000, None), (&free, 100_000, Some(ALL))]);
    let exact = orders(&bench, free[0]);
    assert_eq!(by_path(6000, exact[0]), [4; 4]);
    assert_eq!(exact.len(), 1, "a job that is as fast as alone is left alone");
    assert_eq!(view(&bench, "free").schedule.as_deref(), Some("uses all paths: it is as fast as alone"));
    for _ in 0..CHANGE_INTERVAL.as_millis() / HEARTBEAT.as_millis() {
        assert_eq!(orders(&bench, free[0]).len(), 1);
        beat(&mut bench, &[(&bound, 150_000, None), (&free, 150_000, Some(exact[0]))]);
    }
    let ordered = orders(&bench, free[0]);
    assert_eq!(ordered.len(), 2);
    let of_bound = [5000, 5032].map(|port| ways(port)[0].up);
    for (first, id) in [(6000, free[0]), (6032, free[1])] {
        let ports = *orders(&bench, id).last().unwrap();
        let used: Vec<usize> = (0..4).filter(|path| by_path(first, ports)[*path] > 0).collect();
        assert!(used.len() == 1 && !of_bound.contains(&(used[0] as u8)), "{used:?} {of_bound:?}");
    }
    let text = view(&bench, "free").schedule.expect("there is a schedule");
    assert!(text.starts_with("ordered to use ") && text.contains("to save up to "), "{text}");
    assert!(orders(&bench, bound[0]).is_empty());
    let scheduled = bench.log.iter().filter(|event| {
        matches!(
            event,
            JobEvent::Scheduled { decision: Decision::Paths(paths::Decision::Ordered { .. }), .. }
        )
    });
    assert_eq!(scheduled.count(), 1);
    // It helped: nothing changes any more. Others that end change nothing either.
    for _ in 0..20 {
        beat(&mut bench, &[(&bound, 100_000, None), (&free, 100_000, Some(ordered[1]))]);
    }
    assert_eq!(orders(&bench, free[0]).len(), 2);
    bench.finish();
}

#[test]
fn an_order_that_does_not_help_is_undone() {
    let mut bench = bench(Schedule::Crux);
    let bound = start(&mut bench, "bound", 5000, 1);
    let free = start(&mut bench, "free", 6000, PORTS);
    let mut used = ALL;
    let mut text = String::new();
    for _ in 0..(SETTLING_MIN.as_millis() / HEARTBEAT.as_millis() + 4) {
        beat(&mut bench, &[(&bound, 150_000, None), (&free, 150_000, Some(used))]);
        used = orders(&bench, free[0]).last().copied().unwrap_or(used);
        text = view(&bench, "free").schedule.unwrap_or_default();
    }
    let seen: Vec<[usize; 4]> = orders(&bench, free[0]).iter().map(|ports| by_path(6000, *ports)).collect();
    assert!(seen.len() == 3 && seen[0] == [4; 4] && seen[1] != [4; 4] && seen[2] == [4; 4], "{seen:?}");
    assert!(text.contains("for 30 s: the last change shortened nothing"), "{text}");
    bench.finish();
}

#[test]
fn orders_outlive_the_controller() {
    let mut bench = bench(Schedule::Crux);
    let bound = start(&mut bench, "bound", 5000, 1);
    let free = start(&mut bench, "free", 6000, PORTS);
    beat(&mut bench, &[(&bound, 150_000, None), (&free, 150_000, Some(ALL))]);
    beat(&mut bench, &[(&bound, 150_000, None), (&free, 150_000, Some(ALL))]);
    let ordered = *orders(&bench, free[0]).last().unwrap();
    assert_ne!(by_path(6000, ordered), [4; 4]);
    let admission = bench.received[&free[0]].admission().unwrap().clone();
    let mut bench = bench.restart(settings(Schedule::Crux));
    bench.run_tasks();
    let id = bench.open().expect("there is room");
    let ticket = admission.ticket.expect("sessions can be resumed");
    let (job, epoch, version) = (admission.job, admission.epoch, netfold_wire::VERSION);
    bench.say(id, SessionRequest::Resume(Resume { version, job, epoch, rank: 0, ticket }));
    for _ in 0..3 {
        bench.say(id, report(Some(ordered)));
        bench.say(id, SessionRequest::Pattern(pattern(100_000)));
        bench.pass(HEARTBEAT);
    }
    assert!(orders(&bench, id).is_empty(), "it keeps its path");
    let text = view(&bench, "free").schedule;
    assert_eq!(text.as_deref(), Some("keeps its ordered paths: it is as fast as alone"));
    bench.finish();
}
