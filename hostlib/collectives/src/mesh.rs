//! TCP links between all ranks of a job, and collectives over them: the host library's fallback without a switch, and its way to
//! do what the switch cannot.
//!
//! Ranks find each other by an [`Exchange`] of small strings ([`TcpRendezvous`], or the caller's store by [`FnExchange`]), and
//! make a [`Mesh`] of links. Its calls block; there is no thread and no asynchronous runtime.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use netfold_collectives::mesh::{Mesh, MeshConfig, TcpRendezvous};
//! use netfold_collectives::{DType, ReduceOp};
//!
//! # fn main() -> Result<(), netfold_collectives::mesh::MeshError> {
//! # let (rank, world) = (0, 4);
//! let addr = ([10, 0, 0, 1], 20_040).into(); // where rank 0 runs
//! let mut exchange = TcpRendezvous::new(addr, "demo", rank, world, Duration::from_secs(60))?;
//! let mut mesh = Mesh::connect(&mut exchange, MeshConfig::default())?;
//! let mut gradients = vec![0u8; 4 * 1_000_003]; // f32, native byte order
//! mesh.all_reduce(DType::F32, ReduceOp::Avg, &mut gradients)?;
//! # Ok(())
//! # }
//! ```
//!
//! # How data moves
//!
//! A call is a plan of messages, computed from the call, the rank and the size alone. Large all-reduces go round a ring, parts at a
//! time, and are forwarded while they arrive: 2 (n - 1) / n of the tensor leave each rank, which at n ranks on links of rate B
//! bounds the time by 2M(n - 1)/(nB). Up to 32 KiB recursive doubling takes the fewest hops. All links are driven at once
//! and never block each other, so no order of calls can deadlock.
//!
//! # Guarantees
//!
//! - The result has the same bits on every rank; integers are exact, floats as in [`reduce`](crate::reduce).
//! - A call completes on all ranks or on none, except for ranks that fail after sending their last byte.
//! - If ranks make different calls, every rank gets [`MeshError::Mismatch`]; data of one call never enters another.
//! - A rank that is lost is [`MeshError::PeerLost`] on all others: at once when its process ends, within
//!   [`MeshConfig::keepalive_timeout`] when its host fails, within [`MeshConfig::stall_timeout`] when it merely stops.
//! - An unauthenticated connection cannot join, and cannot delay the ranks.
#![forbid(unsafe_code)]

mod abort;
mod acceptor;
mod calls;
mod connect;
mod error;
mod exchange;
mod flow;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod host;
mod link;
mod memory;
mod plan;
mod rendezvous;
mod subgroup;
mod timed;

pub use abort::MeshAborter;
pub use calls::{CALL_TOKEN, CallListener, CallToken, call};
pub use error::{ExchangeError, Loss, MeshError, Refusal};
pub use exchange::{CallbackError, EXCHANGE_MAX, Exchange, FnExchange};
pub use group::{Mesh, MeshConfig};
pub use host::{HOST_ID_VARIABLE, HostId};
pub use rendezvous::{JOB_NAME_MAX, TcpRendezvous};
pub use subgroup::MeshExchange;
