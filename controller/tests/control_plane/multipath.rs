//! Workers with several UDP ports: who is to have them, and that none has another's.

use crate::bench::{Bench, config};
use crate::fake::Fake;
use netfold_control::{Join, Mode, Multipath, PathPolicy, PathReport, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::record::JobName;
use netfold_controller::view::PathsView;
use std::time::Duration;

const SIXTEEN: Multipath = Multipath { udp_ports: 16, policy: PathPolicy::Reps };

fn bench(multipath: Option<Multipath>, at_switch: bool) -> Bench {
    let fake = Fake::new(1024, 64, 16);
    fake.lock().limits.multipath = at_switch;
    Bench::new(fake, Config { multipath, ..config() })
}

fn ask(bench: &mut Bench, id: SessionId, (rank, world): (u16, u16), udp_port: u16, udp_ports: u8) {
    let join = Join { udp_ports, ..Join::new("demo", (rank, world), Mode::Bfp16, 256, udp_port) };
    bench.say(id, SessionRequest::Join(join));
}

fn join(bench: &mut Bench, place: (u16, u16), udp_port: u16, udp_ports: u8) -> SessionId {
    let id = bench.open().expect("there is room");
    ask(bench, id, place, udp_port, udp_ports);
    id
}

/// The number of UDP ports that a member is to have, as the reply to its join says.
fn requested(bench: &Bench, id: SessionId) -> Option<u8> {
    bench.received[&id].events.iter().find_map(|event| match event {
        SessionEvent::Paths { udp_ports } => Some(*udp_ports),
        _ => None,
    })
}

#[test]
fn members_and_their_switch_have_the_same_number_of_ports() {
    let mut bench = bench(Some(SIXTEEN), true);
    let members: Vec<SessionId> = (0..2)
        .map(|rank| {
            let id = join(&mut bench, (rank, 2), 5000 + rank, 0);
            assert_eq!((requested(&bench, id), bench.received[&id].refusal()), (Some(16), None));
            ask(&mut bench, id, (rank, 2), 6000 + 16 * rank, 16);
            id
        })
        .collect();
    bench.run_tasks();
    for id in &members {
        let admission = bench.received[id].admission().expect("both are admitted");
        assert_eq!(admission.multipath, Some(SIXTEEN));
    }
    let switch = bench.fake.lock();
    assert!(switch.ports.values().zip([6000, 6016]).all(|(peer, port)| peer.port() == port));
    assert_eq!(switch.udp_ports.values().copied().collect::<Vec<_>>(), [16, 16]);
}

#[test]
fn paths_that_a_member_avoids_are_shown() {
    let mut bench = bench(Some(Multipath { policy: PathPolicy::Weighted, ..SIXTEEN }), true);
    let members: Vec<SessionId> =
        (0..2).map(|rank| join(&mut bench, (rank, 2), 6000 + 16 * rank, 16)).collect();
    bench.run_tasks();
    assert!(bench.received[&members[0]].admission().expect("both are admitted").path_reports);
    let paths = |bench: &Bench| -> Option<PathsView> {
        let name = JobName { tenant: String::new(), job: "demo".into() };
        bench.coordinator.view_job(&name).expect("it runs").paths
    };
    let report = |sent: u64, by_fifth: u64| {
        let sent = (0..16).map(|path| if path == 5 { by_fifth } else { sent }).collect();
        SessionRequest::Paths(PathReport { sent, round_trip_us: vec![300; 16], ordered: None })
    };
    assert_eq!(paths(&bench), None);
    members.iter().for_each(|id| bench.say(*id, report(10, 10)));
    (0..4).for_each(|_| bench.pass(Duration::from_millis(500)));
    assert_eq!(paths(&bench), None, "when these were sent is not known");
    bench.say(members[0], report(1_010, 1_010));
    bench.say(members[1], report(1_010, 15));
    let seen = paths(&bench).expect("both have reported");
    assert_eq!(
        (seen.udp_ports, seen.policy, seen.members, seen.avoided_count),
        (16, PathPolicy::Weighted, 2, 1)
    );
    assert_eq!((seen.avoided[0].rank, seen.avoided[0].path, seen.avoided[0].round_trip_us), (1, 5, 300));
    assert!((seen.avoided[0].share - 5.0 / 15_005.0).abs() < 1e-9);
    // Of other ports than its own, or fewer packets than before: ignored, and the session goes on.
    bench.say(members[1], report(0, 0));
    bench.say(
        members[1],
        SessionRequest::Paths(PathReport {
            sent: vec![1 << 40; 64],
            round_trip_us: vec![1; 64],
            ordered: None,
        }),
    );
    assert_eq!(paths(&bench), Some(seen));
    bench.pass(Duration::from_millis(500));
    assert!(!bench.received[&members[1]].closed);
    let stranger = bench.open().expect("there is room");
    bench.say(stranger, report(0, 0));
    assert_eq!(bench.received[&stranger].refusal(), Some(Refusal::Protocol));
    bench.finish();
}

#[test]
fn without_several_paths_there_is_one_port() {
    for (multipath, at_switch) in [(None, true), (Some(SIXTEEN), false)] {
        let mut bench = bench(multipath, at_switch);
        let id = join(&mut bench, (0, 1), 5000, 0);
        bench.run_tasks();
        assert_eq!(requested(&bench, id), None);
        assert_eq!(bench.received[&id].admission().expect("it is admitted").multipath, None);
        assert_eq!(bench.fake.lock().udp_ports.values().copied().collect::<Vec<_>>(), [1]);
    }
}

/// A worker of a library that knows nothing of several ports has one beside others that have several: in another job.
#[test]
fn a_worker_that_names_one_port_has_one() {
    let mut bench = bench(Some(SIXTEEN), true);
    let id = join(&mut bench, (0, 1), 5000, 1);
    bench.run_tasks();
    assert_eq!(bench.received[&id].admission().expect("it is admitted").multipath, None);

    let one = bench.open().expect("there is room");
    bench.say(one, SessionRequest::Join(Join::new("other", (0, 2), Mode::Bfp16, 256, 6000)));
    let several = bench.open().expect("there is room");
    let join = Join { udp_ports: 16, ..Join::new("other", (1, 2), Mode::Bfp16, 256, 7000) };
    bench.say(several, SessionRequest::Join(join));
    assert_eq!(bench.received[&several].refusal(), Some(Refusal::Argument));
    assert!(bench.received[&several].text().contains("16"), "{}", bench.received[&several].text());
}

#[test]
fn ports_of_two_workers_do_not_overlap() {
    let mut bench = bench(Some(SIXTEEN), true);
    let first = join(&mut bench, (0, 3), 6000, 16);
    for (udp_port, overlaps) in [(6015, true), (5985, true), (6000, true), (6016, false), (5984, false)] {
        let id = bench.open().expect("there is room");
        let name = format!("job {udp_port}");
        let join = Join { udp_ports: 16, ..Join::new(name, (0, 3), Mode::Bfp16, 256, udp_port) };
        bench.say(id, SessionRequest::Join(join));
        let refusal = bench.received[&id].refusal();
        assert_eq!(refusal.is_some(), overlaps, "{udp_port}: {refusal:?}");
    }
    assert_eq!(bench.received[&first].refusal(), None);
}

#[test]
fn numbers_of_ports_that_cannot_be_are_refused() {
    for (udp_port, udp_ports) in [(5000, 3), (5000, 8), (5000, 65), (5000, 128), (65_530, 16)] {
        let mut bench = bench(Some(SIXTEEN), true);
        let id = join(&mut bench, (0, 1), udp_port, udp_ports);
        assert_eq!(bench.received[&id].refusal(), Some(Refusal::Argument), "{udp_ports} from {udp_port} on");
    }
    let mut without = bench(None, true);
    let id = join(&mut without, (0, 1), 5000, 16);
    assert_eq!(without.received[&id].refusal(), Some(Refusal::Argument));
}
