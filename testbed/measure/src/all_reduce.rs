//! All-reduce from the host library's call to its return, over a real switch: the figures that `nccl-tests` prints, with
//! every element of every result checked on every rank.
//!
//! A switch thread and the workers' communicators live in one process and talk over loopback rings or real UDP sockets.
//! Before each timed all-reduce the tensors are filled anew (the operation is in place) and the ranks meet in a barrier;
//! an iteration takes as long as its slowest rank, and the median of the iterations is reported. Checking begins when all
//! ranks have finished.
//!
//! The bound is what the same transport does when nothing is folded: a [plain
//! forwarder](netfold_io::forward::Forwarder) in the place of the switch sends the packets back, and clients without a
//! protocol keep the same number of packets of the same lengths in flight. It is measured in the same run, without
//! injected loss.

mod bound;
mod controlled;
mod fabric;
mod pattern;
#[cfg(test)]
mod tests;

use std::thread;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Mode, Path, ReduceOp, SwitchAttachment};
use netfold_control::{CongestionAlgorithm, Numerics};
use netfold_io::IoError;
use netfold_p4::entry::EntryError;
use serde::Serialize;

pub use controlled::Controlled;
pub use fabric::Transport;
pub use pattern::{Number, Pattern, Reduction};

use bound::Bound;
use fabric::LocalSwitch;

/// Data moved by the timed iterations of one size, over all workers, unless a number of iterations is given.
const MOVED_BYTES: u64 = 1 << 30;

/// Time without progress after which a job counts as stuck: filling and checking the largest tensors takes seconds.
const STALL: Duration = Duration::from_secs(120);

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduceConfig {
    /// Number of workers, 1 to 32.
    pub workers: u16,
    /// How tensors travel; with [`Mode::I32`] the tensors are `i32`, otherwise `f32`.
    pub mode: Mode,
    /// The reduction.
    pub op: ReduceOp,
    /// What carries the packets.
    pub transport: Transport,
    /// Lanes of a packet in bytes: one of [`netfold_switch::PAYLOADS`].
    pub payload_bytes: u32,
    /// Slots of the job, a power of two: packets in flight.
    pub slots: u32,
    /// By what workers decide how much to have in flight, at a switch of this process.
    pub congestion: CongestionAlgorithm,
    /// Probability that a packet is lost at the switch, each way.
    pub loss: f64,
    /// Seed of losses and tensors.
    pub seed: u64,
    /// Iterations that are checked but not timed.
    pub warmup: u32,
    /// Timed iterations; if not given, 3 to 20 by the amount of data.
    pub iterations: Option<u32>,
    /// Where the workers join, instead of a switch of this process. Packets go by UDP then, of the length that its switches have.
    pub controlled: Option<Controlled>,
}

impl Default for AllReduceConfig {
    fn default() -> Self {
        Self {
            workers: 4,
            mode: Mode::Bfp16,
            op: ReduceOp::Sum,
            transport: Transport::Loopback,
            payload_bytes: 1408,
            slots: Builder::SLOTS_DEFAULT,
            congestion: CongestionAlgorithm::default(),
            loss: 0.0,
            seed: 1,
            warmup: 1,
            iterations: None,
            controlled: None,
        }
    }
}

/// One line: a size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AllReduceRow {
    /// `all_reduce`.
    pub op: &'static str,
    /// Tensor bytes of one rank.
    pub bytes: u64,
    /// Tensor elements of one rank.
    pub count: u64,
    /// Element type.
    #[serde(rename = "type")]
    pub dtype: &'static str,
    /// The reduction.
    pub redop: &'static str,
    /// Number of workers.
    pub workers: u16,
    /// How tensors travelled.
    pub mode: &'static str,
    /// What carried the packets.
    pub transport: &'static str,
    /// Probability of loss, each way.
    pub loss: f64,
    /// Time of one all-reduce in microseconds: median over the iterations of the slowest rank's.
    pub time_us: f64,
    /// Tensor bytes of one rank over the time, in 10^6 bytes a second.
    #[serde(rename = "algbw_MBps")]
    pub algbw: f64,
    /// `algbw` times 2(n-1)/n: what a ring would move over each link in this time.
    #[serde(rename = "busbw_MBps")]
    pub busbw: f64,
    /// `algbw` over `bound`.
    pub bound_ratio: f64,
    /// Elements outside their bound, over all ranks and iterations, warm-up included.
    pub wrong: u64,
    /// Packets retransmitted, over all ranks and iterations, warm-up included.
    pub retransmits: u64,
    /// `algbw` of the plain forwarder, in 10^6 bytes a second.
    #[serde(rename = "bound_MBps")]
    pub bound: f64,
    /// Shortest iteration in microseconds.
    pub time_us_min: f64,
    /// Longest iteration in microseconds.
    pub time_us_max: f64,
    /// Timed iterations.
    pub iterations: u32,
}

/// Why a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No pipeline was generated for the payload.
    #[error("there is no pipeline for payloads of {0} bytes: choose 256, 1408 or 8192")]
    Payload(u32),
    /// The benchmark's switch folds plain words.
    #[error(
        "this benchmark's switch folds words, which is not for mode {0}: choose i32, bfp32 or bfp16, or `testbed run`"
    )]
    Mode(Mode),
    /// World size or slots out of range.
    #[error(
        "{workers} workers with {slots} slots do not fit: take 1 to 32 workers and a power of two up to 8192 slots"
    )]
    Size {
        /// Workers asked for.
        workers: u16,
        /// Slots asked for.
        slots: u32,
    },
    /// A size that holds no element or is more than memory can address.
    #[error("a tensor of {0} bytes cannot be measured: give at least 4 bytes")]
    Bytes(u64),
    /// The transport failed.
    #[error("the transport failed")]
    Io(#[from] IoError),
    /// The switch refused the benchmark's job.
    #[error("the switch refused the benchmark's job")]
    Admission(#[from] EntryError),
    /// There is no address for the workers to meet at.
    #[error("the workers have no address to meet at")]
    Meeting(#[source] std::io::Error),
    /// The switch ended.
    #[error("the switch ended unasked")]
    SwitchGone,
    /// A rank's operation failed.
    #[error("rank {rank} failed")]
    Job {
        /// The rank.
        rank: u16,
        /// Why.
        #[source]
        source: netfold::Error,
    },
    /// The plain forwarder lost most of its packets.
    #[error("the plain forwarder made no progress for {0:?}")]
    Bound(Duration),
}

impl BenchError {
    /// A stable name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Payload(_) | Self::Mode(_) | Self::Size { .. } | Self::Bytes(_) => "usage",
            Self::Io(_) | Self::Bound(_) | Self::Meeting(_) => "io",
            Self::Admission(_) | Self::SwitchGone => "switch",
            Self::Job { source: netfold::Error::Refused { reason, .. }, .. } => reason.name(),
            Self::Job { source, .. } => source.kind(),
        }
    }
}

/// A running switch with its workers, and a forwarder with its clients beside it.
pub struct AllReduceBench {
    config: AllReduceConfig,
    pattern: Pattern,
    workers: Vec<Communicator>,
    bound: Bound,
    /// Stops when dropped, which must be after the workers have left.
    _switch: Option<LocalSwitch>,
}

/// What one rank did at one size.
#[derive(Debug, Default)]
struct TurnOutcome {
    times: Vec<Duration>,
    wrong: u64,
    /// Digest of the bits of the last result.
    digest: u64,
    retransmits: u64,
}

impl AllReduceBench {
    /// Starts switch, workers and forwarder.
    ///
    /// # Errors
    ///
    /// [`BenchError`] for settings that do not fit, and when the system refuses sockets or threads.
    pub fn new(config: AllReduceConfig) -> Result<Self, BenchError> {
        let (workers, slots) = (config.workers, config.slots);
        let fits = (1..=32).contains(&workers)
            && slots.is_power_of_two()
            && slots <= netfold_p4::profile::SLOTS_SOFTWARE;
        if !fits {
            return Err(BenchError::Size { workers, slots });
        }
        if config.mode.numerics() != Numerics::Word && config.controlled.is_none() {
            return Err(BenchError::Mode(config.mode));
        }
        let (switch, workers) = match &config.controlled {
            Some(how) => (None, controlled::join(&config, how)?),
            None => {
                let (switch, workers) = Self::local(&config)?;
                (Some(switch), workers)
            }
        };
        let mut config = config;
        if let Some(place) = workers.first().and_then(|worker| worker.attachments().into_iter().next())
            && config.controlled.is_some()
        {
            (config.transport, config.payload_bytes) = (Transport::Udp, place.payload_bytes);
        }
        Ok(Self {
            bound: Bound::start(&config)?,
            pattern: Pattern::new(config.seed, config.workers),
            workers,
            config,
            _switch: switch,
        })
    }

    /// A switch of this process and its workers.
    fn local(config: &AllReduceConfig) -> Result<(LocalSwitch, Vec<Communicator>), BenchError> {
        let (switch, spokes) = LocalSwitch::start(config)?;
        let connect = |(spoke, rank)| {
            Communicator::builder()
                .rank(rank)
                .world_size(config.workers)
                .mode(config.mode)
                .stall_timeout(STALL)
                .transport(spoke, switch.admission().clone())
                .connect()
                .map_err(|source| BenchError::Job { rank, source })
        };
        let workers = spokes.into_iter().zip(0..).map(connect).collect::<Result<_, _>>()?;
        Ok((switch, workers))
    }

    /// The places at switches that the job has, and which way its data go.
    pub fn path(&self) -> (Vec<SwitchAttachment>, Option<Path>) {
        let first = self.workers.first();
        (first.map(Communicator::attachments).unwrap_or_default(), first.map(Communicator::path))
    }

    /// Has every worker leave gracefully.
    ///
    /// # Errors
    ///
    /// [`BenchError::Job`] when the job has ended otherwise.
    pub fn leave(self) -> Result<(), BenchError> {
        let leave = |(rank, worker): (u16, Communicator)| {
            worker.leave().map_err(|source| BenchError::Job { rank, source })
        };
        (0..).zip(self.workers).try_for_each(leave)
    }

    /// Measures tensors of `bytes` bytes, rounded down to whole elements.
    ///
    /// # Errors
    ///
    /// [`BenchError`] when a rank or the transport fails; never for wrong results, which are counted.
    pub fn measure(&mut self, bytes: u64) -> Result<AllReduceRow, BenchError> {
        match self.config.mode {
            Mode::I32 => self.measure_as::<i32>(bytes),
            _ => self.measure_as::<f32>(bytes),
        }
    }

    fn measure_as<T: Number>(&mut self, bytes: u64) -> Result<AllReduceRow, BenchError> {
        let count =
            usize::try_from(bytes / 4).ok().filter(|&count| count > 0).ok_or(BenchError::Bytes(bytes))?;
        let config = &self.config;
        let moved = MOVED_BYTES / (bytes * u64::from(config.workers)).max(1);
        let iterations = config.iterations.unwrap_or(moved.clamp(3, 20) as u32).max(1);
        let before = self.bound.measure(count)?;

        let pattern = &self.pattern;
        let outcomes: Vec<Result<TurnOutcome, BenchError>> = thread::scope(|scope| {
            let running: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| scope.spawn(move || rank::<T>(worker, pattern, config, count, iterations)))
                .collect();
            let finish = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(finish).collect()
        });
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        // Other processes slow down the one and not the other: so once before and once after.
        let bound = before.min(self.bound.measure(count)?);
        Ok(self.row::<T>(count, iterations, &outcomes, bound))
    }

    fn row<T: Number>(
        &self,
        count: usize,
        iterations: u32,
        outcomes: &[TurnOutcome],
        bound: Duration,
    ) -> AllReduceRow {
        let config = &self.config;
        let slowest = |i: usize| outcomes.iter().filter_map(|outcome| outcome.times.get(i)).max().copied();
        let mut times: Vec<Duration> = (0..iterations as usize).filter_map(slowest).collect();
        times.sort_unstable();
        let time = times.get(times.len() / 2).copied().unwrap_or_default();
        // What an all-reduce has done is possible, so nothing that takes longer is a bound.
        let bound = bound.min(time);
        let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let bytes = count as u64 * 4;
        let rate = |time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9) / 1e6;
        // Ranks must hold the same bits even where all are within the bound.
        let apart = outcomes.iter().filter(|outcome| outcome.digest != outcomes[0].digest).count() as u64;
        AllReduceRow {
            op: "all_reduce",
            bytes,
            count: count as u64,
            dtype: T::NAME,
            redop: config.op.name(),
            workers: config.workers,
            mode: config.mode.name(),
            transport: config.transport.name(),
            loss: config.loss,
            time_us: us(Some(&time)),
            algbw: rate(time),
            busbw: rate(time) * bus_factor(config.workers),
            bound_ratio: rate(time) / rate(bound),
            wrong: outcomes.iter().map(|outcome| outcome.wrong).sum::<u64>() + apart,
            retransmits: outcomes.iter().map(|outcome| outcome.retransmits).sum(),
            bound: rate(bound),
            time_us_min: us(times.first()),
            time_us_max: us(times.last()),
            iterations,
        }
    }
}

/// What an all-reduce of one rank's bytes moves over each link of a ring: 2(n-1)/n of them.
///
/// Source: nccl-tests, doc/PERFORMANCE.md.
pub fn bus_factor(workers: u16) -> f64 {
    2.0 * f64::from(workers.saturating_sub(1)) / f64::from(workers.max(1))
}

/// The part of one rank, on a thread of its own.
fn rank<T: Number>(
    worker: &mut Communicator,
    pattern: &Pattern,
    config: &AllReduceConfig,
    count: usize,
    iterations: u32,
) -> Result<TurnOutcome, BenchError> {
    let rank = worker.rank();
    let failed = |source| BenchError::Job { rank, source };
    let before = worker.stats().worker.retransmitted;
    let mut tensor = vec![T::default(); count];
    let mut outcome = TurnOutcome::default();
    let AllReduceConfig { workers, mode, op, payload_bytes, .. } = *config;
    let by_hosts = config.controlled.as_ref().is_some_and(|how| how.rendezvous);
    let reduction = Reduction { workers, mode, op, payload_bytes, by_hosts };
    for iteration in 0..config.warmup + iterations {
        T::fill(pattern, rank, &mut tensor);
        worker.barrier().map_err(failed)?;
        let begun = Instant::now();
        worker.all_reduce(&mut tensor, config.op).map_err(failed)?;
        let time = begun.elapsed();
        // A worker that finishes first must not check its result while others still need the processor.
        worker.barrier().map_err(failed)?;
        if iteration >= config.warmup {
            outcome.times.push(time);
        }
        outcome.wrong += T::wrong(pattern, &reduction, &tensor);
    }
    outcome.digest = T::digest(&tensor);
    outcome.retransmits = worker.stats().worker.retransmitted - before;
    Ok(outcome)
}
