//! Groups of jobs: places of their own, listed and counted under their job, and ended with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::bench::{Bench, FLOOR, config};
use crate::fake::Fake;
use netfold_control::{Credentials, Join, Mode, QuotaQuery, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::command::Command;
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{JobName, JobState, Quota, TenantRecord};
use netfold_controller::view::{JobView, SnapshotScope};
use std::time::Duration;

const SLOTS: u32 = 64;

fn bench() -> Bench {
    Bench::new(Fake::new(1024, 64, 16), Config { jobs_kept: 10, ..config() })
}

/// Ranks `ranks` of a group, or of the job itself where `group` is empty; the switch's work is not done yet.
fn ask(bench: &mut Bench, (job, group): (&str, &str), world: u16, port: u16) -> Vec<SessionId> {
    let tenant = |tenant: &str| Credentials { tenant: tenant.into(), token: String::new() };
    let (owner, job) = job.split_once('/').map_or((None, job), |(owner, job)| (Some(tenant(owner)), job));
    let ask = |rank: u16| {
        let id = bench.open().expect("there is room");
        let join = Join::new(job, (rank, world), Mode::Bfp16, SLOTS, port + rank);
        let join = Join { group: group.into(), credentials: owner.clone(), ..join };
        bench.say(id, SessionRequest::Join(join));
        id
    };
    (0..world).map(ask).collect()
}

fn start(bench: &mut Bench, name: (&str, &str), world: u16, port: u16) -> Vec<SessionId> {
    let members = ask(bench, name, world, port);
    bench.run_tasks();
    members
}

fn view(bench: &Bench, job: &str) -> JobView {
    let (tenant, job) = job.split_once('/').unwrap_or(("", job));
    bench.coordinator.view_job(&JobName { tenant: tenant.into(), job: job.into() }).unwrap()
}

fn leave(bench: &mut Bench, members: &[SessionId]) {
    members.iter().for_each(|id| bench.say(*id, SessionRequest::Leave {}));
    bench.run_tasks();
}

#[test]
fn groups_are_listed_under_their_job_and_no_job_beside_it() {
    let mut bench = bench();
    let job = start(&mut bench, ("train", ""), 4, 5000);
    let tp = start(&mut bench, ("train", "tp"), 2, 5010);
    let dp = start(&mut bench, ("train", "dp"), 2, 5020);
    let other = start(&mut bench, ("train2", ""), 2, 5030);
    let waiting = ask(&mut bench, ("train", "pp"), 1, 5040);
    let admitted = |ids: &[SessionId]| ids.iter().all(|id| bench.received[id].admission().is_some());
    assert!(admitted(&job) && admitted(&tp) && admitted(&dp) && admitted(&other) && !admitted(&waiting));
    let seen = view(&bench, "train");
    let groups: Vec<_> =
        seen.groups.iter().map(|group| (group.group.as_str(), group.spec.world, group.state)).collect();
    let (forming, running) = (JobState::Forming, JobState::Running);
    assert_eq!(groups, [("dp", 2, running), ("pp", 1, forming), ("tp", 2, running)]);
    assert_eq!((seen.spec.world, seen.trees.len(), seen.state), (4, 1, running));
    let snapshot = bench.coordinator.snapshot(SnapshotScope::All);
    let names: Vec<_> = snapshot.jobs.iter().map(|job| job.name.job.as_str()).collect();
    assert_eq!(names, ["train", "train2"]);
    let ranges = snapshot.switches[0].ranges.iter();
    let mut held: Vec<_> = ranges.map(|range| (range.job.job.as_str(), range.group.as_str())).collect();
    held.sort_unstable();
    assert_eq!(held, [("train", ""), ("train", "dp"), ("train", "pp"), ("train", "tp"), ("train2", "")]);
    bench.run_tasks();
    // A group that is left leaves the job and the other groups as they are.
    leave(&mut bench, &tp);
    let seen = view(&bench, "train");
    assert_eq!((seen.groups.len(), seen.state, seen.last), (2, running, None));
    assert_eq!(bench.closed(&job).len() + bench.closed(&dp).len(), 0);
    bench.finish();
}

#[test]
fn a_job_that_loses_a_worker_or_is_ended_takes_its_groups_with_it() {
    for ended in [false, true] {
        let mut bench = bench();
        let job = start(&mut bench, ("train", ""), 4, 5000);
        let running = start(&mut bench, ("train", "tp"), 2, 5010);
        let other = start(&mut bench, ("other", ""), 2, 5030);
        let of_other = start(&mut bench, ("other", "tp"), 2, 5040);
        // Last: tasks would start it.
        let forming = ask(&mut bench, ("train", "dp"), 2, 5020);
        if ended {
            let name = JobName { tenant: String::new(), job: "train".into() };
            let command = Command::EndJob { name, message: "maintenance".into() };
            bench.act(|coordinator, now| coordinator.execute(now, command)).unwrap();
        } else {
            bench.drop_session(job[3]);
        }
        for id in running.iter().chain(&forming) {
            let received = &bench.received[id];
            // Linked workers continue without the switch after a loss, and never after a command has ended their job.
            let lost = !ended && running.contains(id);
            assert_eq!(received.refusal(), (!lost).then_some(Refusal::Ended), "ended: {ended}");
            let why = if ended { "maintenance" } else { "rank 3 of job 'train'" };
            assert!(received.text().contains(why), "{}", received.text());
        }
        assert_eq!(bench.closed(&other).len() + bench.closed(&of_other).len(), 0);
        bench.run_tasks();
        let seen = view(&bench, "train");
        assert_eq!((seen.state, seen.trees.len(), seen.groups.len()), (JobState::Ended, 0, 0));
        assert_eq!(seen.spec.world, 4, "what is remembered is the job's");
        bench.finish();
    }
}

#[test]
fn a_lost_member_of_a_group_ends_that_group_alone() {
    let mut bench = bench();
    let job = start(&mut bench, ("train", ""), 4, 5000);
    let tp = start(&mut bench, ("train", "tp"), 2, 5010);
    let dp = start(&mut bench, ("train", "dp"), 2, 5020);
    bench.drop_session(tp[1]);
    assert_eq!(bench.received[&tp[0]].lost(), Some(1));
    let text = bench.received[&tp[0]].text();
    assert!(text.contains("rank 1 of group 'tp' of job 'train'"), "{text}");
    assert_eq!(bench.closed(&job).len() + bench.closed(&dp).len(), 0);
    bench.run_tasks();
    let ended = |event: &&JobEvent| matches!(event, JobEvent::Ended { group, .. } if group == "tp");
    assert_eq!(bench.log.iter().filter(ended).count(), 1);
    // The same name again.
    let again = start(&mut bench, ("train", "tp"), 2, 5030);
    assert!(bench.received[&again[0]].admission().is_some());
    bench.finish();
}

#[test]
fn a_job_is_running_until_its_last_group_is_left() {
    let mut bench = bench();
    let job = start(&mut bench, ("train", ""), 2, 5000);
    let tp = start(&mut bench, ("train", "tp"), 2, 5010);
    leave(&mut bench, &job);
    assert_eq!(bench.closed(&tp).len(), 0, "workers that leave the job first may finish what its groups do");
    assert_eq!(view(&bench, "train").state, JobState::Running);
    let name = JobName { tenant: String::new(), job: "train".into() };
    let forget = Command::ForgetJob(name);
    assert!(bench.act(|coordinator, now| coordinator.execute(now, forget)).is_err());
    leave(&mut bench, &tp);
    let seen = view(&bench, "train");
    assert_eq!((seen.state, seen.last.as_deref()), (JobState::Ended, Some("every worker has left")));
    assert_eq!(bench.ends(), [&EndReason::Finished; 2]);
    bench.finish();
}

#[test]
fn a_quota_counts_a_groups_slots_and_no_job_or_worker_twice() {
    let quota = Quota { slots: 4 * SLOTS, jobs: 1, workers: 4 };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), Config { tenants: true, jobs_kept: 10, ..config() });
    let red = TenantRecord { name: "red".into(), quota, weight: 1, priority: 0, token: None };
    bench.act(|coordinator, now| coordinator.execute(now, Command::AddTenant(red))).unwrap();
    let used = |bench: &Bench| bench.coordinator.snapshot(SnapshotScope::All).tenants[0].used;
    start(&mut bench, ("red/train", ""), 4, 5000);
    let tp = start(&mut bench, ("red/train", "tp"), 4, 5010);
    start(&mut bench, ("red/train", "dp"), 2, 5020);
    assert_eq!(used(&bench), Quota { slots: 3 * SLOTS, jobs: 1, workers: 4 });
    let refused = |bench: &mut Bench, name: (&str, &str), world: u16, port: u16| {
        let members = start(bench, name, world, port);
        let last = &bench.received[members.last().unwrap()];
        (last.refusal(), last.text().to_owned())
    };
    let (reason, text) = refused(&mut bench, ("red/other", ""), 1, 5030);
    assert_eq!(reason, Some(Refusal::Quota));
    assert!(text.contains("1 of 1 jobs"), "{text}");
    // More workers than the job has.
    let (reason, text) = refused(&mut bench, ("red/train", "all"), 5, 5040);
    assert_eq!(reason, Some(Refusal::Quota));
    assert!(text.contains("4 of 4 workers") && text.contains("needs 1"), "{text}");
    start(&mut bench, ("red/train", "pp"), 2, 5050);
    let (reason, text) = refused(&mut bench, ("red/train", "cp"), 2, 5060);
    assert_eq!(reason, Some(Refusal::Quota));
    assert!(text.contains("256 of 256 slots"), "{text}");
    leave(&mut bench, &tp);
    start(&mut bench, ("red/train", "cp"), 2, 5070);
    assert_eq!(used(&bench), Quota { slots: 4 * SLOTS, jobs: 1, workers: 4 });
    bench.finish();
}

/// A bench with tenant 'red', who has a quota of 128 slots.
fn with_quota(sharing: Sharing) -> Bench {
    let config = Config { tenants: true, jobs_kept: 10, sharing, ..config() };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config);
    let quota = Quota { slots: 128, ..Quota::UNLIMITED };
    let red = TenantRecord { name: "red".into(), quota, weight: 1, priority: 0, token: None };
    bench.act(|coordinator, now| coordinator.execute(now, Command::AddTenant(red))).unwrap();
    bench
}

/// Whether the quota of 'red' has room for so many groups.
fn query(groups: u32) -> QuotaQuery {
    QuotaQuery {
        version: netfold_wire::VERSION,
        credentials: Some(Credentials { tenant: "red".into(), token: String::new() }),
        groups,
        slots: SLOTS,
        classes: 1,
        trees: 1,
    }
}

fn ask_quota(bench: &mut Bench, query: QuotaQuery) -> (Option<Refusal>, String, bool) {
    let id = bench.open().unwrap();
    bench.say(id, SessionRequest::Quota(query));
    let received = &bench.received[&id];
    (received.refusal(), received.text().to_owned(), received.events.contains(&SessionEvent::Quota {}))
}

#[test]
fn slots_that_jobs_of_the_tenant_can_give_up_count_as_room_for_groups() {
    for (movable, sharing, most) in [
        (true, Sharing::Elastic, 7),
        // The half of the quota that is left, or seven eighths.
        (true, Sharing::Static, 4),
        (false, Sharing::Elastic, 7),
    ] {
        let mut bench = with_quota(sharing);
        for rank in 0..2 {
            let id = bench.open().unwrap();
            let join = Join::new("train", (rank, 2), Mode::Bfp16, SLOTS, 5000 + rank);
            let credentials = query(1).credentials;
            bench.say(id, SessionRequest::Join(Join { movable, credentials, ..join }));
        }
        bench.run_tasks();
        assert_eq!(ask_quota(&mut bench, query(most)), (None, String::new(), true), "{sharing:?}");
        let (reason, text, _) = ask_quota(&mut bench, query(most + 1));
        assert_eq!(reason, Some(Refusal::Quota));
        let can = "has 64 of 128 slots (48 of them can be given up), and 8 groups";
        assert_eq!(text.contains(can), movable && sharing == Sharing::Elastic, "{text}");
        assert!(text.contains("raised to 144 slots"), "{text}");
        bench.finish();
    }
}

#[test]
fn a_quota_that_is_too_small_for_groups_is_reported_before_they_join() {
    let mut bench = with_quota(Sharing::Static);
    start(&mut bench, ("red/train", ""), 2, 5000);
    let mut ask = |query: QuotaQuery| ask_quota(&mut bench, query);
    // 64 slots are left: four groups of 16, the fewest that a group is given.
    assert_eq!(ask(query(4)), (None, String::new(), true));
    let (reason, text, _) = ask(query(5));
    assert_eq!(reason, Some(Refusal::Quota));
    for part in ["has 64 of 128 slots", "5 groups need 80 more", "raised to 144 slots"] {
        assert!(text.contains(part), "{text}");
    }
    let huge = QuotaQuery { slots: u32::MAX, classes: 255, trees: 255, ..query(u32::MAX) };
    assert_eq!(ask(huge).0, Some(Refusal::Quota));
    assert_eq!(ask(QuotaQuery { credentials: None, ..query(1) }).0, Some(Refusal::Credentials));
    assert_eq!(ask(QuotaQuery { version: 0, ..query(1) }).0, Some(Refusal::Version));
    let joined = start(&mut bench, ("red/train", "tp"), 2, 5010);
    bench.say(joined[0], SessionRequest::Quota(query(1)));
    assert_eq!(bench.received[&joined[0]].refusal(), Some(Refusal::Protocol));
    bench.finish();
}

#[test]
fn groups_are_restored_with_their_job() {
    let durable = || Config { jobs_kept: 10, ..Config::controller(FLOOR, 1) };
    let durable = || Config { tenants: false, ..durable() };
    let mut bench = Bench::new(Fake::new(1024, 64, 16), durable());
    start(&mut bench, ("train", ""), 2, 5000);
    start(&mut bench, ("train", "tp"), 2, 5010);
    let mut bench = bench.restart(durable());
    bench.run_tasks();
    let seen = view(&bench, "train");
    assert_eq!((seen.trees.len(), seen.groups.len()), (1, 1));
    assert_eq!(seen.groups[0].group, "tp");
    // No worker comes back.
    bench.pass(Duration::from_secs(30));
    bench.run_tasks();
    assert_eq!(view(&bench, "train").state, JobState::Ended);
    bench.finish();
}
