//! Whether a control port finds what slows a job down: one rank of a running job is disturbed, and the findings are compared with that.
//!
//! The switch, with its control port, is in this process; the ranks of the job are processes of this machine.
//! They compute for a while (they sleep), do an all-reduce, check every element, and so on. One of them computes
//! longer, loses packets, or shares its processor; or none does, and nothing may be found.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use netfold_controller::JobEvent;
use netfold_controller::view::{Finding, FindingKind};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use netfold_io::fault::FaultConfig;
use netfold_measure::process;
use netfold_testkit::process::Process;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use crate::rank::RankConfig;

/// Longest time for all ranks to start and join.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How much longer the late rank computes.
const LATE: Duration = Duration::from_millis(5);

/// The fraction of packets that are lost.
const LOSS: f64 = 0.01;

/// Loops on the processor of the rank that is to lack time there.
const LOOPS: usize = 3;

/// Slots at the switch, and of a job.
const SLOTS: u32 = 1024;

/// What disturbs a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// A rank computes 5 ms longer than the others.
    LateRank,
    /// A rank does not receive one result in a hundred.
    LostResults,
    /// One packet in a hundred of a rank does not arrive at the switch.
    LostPackets,
    /// A rank shares a processor with processes of a higher priority.
    BusyProcessor,
}

impl Disturbance {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 5] =
        [Self::LateRank, Self::LostResults, Self::LostPackets, Self::BusyProcessor, Self::None];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LateRank => "late rank",
            Self::LostResults => "lost results",
            Self::LostPackets => "lost packets",
            Self::BusyProcessor => "busy processor",
        }
    }

    /// What must be found.
    fn expected(self, rank: u16) -> Option<(FindingKind, Option<u16>)> {
        match self {
            Self::None => None,
            Self::LateRank => Some((FindingKind::LateStart, Some(rank))),
            Self::LostResults | Self::LostPackets => Some((FindingKind::Loss, Some(rank))),
            Self::BusyProcessor => Some((FindingKind::Processor, Some(rank))),
        }
    }

    /// Whether a finding is true. What disturbs a rank may also make it late.
    fn explains(self, rank: u16, finding: &Finding) -> bool {
        let late = matches!(finding.kind, FindingKind::LateStart | FindingKind::LatePackets);
        self.expected(rank) == Some((finding.kind, finding.rank))
            || self != Self::None && late && finding.rank == Some(rank)
    }
}

/// The jobs that are disturbed.
#[derive(Debug, Clone)]
pub struct DiagnoseConfig {
    /// The program that runs ranks by `testbed rank`.
    pub program: PathBuf,
    /// Ranks.
    pub world: u16,
    /// Bytes of each tensor.
    pub bytes: u64,
    /// How long ranks compute before each all-reduce.
    pub compute: Duration,
    /// How long a job is observed.
    pub observed: Duration,
}

/// What was found in one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// When the disturbance was found, counted from the job's start.
    pub found_after: Option<Duration>,
    /// Findings that are not true.
    pub wrong_findings: Vec<String>,
    /// All-reduces of rank 0.
    pub operations: u64,
    /// Wrong elements, of all ranks.
    pub wrong: u64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiagnoseError {
    /// The switch cannot be started.
    #[error("cannot start the switch")]
    Switch(#[source] Box<EmbeddedError>),
    /// A process cannot be started.
    #[error("cannot start {name}")]
    Start {
        /// What.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The job did not begin.
    #[error("the ranks did not begin within {START_TIMEOUT:?}: {stderr}")]
    NotBegun {
        /// What they printed.
        stderr: String,
    },
    /// A rank ended.
    #[error("rank {rank} ended before its time: {stderr}")]
    Ended {
        /// Which.
        rank: u16,
        /// What it printed.
        stderr: String,
    },
}

/// A switch, and jobs at it.
pub struct DiagnoseRig {
    config: DiagnoseConfig,
    switch: EmbeddedSwitch,
    events: Receiver<RigEvent>,
    sender: Sender<RigEvent>,
    processors: Vec<usize>,
    trials: u32,
}

enum RigEvent {
    Switch(JobEvent),
    /// The trial and the rank of a process, and a line of its output; none at the end of it.
    Rank(u32, u16, Option<Value>),
}

/// Loops, killed when this is dropped.
struct Loops(Vec<Child>);

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is not there to be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl DiagnoseRig {
    /// Starts the switch.
    ///
    /// # Errors
    ///
    /// [`DiagnoseError::Switch`].
    pub fn start(config: DiagnoseConfig) -> Result<Self, DiagnoseError> {
        let (sender, events) = mpsc::channel();
        let switch_events = sender.clone();
        let switch = EmbeddedSwitch::builder()
            .slots(SLOTS)
            .on_event(move |event| drop(switch_events.send(RigEvent::Switch(event.clone()))))
            .start()
            .map_err(|error| DiagnoseError::Switch(Box::new(error)))?;
        Ok(Self { config, switch, events, sender, processors: processors(), trials: 0 })
    }

    /// Why a disturbance cannot be tried on this machine, if so.
    pub fn unavailable(&self, disturbance: Disturbance) -> Option<&'static str> {
        if disturbance != Disturbance::BusyProcessor {
            return None;
        }
        let has = |program| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
        match () {
            () if self.processors.len() < 2 => Some("it needs two processors"),
            () if !has("taskset") || !has("nice") => {
                Some("it needs taskset (util-linux) and nice (coreutils)")
            }
            () => None,
        }
    }

    /// Runs a job, one rank of which is disturbed: another one in each trial.
    ///
    /// # Errors
    ///
    /// [`DiagnoseError`], with no process left running.
    pub fn observe(&mut self, disturbance: Disturbance) -> Result<Trial, DiagnoseError> {
        self.trials += 1;
        let rank = (self.trials % u32::from(self.config.world)) as u16;
        let name = format!("trial-{}", self.trials);
        let _loops = self.start_loops(disturbance)?;
        let mut ranks = (0..self.config.world)
            .map(|at| self.start_rank(&name, at, disturbance, at == rank))
            .collect::<Result<Vec<_>, _>>()?;
        let mut trial = Trial { found_after: None, wrong_findings: Vec::new(), operations: 0, wrong: 0 };
        let mut begun = None;
        let mut deadline = Instant::now() + START_TIMEOUT;
        let mut known = BTreeSet::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = match self.events.recv_timeout(left) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            match event {
                RigEvent::Switch(JobEvent::Started { name: job, .. }) if job.job == name => {
                    let now = Instant::now();
                    (begun, deadline) = (Some(now), now + self.config.observed);
                }
                RigEvent::Switch(JobEvent::Slowed { name: job, finding, .. }) if job.job == name => {
                    let found = Some((finding.kind, finding.rank));
                    if disturbance.expected(rank) == found {
                        trial.found_after = trial.found_after.or(begun.map(|begun| begun.elapsed()));
                    } else if !disturbance.explains(rank, &finding) && known.insert(found) {
                        trial.wrong_findings.push(format!("{finding} (disturbed: rank {rank})"));
                    }
                }
                RigEvent::Rank(number, at, None) if number == self.trials => {
                    return Err(DiagnoseError::Ended {
                        rank: at,
                        stderr: stderr(&mut ranks[usize::from(at)..=usize::from(at)]),
                    });
                }
                RigEvent::Rank(number, at, Some(line)) if number == self.trials => {
                    trial.operations += u64::from(at == 0);
                    trial.wrong += line.get("wrong").and_then(Value::as_u64).unwrap_or(1);
                }
                RigEvent::Switch(_) | RigEvent::Rank(..) => {}
            }
        }
        match begun {
            Some(_) => Ok(trial),
            None => Err(DiagnoseError::NotBegun { stderr: stderr(&mut ranks) }),
        }
    }

    /// Loops on the last processor, where the disturbed rank will be.
    fn start_loops(&self, disturbance: Disturbance) -> Result<Loops, DiagnoseError> {
        let mut loops = Loops(Vec::new());
        if disturbance != Disturbance::BusyProcessor {
            return Ok(loops);
        }
        for _ in 0..LOOPS {
            let mut command = self.pinned(true);
            // They end with this process, also if it is killed.
            let script = format!("while kill -0 {}; do :; done", std::process::id());
            command.args(["sh", "-c", &script]).stdin(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            loops.0.push(child.map_err(|source| DiagnoseError::Start { name: "taskset".into(), source })?);
        }
        Ok(loops)
    }

    /// A command that runs on the last processor, or on the others.
    fn pinned(&self, last: bool) -> Command {
        let split = self.processors.len().saturating_sub(1);
        let (others, busy) = self.processors.split_at(split);
        let list = if last { busy } else { others };
        let list = list.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &list]);
        command
    }

    fn start_rank(
        &self,
        job: &str,
        rank: u16,
        disturbance: Disturbance,
        disturbed: bool,
    ) -> Result<Process, DiagnoseError> {
        let mut command = match disturbance {
            Disturbance::BusyProcessor => {
                let mut command = self.pinned(disturbed);
                if disturbed {
                    command.args(["nice", "-n", "19"]);
                }
                command.arg(&self.config.program);
                command
            }
            _ => Command::new(&self.config.program),
        };
        let mut faults = FaultConfig { seed: u64::from(self.trials), ..FaultConfig::default() };
        match disturbance {
            Disturbance::LostResults if disturbed => faults.rx.loss = LOSS,
            Disturbance::LostPackets if disturbed => faults.tx.loss = LOSS,
            _ => {}
        }
        let late = if disturbance == Disturbance::LateRank && disturbed { LATE } else { Duration::ZERO };
        let config = RankConfig {
            switch: self.switch.control(),
            tenant: None,
            job: job.to_owned(),
            rank,
            world: self.config.world,
            slots: SLOTS / 4,
            bytes: self.config.bytes,
            compute: self.config.compute + late,
            begin_unix_ms: 0,
            rendezvous: None,
            faults,
        };
        command.args(config.arguments());
        let (sender, number) = (self.sender.clone(), self.trials);
        let on_line = move |line| sender.send(RigEvent::Rank(number, rank, line)).is_ok();
        process::run(&mut command, on_line)
            .map_err(|source| DiagnoseError::Start { name: format!("rank {rank}"), source })
    }
}

/// The ends of what the processes printed.
fn stderr(ranks: &mut [Process]) -> String {
    ranks.iter_mut().for_each(Process::kill);
    let lines: Vec<String> = ranks.iter().map(|rank| rank.stderr().trim().replace('\n', "; ")).collect();
    lines.join("; ")
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}
