//! Equal paths for jobs that run, from what is measured of them: Crux's choice of paths ([`super::crux`]), applied to jobs that are slowed.
//!
//! A job without an order uses all equal paths, by shares that follow from its UDP ports. [`PathChooser::decide`] is called every [`CHANGE_INTERVAL`]. Of the jobs that
//! communicate longer than alone it takes the one of the highest GPU intensity for which other paths are better, and gives each of its flows the path
//! that is used least by others, or all paths. If there is none, all of these jobs choose anew, one after the other, and have what they chose if all that change
//! gain by it.
//!
//! # Prediction
//!
//! What a job has now is measured; what it would have is predicted.
//! While a job sends, it demands a part of each link that it uses: 1 of the link that limits it, less of others. Another job demands its part for
//! as much of the time as it sends. If all demands together exceed the link, the job is slower by what they exceed it.
//!
//! # Rules
//!
//! Patterns are what tenants' hosts report, and may be false. So the order of a job changes only by its own measurement, and has to prove its worth:
//!
//! - A job's paths change only if its own workers measure that it communicates longer than it would alone by [`SLOWED_MIN`] of an iteration, and the change is
//!   predicted to gain [`GAIN_MIN`] of an iteration. Whatever a job reports, the paths of no other job change by it; only the load that others
//!   take into account does, and no more than the rate of the reporting job's hosts.
//! - No change that lowers the predicted work of all jobs together in a second.
//! - One change in [`CHANGE_INTERVAL`] in the whole fabric, of one job or of up to [`TOGETHER_MAX`] that are all slowed, and one of a job in
//!   [`SETTLING_ITERATIONS`] of its iterations.
//! - A change that did not remove [`EFFECT_MIN`] of what it was to gain is undone, and the job is left alone for [`PAUSE_MIN`], twice as long after each further
//!   failure, up to [`PAUSE_MAX`]; each success halves the next such time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::crux;
use super::interleave::{CONFIDENCE_MIN, SLOWED_MIN};
use crate::equal_paths::PathSet;

/// Fraction of an iteration that a change has to gain, by its own prediction.
pub const GAIN_MIN: f64 = 0.02;

/// Shortest time between two changes in the whole fabric.
pub const CHANGE_INTERVAL: Duration = Duration::from_secs(2);

/// Iterations from a change until its effect is judged, and until the next change of the job.
pub const SETTLING_ITERATIONS: u32 = 12;

/// The least such time: workers have measured eight iterations and reported them.
pub const SETTLING_MIN: Duration = Duration::from_secs(4);

/// Part of what was to be gained that a change has to gain.
pub const EFFECT_MIN: f64 = 0.25;

/// How long a job whose change had no effect is left alone, the first time.
pub const PAUSE_MIN: Duration = Duration::from_secs(30);

/// The longest such time.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Most jobs whose paths change at the same time.
pub const TOGETHER_MAX: usize = 8;

/// Most jobs that are considered.
pub const JOBS_MAX: usize = 256;

/// The part of a link's rate that is assumed for payloads.
const EFFICIENCY: f64 = 0.96;

/// Rates of a fabric with equal paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fabric {
    /// Equal paths between any two ends.
    pub paths: u8,
    /// Bytes a second of a path, and of a host's link.
    pub path_rate: f64,
    /// Bytes a second of a host's link.
    pub host_rate: f64,
}

/// What one worker of a job sends to its switch, and receives.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its two ends, by numbers that all jobs share: of each, every path is a link.
    pub ends: [usize; 2],
    /// The part of its bytes that each path carries without an order; together 1.
    pub shares: Vec<f64>,
    /// Paths that it can be ordered to take alone.
    pub possible: PathSet,
    /// The path that it is ordered to take.
    pub ordered: Option<u8>,
}

impl Flow {
    fn share(&self, ordered: Option<u8>, path: usize) -> f64 {
        match ordered {
            Some(ordered) => f64::from(u8::from(usize::from(ordered) == path)),
            None => self.shares.get(path).copied().unwrap_or(0.0),
        }
    }
}

/// What is measured of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// From the beginning of an iteration's communication to the next.
    pub period: Duration,
    /// From the beginning of an iteration's communication to its end.
    pub span: Duration,
    /// Time of an iteration in which it does not communicate.
    pub compute: Duration,
    /// Bytes of each of its flows in an iteration.
    pub bytes: f64,
    /// Work of an iteration, in a unit that all jobs share.
    pub work: f64,
    /// How far this can be relied on, from 0 to 1.
    pub confidence: f64,
    /// Its flows.
    pub flows: Vec<Flow>,
}

/// What is decided of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing: its iterations are not known, or not well enough.
    Unknown,
    /// Nothing: it is as fast as alone.
    Fast {
        /// Whether it is ordered to use some paths.
        ordered: bool,
    },
    /// Nothing: it communicates longer than alone, and no other paths would shorten that.
    Best {
        /// Whether it is ordered to use some paths.
        ordered: bool,
    },
    /// Other paths.
    Ordered {
        /// The paths that its flows take; empty where each takes all.
        paths: PathSet,
        /// What is to be gained in each iteration.
        gain: Duration,
    },
    /// Its last change had no effect, and is undone.
    Ineffective {
        /// How long it is left alone.
        pause: Duration,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses = |ordered: bool| if ordered { "keeps its ordered paths" } else { "uses all paths" };
        match self {
            Self::Unknown => f.write_str("uses all paths: its iterations are not known well enough yet"),
            Self::Fast { ordered } => write!(f, "{}: it is as fast as alone", uses(*ordered)),
            Self::Best { ordered } => {
                write!(
                    f,
                    "{}: no others would shorten its iterations by {:.0} %",
                    uses(*ordered),
                    GAIN_MIN * 100.0
                )
            }
            Self::Ordered { paths, gain } => {
                let ms = gain.as_secs_f64() * 1e3;
                let named: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
                match named.len() {
                    0 => f.write_str("ordered to use all paths")?,
                    1 => write!(f, "ordered to use path {}", named[0])?,
                    _ => write!(f, "ordered to use a path for each worker, of {}", named.join(", "))?,
                }
                write!(f, ", to save up to {ms:.1} ms in each iteration")
            }
            Self::Ineffective { pause } => write!(
                f,
                "has its former paths, and keeps them for {} s: the last change shortened nothing",
                pause.as_secs()
            ),
        }
    }
}

/// New paths of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<K> {
    /// The job.
    pub job: K,
    /// The path of each of its flows; `None`: all.
    pub orders: Vec<Option<u8>>,
}

/// A change whose effect is not known yet.
#[derive(Debug, Clone, PartialEq)]
struct Trial {
    before: Vec<Option<u8>>,
    /// The communication of an iteration before.
    span: Duration,
    gain: Duration,
    judged_at: Duration,
}

#[derive(Debug, Clone)]
struct History {
    decision: Decision,
    /// The decision before, as long as it was not asked for.
    noted: Option<Decision>,
    /// It stays as it is until then.
    settled_at: Duration,
    pause: Duration,
    trial: Option<Trial>,
}

/// The state machine that decides; `K` names jobs.
#[derive(Debug)]
pub struct PathChooser<K> {
    histories: BTreeMap<K, History>,
    /// When the next change is possible.
    next_change: Duration,
}

impl<K> Default for PathChooser<K> {
    fn default() -> Self {
        Self { histories: BTreeMap::new(), next_change: Duration::ZERO }
    }
}

/// New paths of a job, and the seconds that it is predicted to send with them.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    job: usize,
    orders: Vec<Option<u8>>,
    send_s: f64,
}

impl Observed {
    fn is_ordered(&self) -> bool {
        self.flows.iter().any(|flow| flow.ordered.is_some())
    }

    /// By how many seconds its communication is longer than this.
    fn excess_s(&self, seconds: f64) -> f64 {
        self.span.as_secs_f64() - seconds
    }

    /// Whether it gains enough if it sends for so many seconds.
    fn gains(&self, send_s: f64) -> bool {
        self.excess_s(send_s) >= GAIN_MIN * self.period.as_secs_f64()
    }
}

/// Jobs whose patterns are known, and the fabric.
struct Model<'a> {
    fabric: Fabric,
    jobs: Vec<&'a Observed>,
    orders: Vec<Vec<Option<u8>>>,
    loads: Vec<Load>,
    /// What all jobs demand of each link at a random moment.
    total: Vec<f64>,
}

/// What a job demands with some paths.
struct Load {
    /// Seconds that it sends in an iteration when it is alone.
    alone_s: f64,
    /// The part of the time in which it does.
    part: f64,
    /// The part of each link that it demands meanwhile: of those that it uses, by number.
    demand: Vec<(usize, f64)>,
}

impl Load {
    fn add_to(&self, total: &mut [f64], times: f64) {
        for (link, demand) in &self.demand {
            total[*link] += times * demand * self.part;
        }
    }
}

impl<K: Ord + Clone> PathChooser<K> {
    /// What was decided of a job last.
    pub fn decision(&self, job: &K) -> Option<Decision> {
        Some(self.histories.get(job)?.decision)
    }

    /// What was decided anew since this was called last, by job.
    pub fn changes(&mut self) -> impl Iterator<Item = (&K, Decision)> {
        self.histories.iter_mut().filter_map(|(job, history)| {
            let noted = history.noted.replace(history.decision);
            (noted != Some(history.decision)).then_some((job, history.decision))
        })
    }

    /// Decides about all jobs that run: the changes that are to be made now. Forgets jobs that are not given; of more than [`JOBS_MAX`] the first are
    /// considered.
    pub fn decide(&mut self, now: Duration, jobs: &[(&K, Observed)], fabric: Fabric) -> Vec<Change<K>> {
        self.keep(now, jobs);
        let is_known = |job: &&(&K, Observed)| {
            let Observed { confidence, period, bytes, flows, .. } = &job.1;
            *confidence >= CONFIDENCE_MIN && !period.is_zero() && *bytes > 0.0 && !flows.is_empty()
        };
        let (known, unknown): (Vec<_>, Vec<_>) = jobs.iter().partition(is_known);
        for (job, _) in unknown {
            self.history(job).decision = Decision::Unknown;
        }
        let known: Vec<(&K, &Observed)> =
            known.iter().take(JOBS_MAX).map(|(job, observed)| (*job, observed)).collect();
        if let Some(change) = self.judge(now, &known) {
            return vec![change];
        }
        let mut model = Model::new(fabric, known.iter().map(|(_, observed)| *observed).collect());
        let slowed = self.slowed(now, &known, &model);
        let mut plan = slowed.iter().find_map(|job| Some(vec![model.better(*job)?])).unwrap_or_default();
        if plan.is_empty() {
            plan = model.apart(&slowed).unwrap_or_default();
        }
        for job in &slowed {
            let ordered = known[*job].1.is_ordered();
            self.history(known[*job].0).decision = Decision::Best { ordered };
        }
        if now < self.next_change || plan.is_empty() {
            return Vec::new();
        }
        self.next_change = now + CHANGE_INTERVAL;
        plan.into_iter().map(|plan| self.change(now, known[plan.job], plan)).collect()
    }

    /// The jobs that communicate longer than alone and may change, the most intensive first: it chooses first. Notes what is decided about the others.
    fn slowed(&mut self, now: Duration, known: &[(&K, &Observed)], model: &Model<'_>) -> Vec<usize> {
        let mut slowed = Vec::new();
        for (job, (key, observed)) in known.iter().enumerate() {
            let history = self.history(key);
            if observed.excess_s(model.alone_s(job)) < SLOWED_MIN * observed.period.as_secs_f64() {
                history.decision = Decision::Fast { ordered: observed.is_ordered() };
            } else if now >= history.settled_at {
                slowed.push(job);
            }
        }
        let intensity = |job: &usize| known[*job].1.work / model.alone_s(*job).max(f64::MIN_POSITIVE);
        slowed.sort_by(|one, other| intensity(other).total_cmp(&intensity(one)));
        slowed
    }

    fn change(&mut self, now: Duration, (key, observed): (&K, &Observed), plan: Plan) -> Change<K> {
        let gain = Duration::from_secs_f64(observed.excess_s(plan.send_s).max(0.0));
        let paths = plan.orders.iter().flatten().fold(0, |paths, path| paths | PathSet::one(*path).0);
        let before = observed.flows.iter().map(|flow| flow.ordered).collect();
        let judged_at = now + settling(observed.period);
        let history = self.history(key);
        history.decision = Decision::Ordered { paths: PathSet(paths), gain };
        history.settled_at = judged_at;
        history.trial = Some(Trial { before, span: observed.span, gain, judged_at });
        Change { job: key.clone(), orders: plan.orders }
    }

    /// Judges trials that are due; undoes the first that had no effect.
    fn judge(&mut self, now: Duration, known: &[(&K, &Observed)]) -> Option<Change<K>> {
        for (key, observed) in known {
            let history = self.histories.get_mut(*key).expect("every job has one");
            if history.trial.as_ref().is_none_or(|trial| now < trial.judged_at) {
                continue;
            }
            let Some(trial) = history.trial.take_if(|_| now >= self.next_change) else { continue };
            if trial.span.saturating_sub(observed.span) >= trial.gain.mul_f64(EFFECT_MIN) {
                history.pause = (history.pause / 2).max(PAUSE_MIN);
                continue;
            }
            let pause = history.pause;
            history.pause = (pause * 2).min(PAUSE_MAX);
            history.settled_at = now + pause;
            history.decision = Decision::Ineffective { pause };
            if trial.before.len() == observed.flows.len() {
                self.next_change = now + CHANGE_INTERVAL;
                return Some(Change { job: (*key).clone(), orders: trial.before });
            }
        }
        None
    }

    fn history(&mut self, job: &K) -> &mut History {
        self.histories.get_mut(job).expect("every job has one")
    }

    /// Has a history of each of these jobs, and of no others.
    fn keep(&mut self, now: Duration, jobs: &[(&K, Observed)]) {
        if self.histories.keys().eq(jobs.iter().map(|(job, _)| *job)) {
            return;
        }
        let mut before = std::mem::take(&mut self.histories);
        let fresh = History {
            decision: Decision::Unknown,
            noted: None,
            settled_at: now,
            pause: PAUSE_MIN,
            trial: None,
        };
        self.histories = jobs
            .iter()
            .map(|(job, _)| before.remove_entry(*job).unwrap_or_else(|| ((*job).clone(), fresh.clone())))
            .collect();
    }
}

fn settling(period: Duration) -> Duration {
    (period * SETTLING_ITERATIONS).clamp(SETTLING_MIN, PAUSE_MAX)
}

impl<'a> Model<'a> {
    fn new(fabric: Fabric, jobs: Vec<&'a Observed>) -> Self {
        let orders: Vec<Vec<Option<u8>>> =
            jobs.iter().map(|job| job.flows.iter().map(|flow| flow.ordered).collect()).collect();
        let ends = jobs.iter().flat_map(|job| job.flows.iter().flat_map(|flow| flow.ends)).max();
        let links = ends.map_or(0, |end| end + 1) * usize::from(fabric.paths);
        let loads: Vec<Load> =
            jobs.iter().zip(&orders).map(|(job, orders)| load(fabric, job, orders)).collect();
        let mut total = vec![0.0; links];
        loads.iter().for_each(|load| load.add_to(&mut total, 1.0));
        Self { fabric, jobs, orders, loads, total }
    }

    /// Seconds that a job sends in an iteration when it is alone and uses all paths.
    fn alone_s(&self, job: usize) -> f64 {
        load(self.fabric, self.jobs[job], &[]).alone_s
    }

    /// Gives a job other paths, and returns those that it had.
    fn replace(&mut self, job: usize, orders: Vec<Option<u8>>) -> Vec<Option<u8>> {
        self.loads[job].add_to(&mut self.total, -1.0);
        self.loads[job] = load(self.fabric, self.jobs[job], &orders);
        self.loads[job].add_to(&mut self.total, 1.0);
        std::mem::replace(&mut self.orders[job], orders)
    }

    /// What other jobs demand of each link at a random moment.
    fn others(&self, job: usize) -> Vec<f64> {
        let mut others = self.total.clone();
        self.loads[job].add_to(&mut others, -1.0);
        others
    }

    /// Predicted work of all jobs in a second.
    fn work(&self) -> f64 {
        let work = |(job, load): (&&Observed, &Load)| {
            let others = |link: usize, demand: f64| self.total[link] - demand * load.part;
            job.work / (job.compute.as_secs_f64() + send_s(load, others)).max(f64::MIN_POSITIVE)
        };
        self.jobs.iter().zip(&self.loads).map(work).sum()
    }

    /// Better paths for a job while the others keep theirs; `None` if they are not better by [`GAIN_MIN`], or others would lose more than it gains.
    fn better(&mut self, job: usize) -> Option<Plan> {
        let others = self.others(job);
        let flows = self.jobs[job].flows.len();
        let alternatives = [Some(vec![None; flows]), self.least_used(job, &others)];
        let different = alternatives.into_iter().flatten().filter(|orders| *orders != self.orders[job]);
        let plans = different.map(|orders| {
            let load = load(self.fabric, self.jobs[job], &orders);
            Plan { job, send_s: send_s(&load, |link, _| others[link]), orders }
        });
        let best = plans.min_by(|one, other| one.send_s.total_cmp(&other.send_s))?;
        let plan = vec![best];
        let is_better = self.jobs[job].gains(plan[0].send_s) && self.is_no_loss(&plan);
        is_better.then_some(plan).and_then(|mut plan| plan.pop())
    }

    /// Paths for several jobs that are all slowed, chosen one after the other as if none of them had any; `None` if not all of them gain.
    fn apart(&mut self, slowed: &[usize]) -> Option<Vec<Plan>> {
        let slowed = &slowed[..slowed.len().min(TOGETHER_MAX)];
        if slowed.len() < 2 {
            return None;
        }
        let mut others = self.total.clone();
        slowed.iter().for_each(|job| self.loads[*job].add_to(&mut others, -1.0));
        let mut chosen: Vec<(usize, Vec<Option<u8>>)> = Vec::with_capacity(slowed.len());
        for job in slowed {
            let orders = self.least_used(*job, &others)?;
            load(self.fabric, self.jobs[*job], &orders).add_to(&mut others, 1.0);
            chosen.push((*job, orders));
        }
        let plan = |(job, orders): (usize, Vec<Option<u8>>)| {
            let load = load(self.fabric, self.jobs[job], &orders);
            let own = |link: usize, demand: f64| others[link] - demand * load.part;
            Plan { job, send_s: send_s(&load, own), orders }
        };
        let plans = chosen.into_iter().map(plan);
        let changed: Vec<Plan> = plans.filter(|plan| plan.orders != self.orders[plan.job]).collect();
        let all_gain = changed.iter().all(|plan| self.jobs[plan.job].gains(plan.send_s));
        (!changed.is_empty() && all_gain && self.is_no_loss(&changed)).then_some(changed)
    }

    /// Whether the predicted work of all jobs does not fall by a plan.
    fn is_no_loss(&mut self, plans: &[Plan]) -> bool {
        let before = self.work();
        let present: Vec<_> =
            plans.iter().map(|plan| (plan.job, self.replace(plan.job, plan.orders.clone()))).collect();
        let after = self.work();
        for (job, orders) in present {
            self.replace(job, orders);
        }
        after >= before * (1.0 - 1e-6)
    }

    /// For each flow the path that is used least, as Crux chooses; `None` if a flow can take none alone.
    fn least_used(&self, job: usize, others: &[f64]) -> Option<Vec<Option<u8>>> {
        let observed = self.jobs[job];
        let paths = usize::from(self.fabric.paths);
        let mut choices = Vec::with_capacity(observed.flows.len());
        let mut flows = Vec::with_capacity(observed.flows.len());
        for flow in &observed.flows {
            let possible: Vec<u8> = flow.possible.iter().filter(|path| usize::from(*path) < paths).collect();
            if possible.is_empty() {
                return None;
            }
            let links = |path: &u8| flow.ends.map(|end| end * paths + usize::from(*path)).to_vec();
            flows.push(crux::Flow { bytes: observed.bytes, paths: possible.iter().map(links).collect() });
            choices.push(possible);
        }
        let compute_us = u64::try_from(observed.compute.as_micros()).unwrap_or(u64::MAX);
        let job = crux::Job { work: observed.work, compute_us, send_after_us: compute_us, flows };
        let rates = vec![self.fabric.path_rate; self.total.len()];
        let chosen = crux::choose(&job, &rates, &mut others.to_vec());
        Some(choices.iter().zip(chosen).map(|(possible, place)| Some(possible[place])).collect())
    }
}

/// What a job demands with these paths. A flow without an entry takes all.
fn load(fabric: Fabric, job: &Observed, orders: &[Option<u8>]) -> Load {
    let rate = fabric.path_rate * EFFICIENCY;
    let mut busy: Vec<(usize, f64)> = Vec::new();
    for (place, flow) in job.flows.iter().enumerate() {
        let ordered = orders.get(place).copied().flatten();
        for path in 0..usize::from(fabric.paths) {
            let each = flow.share(ordered, path) * job.bytes / rate;
            if each > 0.0 {
                busy.extend(flow.ends.map(|end| (end * usize::from(fabric.paths) + path, each)));
            }
        }
    }
    busy.sort_unstable_by_key(|(link, _)| *link);
    busy.dedup_by(|(link, more), (kept, seconds)| {
        let is_same = link == kept;
        *seconds += if is_same { *more } else { 0.0 };
        is_same
    });
    let host = job.bytes / (fabric.host_rate * EFFICIENCY);
    let alone_s = busy.iter().map(|(_, seconds)| *seconds).fold(host, f64::max);
    let part = alone_s / (alone_s + job.compute.as_secs_f64()).max(f64::MIN_POSITIVE);
    busy.iter_mut().for_each(|(_, seconds)| *seconds /= alone_s.max(f64::MIN_POSITIVE));
    Load { alone_s, part, demand: busy }
}

/// Seconds that a job is predicted to send in an iteration, where `others` says what other jobs demand of a link, by its own demand.
fn send_s(load: &Load, others: impl Fn(usize, f64) -> f64) -> f64 {
    let slowest =
        load.demand.iter().map(|(link, demand)| demand + others(*link, *demand)).fold(1.0, f64::max);
    load.alone_s * slowest
}

#[cfg(test)]
mod tests;
