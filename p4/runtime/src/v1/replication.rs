//! The packet replication engine: multicast groups and clone sessions.

/// A multicast group or a clone session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketReplicationEngineEntry {
    /// Which of the two.
    #[prost(oneof = "Replication", tags = "1, 2")]
    pub r#type: Option<Replication>,
}

/// Kinds of [`PacketReplicationEngineEntry`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Replication {
    /// A multicast group.
    #[prost(message, tag = "1")]
    MulticastGroup(MulticastGroupEntry),
    /// A clone session.
    #[prost(message, tag = "2")]
    CloneSession(CloneSessionEntry),
}

/// One copy.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Replica {
    /// Where it goes.
    #[prost(oneof = "PortKind", tags = "1, 3")]
    pub port_kind: Option<PortKind>,
    /// Replica id that egress sees.
    #[prost(uint32, tag = "2")]
    pub instance: u32,
}

/// An egress port.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum PortKind {
    /// As a number; deprecated.
    #[prost(uint32, tag = "1")]
    EgressPort(u32),
    /// As a bytestring.
    #[prost(bytes, tag = "3")]
    Port(Vec<u8>),
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MulticastGroupEntry {
    /// Number, above 0; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub multicast_group_id: u32,
    /// The copies; each pair of port and instance once.
    #[prost(message, repeated, tag = "2")]
    pub replicas: Vec<Replica>,
    /// Kept for the controller.
    #[prost(bytes = "vec", tag = "3")]
    pub metadata: Vec<u8>,
}

/// A clone session.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct CloneSessionEntry {
    /// Number, above 0; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub session_id: u32,
    /// The copies.
    #[prost(message, repeated, tag = "2")]
    pub replicas: Vec<Replica>,
    /// Class of service of every copy.
    #[prost(uint32, tag = "3")]
    pub class_of_service: u32,
    /// Length that copies are cut to; 0 leaves them whole.
    #[prost(int32, tag = "4")]
    pub packet_length_bytes: i32,
}
