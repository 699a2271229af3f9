//! Tables as maps, their entries as keys and values, and lookups.

use netfold_bpf::{Alu, Jump, MapPart, Register as R, Size, Width};

use super::expr::Names;
use super::{FRAME, KEY, Lowering, MapId, MapKind, MapSpec, PACKET, RAW_KEY, SLOT, refusal};
use crate::check::width;
use crate::entry::{self, EntryError, KeyField, TableEntry};
use crate::ir::*;
use crate::object_id;
use crate::refusal::Refusal;

/// Combinations of masks and priority in a table with wildcards, at most: each costs every packet a look into a hash map.
pub const TUPLES_MAX: usize = 48;
/// Key fields of a table, at most.
const FIELDS_MAX: usize = 16;
/// Bytes in front of a list of combinations, and of the two lists.
const LIST_HEAD: u32 = 8;

/// A table: what its maps hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: String,
    /// Whether a key has masks. Then a key of the map begins with the number of its combination of masks.
    pub wildcards: bool,
    /// Key fields, 32 bits each.
    pub fields: usize,
    /// Parameters of the action with the most of them, 64 bits each.
    pub params: usize,
    /// Entries, at most.
    pub size: u32,
}

impl TableMap {
    /// Bytes of a key.
    pub const fn key_bytes(&self) -> u32 {
        4 * (self.fields as u32 + self.wildcards as u32)
    }

    /// Bytes of a value: the action's number, and its parameters.
    pub const fn value_bytes(&self) -> u32 {
        8 + 8 * self.params as u32
    }

    const fn tuple_bytes(&self) -> u32 {
        4 * (self.fields as u32 + 1)
    }

    const fn list_bytes(&self) -> u32 {
        LIST_HEAD + (TUPLES_MAX as u32 * self.tuple_bytes()).next_multiple_of(8)
    }

    pub(super) fn specs(&self) -> Vec<MapSpec> {
        let name = |prefix: &str| format!("{prefix}{}", self.name).chars().take(15).collect::<String>();
        let mut specs = vec![MapSpec {
            id: MapId::Table(self.table),
            name: name("t_"),
            kind: MapKind::Hash,
            key_bytes: self.key_bytes(),
            value_bytes: self.value_bytes(),
            entries: self.size,
        }];
        if self.wildcards {
            specs.push(MapSpec {
                id: MapId::Tuples(self.table),
                name: name("m_"),
                kind: MapKind::Array,
                key_bytes: 4,
                value_bytes: LIST_HEAD + 2 * self.list_bytes(),
                entries: 1,
            });
        }
        specs
    }

    /// The value of [`MapId::Tuples`]: two lists, of which `current`, 0 or 1, is in use. Each combination is its number and its masks, in descending order of
    /// priority; at most [`TUPLES_MAX`].
    pub fn tuples(&self, current: u32, lists: [&[(u32, Vec<u32>)]; 2]) -> Vec<u8> {
        let mut bytes = vec![0; (LIST_HEAD + 2 * self.list_bytes()) as usize];
        bytes[..4].copy_from_slice(&current.to_ne_bytes());
        for (list, number) in lists.into_iter().zip(0..) {
            let start = (LIST_HEAD + number * self.list_bytes()) as usize;
            bytes[start..start + 4].copy_from_slice(&(list.len() as u32).to_ne_bytes());
            let words = list.iter().flat_map(|(id, masks)| std::iter::once(id).chain(masks));
            for (word, place) in words.zip(bytes[start + LIST_HEAD as usize..].chunks_exact_mut(4)) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
        bytes
    }
}

/// Combinations of masks and priority of a table with wildcards.
///
/// A packet looks its key up under each combination in descending order of priority, and the first hit counts. So two entries that match with the same
/// priority are distinguished by the order of their combinations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tuples {
    /// Number, priority and masks, in descending order of priority; entries of each.
    list: Vec<(u32, i32, Vec<u32>, usize)>,
    next: u32,
}

impl Tuples {
    /// The number of a combination, which is added if it is new, for one entry more.
    ///
    /// # Errors
    ///
    /// [`EntryError::Full`] with [`TUPLES_MAX`].
    pub fn enter(&mut self, priority: i32, masks: &[u32]) -> Result<u32, EntryError> {
        if let Some(found) = self.list.iter_mut().find(|(_, p, m, _)| *p == priority && m == masks) {
            found.3 += 1;
            return Ok(found.0);
        }
        if self.list.len() >= TUPLES_MAX {
            return Err(EntryError::Full(TUPLES_MAX));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let at = self.list.partition_point(|(_, other, ..)| *other >= priority);
        self.list.insert(at, (number, priority, masks.to_vec(), 1));
        Ok(number)
    }

    /// The number of a combination that entries have.
    pub fn find(&self, priority: i32, masks: &[u32]) -> Option<u32> {
        self.list.iter().find(|(_, p, m, _)| *p == priority && m == masks).map(|found| found.0)
    }

    /// One entry less of a combination.
    pub fn leave(&mut self, number: u32) {
        if let Some(at) = self.list.iter().position(|found| found.0 == number) {
            self.list[at].3 -= 1;
            if self.list[at].3 == 0 {
                self.list.remove(at);
            }
        }
    }

    /// The combinations as [`TableMap::tuples`] takes them.
    pub fn list(&self) -> Vec<(u32, Vec<u32>)> {
        self.list.iter().map(|(number, _, masks, _)| (*number, masks.clone())).collect()
    }
}

/// An entry as the table's map has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionValue {
    /// Value and mask of each key field.
    pub key: Vec<(u32, u32)>,
    /// Number of the action, and its parameters.
    pub value: Vec<u8>,
}

impl TableMap {
    /// The key under the number of its combination of masks, 0 in a table without.
    pub fn key(&self, entry: &ActionValue, tuple: u32) -> Vec<u8> {
        let head = self.wildcards.then_some(tuple);
        let words = head.into_iter().chain(entry.key.iter().map(|(value, _)| *value));
        words.flat_map(u32::to_ne_bytes).collect()
    }
}

/// The table of an entry, by its position, and the entry as its map has it.
///
/// # Errors
///
/// When the entry does not fit its table. Whether the key exists or the table is full is not known here.
pub(super) fn entry(program: &Program, entry: &TableEntry) -> Result<(usize, ActionValue), EntryError> {
    let at = program.tables.iter().position(|table| object_id::table_id(table.id) == entry.table);
    let at = at.ok_or(EntryError::Table(entry.table))?;
    let table = &program.tables[at];
    let id = |action: &&ActionId| object_id::action_id(program.action(**action).id) == entry.action;
    let action = table.actions.iter().find(id);
    let action = *action.ok_or(EntryError::Action { action: entry.action, table: entry.table })?;
    let fields = table.keys.iter().map(|key| KeyField {
        id: key.id,
        bits: width(program, &key.value, &[], &[]),
        exact: key.kind == MatchKind::Exact,
    });
    let mut key = vec![(0, 0); table.keys.len()];
    entry::check_key(fields, entry, |at, field| key[at] = (field.value as u32, field.mask as u32))?;
    entry::check_params(program.action(action).params.iter().map(|param| param.bits), &entry.params)?;
    let head = [u32::from(action.0), 0].into_iter().flat_map(u32::to_ne_bytes);
    let mut value: Vec<u8> = head.chain(entry.params.iter().copied().flat_map(u64::to_ne_bytes)).collect();
    value.resize(8 + 8 * most_params(program, table), 0);
    Ok((at, ActionValue { key, value }))
}

fn most_params(program: &Program, table: &Table) -> usize {
    table.actions.iter().map(|action| program.action(*action).params.len()).max().unwrap_or(0)
}

impl super::Xdp {
    /// The number of an entry's table in [`tables`](Self::tables), and the entry as the table's map has it.
    ///
    /// # Errors
    ///
    /// When the entry does not fit its table. Whether the key exists or the table is full is not known here.
    pub fn entry(program: &Program, table_entry: &TableEntry) -> Result<(usize, ActionValue), EntryError> {
        entry(program, table_entry)
    }
}

pub(super) fn maps(program: &Program) -> Result<Vec<TableMap>, Refusal> {
    let map = |(number, table): (usize, &Table)| {
        if table.keys.len() > FIELDS_MAX {
            return Err(refusal(
                format!("table '{}' of {} key fields", table.name, table.keys.len()),
                format!("a key has {FIELDS_MAX}, which are on the stack"),
            ));
        }
        let wide = |key: &&Key| width(program, &key.value, &[], &[]) > 32;
        if let Some(key) = table.keys.iter().find(wide) {
            return Err(refusal(
                format!("key field '{}' of table '{}'", key.name, table.name),
                "a key field has at most 32 bits",
            ));
        }
        Ok(TableMap {
            table: TableId(number as u16),
            name: table.name.clone(),
            wildcards: table.keys.iter().any(|key| key.kind == MatchKind::Ternary),
            fields: table.keys.len(),
            params: most_params(program, table),
            size: table.size,
        })
    };
    program.tables.iter().enumerate().map(map).collect()
}

impl Lowering<'_> {
    /// Looks a key up and runs the action found.
    pub(super) fn apply(&mut self, id: TableId) -> Result<(), Refusal> {
        let (p, tables) = (self.p, self.tables);
        let (table, map) = (p.table(id), &tables[usize::from(id.0)]);
        let element = self.code.element();
        self.code.from(format!("table {}", table.name));
        let [hit, miss, done] = std::array::from_fn(|_| self.code.label());
        let start = if map.wildcards { RAW_KEY } else { KEY };
        for (key, at) in table.keys.iter().zip((start..).step_by(4)) {
            let value = self.value(&key.value, 0, &Names::default())?;
            self.code.store(Size::Word, FRAME, at, value);
        }
        if map.wildcards {
            self.each_tuple(map, hit, miss);
        } else {
            self.lookup(MapId::Table(id), KEY);
            self.code.jump_k(Width::All, Jump::Eq, R(0), 0, miss);
            self.code.go(hit);
        }
        self.code.put(miss);
        let (default, args) = &table.default;
        self.set_variable(self.layout.action, default.0.into());
        for (arg, number) in args.iter().zip(0..) {
            self.code.constant(R(1), *arg);
            self.store_variable(self.layout.param(number), R(1));
        }
        let run = self.code.label();
        self.code.go(run);
        self.code.put(hit);
        self.code.load(Size::Word, R(1), R(0), 0);
        self.store_variable(self.layout.action, R(1));
        for number in 0..map.params as u16 {
            self.code.load(Size::Double, R(1), R(0), 8 + 8 * number as i16);
            self.store_variable(self.layout.param(number), R(1));
        }
        self.code.put(run);
        for action in &table.actions {
            let (next, declared) = (self.code.label(), p.action(*action));
            self.code.from(format!("table {}, action {}", table.name, declared.name));
            self.load_variable(R(1), self.layout.action);
            self.code.jump_k(Width::Low, Jump::Ne, R(1), action.0.into(), next);
            let names = Names { params: &declared.params, ..Names::default() };
            for stmt in &declared.body {
                // The validator permits only assignments in actions.
                if let Stmt::Assign(place, value) = stmt {
                    self.value(value, 0, &names)?;
                    self.assign(*place);
                }
            }
            self.code.go(done);
            self.code.put(next);
        }
        self.code.put(done);
        self.code.from(element);
        Ok(())
    }

    /// Looks a key up under each combination of masks.
    fn each_tuple(&mut self, map: &TableMap, hit: super::Label, miss: super::Label) {
        let fields = map.fields as i16;
        self.code.map(SLOT, MapId::Tuples(map.table), MapPart::Value(0));
        // One of two lists.
        self.code.load(Size::Word, PACKET, SLOT, 0);
        self.code.alu_k(Width::All, Alu::And, PACKET, 1);
        self.code.alu_k(Width::All, Alu::Mul, PACKET, map.list_bytes() as i32);
        self.code.alu(Width::All, Alu::Add, SLOT, PACKET);
        for tuple in 0..TUPLES_MAX {
            let at = (LIST_HEAD + LIST_HEAD + tuple as u32 * map.tuple_bytes()) as i16;
            self.code.load(Size::Word, R(1), SLOT, LIST_HEAD as i16);
            self.code.jump_k(Width::Low, Jump::Le, R(1), tuple as i32, miss);
            self.code.load(Size::Word, R(1), SLOT, at);
            self.code.store(Size::Word, FRAME, KEY, R(1));
            for field in 0..fields {
                self.code.load(Size::Word, R(1), SLOT, at + 4 + 4 * field);
                self.code.load(Size::Word, R(2), FRAME, RAW_KEY + 4 * field);
                self.code.alu(Width::Low, Alu::And, R(1), R(2));
                self.code.store(Size::Word, FRAME, KEY + 4 + 4 * field, R(1));
            }
            self.lookup(MapId::Table(map.table), KEY);
            self.code.jump_k(Width::All, Jump::Ne, R(0), 0, hit);
        }
    }
}
