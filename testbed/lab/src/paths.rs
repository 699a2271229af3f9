//! A fabric of leaves and spines in network namespaces, whose leaves spread flows over all spines as the kernel does, by a hash of addresses
//! and ports: how evenly workers with several UDP ports use the spines, and what happens when one of these becomes slow.
//!
//! Each worker's host is at a leaf of its own, and so is the host of the switch: all packets pass the spines. Links between leaves and spines are shaped by
//! tbf. Switch and workers are processes of the program under test; workers check every element.
//!
//! Needs root and iproute2.

mod drive;
mod network;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netfold_control::{Multipath, PathPolicy};
use netfold_controller::equal_paths::EqualPaths;
use netfold_testkit::namespace::CommandError;
use serde::Serialize;

use drive::Job;
use network::Fabric;

/// How long a job runs before it is observed.
const SETTLING: Duration = Duration::from_millis(1500);

/// How much longer one whose workers are ordered which ports to use: they report that they take orders with their heartbeats.
const ORDERING: Duration = Duration::from_millis(1500);

/// How many times as long as others a job with exact ports is observed: weights move some of its packets, and what that leaves of an imbalance
/// averages out.
const EXACT_TIMES: u32 = 3;

/// How often bytes are read while a spine is slow.
const SAMPLE: Duration = Duration::from_millis(100);

/// What is left of the rate of a slow spine.
pub const SLOW_PART: f64 = 0.1;

/// The spine that becomes slow.
const SLOW_SPINE: usize = 0;

/// The seed of the leaves' hash, where the kernel takes one.
const SEED: u32 = 7;

/// How the workers of a job choose their UDP ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortChoice {
    /// Each has one.
    One,
    /// Each has several, used by this policy.
    Policy(PathPolicy),
    /// Each has several, of which it uses by weight those that spread exactly: the hash is known.
    Exact,
}

impl PortChoice {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "-",
            Self::Policy(policy) => policy.name(),
            Self::Exact => "exact",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct PathsConfig {
    /// The program under test.
    pub program: PathBuf,
    /// Workers, each at a leaf of its own: 2 to 8.
    pub workers: u16,
    /// Spines, 2 to 8.
    pub spines: u8,
    /// Bits a second of each link between a leaf and a spine.
    pub rate_bps: f64,
    /// UDP ports of each worker.
    pub udp_ports: u8,
    /// Slots of the job.
    pub slots: u32,
    /// Tensor bytes of each all-reduce.
    pub bytes: u64,
    /// How long each job is observed.
    pub observed: Duration,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// Namespaces are made by root alone.
    #[error("a fabric of network namespaces needs root: run the command with sudo")]
    NotRoot,
    /// The machine gives no such network.
    #[error(
        "the fabric cannot be built: it needs iproute2 and a kernel with network namespaces, veth and tbf"
    )]
    Network(#[from] CommandError),
    /// A program cannot be started.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program ended early.
    #[error("{name} ended unexpectedly ({status}){}", if .stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Ended {
        /// Which.
        name: String,
        /// How.
        status: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// An expected event did not arrive.
    #[error("no {what} within {longest:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        longest: Duration,
    },
}

/// How evenly a job used the spines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Balance {
    /// UDP ports of each worker.
    pub udp_ports: u8,
    /// How they were chosen; none with one port.
    pub policy: Option<PathPolicy>,
    /// Whether they were those that spread exactly.
    pub exact: bool,
    /// Bytes that passed each spine, in both directions.
    pub spine_bytes: Vec<u64>,
    /// The most of these over their mean.
    pub imbalance: f64,
    /// Tensor bytes of a rank, in 10^6 bytes a second.
    #[serde(rename = "MBps")]
    pub rate: f64,
    /// All-reduces.
    pub operations: u64,
    /// Wrong elements.
    pub wrong: u64,
}

/// What a job does when a spine becomes slow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowSpine {
    /// UDP ports of each worker.
    pub udp_ports: u8,
    /// How they were chosen.
    pub policy: PathPolicy,
    /// The spine's part of all bytes before.
    pub share_before: f64,
    /// Its part in the second that begins a second after it became slow.
    pub share_after: f64,
    /// Its part of all spines' rates then.
    pub capacity: f64,
    /// After how many milliseconds it first had at most twice its part of the rates, over 200 ms; none if it never had.
    pub lost_after_ms: Option<u64>,
    /// Tensor bytes of a rank in that second, over those a second before.
    pub rate_kept: f64,
    /// Wrong elements.
    pub wrong: u64,
}

impl SlowSpine {
    /// Whether the spine lost its share within a second: it has at most twice its part of the rates.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.share_after <= 2.0 * self.capacity
    }
}

/// The fabric, in which several jobs run one after the other. Dropping it removes everything.
pub struct PathsRig {
    config: PathsConfig,
    fabric: Fabric,
}

impl PathsRig {
    /// Builds the fabric.
    ///
    /// # Errors
    ///
    /// [`PathsError`] when it cannot be built.
    pub fn build(config: PathsConfig) -> Result<Self, PathsError> {
        if !rustix::process::geteuid().is_root() {
            return Err(PathsError::NotRoot);
        }
        let fabric = Fabric::build(config.workers, config.spines, config.rate_bps)?;
        Ok(Self { config, fabric })
    }

    fn multipath(&self, policy: PathPolicy) -> Option<Multipath> {
        Some(Multipath { udp_ports: self.config.udp_ports, policy })
    }

    /// The fabric's equal paths, if the kernel takes a seed for its hash: from Linux 6.11 on.
    #[must_use]
    pub fn equal_paths(&self) -> Option<EqualPaths> {
        self.fabric
            .is_seeded()
            .then(|| EqualPaths::new("linux", Some(SEED), self.config.spines, None).ok())?
    }

    /// Runs a job whose workers choose their UDP ports so.
    ///
    /// # Errors
    ///
    /// [`PathsError`].
    pub fn balance(&self, choice: PortChoice) -> Result<Balance, PathsError> {
        let equal_paths = self.equal_paths().filter(|_| choice == PortChoice::Exact);
        let multipath = match choice {
            PortChoice::One => None,
            PortChoice::Policy(policy) => self.multipath(policy),
            PortChoice::Exact => equal_paths
                .map(|paths| Multipath { udp_ports: paths.udp_ports(), policy: PathPolicy::Weighted }),
        };
        let mut job = Job::start(&self.config, &self.fabric, (multipath, equal_paths))?;
        job.run_for(SETTLING + equal_paths.map_or(Duration::ZERO, |_| ORDERING))?;
        let (operations, begun) = (job.operations(), Instant::now());
        let before = self.fabric.bytes()?;
        job.run_for(self.config.observed * if equal_paths.is_some() { EXACT_TIMES } else { 1 })?;
        let after = self.fabric.bytes()?;
        let (operations, seconds) = (job.operations() - operations, begun.elapsed().as_secs_f64());
        let spine_bytes: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        Ok(Balance {
            udp_ports: multipath.map_or(1, |multipath| multipath.udp_ports),
            policy: multipath.map(|multipath| multipath.policy),
            exact: equal_paths.is_some(),
            imbalance: imbalance(&spine_bytes),
            spine_bytes,
            rate: operations as f64 * self.config.bytes as f64 / seconds / 1e6,
            operations,
            wrong: job.wrong(),
        })
    }

    /// Runs a job, and slows a spine down while it runs.
    ///
    /// # Errors
    ///
    /// [`PathsError`].
    pub fn slow_spine(&self, policy: PathPolicy) -> Result<SlowSpine, PathsError> {
        let mut job = Job::start(&self.config, &self.fabric, (self.multipath(policy), None))?;
        job.run_for(SETTLING)?;
        let mut samples = Samples::default();
        let read = |job: &Job, samples: &mut Samples| -> Result<(), PathsError> {
            samples.points.push((Instant::now(), self.fabric.bytes()?, job.operations()));
            Ok(())
        };
        read(&job, &mut samples)?;
        job.run_for(Duration::from_secs(1))?;
        read(&job, &mut samples)?;
        self.fabric.slow(SLOW_SPINE, SLOW_PART)?;
        let slowed = Instant::now();
        while slowed.elapsed() < Duration::from_millis(2300) {
            read(&job, &mut samples)?;
            job.run_for(SAMPLE)?;
        }
        read(&job, &mut samples)?;
        self.fabric.slow(SLOW_SPINE, 1.0)?;
        let capacity = SLOW_PART / (f64::from(self.config.spines) - 1.0 + SLOW_PART);
        let (before, second) = (samples.between(0, 1), samples.second_after(slowed));
        Ok(SlowSpine {
            udp_ports: self.config.udp_ports,
            policy,
            share_before: before.share,
            share_after: second.share,
            capacity,
            lost_after_ms: samples.lost_after(slowed, 2.0 * capacity),
            rate_kept: second.rate / before.rate,
            wrong: job.wrong(),
        })
    }
}

/// Bytes of all spines, and all-reduces, by time.
#[derive(Debug, Default)]
struct Samples {
    points: Vec<(Instant, Vec<u64>, u64)>,
}

/// What happened between two points in time.
struct Interval {
    /// The slow spine's part of the bytes.
    share: f64,
    /// All-reduces a second.
    rate: f64,
}

impl Samples {
    fn between(&self, first: usize, last: usize) -> Interval {
        let (a, b) = (&self.points[first], &self.points[last]);
        let bytes: Vec<u64> = a.1.iter().zip(&b.1).map(|(a, b)| b - a).collect();
        let all = bytes.iter().sum::<u64>().max(1);
        let seconds = (b.0 - a.0).as_secs_f64();
        Interval { share: bytes[SLOW_SPINE] as f64 / all as f64, rate: (b.2 - a.2) as f64 / seconds }
    }

    /// From a second after that time to two seconds after it.
    fn second_after(&self, slowed: Instant) -> Interval {
        let at = |seconds| {
            let time = slowed + Duration::from_secs(seconds);
            self.points.partition_point(|point| point.0 < time).min(self.points.len() - 1)
        };
        self.between(at(1), at(2))
    }

    /// The end of the first two intervals with at most this share, in milliseconds after that time.
    fn lost_after(&self, slowed: Instant, share: f64) -> Option<u64> {
        let first = self.points.partition_point(|point| point.0 < slowed);
        let ends = (first + 2)..self.points.len();
        let lost = ends.into_iter().find(|end| self.between(end - 2, *end).share <= share)?;
        u64::try_from((self.points[lost].0 - slowed).as_millis()).ok()
    }
}

/// Removes the namespaces of this process, for one that ends without dropping them.
pub fn abandon() {
    netfold_testkit::namespace::remove_of(|owner| owner == std::process::id());
}

/// The most over the mean.
fn imbalance(bytes: &[u64]) -> f64 {
    let mean = bytes.iter().sum::<u64>() as f64 / bytes.len().max(1) as f64;
    bytes.iter().copied().max().unwrap_or(0) as f64 / mean.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_the_time_until_they_are_lost() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        // The slow spine passes half of all bytes, and from 600 ms on a twentieth.
        let mut samples = Samples::default();
        let mut bytes = [0, 0];
        for ms in (0..3000).step_by(100) {
            samples.points.push((at(ms), bytes.to_vec(), ms / 10));
            let slow = if ms < 600 { 50 } else { 5 };
            bytes = [bytes[0] + slow, bytes[1] + 100 - slow];
        }
        assert_eq!(samples.lost_after(at(0), 0.1), Some(800));
        assert_eq!(samples.lost_after(at(1000), 0.04), None);
        let second = samples.second_after(at(500));
        assert!((second.share - 0.05).abs() < 1e-9 && (second.rate - 100.0).abs() < 1e-9);
        assert!((imbalance(&[10, 30, 20, 20]) - 1.5).abs() < 1e-9);
    }
}
