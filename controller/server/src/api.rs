//! The controller's gRPC interface, `netfold.controller.v1`: messages, client and server stubs, and the descriptor for
//! server reflection.
//!
//! `proto/netfold/controller/v1/controller.proto` is the interface; this module is that file compiled by
//! `cargo xtask snapshots`. Programs in other languages take the file, or ask the controller for it by reflection.
//!
//! ```no_run
//! use netfold_server::api::v1::{ListSwitchesRequest, switches_client::SwitchesClient};
//!
//! # async fn list() -> Result<(), Box<dyn std::error::Error>> {
//! let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:20041").connect().await?;
//! let response = SwitchesClient::new(channel).list(ListSwitchesRequest::default()).await?.into_inner();
//! for switch in response.switches {
//!     println!("{}: {} of {} slots", switch.name, switch.slots_used, switch.slots);
//! }
//! # Ok(()) }
//! ```

/// Domain of the `google.rpc.ErrorInfo` in the details of every error.
pub const ERROR_DOMAIN: &str = "netfold.controller";

/// The compiled file with all that it imports: a serialized `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTOR: &[u8] = include_bytes!("generated/controller.bin");

/// Version 1 of the interface, as the file has it.
pub mod v1 {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::allow_attributes_without_reason,
        reason = "generated; documented in the file"
    )]
    include!("generated/netfold.controller.v1.rs");
}
