//! Objects of a pipeline.

use super::{P4DataTypeSpec, P4NamedType, P4TypeInfo, SourceLocation, StructuredAnnotation};
use crate::google::Any;

/// A pipeline as control planes see it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Info {
    /// The package.
    #[prost(message, optional, tag = "1")]
    pub pkg_info: Option<PkgInfo>,
    /// Tables.
    #[prost(message, repeated, tag = "2")]
    pub tables: Vec<Table>,
    /// Actions.
    #[prost(message, repeated, tag = "3")]
    pub actions: Vec<Action>,
    /// Action profiles and selectors.
    #[prost(message, repeated, tag = "4")]
    pub action_profiles: Vec<ActionProfile>,
    /// Counter arrays.
    #[prost(message, repeated, tag = "5")]
    pub counters: Vec<Counter>,
    /// Counters of table entries.
    #[prost(message, repeated, tag = "6")]
    pub direct_counters: Vec<DirectCounter>,
    /// Meter arrays.
    #[prost(message, repeated, tag = "7")]
    pub meters: Vec<Meter>,
    /// Meters of table entries.
    #[prost(message, repeated, tag = "8")]
    pub direct_meters: Vec<DirectMeter>,
    /// Headers of packets from and to the controller.
    #[prost(message, repeated, tag = "9")]
    pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
    /// Parser value sets.
    #[prost(message, repeated, tag = "10")]
    pub value_sets: Vec<ValueSet>,
    /// Register arrays.
    #[prost(message, repeated, tag = "11")]
    pub registers: Vec<Register>,
    /// Digests.
    #[prost(message, repeated, tag = "12")]
    pub digests: Vec<Digest>,
    /// Externs of the architecture's own.
    #[prost(message, repeated, tag = "100")]
    pub externs: Vec<Extern>,
    /// Types.
    #[prost(message, optional, tag = "200")]
    pub type_info: Option<P4TypeInfo>,
}

/// Words for people.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Documentation {
    /// One line.
    #[prost(string, tag = "1")]
    pub brief: String,
    /// More.
    #[prost(string, tag = "2")]
    pub description: String,
}

/// Limits of the platform that the program was written for; 0 where nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct PlatformProperties {
    /// Multicast groups.
    #[prost(int32, tag = "1")]
    pub multicast_group_table_size: i32,
    /// Replicas of all groups.
    #[prost(int32, tag = "2")]
    pub multicast_group_table_total_replicas: i32,
    /// Replicas of one group.
    #[prost(int32, tag = "3")]
    pub multicast_group_table_max_replicas_per_entry: i32,
}

/// The package.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PkgInfo {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Words for people.
    #[prost(message, optional, tag = "3")]
    pub doc: Option<Documentation>,
    /// Annotations.
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "10")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Architecture, as in `v1model`.
    #[prost(string, tag = "5")]
    pub arch: String,
    /// Who made it.
    #[prost(string, tag = "6")]
    pub organization: String,
    /// Whom to ask.
    #[prost(string, tag = "7")]
    pub contact: String,
    /// Where to read more.
    #[prost(string, tag = "8")]
    pub url: String,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "9")]
    pub structured_annotations: Vec<StructuredAnnotation>,
    /// What the platform offers.
    #[prost(message, optional, tag = "11")]
    pub platform_properties: Option<PlatformProperties>,
}

/// What every object has.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Preamble {
    /// Number, unique in the pipeline; its upper byte says the kind of object.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Full name, unique among objects of the kind.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Shortest name that is unique.
    #[prost(string, tag = "3")]
    pub alias: String,
    /// Annotations.
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "7")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Words for people.
    #[prost(message, optional, tag = "5")]
    pub doc: Option<Documentation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// An extern type of the architecture's own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Extern {
    /// Number.
    #[prost(uint32, tag = "1")]
    pub extern_type_id: u32,
    /// Name.
    #[prost(string, tag = "2")]
    pub extern_type_name: String,
    /// Its instances.
    #[prost(message, repeated, tag = "3")]
    pub instances: Vec<ExternInstance>,
}

/// An instance of an extern.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExternInstance {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// What there is to know.
    #[prost(message, optional, tag = "2")]
    pub info: Option<Any>,
}

/// A field of a key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MatchField {
    /// Number, from 1.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "10")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Width in bits.
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    /// How it is compared.
    #[prost(oneof = "Match", tags = "5, 7")]
    pub r#match: Option<Match>,
    /// Words for people.
    #[prost(message, optional, tag = "6")]
    pub doc: Option<Documentation>,
    /// Its type, where that has a name of its own.
    #[prost(message, optional, tag = "8")]
    pub type_name: Option<P4NamedType>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "9")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// How a field is compared.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum Match {
    /// In a way that P4Runtime knows: a [`MatchType`] as its number.
    #[prost(enumeration = "MatchType", tag = "5")]
    Type(i32),
    /// In a way of the architecture's own.
    #[prost(string, tag = "7")]
    Other(String),
}

/// Ways to compare a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MatchType {
    /// Not said.
    Unspecified = 0,
    /// With a value.
    Exact = 2,
    /// With a prefix.
    Lpm = 3,
    /// With a value, under a mask.
    Ternary = 4,
    /// With two bounds.
    Range = 5,
    /// With a value, if there is one.
    Optional = 6,
}

/// An action with arguments.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TableActionCall {
    /// The action.
    #[prost(uint32, tag = "1")]
    pub action_id: u32,
    /// Its arguments.
    #[prost(message, repeated, tag = "4")]
    pub arguments: Vec<Argument>,
}

/// An argument.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Argument {
    /// Which parameter.
    #[prost(uint32, tag = "2")]
    pub param_id: u32,
    /// Bytestring.
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// A table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Table {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Its key.
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<MatchField>,
    /// Its actions.
    #[prost(message, repeated, tag = "3")]
    pub action_refs: Vec<ActionRef>,
    /// The default action, if it cannot be changed; otherwise 0.
    #[prost(uint32, tag = "4")]
    pub const_default_action_id: u32,
    /// The default action at first.
    #[prost(message, optional, tag = "5")]
    pub initial_default_action: Option<TableActionCall>,
    /// Its action profile; otherwise 0.
    #[prost(uint32, tag = "6")]
    pub implementation_id: u32,
    /// Counters and meters of its entries.
    #[prost(uint32, repeated, tag = "7")]
    pub direct_resource_ids: Vec<u32>,
    /// Most entries.
    #[prost(int64, tag = "8")]
    pub size: i64,
    /// Whether entries may tell that they are idle.
    #[prost(enumeration = "IdleTimeoutBehavior", tag = "9")]
    pub idle_timeout_behavior: i32,
    /// Whether its entries are the program's alone.
    #[prost(bool, tag = "10")]
    pub is_const_table: bool,
    /// Whether the program has entries for it.
    #[prost(bool, tag = "11")]
    pub has_initial_entries: bool,
    /// Anything else.
    #[prost(message, optional, tag = "100")]
    pub other_properties: Option<Any>,
}

/// What happens to entries that no packet hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IdleTimeoutBehavior {
    /// Nothing.
    NoTimeout = 0,
    /// The controller is told.
    NotifyControl = 1,
}

/// An action of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionRef {
    /// The action.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Where it may stand.
    #[prost(enumeration = "ActionScope", tag = "3")]
    pub scope: i32,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// Where an action of a table may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ActionScope {
    /// In entries and as the default.
    TableAndDefault = 0,
    /// In entries.
    TableOnly = 1,
    /// As the default.
    DefaultOnly = 2,
}

/// An action.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Action {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Parameters.
    #[prost(message, repeated, tag = "2")]
    pub params: Vec<ActionParam>,
}

/// A parameter of an action.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionParam {
    /// Number, from 1.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "8")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Width in bits.
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    /// Words for people.
    #[prost(message, optional, tag = "5")]
    pub doc: Option<Documentation>,
    /// Its type, where that has a name of its own.
    #[prost(message, optional, tag = "6")]
    pub type_name: Option<P4NamedType>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "7")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// An action profile or selector.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfile {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Tables that use it.
    #[prost(uint32, repeated, tag = "2")]
    pub table_ids: Vec<u32>,
    /// Whether it has groups.
    #[prost(bool, tag = "3")]
    pub with_selector: bool,
    /// Most members or weights of all groups.
    #[prost(int64, tag = "4")]
    pub size: i64,
    /// Most members or weights of one group.
    #[prost(int32, tag = "5")]
    pub max_group_size: i32,
    /// What sizes count.
    #[prost(oneof = "SelectorSize", tags = "6, 7")]
    pub selector_size_semantics: Option<SelectorSize>,
}

/// What the sizes of an action profile count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Oneof)]
pub enum SelectorSize {
    /// Weights.
    #[prost(message, tag = "6")]
    SumOfWeights(SumOfWeights),
    /// Members.
    #[prost(message, tag = "7")]
    SumOfMembers(SumOfMembers),
}

/// Sizes count weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SumOfWeights {}

/// Sizes count members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SumOfMembers {
    /// Greatest weight of one member; 0 where nothing is said.
    #[prost(int32, tag = "1")]
    pub max_member_weight: i32,
}

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CounterSpec {
    /// A [`CounterUnit`] as its number.
    #[prost(enumeration = "CounterUnit", tag = "1")]
    pub unit: i32,
}

/// Units of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CounterUnit {
    /// Not said.
    Unspecified = 0,
    /// Bytes.
    Bytes = 1,
    /// Packets.
    Packets = 2,
    /// Both.
    Both = 3,
}

/// A counter array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Counter {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// What it counts.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<CounterSpec>,
    /// Cells.
    #[prost(int64, tag = "3")]
    pub size: i64,
    /// Type of its index, where that has a name of its own.
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// The counter of each entry of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectCounter {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// What it counts.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<CounterSpec>,
    /// The table.
    #[prost(uint32, tag = "3")]
    pub direct_table_id: u32,
}

/// What a meter measures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MeterSpec {
    /// A [`MeterUnit`] as its number.
    #[prost(enumeration = "MeterUnit", tag = "1")]
    pub unit: i32,
    /// A [`MeterType`] as its number.
    #[prost(enumeration = "MeterType", tag = "2")]
    pub r#type: i32,
}

/// Units of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MeterUnit {
    /// Not said.
    Unspecified = 0,
    /// Bytes.
    Bytes = 1,
    /// Packets.
    Packets = 2,
}

/// Kinds of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MeterType {
    /// RFC 2698.
    TwoRateThreeColor = 0,
    /// RFC 2697.
    SingleRateThreeColor = 1,
    /// A token bucket.
    SingleRateTwoColor = 2,
}

/// A meter array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Meter {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// What it measures.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<MeterSpec>,
    /// Cells.
    #[prost(int64, tag = "3")]
    pub size: i64,
    /// Type of its index, where that has a name of its own.
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// The meter of each entry of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectMeter {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// What it measures.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<MeterSpec>,
    /// The table.
    #[prost(uint32, tag = "3")]
    pub direct_table_id: u32,
}

/// A header of packets from or to the controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ControllerPacketMetadata {
    /// Id and name: `packet_in` or `packet_out`.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Its fields, padding included.
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<MetadataField>,
}

/// A field of a controller header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetadataField {
    /// Number, from 1.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "7")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Width in bits.
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    /// Its type, where that has a name of its own.
    #[prost(message, optional, tag = "5")]
    pub type_name: Option<P4NamedType>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A parser value set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueSet {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Fields of a member.
    #[prost(message, repeated, tag = "2")]
    pub r#match: Vec<MatchField>,
    /// Most members.
    #[prost(int32, tag = "3")]
    pub size: i32,
}

/// A register array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Register {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Type of a cell.
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
    /// Cells.
    #[prost(int32, tag = "3")]
    pub size: i32,
    /// Type of its index, where that has a name of its own.
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// A digest.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Digest {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    /// Type of what is sent.
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
}
