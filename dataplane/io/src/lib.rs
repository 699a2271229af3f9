//! Packet I/O behind one batch trait, [`PacketIo`]: switch, worker and benchmarks move Netfold datagrams through this crate,
//! independently of what carries them.
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
//! 4. Drop it: peers in the same process detect that, peers behind sockets do not.
//!
//! The trait is synchronous, one thread per instance, and costs no allocation per packet: memory belongs to the
//! caller and is lent for the length of one call.
//!
//! ```
//! use netfold_io::{PacketIo, PortId, Transmit, loopback};
//!
//! let (mut hub, mut spokes) = loopback::star(2, 64, 1436);
//! let hello = Transmit { port: PortId(0), offset: 0, len: 5 };
//! assert_eq!(spokes[1].transmit(b"hello", &[hello])?, 1);
//!
//! let mut batch = hub.capabilities().batch();
//! hub.receive(&mut batch)?;
//! let packet = batch.packets()[0];
//! assert_eq!((packet.port, batch.bytes(&packet)), (PortId(1), &b"hello"[..]));
//! # Ok::<(), netfold_io::IoError>(())
//! ```
//!
//! # Backends and middleware
//!
//! [`loopback`]: rings within the process. [`shm`] (Linux): rings between processes of one host. [`udp`] (Linux): sockets, many datagrams a call. [`ethernet`]: datagrams over any
//! [`link::Link`], which carries whole frames. [`Null`]: nothing.
//! [`fault::Faulty`], [`pcap::Captured`] and [`Authenticated`] wrap any of them. [`forward`] is the bound that benchmarks compare with.
//! Links: [`link::AfPacket`], [`link::PacketRing`], [`link::Xdp`], [`link::XdpQueues`] (Linux). DPDK's are in a separate package.
//!
//! [`spec`] opens any of them by the text of the option `--io`; [`cores`] keeps the thread that runs one on a core.
//!
//! Datagrams may be lost, repeated and reordered unless [`Capabilities::lossless`] is set.

mod authenticated;
mod backend;
mod batch;
pub mod cores;
mod counters;
mod error;
pub mod ethernet;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod event_waker;
pub mod fault;
pub mod forward;
pub mod link;
pub mod loopback;
mod middleware;
mod mix;
mod null;
pub mod pcap;
#[cfg(target_os = "linux")]
pub mod shm;
pub mod spec;
#[doc(hidden)]
pub mod sync;
mod sys;
#[cfg(target_os = "linux")]
pub mod udp;
mod vacant;
mod waker;

pub use authenticated::Authenticated;
pub use backend::{Capabilities, PacketIo, Paused};
pub use batch::{PortId, Received, RxBatch, Transmit, check_transmit};
pub use cores::{CoreError, Cores};
pub use counters::IoCounters;
pub use error::IoError;
pub use loopback::Loopback;
pub use middleware::Middleware;
pub use null::Null;
pub use spec::{IoSpec, OpenOptions, ThreadOpener, open, open_threads};
pub use vacant::vacant_address;
