//! Schedules over measured iterations: who is ordered to begin later, and which reports count.

use crate::bench::{Bench, config};
use crate::fake::Fake;
use netfold_control::{
    CommunicationPattern, Hold, Iteration, Join, Mode, Refusal, SessionEvent, SessionRequest,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::bands::{Banding, Ranking};
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::JobName;
use netfold_controller::schedule::Schedule;
use netfold_controller::view::JobView;
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_millis(500);

/// Bytes that the link carries in 100 ms.
const BYTES: u64 = 1_250_000;

/// A job that needs its link for half of the time, and has it for half of that: the other job begins 20 ms later.
pub(crate) fn colliding(age_us: u64) -> CommunicationPattern {
    CommunicationPattern {
        iterations: 20,
        period_us: 280_000,
        span_us: 180_000,
        busy_us: 180_000,
        compute_us: 100_000,
        bytes: BYTES,
        deviation: 0,
        age_us,
    }
}

fn bench(schedule: Schedule, ranking: Ranking) -> Bench {
    let banding = Banding { link_bps: 100_000_000, ranking, ..Banding::default() };
    Bench::new(Fake::new(4096, 64, 16), Config { schedule, banding, jobs_kept: 100, ..config() })
}

fn report(bench: &mut Bench, members: &[SessionId], pattern: CommunicationPattern) {
    members.iter().for_each(|id| bench.say(*id, SessionRequest::Pattern(pattern)));
}

/// Both jobs report, and the controller's heartbeat passes.
fn report_both(bench: &mut Bench, first: &[SessionId], second: &[SessionId]) {
    report(bench, first, colliding(30_000));
    report(bench, second, colliding(10_000));
    bench.pass(HEARTBEAT);
}

fn holds(bench: &Bench, id: SessionId) -> Vec<Hold> {
    let events = bench.received[&id].events.iter();
    events.filter_map(|event| if let SessionEvent::Hold(hold) = event { Some(*hold) } else { None }).collect()
}

fn view(bench: &Bench, name: &str) -> JobView {
    bench.coordinator.view_job(&JobName { tenant: String::new(), job: name.into() }).expect("it runs")
}

#[test]
fn one_of_two_jobs_that_collide_is_delayed() {
    let mut bench = bench(Schedule::Cassini, Ranking::Alike);
    let first = bench.start("first", 2, 5000);
    let second = bench.start("second", 3, 6000);
    assert!(bench.received[&first[0]].admission().unwrap().patterns);
    report(&mut bench, &first, colliding(30_000));
    // One of them does not know of patterns.
    report(&mut bench, &second[..2], colliding(10_000));
    bench.pass(HEARTBEAT);
    let (of_first, of_second) = (holds(&bench, first[0]), holds(&bench, second[0]));
    assert_eq!(of_first.len() + of_second.len(), 1, "one of them: {of_first:?} {of_second:?}");
    assert_eq!(holds(&bench, first[0]), holds(&bench, first[1]), "all ranks the same");
    assert_eq!(holds(&bench, second[0]), holds(&bench, second[1]), "all ranks the same");
    assert!(holds(&bench, second[2]).is_empty(), "it has not reported anything");
    assert!([of_first, of_second].concat().iter().all(Hold::is_valid));
    let texts = ["first", "second"].map(|name| view(&bench, name).schedule.expect("there is a schedule"));
    assert!(texts.iter().any(|text| text.contains("delayed once by")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("in turns with 1 job;")), "{texts:?}");
    let scheduled = |event: &&JobEvent| matches!(event, JobEvent::Scheduled { .. });
    assert_eq!(bench.log.iter().filter(scheduled).count(), 2);
    let pattern = view(&bench, "second").pattern.expect("it is measured");
    assert_eq!((pattern.period_us, pattern.compute_us, pattern.members), (280_000, 100_000, 2));
    bench.finish();
}

/// Ranks of a group of a job.
fn start_group(bench: &mut Bench, (job, group): (&str, &str), world: u16, port: u16) -> Vec<SessionId> {
    let ask = |rank: u16| {
        let id = bench.open().expect("there is room");
        let join = Join::new(job, (rank, world), Mode::Bfp16, 64, port + rank);
        bench.say(id, SessionRequest::Join(Join { group: group.into(), ..join }));
        id
    };
    let members = (0..world).map(ask).collect();
    bench.run_tasks();
    members
}

/// The job's own trees are idle, as those of a training whose tensors all belong to groups.
#[test]
fn groups_that_communicate_together_are_delayed_together() {
    let mut bench = bench(Schedule::Cassini, Ranking::Alike);
    let idle = bench.start("first", 4, 5000);
    let groups = [("first", "a"), ("first", "b")];
    let groups = groups.map(|name| start_group(&mut bench, name, 2, if name.1 == "a" { 5100 } else { 5200 }));
    let second = bench.start("second", 2, 6000);
    report(&mut bench, &groups[0], colliding(30_000));
    report(&mut bench, &groups[1], colliding(28_000));
    report(&mut bench, &second, colliding(10_000));
    bench.pass(HEARTBEAT);
    let pattern = view(&bench, "first").pattern.expect("that of its groups");
    assert_eq!((pattern.period_us, pattern.send_us, pattern.members), (280_000, 182_000, 4));
    let of_groups = groups.concat().into_iter().map(|id| holds(&bench, id)).collect::<Vec<_>>();
    assert!(of_groups.iter().all(|holds| *holds == of_groups[0]), "all groups the same: {of_groups:?}");
    assert_eq!(of_groups[0].len() + holds(&bench, second[0]).len(), 1, "one of the jobs");
    assert!(idle.iter().all(|id| holds(&bench, *id).is_empty()), "the job's own trees have no iterations");
    let texts = ["first", "second"].map(|name| view(&bench, name).schedule.expect("there is a schedule"));
    assert!(texts.iter().any(|text| text.contains("delayed once by")), "{texts:?}");
    bench.finish();
}

/// Nothing is known of a job whose groups have iterations of their own.
#[test]
fn groups_of_different_periods_are_not_scheduled() {
    let mut bench = bench(Schedule::Cassini, Ranking::Alike);
    let _idle = bench.start("first", 4, 5000);
    let one = start_group(&mut bench, ("first", "a"), 2, 5100);
    let other = start_group(&mut bench, ("first", "b"), 2, 5200);
    let second = bench.start("second", 2, 6000);
    report(&mut bench, &one, colliding(30_000));
    report(&mut bench, &other, CommunicationPattern { period_us: 310_000, ..colliding(30_000) });
    report(&mut bench, &second, colliding(10_000));
    bench.pass(HEARTBEAT);
    assert_eq!(view(&bench, "first").pattern, None);
    assert!([one, other, second].concat().iter().all(|id| holds(&bench, *id).is_empty()));
    bench.finish();
}

#[test]
fn nothing_is_delayed_without_a_schedule_or_a_reason() {
    for (schedule, bytes, jobs) in [
        (Schedule::Off, BYTES, 2),
        (Schedule::Crux, BYTES, 2),
        (Schedule::Cassini, BYTES, 1),
        (Schedule::Cassini, 2 * BYTES, 2),
    ] {
        let mut bench = bench(schedule, Ranking::Alike);
        let first = bench.start("first", 2, 5000);
        // With twice the bytes both have all that they need of the link.
        let pattern = |age_us| CommunicationPattern { bytes, ..colliding(age_us) };
        report(&mut bench, &first, pattern(30_000));
        let second = if jobs > 1 { bench.start("second", 2, 6000) } else { Vec::new() };
        report(&mut bench, &second, pattern(10_000));
        bench.pass(HEARTBEAT);
        for id in first.iter().chain(&second) {
            assert!(holds(&bench, *id).is_empty(), "{schedule:?}, {bytes} bytes, {jobs} jobs");
        }
        assert!(view(&bench, "first").pattern.is_some());
        assert_eq!(view(&bench, "first").schedule.is_some(), schedule == Schedule::Cassini);
        bench.finish();
    }
}

#[test]
fn impossible_reports_and_those_of_others_are_ignored() {
    let mut bench = bench(Schedule::Cassini, Ranking::Alike);
    let first = bench.start("first", 2, 5000);
    for wrong in [
        CommunicationPattern { period_us: 0, ..colliding(0) },
        CommunicationPattern { busy_us: u64::MAX, ..colliding(0) },
        CommunicationPattern { bytes: u64::MAX, ..colliding(0) },
    ] {
        report(&mut bench, &first, wrong);
        assert_eq!(view(&bench, "first").pattern, None, "{wrong:?}");
    }
    bench.pass(HEARTBEAT);
    assert!(!bench.received[&first[0]].closed, "the session goes on");
    let stranger = bench.open().unwrap();
    bench.say(stranger, SessionRequest::Pattern(colliding(0)));
    assert_eq!(bench.received[&stranger].refusal(), Some(Refusal::Protocol));
    bench.finish();
}

#[test]
fn orders_end_with_the_reports() {
    let mut bench = bench(Schedule::Cassini, Ranking::Alike);
    let first = bench.start("first", 2, 5000);
    let second = bench.start("second", 2, 6000);
    report_both(&mut bench, &first, &second);
    let count = |bench: &Bench| first.iter().chain(&second).map(|id| holds(bench, *id).len()).sum::<usize>();
    let ordered = count(&bench);
    assert!(ordered > 0);
    for _ in 0..40 {
        for id in first.iter().chain(&second) {
            bench.say(*id, SessionRequest::ALIVE);
        }
        bench.pass(HEARTBEAT);
    }
    assert_eq!(view(&bench, "first").pattern, None, "it is forgotten");
    // Until the reports were too old the jobs were kept in turns.
    let last = count(&bench);
    bench.pass(HEARTBEAT);
    assert_eq!(count(&bench), last);
    bench.finish();
}

#[test]
fn jobs_are_ranked_by_what_is_measured() {
    let mut bench = bench(Schedule::Crux, Ranking::Crux);
    let light = bench.start("light", 2, 5000);
    let heavy = bench.start("heavy", 4, 6000);
    let band = |bench: &Bench, name: &str| view(bench, name).band.expect("jobs have bands");
    assert_eq!(band(&bench, "light"), band(&bench, "heavy"), "nothing is known");
    report_both(&mut bench, &light, &heavy);
    assert!(band(&bench, "heavy").first() > band(&bench, "light").first(), "more workers compute");
    // Another measurement does not change the order at once.
    let lighter = CommunicationPattern { compute_us: 1_000, period_us: 181_000, ..colliding(0) };
    report(&mut bench, &heavy, lighter);
    bench.pass(HEARTBEAT);
    assert!(band(&bench, "heavy").first() > band(&bench, "light").first(), "changes are damped");
    for _ in 0..24 {
        report(&mut bench, &light, colliding(0));
        report(&mut bench, &heavy, lighter);
        bench.pass(HEARTBEAT);
    }
    assert!(band(&bench, "heavy").first() < band(&bench, "light").first());
    bench.finish();
}

#[test]
fn a_declaration_that_contradicts_the_measurement_is_ignored() {
    let mut bench = bench(Schedule::Off, Ranking::Crux);
    let declared = Iteration { work: 1 << 40, compute_us: 100_000, send_after_us: 100_000, bytes: BYTES };
    for (name, iteration) in
        [("honest", declared), ("boasting", Iteration { compute_us: 900_000, send_after_us: 0, ..declared })]
    {
        crate::bands::declare(&mut bench, name, iteration).unwrap();
    }
    let honest = bench.start("honest", 2, 5000);
    let boasting = bench.start("boasting", 2, 6000);
    report_both(&mut bench, &honest, &boasting);
    // Bands are given when a job begins or ends.
    let other = bench.start("other", 2, 7000);
    assert!(!view(&bench, "honest").pattern.unwrap().contradicts);
    assert!(view(&bench, "boasting").pattern.unwrap().contradicts);
    let band = |name: &str| view(&bench, name).band.expect("jobs have bands").first();
    assert_eq!(band("boasting"), band("other"), "as if it had declared nothing");
    assert!(band("honest") > band("boasting"));
    assert!(holds(&bench, other[0]).is_empty());
    bench.finish();
}
