//! A control plane that survives restarts: sessions that resume, restarts, switches that come and go, tenants, several trees.

use crate::bench::{Bench, FLOOR, join};
use crate::fake::Fake;
use netfold_control::{
    Credentials, Join, Mode, Numerics, Refusal, Resume, ResumeTicket, SessionEvent, SessionRequest,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::command::{Command, CommandError};
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{JobName, JobSpec, JobState, Quota, StoredRecords, TenantRecord, TokenHash};
use netfold_controller::switch_status::SwitchUp;
use netfold_controller::topology::Topology;
use netfold_controller::view::SnapshotScope;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A controller of one switch without tenants.
fn lasting() -> Config {
    Config { tenants: false, ..Config::controller(FLOOR, 1_000_000) }
}

fn bench() -> Bench {
    Bench::new(Fake::new(1024, 64, 16), lasting())
}

fn resume(bench: &mut Bench, of: SessionId, rank: u16) -> SessionId {
    let admission = bench.received[&of].admission().expect("it was admitted").clone();
    resume_as(bench, &admission, rank)
}

fn has_resumed(bench: &Bench, id: SessionId) -> bool {
    bench.received[&id].events.contains(&SessionEvent::Resumed {})
}

#[test]
fn a_session_that_breaks_can_go_on() {
    let mut bench = bench();
    let members = bench.start("demo", 3, 5000);
    assert_eq!(bench.received[&members[0]].admission().unwrap().grace_ms, 60_000);
    bench.drop_session(members[1]);
    bench.say(members[2], SessionRequest::Leave {});
    bench.run_tasks();
    bench.pass(SECOND);
    assert!(bench.received[&members[0]].lost().is_none(), "a broken session is no loss yet");
    let back = resume(&mut bench, members[1], 1);
    assert!(has_resumed(&bench, back));
    assert!(bench.received[&back].events.contains(&SessionEvent::PeerLeft { rank: 2 }), "what it has missed");
    for _ in 0..10 {
        bench.pass(SECOND);
        [members[0], back].into_iter().for_each(|id| bench.say(id, SessionRequest::ALIVE));
    }
    assert_eq!(bench.closed(&[members[0], back]).len(), 0);
    // A second connection of the same worker takes the place of the first.
    let again = resume(&mut bench, members[1], 1);
    assert!(has_resumed(&bench, again) && bench.received[&back].closed);
    // A member that has left cannot resume, and neither can one of an earlier epoch.
    let admission = bench.received[&members[2]].admission().unwrap().clone();
    let earlier = netfold_control::Admission { epoch: admission.epoch - 1, ..admission.clone() };
    for admission in [admission, earlier] {
        let id = resume_as(&mut bench, &admission, 2);
        assert_eq!(bench.received[&id].refusal(), Some(Refusal::Unknown));
    }
    [members[0], again].into_iter().for_each(|id| bench.say(id, SessionRequest::Leave {}));
    bench.run_tasks();
    assert_eq!(bench.ends(), [&EndReason::Finished]);
    bench.finish();
}

/// Job, epoch and key are in every packet. An observer who has them, or another member's ticket, takes no session over; the member's
/// own session is not disturbed, and attempts in a row are not logged one by one.
#[test]
fn no_session_is_taken_over_without_its_ticket() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let admissions: Vec<_> =
        members.iter().map(|id| bench.received[id].admission().unwrap().clone()).collect();
    assert_ne!(admissions[0].ticket, admissions[1].ticket);
    let mut forged = ResumeTicket([0; 32]);
    forged.0[..4].copy_from_slice(&admissions[0].key.to_be_bytes());
    let tickets = [Some(forged), admissions[1].ticket.clone()];
    for attempt in 0..100 {
        let ticket = tickets[attempt % 2].clone();
        let id = resume_as(&mut bench, &netfold_control::Admission { ticket, ..admissions[0].clone() }, 0);
        let expected = if attempt < 32 { Refusal::Credentials } else { Refusal::Busy };
        assert_eq!(bench.received[&id].refusal(), Some(expected), "attempt {attempt}");
    }
    assert!(members.iter().all(|id| !bench.received[id].closed));
    let logged = bench.log.iter().filter(|event| matches!(event, JobEvent::Refused { .. })).count();
    assert_eq!(logged, 33, "the first ones, and that there are too many");
    bench.drop_session(members[0]);
    let back = resume_as(&mut bench, &admissions[0], 0);
    assert!(has_resumed(&bench, back), "the limit does not apply to the right ticket");
    bench.finish();
}

/// Where a session's end is the loss of its worker, it cannot be resumed.
#[test]
fn without_a_grace_period_no_session_is_resumed() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config::new(FLOOR));
    let members = bench.start("demo", 2, 5000);
    let admission = bench.received[&members[0]].admission().unwrap().clone();
    assert_eq!((admission.grace_ms, &admission.ticket), (0, &None));
    let ticket = Some(ResumeTicket([0; 32]));
    let id = resume_as(&mut bench, &netfold_control::Admission { ticket, ..admission }, 0);
    assert_eq!(bench.received[&id].refusal(), Some(Refusal::Unknown));
    assert!(members.iter().all(|id| !bench.received[id].closed));
    bench.finish();
}

#[test]
fn an_absent_member_is_lost_and_a_new_job_replaces_an_absent_one() {
    let mut bench = bench();
    let a = bench.start("a", 2, 5000);
    let b = bench.start("b", 2, 6000);
    bench.drop_session(a[1]);
    bench.pass(SECOND * 19 / 10);
    assert_eq!(bench.received[&a[0]].lost(), None);
    bench.pass(SECOND / 5);
    assert_eq!(bench.received[&a[0]].lost(), Some(1));
    b.iter().for_each(|id| bench.say(*id, SessionRequest::ALIVE));
    bench.pass(SECOND * 10);
    // All members of a job are lost; those that start it again do not wait for them.
    let c = bench.start("c", 2, 7000);
    c.iter().for_each(|id| bench.drop_session(*id));
    let again = bench.start("c", 2, 7100);
    assert!(bench.received[&again[0]].admission().is_some());
    bench.finish();
}

#[test]
fn a_restart_disturbs_no_running_job() {
    let mut bench = bench();
    let running = bench.start("running", 3, 5000);
    bench.say(running[2], SessionRequest::Leave {});
    bench.run_tasks();
    let ending = bench.start("ending", 2, 7000);
    bench.drop_session(ending[0]);
    bench.join_all("setting-up", 2, 6000);
    bench.pass(SECOND * 21 / 10);
    let admissions: Vec<_> =
        (0..2).map(|rank| bench.received[&running[rank]].admission().unwrap().clone()).collect();

    let mut bench = bench.restart(lasting());
    let holdings = bench.coordinator.holdings();
    assert_eq!(holdings.len(), 1);
    assert_eq!(bench.fake.lock().admitted().len(), 2, "two that run still");
    bench.run_tasks();
    let resumed: Vec<SessionId> =
        (0..2).map(|rank| resume_as(&mut bench, &admissions[usize::from(rank)], rank)).collect();
    assert!(resumed.iter().all(|id| has_resumed(&bench, *id)));
    assert!(bench.received[&resumed[0]].events.contains(&SessionEvent::PeerLeft { rank: 2 }));
    let other = bench.start("other", 2, 8000);
    let new = bench.received[&other[0]].admission().unwrap();
    assert!(new.epoch > admissions[0].epoch && new.job != admissions[0].job);
    for _ in 0..15 {
        bench.pass(SECOND);
        resumed.iter().chain(&other).for_each(|id| bench.say(*id, SessionRequest::ALIVE));
    }
    assert_eq!(bench.closed(&resumed).len(), 0);
    bench.finish();
}

fn resume_as(bench: &mut Bench, admission: &netfold_control::Admission, rank: u16) -> SessionId {
    let id = bench.open().expect("there is room");
    bench.say(id, SessionRequest::Resume(resume_request(admission, rank)));
    id
}

fn resume_request(admission: &netfold_control::Admission, rank: u16) -> Resume {
    let ticket = admission.ticket.clone().expect("sessions can be resumed");
    Resume { version: netfold_wire::VERSION, job: admission.job, epoch: admission.epoch, rank, ticket }
}

#[test]
fn a_member_that_does_not_resume_after_a_restart_is_lost() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let admission = bench.received[&members[0]].admission().unwrap().clone();
    let mut bench = bench.restart(lasting());
    bench.run_tasks();
    let first = resume_as(&mut bench, &admission, 0);
    for _ in 0..9 {
        bench.pass(SECOND / 2);
        bench.say(first, SessionRequest::ALIVE);
    }
    assert_eq!(bench.received[&first].lost(), None, "it has ten seconds");
    for _ in 0..12 {
        bench.pass(SECOND / 2);
        bench.say(first, SessionRequest::ALIVE);
    }
    assert_eq!(bench.received[&first].lost(), Some(1));
    bench.run_tasks();
    assert!(bench.fake.lock().is_empty());
    bench.finish();
}

#[test]
fn a_switch_that_has_restarted_or_stays_away_displaces_its_jobs() {
    let mut bench = bench();
    let a = bench.start("a", 2, 5000);
    bench.act(|plane, now| plane.switch_down(now, 0, "connection refused".into()));
    bench.pass(SECOND);
    assert_eq!(bench.closed(&a).len(), 0, "a short absence");
    bench.act(|plane, now| plane.switch_up(now, 0, SwitchUp::default()));
    bench.pass(SECOND);
    assert_eq!(bench.closed(&a).len(), 0);
    a.iter().for_each(|id| bench.say(*id, SessionRequest::ALIVE));
    bench.act(|plane, now| plane.switch_down(now, 0, "connection refused".into()));
    bench.pass(2 * SECOND);
    let displaced = |bench: &Bench, id| {
        let received = &bench.received[&id];
        received.closed
            && received.events.iter().any(|event| matches!(event, SessionEvent::SwitchLost { .. }))
    };
    assert!(a.iter().all(|id| displaced(&bench, *id)));
    let refused = bench.join_all("b", 2, 6000);
    bench.run_tasks();
    assert_eq!(bench.received[&refused[1]].refusal(), Some(Refusal::Unavailable));
    bench.act(|plane, now| plane.switch_up(now, 0, SwitchUp::default()));
    let c = bench.start("c", 2, 7000);
    assert!(bench.received[&c[0]].admission().is_some());
    let fresh = SwitchUp { fresh: true, boot: Some("second".into()), ..SwitchUp::default() };
    bench.act(|plane, now| plane.switch_up(now, 0, fresh));
    assert!(c.iter().all(|id| displaced(&bench, *id)));
    assert_eq!(bench.coordinator.boots(), [Some("second".to_owned())]);
    bench.finish();
}

fn tenant(name: &str, token: Option<&str>, slots: u32, jobs: u32, workers: u32) -> Command {
    let token = token.map(TokenHash::of);
    let quota = Quota { slots, jobs, workers };
    Command::AddTenant(TenantRecord { name: name.into(), quota, weight: 1, priority: 0, token })
}

fn join_as(
    bench: &mut Bench,
    who: Option<(&str, &str)>,
    job: &str,
    ranks: (u16, u16),
    port: u16,
) -> SessionId {
    let id = bench.open().expect("there is room");
    let credentials = who.map(|(tenant, token)| Credentials { tenant: tenant.into(), token: token.into() });
    bench
        .say(id, SessionRequest::Join(Join { credentials, ..Join::new(job, ranks, Mode::Bfp16, 256, port) }));
    id
}

#[test]
fn tenants_are_known_by_their_tokens_and_held_to_their_quotas() {
    let config = Config { sharing: Sharing::Static, ..Config::controller(FLOOR, 0) };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config);
    let mut add = |command| bench.act(|plane, now| plane.execute(now, command));
    add(tenant("red", Some("secret"), 320, 2, 4)).unwrap();
    add(tenant("blue", None, u32::MAX, 9, 99)).unwrap();
    assert!(matches!(add(tenant("red", None, 1, 1, 1)), Err(CommandError::Exists { .. })));
    assert!(matches!(add(tenant("a/b", None, 1, 1, 1)), Err(CommandError::Invalid(_))));
    for who in [None, Some(("red", "")), Some(("red", "Secret")), Some(("green", "secret"))] {
        let id = join_as(&mut bench, who, "x", (0, 1), 4000);
        assert_eq!(bench.received[&id].refusal(), Some(Refusal::Credentials), "{who:?}");
    }
    let red = Some(("red", "secret"));
    let a = join_as(&mut bench, red, "job", (0, 1), 5000);
    let other = join_as(&mut bench, Some(("blue", "")), "job", (0, 1), 5001);
    bench.run_tasks();
    let slots = |bench: &Bench, id| bench.received[&id].admission().map(|admission| admission.slots);
    assert_eq!((slots(&bench, a), slots(&bench, other)), (Some(256), Some(256)), "one name, two tenants");
    let b = join_as(&mut bench, red, "b", (0, 1), 5002);
    bench.run_tasks();
    assert_eq!(slots(&bench, b), Some(64), "what is left of 320");
    let c = join_as(&mut bench, red, "c", (0, 1), 5003);
    assert_eq!(bench.received[&c].refusal(), Some(Refusal::Quota));
    assert!(bench.received[&c].text().contains("has 2 of 2 jobs"), "{}", bench.received[&c].text());
    let snapshot = bench.coordinator.snapshot(SnapshotScope::Live);
    let used = &snapshot.tenants.iter().find(|tenant| tenant.name == "red").unwrap().used;
    assert_eq!(*used, Quota { slots: 320, jobs: 2, workers: 2 });
    assert_eq!(snapshot.switches[0].slots_used, 576);
    let job = bench.coordinator.view_job(&JobName { tenant: "red".into(), job: "b".into() }).unwrap();
    assert_eq!(
        (job.state, job.trees[0].slots, job.trees[0].members[0].state),
        (JobState::Running, Some(64), "here")
    );
    let remove = Command::RemoveTenant("red".into());
    assert!(matches!(bench.act(|plane, now| plane.execute(now, remove)), Err(CommandError::Conflict(_))));
    bench.finish();
}

#[test]
fn a_declared_job_is_what_was_declared() {
    let mut bench = bench();
    let name = JobName { tenant: String::new(), job: "demo".into() };
    let spec = JobSpec {
        world: 2,
        mode: Mode::Bfp16,
        slots: 256,
        classes: 1,
        trees: 1,
        authenticated: false,
        udp_ports: 1,
        iteration: None,
    };
    let declare = Command::DeclareJob { name: name.clone(), spec };
    bench.act(|plane, now| plane.execute(now, declare.clone())).unwrap();
    assert!(matches!(bench.act(|plane, now| plane.execute(now, declare)), Err(CommandError::Exists { .. })));
    let wrong = bench.join("demo", 0, 3, 5000);
    assert_eq!(bench.received[&wrong].refusal(), Some(Refusal::WorldMismatch));
    let members = bench.start("demo", 2, 5000);
    assert!(bench.received[&members[0]].admission().is_some());
    let end = Command::EndJob { name: name.clone(), message: "the machine is needed".into() };
    bench.act(|plane, now| plane.execute(now, end)).unwrap();
    assert_eq!(bench.received[&members[0]].refusal(), Some(Refusal::Ended));
    assert_eq!(bench.kept.jobs[&name].state, JobState::Ended);
    bench.run_tasks();
    bench.act(|plane, now| plane.execute(now, Command::ForgetJob(name.clone()))).unwrap();
    assert!(bench.kept.jobs.is_empty() && bench.kept.places.is_empty());
    assert!(bench.coordinator.view_job(&name).is_none());
    bench.finish();
}

#[test]
fn a_job_that_is_ended_while_it_is_set_up_is_remembered_as_ended() {
    let mut bench = bench();
    let name = JobName { tenant: String::new(), job: "demo".into() };
    let members = bench.join_all("demo", 2, 5000);
    let end = Command::EndJob { name: name.clone(), message: "the machine is needed".into() };
    bench.act(|plane, now| plane.execute(now, end)).unwrap();
    assert_eq!(bench.received[&members[1]].refusal(), Some(Refusal::Ended));
    bench.run_tasks();
    let view = bench.coordinator.view_job(&name).unwrap();
    assert_eq!((view.state, view.spec.world), (JobState::Ended, 2));
    assert_eq!(view.last.as_deref(), Some("the machine is needed"));
    bench.finish();
}

const LEAF_SPINE: &str = r#"
[[switch]]
name = "leaf1"
p4runtime = "10.9.0.1:9559"
role = "leaf"
[[switch]]
name = "leaf2"
p4runtime = "10.9.0.2:9559"
role = "leaf"
[[switch]]
name = "spine1"
p4runtime = "10.9.0.3:9559"
role = "spine"
[[switch]]
name = "spine2"
p4runtime = "10.9.0.4:9559"
role = "spine"
[[host]]
name = "left"
addresses = ["10.0.1.0/24"]
switch = "leaf1"
[[host]]
name = "right"
addresses = ["10.0.2.0/24"]
switch = "leaf2"
[[link]]
a = "leaf1"
b = "spine1"
[[link]]
a = "leaf1"
b = "spine2"
[[link]]
a = "leaf2"
b = "spine1"
[[link]]
a = "leaf2"
b = "spine2"
"#;

#[test]
fn two_trees_of_a_job_go_over_two_spines_and_one_survives_the_other() {
    let topology = Topology::from_toml(LEAF_SPINE).unwrap();
    let fakes: Vec<Fake> = (0..4).map(|_| Fake::new(1024, 64, 16)).collect();
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let links = links(&topology);
    let fleet = Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(3));
    let fleet = fleet.linked(links);
    let mut bench = Bench::over(fakes, lasting(), fleet, StoredRecords::default());
    let mut join = |tree: u8, rank: u16| {
        let id = bench.open().unwrap();
        let address = Some([10, 0, 1 + (rank / 2) as u8, 1].into());
        let port = 5000 + 10 * u16::from(tree) + rank;
        let join = Join::new("demo", (rank, 4), Mode::Bfp16, 256, port);
        bench.say(id, SessionRequest::Join(Join { address, tree, trees: 2, ..join }));
        id
    };
    let first: Vec<SessionId> = (0..4).map(|rank| join(0, rank)).collect();
    let second: Vec<SessionId> = (0..4).map(|rank| join(1, rank)).collect();
    bench.run_tasks();
    let admission = |bench: &Bench, id| bench.received[&id].admission().cloned().unwrap();
    assert_eq!(admission(&bench, first[0]).switch, Some([10, 9, 0, 1].into()));
    assert_eq!(admission(&bench, first[3]).switch, Some([10, 9, 0, 2].into()));
    assert_eq!(admission(&bench, first[0]).bitmap, 0b11);
    let job = bench.coordinator.snapshot(SnapshotScope::Live).jobs.remove(0);
    let root = |tree: usize| job.trees[tree].places[0].switch.clone();
    assert_eq!((job.trees.len(), root(0)), (2, "spine1".to_owned()));
    assert_eq!(root(1), "spine2");
    // The first spine is lost: its tree is lost, the other goes on; the lost one comes back over the spine that is left.
    bench.act(|plane, now| plane.switch_down(now, 2, "connection refused".into()));
    bench.pass(2 * SECOND);
    bench.run_tasks();
    assert_eq!((bench.closed(&first).len(), bench.closed(&second).len()), (4, 0));
    let mut again = Vec::new();
    for rank in 0..4 {
        let id = bench.open().unwrap();
        let address = Some([10, 0, 1 + (rank / 2) as u8, 1].into());
        let join = Join::new("demo", (rank, 4), Mode::Bfp16, 256, 5100 + rank);
        bench.say(id, SessionRequest::Join(Join { address, tree: 0, trees: 2, ..join }));
        again.push(id);
    }
    bench.run_tasks();
    let job = bench.coordinator.snapshot(SnapshotScope::Live).jobs.remove(0);
    assert_eq!(job.trees[0].places[0].switch, "spine2", "{:?}", bench.received[&again[0]].text());
    assert!(bench.log.iter().any(|event| matches!(event, JobEvent::SwitchDown { .. })));
    bench.finish_all();
}

#[test]
fn trees_of_a_job_agree() {
    let mut bench = bench();
    let first = bench.open().unwrap();
    let ask = Join::new("demo", (0, 2), Mode::Bfp16, 256, 5000);
    bench.say(first, SessionRequest::Join(Join { trees: 2, ..ask.clone() }));
    let other = bench.open().unwrap();
    bench.say(other, SessionRequest::Join(Join { tree: 1, trees: 3, udp_port: 5001, ..ask.clone() }));
    assert_eq!(bench.received[&other].refusal(), Some(Refusal::Argument));
    assert!(
        bench.received[&other].text().contains("has 2 trees and this worker 3"),
        "{}",
        bench.received[&other].text()
    );
    let beyond = bench.open().unwrap();
    bench.say(beyond, SessionRequest::Join(Join { tree: 2, trees: 2, udp_port: 5001, ..ask }));
    assert_eq!(bench.received[&beyond].refusal(), Some(Refusal::Argument));
    bench.say(first, join("again", 0, 1, 5002));
    bench.finish();
}

#[test]
fn a_shutdown_leaves_running_jobs_and_withdraws_those_that_are_being_set_up() {
    let mut bench = bench();
    let running = bench.start("a", 2, 5000);
    let installing = bench.join_all("b", 2, 6000);
    bench.shutdown();
    for id in running {
        assert!(bench.received[&id].closed && bench.received[&id].refusal().is_none());
    }
    for id in installing {
        assert_eq!(bench.received[&id].refusal(), Some(Refusal::Busy));
        assert!(bench.received[&id].text().contains("start the workers again when it is back"));
    }
    // The bench fails if what switches report after this causes an event for a closed session.
    bench.run_tasks();
    assert!(bench.coordinator.is_idle());
    assert_eq!(bench.fake.lock().admitted().len(), 2, "the members of the job that runs");
    let kept: Vec<_> = bench.kept.places.values().map(|place| place.name.job.as_str()).collect();
    assert_eq!(kept, ["a"], "what the next controller continues");
}

#[test]
fn a_switch_that_is_lost_after_a_shutdown_is_reported_to_no_session() {
    let mut bench = bench();
    bench.start("a", 2, 5000);
    bench.shutdown();
    bench.act(|coordinator, now| coordinator.switch_down(now, 0, "unplugged".into()));
    bench.pass(Duration::from_secs(3600));
    bench.run_tasks();
    assert!(bench.coordinator.is_idle());
}

#[test]
fn nothing_is_awaited_after_a_shutdown_but_by_the_next_controller() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    // The end of an absence is awaited; before that all are absent for as long as this controller lasts.
    bench.drop_session(members[1]);
    resume(&mut bench, members[1], 1);
    bench.shutdown();
    bench.pass(10 * SECOND);
    let deadline = bench.coordinator.next_deadline();
    assert!(deadline.is_none_or(|deadline| deadline < 60 * SECOND), "{deadline:?}");
}
