//! Netfold for trainers: sums tensors over all workers of a job inside the network.
//!
//! A [`Communicator`] is one worker's membership in a job. It cuts tensors into packets, quantises them straight into the
//! packets' bytes, streams them to a switch that adds all workers' packets, and writes the sums back over
//! the tensor. A thread of its own does that, so computing can go on meanwhile.
//!
//! ```no_run
//! use netfold::{Communicator, Mode, ReduceOp};
//!
//! # fn main() -> Result<(), netfold::Error> {
//! let comm = Communicator::builder()
//!     .job("demo")
//!     .rank(0)
//!     .world_size(4)
//!     .switch("127.0.0.1:20038")?
//!     .mode(Mode::Bfp16)
//!     .connect()?; // returns when all four ranks are there
//!
//! let mut gradients = vec![0.5f32; 1_000_003];
//! let report = comm.all_reduce(&mut gradients, ReduceOp::Sum)?;
//! assert_eq!(report.elements, 1_000_003);
//!
//! // Several tensors in flight.
//! let first = comm.all_reduce_async(vec![1.0f32; 4096], ReduceOp::Sum)?;
//! let second = comm.all_reduce_async(vec![7i32; 3], ReduceOp::Max)?;
//! let (sums, _) = first.wait()?;
//! let (maxima, _) = second.wait()?;
//! # drop((sums, maxima));
//! comm.leave()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Life cycle
//!
//! 1. [`Communicator::builder`] joins a job at the control port of a switch, or takes a transport and an admission
//!    directly when the switch is in the same process.
//! 2. Operations, the same ones in the same order on all ranks.
//! 3. [`Communicator::leave`], or drop.
//!
//! The loss of a rank or a switch ends the job with a typed [`Error`] on every other rank within 5 seconds; nothing
//! hangs. Then build a new communicator, on the same switch if it is reachable; ranks of a [resizable](Builder::resizable) job
//! [continue](Communicator::shrink) in place.
//!
//! # What is exact
//!
//! Integers and broadcasts are exact. Sums of floating-point tensors are within the error bound of the job's [`Mode`],
//! and have the same bits on every rank: see [`quantize`]. The rounding error can be kept and added in the next step
//! ([`Communicator::all_reduce_with_feedback`]), or be right on average ([`Builder::rounding`]).

mod arbiter;
mod assemble;
mod attach;
mod buffer;
mod build;
mod builder;
mod call;
mod clock;
mod coding;
mod communicator;
pub mod confidential;
mod config;
mod device_calls;
mod element;
mod engine;
mod error;
mod fabric;
mod failover;
mod feedback;
mod flight;
mod group_key;
mod host;
mod idle;
mod join;
pub mod launcher;
mod leader;
mod links;
mod lower;
mod mailbox;
mod operation;
mod path;
mod peers;
mod processor;
pub mod quantize;
mod rejoin;
mod report;
mod resize;
mod route;
mod router;
mod session;
mod session_events;
mod shares;
mod shutdown;
#[doc(hidden)]
pub mod simulated;
mod slot_positions;
mod split;
mod staging;
mod start;
mod streams;
mod tensors;
mod tls_fault;
mod transfer;
mod tree_set;
mod work;
mod worker_thread;

pub use builder::Builder;
pub use call::Call;
pub use communicator::{AsyncHandle, Communicator};
pub use element::Element;
pub use error::{Advice, Error};
pub use group_key::{GroupKey, GroupKeyError};
pub use half::{bf16, f16};
pub use lower::{switch_lane_op, switch_reduces};
pub use netfold_collectives::mesh::{
    CallbackError, Exchange, ExchangeError, FnExchange, MeshError, TcpRendezvous,
};
pub use netfold_collectives::shared::SharedError;
pub use netfold_control::{Admission, PortProtocol, Refusal};
pub use netfold_cuda::{
    CudaError, Current as CudaCurrent, Device as CudaDevice, Driver as CudaDriver, RawStream as CudaStream,
};
pub use netfold_io::{CoreError, Cores, IoCounters, IoError, IoSpec, OpenOptions, PacketIo};
pub use netfold_proto::{
    AbortReason, IMPORTANCE_MAX, OpSpecError, Tolerance, WorkerConfigError, WorkerStats,
};
pub use netfold_wire::{Collective, DType, Extent, LaneOps, Lanes, Mode, ReduceOp};
pub use path::{Network, Path, SwitchAttachment};
pub use report::{ControlStats, OpReport, Stats};
pub use resize::Membership;
pub use staging::CudaWork;
pub use staging::blocks::{DeviceBlocks, DeviceQuantizer};
pub use tls_fault::TlsFault;
pub use work::Work;
