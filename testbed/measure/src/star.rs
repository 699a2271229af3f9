//! Netfold against its peers on the same links: a star of hosts, each in a network namespace of its own, with the switch in the
//! middle.
//!
//! The same collective is timed the same way by all: two barriers, the call, as long as the slowest rank takes, and a barrier, so that
//! no rank's check of the result takes the processor from one that is not done. Systems take turns, round after round, so that
//! whatever else the machine does meets all of them. Open MPI runs with each of its algorithms; the fastest counts.

mod collective;
pub(crate) mod controlled;
pub(crate) mod network;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netfold::{DType, LaneOps, Mode, ReduceOp};
use serde::Serialize;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::sample::Sample;

use super::peers::{
    Measured, PeerError, Peers, Process, TURN_TIMEOUT, Turn, algorithm_name, algorithm_program,
    algorithm_words, keep_fastest_algorithms,
};
pub use collective::StarCollective;
use controlled::Controlled;
use network::Star;

/// What to measure.
#[derive(Debug, Clone)]
pub struct StarConfig {
    /// Number of hosts, 2 to 32.
    pub hosts: u16,
    /// Rate of each link in each direction, bits a second; `None` for links as fast as they go.
    pub rate: Option<f64>,
    /// MTU of each link in bytes.
    pub mtu: u32,
    /// Payloads of the switch, in bytes.
    pub payloads: Vec<u32>,
    /// What they do together.
    pub collective: StarCollective,
    /// Element type of the tensor.
    pub dtype: DType,
    /// Reduction, of what reduces.
    pub op: ReduceOp,
    /// Tensor bytes.
    pub bytes: u64,
    /// Rounds, in which every system has one turn.
    pub rounds: u32,
    /// Timed iterations of a turn.
    pub iterations: u32,
    /// Iterations of a turn before those.
    pub warmup: u32,
    /// Slots that each job asks for: the packets in flight.
    pub slots: u32,
    /// The `netfold` command.
    pub program: PathBuf,
    /// Whether to measure peers, too.
    pub peers: bool,
    /// For how long switch and ranks poll for packets before they sleep, in jobs that are measured beside those that do not poll; zero: there are
    /// none.
    pub busy_poll: Duration,
    /// File of the group key with which confidential jobs are measured beside plain ones.
    pub confidential: Option<PathBuf>,
    /// Whether jobs of authenticated packets are measured beside plain ones.
    pub authenticated: bool,
}

impl StarConfig {
    /// The collective and, where it is not a sum, the reduction.
    pub fn what(&self) -> String {
        match self.op {
            ReduceOp::Sum => self.collective.name().into(),
            op => format!("{} ({op})", self.collective.name()),
        }
    }

    /// For how many microseconds switch and ranks of a system poll.
    fn busy_poll_of(&self, system: System) -> String {
        let time = if matches!(system, System::Polling(_)) { self.busy_poll } else { Duration::ZERO };
        time.as_micros().to_string()
    }
}

/// One system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Netfold over the switch.
    Netfold(Mode),
    /// The same in a confidential job.
    Confidential(Mode),
    /// The same in a job of authenticated packets, which a controller admits by TLS.
    Authenticated(Mode),
    /// The same where switch and ranks poll before they sleep.
    Polling(Mode),
    /// Netfold's own ring, without a switch.
    Ring,
    /// PyTorch's gloo.
    Gloo,
    /// Open MPI with one of its algorithms; 0 for its own choice.
    OpenMpi(u8),
}

impl System {
    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Netfold(mode) => format!("netfold {mode}"),
            Self::Confidential(mode) => format!("netfold {mode} confidential"),
            Self::Authenticated(mode) => format!("netfold {mode} authenticated"),
            Self::Polling(mode) => format!("netfold {mode} polling"),
            Self::Ring => "netfold ring".into(),
            Self::Gloo => "gloo".into(),
            Self::OpenMpi(algorithm) => format!("open mpi, algorithm {algorithm}"),
        }
    }

    /// Whether it is measured to compare with.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Gloo | Self::OpenMpi(_))
    }

    /// The system that differs in that its job is neither confidential nor authenticated, or that it does not poll.
    pub fn plain(self) -> Option<Self> {
        match self {
            Self::Confidential(mode) | Self::Authenticated(mode) | Self::Polling(mode) => {
                Some(Self::Netfold(mode))
            }
            _ => None,
        }
    }

    /// Bytes of lanes for each byte of a tensor that is reduced through a switch by `hosts` hosts; `None` where it is not reduced there.
    fn wire_share(self, (dtype, op): (DType, ReduceOp), hosts: u16) -> Option<f64> {
        let (Self::Netfold(mode)
        | Self::Confidential(mode)
        | Self::Authenticated(mode)
        | Self::Polling(mode)) = self
        else {
            return None;
        };
        netfold::switch_reduces(mode, LaneOps::ALL, dtype, op).ok()?;
        let floats = is_quantised(dtype, op);
        Some(match (dtype, mode.lanes()) {
            (_, Some(lanes)) if floats => lanes.element_bytes() as f64 / dtype.size() as f64,
            // Limbs, if there are more words of them than packets are cut into.
            (DType::I64 | DType::U64, _) if op == ReduceOp::Sum => {
                let spread = hosts.next_power_of_two().trailing_zeros().max(1);
                1.0 + 0.5 / f64::from(16 / spread)
            }
            _ => 1.0,
        })
    }
}

/// Whether a job's mode matters: sums of floating-point numbers are of blocks.
fn is_quantised(dtype: DType, op: ReduceOp) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) && matches!(op, ReduceOp::Sum | ReduceOp::Avg)
}

/// What one system reached.
#[derive(Debug, Clone, Serialize)]
pub struct StarRow {
    /// Which.
    #[serde(skip)]
    pub system: System,
    /// Its name.
    pub name: String,
    /// What it did.
    pub collective: StarCollective,
    /// Element type.
    #[serde(serialize_with = "named")]
    pub datatype: DType,
    /// Reduction.
    #[serde(serialize_with = "named")]
    pub op: ReduceOp,
    /// Number of hosts.
    pub hosts: u16,
    /// Tensor bytes.
    pub bytes: u64,
    /// Rate of the links, bits a second.
    pub rate: Option<f64>,
    /// MTU of the links in bytes.
    pub mtu: u32,
    /// Seconds: every iteration of every round, ascending.
    pub times: Vec<f64>,
    /// Tensor bytes over the median, 10^6 bytes a second.
    #[serde(rename = "algbw_MBps")]
    pub algbw: f64,
    /// Share of what the links allow: of an all-reduce M/B through a switch (half of that in 16 bits), 2M(n-1)/(nB) in a ring, each less what
    /// the shapers let pass at once.
    pub bound_share: Option<f64>,
    /// Wrong elements.
    pub wrong: u64,
    /// Fraction of rank 0's packets that were retransmitted, warm-up included.
    pub retransmitted_share: Option<f64>,
}

impl StarRow {
    /// Median, shortest and longest time in seconds.
    pub fn spread(&self) -> (f64, f64, f64) {
        let times = &self.times;
        match (times.first(), times.last()) {
            (Some(min), Some(max)) => (times[times.len() / 2], *min, *max),
            _ => (f64::NAN, f64::NAN, f64::NAN),
        }
    }
}

/// Why a star could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StarError {
    /// The machine gives no namespaces.
    #[error("the star of namespaces cannot be built; it needs root, iproute2 and tbf")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The controller's certificate cannot be made.
    #[error("the certificate of the measured controller cannot be made")]
    Certificate(#[source] rcgen::Error),
    /// A peer, or one of Netfold's own programs, failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

fn named<S: serde::Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Which jobs are measured beside plain ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variants {
    /// Confidential jobs.
    pub confidential: bool,
    /// Jobs of authenticated packets.
    pub authenticated: bool,
    /// Jobs whose ranks and switch poll before they sleep.
    pub polling: bool,
}

/// Every system that can be measured. Peers are measured with sums of `f32`, and modes where blocks are summed.
pub fn systems(
    peers: &Peers,
    collective: StarCollective,
    (dtype, op): (DType, ReduceOp),
    variants: Variants,
) -> Vec<System> {
    let mut systems = Vec::new();
    let modes = [Mode::Bfp32, Mode::Bfp16];
    for mode in &modes[..if is_quantised(dtype, op) { 2 } else { 1 }] {
        systems.push(System::Netfold(*mode));
        systems.extend(variants.confidential.then_some(System::Confidential(*mode)));
        systems.extend(variants.authenticated.then_some(System::Authenticated(*mode)));
        systems.extend(variants.polling.then_some(System::Polling(*mode)));
    }
    systems.push(System::Ring);
    if (dtype, op) != (DType::F32, ReduceOp::Sum) {
        return systems;
    }
    let gloo = peers.torch.is_some() && (peers.gloo_scatters || !collective.scatters());
    systems.extend(gloo.then_some(System::Gloo));
    systems.extend(peers.algorithms(collective.name()).map(System::OpenMpi));
    systems
}

/// Measures `systems` on one star; `progress` is called with each turn before it begins.
///
/// After the first round only the fastest two of Open MPI's algorithms go on.
///
/// # Errors
///
/// [`StarError`].
pub fn measure(
    config: &StarConfig,
    peers: &Peers,
    systems: &[System],
    mut progress: impl FnMut(&str),
) -> Result<Vec<StarRow>, StarError> {
    let folder = TemporaryDirectory::create("star")
        .map_err(|source| PeerError::File { path: std::env::temp_dir(), source })?;
    let star = Star::build(folder, config.hosts, config.rate, config.mtu)
        .map_err(|error| StarError::Network(Box::new(error)))?;
    let mut rows: Vec<Measured<System>> = systems.iter().map(|system| Measured::new(*system)).collect();
    for round in 0..config.rounds {
        if round == 1 {
            keep_fastest_algorithms(&mut rows, algorithm_of);
        }
        for row in &mut rows {
            progress(&format!("{} hosts, round {}: {}", config.hosts, round + 1, row.system.name()));
            let turn = turn(&star, config, peers, row.system)?;
            row.turn.add(turn);
        }
    }
    Ok(rows.into_iter().map(|measured| row(config, measured)).collect())
}

fn row(config: &StarConfig, measured: Measured<System>) -> StarRow {
    let median = measured.median();
    let Measured { system, turn: Turn { times, wrong, retransmitted, sent } } = measured;
    let (bytes, n) = (config.bytes as f64, f64::from(config.hosts));
    let bound = config.rate.map(|rate| {
        let wire = match system.wire_share((config.dtype, config.op), config.hosts) {
            Some(share) => bytes * config.collective.switch_share(share, n),
            None => bytes * config.collective.ring_share(n),
        };
        network::least_time(wire, rate)
    });
    StarRow {
        system,
        name: match system {
            System::OpenMpi(algorithm) => algorithm_name(config.collective.name(), algorithm),
            _ => system.name(),
        },
        collective: config.collective,
        datatype: config.dtype,
        op: config.op,
        hosts: config.hosts,
        bytes: config.bytes,
        rate: config.rate,
        mtu: config.mtu,
        algbw: bytes / median / 1e6,
        bound_share: bound.map(|bound| bound / median),
        times: times.into_iter().collect::<Sample>().into_values(),
        wrong,
        retransmitted_share: (sent > 0).then(|| retransmitted as f64 / sent as f64),
    }
}

/// Which of Open MPI's algorithms a system is.
fn algorithm_of(system: &System) -> Option<u8> {
    if let System::OpenMpi(algorithm) = system { Some(*algorithm) } else { None }
}

fn turn(star: &Star, config: &StarConfig, peers: &Peers, system: System) -> Result<Turn, StarError> {
    match system {
        System::Netfold(_)
        | System::Confidential(_)
        | System::Authenticated(_)
        | System::Polling(_)
        | System::Ring => netfold(star, config, system),
        System::Gloo => gloo(star, config, peers),
        System::OpenMpi(algorithm) => open_mpi(star, config, peers, algorithm),
    }
}

/// What ranks join by, and what has to run meanwhile.
enum Middle {
    /// Nothing: they are a ring.
    Ring,
    /// A switch with a control port of its own.
    Switch { _process: Process },
    /// A switch and its controller.
    Controlled(Controlled),
}

impl Middle {
    fn start(star: &Star, config: &StarConfig, system: System, deadline: Instant) -> Result<Self, StarError> {
        let program = config.program.to_string_lossy().into_owned();
        let busy_poll = config.busy_poll_of(system);
        match system {
            System::Ring => return Ok(Self::Ring),
            System::Authenticated(_) => {
                return Controlled::start(star, &program, &busy_poll, deadline).map(Self::Controlled);
            }
            _ => {}
        }
        let mut command = star.on_switch(&program);
        command.args(["--json", "switch", "--exit-with-stdin", "--listen", &Star::switch().to_string()]);
        let payloads: Vec<_> = config.payloads.iter().map(u32::to_string).collect();
        command.args(["--busy-poll", &busy_poll, "--payload", &payloads.join(",")]);
        let mut process = Process::start("the switch", &mut command)?;
        process.expect(deadline, |line| line.contains("\"listening\"").then_some(()))?;
        Ok(Self::Switch { _process: process })
    }

    /// Options of `netfold bench perf`.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Ring => Vec::new(),
            Self::Switch { .. } => vec!["--switch".into(), Star::switch().to_string()],
            Self::Controlled(controlled) => controlled.arguments().into(),
        }
    }
}

/// Netfold through the switch, or in a ring. Each iteration is a line of its own, so that times can be merged.
fn netfold(star: &Star, config: &StarConfig, system: System) -> Result<Turn, StarError> {
    let (mode, key) = match system {
        System::Confidential(mode) => (Some(mode), config.confidential.as_deref()),
        System::Polling(mode) | System::Authenticated(mode) | System::Netfold(mode) => (Some(mode), None),
        _ => (None, None),
    };
    let deadline = Instant::now() + TURN_TIMEOUT;
    let program = config.program.to_string_lossy().into_owned();
    let middle = Middle::start(star, config, system, deadline)?;
    let meeting = format!("{}:20040", Star::address_of(0));
    let mut ranks = Vec::new();
    for rank in 0..star.hosts() {
        let mut command = star.on_host(rank, &program);
        command.args([
            "--json",
            "bench",
            "perf",
            "--rank",
            &rank.to_string(),
            "--world",
            &star.hosts().to_string(),
        ]);
        command.args(["--rendezvous", &meeting, "--exit-with-stdin", "--each", "--in-place-only"]);
        command.args(["-d", config.dtype.name(), "-o", config.op.name()]);
        command.args(["-b", &config.bytes.to_string(), "-e", &config.bytes.to_string()]);
        command.args(["--slots", &config.slots.to_string()]).args(config.collective.arguments());
        command.args(["-n", &config.iterations.to_string(), "-w", &config.warmup.to_string()]);
        if let Some(mode) = mode {
            command.args(["--mode", &mode.to_string(), "--no-fall-back"]);
            command.args(middle.arguments()).args(["--busy-poll", &config.busy_poll_of(system)]);
        }
        if let Some(key) = key {
            command.arg("--confidential").arg(key);
        }
        ranks.push(Process::start(&format!("rank {rank}"), &mut command)?);
    }
    let turn = ranks[0].expect(deadline, |line| serde_json::from_str::<Turn>(line).ok());
    drop(ranks);
    drop(middle);
    Ok(turn?)
}

fn gloo(star: &Star, config: &StarConfig, peers: &Peers) -> Result<Turn, StarError> {
    let python = peers.torch.as_deref().unwrap_or(Path::new("python3")).to_string_lossy().into_owned();
    let meeting = format!("{}:20041", Star::address_of(0));
    let mut ranks = Vec::new();
    for rank in 0..star.hosts() {
        let mut command = star.on_host(rank, &python);
        command.arg(&peers.gloo).args([rank.to_string(), star.hosts().to_string(), meeting.clone()]);
        command.args([config.bytes.to_string(), config.iterations.to_string(), config.warmup.to_string()]);
        command.arg(config.collective.name());
        command.env("GLOO_SOCKET_IFNAME", "eth0").env("OMP_NUM_THREADS", "1");
        ranks.push(Process::start(&format!("gloo rank {rank}"), &mut command)?);
    }
    Ok(ranks[0].expect(Instant::now() + TURN_TIMEOUT, |line| serde_json::from_str(line).ok())?)
}

fn open_mpi(star: &Star, config: &StarConfig, peers: &Peers, algorithm: u8) -> Result<Turn, StarError> {
    // Open MPI starts its daemons through a remote shell: this one enters the host's namespace, under a name of its own.
    let prefix = star.host_name(0);
    let prefix = prefix.trim_end_matches('0');
    let agent = format!(
        "#!/bin/sh\nhost=\"$1\"; shift\nn=$((${{host##*.}} - 1))\n\
         exec ip netns exec {prefix}$n unshare --uts sh -c \"hostname h$n; $*\"\n"
    );
    let written = std::fs::write(&peers.agent, agent).and_then(|()| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&peers.agent, std::fs::Permissions::from_mode(0o755))
    });
    written.map_err(|source| PeerError::File { path: peers.agent.clone(), source })?;
    let hosts: Vec<String> = (0..star.hosts()).map(|host| format!("{}:1", Star::address_of(host))).collect();
    let mut words = format!(
        "hostname h0; exec mpirun --allow-run-as-root -np {} --host {} --mca plm_rsh_agent {} --mca btl tcp,self \
         --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1",
        star.hosts(),
        hosts.join(","),
        peers.agent.display()
    );
    let collective = config.collective.name();
    for word in algorithm_words(collective, algorithm) {
        words += " ";
        words += &word;
    }
    let program = peers.mpi.clone().unwrap_or_default();
    words += &format!(" {} {} {} {}", program.display(), config.bytes, config.iterations, config.warmup);
    words += &format!(" {}", algorithm_program(collective, algorithm));
    let mut command = star.on_host(0, "unshare");
    command.args(["--uts", "sh", "-c", &words]);
    let mut process = Process::start("mpirun", &mut command)?;
    Ok(process.expect(Instant::now() + TURN_TIMEOUT, |line| serde_json::from_str(line).ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(hosts: u16) -> StarConfig {
        StarConfig {
            hosts,
            rate: Some(2e8),
            mtu: 1500,
            payloads: vec![1408],
            collective: StarCollective::AllReduce,
            dtype: DType::F32,
            op: ReduceOp::Sum,
            bytes: 16 << 20,
            rounds: 1,
            iterations: 1,
            warmup: 0,
            slots: netfold::Builder::SLOTS_DEFAULT,
            program: PathBuf::new(),
            peers: true,
            busy_poll: Duration::ZERO,
            confidential: None,
            authenticated: false,
        }
    }

    fn measured(system: System, median: f64) -> Measured<System> {
        let mut measured = Measured::new(system);
        measured.turn.times.push(median);
        measured
    }

    #[test]
    fn jobs_that_poll_are_measured_beside_those_that_do_not() {
        let peers = Peers::default();
        let sums = (DType::F32, ReduceOp::Sum);
        let all = |polling| {
            let variants = Variants { polling, ..Variants::default() };
            systems(&peers, StarCollective::AllReduce, sums, variants)
        };
        let polling = System::Polling(Mode::Bfp16);
        assert!(!all(false).contains(&polling));
        let all = all(true);
        assert!(all.contains(&polling) && all.contains(&polling.plain().unwrap()));
        assert_eq!(polling.wire_share(sums, 4), System::Netfold(Mode::Bfp16).wire_share(sums, 4));
    }

    #[test]
    fn bounds_are_those_of_the_links() {
        let bound = |system, median: f64| row(&config(4), measured(system, median)).bound_share.unwrap();
        // 16 MiB at 200 Mbit/s: 0.671 s through a switch, half of it in 16 bits, 1.007 s in a ring of four; all less 3.28 ms for the
        // 80 KiB that pass at once.
        assert!((bound(System::Netfold(Mode::Bfp32), 0.667_811_84) - 1.0).abs() < 1e-9);
        assert!((bound(System::Netfold(Mode::Bfp16), 0.332_267_52) - 1.0).abs() < 1e-9);
        assert!((bound(System::Gloo, 1.003_356_16) - 1.0).abs() < 1e-9);
        let share = |dtype, op| System::Netfold(Mode::Bfp16).wire_share((dtype, op), 4);
        assert_eq!(share(DType::F16, ReduceOp::Sum), Some(1.0));
        assert_eq!(share(DType::F16, ReduceOp::Max), Some(1.0));
        assert_eq!(share(DType::I64, ReduceOp::Sum), Some(1.0625), "17 words for 8 elements");
        assert_eq!(share(DType::F64, ReduceOp::Sum), None, "a ring");
    }
}
