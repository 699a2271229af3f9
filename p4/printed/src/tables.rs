//! Entries of tables.

use netfold_p4::entry::{self, EntryError, KeyField, TableEntry};

use crate::program::{Entry, Gress, Table};

/// The entries of a table in the order of precedence.
#[derive(Debug)]
pub(crate) struct Entries {
    list: Vec<(i32, Entry)>,
}

impl Entries {
    pub(crate) fn new(table: &Table) -> Self {
        Self { list: table.entries.iter().map(|entry| (0, entry.clone())).collect() }
    }

    /// The first entry that matches.
    pub(crate) fn lookup(&self, key: &[u64]) -> Option<&Entry> {
        let matches =
            |entry: &Entry| entry.key.iter().zip(key).all(|((value, mask), field)| field & mask == *value);
        self.list.iter().map(|(_, entry)| entry).find(|entry| matches(entry))
    }

    pub(crate) fn insert(
        &mut self,
        table: &Table,
        gress: &Gress,
        new: &TableEntry,
    ) -> Result<(), EntryError> {
        let key = key(table, new)?;
        let unknown = EntryError::Action { action: new.action, table: new.table };
        let is_named = |number: &&usize| gress.actions[**number].id == new.action && new.action != 0;
        let action = *table.actions.iter().find(is_named).ok_or(unknown)?;
        let parameters = gress.actions[action].parameters.iter();
        entry::check_params(parameters.map(|field| gress.fields[*field].ty.bits), &new.params)?;
        if self.list.len() >= table.size {
            return Err(EntryError::Full(table.size));
        }
        if self.position(&key, new.priority).is_some() {
            return Err(EntryError::Exists);
        }
        let at = self.list.partition_point(|(priority, _)| *priority >= new.priority);
        self.list.insert(at, (new.priority, Entry { key, action, arguments: new.params.clone() }));
        Ok(())
    }

    pub(crate) fn delete(&mut self, table: &Table, old: &TableEntry) -> Result<(), EntryError> {
        let key = key(table, old)?;
        let at = self.position(&key, old.priority).ok_or(EntryError::NotFound)?;
        self.list.remove(at);
        Ok(())
    }

    fn position(&self, key: &[(u64, u64)], priority: i32) -> Option<usize> {
        self.list.iter().position(|(known, entry)| *known == priority && entry.key == key)
    }
}

/// The entry's key in the order of the table's.
fn key(table: &Table, entry: &TableEntry) -> Result<Vec<(u64, u64)>, EntryError> {
    let fields = table.keys.iter().map(|key| KeyField { id: key.id, bits: key.bits, exact: key.exact });
    let mut found = vec![(0, 0); table.keys.len()];
    entry::check_key(fields, entry, |at, field| found[at] = (field.value, field.mask))?;
    Ok(found)
}
