//! Joins that come too fast from one address: they are rate-limited, and other addresses are not.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::bench::{Bench, FLOOR, config, join};
use crate::fake::Fake;
use netfold_control::{Credentials, Join, Mode, Refusal, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::command::Command;
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::{Quota, TenantRecord, TokenHash};
use std::net::IpAddr;
use std::time::Duration;

const FLOODER: [u8; 4] = [10, 0, 0, 66];
const OTHER: [u8; 4] = [10, 0, 0, 7];

/// A controller with the tenant `red`.
fn controller() -> Bench {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config::controller(FLOOR, 0));
    let token = Some(TokenHash::of("secret"));
    let red = TenantRecord { name: "red".into(), quota: Quota::UNLIMITED, weight: 1, priority: 0, token };
    bench.act(|plane, now| plane.execute(now, Command::AddTenant(red))).unwrap();
    bench
}

fn join_from(bench: &mut Bench, peer: impl Into<IpAddr>, token: &str, job: &str, port: u16) -> SessionId {
    let id = bench.open_from(peer.into()).expect("there is room");
    let credentials = Some(Credentials { tenant: "red".into(), token: token.into() });
    bench
        .say(id, SessionRequest::Join(Join { credentials, ..Join::new(job, (0, 1), Mode::Bfp16, 16, port) }));
    id
}

/// What a wrong token from the flooder is refused for.
fn guess(bench: &mut Bench) -> Refusal {
    let id = join_from(bench, FLOODER, "guess", "x", 4000);
    assert!(bench.received[&id].closed);
    bench.received[&id].refusal().unwrap()
}

fn refusals(bench: &Bench) -> usize {
    bench.log.iter().filter(|event| matches!(event, JobEvent::Refused { .. })).count()
}

#[test]
fn wrong_tokens_are_rate_limited_by_address_and_right_ones_never() {
    let mut bench = controller();
    let said: Vec<Refusal> = (0..1000).map(|_| guess(&mut bench)).collect();
    let observed = said.iter().take_while(|refusal| **refusal == Refusal::Credentials).count();
    assert_eq!(observed, 32);
    assert!(said[observed..].iter().all(|refusal| *refusal == Refusal::Busy));
    assert_eq!(refusals(&bench), observed + 1, "further refusals are not logged");
    let slowed = bench.received.values().filter(|received| received.refusal() == Some(Refusal::Busy));
    assert!(
        slowed.clone().count() == 968 && slowed.clone().all(|received| received.text().contains("10.0.0.66"))
    );

    // Other addresses have their own limit, and a join with the right token is admitted from the same address.
    let id = join_from(&mut bench, OTHER, "guess", "y", 4001);
    assert_eq!(bench.received[&id].refusal(), Some(Refusal::Credentials));
    for (peer, job, port) in [(OTHER, "a", 5000), (FLOODER, "b", 5001)] {
        let id = join_from(&mut bench, peer, "secret", job, port);
        bench.run_tasks();
        assert!(bench.received[&id].admission().is_some(), "{peer:?}");
    }

    // The limit allows one more a second, and after a while as many as at first.
    bench.pass(Duration::from_secs(1));
    assert_eq!((guess(&mut bench), guess(&mut bench)), (Refusal::Credentials, Refusal::Busy));
    bench.pass(Duration::from_secs(40));
    assert!((0..32).all(|_| guess(&mut bench) == Refusal::Credentials));
    assert_eq!(guess(&mut bench), Refusal::Busy);
}

#[test]
fn silent_sessions_of_one_address_leave_room_for_others() {
    let newcomers_max = 5;
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config { newcomers_max, ..config() });
    let flooder = IpAddr::from(FLOODER);
    let silent: Vec<SessionId> = (0..newcomers_max).map(|_| bench.open_from(flooder).unwrap()).collect();
    let refused = bench.open_from(flooder).unwrap_err();
    assert_eq!(refused.reason, Refusal::Busy);
    assert!(refused.message.contains("10.0.0.66"), "{refused}");
    bench.open_from(OTHER.into()).unwrap();
    // A session that joins or ends makes room.
    bench.say(silent[0], join("demo", 0, 2, 4000));
    bench.open_from(flooder).unwrap();
    assert!(bench.open_from(flooder).is_err());
    bench.drop_session(silent[1]);
    bench.open_from(flooder).unwrap();
    assert!(bench.open_from(flooder).is_err());
    bench.drop_session(silent[0]);
    assert!(bench.open_from(flooder).is_err(), "it had joined");
    bench.pass(Duration::from_secs(60));
    assert!((0..newcomers_max).all(|_| bench.open_from(flooder).is_ok()), "they are closed in the end");
}
