//! Southbound drivers of Netfold's controller: how it controls switches that are other processes or other machines, or are in the kernel.
//!
//! - [`p4runtime`]: switches that offer P4Runtime, which every managed switch does.
//! - [`bfrt`]: Tofino switches, over BF Runtime.
//! - [`xdp`]: the program in this host's kernel, by system calls; on Linux.
//! - [`managed_plane`], [`elected_plane`]: all switches of a topology, each with a driver that keeps it in the state that the control plane desires.
//!
//! All drivers implement [`netfold_controller::SwitchDriver`]; the decisions are in `netfold-controller`, which does not use gRPC.
#![forbid(unsafe_code)]

pub mod bfrt;
pub mod p4runtime;
mod plane;
#[cfg(target_os = "linux")]
pub mod xdp;

pub use plane::{elected_plane, managed_plane};
