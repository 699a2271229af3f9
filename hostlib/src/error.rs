//! What can go wrong, and what to do about it.

use netfold_wire::{DType, Mode};
use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netfold_collectives::mesh::{ExchangeError, MeshError};
use netfold_collectives::shared::SharedError;
use netfold_control::{PortProtocol, Refusal};
use netfold_cuda::CudaError;
use netfold_io::{CoreError, IoError};
use netfold_proto::{AbortReason, OpSpecError, WorkerConfigError};

use crate::ReduceOp;
use crate::group_key::GroupKeyError;
use crate::tls_fault::TlsFault;

/// Why a call failed. The message says the cause and what to do; [`Error::kind`] is for programs.
///
/// Errors of an argument leave the communicator as it was. All others end it: every pending and every later call then
/// returns the same error ([`Error::ends_the_job`]).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder lacks something.
    #[error("the option {0} is not set; set it before connecting")]
    Missing(&'static str),
    /// Job name out of range.
    #[error("the job name has {len} bytes; choose one of 1 to 64")]
    JobName {
        /// Length given, in bytes.
        len: usize,
    },
    /// Group name out of range.
    #[error("the group name '{name}' has {} bytes; choose one of 1 to 64, without a slash", name.len())]
    GroupName {
        /// The name given.
        name: String,
    },
    /// World size, rank, slots or a timer out of range, or an admission that no worker can run by.
    #[error(transparent)]
    Config(#[from] WorkerConfigError),
    /// Not so many classes.
    #[error("{classes} classes of operations: expected a power of two, at most 16")]
    Classes {
        /// Number asked for.
        classes: u8,
    },
    /// Not so many importance classes.
    #[error("{classes} importance classes: expected 1 to 8")]
    Importance {
        /// Number asked for.
        classes: u8,
    },
    /// Not so many trees.
    #[error("{trees} trees: expected 1 to 8, and 1 with a transport or middleware of one's own")]
    Trees {
        /// Number asked for.
        trees: u8,
    },
    /// An engine's thread cannot be kept on its core.
    #[error("an engine cannot have the core that was named")]
    Core(#[source] Arc<CoreError>),
    /// An operation of a class that the communicator was not built with.
    #[error(
        "class {class} in a communicator with {classes}: connect with more classes, or use a lower priority"
    )]
    Class {
        /// Class asked for.
        class: u8,
        /// Classes that there are.
        classes: u8,
    },
    /// The mode has too few bits for so many workers.
    #[error(
        "mode {mode} would leave {world} workers too few bits of precision; it serves up to {max}: use mode bfp32"
    )]
    Precision {
        /// Mode asked for.
        mode: Mode,
        /// World size.
        world: u16,
        /// Most workers of that mode.
        max: u16,
    },
    /// Stochastic rounding in a mode without mantissas.
    #[error(
        "mode {mode} has no mantissas for stochastic rounding; use mode bfp32, bfp16, saturating or wide, or round to the nearest"
    )]
    Rounding {
        /// Mode asked for.
        mode: Mode,
    },
    /// Something that a confidential job cannot do, or cannot do without.
    #[error("a confidential job {reason}")]
    Confidential {
        /// What it cannot do and why, and what to do.
        reason: &'static str,
    },
    /// There is no group key.
    #[error(transparent)]
    GroupKey(#[from] GroupKeyError),
    /// A job over a transport that the caller has given cannot be authenticated: nothing gives its ranks keys.
    #[error(
        "an authenticated job joins at a switch's control port or at a controller, which give its ranks keys: give the builder one of them, and no transport"
    )]
    Authentication,
    /// Ranks of a confidential job hold different group keys.
    #[error("the group key of {} is not the one of this rank; give all ranks the same file", ranks_text(.ranks))]
    GroupKeyDiffers {
        /// The ranks whose key is another one than this rank's, in ascending order.
        ranks: Vec<u16>,
    },
    /// The switch's address cannot be resolved.
    #[error("cannot resolve the address '{address}'; give HOST:PORT, for example 192.0.2.1:20038")]
    Address {
        /// The address as given.
        address: String,
        /// The system's reason.
        #[source]
        source: Arc<io::Error>,
    },
    /// The switch's control port cannot be reached.
    #[error(
        "cannot reach the control port at {address}; check that the switch or the controller runs and listens there, and that no firewall is between"
    )]
    Connect {
        /// The address tried last.
        address: String,
        /// The system's reason.
        #[source]
        source: Arc<io::Error>,
    },
    /// The controller cannot be reached by TLS as it was asked for.
    #[error("cannot reach the control port at {address} by TLS: {fault}")]
    Tls {
        /// The address tried last.
        address: String,
        /// Why, and what to do.
        fault: Box<TlsFault>,
    },
    /// The control port, a switch's or a controller's, does not admit this worker.
    #[error("the control port at {address} refused this worker: {message}")]
    Refused {
        /// The control port.
        address: SocketAddr,
        /// Machine-readable reason.
        reason: Refusal,
        /// The control port's message: what is wrong and what to do.
        message: String,
    },
    /// The tenant's quota is too small for the groups of a split.
    #[error("no groups were made: {message}")]
    Quota {
        /// The controller's message: what the tenant has, and the slots that are needed.
        message: String,
    },
    /// No answer to the request to join.
    #[error(
        "no admission within {waited:?}; check that all ranks were started and that the switch is reachable"
    )]
    JoinTimeout {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The address is not that of a control port.
    #[error("{address} is not a control port for workers: it uses {found}; {}", remedy(*found))]
    WrongPort {
        /// The address.
        address: SocketAddr,
        /// What its first bytes were.
        found: PortProtocol,
    },
    /// The address accepts connections and answers no request to join. A control port does so within half a second, also while it waits for
    /// other ranks.
    #[error(
        "{address} accepts connections and answers no request to join; check that a switch or a controller listens there, and that its process is not \
         stopped"
    )]
    SilentPort {
        /// The address.
        address: SocketAddr,
    },
    /// The control port sent a message that this version does not understand.
    #[error(
        "the control port sent a message that this version does not understand ({what}); check that the address is that of a switch or a controller of \
         the same version"
    )]
    Control {
        /// What was wrong.
        what: &'static str,
    },
    /// The packet transport failed.
    #[error("the packet transport failed; see the cause, then start a new job")]
    Io(#[source] Arc<IoError>),
    /// The path MTU to the switch is smaller than the job's packets. They would be fragmented, and neither hardware nor raw packet I/O
    /// reassembles fragments.
    #[error(
        "packets of {need} bytes do not fit the path to {switch}, whose MTU is {mtu}: raise it on all hosts and switches between, or \
         start the switch with a smaller payload"
    )]
    Mtu {
        /// Where packets go.
        switch: SocketAddr,
        /// Bytes needed, IP header included.
        need: usize,
        /// Path MTU in bytes.
        mtu: usize,
    },
    /// The packet transport carries shorter datagrams than the switch's.
    #[error(
        "the transport carries {max} bytes and the job's packets have {need}; use another transport or profile"
    )]
    Datagram {
        /// Bytes needed.
        need: usize,
        /// Bytes that the transport carries.
        max: usize,
    },
    /// A thread could not be started.
    #[error("cannot start a thread; check the process's limits")]
    Thread(#[source] Arc<io::Error>),
    /// The ranks could not be linked with each other.
    #[error("the ranks could not be linked; see the cause")]
    Mesh(#[source] Arc<MeshError>),
    /// The ranks could not find each other.
    #[error("the ranks could not find each other; see the cause")]
    Exchange(#[source] Arc<ExchangeError>),
    /// Shared memory failed between the ranks of this host.
    #[error("shared memory failed between the ranks of this host; see the cause")]
    Shared(#[source] Arc<SharedError>),
    /// Ranks were built differently.
    #[error("rank {rank} was built with {theirs} and this rank with {mine}; build all ranks alike")]
    Differs {
        /// The first rank that differs.
        rank: u16,
        /// This rank's settings.
        mine: String,
        /// That rank's settings.
        theirs: String,
    },
    /// The switch cannot be used, and falling back was not allowed.
    #[error("the switch cannot be used, and this communicator must not fall back to a ring: {reason}")]
    NoSwitch {
        /// Why not; the same on all ranks.
        reason: String,
    },
    /// The network stage failed on the rank that does it for this host.
    #[error("{message}")]
    Leader {
        /// The message of that rank.
        message: String,
    },
    /// The element type cannot be reduced like this.
    #[error("{collective}({op}) of {dtype} tensors is not possible in a job of mode {mode}; {advice}")]
    Unsupported {
        /// The collective asked for.
        collective: &'static str,
        /// The reduction asked for.
        op: ReduceOp,
        /// Element type of the tensor.
        dtype: DType,
        /// Mode of the job.
        mode: Mode,
        /// What to do instead.
        advice: &'static str,
    },
    /// An operation that is not defined on the element type, at a switch or on hosts.
    #[error("{collective}({op}) is not defined on {dtype} tensors; convert them or use another operation")]
    Undefined {
        /// The collective asked for.
        collective: &'static str,
        /// The reduction asked for.
        op: ReduceOp,
        /// Element type of the tensor.
        dtype: DType,
    },
    /// The root is no rank of this job.
    #[error("root {root} is no rank of this job; give one below {world}")]
    Root {
        /// Root given.
        root: u16,
        /// World size.
        world: u16,
    },
    /// Input and output of a collective that are not of matching lengths.
    #[error(
        "{collective} of {input} elements in and {output} out does not fit {world} ranks; one must be {world} times the other (all_to_all: equal, and a multiple of {world})"
    )]
    OutputLength {
        /// The collective.
        collective: &'static str,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
        /// World size.
        world: u16,
    },
    /// A residual that is not as long as its tensor.
    #[error(
        "a residual of {residual} elements does not fit a tensor of {tensor}; keep one residual for each tensor"
    )]
    ResidualLength {
        /// Elements of the tensor.
        tensor: usize,
        /// Elements of the residual.
        residual: usize,
    },
    /// An operation whose errors cannot be fed back.
    #[error(
        "error feedback is for sums and averages of f32 tensors over all ranks, not for {collective}({op}) of {dtype}; call without a residual"
    )]
    Feedback {
        /// The collective asked for.
        collective: &'static str,
        /// The reduction asked for.
        op: ReduceOp,
        /// Element type of the tensor.
        dtype: DType,
    },
    /// A null pointer to memory that is needed.
    #[error("{0} is null; pass memory of the length that the call says")]
    Null(&'static str),
    /// Memory of a CUDA device cannot be used.
    #[error(transparent)]
    Cuda(CudaError),
    /// CUDA devices cannot quantise.
    #[error("CUDA devices cannot quantise in this job: {reason}")]
    DeviceQuantization {
        /// Why, and what to do. The same on all ranks that are linked.
        reason: String,
    },
    /// A CUDA device failed while operations were in flight.
    #[error("the CUDA device failed: {0}")]
    DeviceLost(CudaError),
    /// A tensor without an element type.
    #[error("the call names no element type; name the tensor's")]
    ElementType,
    /// The tensor is longer than one operation can be.
    #[error(transparent)]
    Length(#[from] OpSpecError),
    /// The outcome of an asynchronous operation was taken before.
    #[error("the outcome of this operation was taken before; call wait or try_wait once")]
    Taken,
    /// A rank submitted another operation at the same position.
    #[error("{} submitted {} where this rank submitted {mine}; submit the same operations in the same order on all ranks",
        .rank.map_or_else(|| "some rank".to_owned(), |rank| format!("rank {rank}")),
        .theirs.as_deref().unwrap_or("something else"))]
    Mismatch {
        /// The first rank that differs; not known in worlds whose descriptors do not fit one packet.
        rank: Option<u16>,
        /// What this rank submitted, in words.
        mine: String,
        /// What that rank submitted, when it is readable.
        theirs: Option<String>,
    },
    /// Another rank is lost.
    #[error("rank {rank} is lost: {message}")]
    PeerLost {
        /// The rank that is lost.
        rank: u16,
        /// How the loss was detected and what to do, from the control port.
        message: String,
    },
    /// The job stays in its generation: not all ranks that are connected asked for another one in time, or not all processes that were to
    /// join came.
    #[error("the job was not resized: {message}")]
    NotResized {
        /// Ranks that did not ask; the first 128 of them.
        missing: Vec<u16>,
        /// Why, and what to do.
        message: String,
    },
    /// This rank was taken as lost, and its job continues without it.
    #[error("this rank is not a member of the job any more: {message}")]
    Excluded {
        /// The message of those that decided it.
        message: String,
    },
    /// A resizable job cannot have something that is set.
    #[error("a resizable job {reason}")]
    Resizable {
        /// What it cannot have, and why.
        reason: &'static str,
    },
    /// The switch is lost.
    #[error("the switch is lost ({what}); check that it runs, then start a new job")]
    SwitchLost {
        /// How the loss was detected, or the controller's message.
        what: Cow<'static, str>,
    },
    /// The job ended for another reason.
    #[error(transparent)]
    Aborted(AbortReason),
    /// The communicator was dropped or has left before the operation was finished.
    #[error("the communicator was closed before this operation was finished; wait for its handle first")]
    Closed,
    /// The communicator was aborted on this rank.
    #[error("the communicator was aborted on this rank; build a new one")]
    Interrupted,
    /// A call in a child of the process that built the communicator.
    #[error(
        "this communicator belongs to process {owner}; a forked child cannot use it: build one of its own after the fork"
    )]
    Forked {
        /// The process that built it.
        owner: u32,
    },
    /// The engine thread panicked: a bug in this library.
    #[error("the engine thread failed; its panic message is on standard error; please report it")]
    EngineFailed,
}

/// Ranks in words: "rank 2", "ranks 0, 1 and 3".
fn ranks_text(ranks: &[u16]) -> String {
    let names: Vec<String> = ranks.iter().map(u16::to_string).collect();
    match names.split_last() {
        Some((last, [])) => format!("rank {last}"),
        Some((last, others)) => format!("ranks {} and {last}", others.join(", ")),
        None => "no rank".into(),
    }
}

/// What to do about an address that is not a control port's.
fn remedy(found: PortProtocol) -> &'static str {
    match found {
        PortProtocol::Http2 => {
            "workers connect to a controller's port for workers (20041 by default) or to a switch's control port (20038), not to the port of its \
             gRPC API"
        }
        PortProtocol::Http1 => {
            "a web server listens there; give a controller's port for workers (20041 by default) or a switch's control port (20038)"
        }
        PortProtocol::Tls => {
            "give the file of its certificate authority as controller_ca, or in the variable NETFOLD_CA"
        }
        _ => "give a controller's port for workers (20041 by default) or a switch's control port (20038)",
    }
}

impl Error {
    pub(crate) fn switch_lost(what: impl Into<Cow<'static, str>>) -> Self {
        Self::SwitchLost { what: what.into() }
    }

    /// A stable name for programs: snake case, never changed once released.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing(_) | Self::JobName { .. } | Self::GroupName { .. } | Self::Config(_) => "argument",
            Self::Precision { .. } | Self::Rounding { .. } => "argument",
            Self::Confidential { .. } | Self::GroupKey(_) | Self::Authentication => "argument",
            Self::GroupKeyDiffers { .. } => "group_key",
            Self::Classes { .. }
            | Self::Class { .. }
            | Self::Importance { .. }
            | Self::Trees { .. }
            | Self::Core(_) => "argument",
            Self::Address { .. } => "address",
            Self::Tls { fault, .. } if fault.is_argument() => "argument",
            Self::Connect { .. } | Self::SilentPort { .. } => "connect",
            Self::Tls { .. } | Self::WrongPort { .. } => "connect",
            Self::Refused { .. } | Self::Quota { .. } => "refused",
            Self::JoinTimeout { .. } => "join_timeout",
            Self::Control { .. } => "control",
            Self::Io(_) | Self::Mtu { .. } | Self::Datagram { .. } => "io",
            Self::Thread(_) => "thread",
            Self::Unsupported { .. } | Self::Undefined { .. } | Self::Feedback { .. } => "unsupported",
            Self::Root { .. } => "root",
            Self::Length(_) | Self::OutputLength { .. } | Self::ResidualLength { .. } => "length",
            Self::Null(_) | Self::ElementType => "argument",
            Self::Cuda(_) => "cuda",
            Self::DeviceQuantization { .. } => "argument",
            Self::DeviceLost(_) => "device_lost",
            Self::Taken => "taken",
            Self::Mismatch { .. } => "mismatch",
            Self::PeerLost { .. } => "peer_lost",
            Self::NotResized { .. } => "not_resized",
            Self::Excluded { .. } => "excluded",
            Self::Resizable { .. } => "argument",
            Self::SwitchLost { .. } => "switch_lost",
            Self::Aborted(AbortReason::Stalled { .. }) => "stalled",
            Self::Aborted(AbortReason::Stale { .. }) => "stale",
            Self::Aborted(AbortReason::Rejected(_)) => "rejected",
            Self::Aborted(_) => "aborted",
            Self::Mesh(_) | Self::Exchange(_) => "mesh",
            Self::Shared(_) => "shared_memory",
            Self::Differs { .. } => "differs",
            Self::NoSwitch { .. } => "no_switch",
            Self::Leader { .. } => "leader",
            Self::Closed => "closed",
            Self::Interrupted => "interrupted",
            Self::Forked { .. } => "forked",
            Self::EngineFailed => "engine_failed",
        }
    }

    /// What a trainer should do about it.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Connect { .. } | Self::JoinTimeout { .. } | Self::SwitchLost { .. } | Self::Io(_) => {
                Advice::Retry
            }
            Self::Mesh(_) | Self::Exchange(_) | Self::Shared(_) | Self::Leader { .. } => Advice::Retry,
            Self::SilentPort { .. } => Advice::Retry,
            Self::NoSwitch { .. } => Advice::Retry,
            Self::Refused { reason, .. } => advice_of(*reason),
            Self::Aborted(_) | Self::Interrupted | Self::Closed => Advice::Retry,
            Self::PeerLost { .. } => Advice::Shrink,
            Self::NotResized { .. } => Advice::Retry,
            _ => Advice::Stop,
        }
    }

    /// The rank that is the cause, if one is known.
    pub fn peer(&self) -> Option<u16> {
        match self {
            Self::PeerLost { rank, .. } => Some(*rank),
            Self::Mismatch { rank, .. } => *rank,
            Self::GroupKeyDiffers { ranks } => ranks.first().copied(),
            _ => None,
        }
    }

    /// Whether the communicator is unusable after this error.
    pub fn ends_the_job(&self) -> bool {
        !matches!(
            self,
            Self::Unsupported { .. }
                | Self::Confidential { .. }
                | Self::Authentication
                | Self::Class { .. }
                | Self::Undefined { .. }
                | Self::Root { .. }
                | Self::Length(_)
                | Self::OutputLength { .. }
                | Self::ResidualLength { .. }
                | Self::Feedback { .. }
                | Self::Null(_)
                | Self::ElementType
                | Self::Cuda(_)
                | Self::DeviceQuantization { .. }
                | Self::Forked { .. }
                | Self::Quota { .. }
                | Self::NotResized { .. }
                | Self::Resizable { .. }
                | Self::Taken
        )
    }
}

/// What a trainer should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Build a new communicator with the same ranks: the cause may have passed.
    Retry,
    /// [Shrink](crate::Communicator::shrink) the communicator, or build a new one, without the rank that is [lost](Error::peer).
    Shrink,
    /// Stop: the program, its arguments or its surroundings must change first.
    Stop,
}

impl Advice {
    /// The name in reports and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Shrink => "shrink",
            Self::Stop => "stop",
        }
    }
}

/// Whether a refusal may be transient.
fn advice_of(reason: Refusal) -> Advice {
    match reason {
        Refusal::Version
        | Refusal::Argument
        | Refusal::WorldMismatch
        | Refusal::ModeMismatch
        | Refusal::Numerics
        | Refusal::Credentials
        | Refusal::Ended
        | Refusal::Excluded => Advice::Stop,
        _ => Advice::Retry,
    }
}

impl PartialEq for Error {
    /// Same cause and same words.
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

impl From<AbortReason> for Error {
    fn from(reason: AbortReason) -> Self {
        match reason {
            AbortReason::Mismatch { rank, mine, theirs } => Self::Mismatch {
                rank,
                mine: mine.to_string(),
                theirs: theirs.map(|theirs| theirs.to_string()),
            },
            AbortReason::PeerLost { rank } => {
                Self::PeerLost { rank, message: "start a new job without it".into() }
            }
            AbortReason::SwitchUnreachable => Self::switch_lost("unreachable"),
            AbortReason::Closed => Self::Closed,
            other => Self::Aborted(other),
        }
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        match error {
            IoError::PeerClosed => Self::switch_lost("its end of the transport was closed"),
            other => Self::Io(Arc::new(other)),
        }
    }
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        Self::Cuda(error)
    }
}
