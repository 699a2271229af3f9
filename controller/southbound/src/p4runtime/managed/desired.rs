//! The state of a switch that the control plane desires, and its translation to the switch's own ports.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netfold_p4::allreduce::{Address, child_entry, controller_entry, id};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::p4info::table_id;
use netfold_p4_runtime::state::{Key, State};
use netfold_wire::{JobKeys, Kind};

use super::super::driver::PeerPort;
use super::super::peers::PortError;
use netfold_controller::driver::{DriverError, HeldEntity};

/// A peer at a port of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) peer: SocketAddr,
    /// From how many UDP ports it sends, from its own on.
    pub(crate) udp_ports: u8,
    /// Unknown until the switch has reported the port that it assigned to the peer.
    pub(crate) at: Option<PeerPort>,
    /// The keys of the job that the port is for, if its packets are authenticated.
    pub(crate) keys: Option<JobKeys>,
}

impl Bound {
    /// The peer, and the job whose packets to and from it are authenticated.
    pub(crate) fn keyed(&self) -> Option<(SocketAddr, u16, u32)> {
        self.keys.as_ref().map(|keys| (self.peer, keys.job, keys.epoch))
    }
}

/// Everything asked for and not taken back, by the control plane's ports.
#[derive(Debug)]
pub(crate) struct Desired {
    /// What the switch calls itself in copies that it sends; `None` where the pipeline does not see outer headers.
    from: Option<Address>,
    pub(crate) cpu_port: u16,
    pub(crate) ports: BTreeMap<u16, Bound>,
    pub(crate) entries: BTreeMap<Key, TableEntry>,
    pub(crate) groups: BTreeMap<u16, Vec<Replica>>,
}

impl Desired {
    /// `from` as in the field.
    pub(crate) fn new(from: Option<Address>, cpu_port: u16, held: Vec<HeldEntity>) -> Self {
        let mut desired = Self {
            from,
            cpu_port,
            ports: BTreeMap::new(),
            entries: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for held in held {
            match held {
                HeldEntity::Port { port, peer, udp_ports, keys } => {
                    desired.ports.insert(port, Bound { peer, udp_ports, at: None, keys });
                }
                HeldEntity::Group { group, replicas } => drop(desired.groups.insert(group, replicas)),
                // Nothing of the program's tables.
                HeldEntity::SharedSlots { .. } => {}
                HeldEntity::Entries(entries) => {
                    desired.entries.extend(entries.into_iter().map(|entry| (Key::of(&entry), entry)));
                }
            }
        }
        desired
    }

    /// Whether every port that is named has a peer, and every group's copies are distinguishable.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        let fields = self.entries.values().filter(|entry| entry.table == table_id(id::JOB));
        let fields = fields.flat_map(|entry| &entry.matches).filter(|field| field.field == id::key::PORT);
        let replicas = self.groups.values().flatten();
        let named = fields.map(|field| field.value).chain(replicas.map(|replica| replica.port.into()));
        for port in named {
            let port = u16::try_from(port).map_err(|_| EntryError::Field(id::key::PORT))?;
            if !self.ports.contains_key(&port) {
                return Err(port_error(port, PortError::Unbound));
            }
        }
        self.groups.iter().try_for_each(|(group, replicas)| self.check_group(*group, replicas))
    }

    /// The switch has lost it all, and so have we.
    pub(crate) fn forget(&mut self) {
        self.ports.clear();
        self.entries.clear();
        self.groups.clear();
    }

    /// Entries are not asked for any more.
    pub(crate) fn drop_entries(&mut self, entries: &[TableEntry]) {
        for entry in entries {
            self.entries.remove(&Key::of(entry));
        }
    }

    fn at(&self, port: u16) -> Result<(SocketAddr, PeerPort), DriverError> {
        let bound = self.ports.get(&port).and_then(|bound| Some((bound.peer, bound.at?)));
        bound.ok_or_else(|| port_error(port, PortError::Unbound))
    }

    /// An entry with the switch's port in place of the control plane's.
    pub(crate) fn placed(&self, entry: &TableEntry) -> Result<TableEntry, DriverError> {
        let mut entry = entry.clone();
        if entry.table == table_id(id::JOB) {
            for field in entry.matches.iter_mut().filter(|field| field.field == id::key::PORT) {
                let port = u16::try_from(field.value).map_err(|_| EntryError::Field(field.field))?;
                field.value = u64::from(self.at(port)?.1.port);
            }
        }
        Ok(entry)
    }

    /// Whether the copies of a group are distinguishable: no instance is 0, occurs twice or belongs to another group.
    pub(crate) fn check_group(&self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let others = || self.groups.iter().filter(|(other, _)| **other != group).flat_map(|(_, held)| held);
        for (index, replica) in replicas.iter().enumerate() {
            let same = |other: &Replica| other.instance == replica.instance;
            if replica.instance == 0 || replicas[..index].iter().any(same) || others().any(same) {
                return Err(EntryError::Group(group).into());
            }
        }
        Ok(())
    }

    /// The copies of a group, by the switch's ports, and the entries that address them.
    pub(crate) fn placed_group(
        &self,
        replicas: &[Replica],
    ) -> Result<(Vec<Replica>, Vec<TableEntry>), DriverError> {
        let mut placed = Vec::with_capacity(replicas.len());
        let mut addresses = Vec::with_capacity(replicas.len());
        for replica in replicas {
            let (peer, at) = self.at(replica.port)?;
            placed.push(Replica { port: at.port, instance: replica.instance });
            if let (Some(from), SocketAddr::V4(peer)) = (self.from, peer) {
                let to = Address { mac: at.mac, ip: peer.ip().to_bits(), port: peer.port() };
                addresses.push(child_entry(replica.instance, to, from));
            }
        }
        Ok((placed, addresses))
    }

    /// All that the switch is to hold.
    pub(crate) fn state(&self) -> Result<State, DriverError> {
        let mut state = State::default();
        for kind in [Kind::Advance, Kind::Probe] {
            state.add(controller_entry(self.cpu_port, kind));
        }
        for entry in self.entries.values() {
            state.add(self.placed(entry)?);
        }
        for (group, replicas) in &self.groups {
            let (replicas, addresses) = self.placed_group(replicas)?;
            state.add_group(*group, replicas);
            addresses.into_iter().for_each(|entry| state.add(entry));
        }
        Ok(state)
    }
}

pub(crate) fn port_error(port: u16, problem: PortError) -> DriverError {
    DriverError::Port { port, source: Box::new(problem) }
}
