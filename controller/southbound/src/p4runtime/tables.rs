//! Changes of a switch's tables and multicast groups that either succeed or are rolled back.

use std::sync::Arc;

use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::schema::encode_replica;
use netfold_p4_runtime::{Schema, v1};
use v1::{EntityKind, Replication, UpdateType};

use super::client::Client;
use super::error::{P4RuntimeError, UpdateFailure};

/// A switch's tables, by a client that is its primary and has pushed the pipeline.
pub(super) struct Tables {
    pub(super) client: Client,
    pub(super) schema: Arc<Schema>,
    /// Entries that may be there although they should not: undoing a change failed. They go before anything else.
    debris: Vec<TableEntry>,
}

impl Tables {
    pub(super) fn new(client: Client, schema: Arc<Schema>) -> Self {
        Self { client, schema, debris: Vec::new() }
    }

    /// Adds all entries or none.
    pub(super) fn insert(&mut self, entries: &[TableEntry]) -> Result<(), P4RuntimeError> {
        self.clear_debris()?;
        let updates = self.updates(entries, UpdateType::Insert)?;
        let Err(error) = self.client.write(updates) else { return Ok(()) };
        let failed: &[UpdateFailure] = match &error {
            P4RuntimeError::Write { failed, .. } => failed,
            error if error.is_ambiguous() => &[],
            // Refused as a whole; earlier batches may have been done.
            _ => &[],
        };
        let done = entries.iter().enumerate().filter(|(i, _)| !failed.iter().any(|f| f.index == *i));
        self.debris = done.map(|(_, entry)| entry.clone()).collect();
        // If this fails too, the debris stays on the list.
        let _ = self.clear_debris();
        Err(error)
    }

    /// Removes all entries or none. Entries that are not there count as removed: an earlier attempt was half done.
    pub(super) fn delete(&mut self, entries: &[TableEntry]) -> Result<(), P4RuntimeError> {
        self.clear_debris()?;
        let Some((error, undeleted)) = self.delete_once(entries)? else { return Ok(()) };
        // A second attempt, since most failures pass; then back to what was.
        match self.delete_once(&undeleted) {
            Ok(None) => Ok(()),
            second => {
                let left = match second {
                    Ok(Some((_, left))) => left,
                    _ => undeleted,
                };
                let gone: Vec<_> = entries.iter().filter(|entry| !left.contains(entry)).cloned().collect();
                let restored = self.updates(&gone, UpdateType::Insert)?;
                // An entry that cannot be restored stays deleted, which the caller requested anyway.
                let _ = self.client.write(restored);
                Err(error)
            }
        }
    }

    /// Tries to remove entries; returns those that are still there, with the error that is the reason.
    fn delete_once(
        &self,
        entries: &[TableEntry],
    ) -> Result<Option<(P4RuntimeError, Vec<TableEntry>)>, P4RuntimeError> {
        match self.client.write(self.updates(entries, UpdateType::Delete)?) {
            Ok(()) => Ok(None),
            Err(P4RuntimeError::Write { switch, updates, mut failed }) => {
                failed.retain(|failure| failure.code != Code::NotFound);
                if failed.is_empty() {
                    return Ok(None);
                }
                let left = failed.iter().filter_map(|failure| entries.get(failure.index).cloned()).collect();
                Ok(Some((P4RuntimeError::Write { switch, updates, failed }, left)))
            }
            Err(error) => Ok(Some((error, entries.to_vec()))),
        }
    }

    /// Adds or replaces entries of a table without priorities, one by one; no undoing.
    pub(super) fn modify(&mut self, entries: &[TableEntry]) -> Result<(), P4RuntimeError> {
        let updates = self.updates(entries, UpdateType::Modify)?;
        self.client.write(updates)
    }

    fn clear_debris(&mut self) -> Result<(), P4RuntimeError> {
        if self.debris.is_empty() {
            return Ok(());
        }
        if let Some((error, left)) = self.delete_once(&self.debris)? {
            self.debris = left;
            return Err(error);
        }
        self.debris.clear();
        Ok(())
    }

    fn updates(&self, entries: &[TableEntry], kind: UpdateType) -> Result<Vec<v1::Update>, P4RuntimeError> {
        let encode = |entry| match kind {
            UpdateType::Delete => self.schema.encode_key(entry),
            _ => self.schema.encode(entry),
        };
        let updates = entries.iter().map(|entry| Ok(update(kind, EntityKind::TableEntry(encode(entry)?))));
        updates
            .collect::<Result<_, _>>()
            .map_err(|source| P4RuntimeError::Schema { switch: self.client.name().to_owned(), source })
    }

    /// Creates a group, or replaces the copies of one that `exists`.
    ///
    /// A group is never created over one that may exist: bmv2 adds to that one instead, and every copy comes twice.
    pub(super) fn set_group(
        &mut self,
        group: u16,
        replicas: &[Replica],
        exists: bool,
    ) -> Result<(), P4RuntimeError> {
        let kind = if exists { UpdateType::Modify } else { UpdateType::Insert };
        self.client.write(vec![update(kind, group_entity(group, replicas))])
    }

    /// Removes a group; one that is not there counts as removed.
    pub(super) fn delete_group(&mut self, group: u16) -> Result<(), P4RuntimeError> {
        match self.client.write(vec![update(UpdateType::Delete, group_entity(group, &[]))]) {
            Err(P4RuntimeError::Write { failed, .. }) if failed.iter().all(|f| f.code == Code::NotFound) => {
                Ok(())
            }
            other => other,
        }
    }
}

/// The multicast groups of a switch that has a pipeline.
pub(super) fn groups(client: &Client) -> Result<Vec<v1::MulticastGroupEntry>, P4RuntimeError> {
    let found = client.read(vec![group_entity(0, &[])])?;
    let groups = found.into_iter().filter_map(|entity| match entity {
        EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(group)),
        }) => Some(group),
        _ => None,
    });
    Ok(groups.collect())
}

pub(super) fn group_update(kind: UpdateType, group: v1::MulticastGroupEntry) -> v1::Update {
    let r#type = Some(Replication::MulticastGroupEntry(group));
    update(kind, EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type }))
}

fn update(kind: UpdateType, entity: EntityKind) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(entity.into()) }
}

fn group_entity(group: u16, replicas: &[Replica]) -> EntityKind {
    let group = v1::MulticastGroupEntry {
        multicast_group_id: u32::from(group),
        replicas: replicas.iter().map(encode_replica).collect(),
        metadata: Vec::new(),
    };
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}
