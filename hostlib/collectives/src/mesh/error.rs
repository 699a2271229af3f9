//! Errors, and what to do about them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::CallSignature;
use crate::DType;
use crate::reduce::ReduceError;
use thiserror::Error;

/// Why ranks could not exchange small strings. The exchange is unusable afterwards.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The string does not fit.
    #[error("{len} bytes are too many for an exchange (at most {max}); send them through a collective")]
    TooLong {
        /// Length of the string.
        len: usize,
        /// Most that one rank may give.
        max: usize,
    },
    /// The rank is not below the world size.
    #[error("rank {rank} of {world} does not exist; ranks count from 0")]
    Rank {
        /// The rank given.
        rank: u16,
        /// Number of ranks given.
        world: u16,
    },
    /// A job's name that does not fit into a hello.
    #[error("a job's name has 1 to {max} bytes, not {len}")]
    JobName {
        /// Length of the name in bytes.
        len: usize,
        /// Longest name.
        max: usize,
    },
    /// Rank 0 cannot listen.
    #[error(
        "cannot listen for the other ranks at {addr}; free the port or choose another rendezvous address"
    )]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// The system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// Rank 0 is not listening at the rendezvous address.
    #[error("no rendezvous at {addr} within {waited:?}; start rank 0 there, or correct the address")]
    Unreachable {
        /// The rendezvous address.
        addr: SocketAddr,
        /// How long this rank tried.
        waited: Duration,
        /// The last attempt's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// Ranks that have not connected.
    #[error(
        "ranks {ranks:?} did not connect within {waited:?}; check that they started and can reach the rendezvous"
    )]
    Missing {
        /// The missing ranks.
        ranks: Vec<u16>,
        /// How long this rank waited.
        waited: Duration,
    },
    /// The rendezvous refused this rank.
    #[error("the rendezvous at {addr} refused rank {rank}: {why}")]
    Refused {
        /// The rendezvous address.
        addr: SocketAddr,
        /// This rank.
        rank: u16,
        /// Why.
        why: Refusal,
    },
    /// Something else listens at the rendezvous address.
    #[error("the listener at {addr} is not a rendezvous of this version; correct the address")]
    NotRendezvous {
        /// The rendezvous address.
        addr: SocketAddr,
    },
    /// Rank 0 uses another version of the rendezvous.
    #[error(
        "rank 0 at {addr} uses version {theirs} of the rendezvous and this rank version {ours}: upgrade Netfold on {}",
        if theirs < ours { "rank 0's host" } else { "this rank's host" }
    )]
    Version {
        /// The rendezvous address.
        addr: SocketAddr,
        /// Rank 0's version.
        theirs: u8,
        /// This rank's version.
        ours: u8,
    },
    /// A rank left, or the connection to it broke.
    #[error("rank {rank} was lost during an exchange; start the job again")]
    Lost {
        /// The lost rank; 0 when a rank lost the rendezvous.
        rank: u16,
        /// The system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// A caller's exchange returned a wrong number of strings.
    #[error(
        "an exchange among {world} ranks gave {got} strings; it must give each rank's, in order of ranks"
    )]
    Count {
        /// Number of ranks.
        world: u16,
        /// Number of strings.
        got: usize,
    },
    /// A caller's exchange failed.
    #[error("the caller's exchange failed")]
    Callback(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The mesh used for the exchange failed.
    #[error("the mesh used for the exchange failed")]
    Mesh(#[source] Arc<MeshError>),
}

/// Why a rendezvous refuses a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The rendezvous belongs to another job.
    #[error("it serves another job; use the same job name on every rank, or another address")]
    OtherJob,
    /// Ranks disagree about their number.
    #[error("it expects {world} ranks; start every rank with the same world size")]
    OtherWorld {
        /// Rank 0's world size.
        world: u16,
    },
    /// The rank is already connected.
    #[error("this rank is already connected; give each process its own rank")]
    Duplicate,
    /// Not a rank of that world.
    #[error("there is no such rank; ranks are 1 and up to the world size")]
    NoSuchRank,
}

/// How the loss of a peer was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its end of the connection closed: the process ended or dropped its mesh.
    #[error("its connection closed")]
    Closed,
    /// The connection broke.
    #[error("its connection broke ({0})")]
    Broken(io::ErrorKind),
    /// No bytes were transferred for the stall timeout.
    #[error("no data for {0:?}")]
    Stalled(Duration),
    /// Another rank reported it.
    #[error("reported by rank {by}")]
    Reported {
        /// The reporting rank.
        by: u16,
    },
    /// It gave up by itself: aborted, or timed out.
    #[error("it gave up")]
    GaveUp,
}

/// Why a mesh could not be made, or a collective failed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum MeshError {
    /// The ranks could not exchange their addresses.
    #[error("ranks could not exchange their addresses")]
    Exchange(#[from] ExchangeError),
    /// No socket to listen on.
    #[error("cannot listen for other ranks' links on {addr}; configure another interface")]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// The system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// Two ranks cannot reach each other.
    #[error(
        "no link to rank {rank} at {addr} within {waited:?}; check routes and firewalls between the hosts"
    )]
    Link {
        /// Which rank.
        rank: u16,
        /// Its address.
        addr: SocketAddr,
        /// How long this rank tried.
        waited: Duration,
    },
    /// A rank's introduction is malformed.
    #[error("rank {rank} sent a malformed introduction; run the same version on every rank")]
    Introduction {
        /// Which rank.
        rank: u16,
    },
    /// A system call that a mesh needs failed.
    #[error("the system refused a socket or an event descriptor")]
    System(#[source] Arc<io::Error>),
    /// Ranks called different collectives. No tensor was mixed, but outputs are undefined.
    #[error(
        "this rank called {mine}, rank {rank} called {theirs}; call the same on every rank, in the same order"
    )]
    Mismatch {
        /// A rank that differs.
        rank: u16,
        /// What this rank called.
        mine: CallSignature,
        /// What that rank called.
        theirs: CallSignature,
    },
    /// A rank was lost.
    #[error("rank {rank} is lost: {why}; make a new mesh of the ranks that remain")]
    PeerLost {
        /// The rank.
        rank: u16,
        /// How that was detected.
        why: Loss,
    },
    /// A peer violated the protocol.
    #[error("rank {rank} violated the protocol ({what}); run the same version on every rank")]
    Protocol {
        /// The rank.
        rank: u16,
        /// How.
        what: &'static str,
    },
    /// An [`MeshAborter`](crate::mesh::MeshAborter) was used on this rank.
    #[error("aborted on this rank; make a new mesh")]
    Aborted,
    /// The deadline of the call passed.
    #[error("timed out waiting for rank {rank}; make a new mesh, or allow more time")]
    Deadline {
        /// The rank that this one waited for.
        rank: u16,
    },
    /// The mesh failed before.
    #[error("the mesh is unusable since an earlier failure; make a new one")]
    Unusable(#[source] Arc<MeshError>),
    /// Called in a child process.
    #[error("process {pid} is a fork of the one that made the mesh; make a mesh of its own")]
    Forked {
        /// The child.
        pid: u32,
    },
    /// The reduction is not defined. Nothing was sent.
    #[error(transparent)]
    Reduce(#[from] ReduceError),
    /// A buffer of a wrong size. Nothing was sent.
    #[error("the {which} buffer of {call} has {len} bytes, and {expected} are needed")]
    Size {
        /// Input or output.
        which: &'static str,
        /// Which call.
        call: CallSignature,
        /// Its length.
        len: usize,
        /// What it should be.
        expected: usize,
    },
    /// A buffer that cannot be cut into as many parts as there are ranks. Nothing was sent.
    #[error("{len} bytes cannot be cut into {parts} parts of {dtype} elements")]
    Parts {
        /// Length of the buffer.
        len: usize,
        /// Number of parts.
        parts: usize,
        /// Type of the elements.
        dtype: DType,
    },
    /// A root or member that is no rank of the mesh. Nothing was sent.
    #[error("rank {rank} is not in this mesh of {world}")]
    NoSuchRank {
        /// The rank given.
        rank: u16,
        /// Number of ranks.
        world: u16,
    },
}

impl MeshError {
    /// Whether the mesh remains usable: the call was refused before anything was sent.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Reduce(_)
                | Self::Size { .. }
                | Self::Parts { .. }
                | Self::NoSuchRank { .. }
                | Self::Forked { .. }
                | Self::Exchange(ExchangeError::TooLong { .. })
        )
    }

    /// The rank that caused it, when one did.
    pub fn peer(&self) -> Option<u16> {
        match self {
            Self::Mismatch { rank, .. }
            | Self::PeerLost { rank, .. }
            | Self::Protocol { rank, .. }
            | Self::Deadline { rank }
            | Self::Link { rank, .. }
            | Self::Introduction { rank } => Some(*rank),
            Self::Unusable(cause) => cause.peer(),
            _ => None,
        }
    }
}

impl From<io::Error> for MeshError {
    fn from(source: io::Error) -> Self {
        Self::System(Arc::new(source))
    }
}
