//! The ranks of one host: shared memory beside what Open MPI and gloo have for it, and the Python package beside the Rust library.
//!
//! Timed as [`star`](super::star) is, without links: systems take turns, and every one folds the same tensors in place.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use netfold_io::vacant_address;
use serde::Serialize;

use netfold_testkit::sample::Sample;

use super::peers::{
    Measured, PeerError, Peers, Process, TURN_TIMEOUT, Turn, algorithm_name, algorithm_words,
    keep_fastest_algorithms,
};

/// What is measured.
const ALL_REDUCE: &str = "all-reduce";

/// What to measure.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Processes, 2 to 32.
    pub ranks: u16,
    /// Tensor bytes.
    pub bytes: u64,
    /// Rounds, in which every system has one turn.
    pub rounds: u32,
    /// Timed iterations of a turn.
    pub iterations: u32,
    /// Iterations of a turn before those.
    pub warmup: u32,
    /// Slots for jobs at the switch: the packets in flight.
    pub slots: u32,
    /// The `netfold` command.
    pub program: PathBuf,
}

/// How the ranks sum, and in which language they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// In the memory that they share, the default of ranks on one host.
    Shared(Language),
    /// By a software switch on the same host, as `bfp32`, over loopback.
    Switch(Language),
    /// PyTorch's gloo, over loopback.
    Gloo,
    /// Open MPI with one of its algorithms; 0 for its own choice. It shares memory, too.
    OpenMpi(u8),
}

/// What ranks of Netfold are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `netfold bench perf`.
    Rust,
    /// The package for Python, with tensors of numpy.
    Python,
}

impl System {
    /// The name in tables.
    pub fn name(self) -> String {
        let (how, language) = match self {
            Self::Shared(language) => ("shared memory", language),
            Self::Switch(language) => ("switch", language),
            Self::Gloo => return "gloo".into(),
            Self::OpenMpi(algorithm) => return algorithm_name(ALL_REDUCE, algorithm),
        };
        match language {
            Language::Rust => format!("netfold, {how}"),
            Language::Python => format!("netfold, {how}, python"),
        }
    }

    /// Whether it is measured to compare with.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Gloo | Self::OpenMpi(_))
    }

    fn algorithm(&self) -> Option<u8> {
        if let Self::OpenMpi(algorithm) = self { Some(*algorithm) } else { None }
    }
}

/// Every system that can be measured. Python beside Rust is wanted where tensors are large: small ones are not.
pub fn systems(peers: &Peers) -> Vec<System> {
    let mut languages = vec![Language::Rust];
    languages.extend(peers.python.is_some().then_some(Language::Python));
    let shared = languages.iter().map(|language| System::Shared(*language));
    let switch = languages.iter().map(|language| System::Switch(*language));
    let gloo = peers.torch.is_some().then_some(System::Gloo);
    shared.chain(switch).chain(gloo).chain(peers.algorithms(ALL_REDUCE).map(System::OpenMpi)).collect()
}

/// What one system reached.
#[derive(Debug, Clone, Serialize)]
pub struct HostRow {
    /// Which.
    #[serde(skip)]
    pub system: System,
    /// Its name.
    pub name: String,
    /// Processes.
    pub ranks: u16,
    /// Tensor bytes.
    pub bytes: u64,
    /// Seconds: every iteration of every round, ascending.
    pub times: Vec<f64>,
    /// Wrong elements.
    pub wrong: u64,
    /// What it is to be compared with: the fastest peer, or for Python the same in Rust.
    pub beside: Option<String>,
    /// Its median over the other's.
    pub of_that: Option<f64>,
}

impl HostRow {
    /// Median, shortest and longest time in seconds.
    pub fn spread(&self) -> (f64, f64, f64) {
        match (self.times.first(), self.times.last()) {
            (Some(min), Some(max)) => (self.times[self.times.len() / 2], *min, *max),
            _ => (f64::NAN, f64::NAN, f64::NAN),
        }
    }
}

/// Measures `systems` in turns; `progress` is called with each turn before it begins. After the first round only the fastest two of Open MPI's
/// algorithms go on.
///
/// # Errors
///
/// [`PeerError`]
pub fn measure(
    config: &HostConfig,
    peers: &Peers,
    systems: &[System],
    mut progress: impl FnMut(&str),
) -> Result<Vec<HostRow>, PeerError> {
    let mut rows: Vec<Measured<System>> = systems.iter().map(|system| Measured::new(*system)).collect();
    for round in 0..config.rounds {
        if round == 1 {
            keep_fastest_algorithms(&mut rows, System::algorithm);
        }
        for row in &mut rows {
            progress(&format!("{} bytes, round {}: {}", config.bytes, round + 1, row.system.name()));
            row.turn.add(turn(config, peers, row.system)?);
        }
    }
    Ok(compared(config, rows))
}

fn compared(config: &HostConfig, rows: Vec<Measured<System>>) -> Vec<HostRow> {
    let medians: Vec<(System, f64)> = rows.iter().map(|row| (row.system, row.median())).collect();
    let of = |system| medians.iter().copied().find(|(other, _)| *other == system);
    let peers = medians.iter().copied().filter(|(system, _)| system.is_peer());
    let best = peers.min_by(|left, right| left.1.total_cmp(&right.1));
    let row = |measured: Measured<System>| {
        let (system, median) = (measured.system, measured.median());
        let beside = match system {
            System::Shared(Language::Python) => of(System::Shared(Language::Rust)),
            System::Switch(Language::Python) => of(System::Switch(Language::Rust)),
            System::Gloo | System::OpenMpi(_) => None,
            _ => best,
        };
        let times: Sample = measured.turn.times.into_iter().collect();
        HostRow {
            system,
            name: system.name(),
            ranks: config.ranks,
            bytes: config.bytes,
            times: times.into_values(),
            wrong: measured.turn.wrong,
            beside: beside.map(|(other, _)| other.name()),
            of_that: beside.map(|(_, other)| median / other),
        }
    };
    rows.into_iter().map(row).collect()
}

fn turn(config: &HostConfig, peers: &Peers, system: System) -> Result<Turn, PeerError> {
    match system {
        System::Shared(language) => netfold(config, peers, language, None),
        System::Switch(language) => {
            let at = vacant("the switch")?;
            let mut command = Command::new(&config.program);
            command.args(["--json", "switch", "--exit-with-stdin", "--listen", &at.to_string()]);
            let mut switch = Process::start("the switch", &mut command)?;
            let deadline = Instant::now() + TURN_TIMEOUT;
            switch.expect(deadline, |line| line.contains("\"listening\"").then_some(()))?;
            netfold(config, peers, language, Some(at))
        }
        System::Gloo => {
            let python = peers.torch.as_deref().unwrap_or(Path::new("python3"));
            ranks(config, |rank, meeting| {
                let mut command = Command::new(python);
                command.arg(&peers.gloo).args(place(config, rank, meeting)).args(amounts(config));
                command.env("GLOO_SOCKET_IFNAME", "lo").env("OMP_NUM_THREADS", "1");
                command
            })
        }
        System::OpenMpi(algorithm) => {
            let mut command = Command::new("mpirun");
            command.args(["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
            command.args(["-np", &config.ranks.to_string()]).args(algorithm_words(ALL_REDUCE, algorithm));
            command.arg(peers.mpi.as_deref().unwrap_or(Path::new("mpi"))).args(amounts(config));
            read_times(&mut Process::start("mpirun", &mut command)?)
        }
    }
}

/// Ranks of Netfold, in shared memory or at a switch.
fn netfold(
    config: &HostConfig,
    peers: &Peers,
    language: Language,
    switch: Option<SocketAddr>,
) -> Result<Turn, PeerError> {
    ranks(config, |rank, meeting| match language {
        Language::Rust => {
            let mut command = Command::new(&config.program);
            command.args(["--json", "bench", "perf", "--exit-with-stdin", "--each", "--in-place-only"]);
            command.args(["--rank", &rank.to_string(), "--world", &config.ranks.to_string()]);
            command.args(["--rendezvous", &meeting.to_string(), "--slots", &config.slots.to_string()]);
            command.args(["-b", &config.bytes.to_string(), "-e", &config.bytes.to_string()]);
            command.args(["-n", &config.iterations.to_string(), "-w", &config.warmup.to_string()]);
            if let Some(switch) = switch {
                command.args(["--no-shared-memory", "--no-fall-back", "--switch", &switch.to_string()]);
            }
            command
        }
        Language::Python => {
            let mut command = Command::new(peers.python.as_deref().unwrap_or(Path::new("python3")));
            command.arg(&peers.bindings).args(place(config, rank, meeting)).args(amounts(config));
            command.arg(config.slots.to_string()).args(switch.map(|switch| switch.to_string()));
            command
        }
    })
}

/// Starts all ranks and waits for the output of the first.
fn ranks(config: &HostConfig, command: impl Fn(u16, SocketAddr) -> Command) -> Result<Turn, PeerError> {
    let meeting = vacant("the ranks")?;
    let start = |rank| Process::start(&format!("rank {rank}"), &mut command(rank, meeting));
    let mut ranks = (0..config.ranks).map(start).collect::<Result<Vec<_>, _>>()?;
    read_times(&mut ranks[0])
}

fn read_times(process: &mut Process) -> Result<Turn, PeerError> {
    process.expect(Instant::now() + TURN_TIMEOUT, |line| serde_json::from_str(line).ok())
}

fn vacant(name: &str) -> Result<SocketAddr, PeerError> {
    vacant_address().map_err(|source| PeerError::Start { name: name.into(), source })
}

fn place(config: &HostConfig, rank: u16, meeting: SocketAddr) -> [String; 3] {
    [rank.to_string(), config.ranks.to_string(), meeting.to_string()]
}

fn amounts(config: &HostConfig) -> [String; 3] {
    [config.bytes.to_string(), config.iterations.to_string(), config.warmup.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_compared_with_what_it_is_to_be_compared_with() {
        let config = HostConfig {
            ranks: 4,
            bytes: 4096,
            rounds: 1,
            iterations: 1,
            warmup: 0,
            slots: netfold::Builder::SLOTS_DEFAULT,
            program: PathBuf::new(),
        };
        let measured = |system, median| {
            let mut measured = Measured::new(system);
            measured.turn.times.push(median);
            measured
        };
        let rows = compared(
            &config,
            vec![
                measured(System::Shared(Language::Rust), 1.0),
                measured(System::Shared(Language::Python), 1.5),
                measured(System::Switch(Language::Rust), 8.0),
                measured(System::Switch(Language::Python), 4.0),
                measured(System::Gloo, 16.0),
                measured(System::OpenMpi(0), 2.0),
            ],
        );
        let ratios: Vec<_> = rows.iter().map(|row| (row.beside.as_deref(), row.of_that)).collect();
        assert_eq!(
            ratios,
            [
                (Some("open mpi, default"), Some(0.5)),
                (Some("netfold, shared memory"), Some(1.5)),
                (Some("open mpi, default"), Some(4.0)),
                (Some("netfold, switch"), Some(0.5)),
                (None, None),
                (None, None),
            ]
        );
    }
}
