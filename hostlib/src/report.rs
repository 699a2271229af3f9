//! Reports and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netfold_io::IoCounters;
use netfold_proto::WorkerStats;

/// The report of one operation, on this rank.
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
    /// Data chunks whose result lacks contributions, in an operation that [tolerates](crate::Builder::tolerance) it. The same on every rank.
    pub partial: u32,
    /// Data chunks whose result lacks this rank's contribution.
    pub left_out: u32,
    /// Time from submission to the last result.
    pub elapsed: Duration,
}

impl OpReport {
    /// Adds a part of the same tensor.
    pub(crate) fn add(&mut self, part: &Self) {
        self.elements += part.elements;
        self.chunks += part.chunks;
        self.non_finite += part.non_finite;
        self.saturated += part.saturated;
        self.partial += part.partial;
        self.left_out += part.left_out;
        self.elapsed = self.elapsed.max(part.elapsed);
    }
}

/// Whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Counters of a communicator, as of the last finished operation or the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets sent, retransmitted, taken and ignored, and round-trip times.
    pub worker: WorkerStats,
    /// What the transport counted.
    pub io: IoCounters,
    /// Counters of control sessions and attachments to switches. Unlike the others, as of now.
    pub control: ControlStats,
}

impl Stats {
    /// Adds another worker's counters; round-trip times stay those of this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.worker.add(&other.worker);
        self.io.add(&other.io);
    }
}

impl Stats {
    /// Adds the counters of former generations of the job.
    pub(crate) fn add_former(&mut self, former: &Self) {
        self.add(former);
        let (now, before) = (&mut self.control, &former.control);
        now.breaks += before.breaks;
        now.resumed += before.resumed;
        now.switches_lost += before.switches_lost;
        now.rejoined += before.rejoined;
    }
}

/// Counters of a communicator's control sessions and attachments to switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ControlStats {
    /// Sessions that broke and were allowed to resume.
    pub breaks: u64,
    /// Sessions that were resumed.
    pub resumed: u64,
    /// Attachments that were lost, with failover.
    pub switches_lost: u64,
    /// Attachments that were restored.
    pub rejoined: u64,
}

/// The same while it is counted, by any thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControlCounters(Arc<[AtomicU64; 4]>);

impl ControlCounters {
    fn count(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_break(&self) {
        self.count(0);
    }

    pub(crate) fn count_resumption(&self) {
        self.count(1);
    }

    pub(crate) fn count_loss(&self) {
        self.count(2);
    }

    pub(crate) fn count_return(&self) {
        self.count(3);
    }

    pub(crate) fn get(&self) -> ControlStats {
        let [breaks, resumed, switches_lost, rejoined] =
            [0, 1, 2, 3].map(|at: usize| self.0[at].load(Ordering::Relaxed));
        ControlStats { breaks, resumed, switches_lost, rejoined }
    }
}
