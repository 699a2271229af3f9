//! What callers learn about finished work.

use std::time::Duration;

use netfold_io::IoCounters;
use netfold_proto::WorkerStats;

/// How one operation went, on this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpReport {
    /// Elements of the tensor.
    pub elements: u64,
    /// Data chunks that carried them, each in one packet up and one down when nothing is lost.
    pub chunks: u32,
    /// Data chunks whose block held a NaN or an infinity on some rank. All their elements were delivered as NaN, on
    /// every rank.
    pub non_finite: u32,
    /// Data chunks whose sum left the range of a job in mode `saturating`, and which were therefore sent twice, the second
    /// time with all headroom. The same on every rank.
    pub saturated: u32,
    /// Time from submission to the last result.
    pub elapsed: Duration,
}

/// Counters of a communicator, as of the last finished operation or the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets sent, resent, taken and ignored, and round-trip times.
    pub worker: WorkerStats,
    /// What the transport counted.
    pub io: IoCounters,
}
