//! The whole loop: jobs compute and communicate over links that they share, measure their iterations as the host library does, and report them; the
//! controller delays iterations, ranks jobs and moves trees. Jobs come and go, and some report anything.

use super::{HEARTBEAT, Pair, RATE, Rig, SECOND, lasting};
use netfold_control::{CommunicationPattern, SessionEvent, SessionRequest};
use netfold_controller::admission::Config;
use netfold_controller::bands::{Banding, Ranking};
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::rebalance::{BACKOFF_MIN, INTERVAL, MOVES_MAX, PlacementPolicy};
use netfold_controller::schedule::interleave::{self, BUDGET_SHARE, PACE_MAX, SETTLING_ITERATIONS};
use netfold_controller::schedule::{self, Schedule};
use netfold_proto::{Instant, PatternMeter};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes a second of a link that are payload.
const GOODPUT: f64 = RATE as f64 / 8.0 * 0.96;

/// What a job's hosts report.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reports {
    /// What they measure.
    Truth,
    /// Anything that is possible.
    Random,
    /// The truth, but for when iterations begin: others seem to collide with it.
    Restless,
    /// As much computing and communication as there may be.
    Most,
    /// Nothing.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Computing {
        until: Duration,
    },
    Communicating {
        left: f64,
    },
    /// It has no tree, since it is moved.
    Away,
}

/// What is true of a job.
struct Training {
    compute: Duration,
    bytes: f64,
    reports: Reports,
    arrived: Duration,
    state: State,
    meter: PatternMeter,
    sent: f64,
    /// When the communication of the iteration that goes on was to begin.
    begun: Option<Duration>,
    iterations: Vec<Duration>,
    hold: Option<(Duration, Duration)>,
    delays: Vec<Duration>,
    /// Where it communicates, and the first class of its packets.
    spine: Option<String>,
    class: u8,
    /// Events of its first worker that were taken.
    taken: usize,
}

impl Training {
    fn alone(&self) -> Duration {
        self.compute + Duration::from_secs_f64(self.bytes / GOODPUT)
    }

    /// Iterations in a time, after the first ones, relative to those of the job alone.
    fn speed(&self) -> f64 {
        let rest = &self.iterations[self.iterations.len() / 4..];
        self.alone().as_secs_f64() * rest.len() as f64 / rest.iter().sum::<Duration>().as_secs_f64()
    }

    fn begin(&mut self, now: Duration) {
        if let Some(begun) = self.begun.replace(now) {
            self.iterations.push(now - begun);
        }
        self.meter.begin(instant(now));
        self.state = State::Communicating { left: self.bytes };
    }

    /// Its computing ends: the communication begins, or is delayed.
    fn submit(&mut self, now: Duration) {
        if let Some((after, until)) = self.hold.filter(|(_, until)| *until > now)
            && after <= now
        {
            self.hold = None;
            self.delays.push(until - now);
            self.state = State::Computing { until };
            return;
        }
        self.begin(now);
    }

    fn end(&mut self, now: Duration, jitter: f64) {
        self.sent += self.bytes;
        self.meter.end(instant(now), self.sent as u64);
        self.state = State::Computing { until: now + self.compute.mul_f64(jitter) };
    }

    fn pattern(&self, now: Duration, rng: &mut StdRng) -> Option<CommunicationPattern> {
        let truth = self.meter.pattern(instant(now))?;
        match self.reports {
            Reports::Truth => Some(truth),
            Reports::Nothing => None,
            Reports::Restless => {
                Some(CommunicationPattern { age_us: rng.random_range(0..truth.period_us), ..truth })
            }
            Reports::Most => Some(CommunicationPattern { bytes: truth.bytes * 20, deviation: 0, ..truth }),
            Reports::Random => {
                let period_us = rng.random_range(1_000..1_000_000);
                let span_us = rng.random_range(0..period_us);
                Some(CommunicationPattern {
                    iterations: rng.random_range(1..100),
                    period_us,
                    span_us,
                    busy_us: span_us,
                    compute_us: period_us - span_us,
                    bytes: rng.random_range(1..1 << 40),
                    deviation: rng.random_range(0..100),
                    age_us: rng.random_range(0..2_000_000),
                })
            }
        }
    }
}

fn instant(time: Duration) -> Instant {
    Instant::from_nanos(u64::try_from(time.as_nanos()).expect("a simulation is short"))
}

/// What the controller may do.
#[derive(Debug, Clone, Copy)]
struct Control(Schedule, PlacementPolicy);

/// What the controller did to a job.
#[derive(Debug, Default)]
struct Done {
    moves: Vec<Duration>,
    bands: Vec<Duration>,
    /// Delays of more than those that keep jobs in turns.
    delayed: usize,
}

struct World {
    rig: Rig,
    trainings: BTreeMap<String, Training>,
    rng: StdRng,
    next_report: Duration,
    born: u32,
    checked: usize,
    done: BTreeMap<String, Done>,
    last_move: Option<Duration>,
}

impl World {
    fn new(seed: u64, Control(schedule, placement): Control) -> Self {
        let ranking = if schedule == Schedule::Crux { Ranking::Crux } else { Ranking::Alike };
        let banding = Banding { link_bps: RATE, ranking, ..Banding::default() };
        let rig = Rig::over(Config { schedule, banding, ..lasting(placement) });
        let next_report = rig.bench.now + HEARTBEAT;
        Self {
            rig,
            trainings: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
            next_report,
            born: 0,
            checked: 0,
            done: BTreeMap::new(),
            last_move: None,
        }
    }

    fn arrive(&mut self, compute_ms: u64, communicate_ms: u64, reports: Reports) {
        let name = format!("job{}", self.born);
        let port = 5000 + self.born as u16;
        self.born += 1;
        let members = self.rig.ask(&name, port, true);
        self.rig.bench.run_tasks();
        self.rig.pairs.push(Pair { name: name.clone(), port, movable: true, members, bytes: 0 });
        let now = self.rig.bench.now;
        let training = Training {
            compute: Duration::from_millis(compute_ms),
            bytes: GOODPUT * communicate_ms as f64 / 1e3,
            reports,
            arrived: now,
            state: State::Away,
            meter: PatternMeter::default(),
            sent: 0.0,
            begun: None,
            iterations: Vec::new(),
            hold: None,
            delays: Vec::new(),
            spine: None,
            class: 0,
            taken: 0,
        };
        self.trainings.insert(name, training);
        self.follow();
    }

    fn leave(&mut self, at: usize) {
        let pair = self.rig.pairs.remove(at);
        for id in pair.members {
            if !self.rig.bench.received[&id].closed {
                self.rig.bench.say(id, SessionRequest::Leave {});
            }
        }
        self.rig.bench.run_tasks();
        self.trainings.remove(&pair.name);
    }

    /// Bytes a second of each job that communicates: of the jobs on a spine those of the highest class share it.
    fn rates(&self) -> BTreeMap<String, f64> {
        let mut users: BTreeMap<&str, (u8, u32)> = BTreeMap::new();
        let communicates = |training: &Training| matches!(training.state, State::Communicating { .. });
        let sending = || self.trainings.iter().filter(|(_, training)| communicates(training));
        for (_, training) in sending() {
            let Some(spine) = &training.spine else { continue };
            let (class, count) = users.entry(spine).or_insert((training.class, 0));
            if training.class > *class {
                (*class, *count) = (training.class, 0);
            }
            *count += u32::from(training.class == *class);
        }
        let rate = |training: &Training| {
            let (class, count) = users.get(training.spine.as_deref()?).copied()?;
            // What is left by more important jobs at the end of a packet.
            Some(if training.class == class { GOODPUT / f64::from(count.max(1)) } else { 1.0 })
        };
        sending().map(|(name, training)| (name.clone(), rate(training).unwrap_or(1.0))).collect()
    }

    fn run(&mut self, time: Duration) {
        let end = self.rig.bench.now + time;
        while self.rig.bench.now < end {
            let now = self.rig.bench.now;
            let rates = self.rates();
            let event = |(name, training): (&String, &Training)| match training.state {
                State::Computing { until } => until,
                State::Communicating { left } => {
                    now + Duration::from_secs_f64((left / rates[name]).clamp(1e-6, 3600.0))
                }
                State::Away => end,
            };
            let jobs = self.trainings.iter().map(event);
            let deadline = self.rig.bench.coordinator.next_deadline();
            let next = jobs.chain(deadline).chain([self.next_report, end]).min().unwrap_or(end).max(now);
            for (name, training) in &mut self.trainings {
                if let State::Communicating { left } = &mut training.state {
                    *left -= rates[name] * (next - now).as_secs_f64();
                }
            }
            self.rig.bench.pass(next - now);
            self.advance();
            if deadline == Some(next) || self.next_report <= next {
                self.report();
                self.rig.bench.run_tasks();
                self.rig.join_again();
                self.rig.bench.run_tasks();
                self.follow();
            }
        }
    }

    fn advance(&mut self) {
        let now = self.rig.bench.now;
        for training in self.trainings.values_mut() {
            match training.state {
                State::Computing { until } if until <= now => training.submit(now),
                State::Communicating { left } if left < GOODPUT * 1e-6 => {
                    training.end(now, self.rng.random_range(0.995..1.005));
                }
                _ => {}
            }
        }
    }

    /// Every heartbeat.
    fn report(&mut self) {
        let now = self.rig.bench.now;
        if now < self.next_report {
            return;
        }
        self.next_report = now + HEARTBEAT;
        for at in 0..self.rig.pairs.len() {
            let Pair { name, members, .. } = self.rig.pairs[at].clone();
            let pattern = self.trainings[&name].pattern(now, &mut self.rng);
            for id in members.into_iter().filter(|id| !self.rig.bench.received[id].closed).collect::<Vec<_>>()
            {
                self.rig.bench.say(id, SessionRequest::Alive { counters: None });
                if let Some(pattern) = pattern {
                    self.rig.bench.say(id, SessionRequest::Pattern(pattern));
                }
            }
        }
    }

    /// What the controller has decided reaches jobs.
    fn follow(&mut self) {
        let now = self.rig.bench.now;
        for pair in self.rig.pairs.clone() {
            let received = &self.rig.bench.received[&pair.members[0]];
            let joined = pair.members.iter().all(|id| self.rig.bench.received[id].admission().is_some());
            let spine = self.rig.root(&pair.name).filter(|_| joined);
            let training = self.trainings.get_mut(&pair.name).expect("each pair trains");
            if training.spine != spine {
                // What was under way is done again, at the new place.
                training.meter.interrupt();
                (training.sent, training.begun, training.hold, training.taken) = (0.0, None, None, 0);
                let computing = State::Computing { until: now + training.compute };
                training.state = if spine.is_some() { computing } else { State::Away };
                training.spine = spine;
            }
            for event in &received.events[training.taken.min(received.events.len())..] {
                if let SessionEvent::Hold(hold) = event {
                    let at = |micros: u64| now + Duration::from_micros(micros);
                    training.hold = Some((at(hold.after_us), at(hold.until_us)));
                }
            }
            training.taken = received.events.len();
        }
        self.check_log();
    }

    /// What is decided keeps the rules that are stated.
    fn check_log(&mut self) {
        let now = self.rig.bench.now;
        let log: Vec<JobEvent> = self.rig.bench.log[self.checked..].to_vec();
        self.checked = self.rig.bench.log.len();
        for event in log {
            match event {
                JobEvent::Ended { name, reason: EndReason::Moved { .. }, .. } => {
                    let since = self.last_move.replace(now).map(|last| now.saturating_sub(last) + HEARTBEAT);
                    assert!(since.is_none_or(|since| since >= INTERVAL), "moved {since:?} after another");
                    let job = name.job;
                    let done = self.done.entry(job.clone()).or_default();
                    let stayed = done.moves.last().map(|last| now - *last + HEARTBEAT);
                    assert!(stayed.is_none_or(|stayed| stayed >= BACKOFF_MIN), "{job} stayed for {stayed:?}");
                    done.moves.push(now);
                    assert!(done.moves.len() <= MOVES_MAX as usize, "{job}: {:?}", done.moves);
                }
                JobEvent::Ended { reason, .. } => assert_eq!(reason, EndReason::Finished),
                JobEvent::Banded { name, band } => {
                    if let Some(training) = self.trainings.get_mut(&name.job) {
                        training.class = band.first();
                    }
                    self.done.entry(name.job).or_default().bands.push(now);
                }
                JobEvent::Scheduled {
                    name,
                    decision: schedule::Decision::Shift(interleave::Decision::Delayed { .. }),
                } => {
                    self.done.entry(name.job).or_default().delayed += 1;
                }
                _ => {}
            }
        }
    }

    /// The bounds of delays, at any time.
    fn check_delays(&self) {
        for (name, training) in &self.trainings {
            let ran = self.rig.bench.now - training.arrived;
            let longest = training.iterations.iter().copied().fold(training.alone(), Duration::max);
            let moves = self.done.get(name).map_or(0, |done| done.moves.len()) as u32;
            let total: Duration = training.delays.iter().sum();
            // One that is moved joins as a new one.
            let bound = longest * (1 + moves) + ran.mul_f64(BUDGET_SHARE);
            assert!(total <= bound, "{name}: {total:?} of {bound:?}");
            let large = training.delays.iter().filter(|delay| **delay > longest.mul_f64(PACE_MAX)).count();
            let most = training.iterations.len() / SETTLING_ITERATIONS as usize + 1 + moves as usize;
            assert!(
                large <= most,
                "{name}: {large} large delays in {} iterations",
                training.iterations.len()
            );
        }
    }

    /// What was decided of all jobs: moves, changes of bands and larger delays.
    fn decisions(&self) -> usize {
        self.done.values().map(|done| done.moves.len() + done.bands.len() + done.delayed).sum()
    }

    /// Moves and changes of bands.
    fn changes(&self) -> usize {
        self.done.values().map(|done| done.moves.len() + done.bands.len()).sum()
    }

    /// The mean speed of honest jobs.
    fn speed(&self) -> f64 {
        let honest = self.trainings.values().filter(|training| training.reports == Reports::Truth);
        let all: Vec<f64> = honest.map(Training::speed).collect();
        all.iter().sum::<f64>() / all.len() as f64
    }
}

const CONTROLS: [Control; 4] = [
    Control(Schedule::Off, PlacementPolicy::Static),
    Control(Schedule::Cassini, PlacementPolicy::Measured),
    Control(Schedule::Crux, PlacementPolicy::Measured),
    Control(Schedule::Off, PlacementPolicy::Measured),
];

/// Jobs come and go for ten minutes; of those that misreport, one in four, `lies` says how.
fn churn(seed: u64, control: Control, lies: Option<Reports>) -> World {
    let mut world = World::new(seed, control);
    // What is random of churn does not depend on what is decided.
    let mut churn = StdRng::seed_from_u64(seed ^ 0x6c6f_6f70);
    for _ in 0..40 {
        if world.trainings.len() < 2 || churn.random_range(0..3) == 0 && world.trainings.len() < 5 {
            let reports = lies.filter(|_| world.born % 4 == 1).unwrap_or(Reports::Truth);
            let (compute_ms, communicate_ms) =
                [(100, 60), (200, 120), (110, 50)][churn.random_range(0..3_usize)];
            world.arrive(compute_ms, communicate_ms, reports);
        } else if churn.random_range(0..6) == 0 {
            world.leave(churn.random_range(0..world.trainings.len()));
        }
        world.run(15 * SECOND);
        world.check_delays();
    }
    world
}

/// Nothing changes any more. Bands and places stay, and jobs that lose their turns are delayed again at most once in half a minute on average.
fn settle(world: &mut World, control: Control) {
    world.run(300 * SECOND);
    let (before, changed) = (world.decisions(), world.changes());
    world.run(300 * SECOND);
    let (decisions, jobs) = (world.decisions() - before, world.trainings.len());
    assert!(decisions <= 10 * jobs, "{control:?}: {decisions} decisions about {jobs} jobs in five minutes");
    assert_eq!(world.changes(), changed, "{control:?}: moved or ranked anew although nothing has changed");
    world.check_delays();
}

#[test]
fn the_whole_loop_keeps_its_rules_and_settles() {
    let lies = [Reports::Random, Reports::Restless, Reports::Most, Reports::Nothing];
    let seeds = if std::env::var_os("NETFOLD_LONG").is_some() { 40 } else { 4 };
    let mut speeds = [[0.0; 2]; CONTROLS.len()];
    for seed in 0..seeds {
        for (control, sums) in CONTROLS.into_iter().zip(&mut speeds) {
            let mut honest = churn(seed, control, None);
            settle(&mut honest, control);
            let mut lied_to = churn(seed, control, Some(lies[seed as usize % lies.len()]));
            lied_to.run(300 * SECOND);
            lied_to.check_delays();
            let (speed, among_lies) = (honest.speed(), lied_to.speed());
            println!(
                "seed {seed}, {control:?}: {speed:.3} of the speed alone after {} decisions; {among_lies:.3} after {} among false reports",
                honest.decisions(),
                lied_to.decisions()
            );
            sums[0] += speed / seeds as f64;
            sums[1] += among_lies / seeds as f64;
        }
    }
    println!("mean speeds, and among false reports: {speeds:.3?}");
    let [off, cassini, crux, placed] = speeds;
    assert!(
        placed[0] > off[0] && cassini[0] > placed[0] && crux[0] > placed[0],
        "each control makes jobs faster"
    );
    for control in [cassini, crux, placed] {
        assert!(control[1] > off[1] - 0.02, "false reports make honest jobs slower than no control does");
    }
}
