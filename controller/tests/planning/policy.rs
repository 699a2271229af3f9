//! Policies: the same tests for each, what each does on a shortage, and the table that compares them.

use std::collections::{BTreeMap, BTreeSet};

use netfold_control::Refusal;
use netfold_controller::policy::simulate::{Outcome, Scenario, run};
use netfold_controller::policy::{
    AlignedRange, Arena, Decision, Demand, Denied, Elastic, Fit, Holding, JobId, NAMES, Order, Policy,
    Preempt, Reallocation, RunningJob, Spill, by_name, fit, growth,
};
use proptest::prelude::*;

fn policy(name: &str, slots: u32) -> Box<dyn Policy> {
    by_name(name, slots).unwrap_or_else(|| panic!("no policy {name}"))
}

fn demand(job: u64, wanted: u32, least: u32) -> Demand {
    Demand::new(JobId(job), wanted, least)
}

fn range(first: u32, slots: u32) -> AlignedRange {
    AlignedRange::new(first, slots).expect("a range")
}

/// A job's orders are carried out one by one, in any order; what must always be true is checked at every step.
struct Watched {
    policy: Box<dyn Policy>,
    demands: BTreeMap<JobId, Demand>,
    pending: BTreeMap<JobId, Order>,
    now: u64,
}

impl Watched {
    fn new(name: &str, slots: u32) -> Self {
        Self { policy: policy(name, slots), demands: BTreeMap::new(), pending: BTreeMap::new(), now: 0 }
    }

    fn ask(&mut self, demand: Demand) -> Result<Decision, Denied> {
        let before = self.holdings();
        let fits = self.fits(demand.wanted, demand.least);
        let waits = before.iter().any(|it| it.range.is_none());
        let answer = self.policy.ask(self.now, demand);
        match &answer {
            Ok(answer) => {
                self.demands.insert(demand.job, demand);
                if let Decision::Granted(range) = answer {
                    let held = self.holdings();
                    assert!(
                        held.iter().any(|it| it.job == demand.job && it.range == Some(*range)),
                        "{held:?}"
                    );
                }
                assert!(
                    !fits || waits || matches!(answer, Decision::Granted(_)),
                    "slots are free: {answer:?}"
                );
            }
            Err(error) => {
                assert_eq!(error.refusal(), Refusal::Slots);
                // What is free may be promised, with more that is being given up, to one that waits.
                assert!(!fits || waits, "slots are free: {error}");
                assert!(self.holdings().iter().all(|it| it.job != demand.job), "refused, and has slots");
            }
        }
        self.poll();
        answer
    }

    /// Whether a range of a sufficient size is free and not promised to a job.
    fn fits(&self, wanted: u32, least: u32) -> bool {
        let mut arena = Arena::new(self.policy.capacity());
        for holding in self.holdings() {
            holding.range.into_iter().chain(holding.next).for_each(|range| arena.take(range));
        }
        arena.largest(wanted, least).is_some()
    }

    fn poll(&mut self) {
        for order in self.policy.poll(self.now) {
            if let Order::Start { job, range } = order {
                assert!(self.holding(job).is_some_and(|it| it.range == Some(range)), "{order:?}");
            } else {
                let twice = self.pending.insert(order.job(), order);
                assert!(twice.is_none(), "{order:?} while {twice:?} is not done");
            }
        }
        self.check();
    }

    fn done(&mut self, job: JobId) {
        let Some(order) = self.pending.remove(&job) else { return };
        self.policy.done(self.now, job);
        match order {
            Order::Displace { .. } => {
                assert!(self.holding(job).is_none(), "displaced, and still there");
                self.demands.remove(&job);
            }
            Order::Resize { to, .. } => {
                assert_eq!(self.holding(job).and_then(|it| it.range), Some(to));
            }
            Order::Start { .. } => {}
        }
        self.poll();
    }

    fn leave(&mut self, job: JobId) {
        self.demands.remove(&job);
        self.pending.remove(&job);
        self.policy.leave(self.now, job);
        assert!(self.holding(job).is_none());
        self.poll();
    }

    fn holdings(&self) -> Vec<Holding> {
        self.policy.holdings()
    }

    fn holding(&self, job: JobId) -> Option<Holding> {
        self.holdings().into_iter().find(|it| it.job == job)
    }

    fn check(&self) {
        let mut taken = Arena::new(self.policy.capacity());
        let mut seen = BTreeSet::new();
        for Holding { job, range, next } in self.holdings() {
            assert!(seen.insert(job), "a job twice");
            let Demand { wanted, least, .. } = self.demands[&job];
            for range in range.iter().chain(&next) {
                assert!(
                    (least..=wanted).contains(&range.slots()),
                    "job {job:?} has {range} of {least}..={wanted}"
                );
            }
            if let Some(range) = range {
                assert!(taken.is_free(range), "{range} belongs to another job: {:?}", self.holdings());
                taken.take(range);
            }
        }
        // A promised range belongs to no other job, except to those that are ordered to leave it.
        for Holding { job, next, .. } in self.holdings() {
            for other in self.holdings().iter().filter(|other| other.job != job) {
                let overlap = |range: Option<AlignedRange>| {
                    next.zip(range).is_some_and(|(next, range)| next.overlaps(range))
                };
                assert!(!overlap(other.next), "promised twice: {:?}", self.holdings());
                assert!(
                    !overlap(other.range) || self.pending.contains_key(&other.job),
                    "{:?}",
                    self.holdings()
                );
            }
        }
        assert_eq!(seen, self.demands.keys().copied().collect(), "every job that was not refused");
    }

    /// Carries out all that is ordered, until nothing is.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.now += 2_000;
            self.poll();
            let Some(job) = self.pending.keys().next().copied() else { return };
            self.done(job);
        }
        panic!("orders without end: {:?}", self.holdings());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Ask { wanted: u32, spread: u32, weight: u32, priority: u8 },
    Leave(prop::sample::Index),
    Done(prop::sample::Index),
    Later(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u32..8, 0_u32..4, 1_u32..5, 0_u8..3)
            .prop_map(|(wanted, spread, weight, priority)| Step::Ask { wanted, spread, weight, priority }),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
        3 => any::<prop::sample::Index>().prop_map(Step::Done),
        1 => (0_u64..90_000).prop_map(Step::Later),
    ]
}

proptest! {
    #[test]
    fn no_two_jobs_share_slots_and_all_slots_come_back(
        name in prop::sample::select(NAMES.to_vec()),
        capacity in 1_u32..200,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut watched = Watched::new(name, capacity);
        let mut again = policy(name, capacity);
        for (job, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask { wanted, spread, weight, priority } => {
                    let (wanted, least) = (1 << wanted, 1 << wanted.saturating_sub(spread));
                    let demand = Demand { weight, priority, ..demand(job as u64, wanted, least) };
                    let answer = watched.ask(demand);
                    prop_assert_eq!(again.ask(watched.now, demand), answer, "the same again");
                    if watched.demands.contains_key(&demand.job) {
                        let twice = watched.policy.ask(watched.now, demand).unwrap_err();
                        prop_assert_eq!(twice.refusal(), Refusal::JobRunning);
                    }
                }
                Step::Leave(index) if !watched.demands.is_empty() => {
                    let job = *watched.demands.keys().nth(index.index(watched.demands.len())).unwrap();
                    watched.leave(job);
                    again.leave(watched.now, job);
                }
                Step::Done(index) if !watched.pending.is_empty() => {
                    let job = *watched.pending.keys().nth(index.index(watched.pending.len())).unwrap();
                    watched.done(job);
                    again.done(watched.now, job);
                }
                Step::Later(ms) => {
                    watched.now += ms;
                    watched.poll();
                }
                Step::Leave(_) | Step::Done(_) => {}
            }
            again.poll(watched.now);
            prop_assert_eq!(again.holdings(), watched.holdings());
        }
        watched.settle();
        let first = watched.holdings();
        watched.settle();
        prop_assert_eq!(watched.holdings(), first, "at rest");
        while let Some(job) = watched.demands.keys().next().copied() {
            watched.leave(job);
            watched.settle();
        }
        let most = 1 << capacity.ilog2();
        watched.now += 100_000;
        prop_assert_eq!(watched.ask(demand(1000, most, most)), Ok(Decision::Granted(range(0, most))), "all is free");
    }

    #[test]
    fn elastic_shares_leave_no_job_with_less_than_half_of_what_another_could_give(
        asks in prop::collection::vec((3_u32..9, 0_u32..6, 1_u32..5), 1..12),
    ) {
        let mut watched = Watched::new("elastic", 256);
        for (job, (wanted, spread, weight)) in asks.into_iter().enumerate() {
            let least = 1 << wanted.saturating_sub(spread);
            let _ = watched.ask(Demand { weight, ..demand(job as u64, 1 << wanted, least) });
            watched.settle();
        }
        // Where there are free slots that one could grow into, it has.
        let held = watched.holdings();
        for Holding { job, range, .. } in &held {
            let range = range.unwrap();
            let wanted = watched.demands[job].wanted;
            prop_assert!(range.slots() == wanted || !watched.fits(range.slots() * 2, range.slots() * 2), "{:?}", held);
        }
        // Of two jobs that are halves of one range, neither has a smaller share than it could have.
        for Holding { job, range, .. } in &held {
            let (own, range) = (watched.demands[job], range.unwrap());
            let Some(double) = range.double().filter(|_| range.slots() < own.wanted) else { continue };
            for Holding { job, range: theirs, .. } in &held {
                let (other, theirs) = (watched.demands[job], theirs.unwrap());
                if theirs.contains(double) && theirs.slots() / 2 >= other.least {
                    let (after, before) = (theirs.slots() / 2 * own.weight, range.slots() * other.weight);
                    prop_assert!(after <= before, "{:?}", held);
                }
            }
        }
    }
}

#[test]
fn static_partitions_refuse_and_say_why() {
    let mut policy = policy("static", 64);
    assert_eq!(policy.ask(0, demand(1, 32, 32)), Ok(Decision::Granted(range(0, 32))));
    assert_eq!(policy.ask(0, demand(2, 64, 16)), Ok(Decision::Granted(range(32, 32))));
    let error = policy.ask(0, demand(3, 16, 8)).unwrap_err();
    assert_eq!(error, Denied::Slots { least: 8, free: 0, capacity: 64 });
    assert_eq!(policy.ask(0, demand(1, 8, 8)).unwrap_err().refusal(), Refusal::JobRunning);
    for (wanted, least) in [(24, 8), (8, 16), (0, 0), (8, 0)] {
        assert_eq!(policy.ask(0, demand(4, wanted, least)).unwrap_err().refusal(), Refusal::Argument);
    }
    assert!(by_name("fair", 64).is_none());
}

#[test]
fn elastic_shares_follow_weights_and_come_back() {
    let mut watched = Watched::new("elastic", 1024);
    let slots =
        |watched: &Watched, job| watched.holding(JobId(job)).and_then(|it| it.range).map(|it| it.slots());
    let ask = |watched: &mut Watched, job, weight| {
        let answer = watched.ask(Demand { weight, ..demand(job, 1024, 64) });
        watched.settle();
        answer
    };
    assert_eq!(ask(&mut watched, 1, 1), Ok(Decision::Granted(range(0, 1024))));
    assert_eq!(ask(&mut watched, 2, 2), Ok(Decision::Waits));
    assert_eq!((slots(&watched, 1), slots(&watched, 2)), (Some(512), Some(512)));
    assert_eq!(ask(&mut watched, 3, 1), Ok(Decision::Waits));
    assert_eq!(
        (slots(&watched, 1), slots(&watched, 2), slots(&watched, 3)),
        (Some(256), Some(512), Some(256)),
        "the one of twice the weight keeps twice as many"
    );
    watched.leave(JobId(2));
    watched.settle();
    assert_eq!((slots(&watched, 1), slots(&watched, 3)), (Some(512), Some(512)), "idle slots are used");
    for job in 10..24 {
        assert!(ask(&mut watched, job, 1).is_ok(), "job {job}");
    }
    assert_eq!(ask(&mut watched, 24, 1), Err(Denied::Slots { least: 64, free: 0, capacity: 1024 }));
    assert!(watched.holdings().iter().all(|it| it.range.is_some_and(|range| range.slots() == 64)));
}

#[test]
fn elastic_jobs_move_together_for_one_that_needs_a_whole_range() {
    let mut watched = Watched::new("elastic", 64);
    for job in 0..8 {
        assert!(watched.ask(demand(job, 8, 8)).is_ok());
    }
    (0..8).step_by(2).for_each(|job| watched.leave(JobId(job)));
    assert!(!watched.fits(32, 32), "every other range of 8 is free");
    assert_eq!(watched.ask(demand(100, 32, 32)), Ok(Decision::Waits));
    assert_eq!(watched.pending.len(), 2, "two jobs move, not four");
    watched.settle();
    assert_eq!(watched.holding(JobId(100)).unwrap().range, Some(range(0, 32)));
}

#[test]
fn a_job_that_was_moved_rests_before_it_grows() {
    let mut policy = Elastic::new(64, 1_000);
    policy.ask(0, demand(1, 64, 8)).unwrap();
    policy.ask(0, demand(2, 64, 8)).unwrap();
    policy.poll(0);
    policy.done(10, JobId(1));
    policy.leave(20, JobId(2));
    assert_eq!(policy.poll(20), []);
    assert_eq!(policy.poll(999), []);
    assert_eq!(policy.poll(1_000), [Order::Resize { job: JobId(1), to: range(0, 64) }]);
}

#[test]
fn the_least_important_are_displaced_and_not_twice_in_the_guard_time() {
    let mut policy = Preempt::new(64, 60_000);
    let ask = |policy: &mut Preempt, now, job, slots, priority| {
        policy.ask(now, Demand { priority, ..demand(job, slots, slots) })
    };
    for (job, slots, priority) in [(1, 16, 1), (2, 16, 0), (3, 16, 0), (4, 16, 1)] {
        assert!(matches!(ask(&mut policy, 0, job, slots, priority), Ok(Decision::Granted(_))));
    }
    assert!(ask(&mut policy, 0, 5, 16, 0).is_err(), "equals are not displaced");
    assert_eq!(ask(&mut policy, 0, 5, 16, 1), Ok(Decision::Waits));
    assert_eq!(policy.poll(0), [Order::Displace { job: JobId(2), by: JobId(5) }]);
    assert_eq!(ask(&mut policy, 0, 6, 32, 2), Ok(Decision::Waits));
    assert_eq!(
        policy.poll(0),
        [Order::Displace { job: JobId(3), by: JobId(6) }, Order::Displace { job: JobId(4), by: JobId(6) }]
    );
    policy.done(5, JobId(3));
    assert_eq!(policy.poll(5), [], "the other is still there");
    policy.leave(6, JobId(4));
    assert_eq!(policy.poll(6), [Order::Start { job: JobId(6), range: range(32, 32) }]);
    policy.done(7, JobId(2));
    assert_eq!(policy.poll(7), [Order::Start { job: JobId(5), range: range(16, 16) }]);
    // The displaced jobs return when there is room, and are not displaced again.
    policy.leave(8, JobId(6));
    assert!(matches!(ask(&mut policy, 9, 2, 16, 0), Ok(Decision::Granted(_))));
    assert!(matches!(ask(&mut policy, 9, 3, 16, 0), Ok(Decision::Granted(_))));
    assert!(
        ask(&mut policy, 10, 7, 32, 1).is_err(),
        "two were displaced a moment ago, and the others are equals"
    );
    assert_eq!(ask(&mut policy, 60_000, 7, 32, 1), Ok(Decision::Waits));
}

#[test]
fn spilled_jobs_are_called_back_in_order() {
    let mut policy = Spill::new(64, 48);
    assert!(matches!(policy.ask(0, demand(1, 64, 64)), Ok(Decision::Granted(_))));
    assert_eq!(policy.ask(0, demand(2, 32, 32)), Ok(Decision::Spilled));
    assert_eq!(policy.ask(0, demand(3, 16, 16)), Ok(Decision::Spilled));
    assert_eq!(policy.ask(0, demand(4, 16, 16)).unwrap_err().refusal(), Refusal::Slots);
    policy.leave(1, JobId(1));
    assert_eq!(
        policy.poll(1),
        [
            Order::Resize { job: JobId(2), to: range(0, 32) },
            Order::Resize { job: JobId(3), to: range(32, 16) }
        ]
    );
    assert_eq!(policy.spilled(), 48, "until they have come");
    policy.done(2, JobId(2));
    policy.leave(2, JobId(3));
    assert_eq!(policy.spilled(), 0);
}

fn mean(name: &str, load: f64) -> Outcome {
    let mut sum = Outcome::default();
    const SEEDS: u32 = 2;
    for seed in 1..=SEEDS {
        let one = run(policy(name, 1024).as_mut(), &Scenario::new(seed.into(), load));
        let over = |sum: &mut f64, value: f64| *sum += value / f64::from(SEEDS);
        over(&mut sum.admitted, one.admitted);
        over(&mut sum.wait_ms, one.wait_ms);
        over(&mut sum.held, one.held);
        over(&mut sum.fairness, one.fairness);
        over(&mut sum.speed, one.speed);
        over(&mut sum.speed_urgent, one.speed_urgent);
        sum.displaced += one.displaced;
        sum.spilled += one.spilled;
        sum.resized += one.resized;
    }
    sum
}

#[test]
fn policies_compared() {
    println!("1,000 jobs on 1,024 slots, mean of seeds 1 and 2; displaced, spilled and resized are sums:");
    println!(
        "| load | policy | admitted | wait | slots held | fairness | speed | of the urgent | displaced | spilled | resized |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut all = BTreeMap::new();
    for load in [0.5, 1.0, 2.0] {
        for name in NAMES {
            let it = mean(name, load);
            println!(
                "| {load:.1} | {name} | {:.1} % | {:.1} s | {:.1} % | {:.3} | {:.3} | {:.3} | {} | {} | {} |",
                it.admitted * 100.0,
                it.wait_ms / 1000.0,
                it.held * 100.0,
                it.fairness,
                it.speed,
                it.speed_urgent,
                it.displaced,
                it.spilled,
                it.resized
            );
            all.insert((name, load.to_string()), it);
        }
    }
    let of = |name, load: f64| all[&(name, load.to_string())];
    for load in [1.0, 2.0] {
        let (fixed, elastic, urgent) = (of("static", load), of("elastic", load), of("priority", load));
        assert!(elastic.admitted > fixed.admitted && elastic.wait_ms < fixed.wait_ms, "shrinking makes room");
        assert!(elastic.fairness > fixed.fairness, "and shares it");
        assert!(urgent.speed_urgent > fixed.speed_urgent && urgent.displaced > 0, "the urgent come first");
    }
    assert_eq!(of("static", 1.0).resized + of("static", 1.0).displaced, 0);
    let scenario = Scenario { jobs: 200, ..Scenario::new(9, 1.5) };
    for name in NAMES {
        assert_eq!(run(policy(name, 512).as_mut(), &scenario), run(policy(name, 512).as_mut(), &scenario));
    }
}

fn standing(job: u64, at: AlignedRange, movable: bool) -> RunningJob {
    RunningJob { demand: demand(job, 1024, 64), range: at, movable }
}

#[test]
fn room_is_made_by_movable_jobs_as_the_policy_decides() {
    let ask = |name: &str, standing: &[RunningJob], demand| fit(&mut *policy(name, 1024), standing, demand);
    let moved = |job, slots| Reallocation { job: JobId(job), slots };
    let whole = [standing(1, range(0, 1024), true)];
    let fits = Ok(Fit { slots: 512, moves: vec![moved(1, Some(512))] });
    assert_eq!(ask("elastic", &whole, demand(9, 1024, 64)), fits);
    let half = [standing(1, range(0, 512), true)];
    assert_eq!(ask("elastic", &half, demand(9, 512, 64)), Ok(Fit { slots: 512, moves: Vec::new() }));
    // Of three, the one with the most; one that cannot be moved is left alone, whatever it has.
    let three = |movable| {
        [
            standing(1, range(0, 512), movable),
            standing(2, range(512, 256), true),
            standing(3, range(768, 256), true),
        ]
    };
    let fits = Ok(Fit { slots: 256, moves: vec![moved(1, Some(256))] });
    assert_eq!(ask("elastic", &three(true), demand(9, 256, 64)), fits);
    let room_made = ask("elastic", &three(false), demand(9, 256, 64)).unwrap();
    assert_eq!(room_made.slots, 128);
    assert!(room_made.moves.iter().all(|moved| moved.job != JobId(1) && moved.slots == Some(128)));
    let fixed = [standing(1, range(0, 1024), false)];
    for name in ["elastic", "priority", "static", "spill"] {
        let none = ask(name, &fixed, Demand { priority: 9, ..demand(9, 64, 64) });
        assert_eq!(none, Err(Denied::Slots { least: 64, free: 0, capacity: 1024 }), "{name}");
    }
    let urgent = Demand { priority: 1, ..demand(9, 256, 256) };
    let fits = Ok(Fit { slots: 256, moves: vec![moved(2, None)] });
    assert_eq!(ask("priority", &three(false), urgent), fits);
    assert!(ask("priority", &three(true), Demand { priority: 0, ..urgent }).is_err());
}

#[test]
fn only_jobs_that_may_grow_are_named() {
    let ask = |standing: &[RunningJob]| growth(&mut Elastic::new(1024, 0), standing);
    let doubled = vec![Reallocation { job: JobId(1), slots: Some(512) }];
    assert_eq!(ask(&[standing(1, range(0, 256), true), standing(2, range(512, 512), false)]), doubled);
    assert_eq!(ask(&[standing(1, range(0, 256), false)]), []);
    assert_eq!(ask(&[standing(1, range(0, 512), true), standing(2, range(512, 512), true)]), []);
    assert_eq!(growth(&mut Preempt::new(1024, 0), &[standing(1, range(0, 256), true)]), []);
}

#[test]
fn what_is_held_already_is_taken_over_or_refused_whole() {
    for name in NAMES {
        let mut policy = policy(name, 64);
        assert!(policy.hold(0, demand(1, 64, 8), range(16, 16)), "{name}");
        assert!(!policy.hold(0, demand(1, 64, 8), range(32, 16)), "{name}: the job is known");
        assert!(!policy.hold(0, demand(2, 64, 8), range(0, 32)), "{name}: half of it is taken");
        assert!(!policy.hold(0, demand(2, 64, 8), range(64, 16)), "{name}: there are no such slots");
        assert!(!policy.hold(0, demand(2, 64, 0), range(0, 16)), "{name}: that is no demand");
        policy.block(range(32, 32));
        policy.block(range(128, 64));
        assert_eq!(policy.ask(0, demand(3, 16, 16)), Ok(Decision::Granted(range(0, 16))), "{name}");
        assert_eq!(policy.holdings().len(), 2, "{name}");
        policy.leave(0, JobId(1));
        assert!(matches!(policy.ask(0, demand(4, 16, 16)), Ok(Decision::Granted(at)) if at == range(16, 16)));
    }
}
