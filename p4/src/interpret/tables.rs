//! Table entries and lookup.

use crate::check::width;
use crate::entry::{self, EntryError, KeyField, TableEntry};
use crate::ir::*;
use crate::p4info;

/// The entries of a table in descending order of priority, older before younger.
#[derive(Default)]
pub(super) struct Entries {
    list: Vec<Entry>,
}

struct Entry {
    /// Value and mask of each key field of the table; mask 0 for a wildcard.
    key: Vec<(u64, u64)>,
    priority: i32,
    action: ActionId,
    params: Vec<u64>,
}

impl Entries {
    /// Action and parameters of the first entry that matches.
    pub(super) fn lookup(&self, key: &[u64]) -> Option<(ActionId, &[u64])> {
        let matches =
            |entry: &&Entry| entry.key.iter().zip(key).all(|((value, mask), field)| field & mask == *value);
        self.list.iter().find(matches).map(|entry| (entry.action, entry.params.as_slice()))
    }

    pub(super) fn insert(
        &mut self,
        program: &Program,
        table: &Table,
        entry: &TableEntry,
    ) -> Result<(), EntryError> {
        let key = packed(program, table, entry)?;
        let id = |action: &ActionId| p4info::action_id(program.action(*action).id);
        let unknown = EntryError::Action { action: entry.action, table: entry.table };
        let action = table.actions.iter().find(|action| id(action) == entry.action).ok_or(unknown)?;
        entry::check_params(program.action(*action).params.iter().map(|param| param.bits), &entry.params)?;
        if self.list.len() >= table.size as usize {
            return Err(EntryError::Full(table.size as usize));
        }
        if self.position(&key, entry.priority).is_some() {
            return Err(EntryError::Exists);
        }
        let at = self.list.partition_point(|other| other.priority >= entry.priority);
        let (priority, params) = (entry.priority, entry.params.clone());
        self.list.insert(at, Entry { key, priority, action: *action, params });
        Ok(())
    }

    pub(super) fn delete(
        &mut self,
        program: &Program,
        table: &Table,
        entry: &TableEntry,
    ) -> Result<(), EntryError> {
        let key = packed(program, table, entry)?;
        let at = self.position(&key, entry.priority).ok_or(EntryError::NotFound)?;
        self.list.remove(at);
        Ok(())
    }

    fn position(&self, key: &[(u64, u64)], priority: i32) -> Option<usize> {
        self.list.iter().position(|entry| entry.priority == priority && entry.key == key)
    }

    /// Maximum bytes of an entry.
    pub(super) fn entry_bytes(program: &Program, table: &Table) -> u64 {
        let params = table.actions.iter().map(|action| program.action(*action).params.len()).max();
        (size_of::<Entry>() + table.keys.len() * 16 + params.unwrap_or(0) * 8) as u64
    }
}

/// The entry's key in order of the table's fields.
fn packed(program: &Program, table: &Table, entry: &TableEntry) -> Result<Vec<(u64, u64)>, EntryError> {
    let fields = table.keys.iter().map(|key| KeyField {
        id: key.id,
        bits: width(program, &key.value, &[], &[]),
        exact: key.kind == MatchKind::Exact,
    });
    let mut packed = vec![(0, 0); table.keys.len()];
    entry::check_key(fields, entry, |at, field| packed[at] = (field.value, field.mask))?;
    Ok(packed)
}
