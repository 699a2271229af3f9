//! A program of [`netfold_p4`] in the kernel's driver path: loaded as BPF ([`netfold_p4::xdp`]), with its tables, registers, counters, ports and multicast
//! groups as maps, and attached to interfaces.
//!
//! Everything is gone with the [`Datapath`], and when the process ends in any way, unless it is [pinned](Datapath::pin): then files in a BPF file system
//! keep it until [`detach_pinned`].
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod datapath;
mod error;
mod peer;
mod pin;
mod ports;
mod tables;

pub use datapath::{Datapath, Ran};
pub use error::XdpError;
pub use netfold_bpf::sys::Hook;
pub use peer::PassAll;
pub use pin::detach_pinned;
