//! The stream between one controller and a switch: who is in charge, packets, digests, notices.

use super::{P4Data, TableEntry, Uint128};
use crate::google::{Any, Status};

/// From the controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageRequest {
    /// The message.
    #[prost(oneof = "StreamRequest", tags = "1, 2, 3, 4")]
    pub update: Option<StreamRequest>,
}

/// What a controller says on the stream.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamRequest {
    /// Its election id.
    #[prost(message, tag = "1")]
    Arbitration(MasterArbitrationUpdate),
    /// A packet for the pipeline.
    #[prost(message, tag = "2")]
    Packet(PacketOut),
    /// It has a digest list.
    #[prost(message, tag = "3")]
    DigestAck(DigestListAck),
    /// Something of an architecture's own.
    #[prost(message, tag = "4")]
    Other(Any),
}

/// From the switch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageResponse {
    /// The message.
    #[prost(oneof = "StreamResponse", tags = "1, 2, 3, 4, 5, 6")]
    pub update: Option<StreamResponse>,
}

/// What a switch says on the stream.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamResponse {
    /// Who is in charge.
    #[prost(message, tag = "1")]
    Arbitration(MasterArbitrationUpdate),
    /// A packet from the pipeline.
    #[prost(message, tag = "2")]
    Packet(PacketIn),
    /// Digests.
    #[prost(message, tag = "3")]
    Digest(DigestList),
    /// Entries that no packet has hit for long.
    #[prost(message, tag = "4")]
    IdleTimeout(IdleTimeoutNotification),
    /// Something of an architecture's own.
    #[prost(message, tag = "5")]
    Other(Any),
    /// A message from the controller was no good.
    #[prost(message, tag = "6")]
    Error(StreamError),
}

/// A packet for the pipeline.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PacketOut {
    /// Its bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
    /// Fields of the program's `packet_out` header.
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<PacketMetadata>,
}

/// A packet from the pipeline.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PacketIn {
    /// Its bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
    /// Fields of the program's `packet_in` header.
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<PacketMetadata>,
}

/// A field of a packet's controller header.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PacketMetadata {
    /// Which, as in P4Info.
    #[prost(uint32, tag = "1")]
    pub metadata_id: u32,
    /// Value, a bytestring.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// Digests of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DigestList {
    /// Which digest.
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    /// Number of this list, for the acknowledgement.
    #[prost(uint64, tag = "2")]
    pub list_id: u64,
    /// The digests.
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<P4Data>,
    /// When, in nanoseconds since the Unix epoch.
    #[prost(int64, tag = "4")]
    pub timestamp: i64,
}

/// A digest list has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DigestListAck {
    /// Which digest.
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    /// Which list.
    #[prost(uint64, tag = "2")]
    pub list_id: u64,
}

/// Arbitration between controllers. From a controller: its bid. From the switch: the outcome.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MasterArbitrationUpdate {
    /// The switch.
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// For which role; absent is the one that may do everything.
    #[prost(message, optional, tag = "2")]
    pub role: Option<Role>,
    /// The bid, or the highest that the switch knows.
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    /// From the switch: OK to the primary, `ALREADY_EXISTS` to the others, `NOT_FOUND` when there is no primary.
    #[prost(message, optional, tag = "4")]
    pub status: Option<Status>,
}

/// A role: a part of the switch that a controller is in charge of.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Role {
    /// Deprecated number.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// What the role covers.
    #[prost(message, optional, tag = "2")]
    pub config: Option<Any>,
}

/// Entries that no packet has hit for as long as they said.
#[derive(Clone, PartialEq, prost::Message)]
pub struct IdleTimeoutNotification {
    /// The entries' keys.
    #[prost(message, repeated, tag = "1")]
    pub table_entry: Vec<TableEntry>,
    /// When, in nanoseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// What was wrong with a message on the stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamError {
    /// A [`Code`](crate::google::Code) as its number.
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
    /// The message in question.
    #[prost(oneof = "StreamErrorDetails", tags = "5, 6, 7")]
    pub details: Option<StreamErrorDetails>,
}

/// Which message was wrong.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamErrorDetails {
    /// A packet.
    #[prost(message, tag = "5")]
    PacketOut(PacketOutError),
    /// An acknowledgement.
    #[prost(message, tag = "6")]
    DigestListAck(DigestListAckError),
    /// Something else.
    #[prost(message, tag = "7")]
    Other(StreamOtherError),
}

/// A packet that was wrong.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PacketOutError {
    /// The packet, if it is sent back.
    #[prost(message, optional, tag = "1")]
    pub packet_out: Option<PacketOut>,
}

/// An acknowledgement that was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DigestListAckError {
    /// The acknowledgement, if it is sent back.
    #[prost(message, optional, tag = "1")]
    pub digest_list_ack: Option<DigestListAck>,
}

/// Another message that was wrong.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct StreamOtherError {
    /// The message, if it is sent back.
    #[prost(message, optional, tag = "1")]
    pub other: Option<Any>,
}
