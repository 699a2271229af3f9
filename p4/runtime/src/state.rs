//! What a switch holds, what it should hold, and what must be written to make the one the other. Pure data.

use std::collections::BTreeMap;

use netfold_p4::allreduce::id;
use netfold_p4::entry::{FieldMatch, Replica, TableEntry};
use netfold_p4::p4info::table_id;

use crate::schema::{decode_replica, encode_replica};
use crate::v1::{self, EntityKind, Replication, UpdateType};
use crate::{Schema, SchemaError};

/// The key by which a table identifies an entry: table, key fields in order of their ids, priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    table: u32,
    matches: Vec<FieldMatch>,
    priority: i32,
}

impl Key {
    /// The key of an entry, whose fields may be in any order.
    pub fn of(entry: &TableEntry) -> Self {
        let mut matches = entry.matches.clone();
        matches.sort_unstable();
        Self { table: entry.table, matches, priority: entry.priority }
    }
}

/// Entries by their keys, groups by their ids with copies in order of port and instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Table entries.
    pub entries: BTreeMap<Key, TableEntry>,
    /// Multicast groups.
    pub groups: BTreeMap<u16, Vec<Replica>>,
}

impl State {
    /// Adds an entry, in place of one with the same key.
    pub fn add(&mut self, entry: TableEntry) {
        self.entries.insert(Key::of(&entry), entry);
    }

    /// Adds a group, in place of one with the same id.
    pub fn add_group(&mut self, group: u16, mut replicas: Vec<Replica>) {
        replicas.sort_unstable_by_key(|replica| (replica.port, replica.instance));
        self.groups.insert(group, replicas);
    }
}

/// What was read from a switch.
#[derive(Debug, Default)]
pub struct Observed {
    /// What can be ours.
    pub state: State,
    /// What cannot be ours, as deletions.
    pub foreign: Vec<v1::Update>,
}

impl Observed {
    /// Sorts what a switch has answered to [`patterns`].
    pub fn new(schema: &Schema, entities: Vec<EntityKind>) -> Self {
        let mut observed = Self::default();
        for entity in entities {
            match entity {
                EntityKind::TableEntry(entry) if entry.is_default_action || entry.is_const => {}
                EntityKind::TableEntry(entry) => match schema.decode(&entry) {
                    Ok(entry) => observed.state.add(entry),
                    Err(_) => observed.foreign.push(delete(EntityKind::TableEntry(v1::TableEntry {
                        table_id: entry.table_id,
                        r#match: entry.r#match,
                        priority: entry.priority,
                        ..v1::TableEntry::default()
                    }))),
                },
                EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
                    r#type: Some(Replication::MulticastGroupEntry(group)),
                }) => observed.group(group),
                // Not asked for.
                _ => {}
            }
        }
        observed
    }

    fn group(&mut self, group: v1::MulticastGroupEntry) {
        let replicas: Result<Vec<_>, SchemaError> = group.replicas.iter().map(decode_replica).collect();
        match (u16::try_from(group.multicast_group_id), replicas) {
            (Ok(id), Ok(replicas)) => self.state.add_group(id, replicas),
            _ => {
                let foreign = v1::MulticastGroupEntry { replicas: Vec::new(), metadata: Vec::new(), ..group };
                let r#type = Some(Replication::MulticastGroupEntry(foreign));
                let entity = v1::PacketReplicationEngineEntry { r#type };
                self.foreign.push(delete(EntityKind::PacketReplicationEngineEntry(entity)));
            }
        }
    }

    /// Whether the switch holds nothing at all.
    pub fn is_empty(&self) -> bool {
        self.foreign.is_empty() && self.state.entries.is_empty() && self.state.groups.is_empty()
    }
}

/// What to read of a switch to know all that it holds.
pub fn patterns(schema: &Schema) -> Vec<v1::Entity> {
    let tables = schema
        .tables()
        .map(|table_id| EntityKind::TableEntry(v1::TableEntry { table_id, ..v1::TableEntry::default() }));
    tables.chain([group_entity(0, &[])]).map(v1::Entity::from).collect()
}

/// Updates in steps: each is over before the next begins, since what a later one writes refers to what an earlier one
/// has written, or takes its room.
#[derive(Debug, Default)]
pub struct Changes {
    /// What to write, in order.
    pub steps: Vec<Vec<v1::Update>>,
    /// Groups that are created or changed.
    pub groups: Vec<u16>,
    /// Number of entries and groups that are inserted.
    pub inserted: usize,
    /// Number of those that are deleted.
    pub removed: usize,
    /// Number of those that are modified.
    pub modified: usize,
}

impl Changes {
    /// What makes `observed` equal to `wanted`.
    ///
    /// Job entries go first and come last, so that no packet is admitted to a group that is not there.
    ///
    /// # Errors
    ///
    /// `wanted` has an entry that the pipeline does not have.
    pub fn between(schema: &Schema, observed: Observed, wanted: &State) -> Result<Self, SchemaError> {
        let mut changes = Self { removed: observed.foreign.len(), ..Self::default() };
        let Observed { state, foreign } = observed;
        let mut gone = foreign;
        for (key, entry) in &state.entries {
            if !wanted.entries.contains_key(key) {
                changes.removed += 1;
                gone.push(delete(EntityKind::TableEntry(schema.encode_key(entry)?)));
            }
        }
        for group in state.groups.keys().filter(|group| !wanted.groups.contains_key(group)) {
            changes.removed += 1;
            gone.push(delete(group_entity(*group, &[])));
        }
        let (mut addresses, mut groups, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for (key, entry) in &wanted.entries {
            let kind = match state.entries.get(key) {
                None => UpdateType::Insert,
                Some(there) if (there.action, &there.params) != (entry.action, &entry.params) => {
                    UpdateType::Modify
                }
                Some(_) => continue,
            };
            changes.count(kind);
            let update = update(kind, EntityKind::TableEntry(schema.encode(entry)?));
            if entry.table == table_id(id::JOB) { jobs.push(update) } else { addresses.push(update) }
        }
        for (group, replicas) in &wanted.groups {
            let kind = match state.groups.get(group) {
                None => UpdateType::Insert,
                Some(there) if there != replicas => UpdateType::Modify,
                Some(_) => continue,
            };
            changes.count(kind);
            changes.groups.push(*group);
            groups.push(update(kind, group_entity(*group, replicas)));
        }
        changes.steps = vec![gone, addresses, groups, jobs];
        Ok(changes)
    }

    fn count(&mut self, kind: UpdateType) {
        match kind {
            UpdateType::Insert => self.inserted += 1,
            _ => self.modified += 1,
        }
    }
}

/// An update of one entity.
pub fn update(kind: UpdateType, entity: EntityKind) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(entity.into()) }
}

fn delete(entity: EntityKind) -> v1::Update {
    update(UpdateType::Delete, entity)
}

/// A multicast group as an entity; group 0 stands for all in a read.
pub fn group_entity(group: u16, replicas: &[Replica]) -> EntityKind {
    let group = v1::MulticastGroupEntry {
        multicast_group_id: u32::from(group),
        replicas: replicas.iter().map(encode_replica).collect(),
        metadata: Vec::new(),
    };
    let r#type = Some(Replication::MulticastGroupEntry(group));
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
}

#[cfg(test)]
mod tests {
    use netfold_p4::allreduce::{self, Address, child_entry, controller_entry};
    use netfold_p4::profile::Profile;
    use netfold_wire::Kind;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    const SWITCH: Address = Address { mac: 1, ip: 1, port: 1 };

    fn state() -> impl Strategy<Value = State> {
        let jobs = vec((1_u16..5, any::<bool>()), 0..6);
        let children = vec((1_u16..5, 2_u32..4), 0..6);
        let groups = btree_map(1_u16..4, vec((1_u16..3, 1_u16..3), 0..3), 0..4);
        (jobs, children, groups).prop_map(|(jobs, children, groups)| {
            let mut state = State::default();
            for (port, probes) in jobs {
                state.add(controller_entry(port, if probes { Kind::Probe } else { Kind::Advance }));
            }
            for (instance, ip) in children {
                state.add(child_entry(instance, Address { ip, ..SWITCH }, SWITCH));
            }
            for (group, replicas) in groups {
                let replicas = replicas.into_iter().map(|(port, instance)| Replica { port, instance });
                state.add_group(group, replicas.collect());
            }
            state
        })
    }

    /// Applies an update as a switch does: nothing is inserted twice, and what is modified or deleted is there.
    fn apply(schema: &Schema, state: &mut State, update: v1::Update) {
        let kind = UpdateType::try_from(update.r#type).unwrap();
        let exists = kind != UpdateType::Insert;
        match update.entity.unwrap().entity.unwrap() {
            EntityKind::TableEntry(entry) if kind == UpdateType::Delete => {
                let key = Key::of(&schema.decode_key(&entry).unwrap());
                assert!(state.entries.remove(&key).is_some(), "{key:?}");
            }
            EntityKind::TableEntry(entry) => {
                let entry = schema.decode(&entry).unwrap();
                assert_eq!(state.entries.contains_key(&Key::of(&entry)), exists, "{entry:?}");
                state.add(entry);
            }
            EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
                r#type: Some(Replication::MulticastGroupEntry(group)),
            }) => {
                let id = u16::try_from(group.multicast_group_id).unwrap();
                assert_eq!(state.groups.remove(&id).is_some(), exists, "group {id}");
                if kind != UpdateType::Delete {
                    state.add_group(
                        id,
                        group.replicas.iter().map(|one| decode_replica(one).unwrap()).collect(),
                    );
                }
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn changes_applied_to_what_is_observed_give_what_is_wanted(observed in state(), wanted in state()) {
            let program = allreduce::program(&Profile::hardware()).unwrap();
            let schema = Schema::new(&crate::p4info(&program).unwrap()).unwrap();
            let seen = |state: State| Observed { state, foreign: Vec::new() };
            let changes = Changes::between(&schema, seen(observed.clone()), &wanted).unwrap();
            let count: usize = changes.steps.iter().map(Vec::len).sum();
            prop_assert_eq!(count, changes.inserted + changes.removed + changes.modified);
            let mut state = observed;
            for update in changes.steps.into_iter().flatten() {
                apply(&schema, &mut state, update);
            }
            prop_assert_eq!(&state, &wanted);
            let again = Changes::between(&schema, seen(state), &wanted).unwrap();
            prop_assert!(again.steps.iter().all(Vec::is_empty));
        }
    }
}
