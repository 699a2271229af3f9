//! Jobs that stall: what is recorded of them, what it says, and what wrong reports change.

use crate::bench::{Bench, FLOOR, LEAF_SPINE, config};
use crate::fake::Fake;
use netfold_control::{
    Join, MemberCounters, Mode, Numerics, RankEvent, RankEventKind, SessionRequest, StallReport,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::flight_record::FlightRecord;
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::{JobName, StoredRecords};
use netfold_controller::topology::Topology;
use netfold_controller::view::{STALLS_MAX, SnapshotScope, StallReportCounters, StallView};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::Duration;

const HALF: Duration = Duration::from_millis(500);

fn bench() -> Bench {
    Bench::new(Fake::new(1024, 64, 16), config())
}

pub(crate) fn report(chunk: u32) -> StallReport {
    let event = |ago_ms, kind| RankEvent { ago_ms, kind, chunk: None, operation: None, count: None };
    StallReport {
        silent_ms: 1300,
        received_ms: Some(200),
        outstanding: 3,
        class: 0,
        chunk,
        sends: 5,
        events: vec![
            RankEvent { operation: Some(7), ..event(1400, RankEventKind::Submitted) },
            RankEvent { chunk: Some(chunk), ..event(1350, RankEventKind::Sent) },
        ],
    }
}

fn say(bench: &mut Bench, id: SessionId, report: StallReport) {
    bench.say(id, SessionRequest::Stalled(report));
}

pub(crate) fn explain(bench: &mut Bench, job: &str) -> Vec<FlightRecord> {
    let name = JobName { tenant: String::new(), job: job.into() };
    bench.act(|coordinator, now| coordinator.explain(now, &name)).expect("the job is known")
}

fn counted(bench: &Bench) -> StallReportCounters {
    bench.coordinator.snapshot(SnapshotScope::Live).stall_reports
}

/// The numbers of a job's stream: first chunk and slots.
fn stream(bench: &Bench, id: SessionId) -> (u32, u32) {
    let admission = bench.received[&id].admission().expect("it was admitted");
    (admission.first_chunk, admission.slots)
}

/// Puts a chunk into the slots of a switch whose range begins at `base`, with the contributions of these children.
pub(crate) fn fill(fake: &Fake, (base, slots): (u32, u32), chunk: u32, seen: u32) {
    let (slot, set) = (base + chunk % slots, (chunk / slots % 2) as u8);
    let mut switch = fake.lock();
    switch.chunks[slot as usize][usize::from(set)] = chunk;
    switch.seen.insert((slot, set), seen);
}

/// Lets time pass while these members send heartbeats.
fn beat(bench: &mut Bench, members: &[SessionId], beats: u32) {
    for _ in 0..beats {
        members.iter().for_each(|id| bench.say(*id, SessionRequest::ALIVE));
        bench.pass(HALF);
    }
}

#[test]
fn a_rank_that_is_silent_is_named_while_the_job_runs_and_after_its_end() {
    let mut bench = bench();
    let members = bench.start("demo", 3, 5000);
    let (first, slots) = stream(&bench, members[0]);
    fill(&bench.fake, (0, slots), first, 0b111);
    fill(&bench.fake, (0, slots), first + 1, 0b101);
    assert_eq!(explain(&mut bench, "demo"), []);
    beat(&mut bench, &[members[0], members[2]], 3);
    say(&mut bench, members[0], report(first + 1));
    say(&mut bench, members[2], report(first + 1));
    bench.run_tasks();
    assert!(bench.fake.lock().slots_read <= 64, "once, and only some");
    beat(&mut bench, &[members[0], members[2]], 1);

    let record = explain(&mut bench, "demo").remove(0);
    assert_eq!((record.ended.as_deref(), record.as_of_ms - record.began_ms), (None, 1800));
    assert_eq!(
        (record.chunks.len(), record.chunks[0].chunk, &record.chunks[0].missing[..]),
        (1, first + 1, &[1][..])
    );
    let silent = "it has reported nothing for 2.0 s: its process is stopped or its host is unreachable";
    let want = format!("rank 1 has not contributed to chunk {}, and {silent}", first + 1);
    assert_eq!(record.conclusion, want);
    let reported: Vec<_> = record.ranks.iter().map(|rank| (rank.rank, rank.report.is_some())).collect();
    assert_eq!(reported, [(0, true), (1, false), (2, true)]);
    let events = &record.ranks[0].report.as_ref().unwrap().events;
    assert_eq!(events[0].0 + 50, events[1].0);
    assert!(bench.log.iter().all(|event| !matches!(event, JobEvent::Stalled { .. })), "others may report");

    beat(&mut bench, &[members[0], members[2]], 3);
    let place = |wanted: fn(&JobEvent) -> bool| bench.log.iter().position(wanted).expect("it was logged");
    let stalled = place(|event| matches!(event, JobEvent::Stalled { .. }));
    assert!(stalled < place(|event| matches!(event, JobEvent::Ended { .. })));
    let JobEvent::Stalled { missing, conclusion, .. } = &bench.log[stalled] else { unreachable!() };
    assert_eq!(missing, &Some((first + 1, vec![1])));
    assert!(conclusion.contains("rank 1 has not contributed"), "{conclusion}");
    bench.run_tasks();
    beat(&mut bench, &[], 20);
    let ended = explain(&mut bench, "demo").remove(0);
    assert!(ended.ended.as_ref().is_some_and(|how| how.contains("sent no heartbeat")), "{ended:?}");
    assert!(ended.conclusion.starts_with("rank 1 has not contributed"), "{}", ended.conclusion);
    assert_eq!((ended.ranks[1].state, ended.ranks[0].state), ("lost", "here"));
    bench.finish();
}

/// What the views of a job say of its stalls must be what its records say.
fn agree(bench: &mut Bench, job: &str) -> Vec<StallView> {
    let records = explain(bench, job);
    let name = JobName { tenant: String::new(), job: job.into() };
    let stalls = bench.coordinator.view_job(&name).expect("the job is known").stalls;
    assert_eq!(stalls.len(), records.len().min(STALLS_MAX));
    for (stall, record) in stalls.iter().zip(&records) {
        assert_eq!((stall.began_ms, stall.as_of_ms), (record.began_ms, record.as_of_ms));
        assert_eq!((&stall.group, stall.tree), (&record.group, record.tree));
        assert_eq!((&stall.ended, &stall.conclusion), (&record.ended, &record.conclusion));
    }
    stalls
}

#[test]
fn views_of_a_job_have_its_last_stalls() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let (first, slots) = stream(&bench, members[0]);
    fill(&bench.fake, (0, slots), first, 0b01);
    assert_eq!(agree(&mut bench, "demo"), []);
    for stall in 1..=STALLS_MAX as u32 + 2 {
        // Records of a tree are apart; the time doubles with each.
        beat(&mut bench, &members, 2 << (4 + stall));
        say(&mut bench, members[0], report(first));
        bench.run_tasks();
        beat(&mut bench, &members, 1);
        let lasts = agree(&mut bench, "demo");
        assert_eq!(lasts.len(), (stall as usize).min(STALLS_MAX));
        assert!(lasts[0].ended.is_none() && lasts[0].conclusion.starts_with("rank 1 has not contributed"));
        assert!(lasts[1..].iter().all(|stall| stall.ended.is_some()), "{lasts:?}");
        let results = MemberCounters { results_received: stall.into(), ..MemberCounters::default() };
        bench.say(members[0], SessionRequest::Alive { counters: Some(results) });
        beat(&mut bench, &members, 1);
        assert!(agree(&mut bench, "demo")[0].ended.is_some(), "it has results again");
    }
    bench.finish();
}

#[test]
fn what_a_rank_reports_says_where_its_packets_are_lost() {
    let cases: [(StallReport, &str); 4] = [
        (StallReport { received_ms: Some(4000), ..report(1) }, "receives nothing from its switch"),
        (
            StallReport { received_ms: None, sends: 1, ..report(1) },
            "it has sent it once and receives nothing",
        ),
        (report(1), "it has sent it 5 times, and the switch answers it"),
        (report(0), "results are lost on the way to it"),
    ];
    for (of_rank_1, want) in cases {
        let mut bench = bench();
        let members = bench.start("demo", 2, 5000);
        let (first, slots) = stream(&bench, members[0]);
        fill(&bench.fake, (0, slots), first, 0b11);
        fill(&bench.fake, (0, slots), first + 1, 0b01);
        say(&mut bench, members[0], report(first + 1));
        say(&mut bench, members[1], StallReport { chunk: first + of_rank_1.chunk, ..of_rank_1 });
        bench.run_tasks();
        let conclusion = explain(&mut bench, "demo").remove(0).conclusion;
        assert!(
            conclusion.starts_with("rank 1 has not contributed") && conclusion.contains(want),
            "{conclusion}"
        );
        bench.finish();
    }
}

#[test]
fn without_reports_and_with_complete_chunks_the_conclusion_says_what_is_left() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let (first, slots) = stream(&bench, members[0]);
    fill(&bench.fake, (0, slots), first, 0b01);
    say(&mut bench, members[0], report(first));
    let unread = explain(&mut bench, "demo").remove(0).conclusion;
    assert!(unread.ends_with("are not read yet"), "{unread}");
    bench.run_tasks();
    let idle = explain(&mut bench, "demo").remove(0).conclusion;
    assert!(idle.contains("its program has not begun this operation"), "{idle}");
    bench.finish();

    let mut bench = self::bench();
    let members = bench.start("demo", 2, 5000);
    fill(&bench.fake, (0, slots), first, 0b11);
    members.iter().for_each(|id| say(&mut bench, *id, report(first)));
    bench.run_tasks();
    let lost = explain(&mut bench, "demo").remove(0);
    assert_eq!(lost.chunks, []);
    assert!(lost.conclusion.contains("which ranks 0, 1 did not receive"), "{}", lost.conclusion);
    bench.finish();

    let mut bench = self::bench();
    let members = bench.start("demo", 2, 5000);
    members.iter().for_each(|id| say(&mut bench, *id, report(first)));
    bench.run_tasks();
    let nothing = explain(&mut bench, "demo").remove(0);
    assert_eq!(nothing.chunks[0].missing, [0, 1]);
    assert!(nothing.conclusion.starts_with("no contribution to chunk"), "{}", nothing.conclusion);
    bench.finish();
}

#[test]
fn a_switch_that_cannot_be_read_is_named_and_delays_no_session() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let (first, _) = stream(&bench, members[0]);
    bench.fake.lock().failing = Box::new(|_| true);
    say(&mut bench, members[0], report(first));
    bench.run_tasks();
    let record = explain(&mut bench, "demo").remove(0);
    assert_eq!((record.unread.len(), record.chunks.len()), (1, 0));
    assert!(record.conclusion.contains("could not be read"), "{}", record.conclusion);
    assert!(members.iter().all(|id| !bench.received[id].closed));
    bench.finish();
}

#[test]
fn a_stall_that_is_over_is_kept_and_the_next_one_is_recorded_later() {
    let mut bench = bench();
    let members = bench.start("demo", 2, 5000);
    let (first, _) = stream(&bench, members[0]);
    let results = |results_received| SessionRequest::Alive {
        counters: Some(MemberCounters { results_received, ..MemberCounters::default() }),
    };
    bench.say(members[0], results(10));
    say(&mut bench, members[0], report(first));
    bench.run_tasks();
    beat(&mut bench, &members, 5);
    assert!(matches!(bench.log.last(), Some(JobEvent::Stalled { .. })), "{:?}", bench.log.last());
    bench.say(members[0], results(11));
    bench.pass(HALF);
    let Some(JobEvent::Continued { lasted, .. }) = bench.log.last() else { panic!("{:?}", bench.log.last()) };
    assert!(*lasted >= Duration::from_millis(1300));
    let over = explain(&mut bench, "demo");
    assert_eq!((over.len(), over[0].ended.as_deref()), (1, Some("the job has results again")));

    say(&mut bench, members[0], report(first + 9));
    assert_eq!((explain(&mut bench, "demo").len(), counted(&bench).limited), (1, 1));
    beat(&mut bench, &members, 20);
    say(&mut bench, members[0], report(first + 9));
    assert_eq!(explain(&mut bench, "demo").len(), 2);
    assert_eq!(counted(&bench), StallReportCounters { taken: 2, limited: 1, ignored: 0 });
    bench.run_tasks();
    bench.finish();
}

#[test]
fn a_rank_whose_process_has_ended_is_distinguished_from_one_that_is_stopped() {
    let mut bench = Bench::new(
        Fake::new(1024, 64, 16),
        Config { tenants: false, ..Config::controller(FLOOR, 1_000_000) },
    );
    let members = bench.start("demo", 2, 5000);
    let (first, slots) = stream(&bench, members[0]);
    fill(&bench.fake, (0, slots), first, 0b01);
    bench.drop_session(members[1]);
    beat(&mut bench, &members[..1], 3);
    say(&mut bench, members[0], report(first));
    bench.run_tasks();
    let away = explain(&mut bench, "demo").remove(0).conclusion;
    assert!(away.contains("its control session is broken"), "{away}");
    beat(&mut bench, &members[..1], 2);
    let ended = explain(&mut bench, "demo").remove(0);
    assert!(ended.ended.is_some() && ended.conclusion.contains("its process has ended"), "{ended:?}");
    bench.run_tasks();
    bench.finish();
}

#[test]
fn wrong_reports_are_counted_and_change_nothing() {
    let mut bench = bench();
    let forming = bench.join("forming", 0, 2, 4000);
    let members = bench.start("demo", 2, 5000);
    let (first, slots) = stream(&bench, members[0]);
    let event = report(first).events[0];
    let wrong = [
        StallReport { class: 1, ..report(first) },
        StallReport { outstanding: slots + 1, ..report(first) },
        StallReport { outstanding: 0, ..report(first) },
        StallReport { events: vec![event; 100], ..report(first) },
    ];
    for report in wrong {
        say(&mut bench, members[0], report);
    }
    say(&mut bench, forming, report(first));
    assert_eq!(counted(&bench), StallReportCounters { taken: 0, limited: 0, ignored: 5 });
    assert_eq!((explain(&mut bench, "demo"), bench.tasks.len()), (Vec::new(), 0));
    assert!(members.iter().chain([&forming]).all(|id| !bench.received[id].closed));
    // Any chunk is possible, and any time.
    let extreme = StallReport { silent_ms: u64::MAX, received_ms: Some(u64::MAX), ..report(first ^ 1 << 31) };
    say(&mut bench, members[0], extreme);
    say(&mut bench, members[1], StallReport { sends: u32::MAX, ..report(first) });
    bench.run_tasks();
    assert_eq!(explain(&mut bench, "demo").len(), 1);

    let stranger = bench.open().unwrap();
    say(&mut bench, stranger, report(first));
    assert!(bench.received[&stranger].refusal().is_some(), "the first request is a join");
    let absent = JobName { tenant: String::new(), job: "absent".into() };
    assert!(bench.act(|coordinator, now| coordinator.explain(now, &absent)).is_none());
    bench.finish();
}

#[test]
fn few_jobs_are_read_at_a_time() {
    let mut bench = Bench::new(Fake::new(8192, 64, 64), Config { slots_max: 64, ..config() });
    let jobs: Vec<_> = (0..10).map(|job| bench.start(&format!("job{job}"), 2, 5000 + 2 * job)).collect();
    for members in &jobs {
        let (first, _) = stream(&bench, members[0]);
        say(&mut bench, members[0], report(first));
    }
    assert_eq!(bench.tasks.len(), 4);
    for _ in 0..3 {
        bench.run_tasks();
        jobs.iter().for_each(|members| beat(&mut bench, members, 0));
        bench.pass(HALF);
    }
    bench.run_tasks();
    for job in 0..10 {
        let record = explain(&mut bench, &format!("job{job}")).remove(0);
        assert!(!record.conclusion.contains("not read yet"), "job{job}: {}", record.conclusion);
    }
    bench.finish();
}

/// A job of 40 workers, half of them at each leaf.
fn tree() -> (Bench, [Fake; 3], Vec<SessionId>) {
    let topology = Topology::from_toml(LEAF_SPINE).expect("the topology is valid");
    let fakes: [Fake; 3] = std::array::from_fn(|_| Fake::new(1024, 64, 16));
    let infos = fakes.iter().zip(topology.switches()).enumerate().map(|(at, (fake, switch))| SwitchInfo {
        name: switch.name.clone(),
        data: Some(([10, 9, 0, at as u8 + 1], 20038).into()),
        ..SwitchInfo::own(fake.lock().limits, Numerics::Word)
    });
    let known = links(&topology);
    let fleet =
        Fleet::new(infos.collect(), Box::new(topology), FLOOR, StdRng::seed_from_u64(3)).linked(known);
    let mut bench = Bench::over(fakes.to_vec(), config(), fleet, StoredRecords::default());
    let join = |rank: u16| {
        let id = bench.open().expect("there is room for a session");
        let address = Some([10, 0, 1 + (rank / 20) as u8, 1].into());
        let join = Join::new("tree", (rank, 40), Mode::Bfp16, 256, 5000 + rank);
        bench.say(id, SessionRequest::Join(Join { address, ..join }));
        id
    };
    let members = (0..40).map(join).collect();
    bench.run_tasks();
    (bench, fakes, members)
}

#[test]
fn ranks_that_are_missing_are_found_through_a_tree() {
    let (mut bench, [leaf1, leaf2, spine], members) = tree();
    let (first, slots) = stream(&bench, members[0]);
    let all = (1 << 20) - 1;
    fill(&spine, (0, slots), first, 0b10);
    fill(&leaf1, (0, slots), first, all & !(1 << 3));
    fill(&leaf2, (0, slots), first, all);
    let begun = [&leaf1, &leaf2, &spine].map(|fake| fake.lock().slots_read);
    say(&mut bench, members[0], report(first));
    bench.run_tasks();
    let read = [&leaf1, &leaf2, &spine].map(|fake| fake.lock().slots_read);
    assert_eq!((begun, read), ([0; 3], [64, 0, 64]), "only where a sum is missing");
    let record = explain(&mut bench, "tree").remove(0);
    assert_eq!((&record.chunks[0].missing[..], record.chunks.len()), (&[3][..], 1));
    assert!(record.conclusion.starts_with("rank 3 has not contributed"), "{}", record.conclusion);
    // The report of a rank that is missing is kept, whatever others have said before.
    for (rank, id) in members.iter().enumerate().rev() {
        say(&mut bench, *id, StallReport { received_ms: None, ..report(first) });
        assert!(rank > 0 || counted(&bench).taken == 41);
    }
    let record = explain(&mut bench, "tree").remove(0);
    let of_rank_3 = record.ranks.iter().find(|rank| rank.rank == 3);
    assert!(of_rank_3.is_some_and(|rank| rank.report.is_some()), "{record:?}");
    assert_eq!(record.ranks.iter().filter(|rank| rank.report.is_some()).count(), 32);
    bench.finish_all();
}

#[test]
fn a_sum_that_is_lost_between_switches_is_found() {
    let (mut bench, [leaf1, leaf2, spine], members) = tree();
    let (first, slots) = stream(&bench, members[0]);
    fill(&spine, (0, slots), first, 0b10);
    fill(&leaf1, (0, slots), first, (1 << 20) - 1);
    fill(&leaf2, (0, slots), first, (1 << 20) - 1);
    say(&mut bench, members[7], report(first));
    bench.run_tasks();
    let record = explain(&mut bench, "tree").remove(0);
    assert_eq!(
        (&record.chunks[0].missing[..], &record.chunks[0].sums_missing[..]),
        (&[][..], &["leaf1".to_owned()][..])
    );
    assert!(record.conclusion.contains("packets are lost between the two switches"), "{}", record.conclusion);
    bench.finish_all();
}
