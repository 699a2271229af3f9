//! The aggregation pipeline, written once as data, and what is made of it.
//!
//! - [`ir`]: the pipeline as Rust data; [`check`] decides whether a program is valid.
//! - [`profile`]: what a program is specialised for; [`allreduce`]: the all-reduce program and its table entries.
//! - [`transit`]: packets that a switch sends on as they are.
//! - Back ends: [`v1model`] prints P4_16 for bmv2, [`tna`] for Tofino and [`pna`] for NICs, [`rust`] generates the software
//!   switch's fast path, [`p4info`] describes the program to control planes.
//! - [`estimate`]: what a profile costs on a Tofino; [`refusal`]: what a target cannot do.
//! - [`queueing`]: which target does what with queues.
//! - [`interpret`]: executes any program; what the back ends' output is held against.
//! - [`json`]: programs to and from JSON.
//! - [`entry`]: table entries and multicast groups in plain types.
//!
//! Emission is deterministic: the same program prints the same bytes.
#![forbid(unsafe_code)]

pub mod allreduce;
pub mod check;
pub mod entry;
pub mod estimate;
mod fields;
pub mod interpret;
pub mod ir;
pub mod json;
pub mod p4info;
pub mod pna;
pub mod profile;
pub mod queueing;
pub mod refusal;
pub mod rust;
pub mod tna;
pub mod transit;
pub mod v1model;
mod writer;

/// EtherType of IPv4.
const ETHERTYPE_IPV4: u16 = 0x0800;
