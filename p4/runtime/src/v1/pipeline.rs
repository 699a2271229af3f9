//! Pushing and reading back a pipeline.

use super::Uint128;
use crate::config::P4Info;

/// Gives a switch a pipeline.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetForwardingPipelineConfigRequest {
    /// The switch.
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Deprecated number of the role.
    #[prost(uint64, tag = "2")]
    pub role_id: u64,
    /// Name of the role.
    #[prost(string, tag = "6")]
    pub role: String,
    /// Election id of the sender, which must be the primary's.
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    /// How far to go.
    #[prost(enumeration = "PipelineAction", tag = "4")]
    pub action: i32,
    /// The pipeline.
    #[prost(message, optional, tag = "5")]
    pub config: Option<ForwardingPipelineConfig>,
}

/// What to do with a pipeline that is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PipelineAction {
    /// Not said; refused.
    Unspecified = 0,
    /// Only say whether it would do.
    Verify = 1,
    /// Keep it for a later [`PipelineAction::Commit`].
    VerifyAndSave = 2,
    /// Use it from now on, with empty tables.
    VerifyAndCommit = 3,
    /// Use the one kept.
    Commit = 4,
    /// Use it from now on and keep the tables' entries.
    ReconcileAndCommit = 5,
}

/// The switch has done as asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SetForwardingPipelineConfigResponse {}

/// A pipeline.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardingPipelineConfig {
    /// How control planes see it.
    #[prost(message, optional, tag = "1")]
    pub p4info: Option<P4Info>,
    /// What the switch runs, in a form of its own; for bmv2 the JSON that its compiler writes.
    #[prost(bytes = "vec", tag = "2")]
    pub p4_device_config: Vec<u8>,
    /// A number by which the controller knows the pipeline again.
    #[prost(message, optional, tag = "3")]
    pub cookie: Option<Cookie>,
}

/// A number that means something to the controller alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Cookie {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub cookie: u64,
}

/// Asks for the pipeline that a switch runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct GetForwardingPipelineConfigRequest {
    /// The switch.
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Which parts to send.
    #[prost(enumeration = "ResponseType", tag = "2")]
    pub response_type: i32,
}

/// Which parts of a [`ForwardingPipelineConfig`] to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ResponseType {
    /// Everything.
    All = 0,
    /// The cookie.
    CookieOnly = 1,
    /// P4Info and cookie.
    P4infoAndCookie = 2,
    /// What the switch runs, and the cookie.
    DeviceConfigAndCookie = 3,
}

/// The pipeline that a switch runs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetForwardingPipelineConfigResponse {
    /// The pipeline; absent when there is none.
    #[prost(message, optional, tag = "1")]
    pub config: Option<ForwardingPipelineConfig>,
}
