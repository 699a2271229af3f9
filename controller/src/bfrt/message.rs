//! The messages of `bfrt_proto`, as far as the driver uses them.
//!
//! Source: field numbers and types of `bfruntime.proto` as published with the SDE; fields that are not here are skipped
//! when they are received.

use netfold_p4_runtime::google::Status;

/// Part of a device; all pipes are `pipe_id` 0xffff.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TargetDevice {
    /// Device.
    #[prost(uint32, tag = "1")]
    pub device_id: u32,
    /// Pipe; 0xffff is all.
    #[prost(uint32, tag = "2")]
    pub pipe_id: u32,
    /// 0 ingress, 1 egress, 0xff both.
    #[prost(uint32, tag = "3")]
    pub direction: u32,
    /// Parser; 0xff is all.
    #[prost(uint32, tag = "4")]
    pub prsr_id: u32,
}

/// Changes of tables.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WriteRequest {
    /// Where.
    #[prost(message, optional, tag = "1")]
    pub target: Option<TargetDevice>,
    /// Who asks.
    #[prost(uint32, tag = "2")]
    pub client_id: u32,
    /// What to change, in order.
    #[prost(message, repeated, tag = "3")]
    pub updates: Vec<Update>,
    /// 0 continue on error, 1 roll back on error, 2 atomic for packets.
    #[prost(int32, tag = "4")]
    pub atomicity: i32,
    /// The program.
    #[prost(string, tag = "5")]
    pub p4_name: String,
}

/// What became of a [`WriteRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct WriteResponse {
    /// One for each update, or none when all were done.
    #[prost(message, repeated, tag = "1")]
    pub status: Vec<Error>,
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
    /// Not said.
    Unspecified = 0,
    /// Create what does not exist.
    Insert = 1,
    /// Replace what exists.
    Modify = 2,
    /// Add to, or take from, what exists.
    ModifyInc = 3,
    /// Remove what exists.
    Delete = 4,
    /// Create or replace.
    InsertOrModify = 5,
    /// Back to the initial state.
    Reset = 6,
}

/// Something that a device holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entity {
    /// What.
    #[prost(oneof = "EntityKind", tags = "1")]
    pub entity: Option<EntityKind>,
}

/// Kinds of [`Entity`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum EntityKind {
    /// A table entry.
    #[prost(message, tag = "1")]
    TableEntry(TableEntry),
}

/// An entry of a table; multicast groups and nodes are entries too.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableEntry {
    /// Table, as in the program's description.
    #[prost(uint32, tag = "1")]
    pub table_id: u32,
    /// Key; without one, all entries.
    #[prost(message, optional, tag = "2")]
    pub key: Option<TableKey>,
    /// What the entry does or says.
    #[prost(message, optional, tag = "3")]
    pub data: Option<TableData>,
    /// Whether this is what happens without a match.
    #[prost(bool, tag = "4")]
    pub is_default_entry: bool,
}

/// A key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TableKey {
    /// Fields in any order.
    #[prost(message, repeated, tag = "1")]
    pub fields: Vec<KeyField>,
}

/// A field of a key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyField {
    /// Which.
    #[prost(uint32, tag = "1")]
    pub field_id: u32,
    /// How it is compared and with what.
    #[prost(oneof = "KeyMatch", tags = "2, 3")]
    pub match_type: Option<KeyMatch>,
}

/// How a field is compared. Values have all bytes of their field.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum KeyMatch {
    /// With a value.
    #[prost(message, tag = "2")]
    Exact(Exact),
    /// With a value, under a mask.
    #[prost(message, tag = "3")]
    Ternary(Ternary),
}

/// A value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Exact {
    /// Big-endian.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// A value under a mask.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Ternary {
    /// Big-endian.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    /// 1 in bits that are compared.
    #[prost(bytes = "vec", tag = "2")]
    pub mask: Vec<u8>,
}

/// What an entry does or says.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableData {
    /// Action; 0 in tables that have none.
    #[prost(uint32, tag = "1")]
    pub action_id: u32,
    /// Parameters, or data.
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<DataField>,
}

/// A parameter or a piece of data.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DataField {
    /// Which.
    #[prost(uint32, tag = "1")]
    pub field_id: u32,
    /// Its value.
    #[prost(oneof = "DataValue", tags = "2, 5, 6")]
    pub value: Option<DataValue>,
}

/// A value.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum DataValue {
    /// A number with all bytes of its field, big-endian.
    #[prost(bytes, tag = "2")]
    Stream(Vec<u8>),
    /// A list of numbers.
    #[prost(message, tag = "5")]
    Integers(Integers),
    /// A list of truth values.
    #[prost(message, tag = "6")]
    Booleans(Booleans),
}

/// A list of numbers.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Integers {
    /// The numbers.
    #[prost(uint32, repeated, tag = "1")]
    pub val: Vec<u32>,
}

/// A list of truth values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Booleans {
    /// The values.
    #[prost(bool, repeated, tag = "1")]
    pub val: Vec<bool>,
}

/// What to read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    /// Where.
    #[prost(message, optional, tag = "1")]
    pub target: Option<TargetDevice>,
    /// Who asks.
    #[prost(uint32, tag = "2")]
    pub client_id: u32,
    /// Patterns: an entry without a key stands for all of its table.
    #[prost(message, repeated, tag = "3")]
    pub entities: Vec<Entity>,
    /// The program.
    #[prost(string, tag = "4")]
    pub p4_name: String,
}

/// A part of what was read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    /// What was found.
    #[prost(message, repeated, tag = "1")]
    pub entities: Vec<Entity>,
    /// What went wrong.
    #[prost(message, repeated, tag = "2")]
    pub status: Vec<Error>,
}

/// Why one update failed.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Error {
    /// A [`Code`](netfold_p4_runtime::google::Code) as its number; 0 where nothing failed.
    #[prost(int32, tag = "1")]
    pub canonical_code: i32,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
}

impl Error {
    /// The message's full name.
    pub const NAME: &'static str = "bfrt_proto.Error";
}

/// Binds a client to a program, or gives a device its programs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetForwardingPipelineConfigRequest {
    /// Device.
    #[prost(uint32, tag = "1")]
    pub device_id: u32,
    /// Who asks.
    #[prost(uint32, tag = "2")]
    pub client_id: u32,
    /// What to do.
    #[prost(enumeration = "PipelineAction", tag = "3")]
    pub action: i32,
    /// 0 fast reconfiguration, 1 hitless.
    #[prost(int32, tag = "4")]
    pub dev_init_mode: i32,
    /// Folder on the device for the files; its own working folder if empty.
    #[prost(string, tag = "5")]
    pub base_path: String,
    /// The programs.
    #[prost(message, repeated, tag = "6")]
    pub config: Vec<ForwardingPipelineConfig>,
}

/// What a [`SetForwardingPipelineConfigRequest`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PipelineAction {
    /// This client is to write the tables of a program that runs.
    Bind = 0,
    /// Only say whether it would do.
    Verify = 1,
    /// Begin to load, and keep forwarding as before.
    VerifyAndWarmInitBegin = 2,
    /// Load and run; the state of before is gone.
    VerifyAndWarmInitBeginAndEnd = 3,
    /// Run what was loaded.
    WarmInitEnd = 4,
    /// Run it and keep the state.
    ReconcileAndWarmInitEnd = 5,
}

/// Answer to a [`SetForwardingPipelineConfigRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SetForwardingPipelineConfigResponse {
    /// 0 started, 1 finished.
    #[prost(int32, tag = "1")]
    pub kind: i32,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ForwardingPipelineConfig {
    /// Its name on the device.
    #[prost(string, tag = "1")]
    pub p4_name: String,
    /// `bf-rt.json`.
    #[prost(bytes = "vec", tag = "2")]
    pub bfruntime_info: Vec<u8>,
    /// What runs in which pipes.
    #[prost(message, repeated, tag = "3")]
    pub profiles: Vec<PipelineProfile>,
}

/// What runs in some pipes.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PipelineProfile {
    /// Name of the pipeline in the program.
    #[prost(string, tag = "1")]
    pub profile_name: String,
    /// `context.json`.
    #[prost(bytes = "vec", tag = "2")]
    pub context: Vec<u8>,
    /// `tofino.bin`.
    #[prost(bytes = "vec", tag = "3")]
    pub binary: Vec<u8>,
    /// The pipes.
    #[prost(uint32, repeated, tag = "4")]
    pub pipe_scope: Vec<u32>,
}

/// Asks what a device runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct GetForwardingPipelineConfigRequest {
    /// Device.
    #[prost(uint32, tag = "1")]
    pub device_id: u32,
    /// Who asks.
    #[prost(uint32, tag = "2")]
    pub client_id: u32,
}

/// What a device runs.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetForwardingPipelineConfigResponse {
    /// The programs.
    #[prost(message, repeated, tag = "1")]
    pub config: Vec<ForwardingPipelineConfig>,
    /// The tables of the device itself.
    #[prost(message, optional, tag = "2")]
    pub non_p4_config: Option<NonP4Config>,
}

/// Tables that every program has: the replication engine, ports.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct NonP4Config {
    /// In the form of `bf-rt.json`.
    #[prost(bytes = "vec", tag = "1")]
    pub bfruntime_info: Vec<u8>,
}

/// From a client on the stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageRequest {
    /// Who.
    #[prost(uint32, tag = "1")]
    pub client_id: u32,
    /// Announces itself.
    #[prost(message, optional, tag = "2")]
    pub subscribe: Option<Subscribe>,
}

/// A client announces itself.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Subscribe {
    /// Device.
    #[prost(uint32, tag = "2")]
    pub device_id: u32,
    /// What it wants to hear.
    #[prost(message, optional, tag = "3")]
    pub notifications: Option<Notifications>,
    /// From the device: whether it was accepted.
    #[prost(message, optional, tag = "4")]
    pub status: Option<Status>,
}

/// What a client wants to hear; nothing unless told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Notifications {
    /// Digests.
    #[prost(bool, tag = "1")]
    pub learn: bool,
    /// Entries that idle.
    #[prost(bool, tag = "2")]
    pub idle: bool,
    /// Ports that go up and down.
    #[prost(bool, tag = "3")]
    pub ports: bool,
}

/// From the device on the stream; other messages are none of ours.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageResponse {
    /// Answer to the client's announcement.
    #[prost(message, optional, tag = "1")]
    pub subscribe: Option<Subscribe>,
}
