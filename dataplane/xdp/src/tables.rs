//! Table entries.

use std::collections::HashSet;

use netfold_bpf::sys::{Map, Put};
use netfold_p4::entry::{EntryError, TableEntry};
use netfold_p4::xdp::{ActionValue, MapId, TableMap, Tuples, Xdp};

use crate::Datapath;

/// What is known of each table's maps.
pub(crate) struct Tables(Vec<Contents>);

#[derive(Default)]
struct Contents {
    tuples: Tuples,
    /// The list of combinations of masks in use, and which of the two it is.
    list: Vec<(u32, Vec<u32>)>,
    current: u32,
    /// Keys of the entries.
    keys: HashSet<Vec<u8>>,
}

impl Tables {
    pub(crate) fn new(xdp: &Xdp) -> Self {
        Self(xdp.tables.iter().map(|_| Contents::default()).collect())
    }
}

impl Contents {
    /// Has packets look keys up under the combinations that there are now: writes the list that no packet uses, and then which list is in use.
    fn publish(&mut self, table: &TableMap, tuples: &Map) -> std::io::Result<()> {
        let next = self.tuples.list();
        if next == self.list {
            return Ok(());
        }
        let other = 1 - self.current;
        let lists =
            |next| if other == 0 { [next, self.list.as_slice()] } else { [self.list.as_slice(), next] };
        tuples.write(&[0; 4], &table.tuples(self.current, lists(&next)), Put::Any)?;
        tuples.write(&[0; 4], &table.tuples(other, lists(&next)), Put::Any)?;
        (self.current, self.list) = (other, next);
        Ok(())
    }
}

fn masks(value: &ActionValue) -> Vec<u32> {
    value.key.iter().map(|(_, mask)| *mask).collect()
}

impl Datapath {
    /// Adds a table entry. Packets see it completely or not at all.
    ///
    /// # Errors
    ///
    /// When the entry does not fit its table, its key exists, or the table is full: of entries, or of combinations of masks and priority
    /// ([`netfold_p4::xdp::TUPLES_MAX`]); the table is unchanged.
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (at, value) = Xdp::entry(self.program(), entry)?;
        let Self { xdp, maps, tables, .. } = self;
        let (table, contents) = (&xdp.tables[at], &mut tables.0[at]);
        let full = EntryError::Full(table.size as usize);
        if contents.keys.len() >= table.size as usize {
            return Err(full);
        }
        let Some(map) = maps.get(&MapId::Table(table.table)) else { return Err(full) };
        let tuple = if table.wildcards { contents.tuples.enter(entry.priority, &masks(&value))? } else { 0 };
        let key = table.key(&value, tuple);
        let written = match map.write(&key, &value.value, Put::New) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(EntryError::Exists),
            Err(_) => Err(full),
        };
        if let Err(error) = written {
            contents.tuples.leave(tuple);
            return Err(error);
        }
        contents.keys.insert(key);
        if let Some(tuples) = maps.get(&MapId::Tuples(table.table)) {
            contents.publish(table, tuples).map_err(|_| EntryError::Full(table.size as usize))?;
        }
        Ok(())
    }

    /// Removes the entry with the key and priority of `entry`.
    ///
    /// # Errors
    ///
    /// When there is none, or the key does not fit the table.
    pub fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (at, value) = Xdp::entry(self.program(), entry)?;
        let Self { xdp, maps, tables, .. } = self;
        let (table, contents) = (&xdp.tables[at], &mut tables.0[at]);
        let tuple = match table.wildcards {
            true => contents.tuples.find(entry.priority, &masks(&value)).ok_or(EntryError::NotFound)?,
            false => 0,
        };
        let key = table.key(&value, tuple);
        if !contents.keys.remove(&key) {
            return Err(EntryError::NotFound);
        }
        let removed = maps.get(&MapId::Table(table.table)).map(|map| map.remove(&key));
        contents.tuples.leave(tuple);
        if let Some(tuples) = maps.get(&MapId::Tuples(table.table)) {
            contents.publish(table, tuples).map_err(|_| EntryError::NotFound)?;
        }
        if matches!(removed, Some(Ok(true))) { Ok(()) } else { Err(EntryError::NotFound) }
    }
}
