//! A switch that checks every call of the control plane and can be made to fail.

use netfold_control::PathToken;
use netfold_controller::driver::{DriverError, HeldEntity, Limits, SlotState, SwitchDriver};
use netfold_p4::allreduce::id;
use netfold_p4::entry::{EntryError, FieldMatch, Replica, TableEntry};
use netfold_p4::p4info;
use netfold_wire::{JobKeys, Kind, serial};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

/// The state of the fake, shared between its driver and the test.
pub(crate) struct Switch {
    pub(crate) limits: Limits,
    pub(crate) ports: BTreeMap<u16, SocketAddr>,
    /// How many UDP ports the peers of ports have.
    pub(crate) udp_ports: BTreeMap<u16, u8>,
    /// Of authenticated jobs, by port.
    pub(crate) keys: BTreeMap<u16, JobKeys>,
    pub(crate) groups: BTreeMap<u16, Vec<Replica>>,
    pub(crate) entries: Vec<TableEntry>,
    /// Stored chunk of every (slot, set).
    pub(crate) chunks: Vec<[u32; 2]>,
    /// From which children a (slot, set) has received its chunk; from none where there is no entry.
    pub(crate) seen: BTreeMap<(u32, u8), u32>,
    /// Slots that were read, without those of calls that failed.
    pub(crate) slots_read: u32,
    /// What was released of slots that jobs share: first slot, number of slots, epoch.
    pub(crate) released: Vec<(u32, u32, u32)>,
    /// Contributions that were spilled, by group.
    pub(crate) spilled: BTreeMap<u16, u64>,
    /// Calls so far that change or ask something.
    pub(crate) calls: usize,
    /// Calls by number that fail.
    pub(crate) failing: Box<dyn FnMut(usize) -> bool + Send>,
    /// The next call waits until the other end of this is dropped.
    pub(crate) gate: Option<mpsc::Receiver<()>>,
}

/// The contents of an entry that admits data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admits {
    pub(crate) port: u16,
    pub(crate) job: u16,
    pub(crate) epoch: u32,
    pub(crate) key: u32,
    pub(crate) first: u32,
    pub(crate) slots: u32,
    pub(crate) bit: u32,
    pub(crate) others: u32,
    pub(crate) world: u16,
    pub(crate) group: u16,
    /// Whether it uses slots that jobs share.
    pub(crate) shared: bool,
}

pub(crate) fn admits(entry: &TableEntry) -> Option<Admits> {
    let [own, shared, named] = [id::ADMIT, id::ADMIT_SHARED, id::ADMIT_NAMED].map(p4info::action_id);
    if entry.table != p4info::table_id(id::JOB) || ![own, shared, named].contains(&entry.action) {
        return None;
    }
    // An aggregator's has the bits of all children, and no others.
    let mut params = entry.params.clone();
    if entry.action == named {
        params.insert(2, 0);
    }
    let field = |number: u32| entry.matches.iter().find(|m| m.field == number);
    let value = |number: u32| field(number).map_or(0, |m| m.value);
    if value(id::key::KIND) != Kind::Data as u64 {
        // A CLOSE: it speaks for all children.
        return None;
    }
    Some(Admits {
        port: value(id::key::PORT) as u16,
        job: value(id::key::JOB) as u16,
        epoch: value(id::key::EPOCH) as u32,
        key: value(id::key::KEY) as u32,
        first: params[0] as u32 / 2,
        slots: (!field(id::key::SLOT).map_or(0, |m| m.mask) as u32 & 0x7fff) + 1,
        bit: params[1] as u32,
        others: params[2] as u32,
        world: params[3] as u16,
        group: params[4] as u16,
        shared: entry.action == shared,
    })
}

impl Switch {
    /// The token that packets from a peer are answered with.
    pub(crate) fn path_token(&self, peer: SocketAddr) -> Option<PathToken> {
        let port = self.ports.iter().find(|(_, bound)| **bound == peer)?.0;
        let entry = self.entries.iter().find(|entry| {
            let from = |field: &FieldMatch| field.field == id::key::PORT && field.value == u64::from(*port);
            entry.action == p4info::action_id(id::CHALLENGE) && entry.matches.iter().any(from)
        })?;
        Some(PathToken(entry.params[0] << 32 | entry.params[1]))
    }

    /// The contents of all admitting entries.
    pub(crate) fn admitted(&self) -> Vec<Admits> {
        self.entries.iter().filter_map(admits).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.keys.is_empty() && self.groups.is_empty() && self.entries.is_empty()
    }

    /// Removes all that is not in `held`, as a driver does that finds it.
    pub(crate) fn keep_only(&mut self, held: &[HeldEntity]) {
        let ports = |port: &u16| {
            held.iter().any(|held| matches!(held, HeldEntity::Port { port: p, .. } if p == port))
        };
        let groups = |group: &u16| {
            held.iter().any(|held| matches!(held, HeldEntity::Group { group: g, .. } if g == group))
        };
        let entries = |entry: &TableEntry| {
            held.iter().any(|held| matches!(held, HeldEntity::Entries(entries) if entries.contains(entry)))
        };
        self.ports.retain(|port, _| ports(port));
        self.keys.retain(|port, _| ports(port));
        self.groups.retain(|group, _| groups(group));
        self.entries.retain(entries);
        let wanted = held.iter().map(|held| match held {
            HeldEntity::Entries(entries) => entries.len(),
            _ => 0,
        });
        assert_eq!(self.entries.len(), wanted.sum::<usize>(), "what is to be held is held");
    }

    fn call(&mut self) -> Result<(), DriverError> {
        self.calls += 1;
        match (self.failing)(self.calls) {
            true => Err(EntryError::Full(0).into()),
            false => Ok(()),
        }
    }

    fn check_entry(&self, entry: &TableEntry) {
        let key = |e: &TableEntry| (e.table, e.matches.clone(), e.priority);
        assert!(!self.entries.iter().any(|other| key(other) == key(entry)), "inserted twice: {entry:?}");
        let Some(new) = admits(entry) else { return };
        assert!(self.ports.contains_key(&new.port), "entry for port {}, which is not bound", new.port);
        assert!(self.groups.contains_key(&new.group), "entry for group {}, which does not exist", new.group);
        assert!(new.key != 0 && new.job != 0 && new.epoch != 0);
        assert_eq!(new.first % new.slots, 0, "unaligned range");
        assert!(new.first + new.slots <= self.limits.slots);
        for old in self.admitted() {
            let apart = new.first + new.slots <= old.first || old.first + old.slots <= new.first;
            match new.job == old.job {
                true => {
                    let same = Admits { port: old.port, bit: old.bit, others: old.others, ..new };
                    assert_eq!(same, old, "members of a job differ");
                    assert_ne!(new.bit, old.bit, "a rank twice");
                }
                false => assert!(
                    (apart || new.shared && old.shared) && new.group != old.group,
                    "jobs {} and {} overlap",
                    new.job,
                    old.job
                ),
            }
        }
    }
}

/// A handle on the fake; the test keeps one and gives another to the control plane.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<Switch>>);

impl Fake {
    pub(crate) fn new(slots: u32, ports_max: u16, groups_max: u16) -> Self {
        let limits = Limits {
            slots,
            lane_words: 352,
            ports_max,
            groups_max,
            entries: u32::MAX,
            udp_port: 20038,
            sees_source: false,
            bounded_loss: true,
            owners: true,
            lane_ops: netfold_wire::LaneOps::ALL,
            multipath: false,
            authenticates: false,
        };
        Self(Arc::new(Mutex::new(Switch {
            limits,
            ports: BTreeMap::new(),
            udp_ports: BTreeMap::new(),
            keys: BTreeMap::new(),
            groups: BTreeMap::new(),
            entries: Vec::new(),
            chunks: vec![[0; 2]; slots as usize],
            seen: BTreeMap::new(),
            slots_read: 0,
            released: Vec::new(),
            spilled: BTreeMap::new(),
            calls: 0,
            failing: Box::new(|_| false),
            gate: None,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().expect("the fake found a wrong call")
    }

    /// The state, for a call.
    fn call(&self) -> Result<MutexGuard<'_, Switch>, DriverError> {
        let gate = self.lock().gate.take();
        if let Some(gate) = gate {
            // An error is what it waits for.
            let _ = gate.recv();
        }
        let mut switch = self.lock();
        switch.call()?;
        Ok(switch)
    }

    pub(crate) fn boxed(&self) -> Box<dyn SwitchDriver> {
        Box::new(self.clone())
    }
}

impl SwitchDriver for Fake {
    fn limits(&self) -> Limits {
        self.lock().limits
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(port < switch.limits.ports_max);
        let is_switch = peer.port() == switch.limits.udp_port;
        assert!(is_switch || !switch.ports.values().any(|other| *other == peer), "{peer} bound twice");
        assert_eq!(switch.ports.insert(port, peer), None, "port {port} bound twice");
        Ok(())
    }

    fn bind_ports(&mut self, port: u16, peer: SocketAddr, udp_ports: u8) -> Result<(), DriverError> {
        self.bind_port(port, peer)?;
        let mut switch = self.lock();
        assert!(udp_ports == 1 || switch.limits.multipath, "{udp_ports} UDP ports of {peer}");
        switch.udp_ports.insert(port, udp_ports);
        Ok(())
    }

    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(switch.limits.authenticates && switch.ports.contains_key(&port), "port {port}");
        assert_eq!(switch.keys.insert(port, keys.clone()), None, "port {port} was given keys twice");
        Ok(())
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        switch.keys.remove(&port);
        assert!(!switch.admitted().iter().any(|entry| entry.port == port), "entries for port {port} remain");
        assert!(!switch.groups.values().flatten().any(|replica| replica.port == port), "a group uses {port}");
        assert!(switch.ports.remove(&port).is_some(), "port {port} was not bound");
        Ok(())
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(!entries.is_empty());
        for entry in entries {
            switch.check_entry(entry);
            switch.entries.push(entry.clone());
        }
        Ok(())
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(!entries.is_empty());
        for entry in entries {
            let at = switch.entries.iter().position(|other| other == entry);
            switch.entries.remove(at.expect("an entry is deleted once"));
        }
        Ok(())
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!((1..=switch.limits.groups_max).contains(&group));
        assert!(!replicas.is_empty());
        assert!(replicas.iter().all(|replica| switch.ports.contains_key(&replica.port)));
        switch.groups.insert(group, replicas.to_vec());
        Ok(())
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(!switch.admitted().iter().any(|entry| entry.group == group), "entries use group {group}");
        assert!(switch.groups.remove(&group).is_some(), "group {group} does not exist");
        Ok(())
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        let mut switch = self.call()?;
        for old in switch.admitted() {
            let apart = first_slot + slots <= old.first || old.first + old.slots <= first_slot;
            assert!(apart, "ADVANCE over slots of job {}, which is admitted", old.job);
        }
        let mut newest = chunk;
        for stored in switch.chunks[first_slot as usize..(first_slot + slots) as usize].iter_mut().flatten() {
            if serial::newer(chunk, *stored) {
                *stored = chunk;
            }
            if stored.wrapping_sub(chunk) > newest.wrapping_sub(chunk) {
                newest = *stored;
            }
        }
        Ok(newest)
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        let mut switch = self.call()?;
        assert!(
            switch.admitted().iter().all(|entry| entry.epoch != epoch),
            "epoch {epoch} is admitted still"
        );
        switch.released.push((first_slot, slots, epoch));
        Ok(())
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        let switch = self.call()?;
        Ok(switch.spilled.get(&group).copied().unwrap_or_default())
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let mut switch = self.call()?;
        switch.slots_read += slots;
        let sets = (first_slot..first_slot + slots).flat_map(|slot| [(slot, 0), (slot, 1)]);
        let state = |(slot, set): (u32, u8)| SlotState {
            slot,
            set,
            chunk: switch.chunks[slot as usize][usize::from(set)],
            seen: switch.seen.get(&(slot, set)).copied().unwrap_or_default(),
        };
        Ok(sets.map(state).collect())
    }
}
