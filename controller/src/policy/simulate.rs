//! Compares policies: the same jobs come to one switch under each of them.
//!
//! A discrete-event simulation in virtual time, from a seed. Jobs arrive at random (Poisson), want `2^5` to `2^9` slots, and can do
//! with a quarter, at which they are as fast as on their hosts. A job has work for an exponentially distributed time at the slots that
//! it wants; with fewer it is slower in proportion, since the rate of a window is its slots over the round trip. A job without slots
//! runs on its hosts at [`Scenario::beside`] of the speed: the whole time, if it was refused for good, or displaced and finds none.
//! Jobs carry orders out at their next boundary, after at most [`Scenario::boundary_ms`]. A refused job asks again when slots have
//! become free, until [`Scenario::patience_ms`] have passed.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Decision, Demand, JobId, Order, Policy};

/// The workload of the switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// Seed of all that is random.
    pub seed: u64,
    /// Jobs in all.
    pub jobs: u32,
    /// Slot-seconds wanted in a second, relative to the switch's slots: above 1 not all can have all that they want.
    pub load: f64,
    /// Mean time that a job takes with all the slots that it wants, in milliseconds.
    pub duration_ms: f64,
    /// Speed of a job that runs without the switch, relative to that with all the slots that it wants.
    pub beside: f64,
    /// Most time until a job is at a boundary, in milliseconds.
    pub boundary_ms: u64,
    /// How long a refused job keeps asking, in milliseconds.
    pub patience_ms: u64,
}

impl Scenario {
    /// 1,000 jobs of a minute on average, a quarter as fast on their hosts, at a boundary within 200 ms, with a minute of patience.
    pub const fn new(seed: u64, load: f64) -> Self {
        Self {
            seed,
            jobs: 1_000,
            load,
            duration_ms: 60_000.0,
            beside: 0.25,
            boundary_ms: 200,
            patience_ms: 60_000,
        }
    }
}

/// Results of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Share of the jobs that had slots at some time, 0 to 1.
    pub admitted: f64,
    /// Mean time from a job's coming to its first slots, of those admitted, in milliseconds.
    pub wait_ms: f64,
    /// Share of the slots that jobs held, over time.
    pub held: f64,
    /// Jain's index of the jobs' speeds relative to that with all the slots that they want, 1/n to 1.
    pub fairness: f64,
    /// Mean of these speeds.
    pub speed: f64,
    /// Mean speed of the tenth of the jobs with the highest priority.
    pub speed_urgent: f64,
    /// Jobs that were displaced, each time counted.
    pub displaced: u32,
    /// Jobs that ran elsewhere at first.
    pub spilled: u32,
    /// Orders to use other slots.
    pub resized: u32,
}

/// Runs a scenario under a policy none of whose slots are taken.
///
/// Determinism: the same scenario and policy give the same outcome.
///
/// # Panics
///
/// When the policy gives slots that another job holds, or a number that was not asked for.
pub fn run(policy: &mut dyn Policy, scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation::new(policy, scenario);
    while let Some((at, _, event)) = simulation.events.pop_first() {
        simulation.advance(at);
        simulation.handle(event);
        simulation.carry_out();
    }
    simulation.outcome()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    /// The job's boundary; with the number of the order that it is for.
    Boundary(usize, u32),
    /// It has finished, if its rate is still that of this number.
    Finishes(usize, u32),
    GivesUp(usize),
}

struct Job {
    demand: Demand,
    arrives_ms: u64,
    /// Work left, in milliseconds at full speed.
    left: f64,
    work: f64,
    /// Slots held; 0 without.
    slots: u32,
    state: State,
    first_slots_ms: Option<u64>,
    ends_ms: u64,
    /// Counts changes of the rate.
    rate: u32,
    /// Counts orders.
    order: u32,
    pending: Option<Order>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Coming,
    /// Refused, and asks again.
    Asks,
    /// Known to the policy.
    Known,
    /// Runs on its hosts to its end.
    Beside,
    Over,
}

struct Simulation<'a> {
    policy: &'a mut dyn Policy,
    scenario: Scenario,
    rng: StdRng,
    now: u64,
    events: BTreeSet<(u64, u64, Event)>,
    sequence: u64,
    jobs: Vec<Job>,
    /// Places of jobs that are neither to come nor over.
    present: BTreeSet<usize>,
    held_ms: f64,
    outcome: Outcome,
}

/// An exponentially distributed number of this mean.
fn exponential(rng: &mut StdRng, mean: f64) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}

impl<'a> Simulation<'a> {
    fn new(policy: &'a mut dyn Policy, scenario: &Scenario) -> Self {
        let mut rng = StdRng::seed_from_u64(scenario.seed);
        // Sizes 2^5 to 2^9 are equally frequent.
        let mean_slots = (5..10).map(|log| f64::from(1 << log)).sum::<f64>() / 5.0;
        let between = mean_slots * scenario.duration_ms / (scenario.load * f64::from(policy.capacity()));
        let mut at = 0.0;
        let mut jobs = Vec::new();
        for index in 0..scenario.jobs {
            at += exponential(&mut rng, between);
            let wanted = 1 << rng.random_range(5..10);
            let work = exponential(&mut rng, scenario.duration_ms).max(1.0);
            let priority = if rng.random_range(0..10) == 0 { 2 } else { rng.random_range(0..2) };
            let weight = 1 << rng.random_range(0..3);
            let demand = Demand { job: JobId(index.into()), wanted, least: wanted / 4, weight, priority };
            jobs.push(Job {
                demand,
                arrives_ms: at as u64,
                left: work,
                work,
                slots: 0,
                state: State::Coming,
                first_slots_ms: None,
                ends_ms: 0,
                rate: 0,
                order: 0,
                pending: None,
            });
        }
        let events = jobs
            .iter()
            .enumerate()
            .map(|(job, it)| (it.arrives_ms, job as u64, Event::Arrives(job)))
            .collect();
        Self {
            policy,
            scenario: *scenario,
            rng,
            now: 0,
            events,
            sequence: jobs.len() as u64,
            jobs,
            present: BTreeSet::new(),
            held_ms: 0.0,
            outcome: Outcome::default(),
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence, event));
    }

    fn speed(&self, job: usize) -> f64 {
        let Job { slots, demand, .. } = &self.jobs[job];
        match slots {
            0 => self.scenario.beside,
            slots => f64::from(*slots) / f64::from(demand.wanted),
        }
    }

    fn advance(&mut self, at: u64) {
        let elapsed = (at - self.now) as f64;
        let mut held = 0;
        for job in self.present.clone() {
            held += self.jobs[job].slots;
            let done = elapsed * self.speed(job);
            self.jobs[job].left -= done;
        }
        self.held_ms += elapsed * f64::from(held);
        self.now = at;
    }

    /// A job's rate has changed: its end is another.
    fn schedule(&mut self, job: usize) {
        self.jobs[job].rate += 1;
        let after = (self.jobs[job].left.max(0.0) / self.speed(job)).ceil() as u64;
        let rate = self.jobs[job].rate;
        self.at(self.now + after, Event::Finishes(job, rate));
    }

    fn has_slots(&mut self, job: usize, slots: u32) {
        let now = self.now;
        let it = &mut self.jobs[job];
        assert!((it.demand.least..=it.demand.wanted).contains(&slots), "as many as asked for");
        it.slots = slots;
        it.first_slots_ms.get_or_insert(now);
        self.schedule(job);
    }

    fn ask(&mut self, job: usize) -> bool {
        let demand = self.jobs[job].demand;
        let Ok(answer) = self.policy.ask(self.now, demand) else { return false };
        self.jobs[job].state = State::Known;
        match answer {
            Decision::Granted(range) => self.has_slots(job, range.slots()),
            Decision::Waits => {}
            Decision::Spilled => self.outcome.spilled += 1,
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(job) => {
                self.present.insert(job);
                self.schedule(job);
                if !self.ask(job) {
                    self.jobs[job].state = State::Asks;
                    self.at(self.now + self.scenario.patience_ms, Event::GivesUp(job));
                }
            }
            Event::GivesUp(job) if self.jobs[job].state == State::Asks => {
                self.jobs[job].state = State::Beside
            }
            Event::Finishes(job, rate)
                if self.jobs[job].rate == rate && self.jobs[job].state != State::Over =>
            {
                let now = self.now;
                let it = &mut self.jobs[job];
                (it.state, it.ends_ms, it.slots, it.pending) = (State::Over, now, 0, None);
                self.present.remove(&job);
                self.policy.leave(now, JobId(job as u64));
                self.ask_again();
            }
            Event::Boundary(job, order) if self.jobs[job].order == order => self.boundary(job),
            Event::GivesUp(_) | Event::Finishes(..) | Event::Boundary(..) => {}
        }
    }

    fn boundary(&mut self, job: usize) {
        let Some(order) = self.jobs[job].pending.take() else { return };
        self.policy.done(self.now, JobId(job as u64));
        match order {
            Order::Resize { to, .. } => {
                self.outcome.resized += 1;
                self.has_slots(job, to.slots());
            }
            Order::Displace { .. } => {
                self.outcome.displaced += 1;
                self.jobs[job].slots = 0;
                self.jobs[job].state = State::Asks;
                self.schedule(job);
            }
            Order::Start { .. } => {}
        }
        self.ask_again();
    }

    /// Slots may have become free: refused jobs ask again, the oldest first.
    fn ask_again(&mut self) {
        // A job that wants no less and has no higher priority than one that was just refused need not ask.
        let mut refused: Vec<(u32, u8)> = Vec::new();
        for job in self.present.clone() {
            let Demand { least, priority, .. } = self.jobs[job].demand;
            let vain = refused.iter().any(|(size, rank)| *size <= least && *rank >= priority);
            if self.jobs[job].state == State::Asks && !vain && !self.ask(job) {
                refused.push((least, priority));
            }
        }
    }

    fn carry_out(&mut self) {
        for order in self.policy.poll(self.now) {
            let job = order.job().0 as usize;
            if self.jobs[job].state == State::Over {
                continue;
            }
            if let Order::Start { range, .. } = order {
                self.has_slots(job, range.slots());
                continue;
            }
            let after = self.rng.random_range(0..=self.scenario.boundary_ms);
            self.jobs[job].order += 1;
            self.jobs[job].pending = Some(order);
            let number = self.jobs[job].order;
            self.at(self.now + after, Event::Boundary(job, number));
        }
        self.check();
    }

    /// No two jobs share slots, and every job has those that the policy reports.
    fn check(&self) {
        let mut taken = super::Arena::new(self.policy.capacity());
        let mut known: BTreeMap<usize, u32> = BTreeMap::new();
        for holding in self.policy.holdings() {
            if let Some(range) = holding.range {
                assert!(taken.is_free(range), "slots {range} belong to another job");
                taken.take(range);
                known.insert(holding.job.0 as usize, range.slots());
            }
        }
        for job in &self.present {
            let slots = self.jobs[*job].slots;
            assert_eq!(known.get(job).copied().unwrap_or(0), slots, "job {job} and the policy disagree");
        }
    }

    fn outcome(mut self) -> Outcome {
        let speed = |job: &Job| (job.work / (job.ends_ms - job.arrives_ms).max(1) as f64).min(1.0);
        let speeds: Vec<f64> = self.jobs.iter().map(speed).collect();
        let count = speeds.len() as f64;
        let (sum, squares) = speeds.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let waits: Vec<f64> =
            self.jobs.iter().filter_map(|job| Some((job.first_slots_ms? - job.arrives_ms) as f64)).collect();
        let urgent: Vec<f64> = self.jobs.iter().filter(|job| job.demand.priority == 2).map(speed).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let outcome = &mut self.outcome;
        outcome.admitted = waits.len() as f64 / count;
        outcome.wait_ms = mean(&waits);
        outcome.held = self.held_ms / (self.now.max(1) as f64 * f64::from(self.policy.capacity()));
        outcome.fairness = if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 };
        outcome.speed = mean(&speeds);
        outcome.speed_urgent = mean(&urgent);
        *outcome
    }
}
