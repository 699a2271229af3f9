//! Authenticated jobs: who is given keys, and that each end of a link has those of the other.

use crate::bench::{Bench, config};
use crate::fake::Fake;
use netfold_control::{Join, Mode, PathChallenge, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::driver::HeldEntity;
use netfold_wire::{JobKeys, PacketKey, PortKeys};
use std::net::IpAddr;
use std::time::Duration;

const HERE: [u8; 4] = [127, 0, 0, 1];

fn bench(config: Config) -> Bench {
    let fake = Fake::new(1024, 64, 16);
    fake.lock().limits.authenticates = true;
    Bench::new(fake, config)
}

fn join(
    bench: &mut Bench,
    from: impl Into<IpAddr>,
    (rank, world): (u16, u16),
    authenticated: bool,
) -> SessionId {
    let id = bench.open_from(from.into()).expect("there is room");
    let join = Join { authenticated, ..Join::new("demo", (rank, world), Mode::Bfp16, 256, 5000 + rank) };
    bench.say(id, SessionRequest::Join(join));
    id
}

/// All ranks of an authenticated job.
fn start(bench: &mut Bench, world: u16) -> Vec<SessionId> {
    let members: Vec<SessionId> = (0..world).map(|rank| join(bench, HERE, (rank, world), true)).collect();
    bench.run_tasks();
    members
}

fn challenge(bench: &Bench, id: SessionId) -> PathChallenge {
    let challenge = |event: &SessionEvent| match event {
        SessionEvent::Path(challenge) => Some(challenge.clone()),
        _ => None,
    };
    bench.received[&id].events.iter().find_map(challenge).expect("each member is challenged")
}

/// The keys of a session's worker.
fn keys(bench: &Bench, id: SessionId) -> PortKeys {
    challenge(bench, id).keys.expect("an authenticated job has keys")
}

#[test]
fn each_member_has_the_keys_of_its_port_the_other_way_round() {
    let mut bench = bench(config());
    let members = start(&mut bench, 3);
    assert!(members.iter().all(|id| bench.received[id].admission().is_some()));
    let at_switch: Vec<JobKeys> = bench.fake.lock().keys.values().cloned().collect();
    let first = challenge(&bench, members[0]);
    for (id, port) in members.iter().zip(&at_switch) {
        let PortKeys { receive, send } = keys(&bench, *id);
        assert_eq!(port.keys, PortKeys { receive: send, send: receive });
        assert_eq!((port.job, port.epoch), (first.job, first.epoch));
    }
    let senders: Vec<&PacketKey> = at_switch.iter().map(|port| &port.keys.receive).collect();
    assert!(senders[0] != senders[1] && senders[1] != senders[2] && senders[0] != senders[2], "one each");
    assert!(at_switch.iter().all(|port| port.keys.send == at_switch[0].keys.send), "results have one key");
    assert!(!senders.contains(&&at_switch[0].keys.send));

    // A member that leaves takes its keys away, and the job's next run has others.
    bench.say(members[1], SessionRequest::Leave {});
    bench.run_tasks();
    assert_eq!(bench.fake.lock().keys.len(), 2);
    for id in [members[0], members[2]] {
        bench.say(id, SessionRequest::Leave {});
    }
    bench.run_tasks();
    assert!(bench.fake.lock().is_empty());
    let again = start(&mut bench, 3);
    assert!(again.iter().zip(&members).all(|(new, old)| keys(&bench, *new) != keys(&bench, *old)));
    bench.finish();
}

#[test]
fn a_restarted_controller_holds_the_same_keys() {
    let config = Config { grace: Duration::from_secs(20), ..config() };
    let mut bench = bench(config.clone());
    start(&mut bench, 2);
    let before = bench.fake.lock().keys.clone();
    let bench = bench.restart(config);
    let held = bench.coordinator.holdings().remove(0);
    let held = held.into_iter().filter_map(|held| match held {
        HeldEntity::Port { port, keys, .. } => Some((port, keys?)),
        _ => None,
    });
    assert_eq!(held.collect::<Vec<_>>(), before.into_iter().collect::<Vec<_>>());
}

#[test]
fn plain_jobs_have_no_keys() {
    let mut bench = bench(config());
    let members = bench.start("demo", 2, 5000);
    assert!(members.iter().all(|id| challenge(&bench, *id).keys.is_none()));
    assert!(bench.fake.lock().keys.is_empty());
    bench.finish();
}

#[test]
fn keys_are_sent_over_encrypted_or_local_sessions_alone() {
    let elsewhere = [192, 0, 2, 7];
    let mut plain = bench(config());
    let refused = join(&mut plain, elsewhere, (0, 1), true);
    assert_eq!(plain.received[&refused].refusal(), Some(Refusal::Authentication));
    let text = plain.received[&refused].text();
    assert!(text.contains("in clear text: start the controller with a certificate (--tls-cert"), "{text}");
    let unauthenticated = join(&mut plain, elsewhere, (0, 1), false);
    plain.run_tasks();
    assert!(plain.received[&unauthenticated].admission().is_some());
    plain.finish();

    let mut encrypted = bench(Config { encrypted: true, ..config() });
    let member = join(&mut encrypted, elsewhere, (0, 1), true);
    encrypted.run_tasks();
    assert!(
        encrypted.received[&member].admission().is_some() && challenge(&encrypted, member).keys.is_some()
    );
    encrypted.finish();
}

#[test]
fn switches_that_do_not_authenticate_packets_have_no_authenticated_jobs() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    let refused = join(&mut bench, HERE, (0, 1), true);
    assert_eq!(bench.received[&refused].refusal(), Some(Refusal::Authentication));
    let text = bench.received[&refused].text();
    assert!(text.starts_with("the switch does not authenticate packets: it is no software switch"), "{text}");
    bench.finish();
}

#[test]
fn members_agree_on_authentication() {
    for first in [false, true] {
        let mut bench = bench(config());
        let waiting = join(&mut bench, HERE, (0, 2), first);
        let other = join(&mut bench, HERE, (1, 2), !first);
        assert_eq!(bench.received[&other].refusal(), Some(Refusal::Argument));
        assert!(bench.received[&other].text().ends_with("give all the same setting"));
        assert!(bench.received[&waiting].is_untouched());
        bench.finish();
    }
}

/// A call that fails leaves neither ports nor keys.
#[test]
fn any_failing_call_leaves_no_keys() {
    for failing in 1..12 {
        let mut bench = bench(config());
        bench.fake.lock().failing = Box::new(move |call| call == failing);
        start(&mut bench, 2);
        bench.pass(Duration::from_secs(10));
        bench.run_tasks();
        bench.finish();
    }
}
