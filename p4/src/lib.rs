//! The aggregation pipeline, defined once as data, and the programs derived from it.
//!
//! - [`ir`]: the pipeline as Rust data; [`check`] decides whether a program is valid.
//! - [`profile`]: what a program is specialised for; [`allreduce`]: the all-reduce program and its table entries.
//! - [`transit`]: packets that a switch forwards unchanged.
//! - Back ends: [`v1model`] prints P4_16 for bmv2, [`tna`] for Tofino and [`pna`] for NICs, [`swx`] a specification for DPDK's software pipeline, [`rust`]
//!   generates the software switch's pipelines, [`p4info`] describes the program to control planes.
//! - [`estimate`]: the resources of a profile on a Tofino; [`refusal`]: limits of targets.
//! - [`queueing`]: the queueing features of each target.
//! - [`growth`]: packets that a program may make longer; [`rewriting`]: packets whose copies it may change.
//! - [`interpret`]: executes any program; the reference for the back ends' output.
//! - [`json`]: programs to and from JSON.
//! - [`entry`]: table entries and multicast groups in plain types.
//! - [`stf`]: scripts of packets and expectations, as the P4 compiler's tests have them.
//!
//! Emission is deterministic: the same program prints the same bytes.
#![forbid(unsafe_code)]

pub mod allreduce;
pub mod check;
pub mod entry;
pub mod estimate;
mod fields;
pub mod growth;
pub mod interpret;
pub mod ir;
pub mod json;
mod object_id;
pub mod p4info;
pub mod pna;
pub mod profile;
pub mod queueing;
pub mod refusal;
pub mod rewriting;
pub mod rust;
pub mod stf;
pub mod swx;
pub mod tna;
pub mod transit;
pub mod v1model;
mod writer;
pub mod xdp;

/// EtherType of IPv4.
const ETHERTYPE_IPV4: u16 = 0x0800;
