//! Two jobs that each want all slots of a switch: best-effort sharing below an aggregator, compared with a half for each.
//!
//! A switch with few slots, an aggregator behind it, and hosts at it, in network namespaces; all links are shaped. Each job has two ranks on hosts of their
//! own. A switch of a data centre has few slots for the time that packets take to it and back; so packets of ranks are delayed, by the fault middleware of
//! their packet I/O, and not the links but slots limit throughput. Ranks are processes of the program under test that compute (they sleep), do an all-reduce and check every element. The controller is in this
//! process. In the last trial the aggregator is killed while both jobs run.
//!
//! Needs root and iproute2.

mod drive;
mod network;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use drive::{Observation, Trial};
use network::Network;

use crate::trial::TrialError;

/// Iterations of each job, after both have begun, that are left out.
const SKIPPED: usize = 3;

/// What to run.
#[derive(Debug, Clone)]
pub struct SpillConfig {
    /// The program under test.
    pub program: PathBuf,
    /// Bits a second of the links of hosts.
    pub rate_bps: f64,
    /// Bits a second of the link between switch and aggregator.
    pub up_bps: f64,
    /// How long each packet of a rank is under way in addition, in each direction.
    pub delay: Duration,
    /// Slots of the switch, a power of two from 2 on.
    pub slots: u32,
    /// Tensor bytes of each all-reduce.
    pub bytes: u64,
    /// How long ranks compute in each iteration of jobs that compute.
    pub compute: Duration,
    /// Iterations of each job that are measured.
    pub iterations: u32,
}

/// How the jobs share the switch's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotSharing {
    /// Each has half of them.
    Static,
    /// Both have all of them, below the aggregator.
    BestEffort,
    /// The same, and the aggregator is killed after half of the iterations.
    AggregatorKilled,
}

/// What the jobs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// They compute before each all-reduce, and begin half an iteration apart.
    Computing,
    /// They do one all-reduce after the other.
    Communicating,
}

/// What was measured of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// Its name.
    pub job: &'static str,
    /// Slots that it has at the switch.
    pub slots: u32,
    /// Iterations that were measured.
    pub iterations: usize,
    /// Tensor bytes a second, with the time that it computes.
    pub bytes_per_second: f64,
    /// The longest iteration, in milliseconds.
    pub longest_ms: f64,
    /// Contributions that found no slot, as a part of the packets that its ranks sent; none where it has slots of its own.
    pub spilled: Option<f64>,
    /// Wrong elements.
    pub wrong: u64,
    /// Every iteration after both jobs had begun: its end in seconds since then, and its bytes a second.
    #[serde(skip)]
    pub all: Vec<(f64, f64)>,
}

/// What was measured of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpillRow {
    /// How slots were shared.
    pub sharing: SlotSharing,
    /// What the jobs did.
    pub workload: Workload,
    /// Both jobs.
    pub jobs: Vec<JobRow>,
}

impl SpillRow {
    /// Tensor bytes a second of both jobs.
    pub fn total(&self) -> f64 {
        self.jobs.iter().map(|job| job.bytes_per_second).sum()
    }
}

/// Runs a trial in a network of its own.
///
/// # Errors
///
/// [`TrialError`], with no process left running.
pub fn run(config: &SpillConfig, sharing: SlotSharing, workload: Workload) -> Result<SpillRow, TrialError> {
    if !rustix::process::geteuid().is_root() {
        return Err(TrialError::NotRoot);
    }
    let network = Network::build(config)?;
    let mut trial = Trial::start(config, &network, sharing, workload)?;
    trial.run()?;
    let jobs = trial.observations()?.iter().map(|observation| row(config, observation)).collect();
    Ok(SpillRow { sharing, workload, jobs })
}

fn row(config: &SpillConfig, observation: &Observation) -> JobRow {
    let seconds: Vec<f64> = observation.iterations.iter().map(Duration::as_secs_f64).collect();
    let measured = &seconds[SKIPPED.min(seconds.len())..];
    let (bytes, total) = (config.bytes as f64, measured.iter().sum::<f64>());
    let mut now = 0.0;
    let all = seconds.iter().map(|iteration| {
        now += iteration;
        (now, bytes / iteration.max(f64::MIN_POSITIVE))
    });
    JobRow {
        job: observation.job,
        slots: observation.slots,
        iterations: measured.len(),
        bytes_per_second: bytes * measured.len() as f64 / total.max(f64::MIN_POSITIVE),
        longest_ms: measured.iter().copied().fold(0.0, f64::max) * 1e3,
        spilled: observation.spilled,
        wrong: observation.wrong,
        all: all.collect(),
    }
}

/// Removes the namespaces of this process, for one that ends without dropping them.
pub fn abandon() {
    netfold_testkit::namespace::remove_of(|owner| owner == std::process::id());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_leave_the_first_iterations_out() {
        let config = SpillConfig {
            program: PathBuf::new(),
            rate_bps: 1e9,
            up_bps: 1e9,
            delay: Duration::ZERO,
            slots: 8,
            bytes: 1000,
            compute: Duration::ZERO,
            iterations: 2,
        };
        let observation = Observation {
            job: "first",
            slots: 8,
            iterations: [900, 900, 900, 100, 300].map(Duration::from_millis).to_vec(),
            spilled: Some(0.25),
            wrong: 0,
        };
        let row = row(&config, &observation);
        assert_eq!((row.iterations, row.all.len(), row.longest_ms), (2, 5, 300.0));
        assert!((row.bytes_per_second - 5000.0).abs() < 1e-6, "2000 bytes in 0.4 s: {row:?}");
        assert!((row.all[4].0 - 3.1).abs() < 1e-9);
    }
}
