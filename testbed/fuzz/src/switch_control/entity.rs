//! Entities that mostly fit a P4Info.

use netfold_p4_runtime::config::{self, MatchType};
use netfold_p4_runtime::v1::{
    self, Data, EntityKind, FieldMatchType, PortKind, Replication, TableActionType,
};
use netfold_p4_runtime::{bytestring, config::P4Info};
use netfold_switch::switch::REPLICAS_MAX;
use prost::Message;

use crate::input::Input;

/// Groups that inputs name, and replicas.
const GROUPS: usize = 5;
const REPLICAS: usize = 5;

fn id(preamble: &Option<config::Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn pick<'a, T>(input: &mut Input<'_>, from: &'a [T]) -> &'a T {
    &from[input.below(from.len())]
}

/// A number of this width: mostly a small one, so that keys meet.
fn number(input: &mut Input<'_>, bits: i32) -> u64 {
    let value = match input.below(8) {
        0 => u64::MAX,
        1 => u64::from(input.word()) << 32 | u64::from(input.word()),
        _ => input.below(4) as u64,
    };
    value & u64::MAX >> (64 - bits.clamp(1, 64))
}

/// Mostly in the one permitted form.
fn bytes(input: &mut Input<'_>, value: u64) -> Vec<u8> {
    let mut bytes = bytestring::encode(value);
    match input.below(32) {
        0 => bytes.insert(0, 0),
        1 => bytes.push(0),
        2 => bytes.clear(),
        _ => {}
    }
    bytes
}

/// Any entity, of one of the kinds that programs have or of any other.
pub(super) fn any(input: &mut Input<'_>, info: &P4Info) -> Option<v1::Entity> {
    let kind = match input.below(10) {
        0 => return v1::Entity::decode(input.some(100)).ok(),
        1 => counter(input, info),
        2 => register(input, info),
        3 | 4 => of_group(group(input)),
        _ => EntityKind::TableEntry(table_entry(input, info)),
    };
    Some(kind.into())
}

/// An entity that is there with another action, other replicas or other data of its client.
pub(super) fn changed(input: &mut Input<'_>, info: &P4Info, entity: &v1::Entity) -> v1::Entity {
    match &entity.entity {
        Some(EntityKind::TableEntry(entry)) => {
            let mut entry = entry.clone();
            let table = info.tables.iter().find(|table| id(&table.preamble) == entry.table_id);
            if let Some(table) = table.filter(|_| input.below(4) > 0) {
                entry.action = Some(action(input, info, table));
            } else {
                entry.metadata = input.some(4).to_vec();
            }
            EntityKind::TableEntry(entry).into()
        }
        Some(EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(held)),
        })) => {
            let mut new = group(input);
            new.multicast_group_id = held.multicast_group_id;
            of_group(new).into()
        }
        _ => entity.clone(),
    }
}

fn of_group(group: v1::MulticastGroupEntry) -> EntityKind {
    let r#type = Some(Replication::MulticastGroupEntry(group));
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
}

fn table_entry(input: &mut Input<'_>, info: &P4Info) -> v1::TableEntry {
    let table = pick(input, &info.tables);
    let mut entry = v1::TableEntry { table_id: id(&table.preamble), ..Default::default() };
    for field in &table.match_fields {
        if input.below(16) == 0 {
            continue;
        }
        let value = number(input, field.bitwidth);
        let ternary = field.r#match == Some(config::Match::MatchType(MatchType::Ternary as i32));
        let kind = if ternary == (input.below(32) > 0) {
            let mask =
                if input.below(2) == 0 { number(input, field.bitwidth) } else { number_max(field.bitwidth) };
            let masked = if input.below(16) == 0 { value } else { value & mask };
            FieldMatchType::Ternary(v1::Ternary { value: bytes(input, masked), mask: bytes(input, mask) })
        } else {
            FieldMatchType::Exact(v1::Exact { value: bytes(input, value) })
        };
        entry.r#match.push(v1::FieldMatch { field_id: field.id, field_match_type: Some(kind) });
    }
    if table
        .match_fields
        .iter()
        .any(|f| f.r#match == Some(config::Match::MatchType(MatchType::Ternary as i32)))
    {
        entry.priority = input.below(4) as i32;
    }
    if input.below(16) > 0 && !table.action_refs.is_empty() {
        entry.action = Some(action(input, info, table));
    }
    match input.below(32) {
        0 => entry.priority = i32::from(input.byte()) - 8,
        1 => entry.is_default_action = true,
        2 => entry.is_const = true,
        3 => entry.counter_data = Some(v1::CounterData::default()),
        4..8 => entry.metadata = input.some(4).to_vec(),
        8 => entry.metadata = vec![1; 1020 + input.below(8)],
        9..12 => entry.controller_metadata = input.byte().into(),
        12 => entry.table_id = input.word(),
        _ => {}
    }
    entry
}

fn number_max(bits: i32) -> u64 {
    u64::MAX >> (64 - bits.clamp(1, 64))
}

fn action(input: &mut Input<'_>, info: &P4Info, table: &config::Table) -> v1::TableAction {
    let named = match input.below(16) {
        0 => id(&pick(input, &info.actions).preamble),
        _ => pick(input, &table.action_refs).id,
    };
    let described = info.actions.iter().find(|action| id(&action.preamble) == named);
    let params = described.into_iter().flat_map(|action| &action.params).map(|param| {
        let value = number(input, param.bitwidth);
        v1::Param { param_id: param.id, value: bytes(input, value) }
    });
    let params = params.collect();
    v1::TableAction { r#type: Some(TableActionType::Action(v1::Action { action_id: named, params })) }
}

fn index(input: &mut Input<'_>) -> Option<v1::Index> {
    let index = match input.below(8) {
        0 => return None,
        1 => i64::from(input.byte()) - 8,
        _ => input.below(3) as i64,
    };
    Some(v1::Index { index })
}

fn counter(input: &mut Input<'_>, info: &P4Info) -> EntityKind {
    let counter_id = if input.below(8) == 0 { 0 } else { id(&pick(input, &info.counters).preamble) };
    let packet_count = i64::from(input.byte()) - 8;
    let data = (input.below(16) > 0).then_some(v1::CounterData { byte_count: 0, packet_count });
    EntityKind::CounterEntry(v1::CounterEntry { counter_id, index: index(input), data })
}

fn register(input: &mut Input<'_>, info: &P4Info) -> EntityKind {
    let register_id = if input.below(8) == 0 { 0 } else { id(&pick(input, &info.registers).preamble) };
    let value = number(input, 33);
    let bitstring = v1::P4Data { data: Some(Data::Bitstring(bytes(input, value))) };
    let data = (input.below(16) > 0).then_some(bitstring);
    EntityKind::RegisterEntry(v1::RegisterEntry { register_id, index: index(input), data })
}

fn group(input: &mut Input<'_>) -> v1::MulticastGroupEntry {
    let count = if input.below(32) == 0 { REPLICAS_MAX + input.below(2) } else { input.below(REPLICAS) };
    let replica = |at: usize| {
        let (port, instance) = (number(input, 9), at as u32 + input.below(2) as u32);
        let port_kind = match input.below(8) {
            0 => PortKind::EgressPort(port as u32),
            _ => PortKind::Port(bytes(input, port)),
        };
        v1::Replica { instance, port_kind: Some(port_kind) }
    };
    let replicas = (0..count).map(replica).collect();
    let multicast_group_id =
        if input.below(16) == 0 { input.word() >> 20 } else { input.below(GROUPS) as u32 };
    let metadata = if input.below(8) == 0 { input.some(4).to_vec() } else { Vec::new() };
    v1::MulticastGroupEntry { multicast_group_id, replicas, metadata }
}
