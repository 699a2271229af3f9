//! Errors, and what to do about them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::{CallSignature, DType, ReduceOp};

/// Why a group could not be made or a collective not finished. Ranks are local ones, of the host.
///
/// [`Mismatch`](Self::Mismatch), [`Length`](Self::Length), [`Unsupported`](Self::Unsupported) and [`Root`](Self::Root) leave
/// tensors and group as they were; after any other failure of a collective ([`is_fatal`](Self::is_fatal)) tensors are
/// undefined, and every later call on every rank fails for the same reason.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The number of ranks is out of range.
    #[error("a host's group cannot have {world} ranks; 1 to 256 are possible")]
    World {
        /// What was asked for.
        world: u16,
    },
    /// A rank that the group does not have.
    #[error("there is no local rank {local_rank} among {world}")]
    Rank {
        /// What was asked for.
        local_rank: u16,
        /// Ranks of the group.
        world: u16,
    },
    /// The segment cannot be allocated here: do without shared memory.
    #[error("no shared memory of {len_bytes} bytes in {directory}: use another path, or give it more room")]
    Unavailable {
        /// The directory for the segment.
        directory: PathBuf,
        /// How much was asked for.
        len_bytes: usize,
        /// The system's error; `StorageFull` when there is too little room.
        #[source]
        source: io::Error,
    },
    /// The segment that a handle names cannot be opened; are the ranks on one host, in one mount namespace?
    #[error("cannot open the shared segment {path}")]
    Open {
        /// The path in the handle.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The bytes are not a valid handle.
    #[error("bad handle: {what}")]
    Handle {
        /// What is wrong with them.
        what: &'static str,
    },
    /// The file at the handle's path is not the segment that the handle describes.
    #[error("{path} is not the segment of the handle: {what}")]
    WrongSegment {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two processes claim to be the same rank.
    #[error("local rank {local_rank} has joined already; give every process its own rank")]
    AlreadyJoined {
        /// The rank.
        local_rank: u16,
    },
    /// Ranks made different calls. Nothing was done; the group remains usable.
    #[error(
        "ranks call different collectives: {mine} here, {theirs} on local rank {local_rank}; call the same in the same order"
    )]
    Mismatch {
        /// The first rank that differs from this one.
        local_rank: u16,
        /// What this rank calls.
        mine: CallSignature,
        /// What that rank calls.
        theirs: CallSignature,
    },
    /// A buffer is not as long as the call needs.
    #[error("a buffer has {found} bytes, but {expected}")]
    Length {
        /// The length needed.
        expected: &'static str,
        /// Its length.
        found: usize,
    },
    /// The operation is not defined on the type.
    #[error("{op} of {dtype} elements is not defined; convert the tensor or choose another operation", dtype = .dtype.name())]
    Unsupported {
        /// The operation.
        op: ReduceOp,
        /// The element type.
        dtype: DType,
    },
    /// A root that is not a local rank.
    #[error("root {root} is not one of {world} local ranks")]
    Root {
        /// What was asked for.
        root: u16,
        /// Ranks of the group.
        world: u16,
    },
    /// Not all ranks joined in time.
    #[error(
        "local rank {local_rank} did not join within {waited:?}; make a new group without it, or give it longer"
    )]
    NotJoined {
        /// The first rank that is missing.
        local_rank: u16,
        /// How long this rank waited.
        waited: Duration,
    },
    /// A rank ended, left or aborted: make a new group of the others.
    #[error("local rank {local_rank} was lost; make a new group of the others")]
    PeerLost {
        /// The rank.
        local_rank: u16,
    },
    /// A rank's process runs but made no progress for the stall timeout.
    #[error(
        "local rank {local_rank} has not called or finished in time; make a new group, or allow more time"
    )]
    Stalled {
        /// The rank that this one waited for.
        local_rank: u16,
    },
    /// [`SharedAborter::abort`](crate::shared::SharedAborter::abort) was called on this rank.
    #[error("aborted; make a new group")]
    Aborted,
    /// The network stage of the leader failed; it is the same on every rank.
    #[error("the network stage of the leader failed: {}", String::from_utf8_lossy(.message))]
    Network {
        /// The error of the leader's [`Network`](crate::shared::Network), at most 1024 bytes.
        message: Vec<u8>,
    },
    /// A process wrote invalid data to the segment.
    #[error("the shared segment is damaged at local rank {local_rank}; make a new group")]
    Corrupt {
        /// The rank whose words are invalid.
        local_rank: u16,
    },
    /// A child of fork used its parent's group.
    #[error("this group belongs to the parent process; a child of fork must make its own")]
    Forked,
}

impl SharedError {
    /// Whether the group is unusable.
    pub const fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Mismatch { .. }
                | Self::Length { .. }
                | Self::Unsupported { .. }
                | Self::Root { .. }
                | Self::Forked
        )
    }
}
