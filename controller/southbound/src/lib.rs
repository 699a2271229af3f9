//! Southbound drivers of Netfold's controller: how it controls switches that are other processes or other machines.
//!
//! - [`p4runtime`]: switches that offer P4Runtime, which every managed switch does.
//! - [`bfrt`]: Tofino switches, over BF Runtime.
//! - [`managed_plane`], [`elected_plane`]: all switches of a topology, each with a driver that keeps it in the state that the control plane desires.
//!
//! Both drivers implement [`netfold_controller::SwitchDriver`]; the decisions are in `netfold-controller`, which does not use gRPC.
#![forbid(unsafe_code)]

pub mod bfrt;
pub mod p4runtime;
mod plane;

pub use plane::{elected_plane, managed_plane};
