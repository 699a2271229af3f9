//! Reading: patterns, in which ids of 0 and absent keys match all.

use netfold_p4::entry::TableEntry;
use netfold_p4_runtime::v1::{self, EntityKind, Replication, TableActionType};
use netfold_p4_runtime::{SchemaError, bytestring};

use crate::config::PipelineConfig;
use crate::fault::Fault;
use crate::state::{Cells, EntityStore, Group, Key, StoredEntry};
use crate::update::{absent, cell, cells, counter_size, key, plural};

/// Registers still to be read, one after the other, since together they may be too large for one message.
pub(crate) type Registers = Vec<(u32, Cells)>;

/// The entities that match a pattern. Counters are read through `counter`, by id and cell; registers are only listed.
pub(crate) fn find(
    config: &PipelineConfig,
    state: &EntityStore,
    counter: &mut dyn FnMut(u32) -> Result<Vec<u64>, Fault>,
    pattern: &v1::Entity,
) -> Result<(Vec<v1::Entity>, Registers), Fault> {
    let Some(kind) = &pattern.entity else { return Err(Fault::invalid("an empty pattern")) };
    let entities = match kind {
        EntityKind::TableEntry(entry) => table_entries(config, state, entry)?,
        EntityKind::CounterEntry(entry) => counters(config, counter, entry)?,
        EntityKind::RegisterEntry(entry) => return registers(config, entry).map(|cells| (Vec::new(), cells)),
        EntityKind::PacketReplicationEngineEntry(entry) => replication(state, entry)?,
        EntityKind::DirectCounterEntry(entry) => direct(config, entry.table_entry.as_ref(), "counter")?,
        EntityKind::DirectMeterEntry(entry) => direct(config, entry.table_entry.as_ref(), "meter")?,
        other if names_one(other) => return Err(absent(plural(other))),
        // All entities of a kind that does not exist.
        _ => Vec::new(),
    };
    Ok((entities, Vec::new()))
}

/// Whether a pattern names an object of a kind that no program has, rather than all of the kind.
fn names_one(kind: &EntityKind) -> bool {
    match kind {
        EntityKind::ActionProfileMember(member) => member.action_profile_id != 0,
        EntityKind::ActionProfileGroup(group) => group.action_profile_id != 0,
        EntityKind::MeterEntry(meter) => meter.meter_id != 0,
        EntityKind::ValueSetEntry(set) => set.value_set_id != 0,
        EntityKind::DigestEntry(digest) => digest.digest_id != 0,
        _ => true,
    }
}

fn direct(
    config: &PipelineConfig,
    entry: Option<&v1::TableEntry>,
    what: &str,
) -> Result<Vec<v1::Entity>, Fault> {
    let table = entry.map_or(0, |entry| entry.table_id);
    if table == 0 {
        return Ok(Vec::new());
    }
    config.table(table).ok_or_else(|| Fault::from(SchemaError::Table(table)))?;
    Err(Fault::invalid(format!("table {} has no direct {what}", config.schema.name(table))))
}

fn table_entries(
    config: &PipelineConfig,
    state: &EntityStore,
    pattern: &v1::TableEntry,
) -> Result<Vec<v1::Entity>, Fault> {
    let id = pattern.table_id;
    if id != 0 && config.table(id).is_none() {
        return Err(SchemaError::Table(id).into());
    }
    if pattern.is_default_action {
        let tables = config.info.tables.iter().filter(|table| id == 0 || table_id(table) == id);
        return Ok(tables.map(default_entry).collect());
    }
    if !pattern.r#match.is_empty() {
        if id == 0 {
            return Err(Fault::invalid("a key without a table"));
        }
        let bare = v1::TableEntry {
            table_id: id,
            r#match: pattern.r#match.clone(),
            priority: pattern.priority,
            ..v1::TableEntry::default()
        };
        let key = key(config.schema.decode_key(&bare)?);
        let found = state.entries.get_key_value(&key).filter(|(_, held)| matches(pattern, &key, held));
        return found.map(|(key, held)| message(config, key, held)).into_iter().collect();
    }
    let first = Key { table: id, matches: Vec::new(), priority: i32::MIN };
    state
        .entries
        .range(first..)
        .take_while(|(key, _)| id == 0 || key.table == id)
        .filter(|(key, held)| matches(pattern, key, held))
        .map(|(key, held)| message(config, key, held))
        .collect()
}

/// Whether an entry matches a pattern's filters.
fn matches(pattern: &v1::TableEntry, key: &Key, held: &StoredEntry) -> bool {
    let action = match pattern.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(TableActionType::Action(action)) => action.action_id == held.action,
        Some(_) => false,
        None => true,
    };
    action
        && (pattern.priority == 0 || pattern.priority == key.priority)
        && (pattern.metadata.is_empty() || pattern.metadata == held.metadata)
        && (pattern.controller_metadata == 0 || pattern.controller_metadata == held.controller_metadata)
}

fn message(config: &PipelineConfig, key: &Key, held: &StoredEntry) -> Result<v1::Entity, Fault> {
    let entry = TableEntry {
        table: key.table,
        matches: key.matches.clone(),
        priority: key.priority,
        action: held.action,
        params: held.params.clone(),
    };
    let message = v1::TableEntry {
        metadata: held.metadata.clone(),
        controller_metadata: held.controller_metadata,
        ..config.schema.encode(&entry)?
    };
    Ok(EntityKind::TableEntry(message).into())
}

fn table_id(table: &netfold_p4_runtime::config::Table) -> u32 {
    table.preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn default_entry(table: &netfold_p4_runtime::config::Table) -> v1::Entity {
    let initial = table.initial_default_action.as_ref();
    let params = initial.into_iter().flat_map(|call| &call.arguments).map(|argument| v1::Param {
        param_id: argument.param_id,
        // P4Info has all bytes of the parameter; entries have the shortest form.
        value: bytestring::decode(&argument.value, bytestring::BITS_MAX)
            .map_or_else(|_| argument.value.clone(), bytestring::encode),
    });
    let action = v1::Action { action_id: table.const_default_action_id, params: params.collect() };
    let entry = v1::TableEntry {
        table_id: table_id(table),
        action: Some(v1::TableAction { r#type: Some(TableActionType::Action(action)) }),
        is_default_action: true,
        ..v1::TableEntry::default()
    };
    EntityKind::TableEntry(entry).into()
}

fn counters(
    config: &PipelineConfig,
    counter: &mut dyn FnMut(u32) -> Result<Vec<u64>, Fault>,
    pattern: &v1::CounterEntry,
) -> Result<Vec<v1::Entity>, Fault> {
    let ids: Vec<u32> = match pattern.counter_id {
        0 if pattern.index.is_some() => return Err(Fault::invalid("an index without a counter")),
        0 => config.counters.keys().copied().collect(),
        id => vec![id],
    };
    let mut found = Vec::new();
    for id in ids {
        let index = cell(pattern.index, counter_size(config, id)?)?;
        for (at, packets) in counter(id)?.into_iter().enumerate() {
            if index.is_none_or(|index| index == at) {
                let packet_count = i64::try_from(packets).unwrap_or(i64::MAX);
                let entry = v1::CounterEntry {
                    counter_id: id,
                    index: Some(v1::Index { index: at as i64 }),
                    data: Some(v1::CounterData { byte_count: 0, packet_count }),
                };
                found.push(EntityKind::CounterEntry(entry).into());
            }
        }
    }
    Ok(found)
}

fn registers(config: &PipelineConfig, pattern: &v1::RegisterEntry) -> Result<Registers, Fault> {
    if pattern.register_id == 0 {
        if pattern.index.is_some() {
            return Err(Fault::invalid("an index without a register"));
        }
        return config.registers.keys().map(|id| Ok((*id, cells(config, *id, None)?))).collect();
    }
    Ok(vec![(pattern.register_id, cells(config, pattern.register_id, pattern.index)?)])
}

fn replication(
    state: &EntityStore,
    pattern: &v1::PacketReplicationEngineEntry,
) -> Result<Vec<v1::Entity>, Fault> {
    let message = |(id, group): (&u16, &Group)| {
        let group = v1::MulticastGroupEntry {
            multicast_group_id: u32::from(*id),
            replicas: group.written.clone(),
            metadata: group.metadata.clone(),
        };
        let r#type = Some(Replication::MulticastGroupEntry(group));
        EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type }).into()
    };
    match &pattern.r#type {
        Some(Replication::MulticastGroupEntry(group)) if group.multicast_group_id == 0 => {
            Ok(state.groups.iter().map(message).collect())
        }
        Some(Replication::MulticastGroupEntry(group)) => {
            let number = group.multicast_group_id;
            let found = u16::try_from(number).ok().and_then(|id| state.groups.get_key_value(&id));
            let absent = || Fault::not_found(format!("there is no multicast group {number}"));
            found.map(|group| vec![message(group)]).ok_or_else(absent)
        }
        Some(Replication::CloneSessionEntry(session)) if session.session_id == 0 => Ok(Vec::new()),
        Some(Replication::CloneSessionEntry(_)) => Err(absent("clone sessions")),
        None => Err(Fault::invalid("neither a multicast group nor a clone session")),
    }
}
