//! Two jobs that share a link: whether a schedule, from nothing but what is measured of them, makes their iterations as long as those of each job alone.
//!
//! A switch, and hosts at it, in network namespaces. One host has a rank of each job, and its link is shaped in both directions; the other ranks have hosts and
//! links of their own. Ranks are processes of the program under test that compute (they sleep), do an all-reduce and check every element. The controller is
//! in this process. For jobs with classes the link has a queue for each of two. Or there are two equal paths between a leaf, with a host of
//! each job, and the switch, whose hash the controller knows.
//!
//! Needs root and iproute2.

mod drive;
mod network;

use std::path::PathBuf;
use std::time::Duration;

use netfold_control::CongestionAlgorithm;
pub use netfold_controller::schedule::Schedule;
use netfold_controller::view::PatternView;
use serde::Serialize;

use drive::{Observation, Trial};
use network::{Link, Network};

use crate::trial::TrialError;

/// Iterations after both jobs have begun within which a schedule has to have its effect.
pub const LEARNING_ITERATIONS: u32 = 20;

/// Iterations of a job alone that are left out, and most that are measured: it does the same all the time.
const ALONE_ITERATIONS: (u32, u32) = (3, 30);

/// What to run.
#[derive(Debug, Clone)]
pub struct ScheduleConfig {
    /// The program under test.
    pub program: PathBuf,
    /// Bits a second of the link that both jobs use.
    pub rate_bps: f64,
    /// Slots of each job.
    pub slots: u32,
    /// Tensor bytes of each all-reduce.
    pub bytes: u64,
    /// How long ranks compute in each iteration.
    pub compute: Duration,
    /// The workers' congestion-control algorithm.
    pub congestion: CongestionAlgorithm,
    /// How much later than the first job the second one begins.
    pub offset: Duration,
    /// Whether the jobs share equal paths instead of a link.
    pub paths: bool,
    /// Iterations of each job that are measured, after [`LEARNING_ITERATIONS`]; of a job alone fewer.
    pub iterations: u32,
}

/// Which jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Jobs {
    /// The first alone.
    First,
    /// The second alone.
    Second,
    /// Both.
    Both,
}

/// What was measured of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// Its name.
    pub job: &'static str,
    /// Its ranks.
    pub workers: u16,
    /// Iterations that were measured.
    pub iterations: usize,
    /// Their mean, in milliseconds.
    pub mean_ms: f64,
    /// Of a hundred iterations 99 are as short as this one.
    pub p99_ms: f64,
    /// The mean over that of the job alone on the same link; 1 where it is alone.
    pub ratio: f64,
    /// The part of the time in which all-reduces were in progress.
    pub communicating: f64,
    /// How often the schedule delayed it, or ordered it other paths.
    pub delays: usize,
    /// Wrong elements.
    pub wrong: u64,
    /// Its pattern, as the controller knows it at the end.
    pub pattern: Option<PatternView>,
    /// What the schedule says of it at the end.
    pub decision: Option<String>,
    /// Every iteration that was measured, in milliseconds, with those before them.
    #[serde(skip)]
    pub all_ms: Vec<f64>,
}

/// What was measured of jobs that ran at the same time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleRow {
    /// The schedule, by its name.
    pub schedule: &'static str,
    /// Which jobs ran.
    pub jobs: Jobs,
    /// Each of them.
    pub rows: Vec<JobRow>,
}

/// Runs trials, each in a network of its own.
pub struct ScheduleRig {
    config: ScheduleConfig,
    /// Mean iterations of each job alone, without and with classes at the link.
    alone_ms: [[Option<f64>; 2]; 2],
}

impl ScheduleRig {
    /// For these jobs.
    ///
    /// # Errors
    ///
    /// [`TrialError::NotRoot`].
    pub fn new(config: ScheduleConfig) -> Result<Self, TrialError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TrialError::NotRoot);
        }
        Ok(Self { config, alone_ms: [[None; 2]; 2] })
    }

    /// Runs jobs under a schedule. Jobs alone come first: what they measure is compared with.
    ///
    /// # Errors
    ///
    /// [`TrialError`], with no process left running.
    pub fn run(&mut self, schedule: Schedule, jobs: Jobs) -> Result<ScheduleRow, TrialError> {
        let link = match schedule {
            _ if self.config.paths => Link::Paths,
            Schedule::Crux => Link::Classes,
            Schedule::Off | Schedule::Cassini => Link::Plain,
        };
        let network = Network::build(link, self.config.rate_bps)?;
        let mut trial = Trial::start(&self.config, &network, (schedule, link), jobs)?;
        trial.run()?;
        let alone = &mut self.alone_ms[usize::from(link == Link::Classes)];
        let mut rows = Vec::new();
        for observation in trial.observations()? {
            let mut row = row(&observation);
            let place = usize::from(observation.job != drive::JOBS[0].name);
            if jobs != Jobs::Both {
                alone[place] = Some(row.mean_ms);
            }
            row.ratio = alone[place].map_or(f64::NAN, |alone| row.mean_ms / alone);
            rows.push(row);
        }
        Ok(ScheduleRow { schedule: schedule.name(), jobs, rows })
    }
}

fn row(observation: &Observation) -> JobRow {
    let all_ms: Vec<f64> = observation.iterations.iter().map(|(iteration, _)| ms(*iteration)).collect();
    let measured = &observation.iterations[observation.skipped.min(observation.iterations.len())..];
    let mut sorted: Vec<f64> = measured.iter().map(|(iteration, _)| ms(*iteration)).collect();
    let total: f64 = sorted.iter().sum();
    let reduced: f64 = measured.iter().map(|(_, reduce)| ms(*reduce)).sum();
    sorted.sort_by(f64::total_cmp);
    JobRow {
        job: observation.job,
        workers: observation.workers,
        iterations: sorted.len(),
        mean_ms: total / sorted.len().max(1) as f64,
        p99_ms: sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN),
        ratio: 1.0,
        communicating: reduced / total.max(f64::MIN_POSITIVE),
        delays: observation.delays,
        wrong: observation.wrong,
        pattern: observation.pattern,
        decision: observation.decision.clone(),
        all_ms,
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
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
        let iteration = |ms: u64| (Duration::from_millis(ms), Duration::from_millis(ms / 2));
        let observation = Observation {
            job: "first",
            workers: 2,
            iterations: [900, 800, 100, 100, 200, 200].map(iteration).to_vec(),
            skipped: 2,
            wrong: 0,
            delays: 1,
            pattern: None,
            decision: None,
        };
        let row = row(&observation);
        assert_eq!((row.iterations, row.all_ms.len(), row.p99_ms), (4, 6, 200.0));
        assert!((row.mean_ms - 150.0).abs() < 1e-9 && (row.communicating - 0.5).abs() < 1e-9);
    }
}
