//! Errors: requests of the caller that cannot be met, and why a job ended.

use core::time::Duration;

use netfold_wire::{Collective, Reason};

use crate::SlotShare;
use crate::op::{DATA_CHUNKS_MAX, Descriptor, ELEMENTS_MAX};

/// A [`WorkerConfig`](crate::WorkerConfig) that no worker can run by: the admission is damaged or an argument is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerConfigError {
    /// World size out of range.
    #[error("world size {0} is not in 1 to 32768")]
    World(u16),
    /// Rank not below the world size.
    #[error("rank {rank} is not below the world size {world}")]
    Rank {
        /// Rank given.
        rank: u16,
        /// World size given.
        world: u16,
    },
    /// Slots not a power of two that the header can express.
    #[error("{0} slots: expected a power of two, at most 32768")]
    Slots(u32),
    /// A share of slots that is not a power of two, or reaches beyond the job's slots.
    #[error("a stream of {} slots from slot {} on: expected a power of two of slots that the job has", .0.count, .0.first)]
    Share(SlotShare),
    /// Lanes too few for the descriptors of operations or too many for a datagram.
    #[error("{0} lane words: expected 16 to 16369")]
    LaneWords(u32),
    /// An admission that names no children of the worker's switch.
    #[error("the admission's bitmap of children is empty")]
    Bitmap,
    /// A timer bound that is zero, or bounds in the wrong order.
    #[error("timers must be above zero, with rto_min <= rto_initial <= rto_max <= stall_timeout")]
    Timers,
    /// No room for any operation.
    #[error("ops_max must be at least 1")]
    OpsMax,
}

/// An [`OpSpec`](crate::OpSpec) that the protocol cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpSpecError {
    /// Too many chunks.
    #[error("{0} data chunks: at most {DATA_CHUNKS_MAX}; split the tensor")]
    Chunks(u32),
    /// Too many elements.
    #[error("{0} elements: at most {ELEMENTS_MAX}; split the tensor")]
    Elements(u64),
    /// A collective that switches do not do.
    #[error("a switch does no {0}")]
    Collective(Collective),
    /// Root out of range.
    #[error("root rank {0} is not below 32768")]
    Root(u16),
    /// Class out of range.
    #[error("class {0} is not in 0 to 15")]
    Class(u8),
    /// Tolerance out of range.
    #[error("a tolerance of {0} is not in 0 to 8,000 eightieths of a percent")]
    Tolerance(u16),
}

/// Why [`Worker::submit`](crate::Worker::submit) took no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The queue is full: wait for an [`OpDone`](crate::WorkerEvent::OpDone) and submit again.
    #[error("{ops_max} operations are pending; wait for one to finish")]
    QueueFull {
        /// The bound, from the configuration.
        ops_max: usize,
    },
    /// The operation cannot be carried as it is.
    #[error("the operation cannot be carried")]
    Spec(#[from] OpSpecError),
    /// The job is over.
    #[error("the job is over")]
    Aborted(#[source] AbortReason),
}

/// Why a job ended before its operations did. Nothing more is sent or taken; start a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AbortReason {
    /// A member is lost, as reported by the control session.
    #[error("rank {rank} is lost; start a new job without it")]
    PeerLost {
        /// The lost rank.
        rank: u16,
    },
    /// The switch or its control port is unreachable, as reported by the control session.
    #[error("the switch is unreachable; check that it runs, then start a new job")]
    SwitchUnreachable,
    /// No chunk finished for too long: the switch, the path to it or a peer is lost, or a peer is a straggler.
    #[error(
        "no progress for {silent:?} with {outstanding} chunks outstanding (last packet from the switch {last_received:?} ago); \
         check the switch and the other ranks"
    )]
    Stalled {
        /// Time without a finished chunk.
        silent: Duration,
        /// Chunks sent and not finished.
        outstanding: u32,
        /// Time since the last packet of this job from the switch, if there was any.
        last_received: Option<Duration>,
    },
    /// The switch's slot has moved on: chunk numbers of this job are used twice, or the job was replaced.
    #[error("the switch holds newer data than chunk {chunk}: the job was replaced; join again")]
    Stale {
        /// Chunk number that the switch called stale.
        chunk: u32,
    },
    /// The switch does not admit this worker's packets.
    #[error("the switch rejects this worker's packets ({0}); join again")]
    Rejected(Reason),
    /// Ranks submitted different operations at the same place.
    #[error("{} submitted another operation than this rank: {} here, {} there",
        .rank.map_or("some rank".into(), |rank| format!("rank {rank}")),
        .mine, .theirs.map_or("something else".into(), |d| d.to_string()))]
    Mismatch {
        /// The first rank that differs; `None` in worlds too large for one packet to name it.
        rank: Option<u16>,
        /// What this rank submitted.
        mine: Descriptor,
        /// What that rank submitted; `None` when it sent no descriptor at this place, or is not known.
        theirs: Option<Descriptor>,
    },
    /// The caller closed the worker.
    #[error("the worker was closed")]
    Closed,
}
