//! Joins that come too fast from one address: they are rate-limited, and other addresses are not.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::bench::{Bench, FLOOR, config};
use crate::fake::Fake;
use netfold_control::{Credentials, Join, Mode, Refusal, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::command::{Command, CommandError};
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::{JobName, JobSpec, Quota, TenantRecord, TokenHash};
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

/// A controller with the tenants `red` and `blue`, over a switch with these ports and groups.
fn two_tenants(ports: u16, groups: u16) -> Bench {
    two_tenants_of(Config::controller(FLOOR, 0), ports, groups)
}

fn two_tenants_of(config: Config, ports: u16, groups: u16) -> Bench {
    let mut bench = Bench::new(Fake::new(1024, ports, groups), config);
    for name in ["red", "blue"] {
        let tenant =
            TenantRecord { name: name.into(), quota: Quota::UNLIMITED, weight: 1, priority: 0, token: None };
        bench.act(|plane, now| plane.execute(now, Command::AddTenant(tenant))).unwrap();
    }
    bench
}

/// Starts jobs of `world` workers until one is refused, and returns how many run and the refusal.
fn fill(bench: &mut Bench, tenant: &str, world: u16) -> (u16, Option<Refusal>, String) {
    for job in 0..100 {
        let join = |rank: u16| {
            let credentials = Some(Credentials { tenant: tenant.into(), token: String::new() });
            let port = if tenant == "red" { 10_000 } else { 20_000 } + job * world + rank;
            let name = format!("job{job}");
            Join { credentials, ..Join::new(name, (rank, world), Mode::Bfp16, 1, port) }
        };
        let members: Vec<SessionId> = (0..world)
            .map(|rank| {
                let id = bench.open().unwrap();
                bench.say(id, SessionRequest::Join(join(rank)));
                id
            })
            .collect();
        bench.run_tasks();
        let last = &bench.received[members.last().unwrap()];
        if last.admission().is_none() {
            return (job, last.refusal(), last.text().into());
        }
    }
    panic!("tenant {tenant} is never refused");
}

#[test]
fn a_tenant_leaves_groups_and_ports_to_others() {
    // Of each job one group, or four ports.
    for (ports, groups, world, red, blue) in [(64, 16, 1, 12, 4), (64, 64, 4, 12, 4)] {
        let mut bench = two_tenants(ports, groups);
        let (started, refusal, text) = fill(&mut bench, "red", world);
        assert_eq!((started, refusal), (red, Some(Refusal::Busy)), "{text}");
        assert!(text.contains("kept for other tenants"), "{text}");
        let (started, refusal, text) = fill(&mut bench, "blue", world);
        assert_eq!((started, refusal), (blue, Some(Refusal::Busy)), "{text}");
        assert!(!text.contains("kept for other tenants"), "it has less than its share: {text}");
        bench.finish();
    }
}

/// Declares jobs of one tenant, by number, until one is refused; returns its number, and why.
fn declare_from(bench: &mut Bench, tenant: &str, first: usize) -> (usize, String) {
    let declare = |index: usize| {
        let name = JobName { tenant: tenant.into(), job: format!("job{index}") };
        let spec = JobSpec {
            world: 2,
            mode: Mode::Bfp16,
            slots: 16,
            classes: 1,
            trees: 1,
            authenticated: false,
            udp_ports: 1,
            iteration: None,
        };
        Command::DeclareJob { name, spec }
    };
    for index in first..100 {
        if let Err(error) = bench.act(|plane, now| plane.execute(now, declare(index))) {
            assert!(matches!(error, CommandError::Conflict(_)), "{error}");
            return (index, error.to_string());
        }
    }
    panic!("tenant {tenant} is never refused");
}

#[test]
fn a_tenant_leaves_records_of_declared_jobs_to_others() {
    let config = Config { jobs_kept: 16, ..Config::controller(FLOOR, 0) };
    let mut bench = two_tenants_of(config, 64, 16);
    let (declared, why) = declare_from(&mut bench, "red", 0);
    assert_eq!(declared, 12, "{why}");
    assert!(why.contains("kept for other tenants"), "{why}");
    let (declared, why) = declare_from(&mut bench, "blue", 0);
    assert_eq!(declared, 4, "{why}");
    // What red gives back is blue's now, whose share is eight.
    let forget = |job: &str| Command::ForgetJob(JobName { tenant: "red".into(), job: job.into() });
    bench.act(|plane, now| plane.execute(now, forget("job0"))).unwrap();
    let (declared, why) = declare_from(&mut bench, "red", 12);
    assert_eq!((declared, why.contains("kept for other tenants")), (12, true), "{why}");
    let (declared, why) = declare_from(&mut bench, "blue", 4);
    assert_eq!(declared, 5, "{why}");
    bench.finish();
}

/// A tenant whose job is about to end waits for what that job has, as it does when a switch is full.
#[test]
fn a_tenant_waits_for_what_its_own_job_gives_back() {
    let mut bench = two_tenants(64, 8);
    assert_eq!(fill(&mut bench, "red", 1).0, 6);
    let running =
        bench.received.iter().filter(|(_, received)| received.admission().is_some() && !received.closed);
    let first = *running.map(|(id, _)| id).next().unwrap();
    bench.say(first, SessionRequest::Leave {});
    let credentials = Some(Credentials { tenant: "red".into(), token: String::new() });
    let id = bench.open().unwrap();
    bench.say(
        id,
        SessionRequest::Join(Join { credentials, ..Join::new("next", (0, 1), Mode::Bfp16, 1, 30_000) }),
    );
    assert!(bench.received[&id].is_untouched(), "{}", bench.received[&id].text());
    bench.run_tasks();
    assert!(bench.received[&id].admission().is_some(), "{}", bench.received[&id].text());
    bench.finish();
}

fn join_at(bench: &mut Bench, peer: [u8; 4], job: &str, address: Option<[u8; 4]>) -> SessionId {
    let id = bench.open_from(peer.into()).expect("there is room");
    let address = address.map(IpAddr::from);
    bench.say(id, SessionRequest::Join(Join { address, ..Join::new(job, (0, 2), Mode::Bfp16, 16, 5000) }));
    id
}

#[test]
fn a_claimed_address_is_given_to_the_worker_that_is_there() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    let claimant = join_at(&mut bench, FLOODER, "claim", Some(OTHER));
    // Another claim from elsewhere is no better.
    let second = join_at(&mut bench, [10, 0, 0, 8], "second", Some(OTHER));
    assert_eq!(bench.received[&second].refusal(), Some(Refusal::Argument));
    let native = join_at(&mut bench, OTHER, "own", None);
    assert_eq!(bench.received[&claimant].refusal(), Some(Refusal::Argument));
    assert!(bench.received[&native].is_untouched());
    let again = join_at(&mut bench, FLOODER, "again", Some(OTHER));
    assert_eq!(bench.received[&again].refusal(), Some(Refusal::Argument));
    assert!(bench.received[&native].is_untouched(), "it keeps its address");
    bench.finish();
}

/// While a claimed address is being validated it is not the claimant's either.
#[test]
fn an_address_is_the_claimants_when_it_is_validated() {
    for validates in [false, true] {
        let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
        bench.validates = validates;
        let claimant = bench.open_from(FLOODER.into()).expect("there is room");
        let address = Some(IpAddr::from(OTHER));
        let claim = Join { address, ..Join::new("claim", (0, 1), Mode::Bfp16, 16, 5000) };
        bench.say(claimant, SessionRequest::Join(claim));
        bench.run_tasks();
        let native = join_at(&mut bench, OTHER, "own", None);
        assert_eq!(bench.received[&claimant].refusal().is_some(), !validates);
        assert_eq!(bench.received[&native].refusal().is_some(), validates);
        bench.finish();
    }
}

#[test]
fn forming_jobs_of_one_address_make_room_for_those_of_others() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config { jobs_max: 16, ..config() });
    let form = |bench: &mut Bench, peer: [u8; 4], number: u16| {
        let id = bench.open_from(peer.into()).expect("there is room");
        let name = format!("job{number}-{}", peer[3]);
        bench.say(id, SessionRequest::Join(Join::new(name, (0, 2), Mode::Bfp16, 16, 5000 + number)));
        id
    };
    let flood: Vec<SessionId> = (0..20).map(|number| form(&mut bench, FLOODER, number)).collect();
    assert!(flood[16..].iter().all(|id| bench.received[id].refusal() == Some(Refusal::Busy)));
    let others: Vec<SessionId> = (0..20).map(|number| form(&mut bench, OTHER, number)).collect();
    let waiting =
        |ids: &[SessionId], bench: &Bench| ids.iter().filter(|id| bench.received[id].is_untouched()).count();
    assert_eq!((waiting(&flood, &bench), waiting(&others, &bench)), (8, 8), "half each, and no more");
    assert!(bench.received[&flood[0]].closed && !bench.received[&flood[15]].closed, "the oldest give way");
    bench.finish();
}

#[test]
fn waiting_workers_of_one_address_make_room_for_those_of_others() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config { pending_joins_max: 8, ..config() });
    let wait = |bench: &mut Bench, peer: [u8; 4], job: &str, rank: u16| {
        let id = bench.open_from(peer.into()).expect("there is room");
        let join = Join::new(job, (rank, 32), Mode::Bfp16, 16, 5000 + rank);
        bench.say(id, SessionRequest::Join(join));
        id
    };
    for (job, ranks) in [("a", 0..4), ("b", 4..8)] {
        for rank in ranks {
            wait(&mut bench, FLOODER, job, rank);
        }
    }
    let own = wait(&mut bench, FLOODER, "c", 9);
    assert_eq!(bench.received[&own].refusal(), Some(Refusal::Busy), "its owner has most");
    let other = wait(&mut bench, OTHER, "d", 0);
    assert!(bench.received[&other].is_untouched());
    assert_eq!(bench.received.values().filter(|received| received.is_untouched()).count(), 5, "a gave way");
    bench.finish();
}
