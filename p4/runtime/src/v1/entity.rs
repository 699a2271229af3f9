//! What can be written and read.

use super::{P4Data, PacketReplicationEngineEntry};
use crate::google::Any;

/// Something that the switch holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entity {
    /// What it is.
    #[prost(oneof = "EntityKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub entity: Option<EntityKind>,
}

impl From<EntityKind> for Entity {
    fn from(kind: EntityKind) -> Self {
        Self { entity: Some(kind) }
    }
}

/// Kinds of [`Entity`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum EntityKind {
    /// An entry of an extern of the architecture's own.
    #[prost(message, tag = "1")]
    Extern(ExternEntry),
    /// A table entry.
    #[prost(message, tag = "2")]
    Table(TableEntry),
    /// A member of an action profile.
    #[prost(message, tag = "3")]
    ActionProfileMember(ActionProfileMember),
    /// A group of an action profile.
    #[prost(message, tag = "4")]
    ActionProfileGroup(ActionProfileGroup),
    /// A meter cell.
    #[prost(message, tag = "5")]
    Meter(MeterEntry),
    /// The meter of a table entry.
    #[prost(message, tag = "6")]
    DirectMeter(DirectMeterEntry),
    /// A counter cell.
    #[prost(message, tag = "7")]
    Counter(CounterEntry),
    /// The counter of a table entry.
    #[prost(message, tag = "8")]
    DirectCounter(DirectCounterEntry),
    /// A multicast group or a clone session.
    #[prost(message, tag = "9")]
    Replication(PacketReplicationEngineEntry),
    /// A parser value set.
    #[prost(message, tag = "10")]
    ValueSet(ValueSetEntry),
    /// A register cell.
    #[prost(message, tag = "11")]
    Register(RegisterEntry),
    /// How a digest is sent.
    #[prost(message, tag = "12")]
    Digest(DigestEntry),
}

/// An entry of an extern of the architecture's own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExternEntry {
    /// Type of the extern.
    #[prost(uint32, tag = "1")]
    pub extern_type_id: u32,
    /// Instance of the extern.
    #[prost(uint32, tag = "2")]
    pub extern_id: u32,
    /// The entry.
    #[prost(message, optional, tag = "3")]
    pub entry: Option<Any>,
}

/// A table entry. Table, match and priority together are its key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableEntry {
    /// Table; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub table_id: u32,
    /// Key fields in any order, without those that do not matter.
    #[prost(message, repeated, tag = "2")]
    pub r#match: Vec<FieldMatch>,
    /// What a hit does.
    #[prost(message, optional, tag = "3")]
    pub action: Option<TableAction>,
    /// Greater wins; above 0 exactly where a field is ternary, range or optional.
    #[prost(int32, tag = "4")]
    pub priority: i32,
    /// Deprecated: kept for the controller.
    #[prost(uint64, tag = "5")]
    pub controller_metadata: u64,
    /// The entry's meter.
    #[prost(message, optional, tag = "6")]
    pub meter_config: Option<MeterConfig>,
    /// The entry's counter; read when it is set in the pattern.
    #[prost(message, optional, tag = "7")]
    pub counter_data: Option<CounterData>,
    /// The meter's counters.
    #[prost(message, optional, tag = "12")]
    pub meter_counter_data: Option<MeterCounterData>,
    /// Whether this is the table's default entry, which has no key.
    #[prost(bool, tag = "8")]
    pub is_default_action: bool,
    /// Time without a hit after which the controller is told, in nanoseconds; 0 never.
    #[prost(int64, tag = "9")]
    pub idle_timeout_ns: i64,
    /// Time since the last hit; read when it is set in the pattern.
    #[prost(message, optional, tag = "10")]
    pub time_since_last_hit: Option<IdleTimeout>,
    /// Kept for the controller.
    #[prost(bytes = "vec", tag = "11")]
    pub metadata: Vec<u8>,
    /// In answers: whether the program itself has the entry.
    #[prost(bool, tag = "13")]
    pub is_const: bool,
}

/// Time since an entry's last hit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct IdleTimeout {
    /// In nanoseconds.
    #[prost(int64, tag = "1")]
    pub elapsed_ns: i64,
}

/// One field of a key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct FieldMatch {
    /// Which, as in P4Info.
    #[prost(uint32, tag = "1")]
    pub field_id: u32,
    /// How it is compared, and with what.
    #[prost(oneof = "FieldMatchType", tags = "2, 3, 4, 6, 7, 100")]
    pub field_match_type: Option<FieldMatchType>,
}

/// How a field is compared.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum FieldMatchType {
    /// With a value.
    #[prost(message, tag = "2")]
    Exact(Exact),
    /// With a value, under a mask.
    #[prost(message, tag = "3")]
    Ternary(Ternary),
    /// With a prefix.
    #[prost(message, tag = "4")]
    Lpm(Lpm),
    /// With two bounds.
    #[prost(message, tag = "6")]
    Range(Range),
    /// With a value, if there is one.
    #[prost(message, tag = "7")]
    Optional(OptionalMatch),
    /// In a way of the architecture's own.
    #[prost(message, tag = "100")]
    Other(Any),
}

/// A value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Exact {
    /// Bytestring.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// A value under a mask that is not 0.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Ternary {
    /// Bytestring; 0 where the mask is.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    /// Bytestring: 1 in bits that are compared.
    #[prost(bytes = "vec", tag = "2")]
    pub mask: Vec<u8>,
}

/// A prefix that is not empty.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Lpm {
    /// Bytestring; 0 behind the prefix.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    /// Length in bits.
    #[prost(int32, tag = "2")]
    pub prefix_len: i32,
}

/// Two bounds.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Range {
    /// Least value, a bytestring.
    #[prost(bytes = "vec", tag = "1")]
    pub low: Vec<u8>,
    /// Greatest value, a bytestring.
    #[prost(bytes = "vec", tag = "2")]
    pub high: Vec<u8>,
}

/// A value that matters.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct OptionalMatch {
    /// Bytestring.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// What a hit does.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableAction {
    /// Which way it is said.
    #[prost(oneof = "TableActionType", tags = "1, 2, 3, 4")]
    pub r#type: Option<TableActionType>,
}

/// Ways to say what a hit does.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum TableActionType {
    /// An action.
    #[prost(message, tag = "1")]
    Action(Action),
    /// A member of the table's action profile.
    #[prost(uint32, tag = "2")]
    ActionProfileMemberId(u32),
    /// A group of the table's action profile.
    #[prost(uint32, tag = "3")]
    ActionProfileGroupId(u32),
    /// One of several actions, by selector.
    #[prost(message, tag = "4")]
    ActionProfileActionSet(ActionProfileActionSet),
}

/// An action with its arguments.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Action {
    /// Which, as in P4Info.
    #[prost(uint32, tag = "1")]
    pub action_id: u32,
    /// Arguments in any order, every one.
    #[prost(message, repeated, tag = "4")]
    pub params: Vec<Param>,
}

/// An argument.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Param {
    /// Which parameter, as in P4Info.
    #[prost(uint32, tag = "2")]
    pub param_id: u32,
    /// Bytestring.
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// Actions to choose from.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileActionSet {
    /// The actions.
    #[prost(message, repeated, tag = "1")]
    pub action_profile_actions: Vec<ActionProfileAction>,
}

/// An action with its weight.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileAction {
    /// The action.
    #[prost(message, optional, tag = "1")]
    pub action: Option<Action>,
    /// Its weight, above 0.
    #[prost(int32, tag = "2")]
    pub weight: i32,
    /// Port whose loss disables it.
    #[prost(oneof = "WatchKind", tags = "3, 4")]
    pub watch_kind: Option<WatchKind>,
}

/// A port whose loss disables a choice.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum WatchKind {
    /// As a number; deprecated.
    #[prost(int32, tag = "3")]
    Watch(i32),
    /// As a bytestring.
    #[prost(bytes, tag = "4")]
    WatchPort(Vec<u8>),
}

/// A member of an action profile.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ActionProfileMember {
    /// The profile.
    #[prost(uint32, tag = "1")]
    pub action_profile_id: u32,
    /// Number of the member.
    #[prost(uint32, tag = "2")]
    pub member_id: u32,
    /// What it does.
    #[prost(message, optional, tag = "3")]
    pub action: Option<Action>,
}

/// A group of an action profile.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ActionProfileGroup {
    /// The profile.
    #[prost(uint32, tag = "1")]
    pub action_profile_id: u32,
    /// Number of the group.
    #[prost(uint32, tag = "2")]
    pub group_id: u32,
    /// Its members.
    #[prost(message, repeated, tag = "3")]
    pub members: Vec<GroupMember>,
    /// Most members it may ever have; 0 as many as the profile.
    #[prost(int32, tag = "4")]
    pub max_size: i32,
}

/// A member of a group, with its weight.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GroupMember {
    /// Number of the member.
    #[prost(uint32, tag = "1")]
    pub member_id: u32,
    /// Its weight, above 0.
    #[prost(int32, tag = "2")]
    pub weight: i32,
    /// Port whose loss disables it.
    #[prost(oneof = "WatchKind", tags = "3, 4")]
    pub watch_kind: Option<WatchKind>,
}

/// Which cell of an array. Absent where all are meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Index {
    /// From 0.
    #[prost(int64, tag = "1")]
    pub index: i64,
}

/// A meter cell.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MeterEntry {
    /// The meter; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub meter_id: u32,
    /// The cell; absent stands for all.
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    /// Its rates.
    #[prost(message, optional, tag = "3")]
    pub config: Option<MeterConfig>,
    /// Its counters.
    #[prost(message, optional, tag = "4")]
    pub counter_data: Option<MeterCounterData>,
}

/// The meter of a table entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectMeterEntry {
    /// The entry.
    #[prost(message, optional, tag = "1")]
    pub table_entry: Option<TableEntry>,
    /// Its rates.
    #[prost(message, optional, tag = "2")]
    pub config: Option<MeterConfig>,
    /// Its counters.
    #[prost(message, optional, tag = "3")]
    pub counter_data: Option<MeterCounterData>,
}

/// Rates of a meter, in the unit of its P4Info (bytes or packets).
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MeterConfig {
    /// Committed rate a second.
    #[prost(int64, tag = "1")]
    pub cir: i64,
    /// Committed burst.
    #[prost(int64, tag = "2")]
    pub cburst: i64,
    /// Peak rate a second.
    #[prost(int64, tag = "3")]
    pub pir: i64,
    /// Peak burst.
    #[prost(int64, tag = "4")]
    pub pburst: i64,
    /// Excess burst.
    #[prost(int64, tag = "5")]
    pub eburst: i64,
}

/// A counter cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CounterEntry {
    /// The counter; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub counter_id: u32,
    /// The cell; absent stands for all.
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    /// What it has counted.
    #[prost(message, optional, tag = "3")]
    pub data: Option<CounterData>,
}

/// The counter of a table entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectCounterEntry {
    /// The entry.
    #[prost(message, optional, tag = "1")]
    pub table_entry: Option<TableEntry>,
    /// What it has counted.
    #[prost(message, optional, tag = "2")]
    pub data: Option<CounterData>,
}

/// What a counter has counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CounterData {
    /// Bytes, where it counts them.
    #[prost(int64, tag = "1")]
    pub byte_count: i64,
    /// Packets, where it counts them.
    #[prost(int64, tag = "2")]
    pub packet_count: i64,
}

/// What a meter has counted, by colour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MeterCounterData {
    /// Within the committed rate.
    #[prost(message, optional, tag = "1")]
    pub green: Option<CounterData>,
    /// Within the peak rate.
    #[prost(message, optional, tag = "2")]
    pub yellow: Option<CounterData>,
    /// Above it.
    #[prost(message, optional, tag = "3")]
    pub red: Option<CounterData>,
}

/// A member of a parser value set.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ValueSetMember {
    /// Its fields.
    #[prost(message, repeated, tag = "1")]
    pub r#match: Vec<FieldMatch>,
}

/// A parser value set.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ValueSetEntry {
    /// Which, as in P4Info.
    #[prost(uint32, tag = "1")]
    pub value_set_id: u32,
    /// All its members.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<ValueSetMember>,
}

/// A register cell.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterEntry {
    /// The register; in a read 0 stands for all.
    #[prost(uint32, tag = "1")]
    pub register_id: u32,
    /// The cell; absent stands for all.
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    /// What it holds.
    #[prost(message, optional, tag = "3")]
    pub data: Option<P4Data>,
}

/// How a digest is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DigestEntry {
    /// Which, as in P4Info.
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    /// When a list is sent.
    #[prost(message, optional, tag = "2")]
    pub config: Option<DigestConfig>,
}

/// When a digest list is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DigestConfig {
    /// Once its oldest digest is that old, in nanoseconds.
    #[prost(int64, tag = "1")]
    pub max_timeout_ns: i64,
    /// Once it has so many digests.
    #[prost(int32, tag = "2")]
    pub max_list_size: i32,
    /// How long an unacknowledged list holds back equal digests, in nanoseconds.
    #[prost(int64, tag = "3")]
    pub ack_timeout_ns: i64,
}
