//! The whole loop in simulation: jobs that share links, what their hosts report, decisions, and delays.

use super::*;
use netfold_control::CommunicationPattern;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;

/// Interval between decisions, in microseconds: a heartbeat.
const HEARTBEAT_US: u64 = 500_000;

/// Bytes a microsecond of each link.
const RATE: f64 = 12.5;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Until then.
    Computing(f64),
    /// So many bytes are left.
    Sending(f64),
}

/// What a job's hosts say of it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Honesty {
    /// What they have measured.
    Honest,
    /// Anything.
    Random,
    /// Another beginning each time, so that others seem to collide with it.
    Restless,
    /// Nothing.
    Silent,
}

struct Job {
    links: Vec<usize>,
    compute_us: f64,
    bytes: f64,
    honesty: Honesty,
    state: State,
    /// The beginning of the current iteration's communication.
    begun: f64,
    hold: Option<(f64, f64)>,
    /// Beginnings of communication and its times.
    kept: VecDeque<(f64, f64)>,
    iterations: Vec<f64>,
    arrived: f64,
    held: f64,
    holds: Vec<f64>,
}

impl Job {
    fn new(now: f64, links: &[usize], compute_ms: f64, send_ms: f64) -> Self {
        Self {
            links: links.to_vec(),
            compute_us: compute_ms * 1e3,
            bytes: send_ms * 1e3 * RATE,
            honesty: Honesty::Honest,
            state: State::Computing(now),
            begun: now,
            hold: None,
            kept: VecDeque::new(),
            iterations: Vec::new(),
            arrived: now,
            held: 0.0,
            holds: Vec::new(),
        }
    }

    fn saying(self, honesty: Honesty) -> Self {
        Self { honesty, ..self }
    }

    fn alone_us(&self) -> f64 {
        self.compute_us + self.bytes / RATE
    }

    /// Mean iteration from an iteration on, relative to that of the job alone.
    fn slowdown(&self, from: usize) -> f64 {
        let rest = &self.iterations[from..];
        rest.iter().sum::<f64>() / rest.len() as f64 / self.alone_us()
    }

    fn report(&self, now: f64, rng: &mut StdRng) -> Option<Observed> {
        let mut kept: Vec<(f64, f64)> = self.kept.iter().copied().collect();
        if kept.last().is_some_and(|(begun, _)| *begun < self.begun) {
            kept.push((self.begun, 0.0));
        }
        if kept.len() < 2 || self.honesty == Honesty::Silent {
            return None;
        }
        let mut periods: Vec<f64> = kept.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        let mut sends: Vec<f64> = self.kept.iter().map(|(_, send)| *send).collect();
        periods.sort_by(f64::total_cmp);
        sends.sort_by(f64::total_cmp);
        let (period, send) = (periods[periods.len() / 2], sends[sends.len() / 2]);
        let mut computes: Vec<f64> = kept.windows(2).map(|pair| pair[1].0 - pair[0].0 - pair[0].1).collect();
        computes.sort_by(f64::total_cmp);
        let compute = computes[computes.len() / 2];
        let mut deviations: Vec<f64> = computes.iter().map(|one| (one - compute).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        let pattern = CommunicationPattern {
            iterations: self.iterations.len() as u64,
            period_us: period as u64,
            span_us: send as u64,
            busy_us: send as u64,
            compute_us: compute as u64,
            bytes: self.bytes as u64,
            deviation: (1e3 * deviations[deviations.len() / 2] / period) as u32,
            age_us: (now - self.begun) as u64,
        };
        let time = |us: f64| Duration::from_micros(us.max(0.0) as u64);
        let honest = Observed {
            period: time(period),
            span: time(send.min(period)),
            busy: time(send.min(period)),
            compute: time(compute),
            bytes: self.bytes,
            confidence: pattern.confidence(),
            begun: time(self.begun),
            links: self.links.clone(),
        };
        Some(match self.honesty {
            Honesty::Honest | Honesty::Silent => honest,
            Honesty::Restless => {
                let begun = time(now - rng.random_range(0.0..=period));
                Observed { begun, confidence: 1.0, ..honest }
            }
            Honesty::Random => {
                let period = rng.random_range(1e3..1e6);
                let busy = rng.random_range(0.0..period);
                Observed {
                    period: time(period),
                    span: time(busy),
                    busy: time(busy),
                    compute: time(period - busy),
                    bytes: rng.random_range(0.0..1e12),
                    confidence: rng.random(),
                    begun: time(now - rng.random_range(0.0..2e6)),
                    ..honest
                }
            }
        })
    }
}

struct Simulation {
    now: f64,
    next_beat: u64,
    jobs: BTreeMap<u32, Job>,
    links: usize,
    interleaver: Option<Interleaver<u32>>,
    rng: StdRng,
    /// Part of the computing by which an iteration's differs at most.
    jitter: f64,
}

impl Simulation {
    fn new(seed: u64, scheduled: bool, jobs: Vec<Job>) -> Self {
        let links = jobs.iter().flat_map(|job| &job.links).max().map_or(0, |link| link + 1);
        Self {
            now: 0.0,
            next_beat: HEARTBEAT_US,
            jobs: (0..).zip(jobs).collect(),
            links,
            interleaver: scheduled.then(Interleaver::default),
            rng: StdRng::seed_from_u64(seed),
            jitter: 0.01,
        }
    }

    /// Until a time in seconds.
    fn run(&mut self, seconds: f64) {
        while self.now < seconds * 1e6 {
            let rates = self.rates();
            let event = |(id, job): (&u32, &Job)| match job.state {
                State::Computing(until) => until - self.now,
                State::Sending(left) => left / rates[id],
            };
            let step = self.jobs.iter().map(event).fold(self.next_beat as f64 - self.now, f64::min).max(0.0);
            self.now += step;
            for (id, job) in &mut self.jobs {
                if let State::Sending(left) = &mut job.state {
                    *left -= rates[id] * step;
                }
                advance(job, self.now, self.jitter, &mut self.rng);
            }
            if self.now >= self.next_beat as f64 {
                self.next_beat += HEARTBEAT_US;
                self.beat();
            }
        }
    }

    /// What each job that sends gets: an equal part of its most used link.
    fn rates(&self) -> BTreeMap<u32, f64> {
        let mut users = vec![0_u32; self.links];
        let sends = |job: &&Job| matches!(job.state, State::Sending(_));
        self.jobs.values().filter(sends).flat_map(|job| &job.links).for_each(|link| users[*link] += 1);
        let rate =
            |job: &Job| job.links.iter().map(|link| RATE / f64::from(users[*link])).fold(RATE, f64::min);
        self.jobs.iter().filter(|(_, job)| sends(job)).map(|(id, job)| (*id, rate(job))).collect()
    }

    fn beat(&mut self) {
        let Some(interleaver) = &mut self.interleaver else { return };
        let mut observed = Vec::new();
        for (id, job) in &self.jobs {
            if let Some(report) = job.report(self.now, &mut self.rng) {
                observed.push((id, report));
            }
        }
        let rates = vec![RATE * 1e6; self.links];
        for delay in interleaver.decide(Duration::from_micros(self.now as u64), &observed, &rates) {
            let job = self.jobs.get_mut(&delay.job).unwrap();
            job.hold = Some((delay.after.as_micros() as f64, delay.until.as_micros() as f64));
        }
    }
}

fn advance(job: &mut Job, now: f64, jitter: f64, rng: &mut StdRng) {
    match job.state {
        State::Computing(until) if until <= now + 1e-3 => {
            if let Some((after, until)) =
                job.hold.filter(|(after, until)| *after <= now && now + 1e-3 < *until)
            {
                job.held += until - now;
                job.holds.push(until - now);
                job.hold = Some((after, now));
                job.state = State::Computing(until);
                return;
            }
            if now > job.arrived {
                job.iterations.push(now - job.begun);
            }
            job.begun = now;
            job.state = State::Sending(job.bytes);
        }
        State::Sending(left) if left <= 1e-3 => {
            if job.kept.len() == 8 {
                job.kept.pop_front();
            }
            job.kept.push_back((job.begun, now - job.begun));
            job.state = State::Computing(now + job.compute_us * (1.0 + jitter * rng.random_range(-1.0..1.0)));
        }
        State::Computing(_) | State::Sending(_) => {}
    }
}

fn half_each() -> Vec<Job> {
    vec![Job::new(0.0, &[0], 100.0, 100.0), Job::new(20e3, &[0], 100.0, 100.0)]
}

#[test]
fn two_jobs_that_need_half_of_a_link_each_take_turns() {
    for seed in 0..20 {
        let mut without = Simulation::new(seed, false, half_each());
        without.run(110.0);
        assert!(without.jobs.values().all(|job| job.slowdown(20) > 1.2), "seed {seed}");
        let mut with = Simulation::new(seed, true, half_each());
        with.run(110.0);
        for job in with.jobs.values() {
            assert!(job.iterations.len() > 500, "seed {seed}: {} iterations", job.iterations.len());
            assert!(job.slowdown(20) < 1.05, "seed {seed}: {}, {:?}", job.slowdown(20), job.holds);
        }
    }
}

#[test]
fn jobs_of_a_third_and_of_half_the_time_take_turns() {
    let thirds = || (0..3).map(|at| Job::new(f64::from(at) * 9e3, &[0], 220.0, 95.0)).collect();
    // Iterations that differ by 2 %.
    let unequal = || vec![Job::new(0.0, &[0], 104.0, 98.0), Job::new(7e3, &[0], 100.0, 98.0)];
    // One iteration of the second in two of the first.
    let double = || vec![Job::new(0.0, &[0], 150.0, 90.0), Job::new(7e3, &[0], 395.0, 85.0)];
    for seed in 0..5 {
        for (case, jobs) in [thirds(), double(), unequal()].into_iter().enumerate() {
            let mut with = Simulation::new(seed, true, jobs);
            with.run(200.0);
            for job in with.jobs.values() {
                assert!(
                    job.slowdown(60) < 1.05,
                    "seed {seed}, case {case}: {}, {:?}",
                    job.slowdown(60),
                    job.holds
                );
            }
        }
    }
}

#[test]
fn jobs_that_cannot_be_helped_are_left_alone() {
    // Jobs that share nothing, and a job that is alone.
    let cases: Vec<(Vec<Job>, Decision)> = vec![
        (vec![Job::new(0.0, &[0], 100.0, 100.0), Job::new(0.0, &[1], 100.0, 100.0)], Decision::Alone),
        (vec![Job::new(0.0, &[0], 100.0, 100.0)], Decision::Alone),
    ];
    for (jobs, expected) in cases {
        let mut simulation = Simulation::new(1, true, jobs);
        simulation.run(60.0);
        let interleaver = simulation.interleaver.as_ref().unwrap();
        for (id, job) in &simulation.jobs {
            assert_eq!((job.held, interleaver.decision(id)), (0.0, Some(expected)));
        }
    }
}

/// A job of iterations of 200 ms, half of which it needs its links for, that took 280 ms; the last one communicates since `begun` ms.
fn slowed(begun: u64, links: &[usize]) -> Observed {
    let time = Duration::from_millis;
    Observed {
        period: time(280),
        span: time(180),
        busy: time(180),
        compute: time(100),
        bytes: 100e3 * RATE,
        confidence: 1.0,
        begun: time(begun),
        links: links.to_vec(),
    }
}

#[test]
fn jobs_and_links_in_a_loop_are_left_alone() {
    let (time, job) = (Duration::from_millis, slowed);
    let rates = [RATE * 1e6; 3];
    let mut interleaver = Interleaver::default();
    let mut jobs = [(&0, job(900, &[0, 1])), (&1, job(910, &[1, 2])), (&2, job(920, &[2, 0]))];
    assert_eq!(interleaver.decide(time(1000), &jobs, &rates), []);
    assert!((0..3).all(|id| interleaver.decision(&id) == Some(Decision::Looped)));
    // Without one of the links there is no loop.
    jobs[2].1.links = vec![2];
    let delays = interleaver.decide(time(1500), &jobs, &rates);
    assert!(!delays.is_empty() && delays.iter().all(|delay| delay.after < delay.until));
    assert!(delays.iter().all(|delay| delay.after >= time(1500)));
}

#[test]
fn jobs_whose_iterations_do_not_match_are_left_alone() {
    let jobs = vec![Job::new(0.0, &[0], 300.0, 100.0), Job::new(0.0, &[0], 400.0, 140.0)];
    let mut simulation = Simulation::new(1, true, jobs);
    let mut unmatched = 0;
    for second in 1..120 {
        simulation.run(f64::from(second));
        let interleaver = simulation.interleaver.as_ref().unwrap();
        unmatched += u32::from(interleaver.decision(&0) == Some(Decision::Unmatched));
        assert!(simulation.jobs.values().all(|job| job.held == 0.0));
    }
    assert!(unmatched > 20, "{unmatched}: otherwise their times are not known well enough");
}

/// Every rule that bounds delays, at the end of a simulation.
fn check_rules(seed: u64, simulation: &Simulation) {
    for (id, job) in &simulation.jobs {
        let ran = simulation.now - job.arrived;
        let longest = job.iterations.iter().copied().fold(job.alone_us(), f64::max);
        let bound = longest + BUDGET_SHARE * ran;
        assert!(job.held <= bound, "seed {seed}, job {id}: {} of {bound}, {:?}", job.held, job.holds);
        let most = job.iterations.len() / SETTLING_ITERATIONS as usize + 1;
        let large = job.holds.iter().filter(|hold| **hold > PACE_MAX * longest).count();
        assert!(large <= most, "seed {seed}, job {id}: {:?} in {}", job.holds, job.iterations.len());
    }
}

#[test]
fn false_reports_hardly_change_what_others_get() {
    for seed in 0..60 {
        let honesty = [Honesty::Random, Honesty::Restless, Honesty::Silent][seed as usize % 3];
        let jobs = || {
            vec![
                Job::new(0.0, &[0, 1], 100.0, 60.0),
                Job::new(9e3, &[1], 100.0, 60.0).saying(honesty),
                Job::new(3e3, &[0], 100.0, 60.0),
            ]
        };
        let mut without = Simulation::new(seed, false, jobs());
        let mut with = Simulation::new(seed, true, jobs());
        without.run(120.0);
        with.run(120.0);
        check_rules(seed, &with);
        for id in [0, 2] {
            let (off, on) = (without.jobs[&id].slowdown(0), with.jobs[&id].slowdown(0));
            assert!(
                on < off * 1.04,
                "seed {seed}, {honesty:?}, job {id}: {on} of {off}, {:?}",
                with.jobs[&id].holds
            );
        }
    }
}

#[test]
fn delays_are_bounded_while_jobs_come_and_go() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut simulation = Simulation::new(seed, true, Vec::new());
        simulation.links = 3;
        simulation.jitter = rng.random_range(0.0..0.05);
        let mut next = 0;
        let mut second = 0.0;
        while second < 120.0 {
            second += rng.random_range(1.0..15.0_f64);
            simulation.run(second);
            check_rules(seed, &simulation);
            if !simulation.jobs.is_empty() && rng.random_bool(0.4) {
                let ids: Vec<u32> = simulation.jobs.keys().copied().collect();
                simulation.jobs.remove(&ids[rng.random_range(0..ids.len())]);
            } else {
                let links: Vec<usize> = (0..3).filter(|_| rng.random_bool(0.5)).collect();
                let (compute, send) = ([100.0, 200.0][rng.random_range(0..2)], rng.random_range(20.0..150.0));
                let honesty = match rng.random_range(0..10) {
                    0 => Honesty::Random,
                    1 => Honesty::Restless,
                    2 => Honesty::Silent,
                    _ => Honesty::Honest,
                };
                let job = Job::new(simulation.now, &links, compute, send).saying(honesty);
                simulation.jobs.insert(next, job);
                next += 1;
            }
        }
    }
}

#[test]
fn ineffective_delays_become_rare() {
    // One of the jobs reports iterations that have nothing to do with what it sends.
    let jobs =
        vec![Job::new(0.0, &[0], 100.0, 100.0), Job::new(9e3, &[0], 100.0, 100.0).saying(Honesty::Restless)];
    let mut simulation = Simulation::new(7, true, jobs);
    simulation.run(1200.0);
    check_rules(7, &simulation);
    for job in simulation.jobs.values() {
        let part = job.held / simulation.now;
        assert!(!job.holds.is_empty() && part < 0.01, "{part} of 20 minutes, in {} delays", job.holds.len());
    }
}

#[test]
fn many_jobs_are_planned_in_the_pairs_that_share_links() {
    let jobs: Vec<Job> =
        (0..1000).map(|at| Job::new(f64::from(at), &[at as usize / 2], 100.0, 90.0)).collect();
    let mut simulation = Simulation::new(3, true, jobs);
    simulation.run(8.0);
    let interleaver = simulation.interleaver.as_ref().unwrap();
    assert_eq!(interleaver.histories.values().filter(|history| history.plan.is_some()).count(), 500);
    let delayed = simulation.jobs.values().filter(|job| !job.holds.is_empty()).count();
    assert!(delayed > 400, "{delayed}");
}

#[test]
fn components_are_joined_by_links() {
    // The third job joins the first two; the last one has no links.
    let links: [&[usize]; 6] = [&[0], &[1], &[0, 1], &[2], &[3, 2], &[]];
    let all: Vec<usize> = (0..links.len()).collect();
    assert_eq!(components(&all, |job| links[job]), [vec![0, 1, 2], vec![3, 4], vec![5]]);
    assert_eq!(components(&[0, 1, 3], |job| links[job]), [[0], [1], [3]], "without the one that joins them");
    // Two components of several jobs each, joined late.
    let links: [&[usize]; 5] = [&[4], &[2], &[4], &[2], &[2, 4]];
    assert_eq!(components(&[0, 1, 2, 3, 4], |job| links[job]), [[0, 1, 2, 3, 4]]);
}

/// A plan is for the jobs that shared links when it was made: others change what each of them is to do.
#[test]
fn a_plan_is_forgotten_when_a_job_joins_or_leaves() {
    let time = Duration::from_millis;
    let job = |begun| slowed(begun, &[0]);
    let planned = |interleaver: &Interleaver<i32>| -> Vec<Vec<i32>> {
        let plans = interleaver.histories.values().filter_map(|history| history.plan.as_ref());
        plans.map(|plan| plan.component.clone()).collect()
    };
    let mut interleaver = Interleaver::default();
    interleaver.decide(time(1000), &[(&1, job(900)), (&2, job(910))], &[RATE * 1e6]);
    assert_eq!(planned(&interleaver), [[1, 2]]);
    interleaver.decide(time(1500), &[(&0, job(1400)), (&1, job(1405)), (&2, job(1410))], &[RATE * 1e6]);
    assert!(planned(&interleaver).iter().all(|component| *component == [0, 1, 2]), "{interleaver:?}");
    // Its iterations are not known any more.
    let unknown = Observed { confidence: 0.0, ..job(1900) };
    interleaver.decide(time(2000), &[(&0, unknown), (&1, job(1905))], &[RATE * 1e6]);
    assert_eq!(planned(&interleaver), Vec::<Vec<i32>>::new());
    assert_eq!(interleaver.decision(&2), None);
}

#[test]
fn decisions_are_sentences() {
    let decisions = [
        Decision::Unknown,
        Decision::Alone,
        Decision::Interleaved { others: 1 },
        Decision::Delayed { by: Duration::from_millis(30), others: 2, gain: Duration::from_millis(10) },
        Decision::Ineffective { pause: Duration::from_secs(10) },
    ];
    let texts: Vec<String> = decisions.iter().map(ToString::to_string).collect();
    assert!(texts[2].contains("against 1 job"), "{texts:?}");
    assert!(texts[3].contains("30.0 ms") && texts[3].contains("2 jobs") && texts[3].contains("10.0 ms"));
    assert!(texts[4].contains("10 s"));
}
