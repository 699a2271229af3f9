//! Match-action tables: tuple-space search over packed keys.
//!
//! Entries that share a mask share a hash map; maps are searched from the highest priority down and the search ends as
//! soon as no later map can win. A packet that matches an admitting entry costs one hash of the key.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use netfold_p4::entry::{self, EntryError, KeyField, TableEntry};

/// A key field of a generated table.
#[derive(Debug)]
pub struct KeyInfo {
    /// Match field id.
    pub id: u32,
    /// Width.
    pub bits: u32,
    /// Word of the packed key.
    pub word: usize,
    /// Shift within the word.
    pub shift: u32,
    /// Whether the match is exact.
    pub exact: bool,
}

/// An action of a generated table.
#[derive(Debug)]
pub struct ActionInfo {
    /// P4Info id.
    pub id: u32,
    /// Name.
    pub name: &'static str,
    /// Width of each parameter.
    pub params: &'static [u32],
}

/// A generated table.
#[derive(Debug)]
pub struct TableInfo {
    /// P4Info id.
    pub id: u32,
    /// Name.
    pub name: &'static str,
    /// Maximum number of entries.
    pub size: usize,
    /// Key fields.
    pub keys: &'static [KeyInfo],
    /// Actions.
    pub actions: &'static [ActionInfo],
}

/// A packed key or mask. Hashed word by word: the hash of an array would be that of its bytes, which costs more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Packed<const W: usize>([u64; W]);

impl<const W: usize> Hash for Packed<W> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0 {
            state.write_u64(word);
        }
    }
}

/// Entries with one mask.
struct Group<const W: usize, A> {
    mask: Packed<W>,
    /// The highest of `priorities`.
    priority_max: i32,
    /// Entries of each priority, so that a deletion among thousands of entries need not look at them.
    priorities: BTreeMap<i32, usize>,
    entries: HashMap<Packed<W>, Ranked<A>, FixedState>,
}

impl<const W: usize, A> Group<W, A> {
    fn new(mask: Packed<W>) -> Self {
        Self { mask, priority_max: i32::MIN, priorities: BTreeMap::new(), entries: HashMap::default() }
    }

    /// Counts an entry that was added; whether the highest priority has changed.
    fn count(&mut self, priority: i32) -> bool {
        *self.priorities.entry(priority).or_default() += 1;
        self.update_max()
    }

    /// The same of an entry that was removed.
    fn discount(&mut self, priority: i32) -> bool {
        if let Some(count) = self.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&priority);
            }
        }
        self.update_max()
    }

    fn update_max(&mut self) -> bool {
        let max = self.priorities.last_key_value().map_or(i32::MIN, |(priority, _)| *priority);
        std::mem::replace(&mut self.priority_max, max) != max
    }
}

/// Entries with one masked key, by priority. The best lies in the map itself: a lookup follows no pointer.
struct Ranked<A> {
    best: (i32, A),
    rest: Vec<(i32, A)>,
}

impl<A: Copy> Ranked<A> {
    fn priorities(&self) -> impl Iterator<Item = i32> {
        std::iter::once(self.best.0).chain(self.rest.iter().map(|(priority, _)| *priority))
    }

    fn insert(&mut self, new: (i32, A)) {
        let other = if new.0 > self.best.0 { std::mem::replace(&mut self.best, new) } else { new };
        let at = self.rest.partition_point(|(priority, _)| *priority > other.0);
        self.rest.insert(at, other);
    }

    /// Removes one of several entries.
    fn remove(&mut self, priority: i32) {
        if self.best.0 == priority {
            self.best = self.rest.remove(0);
        } else {
            self.rest.retain(|(other, _)| *other != priority);
        }
    }
}

/// A table whose packed keys have `W` words.
pub struct Table<const W: usize, A> {
    info: &'static TableInfo,
    default: A,
    len: usize,
    groups: Vec<Group<W, A>>,
}

impl<const W: usize, A: Copy> Table<W, A> {
    /// An empty table.
    pub fn new(info: &'static TableInfo, default: A) -> Self {
        Self { info, default, len: 0, groups: Vec::new() }
    }

    /// The action of the best matching entry, or the default.
    #[inline]
    pub fn lookup(&self, key: &[u64; W]) -> &A {
        let mut best = (i32::MIN, &self.default);
        for group in &self.groups {
            if group.priority_max <= best.0 {
                break;
            }
            let mut masked = Packed(*key);
            for (word, mask) in masked.0.iter_mut().zip(&group.mask.0) {
                *word &= mask;
            }
            if let Some(Ranked { best: (priority, action), .. }) = group.entries.get(&masked)
                && *priority > best.0
            {
                best = (*priority, action);
            }
        }
        best.1
    }

    /// Adds an entry; `make` turns a known action id and its checked parameters into the action.
    ///
    /// # Errors
    ///
    /// See [`EntryError`]; the table is unchanged.
    pub fn insert(
        &mut self,
        entry: &TableEntry,
        make: impl FnOnce(u32, &[u64]) -> A,
    ) -> Result<(), EntryError> {
        let (value, mask) = self.key(entry)?;
        self.check_action(entry)?;
        if self.len >= self.info.size {
            return Err(EntryError::Full(self.info.size));
        }
        let found = self.groups.iter().position(|group| group.mask == mask);
        if let Some(same) = found.and_then(|at| self.groups[at].entries.get(&value))
            && same.priorities().any(|priority| priority == entry.priority)
        {
            return Err(EntryError::Exists);
        }
        let at = found.unwrap_or_else(|| {
            self.groups.push(Group::new(mask));
            self.groups.len() - 1
        });
        let action = make(entry.action, &entry.params);
        let new = (entry.priority, action);
        match self.groups[at].entries.entry(value) {
            Entry::Vacant(place) => drop(place.insert(Ranked { best: new, rest: Vec::new() })),
            Entry::Occupied(mut same) => same.get_mut().insert(new),
        }
        self.len += 1;
        if self.groups[at].count(entry.priority) {
            self.order();
        }
        Ok(())
    }

    /// Removes the entry with this key and priority.
    ///
    /// # Errors
    ///
    /// [`EntryError::NotFound`], or what is wrong with the key.
    pub fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (value, mask) = self.key(entry)?;
        let at = self.groups.iter().position(|group| group.mask == mask).ok_or(EntryError::NotFound)?;
        let group = &mut self.groups[at];
        let Entry::Occupied(mut same) = group.entries.entry(value) else { return Err(EntryError::NotFound) };
        if !same.get().priorities().any(|priority| priority == entry.priority) {
            return Err(EntryError::NotFound);
        }
        if same.get().rest.is_empty() {
            same.remove();
        } else {
            same.get_mut().remove(entry.priority);
        }
        self.len -= 1;
        if group.discount(entry.priority) {
            self.order();
        }
        Ok(())
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops empty groups and sorts the others.
    fn order(&mut self) {
        self.groups.retain(|group| !group.entries.is_empty());
        self.groups.sort_by_key(|group| std::cmp::Reverse(group.priority_max));
    }

    fn key(&self, entry: &TableEntry) -> Result<(Packed<W>, Packed<W>), EntryError> {
        let keys = self.info.keys;
        let (mut value, mut mask) = ([0; W], [0; W]);
        let fields = keys.iter().map(|key| KeyField { id: key.id, bits: key.bits, exact: key.exact });
        entry::check_key(fields, entry, |at, field| {
            value[keys[at].word] |= field.value << keys[at].shift;
            mask[keys[at].word] |= field.mask << keys[at].shift;
        })?;
        Ok((Packed(value), Packed(mask)))
    }

    fn check_action(&self, entry: &TableEntry) -> Result<(), EntryError> {
        let unknown = EntryError::Action { action: entry.action, table: self.info.id };
        let action = self.info.actions.iter().find(|action| action.id == entry.action).ok_or(unknown)?;
        entry::check_params(action.params.iter().copied(), &entry.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_p4::entry::FieldMatch;
    use proptest::prelude::*;

    static INFO: TableInfo = TableInfo {
        id: 1,
        name: "t",
        size: 64,
        keys: &[
            KeyInfo { id: 1, bits: 4, word: 0, shift: 60, exact: false },
            KeyInfo { id: 2, bits: 4, word: 0, shift: 56, exact: false },
        ],
        actions: &[ActionInfo { id: 7, name: "a", params: &[8] }],
    };

    fn entry(a: (u64, u64), b: (u64, u64), priority: i32, param: u64) -> TableEntry {
        let field = |field, (value, mask): (u64, u64)| FieldMatch { field, value: value & mask, mask };
        let matches = [(1, a), (2, b)].into_iter().filter(|(_, (_, mask))| *mask != 0);
        let matches = matches.map(|(id, pair)| field(id, pair)).collect();
        TableEntry { table: 1, matches, priority, action: 7, params: vec![param] }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut table = Table::<1, u64>::new(&INFO, 0);
        let make = |_, params: &[u64]| params[0];
        let good = entry((1, 15), (0, 0), 5, 1);
        let with = |change: fn(&mut TableEntry)| {
            let mut entry = good.clone();
            change(&mut entry);
            entry
        };
        assert_eq!(table.insert(&with(|e| e.matches[0].field = 9), make), Err(EntryError::Field(9)));
        assert_eq!(table.insert(&with(|e| e.matches[0].value = 16), make), Err(EntryError::Field(1)));
        assert_eq!(table.insert(&with(|e| e.matches[0].mask = 0), make), Err(EntryError::Field(1)));
        assert_eq!(table.insert(&with(|e| e.matches.push(e.matches[0])), make), Err(EntryError::Field(1)));
        assert_eq!(table.insert(&with(|e| e.priority = 0), make), Err(EntryError::Priority(0)));
        assert_eq!(table.insert(&with(|e| e.params[0] = 256), make), Err(EntryError::Param(0)));
        assert_eq!(table.insert(&with(|e| e.params.clear()), make), Err(EntryError::Param(0)));
        let action = EntryError::Action { action: 8, table: 1 };
        assert_eq!(table.insert(&with(|e| e.action = 8), make), Err(action));
        assert!(table.is_empty());
        assert_eq!(table.delete(&good), Err(EntryError::NotFound));
        assert_eq!(table.insert(&good, make), Ok(()));
        assert_eq!(table.insert(&good, make), Err(EntryError::Exists));
        assert_eq!(table.delete(&good), Ok(()));
        assert!(table.is_empty());
    }

    /// Compares lookups of every `step`th key with a linear search.
    fn check(table: &Table<1, u64>, model: &[TableEntry], step: usize) -> Result<(), TestCaseError> {
        for key in (0u64..256).step_by(step) {
            let fields = [key >> 4, key & 15];
            let hit =
                |e: &&TableEntry| e.matches.iter().all(|m| fields[m.field as usize - 1] & m.mask == m.value);
            let best = model.iter().filter(hit).map(|e| e.priority).max();
            let found = *table.lookup(&[key << 56]);
            let is_best = |e: &TableEntry| Some(e.priority) == best && e.params[0] == found;
            let right = if best.is_none() { found == 0 } else { model.iter().filter(hit).any(is_best) };
            prop_assert!(right, "key {key}: {found}");
        }
        Ok(())
    }

    proptest! {
        /// The table agrees with a linear search over the same entries, after each insertion and each deletion.
        #[test]
        fn agrees_with_linear_search(
            entries in proptest::collection::vec(((0u64..16, 0u64..16), (0u64..16, 0u64..16), 1i32..6, 1u64..200), 1..40),
            removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut table = Table::<1, u64>::new(&INFO, 0);
            let mut model: Vec<TableEntry> = Vec::new();
            for (a, b, priority, param) in entries {
                let entry = entry(a, b, priority, param);
                if table.insert(&entry, |_, params| params[0]).is_ok() {
                    model.push(entry);
                }
                check(&table, &model, 13)?;
            }
            for index in removed {
                if !model.is_empty() {
                    let entry = model.remove(index.index(model.len()));
                    prop_assert_eq!(table.delete(&entry), Ok(()));
                }
                check(&table, &model, 13)?;
            }
            prop_assert_eq!(table.len(), model.len());
            check(&table, &model, 1)?;
        }
    }
}
