//! The worker of one job.

use crate::{
    AbortReason, ConfigError, Ignored, Instant, OpId, OpSpec, SpecError, WorkerConfig, WorkerError,
    WorkerStats,
};

/// How a worker reads and writes the caller's tensors. Called from inside [`Worker::poll_transmit`] and
/// [`Worker::handle_packet`], on data chunks only: `chunk` counts from 0 within the operation.
///
/// A chunk may be packed several times (resends) and must then yield the same bytes; it is unpacked exactly once, and
/// never packed or asked for its exponent after that.
pub trait Codec {
    /// This rank's block exponent of `chunk`: 0 to 254, or 255 when the block holds a NaN or an infinity. Asked for
    /// operations with exponents only, before the chunk is first packed.
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8;

    /// Quantises `chunk` by the agreed exponent `exp` into the packet. Must write all of `lanes` (the words of the
    /// job's packets, big-endian), padding included. `exp` is 255 when some rank's block is not finite: then every
    /// lane must hold the value zero; and 0 for operations without exponents.
    fn pack(&mut self, op: OpId, chunk: u32, exp: u8, lanes: &mut [u8]);

    /// Takes the result of `chunk`, the fold of `count` ranks' lanes by exponent `exp` (255: deliver NaN), big-endian.
    /// May overwrite the input.
    fn unpack(&mut self, op: OpId, chunk: u32, exp: u8, count: u16, lanes: &[u8]);
}

/// What became of an incoming datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handled {
    /// A result was taken: there may be more to send, and an event.
    Result,
    /// Nothing changed but a counter.
    Ignored(Ignored),
    /// The job is over: an event says why.
    Aborted,
}

/// What the caller learns from [`Worker::poll_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The operation is finished on this rank: every result was unpacked, and every rank submitted the same operation
    /// at this place. Operations are reported in the order of submission.
    OpDone(OpId),
    /// The job is over; comes once, after every finished operation. Operations not reported as done never will be, and
    /// their tensors hold an unspecified mix of inputs and results.
    Aborted(AbortReason),
}

/// The worker of one job.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    stats: WorkerStats,
    submitted: u64,
    aborted: Option<AbortReason>,
    abort_reported: bool,
}

impl Worker {
    /// A worker that has nothing to do yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration (part of which came over the network) is out of range.
    pub fn new(config: WorkerConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { config, stats: WorkerStats::default(), submitted: 0, aborted: None, abort_reported: false })
    }

    /// Appends an operation to the stream. All ranks must submit the same operations in the same order.
    ///
    /// Allocates the operation's bookkeeping: one bit a chunk.
    ///
    /// # Errors
    ///
    /// [`WorkerError::QueueFull`], [`WorkerError::Spec`] or [`WorkerError::Aborted`]; nothing was submitted then.
    pub fn submit(&mut self, spec: OpSpec) -> Result<OpId, WorkerError> {
        if let Some(reason) = self.aborted {
            return Err(WorkerError::Aborted(reason));
        }
        spec.check().map_err(|error: SpecError| error)?;
        self.submitted += 1;
        Ok(OpId(self.submitted - 1))
    }

    /// Takes a datagram from the switch. Any bytes are harmless: what does not fit exactly is counted in
    /// [`WorkerStats::ignored`].
    pub fn handle_packet(&mut self, _now: Instant, _datagram: &[u8], _codec: &mut impl Codec) -> Handled {
        Handled::Ignored(Ignored::Malformed)
    }

    /// Writes the next datagram to send to the front of `buffer` and returns its length; `None` when there is nothing
    /// to send now. Resends come first. Call it until it returns `None` after each [`Self::submit`],
    /// [`Self::handle_packet`] and [`Self::handle_timeout`]; calls with nothing to do are cheap.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than [`WorkerConfig::datagram_len_max`].
    pub fn poll_transmit(
        &mut self,
        _now: Instant,
        buffer: &mut [u8],
        _codec: &mut impl Codec,
    ) -> Option<usize> {
        assert!(buffer.len() >= self.config.datagram_len_max(), "the buffer holds any datagram of the job");
        None
    }

    /// When [`Self::handle_timeout`] must be called next; `None` while nothing is outstanding.
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Marks what has waited too long for a resend, or gives the job up. Harmless when called early.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// The next thing to report. Call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<WorkerEvent> {
        let reason = self.aborted?;
        (!core::mem::replace(&mut self.abort_reported, true)).then_some(WorkerEvent::Aborted(reason))
    }

    /// Ends the job from this side, for example because the control session lost a peer. The first reason stands.
    pub fn abort(&mut self, reason: AbortReason) {
        self.aborted.get_or_insert(reason);
    }

    /// Counters and round-trip estimates.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// Operations submitted and not yet reported as done.
    pub fn pending(&self) -> usize {
        0
    }
}
