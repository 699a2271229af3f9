//! The messages of `p4.config.v1`: P4Info, what a control plane knows of a pipeline.
//!
//! Source: P4Runtime specification 1.4.1, `p4/config/v1/p4info.proto` and `p4types.proto`.

mod info;
mod types;

pub use info::*;
pub use types::*;
