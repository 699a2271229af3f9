//! DPDK: network cards and virtual devices driven from this process, bypassing the kernel. Behind the feature `dpdk`.
//!
//! A [`Spec`] names a device and its settings, in the syntax of `--io dpdk:...`; [`open`] makes packet I/O of it. With the feature, `Eal` is DPDK started
//! in this process, `Device` a device that was attached, `Port` the device configured and running, `Queue` one of its queues, and
//! `Dpdk` the [`Link`](netfold_io::link::Link) of one queue or several. Each keeps alive what it comes from, and dropping the last one
//! stops the port and gives the device back.
//!
//! # Life cycle
//!
//! DPDK starts once a process, when the first device is opened, and ends with the process. Devices can be attached and detached. Nothing is
//! left behind even by `kill -9`: DPDK runs without files of its own (hugepages are anonymous, there is no shared
//! configuration and no telemetry socket), and tap interfaces disappear with the descriptor that made them.
//!
//! # Threads
//!
//! A link belongs to one thread at a time. Threads that receive or send get a number of DPDK's the first time, so that buffers
//! come from a cache of the thread's own.
//!
//! Several threads may share a device ([`open_threads`]): each gets the datagrams to its own port. A rule of the device (`rte_flow`) puts them into the
//! thread's queue where there are such rules; otherwise, or where there are fewer queues than threads, the thread that receives them transfers them.
//!
//! # Not supported
//!
//! Rules for anything but a thread's port; offloads of checksums; several processes on one device.

mod error;
mod open;
mod spec;

#[cfg(feature = "dpdk")]
mod buffers;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod dispatch;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod event_waker;
#[cfg(feature = "dpdk")]
mod interface_monitor;
#[cfg(feature = "dpdk")]
mod link;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
pub mod swx;
#[cfg(feature = "dpdk")]
mod sys;

#[cfg(feature = "dpdk")]
pub use buffers::{Arrivals, Outbox, Packet, Pool};
#[cfg(feature = "dpdk")]
pub use device::{Device, ring_queues, rings};
#[cfg(feature = "dpdk")]
pub use eal::{Eal, Memory};
pub use error::DpdkError;
#[cfg(feature = "dpdk")]
pub use link::Dpdk;
pub use open::{open, open_threads};
#[cfg(feature = "dpdk")]
pub use port::{LinkState, Port, PortConfig, PortStats, Queue, Steering};
pub use spec::{Huge, Options, Spec};
