//! Two jobs whose packets share the links between switches, each in a class of its own: whether queues that distinguish the classes give the important job
//! the link, strictly, or each its weight.
//!
//! Two leaves below a spine, and hosts at the leaves, in network namespaces. Each job has a rank at each leaf. The switches are processes of the program under
//! test whose queues limit the rate of every port, and so of the links between them, in both directions. Ranks are processes that do one all-reduce after
//! the other and check every element. The controller is in this process and ranks the jobs by the priority of their tenants.
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

/// All-reduces of the first job before the measurement.
const SKIPPED: usize = 2;

/// Weights of the queues of the first and the second job, where they are weighted.
pub const WEIGHTS: [u8; 2] = [3, 1];

/// What to run.
#[derive(Debug, Clone)]
pub struct ClassesConfig {
    /// The program under test.
    pub program: PathBuf,
    /// Bits a second of every port of the switches.
    pub rate_bps: u64,
    /// Slots of each job.
    pub slots: u32,
    /// Tensor bytes of each all-reduce.
    pub bytes: u64,
    /// How long is measured.
    pub duration: Duration,
}

/// How a port serves its two queues, and which jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// The first job is alone.
    Alone,
    /// The queue of the first job precedes that of the second.
    Strict,
    /// In turns, by [`WEIGHTS`].
    Weighted,
}

/// What was measured of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// Its name.
    pub job: &'static str,
    /// All-reduces that were measured.
    pub iterations: usize,
    /// Tensor bytes a second.
    pub bytes_per_second: f64,
    /// The part of both jobs' bytes.
    pub share: f64,
    /// Wrong elements, also of those that were not measured.
    pub wrong: u64,
    /// End of each all-reduce, in seconds since the measurement began, and tensor bytes a second since the one before.
    #[serde(skip)]
    pub all: Vec<(f64, f64)>,
}

/// Runs a trial in a network of its own; the jobs in order of importance.
///
/// # Errors
///
/// [`TrialError`], with no process left running.
pub fn run(config: &ClassesConfig, service: Service) -> Result<Vec<JobRow>, TrialError> {
    if !rustix::process::geteuid().is_root() {
        return Err(TrialError::NotRoot);
    }
    let network = Network::build()?;
    let mut trial = Trial::start(config, &network, service)?;
    trial.run()?;
    let mut rows: Vec<JobRow> =
        trial.observations().iter().map(|observation| row(config, observation)).collect();
    let total: f64 = rows.iter().map(|row| row.bytes_per_second).sum();
    rows.iter_mut().for_each(|row| row.share = row.bytes_per_second / total.max(f64::MIN_POSITIVE));
    Ok(rows)
}

fn row(config: &ClassesConfig, observation: &Observation) -> JobRow {
    let ends: Vec<f64> = observation.ends.iter().map(Duration::as_secs_f64).collect();
    let bytes = config.bytes as f64;
    let bytes_per_second = match ends.as_slice() {
        // From end to end, where there are enough.
        [first, _, _, .., last] => bytes * (ends.len() - 1) as f64 / (last - first).max(f64::MIN_POSITIVE),
        few => bytes * few.len() as f64 / config.duration.as_secs_f64(),
    };
    let pairs = ends.windows(2).map(|pair| (pair[1], bytes / (pair[1] - pair[0]).max(f64::MIN_POSITIVE)));
    JobRow {
        job: observation.job,
        iterations: ends.len(),
        bytes_per_second,
        share: 1.0,
        wrong: observation.wrong,
        all: pairs.collect(),
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
    fn throughput_is_from_end_to_end() {
        let config = ClassesConfig {
            program: PathBuf::new(),
            rate_bps: 1,
            slots: 8,
            bytes: 1000,
            duration: Duration::from_secs(10),
        };
        let observed = |ms: &[u64]| {
            let ends = ms.iter().map(|ms| Duration::from_millis(*ms)).collect();
            row(&config, &Observation { job: "first", ends, wrong: 0 })
        };
        let many = observed(&[100, 600, 1100, 1600, 2100]);
        assert!((many.bytes_per_second - 2000.0).abs() < 1e-9 && many.iterations == 5, "{many:?}");
        assert_eq!(many.all.len(), 4);
        assert!((observed(&[5000]).bytes_per_second - 100.0).abs() < 1e-9);
        assert_eq!(observed(&[]).bytes_per_second, 0.0);
    }
}
