//! A pipeline's tables as the control plane sees them, and the conversion of entries to messages and back.

mod decode;

use std::collections::BTreeMap;

use netfold_p4::entry::{FieldMatch, Replica, TableEntry};

use crate::bytestring::{self, BytestringError, ones};
use crate::config::{self, Match, MatchType, P4Info};
use crate::google::Code;
use crate::v1::{self, FieldMatchType, PortKind, TableActionType};

/// A P4Info by ids.
///
/// Holds what table entries need. Fields wider than 64 bits, range matches and action profiles, which no Netfold
/// program has, are refused where they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    tables: BTreeMap<u32, Table>,
    actions: BTreeMap<u32, Action>,
    counters: BTreeMap<u32, Named>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    name: String,
    size: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    name: String,
    fields: BTreeMap<u32, Field>,
    actions: Vec<u32>,
    size: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    bits: u32,
    kind: MatchType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Action {
    name: String,
    /// Widths in order of the parameters' ids, which are 1, 2, 3...
    params: Vec<u32>,
}

impl Table {
    /// Whether entries of this table have a priority.
    fn has_priority(&self) -> bool {
        self.fields
            .values()
            .any(|field| matches!(field.kind, MatchType::Ternary | MatchType::Range | MatchType::Optional))
    }
}

impl Schema {
    /// Indexes a P4Info.
    ///
    /// # Errors
    ///
    /// [`SchemaError::Info`] when an id is repeated, an object has none, or a width is invalid.
    pub fn new(info: &P4Info) -> Result<Self, SchemaError> {
        let mut schema =
            Self { tables: BTreeMap::new(), actions: BTreeMap::new(), counters: BTreeMap::new() };
        for action in &info.actions {
            let (id, name) = preamble(action.preamble.as_ref(), "action")?;
            let mut params = action.params.clone();
            params.sort_by_key(|param| param.id);
            if params.iter().zip(1..).any(|(param, id)| param.id != id) {
                return Err(SchemaError::Info { what: "parameters of an action", name });
            }
            let params = params.iter().map(|p| width(p.bitwidth, &name)).collect::<Result<_, _>>()?;
            unique(&mut schema.actions, id, Action { name, params }, "action")?;
        }
        for table in &info.tables {
            let (id, name) = preamble(table.preamble.as_ref(), "table")?;
            let mut fields = BTreeMap::new();
            for field in &table.match_fields {
                let kind = match field.r#match {
                    Some(Match::MatchType(kind)) => {
                        MatchType::try_from(kind).unwrap_or(MatchType::Unspecified)
                    }
                    _ => MatchType::Unspecified,
                };
                let bits = width(field.bitwidth, &name)?;
                unique(&mut fields, field.id, Field { name: field.name.clone(), bits, kind }, "match field")?;
            }
            let actions = table.action_refs.iter().map(|action| action.id).collect();
            unique(&mut schema.tables, id, Table { name, fields, actions, size: table.size }, "table")?;
        }
        for counter in &info.counters {
            let (id, name) = preamble(counter.preamble.as_ref(), "counter")?;
            unique(&mut schema.counters, id, Named { name, size: counter.size }, "counter")?;
        }
        Ok(schema)
    }

    /// Ids of the tables, in ascending order.
    pub fn tables(&self) -> impl Iterator<Item = u32> + '_ {
        self.tables.keys().copied()
    }

    /// Maximum entries of a table; `None` when there is no such table.
    pub fn table_size(&self, table: u32) -> Option<i64> {
        self.tables.get(&table).map(|table| table.size)
    }

    /// Cells of a counter array; `None` when there is no such counter.
    pub fn counter_size(&self, counter: u32) -> Option<i64> {
        self.counters.get(&counter).map(|counter| counter.size)
    }

    /// Name of an object for messages: its name, or its number if it is unknown.
    pub fn name(&self, id: u32) -> String {
        let table = self.tables.get(&id).map(|table| &table.name);
        let action = || self.actions.get(&id).map(|action| &action.name);
        let counter = || self.counters.get(&id).map(|counter| &counter.name);
        table.or_else(action).or_else(counter).cloned().unwrap_or_else(|| format!("{id:#x}"))
    }

    /// A table entry as a message, with canonical bytestrings.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] when the pipeline has no such entry; the same checks as in [`Schema::decode`].
    pub fn encode(&self, entry: &TableEntry) -> Result<v1::TableEntry, SchemaError> {
        let table = self.table(entry.table)?;
        let mut fields = Vec::with_capacity(entry.matches.len());
        for field in &entry.matches {
            let described = table
                .fields
                .get(&field.field)
                .ok_or_else(|| SchemaError::Field { table: table.name.clone(), field: field.field })?;
            fields.extend(encode_field(table, described, field)?);
        }
        let params = entry
            .params
            .iter()
            .zip(1..)
            .map(|(value, param_id)| v1::Param { param_id, value: bytestring::encode(*value) });
        let action = v1::Action { action_id: entry.action, params: params.collect() };
        let message = v1::TableEntry {
            table_id: entry.table,
            r#match: fields,
            action: Some(v1::TableAction { r#type: Some(TableActionType::Action(action)) }),
            priority: entry.priority,
            ..v1::TableEntry::default()
        };
        // The same rules apply in both directions.
        self.decode(&message).map(|_| message)
    }

    /// The key of a table entry as a message, for DELETE.
    ///
    /// # Errors
    ///
    /// As [`Schema::encode`].
    pub fn encode_key(&self, entry: &TableEntry) -> Result<v1::TableEntry, SchemaError> {
        Ok(v1::TableEntry { action: None, ..self.encode(entry)? })
    }

    fn table(&self, id: u32) -> Result<&Table, SchemaError> {
        self.tables.get(&id).ok_or(SchemaError::Table(id))
    }
}

fn encode_field(
    table: &Table,
    described: &Field,
    field: &FieldMatch,
) -> Result<Option<v1::FieldMatch>, SchemaError> {
    let all = ones(described.bits);
    let bad =
        |problem| SchemaError::Mask { table: table.name.clone(), field: described.name.clone(), problem };
    if field.mask & !all != 0 {
        return Err(bad("the mask is wider than the field"));
    }
    let value = bytestring::encode(field.value);
    let whole = field.mask == all;
    let message = match described.kind {
        MatchType::Exact if whole => FieldMatchType::Exact(v1::Exact { value }),
        MatchType::Exact => return Err(bad("the field is exact, so its mask has every bit")),
        _ if field.mask == 0 => {
            return if field.value == 0 { Ok(None) } else { Err(bad("a value without a mask")) };
        }
        MatchType::Ternary => {
            FieldMatchType::Ternary(v1::Ternary { value, mask: bytestring::encode(field.mask) })
        }
        MatchType::Lpm => {
            let prefix_len = field.mask.count_ones();
            if field.mask != all & !(all >> prefix_len) && !whole {
                return Err(bad("the mask of a prefix has its bits at the top"));
            }
            FieldMatchType::Lpm(v1::Lpm { value, prefix_len: prefix_len as i32 })
        }
        MatchType::Optional if whole => FieldMatchType::Optional(v1::OptionalMatch { value }),
        MatchType::Optional => return Err(bad("an optional field has every bit of its mask or none")),
        MatchType::Range | MatchType::Unspecified => return Err(bad("this kind of match is not supported")),
    };
    Ok(Some(v1::FieldMatch { field_id: field.field, field_match_type: Some(message) }))
}

/// A replica as a message; the port as a bytestring.
pub fn encode_replica(replica: &Replica) -> v1::Replica {
    v1::Replica {
        port_kind: Some(PortKind::Port(bytestring::encode(u64::from(replica.port)))),
        instance: u32::from(replica.instance),
    }
}

/// A replica from a message, with the port in either form.
///
/// # Errors
///
/// [`SchemaError::Replica`] when port or instance are absent or wider than 16 bits.
pub fn decode_replica(replica: &v1::Replica) -> Result<Replica, SchemaError> {
    let port = match &replica.port_kind {
        Some(PortKind::EgressPort(port)) => u16::try_from(*port).ok(),
        Some(PortKind::Port(bytes)) => bytestring::decode(bytes, 16).ok().map(|port| port as u16),
        None => None,
    };
    let instance = u16::try_from(replica.instance).ok();
    match (port, instance) {
        (Some(port), Some(instance)) => Ok(Replica { port, instance }),
        (port, _) => Err(SchemaError::Replica { what: if port.is_none() { "port" } else { "instance" } }),
    }
}

fn preamble(preamble: Option<&config::Preamble>, what: &'static str) -> Result<(u32, String), SchemaError> {
    let preamble = preamble.filter(|preamble| preamble.id != 0);
    preamble
        .map(|preamble| (preamble.id, preamble.name.clone()))
        .ok_or_else(|| SchemaError::Info { what, name: "without an id".into() })
}

fn unique<T>(map: &mut BTreeMap<u32, T>, id: u32, value: T, what: &'static str) -> Result<(), SchemaError> {
    match map.insert(id, value) {
        None => Ok(()),
        Some(_) => Err(SchemaError::Info { what, name: format!("{id:#x} is repeated") }),
    }
}

fn width(bits: i32, name: &str) -> Result<u32, SchemaError> {
    u32::try_from(bits)
        .ok()
        .filter(|bits| *bits > 0)
        .ok_or_else(|| SchemaError::Info { what: "a width", name: format!("{bits} bits in {name}") })
}

/// Error of an entry that does not fit a pipeline. [`SchemaError::code`] is its status code in P4Runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The P4Info is invalid.
    #[error("the P4Info is invalid: {what}: {name}")]
    Info {
        /// Kind of object.
        what: &'static str,
        /// Its name, and the problem.
        name: String,
    },
    /// No table of that id.
    #[error("no table has id {0:#x}")]
    Table(u32),
    /// The table has no field of that id.
    #[error("table {table} has no match field {field}")]
    Field {
        /// Table.
        table: String,
        /// Field id.
        field: u32,
    },
    /// A field is repeated.
    #[error("match field {field} of table {table} is repeated")]
    Repeated {
        /// Table.
        table: String,
        /// Field.
        field: String,
    },
    /// An exact field is missing.
    #[error("match field {field} of table {table} is exact and must be given")]
    Missing {
        /// Table.
        table: String,
        /// Field.
        field: String,
    },
    /// Value, mask or prefix of a field do not fit its kind.
    #[error("match field {field} of table {table}: {problem}")]
    Mask {
        /// Table.
        table: String,
        /// Field.
        field: String,
        /// The problem.
        problem: &'static str,
    },
    /// A number does not fit its field or parameter.
    #[error("{name}")]
    Range {
        /// Its name.
        name: String,
        /// The problem.
        #[source]
        source: BytestringError,
    },
    /// No such action, or not in this table.
    #[error("table {table} has no action {action:#x}")]
    Action {
        /// Table.
        table: String,
        /// Action id.
        action: u32,
    },
    /// The entry does not name one action.
    #[error("an entry of table {0} names exactly one action; action profiles are not supported")]
    NoAction(String),
    /// Parameters are missing, superfluous or repeated.
    #[error("action {action} takes {expected} parameters, each once; parameter {param} does not fit")]
    Param {
        /// Action.
        action: String,
        /// Number of its parameters.
        expected: usize,
        /// The parameter in question.
        param: u32,
    },
    /// The priority does not fit the table's match kinds.
    #[error("priority {priority} in table {table}: it is above 0 where a field is ternary, and 0 elsewhere")]
    Priority {
        /// Table.
        table: String,
        /// The priority.
        priority: i32,
    },
    /// A feature of table entries that Netfold does not use.
    #[error("{0} is not supported in table entries")]
    Unsupported(&'static str),
    /// A replica whose port or instance is absent or too large.
    #[error("a replica's {what} is absent or does not fit 16 bits")]
    Replica {
        /// Port or instance.
        what: &'static str,
    },
}

impl SchemaError {
    /// The status code of the error in P4Runtime.
    pub const fn code(&self) -> Code {
        match self {
            Self::Table(_) | Self::Field { .. } => Code::NotFound,
            Self::Range { .. } => Code::OutOfRange,
            Self::Unsupported(_) => Code::Unimplemented,
            _ => Code::InvalidArgument,
        }
    }
}
