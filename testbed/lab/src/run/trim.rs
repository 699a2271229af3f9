//! Ranks whose packets a loaded bmv2 trims on the way to the bmv2 that folds.
//!
//! Every rack has a bmv2 that runs the same program as the one that folds, and only forwards
//! ([`netfold_p4::transit`]): by eight queues of strict priority, towards a link that is slow. A host in each rack sends more than
//! that link carries, in the lowest class. [`TrimRig::trial`] does all-reduces on real ranks meanwhile and checks them: every rank has
//! the same bits, what each lacks is at most what it tolerates, and every element is the sum of exactly the contributions that the
//! result names. What was trimmed is counted on the wire, before the switch that folds.
//!
//! bmv2's own queues have no rate without Thrift. What makes them long is the interface: a token bucket (`tbf`) holds packets, the
//! socket's buffer fills, bmv2's one thread that sends is held up, and the queues before it grow.

mod fabric;
mod wire;

use std::time::{Duration, Instant};

use netfold::{AsyncHandle, Communicator, Mode, OpReport, ReduceOp, Tolerance};
use netfold_controller::tree::install;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{RunError, SLOW_RESEND};
use fabric::Fabric;
use wire::{Load, Observer};

pub use wire::ObservedPackets;

/// Racks at most, and ranks in one.
pub const RACKS_MAX: usize = 4;
/// Ranks in a rack at most.
pub const RANKS_MAX: usize = 8;

/// Lanes of a packet in bytes.
const PAYLOAD: u32 = 256;

/// Packets in a port's queues from which those that may be are trimmed.
pub const TRIM_DEPTH: u32 = 24;

/// Classes of operations: the load has the queue of the lowest.
const CLASSES: u8 = 2;

/// What to build.
#[derive(Debug, Clone, PartialEq)]
pub struct TrimConfig {
    /// Racks, each with a bmv2 of its own.
    pub racks: usize,
    /// Ranks in each rack.
    pub ranks: usize,
    /// Elements of each rank's tensor.
    pub elements: usize,
    /// Slots of each class.
    pub slots: u32,
    /// Bits a second of the link from each rack to the switch that folds.
    pub rate: u64,
    /// Seed of the tensors.
    pub seed: u64,
}

/// What to do on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// What the other host of each rack sends, as a part of the link's rate; 0 for nothing.
    pub load: f64,
    /// Shares that may be left out; sums are not rescaled, so that elements can be checked.
    pub tolerance: Tolerance,
    /// Class of the operations, 0 or 1: 0 is in the load's queue.
    pub class: u8,
    /// All-reduces, one after the other.
    pub rounds: u32,
}

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrimOutcome {
    /// Mean time of an all-reduce on the slowest rank.
    pub mean: Duration,
    /// Data chunks of a rank, all rounds together.
    pub chunks: u64,
    /// Of those, chunks whose result lacks contributions.
    pub partial: u64,
    /// Shares left out, all ranks together.
    pub left_out: u64,
    /// The most that one rank had left out of one tensor.
    pub left_out_max: u32,
    /// Elements compared, all ranks together.
    pub checked: u64,
    /// Elements that are not the sum of the contributions in them, or differ from rank 0's, and chunks beyond what is tolerated.
    pub wrong: u64,
    /// What came by the links to the switch that folds.
    pub seen: ObservedPackets,
}

/// Racks of bmv2 switches that forward, and one that folds.
pub struct TrimRig {
    config: TrimConfig,
    fabric: Fabric,
    rounds: u64,
}

/// One rank's tensor before and after.
struct RankContribution {
    input: Vec<f32>,
    result: Vec<f32>,
    residual: Option<Vec<f32>>,
    report: OpReport,
    elapsed: Duration,
}

impl TrimRig {
    /// Builds networks and switches. Needs root, `ip`, `tc` and bmv2.
    ///
    /// # Errors
    ///
    /// [`RunError`]; nothing is left running.
    pub fn start(config: TrimConfig) -> Result<Self, RunError> {
        let fabric = Fabric::start(&config)?;
        Ok(Self { config, fabric, rounds: 0 })
    }

    /// Installs the job, connects the ranks, and does all-reduces under the load.
    ///
    /// # Errors
    ///
    /// [`RunError`], of the first rank that failed among others.
    pub fn trial(&mut self, trial: &Trial) -> Result<TrimOutcome, RunError> {
        let installed = install(&self.fabric.plan, &mut self.fabric.drivers).map_err(Box::new)?;
        let comms = self.connect(trial, installed.first_chunk())?;
        let observer = Observer::start(&self.fabric, self.config.racks, installed.first_chunk())?;
        let load = Load::start(&self.fabric, self.config.racks, self.config.rate as f64 * trial.load)?;
        if trial.load > 0.0 {
            // Until the interface's queue is full.
            std::thread::sleep(LOADED_AFTER);
        }
        let mut outcome = TrimOutcome::default();
        let mut elapsed = Duration::ZERO;
        for _ in 0..trial.rounds {
            self.rounds += 1;
            let ranks = self.round(&comms, trial)?;
            elapsed += ranks.iter().map(|rank_result| rank_result.elapsed).max().unwrap_or_default();
            count(&mut outcome, &ranks, trial.tolerance);
        }
        outcome.mean = elapsed / trial.rounds.max(1);
        drop(load);
        outcome.seen = observer.finish();
        let mut installed = installed;
        installed.withdraw(&mut self.fabric.drivers).map_err(RunError::Withdraw)?;
        for (rank, comm) in (0..).zip(comms) {
            comm.leave().map_err(|source| RunError::Worker { rank, source })?;
        }
        Ok(outcome)
    }

    fn connect(&self, trial: &Trial, first_chunk: u32) -> Result<Vec<Communicator>, RunError> {
        let world = (self.config.racks * self.config.ranks) as u16;
        let connect = |rank: u16| -> Result<Communicator, RunError> {
            let io = self.fabric.worker(usize::from(rank), PAYLOAD)?;
            let admission = self.fabric.plan.admission(rank, first_chunk, netfold_wire::UDP_PORT);
            Communicator::builder()
                .rank(rank)
                .world_size(world)
                .mode(Mode::Bfp32)
                .slots(self.config.slots)
                .classes(CLASSES)
                .tolerance(trial.tolerance)
                .stall_timeout(STALL)
                .transport(Box::new(io), admission)
                .resend_after(SLOW_RESEND)
                .connect()
                .map_err(|source| RunError::Worker { rank, source })
        };
        (0..world).map(connect).collect()
    }

    fn round(&self, comms: &[Communicator], trial: &Trial) -> Result<Vec<RankContribution>, RunError> {
        let (seed, elements) = (self.config.seed ^ self.rounds << 32, self.config.elements);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let reduce = |comm: &Communicator| -> Result<RankContribution, netfold::Error> {
                let input = tensor(seed, comm.rank(), elements);
                let begun = Instant::now();
                let mut result = input.clone();
                // With what was left out, where the report has it.
                let (residual, report) = if trial.class == 0 {
                    let mut residual = vec![0.0; input.len()];
                    let report = comm.all_reduce_with_feedback(&mut result, &mut residual, ReduceOp::Sum)?;
                    (Some(residual), report)
                } else {
                    let work = comm.all_reduce_in_class(result, ReduceOp::Sum, trial.class)?;
                    let report;
                    (result, report) = AsyncHandle::wait(work)?;
                    (None, report)
                };
                Ok(RankContribution { input, result, residual, report, elapsed: begun.elapsed() })
            };
            let ranks: Vec<_> = comms.iter().map(|comm| scope.spawn(move || reduce(comm))).collect();
            ranks.into_iter().map(|rank| rank.join()).collect()
        });
        let settled = (0..).zip(outcomes).map(|(rank, outcome)| {
            let rank_result = outcome.map_err(|_| RunError::WorkerPanicked { rank })?;
            rank_result.map_err(|source| RunError::Worker { rank, source })
        });
        settled.collect()
    }
}

/// After so long without progress a rank gives up.
const STALL: Duration = Duration::from_secs(60);

/// The load is alone for so long.
const LOADED_AFTER: Duration = Duration::from_millis(500);

fn tensor(seed: u64, rank: u16, elements: usize) -> Vec<f32> {
    let mut rng =
        Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank));
    // Nothing is near zero, so that a missing contribution shows.
    (0..elements).map(|_| rng.random_range(0.5f32..1.0)).collect()
}

/// Adds a round to what came of a trial.
fn count(outcome: &mut TrimOutcome, ranks: &[RankContribution], tolerance: Tolerance) {
    let Some(first) = ranks.first() else { return };
    outcome.chunks += u64::from(first.report.chunks);
    outcome.partial += u64::from(first.report.partial);
    let max = u64::from(first.report.chunks) * u64::from(tolerance.parts) / u64::from(Tolerance::PARTS);
    for rank_result in ranks {
        outcome.left_out += u64::from(rank_result.report.left_out);
        outcome.left_out_max = outcome.left_out_max.max(rank_result.report.left_out);
        outcome.wrong += u64::from(rank_result.report.left_out).saturating_sub(max);
        outcome.checked += rank_result.result.len() as u64;
        let same = |(is, first): &(&f32, &f32)| is.to_bits() == first.to_bits();
        outcome.wrong +=
            rank_result.result.iter().zip(&first.result).filter(|pair| !same(pair)).count() as u64;
    }
    outcome.wrong += (0..first.result.len()).filter(|at| !adds_up(ranks, *at)).count() as u64;
}

/// Whether an element is the sum of what every rank put into it: its input less what the report says is left out.
fn adds_up(ranks: &[RankContribution], at: usize) -> bool {
    let put = |rank_result: &RankContribution| {
        rank_result
            .residual
            .as_ref()
            .map(|residual| f64::from(rank_result.input[at]) - f64::from(residual[at]))
    };
    let Some(sum) = ranks.iter().map(put).sum::<Option<f64>>() else { return true };
    (f64::from(ranks[0].result[at]) - sum).abs() < 1e-5 * ranks.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_result(input: f32, residual: f32, result: f32, left_out: u32) -> RankContribution {
        let report =
            OpReport { chunks: 10, left_out, partial: u32::from(left_out > 0), ..OpReport::default() };
        RankContribution {
            input: vec![input],
            residual: Some(vec![residual]),
            result: vec![result],
            report,
            elapsed: Duration::ZERO,
        }
    }

    fn wrong(ranks: &[RankContribution], tolerated: f64) -> u64 {
        let mut outcome = TrimOutcome::default();
        count(&mut outcome, ranks, Tolerance::fraction(tolerated).unwrap_or(Tolerance::NONE));
        outcome.wrong
    }

    #[test]
    fn a_sum_that_differs_from_its_contributors_is_found() {
        assert_eq!(wrong(&[rank_result(0.5, 0.0, 1.25, 0), rank_result(0.75, 0.0, 1.25, 0)], 0.0), 0);
        assert_eq!(
            wrong(&[rank_result(0.5, 0.5, 0.75, 1), rank_result(0.75, 0.0, 0.75, 0)], 0.1),
            0,
            "reported and tolerated"
        );
        assert_eq!(
            wrong(&[rank_result(0.5, 0.0, 0.75, 0), rank_result(0.75, 0.0, 0.75, 0)], 0.1),
            1,
            "missing, and not reported"
        );
        assert_eq!(
            wrong(&[rank_result(0.5, 0.5, 0.75, 2), rank_result(0.75, 0.0, 0.75, 0)], 0.1),
            1,
            "more than tolerated"
        );
        assert_eq!(
            wrong(&[rank_result(0.5, 0.0, 1.25, 0), rank_result(0.75, 0.0, 1.5, 0)], 0.0),
            1,
            "ranks differ"
        );
    }
}
