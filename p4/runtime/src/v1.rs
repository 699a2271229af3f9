//! The messages of `p4.v1`: calls, the entities they write and read, and the stream.
//!
//! Source: P4Runtime specification 1.4.1, `p4/v1/p4runtime.proto` and `p4/v1/p4data.proto`.

mod data;
mod entity;
mod pipeline;
mod replication;
mod stream;

pub use data::*;
pub use entity::*;
pub use pipeline::*;
pub use replication::*;
pub use stream::*;

use crate::google::Any;

/// A number of 128 bits: election ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Uint128 {
    /// Upper half.
    #[prost(uint64, tag = "1")]
    pub high: u64,
    /// Lower half.
    #[prost(uint64, tag = "2")]
    pub low: u64,
}

impl From<u128> for Uint128 {
    fn from(value: u128) -> Self {
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

impl From<Uint128> for u128 {
    fn from(value: Uint128) -> Self {
        Self::from(value.high) << 64 | Self::from(value.low)
    }
}

/// Updates to be carried out in order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WriteRequest {
    /// The switch.
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Deprecated number of the role.
    #[prost(uint64, tag = "2")]
    pub role_id: u64,
    /// Name of the role; empty is the role that may do everything.
    #[prost(string, tag = "6")]
    pub role: String,
    /// Election id of the sender, which must be the primary's.
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    /// What to change.
    #[prost(message, repeated, tag = "4")]
    pub updates: Vec<Update>,
    /// What happens to the rest when one update fails.
    #[prost(enumeration = "Atomicity", tag = "5")]
    pub atomicity: i32,
}

/// What happens to the other updates of a [`WriteRequest`] when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Atomicity {
    /// The others are tried all the same. Every switch has this.
    ContinueOnError = 0,
    /// Those done are undone; packets may have seen them.
    RollbackOnError = 1,
    /// All or none, for packets too.
    DataplaneAtomic = 2,
}

/// Answer to a [`WriteRequest`] whose every update was done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct WriteResponse {}

/// What to read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    /// The switch.
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Name of the role.
    #[prost(string, tag = "3")]
    pub role: String,
    /// Patterns: ids of 0 and keys that are not set stand for all.
    #[prost(message, repeated, tag = "2")]
    pub entities: Vec<Entity>,
}

/// A part of what was read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    /// What was found.
    #[prost(message, repeated, tag = "1")]
    pub entities: Vec<Entity>,
}

/// One change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    /// What to do.
    #[prost(enumeration = "UpdateType", tag = "1")]
    pub r#type: i32,
    /// With what.
    #[prost(message, optional, tag = "2")]
    pub entity: Option<Entity>,
}

/// Kind of an [`Update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum UpdateType {
    /// Not said; refused.
    Unspecified = 0,
    /// Create what does not exist.
    Insert = 1,
    /// Replace what exists.
    Modify = 2,
    /// Remove what exists.
    Delete = 3,
}

/// Why one update, or one read pattern, failed.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Error {
    /// A [`Code`](crate::google::Code) as its number; 0 where nothing failed.
    #[prost(int32, tag = "1")]
    pub canonical_code: i32,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Whose codes the next field holds.
    #[prost(string, tag = "3")]
    pub space: String,
    /// A code of the switch's own.
    #[prost(int32, tag = "4")]
    pub code: i32,
    /// More about it.
    #[prost(message, optional, tag = "5")]
    pub details: Option<Any>,
}

impl Error {
    /// The message's full name, as an [`Any`] names it.
    pub const NAME: &'static str = "p4.v1.Error";
}

/// Asks what a switch can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CapabilitiesRequest {}

/// What a switch can do.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CapabilitiesResponse {
    /// Version of P4Runtime, as in `1.4.1`.
    #[prost(string, tag = "1")]
    pub p4runtime_api_version: String,
}
