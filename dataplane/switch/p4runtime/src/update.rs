//! Validation of updates against the pipeline, independent of existing entities.

use netfold_p4::entry::TableEntry;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::schema::decode_replica;
use netfold_p4_runtime::v1::{self, Data, EntityKind, Replication, TableActionType, UpdateType};
use netfold_p4_runtime::{SchemaError, bytestring};
use netfold_switch::switch::{GROUPS_MAX, REPLICAS_MAX};

use crate::config::PipelineConfig;
use crate::fault::Fault;
use crate::state::{Cells, Group, Key, Op, StoredEntry};

/// Maximum metadata of an entry or a group, in bytes.
pub(crate) const METADATA_MAX: usize = 1024;

/// Checks an update against the pipeline.
pub(crate) fn check(config: &PipelineConfig, update: v1::Update) -> Result<Op, Fault> {
    let kind = UpdateType::try_from(update.r#type).unwrap_or(UpdateType::Unspecified);
    if kind == UpdateType::Unspecified {
        return Err(Fault::invalid("the update has no type: INSERT, MODIFY or DELETE"));
    }
    let entity = update.entity.and_then(|entity| entity.entity);
    match entity.ok_or_else(|| Fault::invalid("the update has no entity"))? {
        EntityKind::TableEntry(entry) => table_entry(config, kind, &entry),
        EntityKind::CounterEntry(entry) => counter(config, kind, &entry),
        EntityKind::RegisterEntry(entry) => register(config, kind, entry),
        EntityKind::PacketReplicationEngineEntry(entry) => match entry.r#type {
            Some(Replication::MulticastGroupEntry(group)) => multicast_group(kind, group),
            Some(Replication::CloneSessionEntry(_)) => Err(absent("clone sessions")),
            None => Err(Fault::invalid("neither a multicast group nor a clone session")),
        },
        EntityKind::DirectCounterEntry(entry) => direct(config, entry.table_entry.as_ref(), "counter"),
        EntityKind::DirectMeterEntry(entry) => direct(config, entry.table_entry.as_ref(), "meter"),
        other => Err(absent(plural(&other))),
    }
}

/// Names of the kinds of entities that no program has.
pub(crate) fn plural(entity: &EntityKind) -> &'static str {
    match entity {
        EntityKind::ExternEntry(_) => "externs",
        EntityKind::ActionProfileMember(_) | EntityKind::ActionProfileGroup(_) => "action profiles",
        EntityKind::MeterEntry(_) => "meters",
        EntityKind::DirectMeterEntry(_) => "direct meters",
        EntityKind::DirectCounterEntry(_) => "direct counters",
        EntityKind::ValueSetEntry(_) => "parser value sets",
        EntityKind::DigestEntry(_) => "digests",
        _ => "such entities",
    }
}

pub(crate) fn absent(what: &str) -> Fault {
    Fault::unimplemented(format!("programs of this switch have no {what}"))
}

fn direct(config: &PipelineConfig, entry: Option<&v1::TableEntry>, what: &str) -> Result<Op, Fault> {
    let entry = entry.ok_or_else(|| Fault::invalid(format!("a direct {what} belongs to a table entry")))?;
    config.table(entry.table_id).ok_or_else(|| Fault::from(SchemaError::Table(entry.table_id)))?;
    let table = config.schema.name(entry.table_id);
    Err(Fault::invalid(format!("table {table} has no direct {what}")))
}

fn table_entry(config: &PipelineConfig, kind: UpdateType, entry: &v1::TableEntry) -> Result<Op, Fault> {
    if entry.is_default_action {
        return Err(default_entry(config, kind, entry));
    }
    if entry.is_const {
        return Err(Fault::invalid("is_const can only be set by the switch"));
    }
    if entry.counter_data.is_some() {
        return Err(Fault::invalid(format!(
            "table {} has no direct counter",
            config.schema.name(entry.table_id)
        )));
    }
    if entry.time_since_last_hit.is_some() {
        return Err(Fault::invalid("time_since_last_hit can only be set by the switch"));
    }
    if entry.metadata.len() > METADATA_MAX {
        return Err(Fault::invalid(format!("metadata has at most {METADATA_MAX} bytes")));
    }
    if kind == UpdateType::Delete {
        let key = key(config.schema.decode_key(entry)?);
        return Ok(Op::Entry { kind, key, held: None, keep_action: false });
    }
    if config.table(entry.table_id).is_some_and(|table| table.match_fields.is_empty()) {
        return Err(Fault::invalid("a table without a key has only its default entry"));
    }
    let keep_action = kind == UpdateType::Modify && entry.action.is_none();
    let mut decoded = match keep_action {
        true => config.schema.decode_key(entry)?,
        false => config.schema.decode(entry)?,
    };
    let held = StoredEntry {
        action: decoded.action,
        params: std::mem::take(&mut decoded.params),
        metadata: entry.metadata.clone(),
        controller_metadata: entry.controller_metadata,
    };
    Ok(Op::Entry { kind, key: key(decoded), held: Some(held), keep_action })
}

/// The key of an entry, its fields in one order.
pub(crate) fn key(mut entry: TableEntry) -> Key {
    entry.matches.sort_unstable();
    Key { table: entry.table, matches: entry.matches, priority: entry.priority }
}

/// The error for writing a default entry: those of every program are constant.
fn default_entry(config: &PipelineConfig, kind: UpdateType, entry: &v1::TableEntry) -> Fault {
    if config.table(entry.table_id).is_none() {
        return SchemaError::Table(entry.table_id).into();
    }
    if kind != UpdateType::Modify {
        return Fault::invalid("a default entry is modified, never inserted or deleted");
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Fault::invalid("a default entry has neither a key nor a priority");
    }
    if let Some(TableActionType::Action(action)) = entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        let table = config.table(entry.table_id);
        if !table.is_some_and(|table| table.action_refs.iter().any(|of| of.id == action.action_id)) {
            let table = config.schema.name(entry.table_id);
            return SchemaError::Action { table, action: action.action_id }.into();
        }
    }
    let table = config.schema.name(entry.table_id);
    Fault::new(Code::PermissionDenied, format!("the default action of table {table} is constant"))
}

/// The cell that an index names; `None` for all.
pub(crate) fn cell(index: Option<v1::Index>, size: u32) -> Result<Option<usize>, Fault> {
    let Some(v1::Index { index }) = index else { return Ok(None) };
    if index < 0 {
        return Err(Fault::invalid(format!("index {index} is below 0")));
    }
    let inside = usize::try_from(index).ok().filter(|index| *index < size as usize);
    let outside = || Fault::new(Code::OutOfRange, format!("index {index} is not below the size, {size}"));
    inside.map(Some).ok_or_else(outside)
}

/// Refuses to insert or delete a counter or register.
fn modify_only(kind: UpdateType, what: &str) -> Result<(), Fault> {
    match kind {
        UpdateType::Modify => Ok(()),
        _ => Err(Fault::invalid(format!("a {what} is modified, never inserted or deleted"))),
    }
}

pub(crate) fn counter_size(config: &PipelineConfig, id: u32) -> Result<u32, Fault> {
    config.counters.get(&id).copied().ok_or_else(|| Fault::not_found(format!("no counter has id {id:#x}")))
}

fn counter(config: &PipelineConfig, kind: UpdateType, entry: &v1::CounterEntry) -> Result<Op, Fault> {
    modify_only(kind, "counter")?;
    let index = cell(entry.index, counter_size(config, entry.counter_id)?)?;
    let data = entry.data.ok_or_else(|| Fault::invalid("the counter entry has no data"))?;
    let packets = u64::try_from(data.packet_count);
    let packets = packets.map_err(|_| Fault::invalid("packet_count is below 0"))?;
    Ok(Op::Counter { id: entry.counter_id, index, packets })
}

/// The cells of a register that an entry names.
pub(crate) fn cells(config: &PipelineConfig, id: u32, index: Option<v1::Index>) -> Result<Cells, Fault> {
    let cell = config.registers.get(&id);
    let cell = cell.ok_or_else(|| Fault::not_found(format!("no register has id {id:#x}")))?.clone();
    let index = self::cell(index, cell.size)?;
    Ok(Cells { name: config.program.register(cell.register).name.clone(), cell, index })
}

fn register(config: &PipelineConfig, kind: UpdateType, entry: v1::RegisterEntry) -> Result<Op, Fault> {
    modify_only(kind, "register")?;
    let cells = cells(config, entry.register_id, entry.index)?;
    let data = entry.data.and_then(|data| data.data);
    let Some(Data::Bitstring(bytes)) = data else {
        return Err(Fault::invalid("the register entry's data is no bitstring"));
    };
    let value = bytestring::decode(&bytes, cells.cell.bits).map_err(|error| {
        Fault::new(Code::OutOfRange, format!("register {:#x}: {error}", entry.register_id))
    })?;
    // No register has cells of more than 32 bits.
    let value = u32::try_from(value).map_err(|_| Fault::new(Code::OutOfRange, "more than 32 bits"))?;
    Ok(Op::Register { cells, value })
}

fn multicast_group(kind: UpdateType, entry: v1::MulticastGroupEntry) -> Result<Op, Fault> {
    let number = entry.multicast_group_id;
    if number == 0 {
        return Err(Fault::invalid("a multicast group's number is above 0"));
    }
    let id = u16::try_from(number).ok().filter(|id| usize::from(*id) <= GROUPS_MAX);
    let many =
        || Fault::new(Code::OutOfRange, format!("group {number}: this switch has groups 1 to {GROUPS_MAX}"));
    let id = id.ok_or_else(many)?;
    if kind == UpdateType::Delete {
        let group = Group { replicas: Vec::new(), written: Vec::new(), metadata: Vec::new() };
        return Ok(Op::Group { kind, id, group });
    }
    if entry.replicas.len() > REPLICAS_MAX {
        let text = format!("{} replicas; a group has at most {REPLICAS_MAX}", entry.replicas.len());
        return Err(Fault::new(Code::ResourceExhausted, text));
    }
    if entry.metadata.len() > METADATA_MAX {
        return Err(Fault::invalid(format!("metadata has at most {METADATA_MAX} bytes")));
    }
    let replicas = entry.replicas.iter().map(decode_replica).collect::<Result<Vec<_>, _>>()?;
    if replicas.iter().enumerate().any(|(at, replica)| replicas[..at].contains(replica)) {
        return Err(Fault::invalid("two replicas have the same port and instance"));
    }
    let written = entry.replicas.into_iter().zip(&replicas).map(|(written, replica)| v1::Replica {
        port_kind: written.port_kind.map(|kind| match kind {
            v1::PortKind::Port(_) => v1::PortKind::Port(bytestring::encode(replica.port.into())),
            number @ v1::PortKind::EgressPort(_) => number,
        }),
        instance: written.instance,
    });
    let group = Group { written: written.collect(), replicas, metadata: entry.metadata };
    Ok(Op::Group { kind, id, group })
}
