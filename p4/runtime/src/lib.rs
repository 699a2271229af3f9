//! The messages of P4Runtime and BF Runtime, without a transport.
//!
//! - [`v1`]: the messages of `p4.v1` (requests, entities, the stream, errors).
//! - [`config`]: `p4.config.v1`, the description of a pipeline that controller and switch share (P4Info).
//! - [`google`]: the messages of `google.protobuf` and `google.rpc` that P4Runtime refers to, and status codes.
//! - [`ports`]: Netfold's own service beside P4Runtime, for switches whose links are UDP.
//! - [`bfrt`]: the messages of BF Runtime that the driver of Tofino switches uses.
//! - [`bytestring`]: the encoding of numbers.
//! - [`Schema`]: a P4Info indexed by ids; converts [`netfold_p4::entry`] types from and to messages and refuses entries
//!   that the pipeline does not have.
//! - [`state`]: what a switch holds, what it should hold, and the updates that make the one the other.
//!
//! The messages are generated from the definitions in `proto/`, whose field numbers and types are those of the P4Runtime
//! specification 1.4.1 and of BF Runtime. Fields that are not in these files are skipped when they are received. Messages
//! are plain data: decoding fails only on bytes that are no protobuf, so the receiver checks the values. Enumerations are
//! `i32` fields with an accessor, as protobuf keeps unknown values. Nested types have a short name in each module, such as
//! [`v1::EntityKind`] for the `oneof` in `p4.v1.Entity`.
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

pub mod bfrt;
pub mod bytestring;
pub mod config;
pub mod google;
pub mod ports;
pub mod schema;
pub mod state;
pub mod v1;

/// The generated modules, one per package; those above re-export them.
mod proto {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::allow_attributes_without_reason,
        reason = "generated; documented in the definitions"
    )]
    include!("generated/protocols.rs");
}

pub use schema::{Schema, SchemaError};

use netfold_p4::ir::Program;
use prost::Message;

/// Version of the P4Runtime specification that these messages follow.
pub const API_VERSION: &str = "1.4.1";

/// Full name of the gRPC service, as used in request paths.
pub const SERVICE: &str = "p4.v1.P4Runtime";

/// The P4Info of a program.
///
/// # Errors
///
/// When the program's own serialisation is not a P4Info: a defect of the printer.
pub fn p4info(program: &Program) -> Result<config::P4Info, prost::DecodeError> {
    config::P4Info::decode(netfold_p4::p4info::binary(program).as_slice())
}
