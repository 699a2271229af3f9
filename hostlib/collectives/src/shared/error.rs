//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::shared::call::SharedCall;
use crate::{DType, ReduceOp};

/// Why a group could not be made or a collective not finished. Ranks are local ones, of the host.
///
/// [`Mismatch`](Self::Mismatch), [`Length`](Self::Length), [`Unsupported`](Self::Unsupported) and [`Root`](Self::Root) leave
/// tensors and group as they were; after any other failure of a collective ([`is_fatal`](Self::is_fatal)) tensors are
/// undefined, and every later call on every rank fails for the same reason.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The number of ranks is none that a group can have.
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
    /// The segment cannot be had here: do without shared memory.
    #[error("no shared memory of {len_bytes} bytes in {directory}: use another path, or give it more room")]
    Unavailable {
        /// Where it was to be.
        directory: PathBuf,
        /// How much was asked for.
        len_bytes: usize,
        /// What the system said; `StorageFull` when there is too little room.
        #[source]
        source: io::Error,
    },
    /// The segment that a handle names cannot be opened; are the ranks on one host, in one mount namespace?
    #[error("cannot open the shared segment {path}")]
    Open {
        /// Where the handle says it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// These bytes are no handle.
    #[error("bad handle: {what}")]
    Handle {
        /// What is wrong with them.
        what: &'static str,
    },
    /// The file that a handle names is not the segment that it means.
    #[error("{path} is not the segment that was offered: {what}")]
    WrongSegment {
        /// Which file.
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
    /// Ranks call different things. Nothing was done; the group goes on.
    #[error(
        "ranks call different collectives: {mine} here, {theirs} on local rank {local_rank}; call the same in the same order"
    )]
    Mismatch {
        /// The first rank that differs from this one.
        local_rank: u16,
        /// What this rank calls.
        mine: SharedCall,
        /// What that rank calls.
        theirs: SharedCall,
    },
    /// A buffer is not as long as the call needs.
    #[error("a buffer of {found} bytes where {expected}")]
    Length {
        /// What would do.
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
    /// A root that is no rank.
    #[error("root {root} is no local rank among {world}")]
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
    #[error("local rank {local_rank} is gone; make a new group of the others")]
    PeerLost {
        /// The rank.
        local_rank: u16,
    },
    /// A rank lives but did nothing for too long.
    #[error(
        "local rank {local_rank} has not called or finished in time; make a new group, or allow more time"
    )]
    Stalled {
        /// The rank that was waited for.
        local_rank: u16,
    },
    /// [`SharedAborter::abort`](crate::shared::SharedAborter::abort) was called on this rank.
    #[error("aborted; make a new group")]
    Aborted,
    /// The network stage of the leader failed; it is the same on every rank.
    #[error("the network stage of the leader failed: {}", String::from_utf8_lossy(.message))]
    Network {
        /// What the leader's [`Network`](crate::shared::Network) said, at most 1024 bytes.
        message: Vec<u8>,
    },
    /// Someone wrote to the segment who must not.
    #[error("the shared segment is damaged at local rank {local_rank}; make a new group")]
    Corrupt {
        /// Whose words make no sense.
        local_rank: u16,
    },
    /// A child of fork used its parent's group.
    #[error("this group belongs to the parent process; a child of fork must make its own")]
    Forked,
}

impl SharedError {
    /// Whether the group is of no use any more.
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
