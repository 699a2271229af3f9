//! Whom Netfold is compared with: PyTorch's gloo and Open MPI, and its own Python package beside its Rust one.
//!
//! Each peer is a program of a page that times collectives as `netfold bench perf` does: two barriers (in the first, ranks wait for those that
//! prepare longer; from the second all begin at once), the call, as long as the slowest rank takes, and a barrier, so that no rank's check of
//! the result takes the processor from one that is not done. It prints one line, JSON with `times` in seconds and the number of `wrong`
//! elements.

mod process;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use netfold_testkit::sample::Sample;

pub(crate) use process::Process;

/// Longest time for one turn of one system.
pub(crate) const TURN_TIMEOUT: Duration = Duration::from_secs(180);

/// Open MPI's algorithms of a collective, by the component `tuned`: its parameter, and their names in order of number.
struct Algorithms {
    parameter: &'static str,
    names: &'static [&'static str],
}

/// The algorithms of a collective. A reduce-scatter and an all-gather at the same time are non-blocking calls, which have one algorithm each; ways
/// to do both are these, or the blocking calls one after the other.
fn algorithms_of(collective: &str) -> Algorithms {
    let (parameter, names): (_, &[_]) = match collective {
        "reduce-scatter" => (
            "coll_tuned_reduce_scatter_block_algorithm",
            &["default", "linear", "recursive doubling", "recursive halving", "butterfly"],
        ),
        "all-gather" => (
            "coll_tuned_allgather_algorithm",
            &["default", "linear", "bruck", "recursive doubling", "ring", "neighbor exchange"],
        ),
        "broadcast" => (
            "coll_tuned_bcast_algorithm",
            &[
                "default",
                "linear",
                "chain",
                "pipeline",
                "split binary tree",
                "binary tree",
                "binomial tree",
                "knomial tree",
                "scatter, allgather",
                "scatter, allgather ring",
            ],
        ),
        "overlap" => ("", &["non-blocking", "one after the other"]),
        _ => (
            "coll_tuned_allreduce_algorithm",
            &[
                "default",
                "linear",
                "nonoverlapping",
                "recursive doubling",
                "ring",
                "segmented ring",
                "rabenseifner",
            ],
        ),
    };
    Algorithms { parameter, names }
}

/// Why a program of a comparison gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// A program cannot be started.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{name} {what}{}", if .stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Process {
        /// Which.
        name: String,
        /// How.
        what: String,
        /// The end of its standard error, or of its output if there is none.
        stderr: String,
    },
    /// A file for a peer cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Peers that can be measured on this machine, and why not the others.
#[derive(Debug, Default)]
pub struct Peers {
    /// A Python with torch and gloo, and its program.
    pub(crate) torch: Option<PathBuf>,
    pub(crate) gloo: PathBuf,
    /// Whether its gloo has reduce-scatter.
    pub(crate) gloo_scatters: bool,
    /// A Python with netfold and numpy, and its program.
    pub(crate) python: Option<PathBuf>,
    pub(crate) bindings: PathBuf,
    /// The program for Open MPI.
    pub(crate) mpi: Option<PathBuf>,
    /// Where a remote shell for it may be written.
    pub(crate) agent: PathBuf,
    folder: Option<PathBuf>,
    /// One line for each peer that is absent.
    pub absent: Vec<String>,
}

impl Peers {
    /// Looks for a Python with torch and gloo, and for Open MPI; compiles its program.
    ///
    /// # Errors
    /// [`PeerError::File`]
    pub fn find() -> Result<Self, PeerError> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let folder = temporary.join(format!("{FOLDER}{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
            written.map(|()| path.clone()).map_err(|source| PeerError::File { path, source })
        };
        let mut peers = Self::default();
        peers.folder = Some(folder.clone());
        peers.gloo = write("gloo.py", include_str!("peers/gloo.py"))?;
        peers.bindings = write("bindings.py", include_str!("peers/bindings.py"))?;
        let source = write("mpi.c", include_str!("peers/mpi.c"))?;
        peers.agent = write("agent", "#!/bin/sh\n")?;
        peers.torch =
            python_that("import torch.distributed as d; assert d.is_gloo_available()", "NETFOLD_TEST_TORCH");
        if peers.torch.is_none() {
            peers.absent.push("gloo: no Python with torch (python3-torch on Debian)".into());
        } else {
            peers.gloo_scatters = python_that(SCATTERS, "NETFOLD_TEST_TORCH") == peers.torch;
            if !peers.gloo_scatters {
                peers.absent.push("gloo's reduce-scatter, and overlap: this PyTorch's gloo has none".into());
            }
        }
        peers.compile(&source, folder.join("mpi"));
        Ok(peers)
    }

    /// Looks for a Python with this package as well: `NETFOLD_TEST_PYTHON`, then those of the system.
    #[must_use]
    pub fn with_python(mut self) -> Self {
        self.python = python_that("import numpy, netfold; netfold.Communicator", "NETFOLD_TEST_PYTHON");
        if self.python.is_none() {
            let how = "pip install ./hostlib/python, and name that Python in NETFOLD_TEST_PYTHON if it is not on PATH";
            self.absent.push(format!("python: no Python with netfold and numpy ({how})"));
        }
        self
    }

    /// Open MPI's algorithms of a collective that can be measured, 0 for its own choice.
    pub(crate) fn algorithms(&self, collective: &str) -> std::ops::Range<u8> {
        0..if self.mpi.is_some() { algorithms_of(collective).names.len() as u8 } else { 0 }
    }

    fn compile(&mut self, source: &Path, program: PathBuf) {
        let compiled =
            Command::new("mpicc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).output();
        match compiled {
            Ok(output) if output.status.success() => self.mpi = Some(program),
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                self.absent.push(format!("open mpi: mpicc failed: {stderr}"));
            }
            Err(_) => {
                self.absent.push("open mpi: no mpicc (openmpi-bin and libopenmpi-dev on Debian)".into());
            }
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A reduce-scatter of one rank.
const SCATTERS: &str = "import tempfile, torch, torch.distributed as d; \
     d.init_process_group('gloo', init_method='file://' + tempfile.mktemp(), rank=0, world_size=1); \
     d.reduce_scatter(torch.ones(1), [torch.ones(1)])";

/// What the programs of peers lie in begins with this, and ends with the number of the process.
const FOLDER: &str = "netfold-peers-";

/// Removes what processes that were killed left behind.
fn sweep(temporary: &Path) {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A Python that runs this: the one that a variable names, or one of the system's.
fn python_that(runs: &str, variable: &str) -> Option<PathBuf> {
    let named = std::env::var(variable).into_iter();
    let pythons = named.chain(["/usr/bin/python3".into(), "python3".into()]);
    let works = |python: &String| {
        Command::new(python).args(["-c", runs]).output().is_ok_and(|output| output.status.success())
    };
    pythons.into_iter().find(works).map(PathBuf::from)
}

/// A name in tables.
pub(crate) fn algorithm_name(collective: &str, algorithm: u8) -> String {
    let names = algorithms_of(collective).names;
    format!("open mpi, {}", names.get(usize::from(algorithm)).copied().unwrap_or("?"))
}

/// Arguments of `mpirun` that select an algorithm of a collective.
pub(crate) fn algorithm_words(collective: &str, algorithm: u8) -> Vec<String> {
    let Algorithms { parameter, .. } = algorithms_of(collective);
    let words = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", parameter];
    match algorithm {
        0 => Vec::new(),
        _ if parameter.is_empty() => Vec::new(),
        _ => words.into_iter().map(str::to_owned).chain([algorithm.to_string()]).collect(),
    }
}

/// What the program for Open MPI is to do.
pub(crate) fn algorithm_program(collective: &str, algorithm: u8) -> &str {
    if collective == "overlap" && algorithm == 1 { "sequence" } else { collective }
}

/// What a turn gave.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Turn {
    /// Seconds of each iteration.
    pub(crate) times: Vec<f64>,
    /// Wrong elements.
    pub(crate) wrong: u64,
    /// Packets that were retransmitted, and all that were sent, of rank 0.
    #[serde(default)]
    pub(crate) retransmitted: u64,
    #[serde(default)]
    pub(crate) sent: u64,
}

impl Turn {
    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.wrong += other.wrong;
        self.retransmitted += other.retransmitted;
        self.sent += other.sent;
    }
}

/// A system and what all its turns gave.
pub(crate) struct Measured<S> {
    pub(crate) system: S,
    pub(crate) turn: Turn,
}

impl<S> Measured<S> {
    pub(crate) fn new(system: S) -> Self {
        Self { system, turn: Turn::default() }
    }

    /// Seconds; infinite before the first turn.
    pub(crate) fn median(&self) -> f64 {
        let times: Sample = self.turn.times.iter().copied().collect();
        if self.turn.times.is_empty() { f64::INFINITY } else { times.median() }
    }
}

/// Of Open MPI's algorithms the default and the fastest two.
pub(crate) fn keep_fastest_algorithms<S>(rows: &mut Vec<Measured<S>>, algorithm: impl Fn(&S) -> Option<u8>) {
    let algorithms = rows.iter().filter(|row| algorithm(&row.system).is_some());
    let mut best: Vec<f64> = algorithms.map(Measured::median).collect();
    best.sort_by(f64::total_cmp);
    let limit = best.get(1).copied().unwrap_or(f64::INFINITY);
    rows.retain(|row| matches!(algorithm(&row.system), None | Some(0)) || row.median() <= limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_and_the_fastest_algorithms_stay() {
        let measured = |system: Option<u8>, median| {
            let mut measured = Measured::new(system);
            measured.turn.times.push(median);
            measured
        };
        let mut rows: Vec<_> =
            (0..4u8).map(|algorithm| measured(Some(algorithm), 4.0 - f64::from(algorithm))).collect();
        rows.push(measured(None, 100.0));
        keep_fastest_algorithms(&mut rows, |system| *system);
        let left: Vec<_> = rows.iter().map(|row| row.system).collect();
        assert_eq!(left, [Some(0), Some(2), Some(3), None]);
    }
}
