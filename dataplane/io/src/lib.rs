//! Packet I/O behind one batch trait, [`PacketIo`]: whoever moves Netfold datagrams (switch, worker, bench) does it
//! through this crate and never learns what carries them.
//!
//! A *datagram* is a Netfold header and its lanes, without outer headers. A backend has *ports*: each is one peer,
//! named by a [`PortId`]. A worker has one port, 0, its switch; a switch has one port a worker.
//!
//! # Life cycle
//!
//! 1. Open a backend, and wrap it in middleware where wanted.
//! 2. Read its [`Capabilities`] and make an [`RxBatch`] of that size.
//! 3. Loop: [`receive`](PacketIo::receive) until it returns 0, [`transmit`](PacketIo::transmit) what came of it,
//!    and [`wait`](PacketIo::wait) when both are idle or `transmit` took fewer packets than were offered.
//! 4. Drop it: peers in the same process notice, peers behind sockets do not.
//!
//! The trait is synchronous, one thread per instance, and costs no allocation per packet: memory belongs to the
//! caller and is lent for the length of one call.
//!
//! Datagrams may be lost, repeated and reordered unless [`Capabilities::lossless`] says otherwise.

mod backend;
mod batch;
mod bell;
mod counters;
mod error;
pub mod fault;
pub mod forward;
pub mod loopback;
mod null;
pub mod pcap;
#[cfg(target_os = "linux")]
pub mod udp;

pub use backend::{Capabilities, PacketIo};
pub use batch::{PortId, Received, RxBatch, Transmit, check_transmit};
pub use counters::IoCounters;
pub use error::IoError;
pub use loopback::Loopback;
pub use null::Null;
