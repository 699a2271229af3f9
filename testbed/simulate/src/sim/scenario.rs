//! The events of one simulation, generated from a seed.

use std::time::Duration;

use netfold_control::{CongestionAlgorithm, Numerics};
use netfold_controller::tree::Shape;
use netfold_proto::Tolerance;
use netfold_wire::LaneOp;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::network::Faults;
use super::switch::JobSetup;
use super::tensors::OpPlan;

/// Slots that a scenario's jobs are given ranges of.
pub(super) const SWITCH_SLOTS: u32 = 1024;

/// Positions x ranks of one simulation, at most about: what keeps one in milliseconds.
const WORK_MAX: u64 = 3_000;

/// A rank that crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// Which.
    pub rank: u16,
    /// When, after the start.
    pub at: Duration,
    /// How much later the control session notifies the others; `None`: never, and they must detect it.
    pub told_after: Option<Duration>,
}

/// A time in which a rank's link carries nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Whose link.
    pub rank: u16,
    /// From when on.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}

/// A rank some of whose chunks are delayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Straggler {
    /// Which.
    pub rank: u16,
    /// Share of its chunks.
    pub fraction: f64,
    /// Nothing of such a chunk arrives sooner after it was first sent.
    pub by: Duration,
}

/// One simulation.
#[derive(Debug)]
pub struct Scenario {
    /// The seed it was generated from, which also drives the network.
    pub seed: u64,
    /// Ranks.
    pub world: u16,
    /// Which switch is below which, and which rank at which switch.
    pub shape: Shape,
    /// Slots of the job.
    pub slots: u32,
    /// Lanes a packet.
    pub lane_words: u32,
    /// How switches fold lanes: words, or words that saturate.
    pub numerics: Numerics,
    /// The job as the root knows it, which in a tree stands for all switches in what is the same at all of them.
    pub job: JobSetup,
    /// Another job, on each switch by itself.
    pub other_job: JobSetup,
    /// Operations in order of submission.
    pub plans: Vec<OpPlan>,
    /// Submission of operation `op` on rank `rank`, after the start: `submissions[rank][op]`.
    pub submissions: Vec<Vec<Duration>>,
    /// Faults on the way from ranks to switches.
    pub up: Faults,
    /// Faults on the way from switches to ranks.
    pub down: Faults,
    /// Faults between switches, each way.
    pub trunk: Faults,
    /// A dying rank.
    pub crash: Option<Crash>,
    /// A link that fails for a while.
    pub outage: Option<Outage>,
    /// A rank that delays some of its chunks.
    pub straggler: Option<Straggler>,
    /// Forged packets to slip in.
    pub intrusions: u32,
    /// Stream positions before the simulation, on all ranks.
    pub start: u64,
    /// Liveness probes that each rank sends, at any time.
    pub liveness_probes: u32,
    /// Time without progress after which a worker gives up.
    pub stall_timeout: Duration,
    /// Workers predict the exponents of small operations.
    pub predict: bool,
}

impl Scenario {
    /// Generates a scenario. Everything in it, and every event of its simulation, follows from the seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let world = pick(&mut rng, &[1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 13, 16, 31, 32]);
        Self::generate(seed, &mut rng, world)
    }

    /// The same at switches whose sums saturate, with tensors of which some chunks do.
    pub fn saturating(mut self) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ SATURATING_SEED);
        self.numerics = Numerics::Saturating;
        self.lane_words = SATURATING_LANE_WORDS;
        let lane_words = self.lane_words as usize;
        for plan in &mut self.plans {
            let (chunks, exponents) = (plan.spec.data_chunks as usize, plan.spec.exponents);
            let elements = (chunks * lane_words).saturating_sub(rng.random_range(0..lane_words));
            // Sums of integers are for switches of plain words.
            let lane_op = if exponents || chunks == 0 { LaneOp::Sum } else { LaneOp::Max };
            let generated = OpPlan::generate(&mut rng, self.world, lane_words, elements, lane_op, exponents);
            *plan = generated.shared(&mut rng, lane_words).saturating(&mut rng, lane_words);
        }
        self
    }

    /// The same where sums may lack contributions, and switches' queues trim.
    pub fn tolerant(mut self) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ TOLERANT_SEED);
        let plans = std::mem::take(&mut self.plans);
        let mut tolerance = |plan: OpPlan| {
            let parts = pick(&mut rng, &[0, 80, 800, 4_000, Tolerance::PARTS]);
            plan.tolerant(Tolerance { parts, rescale: true, stragglers: rng.random() })
        };
        self.plans = plans.into_iter().map(&mut tolerance).collect();
        self.up.trimming = pick(&mut rng, &[0.0, 0.01, 0.1, 0.3, 1.0]);
        self.trunk.trimming = pick(&mut rng, &[0.0, 0.01, 0.1, 0.3, 1.0]);
        let us = Duration::from_micros;
        self.straggler = rng.random_bool(0.5).then(|| Straggler {
            rank: rng.random_range(0..self.world),
            fraction: pick(&mut rng, &[0.01, 0.05, 0.3, 1.0]),
            by: pick(&mut rng, &[us(50), us(1_000), us(20_000)]),
        });
        self
    }

    /// A rank's congestion-control algorithm: one by the seed, sometimes another on each rank.
    pub fn congestion(&self, rank: u16) -> CongestionAlgorithm {
        let mixed = if self.seed.is_multiple_of(5) { u64::from(rank) } else { 0 };
        let all = CongestionAlgorithm::ALL;
        // Scenarios without mishaps have seed 1, and a fixed window.
        let count = all.len() as u64;
        all[(self.seed.wrapping_add(mixed).wrapping_add(count - 1) % count) as usize]
    }

    fn generate(seed: u64, rng: &mut Xoshiro256PlusPlus, world: u16) -> Self {
        let slots = pick(rng, &[1, 1, 2, 2, 4, 8, 8, 16, 32, 64, 256]);
        let lane_words = pick(rng, &[64, 64, 64, 64, 64, 64, 64, 352]);
        let first_chunk = random_first_chunk(rng);
        let (start, behind, liveness_probes) = random_age(seed);
        let sharing_rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed ^ SHARING_SEED);
        let plans: Vec<OpPlan> = random_plans(rng, world, slots, lane_words)
            .into_iter()
            .map(|plan| plan.shared(sharing_rng, lane_words as usize))
            .collect();
        let [job, other_job] = random_jobs(rng, world, slots, (first_chunk, behind));
        let up = random_faults(rng);
        let submissions = random_submissions(rng, world, plans.len());
        let span = Duration::from_millis(rng.random_range(1..40));
        let crash = (world > 1 && rng.random_bool(0.12)).then(|| Crash {
            rank: rng.random_range(0..world),
            at: span.mul_f64(rng.random()),
            told_after: rng.random_bool(0.5).then(|| Duration::from_millis(rng.random_range(0..3000))),
        });
        let outage = rng.random_bool(0.1).then(|| {
            let from = span.mul_f64(rng.random());
            Outage {
                rank: rng.random_range(0..world),
                from,
                until: from + Duration::from_millis(rng.random_range(1..400)),
            }
        });
        Self {
            down: if rng.random() { up } else { random_faults(rng) },
            trunk: up,
            seed,
            world,
            shape: flat(world),
            slots,
            lane_words,
            numerics: Numerics::Word,
            job,
            other_job,
            plans,
            submissions,
            up,
            crash,
            outage,
            straggler: None,
            intrusions: if rng.random_bool(0.3) { rng.random_range(1..9) } else { 0 },
            start,
            liveness_probes,
            stall_timeout: Duration::from_secs(if crash.is_some() { 1 } else { 60 }),
            predict: false,
        }
        .predicting()
    }

    /// In every other scenario workers predict exponents: half of the operations that may are like one before, most of the exponents
    /// too, and ranks know tensors by the same keys or each by its own.
    fn predicting(mut self) -> Self {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(self.seed ^ PREDICTION_SEED);
        self.predict = rng.random();
        if !self.predict {
            return self;
        }
        let keys = rng.random_range(1..=3);
        let own_keys = rng.random_bool(0.3);
        let mut earlier: Vec<usize> = Vec::new();
        for op in 0..self.plans.len() {
            if !self.plans[op].may_be_predicted() {
                continue;
            }
            if let Some(last) = earlier.last().filter(|_| rng.random()) {
                self.plans[op] = self.plans[*last].successor(rng, self.lane_words as usize);
            }
            earlier.push(op);
        }
        let all = self.plans.into_iter().enumerate().map(|(op, plan)| {
            let key = |rank: u64| op as u64 * if own_keys { rank + 1 } else { 1 } % keys;
            plan.predicted((0..self.world).map(|rank| key(rank.into())).collect())
        });
        self.plans = all.collect();
        self
    }
}

impl Scenario {
    /// One operation of `chunks` data chunks on every rank at once, over links with these faults in both directions and
    /// no other mishap: what measures how the protocol bears loss.
    pub fn plain(seed: u64, world: u16, slots: u32, chunks: usize, faults: Faults) -> Self {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let lane_words = 64;
        let plans = vec![OpPlan::generate(rng, world, lane_words, chunks * lane_words, LaneOp::Sum, false)];
        let job = JobSetup {
            job: 1,
            epoch: 1,
            key: 1,
            base: 0,
            slots,
            first_chunk: 1,
            held: 0,
            ports: (0..world).collect(),
            behind: (0..world).map(|rank| Some((rank, rank))).collect(),
            parent: None,
            rank: 0,
            workers: world,
            world,
        };
        let other_job = JobSetup {
            job: 2,
            base: SWITCH_SLOTS / 2,
            ports: vec![100, 101],
            behind: vec![None; 2],
            workers: 2,
            world: 2,
            ..job
        };
        Self {
            seed,
            world,
            shape: flat(world),
            slots,
            lane_words: lane_words as u32,
            numerics: Numerics::Word,
            job,
            other_job,
            plans,
            submissions: vec![vec![Duration::ZERO]; usize::from(world)],
            up: faults,
            down: faults,
            trunk: faults,
            crash: None,
            outage: None,
            straggler: None,
            intrusions: 0,
            start: 0,
            liveness_probes: 0,
            stall_timeout: Duration::from_secs(60),
            predict: false,
        }
    }
}

impl Scenario {
    /// Draws a scenario in a tree of two or three levels, in all else like [`Scenario::from_seed`].
    pub fn tree_from_seed(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ TREE_SEED);
        let shape = random_shape(&mut rng);
        let world = shape.workers.len() as u16;
        let mut scenario = Self::generate(seed, &mut rng, world);
        scenario.job.ports = children(&shape, 0);
        scenario.job.behind = ranks_behind(&shape, 0, scenario.numerics);
        scenario.shape = shape;
        scenario.trunk = if rng.random() { scenario.up } else { random_faults(&mut rng) };
        // A packet crosses more links, each of which may hold it back.
        scenario.stall_timeout *= 2;
        scenario
    }

    /// What each switch knows beforehand: this job and the other one. Children have ports from 0 on, switches before
    /// workers, and the switch above the port after them.
    pub fn jobs(&self) -> Vec<[JobSetup; 2]> {
        let mut workers = vec![0; self.shape.above.len()];
        for leaf in &self.shape.workers {
            let mut at = Some(*leaf);
            while let Some(switch) = at {
                workers[switch] += 1;
                at = self.shape.above[switch];
            }
        }
        let job = |switch: usize| {
            let ports = children(&self.shape, switch);
            let above = self.shape.above[switch];
            let parent = above.map(|_| ports.len() as u16);
            let elder = self.shape.above[..switch].iter().filter(|other| **other == above).count();
            JobSetup {
                rank: if above.is_some() { elder as u8 } else { 0 },
                ports,
                behind: ranks_behind(&self.shape, switch, self.numerics),
                parent,
                workers: workers[switch],
                world: self.world,
                ..self.job.clone()
            }
        };
        (0..workers.len()).map(|switch| [job(switch), self.other_job.clone()]).collect()
    }
}

/// The job, which sends `first_chunk` first and whose slots hold older chunks by `behind`, and another one.
fn random_jobs(
    rng: &mut Xoshiro256PlusPlus,
    world: u16,
    slots: u32,
    (first_chunk, behind): (u32, u32),
) -> [JobSetup; 2] {
    let job = JobSetup {
        job: rng.random_range(1..=u16::MAX),
        epoch: rng.random_range(1..=u32::MAX),
        key: rng.random(),
        base: slots * rng.random_range(0..SWITCH_SLOTS / slots / 2),
        slots,
        first_chunk,
        held: first_chunk.wrapping_sub(1 + behind),
        ports: (0..world).collect(),
        behind: (0..world).map(|rank| Some((rank, rank))).collect(),
        parent: None,
        rank: 0,
        workers: world,
        world,
    };
    let other_job = JobSetup {
        job: job.job ^ rng.random_range(1..=u16::MAX),
        workers: 2,
        world: 2,
        base: SWITCH_SLOTS / 2 + 64 * rng.random_range(0..4),
        slots: 64,
        ports: vec![100, 101],
        behind: vec![None; 2],
        key: rng.random(),
        ..job
    };
    [job, other_job]
}

/// A first chunk number, often near where serial numbers wrap.
fn random_first_chunk(rng: &mut Xoshiro256PlusPlus) -> u32 {
    match rng.random_range(0..4) {
        0 => 0,
        1 => u32::MAX - rng.random_range(0..200),
        2 => (1 << 31) - rng.random_range(0..200),
        _ => rng.random(),
    }
}

/// How old a stream is: positions before the simulation, chunks by which its slots are further behind, and liveness probes of each rank.
fn random_age(seed: u64) -> (u64, u32, u32) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed ^ AGE_SEED);
    let behind = pick(rng, &[0, 0, 1 << 29, 1 << 30]);
    let start = pick(rng, &[0, 0, 1 << 29, 1 << 30, 1 << 31, 3 << 30, 1 << 32, 1 << 40]);
    let start = start + rng.random_range(0..1 << 12) - if start > 0 { 1 << 11 } else { 0 };
    (start, behind, rng.random_range(0..6))
}

/// Sets the seeds of trees apart from those of single switches.
const TREE_SEED: u64 = 0x7472_6565;

/// Separates the random numbers for how long a stream has run from all others.
const AGE_SEED: u64 = 0x6167_6564;

/// Separates the random numbers for saturating switches from those for others.
const SATURATING_SEED: u64 = 0x7361_7475;

/// Separates the random numbers for bounded loss from those for exact sums.
const TOLERANT_SEED: u64 = 0x6c6f_7373;

/// Separates the random numbers for collectives from all others.
const SHARING_SEED: u64 = 0x7368_6172;

/// Separates the random numbers for predictions from all others.
const PREDICTION_SEED: u64 = 0x7072_6564;

/// Lanes of the generated saturating pipeline.
const SATURATING_LANE_WORDS: u32 = 352;

/// One switch.
fn flat(world: u16) -> Shape {
    Shape { above: vec![None], workers: vec![0; world.into()] }
}

/// Ports of a switch's children.
fn children(shape: &Shape, switch: usize) -> Vec<u16> {
    let switches = shape.above.iter().filter(|above| **above == Some(switch)).count();
    let workers = shape.workers.iter().filter(|leaf| **leaf == switch).count();
    (0..(switches + workers) as u16).collect()
}

/// Lowest and highest rank behind each of a switch's children. A child that is a switch receives all results where sums saturate.
fn ranks_behind(shape: &Shape, switch: usize, numerics: Numerics) -> Vec<Option<(u16, u16)>> {
    let below = (0..shape.above.len()).filter(|below| shape.above[*below] == Some(switch));
    let of_switch = |below| {
        let ranges = ranks_behind(shape, below, Numerics::Word).into_iter().flatten();
        let range = ranges.reduce(|(first, last), (low, high)| (first.min(low), last.max(high)));
        range.filter(|_| numerics != Numerics::Saturating)
    };
    let workers =
        (0..).zip(&shape.workers).filter(|(_, leaf)| **leaf == switch).map(|(rank, _)| Some((rank, rank)));
    below.map(of_switch).chain(workers).collect()
}

/// Two or three levels, of which some switches have workers and switches below them.
fn random_shape(rng: &mut Xoshiro256PlusPlus) -> Shape {
    let (levels, fan_out) =
        pick(rng, &[(2, 1), (2, 2), (2, 2), (2, 3), (2, 5), (3, 1), (3, 2), (3, 2), (3, 3)]);
    let leaves = (fan_out as u16).pow(levels as u32 - 1);
    let mut shape = Shape::regular(
        levels,
        fan_out,
        leaves * rng.random_range(1..=3) + rng.random_range(0..leaves.min(3)),
    )
    .expect("up to 9 switches of up to 6 workers");
    if rng.random_bool(0.2) {
        shape.workers.push(rng.random_range(0..shape.above.len()));
    }
    shape
}

fn pick<T: Copy>(rng: &mut Xoshiro256PlusPlus, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}

fn random_plans(rng: &mut Xoshiro256PlusPlus, world: u16, slots: u32, lane_words: u32) -> Vec<OpPlan> {
    let lane_words = lane_words as usize;
    let mut work = WORK_MAX.min(u64::from(world) * rng.random_range(1..600));
    let tiny = rng.random_bool(0.25);
    let mut plans = Vec::new();
    while work > 0 && plans.len() < 60 {
        let chunks = (work / u64::from(world)) as usize;
        let chunks = if tiny { chunks.min(3) } else { chunks.max(1) };
        let elements = match rng.random_range(0..10) {
            0 => 0,
            1 => rng.random_range(0..=lane_words),
            _ => rng.random_range(0..=chunks * lane_words),
        };
        let exponents = rng.random_bool(0.6);
        let lane_op = if exponents || elements == 0 { LaneOp::Sum } else { pick(rng, LaneOp::ALL) };
        let plan = OpPlan::generate(rng, world, lane_words, elements, lane_op, exponents && elements > 0);
        work = work.saturating_sub(plan.positions(slots) * u64::from(world));
        plans.push(plan);
    }
    plans
}

fn random_faults(rng: &mut Xoshiro256PlusPlus) -> Faults {
    let us = Duration::from_micros;
    Faults {
        loss: pick(rng, &[0.0, 0.0, 0.001, 0.01, 0.05, 0.1, 0.2]),
        trimming: 0.0,
        corruption: pick(rng, &[0.0, 0.0, 0.01, 0.05]),
        duplication: pick(rng, &[0.0, 0.0, 0.02, 0.1, 0.3]),
        reordering: pick(rng, &[0.0, 0.0, 0.01, 0.1]),
        delay: pick(rng, &[us(1), us(10), us(50), us(500)]),
        jitter: pick(rng, &[us(0), us(5), us(100), us(2_000)]),
        straggle: pick(rng, &[us(500), us(5_000), us(100_000)]),
    }
}

fn random_submissions(rng: &mut Xoshiro256PlusPlus, world: u16, ops: usize) -> Vec<Vec<Duration>> {
    // Everything at once, or each rank at its own pace.
    let pace = pick(rng, &[0, 0, 100, 3_000]);
    let lag = pick(rng, &[0, 0, 50, 20_000]);
    let mut submissions = Vec::new();
    for _ in 0..world {
        let mut at = Duration::from_micros(rng.random_range(0..=lag));
        let mut next = || {
            at += Duration::from_micros(rng.random_range(0..=pace));
            at
        };
        submissions.push((0..ops).map(|_| next()).collect());
    }
    submissions
}
