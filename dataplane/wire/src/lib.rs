//! The Netfold wire protocol: what the bytes of a packet mean, and the [vocabulary] of operations that all parts share.
//!
//! A packet is Ethernet / IPv4 / UDP (destination port [`UDP_PORT`]) / [Netfold header](header) / lanes, all
//! big-endian. Transports that own the outer headers (a UDP socket) carry only the *datagram*: the Netfold header and
//! the lanes. The outer headers are smoltcp's wire types; see [`frame`].
//!
//! The header is defined once, in [`field::TABLE`]. The views here, the pipeline program and the protocol page of the
//! documentation are derived from that table or checked against it.
//!
//! # Contract of the views
//!
//! [`header::Packet::new_checked`] proves that the buffer holds a whole header; after it no accessor panics.
//! [`header::Repr::emit`] never panics on a buffer of at least [`header::LEN`] bytes. [`header::Packet`] shows every
//! bit and judges nothing; [`header::Repr`] holds meaningful states only.
//!
//! This crate does no I/O, knows no clock and has no unsafe code.
#![forbid(unsafe_code)]

pub mod dscp;
pub mod field;
pub mod frame;
pub mod header;
pub mod hex;
mod keys;
mod lane_ops;
pub mod serial;
pub mod vocabulary;

pub use dscp::Dscp;
pub use header::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr};
pub use keys::{JobKeys, PacketKey, PortKeys, TAG_LEN};
pub use lane_ops::LaneOps;
pub use vocabulary::collective::{Collective, Extent};
pub use vocabulary::dtype::DType;
pub use vocabulary::mode::{Lanes, Mode, Numerics};
pub use vocabulary::reduce_op::ReduceOp;

/// UDP destination port of Netfold packets.
pub const UDP_PORT: u16 = 20038;

/// Protocol version carried in every header.
pub const VERSION: u8 = 2;

/// Most workers (children) that one aggregation level folds: the width of the contributor bitmap.
pub const CHILDREN_MAX: usize = 32;

/// Classes of operations that the header can tell apart.
pub const CLASSES_MAX: u8 = 16;

/// Priorities of links with flow control per priority (IEEE Std 802.1Q). The classes are divided evenly among them.
pub const PRIORITIES: u8 = 8;

/// The priority of a class, at links with flow control per priority.
pub const fn priority_of(class: u8) -> u8 {
    class % CLASSES_MAX / (CLASSES_MAX / PRIORITIES)
}

/// Most consecutive UDP ports that a worker sends from.
pub const PATHS_MAX: u8 = 64;

/// Levels of a tree of switches, at most.
pub const LEVELS_MAX: usize = 3;

/// Most workers of one job: those below a tree of [`LEVELS_MAX`] levels of [`CHILDREN_MAX`] children.
pub const WORLD_MAX: u16 = 1 << 15;

/// Why bytes are not a Netfold packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The buffer ends before the header or the announced payload does.
    #[error("packet is truncated: {len} bytes where {need} are needed")]
    Truncated {
        /// Bytes present.
        len: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The version nibble is not [`VERSION`].
    #[error("unsupported protocol version {0}; this build speaks version {VERSION}")]
    Version(u8),
    /// The kind nibble names no packet kind.
    #[error("unknown packet kind {0}")]
    Kind(u8),
    /// The operation nibble names no lane operation.
    #[error("unknown lane operation {0}")]
    Op(u8),
    /// The reason byte names no reason.
    #[error("unknown reason {0}")]
    Reason(u8),
    /// An outer header (Ethernet, IPv4 or UDP) is malformed or is not addressed to Netfold.
    #[error("outer header: {0}")]
    Outer(&'static str),
}
