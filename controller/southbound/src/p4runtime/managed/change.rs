//! The calls that change something: done, or as if they had not been made.

use std::net::SocketAddr;

use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4_runtime::state::{Key, group_entity, update};
use netfold_p4_runtime::v1::{self, EntityKind, UpdateType};
use netfold_wire::JobKeys;

use super::super::driver::refused;
use super::super::error::P4RuntimeError;
use super::super::peers::{Attachment, PortError};
use super::desired::{Bound, port_error};
use super::keeper::{Failure, Keeper, describe};
use super::ports;
use super::session::Session;
use netfold_controller::driver::DriverError;

impl Keeper {
    pub(super) async fn bind(
        &mut self,
        session: &Session,
        port: u16,
        (peer, udp_ports): (SocketAddr, u8),
    ) -> Result<(), Failure> {
        let known = self.known(port, peer)?;
        let at = match known {
            Some(at) => at,
            None => ports::attach(session, (peer, udp_ports), None).await?,
        };
        if at.port == self.desired.cpu_port {
            return Err(port_error(port, PortError::Reserved(at.port)).into());
        }
        self.desired.ports.insert(port, Bound { peer, udp_ports, at: Some(at), keys: None });
        Ok(())
    }

    pub(super) async fn authenticate(
        &mut self,
        session: &Session,
        port: u16,
        keys: JobKeys,
    ) -> Result<(), Failure> {
        let unbound = || port_error(port, PortError::Unbound);
        if !self.limits.authenticates {
            return Err(port_error(port, PortError::Plain).into());
        }
        let bound = self.desired.ports.get(&port).ok_or_else(unbound)?;
        ports::attach(session, (bound.peer, bound.udp_ports), Some(&keys)).await?;
        let bound = self.desired.ports.get_mut(&port).ok_or_else(unbound)?;
        bound.keys = Some(keys);
        Ok(())
    }

    pub(super) async fn unbind(&mut self, session: &Session, port: u16) -> Result<(), Failure> {
        let Some(bound) = self.desired.ports.get(&port).cloned() else { return Ok(()) };
        let elsewhere = |(other, held): (&u16, &Bound)| *other != port && held.peer == bound.peer;
        let shared = self.desired.ports.iter().any(elsewhere);
        // Of a port that others need, the keys of this job alone are taken away.
        let keys_of = bound.keys.as_ref().filter(|_| shared);
        if matches!(self.config.attachment, Attachment::Attached) && (!shared || keys_of.is_some()) {
            match ports::detach(session, bound.peer, keys_of.map(|keys| (keys.job, keys.epoch))).await {
                // Given to the switch when it was started; it stays.
                Ok(()) | Err(P4RuntimeError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.desired.ports.remove(&port);
        Ok(())
    }

    pub(super) async fn insert(
        &mut self,
        session: &Session,
        entries: Vec<TableEntry>,
    ) -> Result<(), Failure> {
        let mut updates = Vec::with_capacity(entries.len());
        for entry in &entries {
            if self.desired.entries.contains_key(&Key::of(entry)) {
                return Err(DriverError::from(EntryError::Exists).into());
            }
            updates.push(self.entry(UpdateType::Insert, &self.desired.placed(entry)?)?);
        }
        self.write(session, vec![updates]).await?;
        self.desired.entries.extend(entries.into_iter().map(|entry| (Key::of(&entry), entry)));
        Ok(())
    }

    pub(super) async fn delete(
        &mut self,
        session: &Session,
        entries: Vec<TableEntry>,
    ) -> Result<(), Failure> {
        let mut updates = Vec::with_capacity(entries.len());
        for held in entries.iter().filter_map(|entry| self.desired.entries.get(&Key::of(entry))) {
            updates.push(self.entry(UpdateType::Delete, &self.desired.placed(held)?)?);
        }
        self.write(session, vec![updates]).await?;
        self.desired.drop_entries(&entries);
        Ok(())
    }

    pub(super) async fn set_group(
        &mut self,
        session: &Session,
        group: u16,
        replicas: Vec<Replica>,
    ) -> Result<(), Failure> {
        self.desired.check_group(group, &replicas)?;
        let before = self.desired.groups.get(&group);
        let old = before.map(|before| self.desired.placed_group(before)).transpose()?;
        let (new, addresses) = self.desired.placed_group(&replicas)?;
        let (exists, same) = (old.is_some(), old.as_ref().is_some_and(|(old, _)| *old == new));
        let old_addresses = old.map(|(_, addresses)| addresses).unwrap_or_default();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for entry in &addresses {
            match old_addresses.iter().find(|old| old.matches == entry.matches) {
                Some(old) if old == entry => {}
                Some(_) => first.push(self.entry(UpdateType::Modify, entry)?),
                None => first.push(self.entry(UpdateType::Insert, entry)?),
            }
        }
        // An address too many does no harm; one too few would.
        for old in &old_addresses {
            if !addresses.iter().any(|entry| entry.matches == old.matches) {
                last.push(self.entry(UpdateType::Delete, old)?);
            }
        }
        let kind = if exists { UpdateType::Modify } else { UpdateType::Insert };
        let change = update(kind, group_entity(group, &new));
        let steps = vec![first, if same { Vec::new() } else { vec![change] }, last];
        if !same {
            self.doubtful.insert(group);
        }
        self.write(session, steps).await?;
        self.doubtful.remove(&group);
        self.desired.groups.insert(group, replicas);
        Ok(())
    }

    pub(super) async fn delete_group(&mut self, session: &Session, group: u16) -> Result<(), Failure> {
        let Some(held) = self.desired.groups.get(&group) else { return Ok(()) };
        let (_, addresses) = self.desired.placed_group(held)?;
        let gone: Result<Vec<_>, Failure> =
            addresses.iter().map(|entry| self.entry(UpdateType::Delete, entry)).collect();
        let delete = update(UpdateType::Delete, group_entity(group, &[]));
        self.doubtful.insert(group);
        self.write(session, vec![vec![delete], gone?]).await?;
        self.doubtful.remove(&group);
        self.desired.groups.remove(&group);
        Ok(())
    }

    /// An entry, by the switch's ports, as an update.
    fn entry(&self, kind: UpdateType, entry: &TableEntry) -> Result<v1::Update, Failure> {
        let schema = &self.pipeline.schema;
        let encoded = match kind {
            UpdateType::Delete => schema.encode_key(entry),
            _ => schema.encode(entry),
        };
        let failed = |source| P4RuntimeError::Schema { switch: self.shared.name.clone(), source };
        Ok(update(kind, EntityKind::TableEntry(encoded.map_err(failed)?)))
    }

    /// Writes; when something fails, has the switch hold again what was asked for before.
    async fn write(&mut self, session: &Session, steps: Vec<Vec<v1::Update>>) -> Result<(), Failure> {
        let Err(error) = session.write(steps, Some(&self.pipeline)).await else { return Ok(()) };
        if error.is_ambiguous() {
            return Err(error.into());
        }
        let lost = match self.reconcile(session, None).await {
            Ok(_) => None,
            Err(failure) => Some(describe(&failure)),
        };
        Err(Failure { error: refused(error), lost })
    }
}
