//! Entries and groups that controllers have written, to be read back.
//!
//! Everything here runs on the switch's thread between two bursts, so packets see a batch as one step.

use std::collections::BTreeMap;

use netfold_p4::entry::{FieldMatch, Replica, TableEntry};
use netfold_p4::p4info::RegisterCell;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, Atomicity, UpdateType};
use netfold_switch::Core;

use crate::fault::Fault;

/// Table, key fields in order of their ids, priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) table: u32,
    pub(crate) matches: Vec<FieldMatch>,
    pub(crate) priority: i32,
}

/// An entry without its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    pub(crate) action: u32,
    pub(crate) params: Vec<u64>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) controller_metadata: u64,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) replicas: Vec<Replica>,
    /// The same for reading back: each port in the form that it was written in.
    pub(crate) written: Vec<v1::Replica>,
    pub(crate) metadata: Vec<u8>,
}

/// Cells of a register.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    pub(crate) name: String,
    pub(crate) cell: RegisterCell,
    /// One entry, or all.
    pub(crate) index: Option<usize>,
}

impl Cells {
    fn indices(&self) -> std::ops::Range<usize> {
        match self.index {
            Some(index) => index..index + 1,
            None => 0..self.cell.size as usize,
        }
    }
}

/// One update, validated against the pipeline but not against existing entities.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A table entry. Without an action in a MODIFY, the entry keeps its own.
    Entry { kind: UpdateType, key: Key, held: Option<StoredEntry>, keep_action: bool },
    /// One counter cell or all.
    Counter { id: u32, index: Option<usize>, packets: u64 },
    /// One register cell or all.
    Register { cells: Cells, value: u32 },
    /// A multicast group.
    Group { kind: UpdateType, id: u16, group: Group },
}

/// How to revert an update.
enum Undo {
    Entry(Key, Option<StoredEntry>),
    Counter(u32, usize, Vec<u64>),
    Register(Cells, Vec<u32>),
    Group(u16, Option<Group>),
}

/// Entries and groups.
#[derive(Debug, Default)]
pub(crate) struct EntityStore {
    pub(crate) entries: BTreeMap<Key, StoredEntry>,
    pub(crate) groups: BTreeMap<u16, Group>,
}

impl EntityStore {
    /// Applies updates in order and returns the status of each.
    pub(crate) fn apply(
        &mut self,
        core: &mut Core,
        ops: Vec<Result<Op, Fault>>,
        atomicity: Atomicity,
    ) -> Vec<Result<(), Fault>> {
        if atomicity == Atomicity::ContinueOnError {
            let apply = |op: Result<Op, Fault>| op.and_then(|op| self.step(core, op).map(drop));
            return ops.into_iter().map(apply).collect();
        }
        let mut results = Vec::with_capacity(ops.len());
        let mut done = Vec::new();
        let mut failed = false;
        for op in ops {
            if failed {
                results.push(Err(aborted("not attempted: an earlier update failed")));
                continue;
            }
            match op.and_then(|op| self.step(core, op)) {
                Ok(undo) => {
                    done.push(undo);
                    results.push(Ok(()));
                }
                Err(fault) => {
                    failed = true;
                    results.push(Err(fault));
                }
            }
        }
        if failed {
            for (undo, result) in done.into_iter().zip(&mut results).rev() {
                *result = match self.undo(core, undo) {
                    Ok(()) => Err(aborted("rolled back: a later update failed")),
                    Err(fault) => {
                        Err(Fault::new(Code::Internal, format!("not rolled back: {}", fault.message)))
                    }
                };
            }
        }
        results
    }

    fn step(&mut self, core: &mut Core, op: Op) -> Result<Undo, Fault> {
        match op {
            Op::Entry { kind, key, held, keep_action } => self.entry(core, kind, key, held, keep_action),
            Op::Counter { id, index, packets } => {
                let cells = core.pipeline().counters_mut(id);
                let range = index.map_or(0..cells.len(), |index| index..index + 1);
                let cells = cells.get_mut(range.clone());
                let cells = cells.ok_or_else(|| Fault::new(Code::OutOfRange, "no such counter cell"))?;
                let before = cells.to_vec();
                cells.fill(packets);
                Ok(Undo::Counter(id, range.start, before))
            }
            Op::Register { cells, value } => {
                let mut before = Vec::with_capacity(cells.indices().len());
                for index in cells.indices() {
                    before.push(swap(core, &cells, index, value)?);
                }
                Ok(Undo::Register(cells, before))
            }
            Op::Group { kind, id, group } => self.group(core, kind, id, group),
        }
    }

    fn undo(&mut self, core: &mut Core, undo: Undo) -> Result<(), Fault> {
        match undo {
            Undo::Entry(key, before) => self.put(core, key, before).map(drop),
            Undo::Counter(id, start, before) => {
                let cells = core.pipeline().counters_mut(id).get_mut(start..start + before.len());
                cells.ok_or_else(|| Fault::new(Code::Internal, "no such cells"))?.copy_from_slice(&before);
                Ok(())
            }
            Undo::Register(cells, before) => {
                for (index, value) in cells.indices().zip(before) {
                    swap(core, &cells, index, value)?;
                }
                Ok(())
            }
            Undo::Group(id, before) => self.put_group(core, id, before).map(drop),
        }
    }

    fn entry(
        &mut self,
        core: &mut Core,
        kind: UpdateType,
        key: Key,
        held: Option<StoredEntry>,
        keep_action: bool,
    ) -> Result<Undo, Fault> {
        let there = self.entries.get(&key);
        let absent = || Fault::not_found("no entry with that key");
        let new = match (kind, held) {
            (UpdateType::Insert, Some(_)) if there.is_some() => {
                return Err(Fault::new(Code::AlreadyExists, "an entry with that key exists already"));
            }
            (UpdateType::Insert, Some(held)) => Some(held),
            (UpdateType::Modify, Some(mut held)) => {
                let there = there.ok_or_else(absent)?;
                if keep_action {
                    held.action = there.action;
                    held.params.clone_from(&there.params);
                }
                Some(held)
            }
            _ => {
                there.ok_or_else(absent)?;
                None
            }
        };
        let before = self.put(core, key.clone(), new)?;
        Ok(Undo::Entry(key, before))
    }

    /// Replaces an entry and returns the old one. On an error nothing is changed.
    fn put(
        &mut self,
        core: &mut Core,
        key: Key,
        new: Option<StoredEntry>,
    ) -> Result<Option<StoredEntry>, Fault> {
        let before = self.entries.get(&key).cloned();
        if let (Some(before), Some(new)) = (&before, &new)
            && (before.action, &before.params) == (new.action, &new.params)
        {
            // The pipeline does not have the metadata.
            self.entries.insert(key, new.clone());
            return Ok(Some(before.clone()));
        }
        if let Some(before) = &before {
            core.pipeline().delete(&entry(&key, before))?;
        }
        if let Some(new) = &new
            && let Err(error) = core.pipeline().insert(&entry(&key, new))
        {
            // The old entry fits, as it was just removed.
            if let Some(before) = &before
                && core.pipeline().insert(&entry(&key, before)).is_err()
            {
                self.entries.remove(&key);
            }
            return Err(error.into());
        }
        match new {
            Some(new) => drop(self.entries.insert(key, new)),
            None => drop(self.entries.remove(&key)),
        }
        Ok(before)
    }

    fn group(&mut self, core: &mut Core, kind: UpdateType, id: u16, group: Group) -> Result<Undo, Fault> {
        let there = self.groups.contains_key(&id);
        match kind {
            UpdateType::Insert if there => {
                return Err(Fault::new(Code::AlreadyExists, format!("multicast group {id} exists already")));
            }
            UpdateType::Modify | UpdateType::Delete if !there => {
                return Err(Fault::not_found(format!("there is no multicast group {id}")));
            }
            _ => {}
        }
        let new = (kind != UpdateType::Delete).then_some(group);
        Ok(Undo::Group(id, self.put_group(core, id, new)?))
    }

    fn put_group(&mut self, core: &mut Core, id: u16, new: Option<Group>) -> Result<Option<Group>, Fault> {
        core.set_group(id, new.as_ref().map_or(&[], |group| &group.replicas))?;
        Ok(match new {
            Some(new) => self.groups.insert(id, new),
            None => self.groups.remove(&id),
        })
    }
}

fn aborted(message: &str) -> Fault {
    Fault::new(Code::Aborted, message)
}

fn entry(key: &Key, held: &StoredEntry) -> TableEntry {
    TableEntry {
        table: key.table,
        matches: key.matches.clone(),
        priority: key.priority,
        action: held.action,
        params: held.params.clone(),
    }
}

/// Overwrites one cell of a register entry and returns the old value.
fn swap(core: &mut Core, cells: &Cells, index: usize, value: u32) -> Result<u32, Fault> {
    let absent = || Fault::new(Code::OutOfRange, "no such register cell");
    let mut values = Vec::new();
    let there = core.pipeline().read_register(&cells.name, index, &mut values);
    let place = values.get_mut(cells.cell.cell).filter(|_| there).ok_or_else(absent)?;
    let before = std::mem::replace(place, value);
    if core.pipeline().write_register(&cells.name, index, &values) { Ok(before) } else { Err(absent()) }
}
