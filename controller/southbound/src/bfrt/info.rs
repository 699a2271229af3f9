//! What BF Runtime calls our tables: `bf-rt.json` beside the program.

use std::collections::BTreeMap;

use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::ir::Program;
use netfold_p4::p4info::{action_id, table_id};
use serde_json::Value;

use super::BfrtError;
use netfold_p4_runtime::bfrt::{
    BoolArray, DataField, DataValue, Entity, EntityKind, Exact, IntArray, KeyField, KeyMatch, TableData,
    TableEntry as Entry, TableKey, Ternary, Update, UpdateType,
};

/// Key field by which ternary entries are ranked; the least number wins there.
const PRIORITY: &str = "$MATCH_PRIORITY";

/// Priority of an entry that ours calls 0; the greatest that the device takes.
const PRIORITY_MAX: u32 = (1 << 24) - 1;

/// A field: its id and its width in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    id: u32,
    bits: u32,
    ternary: bool,
}

impl Field {
    fn bytes(&self, value: u64) -> Option<Vec<u8>> {
        if self.bits < 64 && value >> self.bits != 0 {
            return None;
        }
        let len = self.bits.div_ceil(8) as usize;
        let mut bytes = vec![0; len.saturating_sub(8)];
        bytes.extend_from_slice(&value.to_be_bytes()[8usize.saturating_sub(len)..]);
        Some(bytes)
    }
}

#[derive(Debug)]
struct Action {
    id: u32,
    /// In the order of our parameters.
    params: Vec<Field>,
}

#[derive(Debug)]
struct Table {
    id: u32,
    /// By our ids.
    keys: BTreeMap<u32, Field>,
    priority: Option<Field>,
    /// By our ids.
    actions: BTreeMap<u32, Action>,
}

/// Ids of the tables of the replication engine and of their fields.
#[derive(Debug)]
struct Engine {
    group: u32,
    group_id: Field,
    nodes: u32,
    exclusion_valid: u32,
    exclusion: u32,
    node: u32,
    node_id: Field,
    rid: Field,
    lags: u32,
    ports: u32,
}

/// A program's tables, and the replication engine's.
#[derive(Debug)]
pub(super) struct Info {
    tables: BTreeMap<u32, Table>,
    engine: Engine,
}

impl Info {
    /// Finds the program's tables in its `bf-rt.json`, and the replication engine in the device's.
    pub(super) fn new(program: &Program, own: &[u8], device: &[u8]) -> Result<Self, BfrtError> {
        let parse = |json: &[u8], what: &str| -> Result<Value, BfrtError> {
            serde_json::from_slice(json)
                .map_err(|error| BfrtError::Info(format!("{what} is no JSON: {error}")))
        };
        let (own, device) =
            (parse(own, "the program's bf-rt.json")?, parse(device, "the device's bf-rt.json")?);
        let mut tables = BTreeMap::new();
        for table in &program.tables {
            let json = named(&own["tables"], &table.name)?;
            let mut keys = BTreeMap::new();
            for key in &table.keys {
                keys.insert(key.id, field(named(&json["key"], &key.name)?)?);
            }
            let mut actions = BTreeMap::new();
            for action in table.actions.iter().map(|action| program.action(*action)) {
                let json = named(&json["action_specs"], &action.name)?;
                let params = action.params.iter().map(|param| field(named(&json["data"], &param.name)?));
                let (id, params) = (number(&json["id"])?, params.collect::<Result<_, _>>()?);
                actions.insert(action_id(action.id), Action { id, params });
            }
            let priority = named(&json["key"], PRIORITY).ok().map(field).transpose()?;
            tables.insert(table_id(table.id), Table { id: number(&json["id"])?, keys, priority, actions });
        }
        Ok(Self { tables, engine: Engine::new(&device)? })
    }

    /// An entry as an update.
    pub(super) fn entry(&self, kind: UpdateType, entry: &TableEntry) -> Result<Update, BfrtError> {
        let misfit = |what: &str| BfrtError::Entry(format!("{what} of {entry:?}"));
        let table = self.tables.get(&entry.table).ok_or_else(|| misfit("the table"))?;
        let mut fields = Vec::with_capacity(entry.matches.len() + 1);
        for given in &entry.matches {
            let field = table.keys.get(&given.field).ok_or_else(|| misfit("a key field"))?;
            let value = field.bytes(given.value).ok_or_else(|| misfit("a value"))?;
            let all = if field.bits < 64 { (1 << field.bits) - 1 } else { u64::MAX };
            let match_type = Some(if field.ternary {
                let mask = field.bytes(given.mask & all).ok_or_else(|| misfit("a mask"))?;
                KeyMatch::Ternary(Ternary { value, mask })
            } else {
                KeyMatch::Exact(Exact { value })
            });
            fields.push(KeyField { field_id: field.id, match_type });
        }
        if let Some(field) = &table.priority {
            let priority = PRIORITY_MAX.saturating_sub(u32::try_from(entry.priority).unwrap_or(0));
            fields.push(exact(field, priority.into()).ok_or_else(|| misfit("the priority"))?);
        }
        let action = table.actions.get(&entry.action).ok_or_else(|| misfit("the action"))?;
        if action.params.len() != entry.params.len() {
            return Err(misfit("the number of parameters"));
        }
        let data = action.params.iter().zip(&entry.params).map(|(field, value)| {
            let bytes = field.bytes(*value).ok_or_else(|| misfit("a parameter"))?;
            Ok(DataField { field_id: field.id, value: Some(DataValue::Stream(bytes)) })
        });
        let data = TableData { action_id: action.id, fields: data.collect::<Result<_, BfrtError>>()? };
        let data = (kind != UpdateType::Delete).then_some(data);
        Ok(update(
            kind,
            Entry { table_id: table.id, key: Some(TableKey { fields }), data, ..Entry::default() },
        ))
    }

    /// A node of the replication engine, which makes one copy. Its number is that of the copy's instance.
    pub(super) fn node(&self, kind: UpdateType, replica: &Replica) -> Update {
        let engine = &self.engine;
        let list = |field_id, val: Vec<u32>| DataField {
            field_id,
            value: Some(DataValue::IntArrVal(IntArray { val })),
        };
        let rid = engine.rid.bytes(replica.instance.into()).unwrap_or_default();
        let data = TableData {
            action_id: 0,
            fields: vec![
                DataField { field_id: engine.rid.id, value: Some(DataValue::Stream(rid)) },
                list(engine.lags, Vec::new()),
                list(engine.ports, vec![replica.port.into()]),
            ],
        };
        self.engine_entry(kind, engine.node, &engine.node_id, replica.instance.into(), data)
    }

    /// A group: the list of its nodes.
    pub(super) fn group(&self, kind: UpdateType, group: u16, replicas: &[Replica]) -> Update {
        let engine = &self.engine;
        let nodes: Vec<u32> = replicas.iter().map(|replica| replica.instance.into()).collect();
        let none = vec![0; nodes.len()];
        let valid = DataValue::BoolArrVal(BoolArray { val: vec![false; nodes.len()] });
        let list =
            |field_id, val| DataField { field_id, value: Some(DataValue::IntArrVal(IntArray { val })) };
        let fields = vec![
            list(engine.nodes, nodes),
            DataField { field_id: engine.exclusion_valid, value: Some(valid) },
            list(engine.exclusion, none),
        ];
        self.engine_entry(
            kind,
            engine.group,
            &engine.group_id,
            group.into(),
            TableData { action_id: 0, fields },
        )
    }

    fn engine_entry(&self, kind: UpdateType, table_id: u32, key: &Field, id: u64, data: TableData) -> Update {
        let fields = exact(key, id).into_iter().collect();
        let data = (kind != UpdateType::Delete).then_some(data);
        update(kind, Entry { table_id, key: Some(TableKey { fields }), data, ..Entry::default() })
    }

    /// All tables that we fill, in the order in which they are to be emptied.
    pub(super) fn table_ids(&self) -> Vec<u32> {
        let own = self.tables.values().map(|table| table.id);
        own.chain([self.engine.group, self.engine.node]).collect()
    }
}

impl Engine {
    fn new(json: &Value) -> Result<Self, BfrtError> {
        let (group, node) = (named(&json["tables"], "$pre.mgid")?, named(&json["tables"], "$pre.node")?);
        let id = |table: &Value, name| number(&named_data(table, name)?["id"]);
        Ok(Self {
            group: number(&group["id"])?,
            group_id: field(named(&group["key"], "$MGID")?)?,
            nodes: id(group, "$MULTICAST_NODE_ID")?,
            exclusion_valid: id(group, "$MULTICAST_NODE_L1_XID_VALID")?,
            exclusion: id(group, "$MULTICAST_NODE_L1_XID")?,
            node: number(&node["id"])?,
            node_id: field(named(&node["key"], "$MULTICAST_NODE_ID")?)?,
            rid: field(named_data(node, "$MULTICAST_RID")?)?,
            lags: id(node, "$MULTICAST_LAG_ID")?,
            ports: id(node, "$DEV_PORT")?,
        })
    }
}

fn exact(field: &Field, value: u64) -> Option<KeyField> {
    let match_type = Some(KeyMatch::Exact(Exact { value: field.bytes(value)? }));
    Some(KeyField { field_id: field.id, match_type })
}

pub(super) fn update(kind: UpdateType, entry: Entry) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) }
}

/// The object of that name, which may be prefixed with those of pipe and control.
fn named<'a>(list: &'a Value, name: &str) -> Result<&'a Value, BfrtError> {
    let is = |object: &&Value| {
        let full = object["name"].as_str().unwrap_or_default();
        full == name || full.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
    };
    let found = list.as_array().into_iter().flatten().find(is);
    found.ok_or_else(|| BfrtError::Info(format!("bf-rt.json has no {name}: it is of another program")))
}

/// Data of a table without actions: each is in a wrapper.
fn named_data<'a>(table: &'a Value, name: &str) -> Result<&'a Value, BfrtError> {
    let singletons = table["data"].as_array().into_iter().flatten().map(|data| &data["singleton"]);
    let found = singletons.into_iter().find(|single| single["name"].as_str() == Some(name));
    found.ok_or_else(|| BfrtError::Info(format!("the device's bf-rt.json has no {name}")))
}

fn number(value: &Value) -> Result<u32, BfrtError> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| BfrtError::Info(format!("{value} in bf-rt.json is no id")))
}

fn field(json: &Value) -> Result<Field, BfrtError> {
    let kind = &json["type"];
    let bits = match kind["type"].as_str().unwrap_or_default() {
        "bytes" => number(&kind["width"])?,
        "bool" | "uint8" => 8,
        "uint16" => 16,
        "uint64" => 64,
        _ => 32,
    };
    if bits == 0 || bits > 64 {
        return Err(BfrtError::Info(format!("a field of {bits} bits in bf-rt.json: {}", json["name"])));
    }
    Ok(Field { id: number(&json["id"])?, bits, ternary: json["match_type"] == "Ternary" })
}
