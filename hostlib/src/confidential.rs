//! Confidential jobs: switches, and observers of the network, see masked lanes only.
//!
//! Every rank holds the same [`GroupKey`](crate::GroupKey). At each attachment to a switch the ranks agree on a fresh key, from which
//! [`Masks`] computes what each rank adds to its lanes, and what all subtract from the sums. What ranks send each other goes over
//! links that encrypt it. Ranks of one host share memory in clear.
//!
//! The masks hide values. They do not protect integrity: who can change packets can change sums.

mod agreement;
mod masks;

pub(crate) use agreement::{AgreedKey, Key, Members, agree};
pub use masks::Masks;
pub use netfold_proto::{CodedChunk, OpId};
