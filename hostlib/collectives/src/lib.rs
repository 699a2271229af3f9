//! Collectives that hosts do without a switch, for the Netfold host library: [`reduce`] reduces byte buffers, [`mesh`] has collectives over TCP links
//! between all ranks of a job, and [`shared`] has collectives through shared memory among the ranks of one host.
//!
//! [`mesh`] is a job's fallback; [`shared`] has a trait,
//! [`shared::Network`], which takes a host's sum and returns the global one.

mod buffers;
mod call;
pub mod mesh;
pub mod reduce;
pub mod shared;

pub use buffers::Buffers;
pub use call::{CallKind, CallSignature};
pub use netfold_wire::{Collective, DType, Extent, ReduceOp};
