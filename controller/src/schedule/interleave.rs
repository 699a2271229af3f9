//! Shifts in time for jobs that run, from what is measured of them: CASSINI's plan ([`super::cassini`]), carried out by delaying iterations.
//!
//! [`Interleaver::decide`] is called every heartbeat with the patterns of all jobs. Jobs that share a link and have nearly the same iteration time, or a
//! small multiple of it, are planned together. One of them stays where it is, and the others are delayed once, such that the sum of delays is least. From
//! then on iterations that begin early are delayed a little, so that jobs keep their turns although their iterations differ.
//!
//! # Rules
//!
//! Patterns are what tenants' hosts report, and may be false. So a delay is bounded and has to prove its worth:
//!
//! - Nothing is delayed unless a job is measured to communicate longer than alone, and the plan would remove at least [`GAIN_MIN`] of an iteration.
//! - Jobs are left alone that need more than [`LOAD_MAX`] of the time of a link together.
//! - Jobs are delayed by more than [`PACE_MAX`] of an iteration at most once in [`SETTLING_ITERATIONS`] iterations.
//! - A job is delayed in total by at most one iteration and [`BUDGET_SHARE`] of the time that it has run.
//! - If a delay does not shorten what it was to shorten, the same jobs are left alone for [`PAUSE_ITERATIONS`], twice as long after each further failure,
//!   up to [`PAUSE_MAX`]; each success halves the next such time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::cassini::{Circle, Link, Phase, place};

/// Fraction of an iteration that a plan has to gain, by its own prediction.
pub const GAIN_MIN: f64 = 0.02;

/// Fraction of an iteration by which a job's communication has to be longer than alone for the job to count as slowed.
pub const SLOWED_MIN: f64 = 0.03;

/// Largest delay that keeps jobs in turns, as a fraction of an iteration.
pub const PACE_MAX: f64 = 0.2;

/// The least such delay: what is less may be an error of measurement.
const PACE_MIN: f64 = 0.005;

/// Iterations from one larger delay of a job to the next.
pub const SETTLING_ITERATIONS: u32 = 10;

/// Fraction of a job's time that it may be delayed, beyond one iteration.
pub const BUDGET_SHARE: f64 = 0.05;

/// What is kept of that, in iterations.
const BUDGET_ITERATIONS: u32 = 2;

/// Iterations for which jobs whose delay had no effect are left alone, the first time.
pub const PAUSE_ITERATIONS: u32 = 10;

/// The longest such time.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Least confidence in a pattern.
pub const CONFIDENCE_MIN: f64 = 0.5;

/// Fraction by which iteration times, or their small multiples, may differ.
pub const DRIFT_MAX: f64 = 0.03;

/// Most iterations of a job in one of another that it is planned with.
pub const MULTIPLE_MAX: u64 = 4;

/// Most jobs that are planned together.
pub const JOBS_MAX: usize = 16;

/// Most of a link's time that jobs may need, by what is measured, for shifts to last. Where they need more, iterations grow longer than planned, so jobs
/// lose their turns and are delayed for nothing.
pub const LOAD_MAX: f64 = 1.05;

/// Once they need more, they are planned again when they need no more than this.
const LOAD_AGAIN: f64 = 1.0;

/// Steps of a circle.
const ANGLES: usize = 144;

/// From a decision to the beginning of the first iteration that it may delay: longer than a message takes.
const LEAD: Duration = Duration::from_millis(20);

/// Part of what was to be gained that a delay has to gain in order to count as effective.
const EFFECT_MIN: f64 = 0.25;

/// The part of a link's rate that is assumed for payloads where no iteration of a job was seen that had the link for itself.
const EFFICIENCY: f64 = 0.96;

/// Seed of the search for the best turns: the same jobs are planned alike.
const SEED: u64 = 0x6361_7373;

/// What is measured of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// From the beginning of an iteration's communication to the next.
    pub period: Duration,
    /// From the beginning of an iteration's communication to its end.
    pub span: Duration,
    /// The part of this time in which it communicates.
    pub busy: Duration,
    /// Time of an iteration in which it does not communicate.
    pub compute: Duration,
    /// Bytes over each of its links in an iteration.
    pub bytes: f64,
    /// How far this can be relied on, from 0 to 1.
    pub confidence: f64,
    /// When the communication of an iteration began.
    pub begun: Duration,
    /// Its links, by number.
    pub links: Vec<usize>,
}

/// What is decided of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing: its pattern is not known, or not well enough.
    Unknown,
    /// Nothing: it shares no link with a job whose pattern is known.
    Alone,
    /// Nothing: the iteration times of the jobs on its links differ, so they would drift apart again.
    Unmatched,
    /// Nothing: too many jobs share links.
    Crowded,
    /// Nothing: jobs and links form loops, so no shifts suit all links.
    Looped,
    /// Nothing: a link cannot carry what its jobs send in an iteration, so that iterations grow longer whenever the jobs send.
    Overloaded,
    /// Nothing: it is as fast as it could be, within [`GAIN_MIN`].
    Interleaved {
        /// How many other jobs it is planned with.
        others: usize,
    },
    /// It has its turns: others were delayed, or it was. Iterations that begin early are delayed a little.
    InTurns {
        /// How many other jobs it is planned with.
        others: usize,
    },
    /// Its next iteration is delayed.
    Delayed {
        /// By so much.
        by: Duration,
        /// How many other jobs it is planned with.
        others: usize,
        /// What is to be gained in each iteration.
        gain: Duration,
    },
    /// Nothing for now: the last delay had no effect.
    Ineffective {
        /// How long it is left alone.
        pause: Duration,
    },
    /// Nothing for now: it, or a job that it is planned with, was delayed as long as it may be.
    Spent,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self {
            Self::Unknown => f.write_str("not scheduled: its iterations are not known well enough yet"),
            Self::Alone => {
                f.write_str("not scheduled: it shares no link with another job whose iterations are known")
            }
            Self::Unmatched => f.write_str(
                "not scheduled: the iterations of the jobs that share its links take different times, so shifts would not last",
            ),
            Self::Crowded => write!(f, "not scheduled: more than {JOBS_MAX} jobs share its links"),
            Self::Looped => f.write_str("not scheduled: jobs and links form loops, so no shifts suit all of them"),
            Self::Overloaded => f.write_str("not scheduled: a link of its cannot carry all that jobs send in an iteration"),
            Self::Interleaved { others } => {
                write!(f, "not delayed: no shift against {} would shorten its iterations", jobs(*others))
            }
            Self::InTurns { others } => write!(
                f,
                "communicates in turns with {}; iterations that begin early are delayed by up to {:.0} %",
                jobs(*others),
                PACE_MAX * 100.0
            ),
            Self::Delayed { by, others, gain } => write!(
                f,
                "delayed once by {:.1} ms, so that it communicates in turns with {}: to save up to {:.1} ms in each iteration",
                ms(by),
                jobs(*others),
                ms(gain)
            ),
            Self::Ineffective { pause } => {
                write!(f, "not delayed for {} s: the last delay shortened nothing", pause.as_secs())
            }
            Self::Spent => f.write_str(
                "not delayed: it or a job that shares its links was delayed as long as the rules allow",
            ),
        }
    }
}

fn jobs(count: usize) -> String {
    match count {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    }
}

/// An order to a job: operations that begin an iteration within these times begin at the second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay<K> {
    /// The job.
    pub job: K,
    /// From then on.
    pub after: Duration,
    /// Until then.
    pub until: Duration,
}

/// What was decided, and is remembered, of a job.
#[derive(Debug, Clone)]
struct History<K> {
    decision: Decision,
    /// The decision before, as long as it was not asked for.
    before: Option<Decision>,
    /// How long it may still be delayed, as of `counted`.
    budget: Duration,
    counted: Duration,
    /// It is left alone until then.
    paused_until: Duration,
    /// Iterations for which it is left alone after the next failure.
    pause: u32,
    /// The shortest communication that was seen, of so many bytes.
    shortest: Option<(Duration, f64)>,
    /// What a delay is to shorten.
    trial: Option<Trial>,
    plan: Option<Plan<K>>,
}

/// A delay whose effect is not known yet.
#[derive(Debug, Clone, PartialEq)]
struct Trial {
    /// Time by which the jobs' communication was longer than alone, all together.
    excess: Duration,
    /// What is to be gained of that.
    gain: Duration,
    /// When the effect can be seen.
    judged_at: Duration,
}

/// A job without others.
#[derive(Debug, Clone)]
struct Profile {
    period: Duration,
    span: Duration,
    /// Time by which its communication is longer than this.
    excess: Duration,
    /// Bytes a second that it takes of a link's rate while it communicates.
    rate: f64,
}

/// The best shifts of some jobs, for their profiles. The first of them has it in its history.
#[derive(Debug, Clone)]
struct Plan<K> {
    /// All jobs that are joined by shared links.
    component: Vec<K>,
    /// Iteration times and spans, in microseconds.
    profiles: Vec<(u64, u64)>,
    links: Vec<Link>,
    shifts_us: Option<Vec<u64>>,
    /// The jobs have these shifts.
    formed: bool,
}

/// The state machine that decides; `K` names jobs.
#[derive(Debug)]
pub struct Interleaver<K> {
    histories: BTreeMap<K, History<K>>,
}

impl<K> Default for Interleaver<K> {
    fn default() -> Self {
        Self { histories: BTreeMap::new() }
    }
}

/// A job that is decided about.
struct Job<'a, K> {
    key: &'a K,
    observed: &'a Observed,
    history: &'a mut History<K>,
}

/// All jobs that are decided about in one heartbeat. Parts of it name them by their numbers.
struct Round<'a, K> {
    now: Duration,
    rates: &'a [f64],
    jobs: Vec<Job<'a, K>>,
}

/// Jobs that are planned together.
struct Group<'a> {
    /// Their numbers.
    members: Vec<usize>,
    observed: Vec<&'a Observed>,
    profiles: Vec<Profile>,
    /// The common time of iterations, in microseconds, and how many of its own each job has in it.
    base_us: u64,
    multiples: Vec<u64>,
    links: Vec<Link>,
    circles: Vec<Circle>,
}

impl<K: Ord + Clone> Interleaver<K> {
    /// What was decided of a job last.
    pub fn decision(&self, job: &K) -> Option<Decision> {
        Some(self.histories.get(job)?.decision)
    }

    /// What was decided anew since this was called last, by job.
    pub fn changes(&mut self) -> impl Iterator<Item = (&K, Decision)> {
        self.histories.iter_mut().filter_map(|(job, history)| {
            let before = history.before.replace(history.decision);
            (before != Some(history.decision)).then_some((job, history.decision))
        })
    }

    /// Decides about all jobs that run, in the order of their names; `rates` are bytes a second of the links that they name. Forgets jobs that are not
    /// given.
    ///
    /// Takes time in proportion to the number of jobs, apart from those whose profile has changed.
    pub fn decide(&mut self, now: Duration, jobs: &[(&K, Observed)], rates: &[f64]) -> Vec<Delay<K>> {
        debug_assert!(
            jobs.is_sorted_by(|(a, _), (b, _)| a < b),
            "jobs are given in the order of their names"
        );
        self.keep(now, jobs);
        let all = self.histories.values_mut().zip(jobs);
        let all = all.map(|(history, (key, observed))| Job { key: *key, observed, history });
        let mut round = Round { now, rates, jobs: all.collect() };
        let mut known = Vec::new();
        for (at, job) in round.jobs.iter_mut().enumerate() {
            job.history.note(now, job.observed);
            let Observed { confidence, period, bytes, .. } = job.observed;
            if *confidence >= CONFIDENCE_MIN && !period.is_zero() && *bytes > 0.0 {
                known.push(at);
            } else {
                job.history.decision = Decision::Unknown;
                job.history.plan = None;
            }
        }
        let components = components(&known, |job| &round.jobs[job].observed.links);
        components.into_iter().flat_map(|component| round.decide_component(&component)).collect()
    }

    /// Has a history of each of these jobs, and of no others.
    fn keep(&mut self, now: Duration, jobs: &[(&K, Observed)]) {
        if self.histories.keys().eq(jobs.iter().map(|(job, _)| *job)) {
            return;
        }
        let mut before = std::mem::take(&mut self.histories);
        let history = |(job, observed): &(&K, Observed)| {
            let (job, history) =
                before.remove_entry(*job).unwrap_or_else(|| ((*job).clone(), History::new(now, observed)));
            (job, history)
        };
        self.histories = jobs.iter().map(history).collect();
    }
}

impl<'a, K: Ord + Clone> Round<'a, K> {
    fn conclude(&mut self, jobs: &[usize], decision: Decision) -> Vec<Delay<K>> {
        jobs.iter().for_each(|job| self.jobs[*job].history.decision = decision);
        Vec::new()
    }

    fn histories<'b>(&'b self, group: &'b Group<'_>) -> impl Iterator<Item = &'b History<K>> {
        group.members.iter().map(|job| &*self.jobs[*job].history)
    }

    /// Forgets plans for other jobs than these.
    fn keep_plan(&mut self, component: &[usize]) {
        let is_current =
            |plan: &Plan<K>| plan.component.iter().eq(component.iter().map(|job| self.jobs[*job].key));
        let first = &self.jobs[component[0]].history.plan;
        let kept = first.as_ref().is_some_and(is_current);
        for job in &component[usize::from(kept)..] {
            self.jobs[*job].history.plan = None;
        }
    }

    fn decide_component(&mut self, component: &[usize]) -> Vec<Delay<K>> {
        self.keep_plan(component);
        if component.len() < 2 {
            return self.conclude(component, Decision::Alone);
        }
        if component.len() > JOBS_MAX {
            return self.conclude(component, Decision::Crowded);
        }
        let Some((group, unmatched)) = self.group(component) else {
            return self.conclude(component, Decision::Unmatched);
        };
        self.conclude(&unmatched, Decision::Unmatched);
        let was_overloaded = self.histories(&group).any(|history| history.decision == Decision::Overloaded);
        if group.load() > if was_overloaded { LOAD_AGAIN } else { LOAD_MAX } {
            self.jobs[component[0]].history.plan = None;
            return self.conclude(&group.members, Decision::Overloaded);
        }
        let now = self.now;
        if self.histories(&group).any(|history| now < history.paused_until) {
            return Vec::new();
        }
        let excess: Duration = group.profiles.iter().map(|profile| profile.excess).sum();
        if let Some(pause) = self.judge(&group, excess) {
            self.jobs[component[0]].history.plan = None;
            return self.conclude(&group.members, Decision::Ineffective { pause });
        }
        if let Some(orders) = self.pace(component[0], &group) {
            return orders;
        }
        let others = group.members.len() - 1;
        let slowed = |profile: &Profile| profile.excess > profile.period.mul_f64(SLOWED_MIN);
        if !group.profiles.iter().any(slowed) {
            return self.conclude(&group.members, Decision::Interleaved { others });
        }
        let Some(shifts_us) = self.plan(component, &group) else {
            return self.conclude(&group.members, Decision::Looped);
        };
        let gain_us = group.cost_us(&group.phases_us()) - group.cost_us(&shifts_us);
        if gain_us < GAIN_MIN * group.base_us as f64 {
            return self.conclude(&group.members, Decision::Interleaved { others });
        }
        let gain = Duration::from_micros(gain_us as u64);
        let orders = self.delay(&group, &shifts_us, (excess, gain));
        if let Some(plan) = &mut self.jobs[component[0]].history.plan {
            plan.formed = !orders.is_empty();
        }
        orders
    }

    /// The jobs that are planned together, and those whose iteration times do not match theirs; `None` if there are no two.
    fn group(&self, component: &[usize]) -> Option<(Group<'a>, Vec<usize>)> {
        let profile = |job: &usize| {
            let Job { observed, history, .. } = &self.jobs[*job];
            (*job, history.profile(observed, self.rates))
        };
        let all: Vec<(usize, Profile)> = component.iter().map(profile).collect();
        let matched = |base: Duration| {
            all.iter().filter(move |(_, profile)| multiple(base, profile.period).is_some()).count()
        };
        // Of those that match the most others the longest.
        let base =
            all.iter().map(|(_, profile)| profile.period).max_by_key(|base| (matched(*base), *base))?;
        let (chosen, unmatched): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, profile)| multiple(base, profile.period).is_some());
        if chosen.len() < 2 {
            return None;
        }
        let unmatched = unmatched.into_iter().map(|(job, _)| job).collect();
        let multiples: Vec<u64> =
            chosen.iter().filter_map(|(_, profile)| multiple(base, profile.period)).collect();
        let (members, profiles): (Vec<usize>, Vec<Profile>) = chosen.into_iter().unzip();
        let observed = members.iter().map(|job| self.jobs[*job].observed).collect();
        Some((Group::new(members, (observed, profiles), base, multiples, self.rates), unmatched))
    }

    /// Whether the last delay of these jobs has had its effect, if there was one: the time for which they are left alone if not.
    fn judge(&mut self, group: &Group<'_>, excess: Duration) -> Option<Duration> {
        let trials = self.histories(group).filter_map(|history| history.trial.clone());
        let now = self.now;
        let trial = trials.max_by_key(|trial| trial.judged_at).filter(|trial| trial.judged_at <= now)?;
        let effective = excess + trial.gain.mul_f64(EFFECT_MIN) <= trial.excess;
        let mut failed = None;
        for job in &group.members {
            let history = &mut *self.jobs[*job].history;
            history.trial = None;
            if effective {
                history.pause = (history.pause / 2).max(PAUSE_ITERATIONS);
                continue;
            }
            let pause = Duration::from_micros(group.base_us).saturating_mul(history.pause).min(PAUSE_MAX);
            history.paused_until = now + pause;
            failed = failed.max(Some(pause));
            history.pause = history.pause.saturating_mul(2);
        }
        failed
    }

    /// The best shifts, if any suit all links.
    fn plan(&mut self, component: &[usize], group: &Group<'_>) -> Option<Vec<u64>> {
        let profiles: Vec<(u64, u64)> =
            group.profiles.iter().map(|profile| (micros(profile.period), micros(profile.span))).collect();
        let near = |(a, b): (&(u64, u64), &(u64, u64))| is_near(a.0, b.0) && is_near(a.1, b.1);
        if let Some(plan) = &self.jobs[component[0]].history.plan
            && plan.links == group.links
            && plan.profiles.len() == profiles.len()
            && plan.profiles.iter().zip(&profiles).all(near)
        {
            return plan.shifts_us.clone();
        }
        let placed = place(&group.spread(), std::slice::from_ref(&group.links), ANGLES, SEED);
        let shifts_us = placed.ok().flatten().map(|placed| placed.shifts_us);
        let component_keys = component.iter().map(|job| self.jobs[*job].key.clone()).collect();
        self.jobs[component[0]].history.plan = Some(Plan {
            component: component_keys,
            profiles,
            links: group.links.clone(),
            shifts_us: shifts_us.clone(),
            formed: false,
        });
        shifts_us
    }

    /// Keeps jobs in turns that have the shifts of their plan, which the first of the component has; `None` if they have not, or nothing is planned.
    fn pace(&mut self, first: usize, group: &Group<'_>) -> Option<Vec<Delay<K>>> {
        let now = self.now;
        let waits = self
            .histories(group)
            .any(|history| history.trial.as_ref().is_some_and(|trial| now < trial.judged_at));
        let plan = self.jobs[first].history.plan.as_mut().filter(|plan| plan.formed)?;
        let shifts_us = plan.shifts_us.clone().filter(|shifts| shifts.len() == group.members.len())?;
        let next = group.next_begins(now + LEAD, |job| group.profiles[job].period);
        let plans = (0..group.members.len()).map(|kept| group.delays(&next, &shifts_us, kept));
        let delays = plans.min_by_key(|delays| delays.iter().sum::<Duration>())?;
        let part = |delay: Duration| delay.as_secs_f64() * 1e6 / group.base_us as f64;
        if delays.iter().any(|delay| part(*delay) > PACE_MAX) {
            // One of them was late, or the larger delay has not had its effect yet.
            plan.formed = waits;
            return waits.then(Vec::new);
        }
        let mut orders = Vec::new();
        for (at, by) in delays.iter().enumerate() {
            let Job { key, history, .. } = &mut self.jobs[group.members[at]];
            let key: &K = key;
            if !waits {
                history.decision = Decision::InTurns { others: group.members.len() - 1 };
            }
            if part(*by) >= PACE_MIN && *by <= history.budget {
                history.budget -= *by;
                orders.push(group.order(at, key, now, next[at], *by));
            }
        }
        Some(orders)
    }

    /// Delays all jobs but one such that they have these shifts against each other. `excess` is by how much their communication is longer than
    /// alone, and `gain` how much of that is to be gained.
    fn delay(
        &mut self,
        group: &Group<'_>,
        shifts_us: &[u64],
        (excess, gain): (Duration, Duration),
    ) -> Vec<Delay<K>> {
        let now = self.now;
        let next = group.next_begins(now + LEAD, |job| group.observed[job].period);
        let others = group.members.len() - 1;
        let mut plans: Vec<Vec<Duration>> =
            (0..group.members.len()).map(|kept| group.delays(&next, shifts_us, kept)).collect();
        plans.sort_by_key(|delays| delays.iter().sum::<Duration>());
        let affordable = |delays: &Vec<Duration>| {
            self.histories(group).zip(delays).all(|(history, delay)| *delay <= history.budget)
        };
        let Some(delays) = plans.into_iter().find(affordable) else {
            return self.conclude(&group.members, Decision::Spent);
        };
        let mut orders = Vec::new();
        let settled = next.iter().zip(&delays).map(|(next, delay)| *next + *delay).max().unwrap_or(now)
            + Duration::from_micros(group.base_us) * SETTLING_ITERATIONS;
        for (at, by) in delays.iter().enumerate() {
            let Job { key, history, .. } = &mut self.jobs[group.members[at]];
            let key: &K = key;
            history.trial = Some(Trial { excess, gain, judged_at: settled });
            history.decision = Decision::InTurns { others };
            if by.is_zero() {
                continue;
            }
            history.budget -= *by;
            history.decision = Decision::Delayed { by: *by, others, gain };
            orders.push(group.order(at, key, now, next[at], *by));
        }
        orders
    }
}

impl<K> History<K> {
    fn new(now: Duration, observed: &Observed) -> Self {
        Self {
            decision: Decision::Unknown,
            before: None,
            budget: observed.period,
            counted: now,
            paused_until: Duration::ZERO,
            pause: PAUSE_ITERATIONS,
            shortest: None,
            trial: None,
            plan: None,
        }
    }

    /// Takes what is measured now.
    fn note(&mut self, now: Duration, observed: &Observed) {
        let more = now.saturating_sub(self.counted).mul_f64(BUDGET_SHARE);
        // What was not used is not kept for ever.
        self.budget = (self.budget + more).min((observed.period * BUDGET_ITERATIONS).max(self.budget));
        self.counted = now;
        if observed.confidence < CONFIDENCE_MIN {
            return;
        }
        let same = |bytes: f64| (bytes - observed.bytes).abs() <= 0.1 * observed.bytes;
        let before = self.shortest.filter(|(_, bytes)| same(*bytes)).map(|(busy, _)| busy);
        self.shortest = Some((before.map_or(observed.busy, |busy| busy.min(observed.busy)), observed.bytes));
    }

    /// The job as it would be without others.
    fn profile(&self, observed: &Observed, rates: &[f64]) -> Profile {
        let least = observed.links.iter().map(|link| rate_of(rates, *link)).fold(f64::MAX, f64::min);
        let at_rate = Duration::try_from_secs_f64(observed.bytes / least).unwrap_or(observed.busy);
        let seen = self.shortest.map_or(observed.busy, |(busy, _)| busy);
        let alone = seen.min(at_rate.div_f64(EFFICIENCY)).min(observed.busy);
        let excess = observed.busy - alone;
        let (period, span) = (observed.compute + alone, observed.span.saturating_sub(excess));
        // While an operation is in progress, the job takes all of its slowest link.
        let part = alone.as_secs_f64() / span.as_secs_f64().max(f64::MIN_POSITIVE);
        Profile { period, span, excess, rate: least * part.min(1.0) }
    }
}

impl<'a> Group<'a> {
    fn new(
        members: Vec<usize>,
        (observed, profiles): (Vec<&'a Observed>, Vec<Profile>),
        base: Duration,
        multiples: Vec<u64>,
        rates: &[f64],
    ) -> Self {
        // So that it is a whole number of all parts of it.
        let unit: u64 = (1..=MULTIPLE_MAX).product();
        let base_us = micros(base).div_ceil(unit).max(1) * unit;
        let links = contended(&observed, &profiles, rates);
        let circle = |(profile, multiple): (&Profile, &u64)| {
            let period_us = base_us / multiple;
            let to_us = micros(profile.span).min(period_us);
            Circle { period_us, phases: vec![Phase { from_us: 0, to_us, rate: profile.rate }] }
        };
        let circles = profiles.iter().zip(&multiples).map(circle).collect();
        Self { members, observed, profiles, base_us, multiples, links, circles }
    }

    /// The order that delays a job's iteration. It holds from the middle of the pause before.
    fn order<K: Clone>(&self, job: usize, key: &K, now: Duration, next: Duration, by: Duration) -> Delay<K> {
        let quiet = self.observed[job].period.saturating_sub(self.observed[job].span);
        let after = next.saturating_sub(quiet / 2).max(now);
        Delay { job: key.clone(), after, until: next + by }
    }

    /// An iteration of this job within the common time, in microseconds.
    fn own_us(&self, job: usize) -> u64 {
        self.base_us / self.multiples[job]
    }

    /// How much later than the first each job is at present, in microseconds less than its iteration.
    fn phases_us(&self) -> Vec<u64> {
        let begins = self.next_begins(Duration::ZERO, |job| self.observed[job].period);
        let first = begins.first().map_or(0, |begun| micros(*begun));
        let phase = |(job, begun): (usize, &Duration)| {
            (i128::from(micros(*begun)) - i128::from(first)).rem_euclid(self.own_us(job).into()) as u64
        };
        begins.iter().enumerate().map(phase).collect()
    }

    /// The first beginning of an iteration of each job not before a time, if its iterations take so long: all within an iteration or two of each other.
    fn next_begins(&self, earliest: Duration, period: impl Fn(usize) -> Duration) -> Vec<Duration> {
        let newest = self.observed.iter().map(|job| job.begun).max().unwrap_or_default().max(earliest);
        let next = |(at, job): (usize, &&Observed)| {
            let (behind, period) = (newest.saturating_sub(job.begun).as_nanos(), period(at));
            let iterations = behind.div_ceil(period.as_nanos().max(1));
            job.begun + period.saturating_mul(u32::try_from(iterations).unwrap_or(u32::MAX))
        };
        self.observed.iter().enumerate().map(next).collect()
    }

    /// The part of the time for which the most loaded link is needed.
    fn load(&self) -> f64 {
        let load = |link: &Link| {
            let sent = link.jobs.iter().map(|job| {
                let Circle { period_us, phases } = &self.circles[*job];
                phases.iter().map(|phase| phase.rate * (phase.to_us - phase.from_us) as f64).sum::<f64>()
                    / *period_us as f64
            });
            sent.sum::<f64>() / link.capacity
        };
        self.links.iter().map(load).fold(0.0, f64::max)
    }

    /// The circles with longer phases, where there is time left at every link: the best turns for them leave gaps between those of the jobs, so that
    /// iterations may vary.
    fn spread(&self) -> Vec<Circle> {
        let factor = (1.0 / self.load().max(f64::MIN_POSITIVE)).max(1.0);
        let longer = |circle: &Circle| {
            let until = |phase: &Phase| ((phase.to_us as f64 * factor) as u64).min(circle.period_us);
            let phases = circle.phases.iter().map(|phase| Phase { to_us: until(phase), ..*phase });
            Circle { period_us: circle.period_us, phases: phases.collect() }
        };
        self.circles.iter().map(longer).collect()
    }

    /// Time within the common one in which more is to be sent than the most loaded link carries, in microseconds.
    fn cost_us(&self, shifts_us: &[u64]) -> f64 {
        let cost = |link: &Link| {
            let shifts: Vec<u64> = link.jobs.iter().map(|job| shifts_us[*job]).collect();
            link.score(&self.circles, &shifts, ANGLES)
                .map_or(0.0, |score| (1.0 - score) * self.base_us as f64)
        };
        self.links.iter().map(cost).fold(0.0, f64::max)
    }

    /// By how much each job is to be delayed if one is not.
    fn delays(&self, next: &[Duration], shifts_us: &[u64], kept: usize) -> Vec<Duration> {
        let at = |job: usize| i128::from(micros(next[job])) - i128::from(shifts_us[job]);
        let delay = |job: usize| (at(kept) - at(job)).rem_euclid(self.own_us(job).into()) as u64;
        (0..next.len()).map(|job| Duration::from_micros(if job == kept { 0 } else { delay(job) })).collect()
    }
}

/// The links that cannot carry all their jobs at once. Of those with the same jobs, or with some of another's, the slowest counts: the others would
/// only form loops.
fn contended(observed: &[&Observed], profiles: &[Profile], rates: &[f64]) -> Vec<Link> {
    let mut users: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, job) in observed.iter().enumerate() {
        job.links.iter().for_each(|link| users.entry(*link).or_default().push(at));
    }
    let link = |(link, jobs): (usize, Vec<usize>)| Link { capacity: rate_of(rates, link), jobs };
    let exceeds = |link: &Link| {
        let demand: f64 = link.jobs.iter().map(|job| profiles[*job].rate).sum();
        link.jobs.len() > 1 && demand > link.capacity
    };
    let mut all: Vec<Link> = users.into_iter().map(link).filter(exceeds).collect();
    // Slow links first, and of equally slow ones those with more jobs.
    all.sort_by(|a, b| a.capacity.total_cmp(&b.capacity).then(b.jobs.len().cmp(&a.jobs.len())));
    let mut kept: Vec<Link> = Vec::new();
    for link in all {
        if !kept.iter().any(|other| link.jobs.iter().all(|job| other.jobs.contains(job))) {
            kept.push(link);
        }
    }
    kept
}

/// Bytes a second of a link.
fn rate_of(rates: &[f64], link: usize) -> f64 {
    rates.get(link).copied().unwrap_or(f64::MAX).max(1.0)
}

/// How many iterations of a job are in a time, if their number is nearly whole and small.
fn multiple(base: Duration, period: Duration) -> Option<u64> {
    let ratio = base.as_secs_f64() / period.as_secs_f64().max(f64::MIN_POSITIVE);
    let whole = ratio.round();
    let fits = (1.0..=MULTIPLE_MAX as f64).contains(&whole) && (ratio / whole - 1.0).abs() <= DRIFT_MAX;
    fits.then_some(whole as u64)
}

/// Within a hundredth.
fn is_near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / 100
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Those of these jobs that are joined by shared links, each list in order.
fn components<'a>(jobs: &[usize], links: impl Fn(usize) -> &'a [usize]) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = (0..jobs.len()).collect();
    let root = |parents: &mut [usize], mut at: usize| {
        while parents[at] != at {
            parents[at] = parents[parents[at]];
            at = parents[at];
        }
        at
    };
    let mut users: Vec<Option<usize>> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        for link in links(*job) {
            users.resize(users.len().max(link + 1), None);
            let Some(other) = users[*link].replace(at) else { continue };
            let (one, other) = (root(&mut parents, at), root(&mut parents, other));
            // The first job of a component is its root.
            parents[one.max(other)] = one.min(other);
        }
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    for (at, job) in jobs.iter().enumerate() {
        all[root(&mut parents, at)].push(*job);
    }
    all.retain(|component| !component.is_empty());
    all
}

#[cfg(test)]
mod tests;
