//! What hosts do by themselves, for the Netfold host library: [`reduce`] folds byte buffers, [`mesh`] has collectives over TCP links
//! between all ranks of a job, and [`shared`] has collectives through shared memory among the ranks of one host.
//!
//! The three know nothing of switches. [`mesh`] is what a job falls back to; [`shared`] offers a trait,
//! [`shared::Network`], by which a host's sum goes out and comes back.

mod buffers;
pub mod mesh;
mod op;
pub mod reduce;
pub mod shared;

pub use buffers::Buffers;
pub use netfold_proto::DType;
pub use op::ReduceOp;
