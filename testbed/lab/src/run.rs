//! One job through a tree of switches, from the planning of the tree to the last element checked.
//!
//! [`Run::start`] builds a topology, starts its switches, plans the job's tree and installs it over the seam that every
//! switch has ([`netfold_controller::SwitchDriver`]), and connects real workers. [`Run::round`] does one collective on all of them, in each class, and compares
//! every element of every worker, bit for bit, with the reduction worked out apart; [`Run::group_round`] the same in the job's process groups, which have slots
//! of their own at the same switches. Where sums may lack contributions, one is late in each operation, and a result is the sum of what it names. Faults of the configuration are on
//! every link, in both directions, those between switches included.

mod bmv2;
mod fabric;
mod kernel;
mod late;
mod layout;
mod members;
mod p4runtime;
mod partial;
mod picture;
mod ports;
mod raw;
mod refusal;
mod remote;
mod software;
pub mod trim;
mod values;
mod veth;

pub use fabric::{Carrier, Counted};
pub use picture::picture;
pub use refusal::Refusal;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use netfold::{Collective, Extent, Mode, Tolerance};
use netfold_control::CongestionAlgorithm;
use netfold_controller::DriverError;
use netfold_controller::tree::{InstallError, Shape, TreeError, TreePlan};
use netfold_io::fault::Faults;
use netfold_io::{Authenticated, IoError, PacketIo, PortId};
use netfold_p4::interpret::InterpretError;
use netfold_p4::profile::{Numerics, ProfileError};
use netfold_switch::QueuesCounters;
use netfold_switch::queue::{PortConfig, QueueConfigError, QueueCounters, QueueName};
use netfold_wire::{JobKeys, Reason};

use fabric::Fabric;
use layout::Placed;
use members::{Failure, Members};

/// What the switches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchKind {
    /// The software switch, on the pipeline generated for it.
    Software,
    /// The software switch, interpreting the program.
    Interpreter,
    /// The software switch, begun empty and driven over P4Runtime.
    P4Runtime,
    /// bmv2, on the printed program as p4c compiles it.
    Bmv2,
}

impl SwitchKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Software, Self::Interpreter, Self::P4Runtime, Self::Bmv2];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Interpreter => "interpreter",
            Self::P4Runtime => "p4runtime",
            Self::Bmv2 => "bmv2",
        }
    }
}

impl fmt::Display for SwitchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SwitchKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|kind| kind.name() == text);
        named.ok_or_else(|| {
            format!("unknown switch '{text}': expected software, interpreter, p4runtime or bmv2")
        })
    }
}

/// What aggregates a host's ranks below a switch, as in its network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nic {
    /// DPDK's software pipeline, in programs with DPDK.
    Swx,
}

impl FromStr for Nic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "swx" {
            Ok(Self::Swx)
        } else {
            Err(format!("unknown network card '{text}': expected swx"))
        }
    }
}

/// Shortest time after which a worker retransmits what a slow switch has not acknowledged: these take tens of milliseconds
/// for a window on a busy machine.
const SLOW_RESEND: Duration = Duration::from_millis(200);

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    /// What the switches are.
    pub switch: SwitchKind,
    /// Switches and workers.
    pub shape: Shape,
    /// What workers do together. Tensors with a part for each of them are a multiple of their number long.
    pub collective: Collective,
    /// How tensors travel: `i32` tensors in mode `i32`, else `f32`.
    pub mode: Mode,
    /// Elements of each worker's tensor.
    pub elements: usize,
    /// Faults of every link, each direction.
    pub faults: Faults,
    /// Seed of tensors and faults.
    pub seed: u64,
    /// What carries the packets.
    pub carrier: Carrier,
    /// Lanes of a packet in bytes.
    pub payload_bytes: u32,
    /// Slots of the job at every switch, and of each of its groups, for each class; a power of two: the window.
    pub slots: u32,
    /// Time without progress after which a worker gives up.
    pub stall_timeout: Duration,
    /// The port of every switch below another to its parent, where that is a bottleneck: its rate and queues. Software switches
    /// only.
    pub uplink: Option<PortConfig>,
    /// By what workers decide how much to have in flight.
    pub congestion: CongestionAlgorithm,
    /// What the lowest switches of a tree are, if something else than the others.
    pub nic: Option<Nic>,
    /// Whether the job is confidential, under a group key of its own.
    pub confidential: bool,
    /// Whether its packets are authenticated. Software switches only, in this process.
    pub authenticated: bool,
    /// Process groups of the job, of the ranks with equal number modulo this; 0 for none.
    pub groups: u16,
    /// Classes of operations, a power of two.
    pub classes: u8,
    /// How many contributions sums may lack. If any, a rank at a switch with others is late with one contribution of each operation, and they close its slot.
    pub tolerance: Tolerance,
}

impl RunConfig {
    /// Elements of a tensor of so many ranks: a multiple of their number where each has a part.
    fn elements_of(&self, ranks: usize) -> usize {
        let info = self.collective.info();
        let parts = [info.input, info.output].contains(&Extent::CountPerRank);
        if parts { self.elements - self.elements % ranks } else { self.elements }
    }

    /// The switch of each worker's end: those of the job, then those of groups.
    fn leaves(&self) -> Vec<usize> {
        self.shape.workers.repeat(1 + usize::from(self.groups > 0))
    }
}

/// Why there was no run, or no end of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no address at which the ranks of a confidential job could meet.
    #[error("no free port for the workers to connect to each other")]
    Meeting(#[source] io::Error),
    /// No generated pipeline for this payload.
    #[error(
        "the software switch has no pipeline of {numerics} numerics for {payload} bytes a packet: choose {}",
        if *.numerics == Numerics::Word { "256, 1408 or 8192" } else { "1408, or --switch interpreter" }
    )]
    Payload {
        /// Bytes a packet.
        payload: u32,
        /// Numerics that the mode needs.
        numerics: Numerics,
    },
    /// Such switches, or packet I/O, do not do what the run is to have.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Keys of packets are not given to such switches here.
    #[error("{0} switches do not authenticate packets here: choose software or interpreter")]
    Authenticated(SwitchKind),
    /// There are no switches above network cards, or others than software switches.
    #[error(
        "--nic is for software switches above network cards, so --levels 2 or 3: the lowest are the network cards"
    )]
    Nic,
    /// DPDK's software pipeline does not execute the program.
    #[error("DPDK's software pipeline does not execute the program")]
    Swx(#[from] netfold_switch_swx::SwxPipelineError),
    /// Only software switches have queues of ours.
    #[error("{0} switches have no queues that could be configured: choose software or interpreter")]
    Uplink(SwitchKind),
    /// The queues cannot be so.
    #[error("the uplinks cannot have such queues")]
    Queues(#[source] QueueConfigError),
    /// The kind of switch and the carrier do not go together.
    #[error("{switch} switches cannot be joined by {carrier}: choose {choices}")]
    Carrier {
        /// The kind.
        switch: SwitchKind,
        /// The carrier.
        carrier: Carrier,
        /// What goes.
        choices: &'static str,
    },
    /// The tree cannot be.
    #[error("there is no such tree")]
    Tree(#[from] TreeError),
    /// The program cannot be.
    #[error("there is no such pipeline")]
    Profile(#[from] ProfileError),
    /// The interpreter does not take the program.
    #[error("the program cannot be interpreted")]
    Interpret(#[from] InterpretError),
    /// A switch did not take the job.
    #[error("the job could not be installed")]
    Install(#[from] Box<InstallError>),
    /// A switch did not take the keys of an authenticated job.
    #[error("a switch could not be given the keys of the job")]
    Keys(#[source] DriverError),
    /// A switch did not let the job go.
    #[error("the job could not be withdrawn")]
    Withdraw(#[source] DriverError),
    /// The links cannot be made.
    #[error("the links cannot be made")]
    Io(#[from] IoError),
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
    /// A tool that is needed is not there.
    #[error("{0} is not on PATH: install it (see p4.org)")]
    Tool(&'static str),
    /// The machine's network refused a part of the topology.
    #[error(
        "the topology cannot be built: it needs root, `ip` and network namespaces; use --io grpc without them"
    )]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A bmv2, its compiler, its control or its packets failed.
    #[error("switch {switch}, a bmv2, cannot be used")]
    Bmv2 {
        /// Its number.
        switch: usize,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A switch in the kernel cannot be loaded.
    #[error("switch {switch} cannot be loaded into the kernel")]
    Kernel {
        /// Its number.
        switch: usize,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A switch cannot be controlled over P4Runtime.
    #[error("switch {switch} cannot be controlled over P4Runtime")]
    Remote {
        /// Its number.
        switch: usize,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A switch has stopped unasked.
    #[error("switch {switch} has stopped unasked; start the run again")]
    SwitchGone {
        /// Its number.
        switch: usize,
    },
    /// A worker failed.
    #[error("rank {rank} stopped")]
    Worker {
        /// Its rank.
        rank: u16,
        /// Its output.
        #[source]
        source: netfold::Error,
    },
    /// The ranks have not closed the slot of a late contribution.
    #[error(
        "no slot was closed, although ranks were late with contributions; this is a bug, please report it"
    )]
    NotClosed,
    /// A worker panicked.
    #[error("rank {rank} panicked; this is a bug, please report it")]
    WorkerPanicked {
        /// Its rank.
        rank: u16,
    },
}

/// One collective operation of all workers in each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Round {
    /// Operations.
    pub operations: u64,
    /// Time of the slowest worker.
    pub elapsed: Duration,
    /// Elements compared, over all workers.
    pub checked: u64,
    /// Of those, elements that were not what they must be.
    pub wrong: u64,
}

impl Round {
    /// Adds what others did at the same time.
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.checked += other.checked;
        self.wrong += other.wrong;
    }
}

/// What one switch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchReport {
    /// Number in the tree.
    pub switch: usize,
    /// Steps from the root.
    pub depth: usize,
    /// Children.
    pub children: u8,
    /// RESULTs sent to all children.
    pub results: u64,
    /// RESULTs repeated to one child.
    pub repeated: u64,
    /// Folds sent to the parent.
    pub up: u64,
    /// Folds sent to the parent again.
    pub up_again: u64,
    /// Packets that were not handled, by reason; reasons with a count of 0 are left out.
    pub dropped: Vec<(&'static str, u64)>,
    /// What the queues of its port to its parent counted, together; where there are any.
    pub uplink: Option<QueueCounters>,
    /// The queues of a port that packets were in, of the port with most; where queues are counted.
    pub queues: Option<usize>,
    /// Bytes of datagrams that it received and sent, where they are counted.
    pub bytes: Option<(u64, u64)>,
}

/// What a run came to, groups included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOutcome {
    /// Packets that workers sent, resends included.
    pub sent: u64,
    /// Of those, resends.
    pub retransmitted: u64,
    /// Results that workers took.
    pub results: u64,
    /// Of those, results whose sum had left the range, and which were asked for once more.
    pub saturated: u64,
    /// Slots that CLOSE completed, at one or more switches.
    pub closed: u64,
    /// Chunks whose result lacks contributions.
    pub partial: u64,
    /// Contributions that results lack, of all ranks.
    pub left_out: u64,
    /// What each switch did.
    pub switches: Vec<SwitchReport>,
}

/// Removes what this process' runs have made in the machine's network, for a process that is about to exit in their midst.
/// Switches end with the process. A run that was killed leaves that to the next one.
pub fn abandon() {
    netfold_testkit::namespace::remove_of(|owner| owner == std::process::id());
}

/// Gives switches the keys of ports that are bound to no peer, as rings are not: the plan's installation binds the others.
fn authenticate_rings(fabric: &mut Fabric) -> Result<(), RunError> {
    for Placed { layout, plan } in &fabric.placed {
        for (switch, place) in layout.switches.iter().zip(plan.switch_plans()) {
            for binding in place.ports.iter().filter(|binding| binding.peer.is_none()) {
                let Some(keys) = &binding.keys else { continue };
                fabric.drivers[*switch].authenticate(binding.port, keys).map_err(RunError::Keys)?;
            }
        }
    }
    Ok(())
}

/// A worker's packet I/O, with its keys where the plan has any.
fn authenticated(
    io: Box<dyn PacketIo>,
    plan: &TreePlan,
    rank: u16,
    datagram_len: usize,
) -> Result<Box<dyn PacketIo>, RunError> {
    let Some(keys) = plan.worker_keys(rank) else { return Ok(io) };
    let mut io = Authenticated::new(io);
    let job = plan.job();
    io.authenticate(PortId(0), &JobKeys { job: job.job, epoch: job.epoch, keys }, datagram_len)?;
    Ok(Box::new(io))
}

/// A job on running switches, and its groups.
pub struct Run {
    config: RunConfig,
    /// Before the fabric, so that workers go first: the job's, then those of groups.
    members: Vec<Members>,
    fabric: Fabric,
    rounds: u64,
}

impl Run {
    /// Builds the topology, starts the switches, installs the job and its groups and connects the workers.
    ///
    /// # Errors
    ///
    /// [`RunError`]; nothing is left running.
    pub fn start(config: RunConfig) -> Result<Self, RunError> {
        refusal::check(&config)?;
        let mut fabric = start_fabric(&config)?;
        authenticate_rings(&mut fabric)?;
        let mut ends: Vec<_> = std::mem::take(&mut fabric.workers).into_iter().map(Some).collect();
        let mut members = Vec::with_capacity(fabric.placed.len());
        for number in 0..fabric.placed.len() {
            members.push(Members::start(&config, &mut fabric, &mut ends, number)?);
        }
        Ok(Self { config, members, fabric, rounds: 0 })
    }

    /// The job's tree.
    pub fn plan(&self) -> &TreePlan {
        &self.fabric.placed[0].plan
    }

    /// What carries the packets, and why that was chosen where there was a choice.
    pub fn carrier(&self) -> (Carrier, Option<&str>) {
        (self.fabric.carrier, self.fabric.note.as_deref())
    }

    /// One collective in each class on new tensors by all workers at once, every element checked.
    ///
    /// # Errors
    ///
    /// The first worker that failed.
    pub fn round(&mut self) -> Result<Round, RunError> {
        self.rounds += 1;
        let outcome = self.members[0].round(&self.config, self.rounds);
        outcome.map_err(|failure| self.failed(failure))
    }

    /// The same by the workers of every group, all groups at once.
    ///
    /// # Errors
    ///
    /// The first worker that failed.
    pub fn group_round(&mut self) -> Result<Round, RunError> {
        self.rounds += 1;
        let (config, number) = (&self.config, self.rounds);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let start = |group| scope.spawn(move || Members::round(group, config, number));
            let groups: Vec<_> = self.members[1..].iter().map(start).collect();
            groups.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut round = Round::default();
        for outcome in outcomes {
            let group = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            round.add(group.map_err(|failure| self.failed(failure))?);
        }
        Ok(round)
    }

    fn failed(&mut self, failure: Failure) -> RunError {
        match failure {
            Failure::Panic { rank } => RunError::WorkerPanicked { rank },
            Failure::Error { rank, source } => match self.fabric.keeper.gone() {
                Some(switch) => RunError::SwitchGone { switch },
                None => RunError::Worker { rank, source },
            },
        }
    }

    /// Reads the switches' counters, withdraws the job and its groups and lets the workers leave.
    ///
    /// # Errors
    ///
    /// When a worker or a switch does not play its part to the end.
    pub fn finish(mut self) -> Result<RunOutcome, RunError> {
        let mut outcome = RunOutcome::default();
        // Switches on rings stop when the last worker leaves, so they are asked first.
        for (switch, place) in self.fabric.placed[0].plan.switch_plans().iter().enumerate() {
            let counted = self.fabric.keeper.counted(switch)?;
            let uplink = place.node.parent.and_then(|parent| counted.queues.as_ref()?.port(parent.port));
            let uplink = uplink.filter(|_| self.config.uplink.is_some());
            let report = report(switch, place.depth, place.node.children, &counted);
            outcome.switches.push(SwitchReport { uplink, ..report });
        }
        for members in self.members.drain(..).rev() {
            members.finish(&mut self.fabric.drivers, &mut outcome)?;
        }
        if self.config.tolerance.any() && outcome.closed == 0 {
            return Err(RunError::NotClosed);
        }
        Ok(outcome)
    }
}

fn report(switch: usize, depth: usize, children: u8, counted: &Counted) -> SwitchReport {
    let result_counter = |index: usize| counted.answers.get(index).copied().unwrap_or(0);
    let reasons = Reason::ALL.iter().zip(&counted.packets).skip(1).filter(|(_, count)| **count > 0);
    SwitchReport {
        switch,
        depth,
        children,
        results: result_counter(0),
        repeated: result_counter(1),
        up: result_counter(2),
        up_again: result_counter(3),
        dropped: reasons.map(|(reason, count)| (reason.name(), *count)).collect(),
        uplink: None,
        queues: counted.queues.as_ref().map(queues_used),
        bytes: counted.bytes,
    }
}

/// The most queues of one port that packets other than control packets were in.
fn queues_used(counted: &QueuesCounters) -> usize {
    let mut ports = std::collections::BTreeMap::<u16, usize>::new();
    for (port, name, _) in &counted.queues {
        *ports.entry(*port).or_default() += usize::from(*name != QueueName::Control);
    }
    ports.into_values().max().unwrap_or(0)
}

fn start_fabric(config: &RunConfig) -> Result<Fabric, RunError> {
    let refuse = |choices| Err(RunError::Carrier { switch: config.switch, carrier: config.carrier, choices });
    let ours = matches!(config.switch, SwitchKind::Software | SwitchKind::Interpreter);
    if config.uplink.is_some() && !ours {
        return Err(RunError::Uplink(config.switch));
    }
    if config.nic.is_some() && (!ours || config.shape.above.len() < 2 || config.carrier == Carrier::XdpKernel)
    {
        return Err(RunError::Nic);
    }
    if config.authenticated && !ours {
        return Err(RunError::Authenticated(config.switch));
    }
    match (config.switch, config.carrier) {
        (SwitchKind::Bmv2, Carrier::Grpc) => bmv2::start(config, None),
        (SwitchKind::Bmv2, Carrier::Veth) => veth::start(config),
        (SwitchKind::Bmv2, Carrier::Auto) => match veth::unavailable(config) {
            None => veth::start(config),
            why => bmv2::start(config, why),
        },
        (SwitchKind::Bmv2, _) => refuse("veth or grpc"),
        (SwitchKind::P4Runtime, Carrier::Auto | Carrier::Udp) => p4runtime::start(config),
        (SwitchKind::P4Runtime, _) => refuse("udp"),
        (SwitchKind::Software, Carrier::XdpKernel) if config.authenticated || config.uplink.is_some() => {
            refuse("rings, udp or shm: the kernel neither authenticates packets nor has queues")
        }
        (SwitchKind::Software, Carrier::XdpKernel) => kernel::start(config),
        (_, Carrier::Auto) => software::start(config, Carrier::Rings),
        (_, Carrier::Veth | Carrier::Grpc | Carrier::XdpKernel) => {
            refuse("rings, udp, shm, af-packet, packet-ring, af-xdp or dpdk:net_af_packet")
        }
        _ => software::start(config, config.carrier),
    }
}
