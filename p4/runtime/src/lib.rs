//! P4Runtime as messages: what a controller and a switch say to each other, without a transport.
//!
//! - [`v1`]: the messages of `p4.v1` (requests, entities, the stream, errors).
//! - [`config`]: `p4.config.v1`, the description of a pipeline that both sides share (P4Info).
//! - [`google`]: the two messages of `google.protobuf` and `google.rpc` that P4Runtime refers to, and status codes.
//! - [`ports`]: our own service beside P4Runtime, for switches whose links are UDP.
//! - [`bytestring`]: the rules for numbers on the wire.
//! - [`Schema`]: a P4Info indexed by ids; converts [`netfold_p4::entry`] types from and to messages and refuses what the
//!   pipeline does not have.
//!
//! Field numbers and types are those of the P4Runtime specification 1.4.1. Fields that only 1.5 has are skipped when
//! they are received. Messages are plain data: decoding never fails on a value, only on bytes that are no protobuf, so
//! whoever receives one checks it. Enumerations are `i32` fields with an accessor, as protobuf keeps unknown values.
//!
//! # Example
//!
//! ```
//! use netfold_p4::{allreduce, profile::Profile};
//! use netfold_p4_runtime::{Schema, p4info};
//!
//! let program = allreduce::program(&Profile::hardware()).unwrap();
//! let schema = Schema::new(&p4info(&program).unwrap()).unwrap();
//! let entry = allreduce::controller_entry(7, netfold_wire::Kind::Advance);
//! let message = schema.encode(&entry).unwrap();
//! assert_eq!(schema.decode(&message).unwrap(), entry);
//! ```
#![forbid(unsafe_code)]

pub mod bytestring;
pub mod config;
pub mod google;
pub mod ports;
pub mod schema;
pub mod v1;

pub use schema::{Schema, SchemaError};

use netfold_p4::ir::Program;
use prost::Message;

/// Version of the P4Runtime specification that these messages follow.
pub const API_VERSION: &str = "1.4.1";

/// Full name of the gRPC service, as it stands in request paths.
pub const SERVICE: &str = "p4.v1.P4Runtime";

/// The P4Info of a program.
///
/// # Errors
///
/// When the program's own serialisation is not a P4Info: a defect of the printer.
pub fn p4info(program: &Program) -> Result<config::P4Info, prost::DecodeError> {
    config::P4Info::decode(netfold_p4::p4info::binary(program).as_slice())
}
