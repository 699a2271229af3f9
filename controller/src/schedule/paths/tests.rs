//! The whole loop in simulation: jobs over equal paths, what their hosts report, and orders.

use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Interval between decisions, in milliseconds: a heartbeat.
const HEARTBEAT_MS: u64 = 500;

/// Bytes a millisecond of a path and of a host's link.
const RATE: f64 = 12_500.0;

/// What a job's hosts say of it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Honesty {
    Honest,
    /// Anything.
    Random,
    /// That it communicates for ever, with as much work as it can say.
    Greedy,
    /// Nothing.
    Silent,
}

/// A job of one worker behind the paths, at a host of its own.
#[derive(Debug, Clone)]
struct Job {
    compute_ms: f64,
    send_ms: f64,
    shares: Vec<f64>,
    possible: PathSet,
    honesty: Honesty,
    ordered: Option<u8>,
    /// Milliseconds left of computing, and then bytes left.
    computing: f64,
    sending: f64,
    begun_ms: u64,
    spans: Vec<f64>,
    changes: u32,
}

impl Job {
    fn new(compute_ms: f64, send_ms: f64, shares: &[f64]) -> Self {
        Self {
            compute_ms,
            send_ms,
            shares: shares.to_vec(),
            possible: PathSet::first(shares.len() as u8),
            honesty: Honesty::Honest,
            ordered: None,
            computing: compute_ms,
            sending: send_ms * RATE,
            begun_ms: 0,
            spans: Vec::new(),
            changes: 0,
        }
    }

    fn is_sending(&self) -> bool {
        self.computing <= 0.0
    }

    /// Takes an order, which follows the rules whatever was reported.
    fn take(&mut self, change: &Change<u32>, seen: &Observed, undone: bool) {
        let slowed = seen.span.as_secs_f64() - SLOWED_MIN * seen.period.as_secs_f64();
        let alone = seen.bytes / (RATE * 1e3 * EFFICIENCY);
        assert!(undone || slowed >= alone, "a job that is fast by its own measurement is left alone");
        assert_eq!(change.orders.len(), 1);
        assert!(change.orders[0].is_none_or(|path| self.possible.contains(path)));
        assert_ne!(change.orders[0], self.ordered, "a change");
        self.ordered = change.orders[0];
        self.changes += 1;
    }

    fn flow(&self, host: usize) -> Flow {
        Flow { ends: [0, host], shares: self.shares.clone(), possible: self.possible, ordered: self.ordered }
    }

    fn observed(&self, host: usize, rng: &mut StdRng) -> Option<Observed> {
        let recent = &self.spans[self.spans.len().saturating_sub(8)..];
        let mut sorted = recent.to_vec();
        sorted.sort_by(f64::total_cmp);
        let span = *sorted.get(sorted.len() / 2)?;
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let honest = Observed {
            period: ms(self.compute_ms + span),
            span: ms(span),
            compute: ms(self.compute_ms),
            bytes: self.send_ms * RATE,
            work: self.compute_ms,
            confidence: 1.0,
            flows: vec![self.flow(host)],
        };
        Some(match self.honesty {
            Honesty::Honest => honest,
            Honesty::Silent => return None,
            Honesty::Greedy => Observed { span: ms(1e6), period: ms(1e6 + 1.0), work: 1e30, ..honest },
            Honesty::Random => {
                let period = rng.random_range(1.0..1e4);
                let span = rng.random_range(0.0..period);
                Observed {
                    period: ms(period),
                    span: ms(span),
                    compute: ms(period - span),
                    bytes: rng.random_range(0.0..1e12),
                    work: rng.random_range(0.0..1e12),
                    confidence: rng.random(),
                    ..honest
                }
            }
        })
    }
}

struct Simulation {
    now_ms: u64,
    jobs: BTreeMap<u32, Job>,
    paths: usize,
    chooser: Option<PathChooser<u32>>,
    rng: StdRng,
    last_change_ms: Option<u64>,
    /// By how much a job is slower while another uses one of its paths, whatever its rate.
    crowding: f64,
}

impl Simulation {
    fn new(seed: u64, paths: usize, ordered: bool, jobs: &[Job]) -> Self {
        let jobs = (0..).zip(jobs.iter().cloned()).collect();
        let chooser = ordered.then(PathChooser::default);
        Self {
            now_ms: 0,
            jobs,
            paths,
            chooser,
            rng: StdRng::seed_from_u64(seed),
            last_change_ms: None,
            crowding: 1.0,
        }
    }

    /// Jobs that send share each link in proportion to what they demand of it.
    fn step(&mut self) {
        let mut load = vec![0.0; self.paths];
        let mut users = vec![0; self.paths];
        for job in self.jobs.values().filter(|job| job.is_sending()) {
            let flow = job.flow(1);
            for path in 0..self.paths {
                load[path] += flow.share(job.ordered, path);
                users[path] += u32::from(flow.share(job.ordered, path) > 0.0);
            }
        }
        self.now_ms += 1;
        for job in self.jobs.values_mut() {
            if !job.is_sending() {
                job.computing -= 1.0;
                job.begun_ms = self.now_ms;
                continue;
            }
            let flow = job.flow(1);
            let used = || (0..self.paths).filter(|path| flow.share(job.ordered, *path) > 0.0);
            let crowding = if used().any(|path| users[path] > 1) { self.crowding } else { 1.0 };
            let slowest = used().map(|path| load[path]).fold(crowding, f64::max);
            job.sending -= RATE / slowest;
            if job.sending <= 0.0 {
                job.spans.push((self.now_ms - job.begun_ms) as f64);
                let jitter = self.rng.random_range(0.98..1.02);
                (job.computing, job.sending) = (job.compute_ms * jitter, job.send_ms * RATE);
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now_ms + seconds * 1000;
        while self.now_ms < end {
            self.step();
            if self.now_ms.is_multiple_of(HEARTBEAT_MS) {
                self.decide();
            }
        }
    }

    fn decide(&mut self) {
        let Some(chooser) = &mut self.chooser else { return };
        let observed: Vec<(u32, Observed)> = self
            .jobs
            .iter()
            .filter_map(|(key, job)| Some((*key, job.observed(1 + *key as usize, &mut self.rng)?)))
            .collect();
        let observed: Vec<(&u32, Observed)> = observed.iter().map(|(key, job)| (key, job.clone())).collect();
        let fabric = Fabric { paths: self.paths as u8, path_rate: RATE * 1e3, host_rate: RATE * 1e3 };
        let now = Duration::from_millis(self.now_ms);
        let changes = chooser.decide(now, &observed, fabric);
        if changes.is_empty() {
            return;
        }
        // The rules, whatever is reported.
        if let Some(last) = self.last_change_ms.replace(self.now_ms) {
            assert!(self.now_ms - last >= CHANGE_INTERVAL.as_millis() as u64, "two changes at once");
        }
        assert!(changes.len() <= TOGETHER_MAX);
        for change in changes {
            let seen = observed.iter().find(|(key, _)| **key == change.job).expect("a job that was given");
            let undone = matches!(chooser.decision(&change.job), Some(Decision::Ineffective { .. }));
            let job = self.jobs.get_mut(&change.job).expect("it runs");
            job.take(&change, &seen.1, undone);
        }
    }

    /// Mean communication of a job since then, relative to that of the job alone.
    fn slowdown(&self, job: u32, from: usize) -> f64 {
        let spans = &self.jobs[&job].spans[from..];
        spans.iter().sum::<f64>() / spans.len() as f64 / self.jobs[&job].send_ms
    }
}

#[test]
fn two_jobs_on_the_same_path_are_separated() {
    for seed in 0..10 {
        let mut same = Job::new(60.0, 100.0, &[1.0, 0.0]);
        // Its hash leaves it no choice.
        same.possible = PathSet(0);
        let jobs = [same, Job::new(100.0, 100.0, &[0.75, 0.25])];
        let mut without = Simulation::new(seed, 2, false, &jobs);
        without.run(40);
        let mut with = Simulation::new(seed, 2, true, &jobs);
        with.run(20);
        let from = [0, 1].map(|job| with.jobs[&job].spans.len());
        with.run(60);
        for job in [0, 1] {
            let (without, with) = (without.slowdown(job, 20), with.slowdown(job, from[job as usize]));
            assert!(without > 1.15 && with < 1.03, "seed {seed}, job {job}: {without} without, {with} with");
        }
        assert_eq!(with.jobs[&1].ordered, Some(1), "seed {seed}");
        assert_eq!((with.jobs[&0].changes, with.jobs[&1].changes), (0, 1), "seed {seed}");
        let text = with.chooser.as_ref().unwrap().decision(&1).unwrap().to_string();
        assert_eq!(text, "keeps its ordered paths: it is as fast as alone");
    }
}

#[test]
fn jobs_that_are_spread_evenly_are_left_alone() {
    let jobs = [Job::new(60.0, 100.0, &[0.5, 0.5]), Job::new(100.0, 100.0, &[0.5, 0.5])];
    let mut simulation = Simulation::new(1, 2, true, &jobs);
    simulation.run(60);
    assert!(simulation.jobs.values().all(|job| job.changes == 0));
}

/// Where jobs slow each other down although all paths together carry what they send, as real queues do.
#[test]
fn jobs_that_are_spread_and_slowed_are_separated() {
    for seed in 0..10 {
        let jobs = [Job::new(60.0, 100.0, &[0.5, 0.5]), Job::new(100.0, 100.0, &[0.5, 0.5])];
        let mut simulation = Simulation::new(seed, 2, true, &jobs);
        simulation.crowding = 1.4;
        simulation.run(20);
        let from = [0, 1].map(|job| simulation.jobs[&job].spans.len());
        simulation.run(60);
        let slowdowns = [0, 1].map(|job| simulation.slowdown(job, from[job as usize]));
        assert!(slowdowns.iter().all(|slowdown| *slowdown < 1.03), "seed {seed}: {slowdowns:?}");
        let paths = simulation.jobs.values().map(|job| job.ordered).collect::<Vec<_>>();
        assert!(paths[0] != paths[1] && paths.iter().all(Option::is_some), "seed {seed}: {paths:?}");
        assert!(simulation.jobs.values().all(|job| job.changes == 1), "seed {seed}");
    }
}

#[test]
fn a_job_has_all_paths_again_when_they_are_free() {
    // The path's rate is below that of the host, so one path is half as fast as two.
    let job = |key: u32, ordered: Option<u8>| {
        let flow = Flow { ends: [0, 1 + key as usize], shares: vec![0.5; 2], possible: PathSet(3), ordered };
        let ms = Duration::from_millis;
        Observed {
            period: ms(300),
            span: ms(209),
            compute: ms(91),
            bytes: 100.0 * 2.0 * RATE,
            work: 1.0,
            confidence: 1.0,
            flows: vec![flow],
        }
    };
    let fabric = Fabric { paths: 2, path_rate: RATE * 1e3, host_rate: 8.0 * RATE * 1e3 };
    let mut chooser = PathChooser::default();
    let change = chooser.decide(Duration::from_secs(1), &[(&1, job(1, Some(0)))], fabric);
    assert_eq!(change, [Change { job: 1, orders: vec![None] }]);
    let text = chooser.decision(&1).unwrap().to_string();
    assert!(text.starts_with("ordered to use all paths, to save up to 10"), "{text}");
    // What does not help is undone, and less and less often tried.
    let mut ordered = None;
    let mut changes = Vec::new();
    for second in 2..2000 {
        let now = Duration::from_secs(second);
        if let Some(change) = chooser.decide(now, &[(&1, job(1, ordered))], fabric).first() {
            ordered = change.orders[0];
            changes.push(second);
        }
    }
    assert!(changes.len() <= 14, "{changes:?}");
}

/// A quarter of the jobs reports anything, and jobs come and go.
#[test]
fn false_reports_move_no_other_job() {
    let (mut lies, mut truth) = (0.0, 0.0);
    for seed in 0..6 {
        for liars in [true, false] {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut simulation = Simulation::new(seed, 4, true, &[]);
            let mut honest: Vec<f64> = Vec::new();
            for key in 0..24_u32 {
                let port = || f64::from(rng.random_range(0..4_u8));
                let ports: Vec<f64> = std::iter::repeat_with(port).take(4).collect();
                let part =
                    |path: u8| ports.iter().filter(|port| **port == f64::from(path)).count() as f64 / 4.0;
                let shares: Vec<f64> = (0..4).map(part).collect();
                let mut job = Job::new(rng.random_range(60.0..200.0), rng.random_range(40.0..120.0), &shares);
                job.possible =
                    PathSet((0..4).filter(|path| part(*path) > 0.0).fold(0, |set, path| set | 1 << path));
                if key % 4 == 0 && liars {
                    let kinds = [Honesty::Random, Honesty::Greedy, Honesty::Silent];
                    job.honesty = kinds[key as usize / 4 % 3];
                }
                simulation.jobs.insert(key, job);
                simulation.run(4);
                if simulation.jobs.len() > 6 {
                    let (_, over) = simulation.jobs.pop_first().unwrap();
                    if over.honesty == Honesty::Honest && key % 4 != 2 {
                        let mean = over.spans.iter().sum::<f64>() / over.spans.len() as f64;
                        honest.push((over.compute_ms + mean) / (over.compute_ms + over.send_ms));
                    }
                    // At most one change in a settling time, and its undoing.
                    assert!(over.changes <= 8, "{}", over.changes);
                }
            }
            let mean = honest.iter().sum::<f64>() / honest.len() as f64;
            *(if liars { &mut lies } else { &mut truth }) += mean / 6.0;
        }
    }
    println!(
        "iterations of honest jobs, relative to alone: {lies:.3} with false reports, {truth:.3} without"
    );
    assert!(lies < truth + 0.05, "{lies} {truth}");
}

#[test]
fn impossible_numbers_are_survived() {
    let flow = Flow { ends: [0, 1], shares: vec![0.5; 2], possible: PathSet(u64::MAX), ordered: Some(63) };
    let fabric = Fabric { paths: 2, path_rate: 1.0, host_rate: 1.0 };
    for value in [0.0, 1e300, f64::INFINITY, f64::NAN] {
        for time in [Duration::ZERO, Duration::from_micros(1), Duration::from_secs(u64::from(u32::MAX))] {
            let observed = Observed {
                period: time,
                span: time,
                compute: time,
                bytes: value,
                work: value,
                confidence: 1.0,
                flows: vec![flow.clone(); 3],
            };
            let mut chooser = PathChooser::default();
            for second in 0..100 {
                let jobs = [(&1, observed.clone()), (&2, observed.clone())];
                let change = chooser.decide(Duration::from_secs(second), &jobs, fabric);
                assert!(change.iter().all(|change| change.orders.len() == 3));
            }
        }
    }
}
