//! Collectives among the ranks of one host, through a segment of shared memory.
//!
//! Ranks are processes, or threads. Rank 0 makes a group ([`SharedGroup::create`]) and passes the [`SharedHandle`]'s bytes to the others
//! over any channel; these [`SharedGroup::join`]. Then all call the same collectives in the same order, each from one thread.
//! There is no network code here: [`Network`] takes a host's sum and returns the global one.
//!
//! ```
//! use netfold_collectives::shared::{SharedConfig, SharedHandle, SharedGroup};
//! use netfold_collectives::{DType, ReduceOp};
//!
//! let (mut zero, handle) = SharedGroup::create(SharedConfig::new(2))?;
//! let bytes = handle.to_bytes(); // to the other process
//! let other = std::thread::spawn(move || {
//!     let mut one = SharedGroup::join(&SharedHandle::from_bytes(&bytes)?, 1)?;
//!     let mut tensor = 2.0f32.to_ne_bytes();
//!     one.all_reduce(DType::F32, ReduceOp::Sum, &mut tensor[..])
//! });
//! let mut tensor = 1.0f32.to_ne_bytes();
//! zero.all_reduce(DType::F32, ReduceOp::Sum, &mut tensor[..])?;
//! assert_eq!(f32::from_ne_bytes(tensor), 3.0);
//! other.join().expect("no panic")?;
//! # Ok::<(), netfold_collectives::shared::SharedError>(())
//! ```
//!
//! # How
//!
//! Small tensors take one rendezvous: each rank puts its tensor into the segment, waits for all, and folds all. Large ones pass
//! through slots in cache-sized segments: each rank folds its part of each, and copies the whole. Ranks wait by yielding, then
//! by sleeping on a futex, because there may be more of them than processors.
//!
//! # Failures
//!
//! - A rank that ends, for any reason, is detected within about 0.1 s by those that wait for it: the kernel drops its lock on
//!   a byte of the file, and its process descriptor becomes readable. All ranks then get [`SharedError::PeerLost`].
//! - The file has no name once all have joined, so nothing is left behind. If all ranks are killed before that, the next group
//!   made in the directory removes it.
//! - Memory is allocated when the group is made; a lack of it is an error then, never a signal later.
//! - Other processes of the same user that write to the segment can make results wrong, but indexes and lengths are never
//!   read from it.
//! - A child of fork cannot use its parent's group ([`SharedError::Forked`]), and does not keep it alive.
//!
//! Linux only.

mod collectives;
mod error;
mod group;
mod handle;
mod hierarchy;
mod layout;
mod mapping;
mod pipeline;
mod plan;
mod state;
mod sys;
mod wake;

pub use error::SharedError;
pub use group::{SharedAborter, SharedConfig, SharedGroup};
pub use handle::SharedHandle;
pub use hierarchy::{Network, Segment};
