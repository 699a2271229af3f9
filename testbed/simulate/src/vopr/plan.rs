//! What a seed decides: the system, its jobs, and what goes wrong when.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use netfold::simulated::Settings;
use netfold::{GroupKey, Mode};
use netfold_controller::policy::Sharing;
use netfold_proto::{Collective, Tolerance};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::controller::KillAtChange;
use crate::sim::Faults;

/// When faults begin at the earliest, and when all are over.
const FAULTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(25));

/// Slots of each switch where jobs share them: fewer than several jobs ask for.
pub(super) const SLOTS_SHARED: u32 = 128;

/// Last part of the spine's address; that of a leaf is one above its number.
pub(super) const SPINE: usize = 9;

/// By how much the last part of an aggregator's address is above that of its switch.
pub(super) const AGGREGATORS: usize = 10;

/// Hosts at each leaf.
pub(super) const HOSTS_PER_LEAF: usize = 4;

/// A job of the tenant whose jobs must not fail.
#[derive(Debug, Clone)]
pub(super) struct JobPlan {
    /// The job of which this is a group.
    pub(super) of: Option<usize>,
    /// The host of each rank.
    pub(super) hosts: Vec<usize>,
    /// Whether its ranks can continue without a switch.
    pub(super) linked: bool,
    /// The group key of a confidential job, whose ranks are linked.
    pub(super) group_key: Option<GroupKey>,
    /// How many contributions may be left out of its sums.
    pub(super) tolerance: Tolerance,
    pub(super) ops: Vec<OpPlan>,
    pub(super) slots: u32,
    /// When each rank starts.
    pub(super) starts: Vec<Duration>,
    /// Time between operations.
    pub(super) think: Duration,
    /// After how long without an operation linked ranks give their slots back, if they do.
    pub(super) idle_timeout: Option<Duration>,
}

impl JobPlan {
    /// What its ranks have set.
    pub(super) fn settings(&self) -> Settings {
        let JobPlan { tolerance, idle_timeout, .. } = *self;
        Settings { mode: Mode::Bfp32, group_key: self.group_key.clone(), tolerance, idle_timeout }
    }
}

/// A collective operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpPlan {
    pub(super) collective: Collective,
    /// Elements of its tensor, or of each rank's part.
    pub(super) elements: usize,
    /// Of floats, which are integers small enough to be summed exactly.
    pub(super) floats: bool,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A controller is killed; `silent`: with its host, so that no connection is closed. It is back after so long.
    KillController { controller: usize, silent: bool, back: Duration },
    /// The leader is killed when it next makes a change durable.
    KillAtChange { kill: KillAtChange, back: Duration },
    /// The leader is killed at the n-th call of a driver from now, before or after the switch carries it out.
    KillAtCall { calls: u32, after: bool, back: Duration },
    /// A controller's process is stopped.
    PauseController { controller: usize, time: Duration },
    /// A controller does not reach the database.
    CutDatabase { controller: usize, time: Duration },
    /// The database's disk is full.
    FillDisk { time: Duration },
    /// A controller does not reach a switch.
    CutSwitch { controller: usize, switch: usize, time: Duration },
    /// A controller and the workers of a host do not reach each other.
    CutWorkers { controller: usize, host: usize, time: Duration },
    /// A switch restarts, with nothing.
    RestartSwitch { switch: usize, time: Duration },
    /// A switch answers no controller, and forwards packets.
    HangSwitch { switch: usize, time: Duration },
    /// The data path of a host is cut.
    CutHost { host: usize, time: Duration },
    /// A rank is killed.
    KillRank { job: usize, rank: usize },
    /// A rank's process is stopped.
    PauseRank { job: usize, rank: usize, time: Duration },
}

/// Which jobs a fault may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// None that runs: those that are being set up then may be.
    Starting,
    /// Those that use switches and cannot do without.
    Unlinked,
    /// Those with a rank on a host.
    Host(usize),
    /// One job.
    Job(usize),
}

impl Fault {
    /// How long it lasts.
    pub(super) fn time(&self) -> Duration {
        match *self {
            Self::KillController { back, .. }
            | Self::KillAtChange { back, .. }
            | Self::KillAtCall { back, .. } => back,
            Self::PauseController { time, .. }
            | Self::CutDatabase { time, .. }
            | Self::FillDisk { time }
            | Self::CutSwitch { time, .. }
            | Self::CutWorkers { time, .. }
            | Self::RestartSwitch { time, .. }
            | Self::HangSwitch { time, .. }
            | Self::CutHost { time, .. }
            | Self::PauseRank { time, .. } => time,
            Self::KillRank { .. } => Duration::ZERO,
        }
    }

    /// Which jobs it may end.
    pub(super) fn reach(&self) -> Reach {
        /// Shorter than every time after which a peer counts as lost.
        const SHORT: Duration = Duration::from_millis(1200);
        let short = self.time() < SHORT;
        match *self {
            Self::CutSwitch { .. } | Self::HangSwitch { .. } if !short => Reach::Unlinked,
            Self::RestartSwitch { .. } => Reach::Unlinked,
            Self::CutWorkers { host, .. } | Self::CutHost { host, .. } if !short => Reach::Host(host),
            Self::KillRank { job, .. } => Reach::Job(job),
            Self::PauseRank { job, .. } if !short => Reach::Job(job),
            _ => Reach::Starting,
        }
    }
}

/// A whole system and its history.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) leaves: usize,
    pub(super) controllers: usize,
    pub(super) elastic: bool,
    /// Whether jobs share the slots of leaves and spine below aggregators: [`SLOTS_SHARED`] of each.
    pub(super) best_effort: bool,
    pub(super) jobs: Vec<JobPlan>,
    /// What every link does to datagrams.
    pub(super) data: Faults,
    /// Shortest and longest one-way time of control connections.
    pub(super) control: (Duration, Duration),
    /// In order of time.
    pub(super) faults: Vec<(Duration, Fault)>,
    /// Whether another tenant attacks.
    pub(super) adversary: bool,
    /// Whether its quota is of slots alone.
    pub(super) unlimited: bool,
    /// The chunk number that all slots hold at first, as after jobs of any length.
    pub(super) chunk: u32,
    /// Whether packets of jobs are authenticated, and how often the network changes bits of a datagram in a way that its checksum does not show:
    /// never of plain packets, whose sums would be wrong.
    pub(super) authenticated: bool,
    pub(super) undetected: f64,
    /// By how much the wall clock of a controller that starts is wrong, at most.
    pub(super) clock_error: Duration,
}

impl Plan {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rng = &mut rng;
        let leaves = rng.random_range(1..=2);
        let controllers = rng.random_range(1..=3);
        let mut jobs: Vec<_> = (0..rng.random_range(1..=4)).map(|_| job(rng, leaves)).collect();
        for index in 1..jobs.len() {
            let of = rng.random_range(0..index);
            jobs[index].of = (jobs[of].of.is_none() && rng.random_bool(0.4)).then_some(of);
        }
        let authenticated = rng.random_bool(0.4);
        let undetected = if authenticated && rng.random_bool(0.7) { rng.random::<f64>() * 0.03 } else { 0.0 };
        let micros = |rng: &mut Xoshiro256PlusPlus, range| Duration::from_micros(rng.random_range(range));
        let lossy = rng.random_bool(0.6);
        let pick =
            |rng: &mut Xoshiro256PlusPlus, most: f64| if lossy { rng.random::<f64>() * most } else { 0.0 };
        let data = Faults {
            loss: pick(rng, 0.05),
            trimming: if rng.random_bool(0.7) { pick(rng, 0.4) } else { 0.0 },
            corruption: pick(rng, 0.01),
            duplication: pick(rng, 0.05),
            reordering: pick(rng, 0.03),
            delay: micros(rng, 5..50),
            jitter: micros(rng, 1..100),
            straggle: micros(rng, 100..5_000),
        };
        let control = (micros(rng, 50..200), micros(rng, 200..5_000));
        let switches = if leaves > 1 { leaves + 1 } else { 1 };
        let count = if rng.random_bool(0.25) { 0 } else { rng.random_range(1..=10) };
        let places = (switches, controllers, leaves * HOSTS_PER_LEAF);
        let mut faults: Vec<_> = (0..count)
            .map(|_| {
                let span = (FAULTS.1 - FAULTS.0).mul_f64(rng.random::<f64>() * 0.8);
                (FAULTS.0 + span, fault(rng, places, &jobs))
            })
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        let mut plan = Self {
            seed,
            leaves,
            controllers,
            elastic: rng.random_bool(0.5),
            best_effort: false,
            jobs,
            data,
            control,
            faults,
            adversary: rng.random_bool(0.5),
            unlimited: rng.random_bool(0.5),
            chunk: match rng.random_range(0..4) {
                0 => 0,
                1 => (1 << 31) - rng.random_range(0..300),
                2 => u32::MAX - rng.random_range(0..300),
                _ => rng.random(),
            },
            authenticated,
            undetected,
            clock_error: Duration::from_secs(if rng.random_bool(0.5) { 0 } else { 100_000 }),
        };
        // Authenticated jobs have slots of their own, and are refused where too few are left.
        if !plan.authenticated && rng.random_bool(0.5) {
            plan.share_slots(rng);
        }
        plan
    }

    /// Has jobs share the slots of leaves and spine. Half of the faults of switches are those of aggregators. No contribution may be left out: the program
    /// has no bounded loss.
    fn share_slots(&mut self, rng: &mut Xoshiro256PlusPlus) {
        (self.best_effort, self.elastic, self.data.trimming) = (true, false, 0.0);
        for job in &mut self.jobs {
            job.tolerance = Tolerance::NONE;
        }
        let switches = self.switches();
        for (_, fault) in &mut self.faults {
            if let Fault::CutSwitch { switch, .. }
            | Fault::RestartSwitch { switch, .. }
            | Fault::HangSwitch { switch, .. } = fault
            {
                *switch = rng.random_range(0..switches);
            }
        }
    }

    /// Number of switches: the leaves, a spine above several, and an aggregator of each where jobs share slots.
    pub(super) fn switches(&self) -> usize {
        let aggregators = if self.best_effort { self.aggregated() } else { 0 };
        self.aggregated() + aggregators
    }

    /// Number of switches that are no aggregators.
    fn aggregated(&self) -> usize {
        if self.leaves > 1 { self.leaves + 1 } else { 1 }
    }

    /// A switch by number: the leaves come first, then the spine, then aggregators in the order of theirs.
    pub(super) fn switch(&self, index: usize) -> PlannedSwitch {
        let named = |index: usize| {
            if index < self.leaves { (format!("leaf{index}"), index + 1) } else { ("spine".into(), SPINE) }
        };
        match index.checked_sub(self.aggregated()) {
            None => {
                PlannedSwitch { name: named(index).0, last: named(index).1 as u8, shares: self.best_effort }
            }
            Some(of) => PlannedSwitch {
                name: format!("aggregator_of_{}", named(of).0),
                last: (named(of).1 + AGGREGATORS) as u8,
                shares: false,
            },
        }
    }

    /// How controllers share slots out.
    pub(super) fn sharing(&self) -> Sharing {
        match (self.best_effort, self.elastic) {
            (true, _) => Sharing::BestEffort,
            (false, true) => Sharing::Elastic,
            (false, false) => Sharing::Static,
        }
    }

    pub(super) fn hosts(&self) -> usize {
        self.leaves * HOSTS_PER_LEAF
    }

    /// The topology as a controller reads it.
    pub(super) fn topology(&self) -> String {
        let mut text = String::new();
        let mut link = |a: &str, b: &str| text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        let names: Vec<String> = (0..self.switches()).map(|index| self.switch(index).name).collect();
        let (below, aggregators) = names.split_at(self.aggregated());
        below.iter().zip(aggregators).for_each(|(switch, aggregator)| link(switch, aggregator));
        if let Some(spine) = below.get(self.leaves) {
            below[..self.leaves].iter().for_each(|leaf| link(leaf, spine));
        }
        for index in 0..self.switches() {
            let PlannedSwitch { name, last, .. } = self.switch(index);
            let role = match index {
                _ if index < self.leaves => "leaf",
                _ if index < self.aggregated() => "spine",
                _ => "any",
            };
            text += &format!(
                "[[switch]]\nname = \"{name}\"\np4runtime = \"10.9.0.{last}:9559\"\nrole = \"{role}\"\n"
            );
            if let Some(aggregator) = aggregators.get(index) {
                text += &format!("aggregator = \"{aggregator}\"\n");
            }
        }
        for host in 0..self.hosts() {
            let leaf = host / HOSTS_PER_LEAF;
            text += &format!(
                "[[host]]\nname = \"host{host}\"\naddresses = [\"{}\"]\nswitch = \"leaf{leaf}\"\n",
                host_address(host)
            );
        }
        text
    }
}

/// A switch of a plan.
pub(super) struct PlannedSwitch {
    pub(super) name: String,
    /// Last part of its address.
    pub(super) last: u8,
    /// Whether jobs share its slots.
    pub(super) shares: bool,
}

/// The address of a host.
pub(super) fn host_address(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, (host / HOSTS_PER_LEAF) as u8 + 1, (host % HOSTS_PER_LEAF) as u8 + 1).into()
}

fn job(rng: &mut Xoshiro256PlusPlus, leaves: usize) -> JobPlan {
    let world = rng.random_range(2..=4);
    // The adversary is on the last host.
    let hosts = (0..world).map(|_| rng.random_range(0..leaves * HOSTS_PER_LEAF - 1)).collect();
    let op = |rng: &mut Xoshiro256PlusPlus| {
        let root = rng.random_range(0..world) as u16;
        let (collective, parts) = match rng.random_range(0..8) {
            0 => (Collective::Reduce { root }, 1),
            1 => (Collective::Broadcast { root }, 1),
            2 => (Collective::AllGather, world),
            3 | 4 => (Collective::ReduceScatter, world),
            _ => (Collective::AllReduce, 1),
        };
        OpPlan {
            collective,
            elements: rng.random_range(1..=4_000 / parts as usize),
            floats: rng.random_bool(0.5),
        }
    };
    let start = Duration::from_millis(rng.random_range(0..3_000));
    let linked = rng.random_bool(0.5);
    let confidential = linked && rng.random_bool(0.4);
    let late = |rng: &mut Xoshiro256PlusPlus| start + Duration::from_millis(rng.random_range(0..400));
    // The masks of contributions that are missing would not cancel.
    let bounded = !confidential && rng.random_bool(0.3);
    let parts = if bounded { rng.random_range(1..=Tolerance::PARTS) } else { 0 };
    // What lacks contributions is compared with sums of some ranks, which is exact.
    let tolerance = Tolerance { parts, rescale: !bounded, stragglers: bounded && rng.random() };
    JobPlan {
        of: None,
        hosts,
        linked,
        tolerance,
        group_key: confidential.then(|| GroupKey::generate().expect("the system has random numbers")),
        ops: (0..rng.random_range(2..=8)).map(|_| op(rng)).collect(),
        slots: 1 << rng.random_range(3..=6),
        starts: (0..world).map(|_| late(rng)).collect(),
        think: Duration::from_millis(rng.random_range(0..4_000)),
        idle_timeout: (linked && rng.random_bool(0.5))
            .then(|| Duration::from_millis(rng.random_range(100..3_000))),
    }
}

fn fault(
    rng: &mut Xoshiro256PlusPlus,
    (switches, controllers, hosts): (usize, usize, usize),
    jobs: &[JobPlan],
) -> Fault {
    let time = |rng: &mut Xoshiro256PlusPlus| {
        let most = if rng.random_bool(0.5) { 1_000 } else { 8_000 };
        Duration::from_millis(rng.random_range(10..most))
    };
    let controller = rng.random_range(0..controllers);
    let (switch, host) = (rng.random_range(0..switches), rng.random_range(0..hosts));
    let job = rng.random_range(0..jobs.len());
    let rank = rng.random_range(0..jobs[job].hosts.len());
    let time = time(rng);
    match rng.random_range(0..14) {
        0 | 1 => Fault::KillController { controller, silent: rng.random_bool(0.5), back: time },
        2 => Fault::KillAtChange {
            kill: match rng.random_range(0..6) {
                0 => KillAtChange::Before,
                1 => KillAtChange::After,
                syncs => KillAtChange::PowerLost(syncs - 2),
            },
            back: time,
        },
        3 | 4 => {
            Fault::KillAtCall { calls: rng.random_range(1..40), after: rng.random_bool(0.5), back: time }
        }
        5 => Fault::PauseController { controller, time },
        6 => Fault::CutDatabase { controller, time },
        7 => Fault::FillDisk { time },
        8 => Fault::CutSwitch { controller, switch, time },
        9 => Fault::CutWorkers { controller, host, time },
        10 => Fault::RestartSwitch { switch, time },
        11 => Fault::HangSwitch { switch, time },
        12 => Fault::CutHost { host, time },
        _ if rng.random_bool(0.5) => Fault::KillRank { job, rank },
        _ => Fault::PauseRank { job, rank, time },
    }
}
