//! What stands between a controller and one of its switches: the desired state, which a new connection compares with what the switch holds.
//!
//! A model of `netfold-southbound`'s managed switches (`p4runtime::managed`), whose module documentation states the rules.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use netfold_controller::driver::{DriverError, HeldEntity, Limits, SwitchDriver};
use netfold_controller::executor::TaskOutcome;
use netfold_p4::allreduce::id;
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::p4info::table_id;
use netfold_wire::JobKeys;

use super::coroutine::{Coroutine, Yielder};
use super::device::{Device, Held, key, unreachable_switch};

/// A call of a driver.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Bind(u16, SocketAddr),
    Authenticate(u16, JobKeys),
    Unbind(u16),
    Insert(Vec<TableEntry>),
    Delete(Vec<TableEntry>),
    SetGroup(u16, Vec<Replica>),
    DeleteGroup(u16),
    /// First slot, slots, chunk.
    Advance(u32, u32, u32),
    /// First slot, slots, epoch.
    Release(u32, u32, u32),
    /// The multicast group to the aggregator.
    Spilled(u16),
}

/// How a call went; the number is what an advance returns, or the count of what was spilled.
pub(super) type Answer = Result<u32, DriverError>;

/// A task of the switches on its thread: it asks by calls of switches.
pub(super) type TaskThread = Coroutine<(usize, Call), Answer, TaskOutcome>;

/// The thread's side of a task.
pub(super) type TaskYielder = Yielder<(usize, Call), Answer, TaskOutcome>;

thread_local! {
    /// The task that this thread carries out.
    static TASK: RefCell<Option<TaskYielder>> = const { RefCell::new(None) };
}

/// Has the calls of drivers on this thread belong to a task.
pub(super) fn enter(yielder: TaskYielder) {
    TASK.set(Some(yielder));
}

/// A driver, whose calls are carried out by the simulation.
pub(super) struct SimDriver {
    pub(super) switch: usize,
    pub(super) limits: Limits,
}

impl SimDriver {
    fn call(&self, call: Call) -> Answer {
        let answer = TASK.with_borrow(|task| task.as_ref()?.suspend((self.switch, call)));
        answer.unwrap_or_else(|| Err(unreachable_switch("the controller was killed")))
    }
}

impl SwitchDriver for SimDriver {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.call(Call::Bind(port, peer)).map(drop)
    }

    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        self.call(Call::Authenticate(port, keys.clone())).map(drop)
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.call(Call::Unbind(port)).map(drop)
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call(Call::Insert(entries.to_vec())).map(drop)
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call(Call::Delete(entries.to_vec())).map(drop)
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        self.call(Call::SetGroup(group, replicas.to_vec())).map(drop)
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.call(Call::DeleteGroup(group)).map(drop)
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.call(Call::Advance(first_slot, slots, chunk))
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        self.call(Call::Release(first_slot, slots, epoch)).map(drop)
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        self.call(Call::Spilled(group)).map(u64::from)
    }
}

/// A peer, and the keys of the job that its port is for.
#[derive(Debug, Clone)]
struct Bound {
    peer: SocketAddr,
    keys: Option<JobKeys>,
}

impl Bound {
    fn keyed(&self) -> Option<(SocketAddr, u16, u32)> {
        self.keys.as_ref().map(|keys| (self.peer, keys.job, keys.epoch))
    }
}

/// The desired state of a switch, by the control plane's ports, and whether the switch takes calls.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    ports: BTreeMap<u16, Bound>,
    groups: BTreeMap<u16, Vec<Replica>>,
    /// By key.
    entries: BTreeMap<String, TableEntry>,
    /// What was to be released while the switch was down.
    unreleased: Vec<(u32, u32, u32)>,
    pub(super) up: bool,
    /// Which start of the switch was last known.
    pub(super) boot: Option<String>,
    /// Why it was last reported down.
    pub(super) reported: Option<String>,
}

impl Keeper {
    pub(super) fn new(held: Vec<HeldEntity>, boot: Option<String>) -> Self {
        let mut keeper = Self { boot, ..Self::default() };
        for held in held {
            match held {
                HeldEntity::Port { port, peer, keys, .. } => {
                    keeper.ports.insert(port, Bound { peer, keys });
                }
                HeldEntity::Group { group, replicas } => drop(keeper.groups.insert(group, replicas)),
                HeldEntity::SharedSlots { .. } => {}
                HeldEntity::Entries(entries) => keeper.note(&Call::Insert(entries)),
            }
        }
        keeper
    }

    fn note(&mut self, call: &Call) {
        match call {
            Call::Bind(port, peer) => {
                self.ports.insert(*port, Bound { peer: *peer, keys: None });
            }
            Call::Authenticate(port, keys) => {
                self.ports.entry(*port).and_modify(|bound| bound.keys = Some(keys.clone()));
            }
            Call::Unbind(port) => {
                self.ports.remove(port);
            }
            Call::Insert(entries) => {
                self.entries.extend(entries.iter().map(|entry| (key(entry), entry.clone())));
            }
            Call::Delete(entries) => entries.iter().for_each(|entry| drop(self.entries.remove(&key(entry)))),
            Call::SetGroup(group, replicas) => drop(self.groups.insert(*group, replicas.clone())),
            Call::DeleteGroup(group) => drop(self.groups.remove(group)),
            Call::Advance(..) | Call::Release(..) | Call::Spilled(_) => {}
        }
    }

    /// The answer to a call while the switch is down: what is not wanted any more is removed by the comparison that comes before it is up.
    pub(super) fn answer_while_down(&mut self, call: &Call) -> Answer {
        match call {
            Call::Unbind(_) | Call::Delete(_) | Call::DeleteGroup(_) => {
                self.note(call);
                Ok(0)
            }
            Call::Release(first, slots, epoch) => {
                self.unreleased.push((*first, *slots, *epoch));
                Ok(0)
            }
            _ => Err(unreachable_switch("it is not connected")),
        }
    }

    /// Carries out a call on a switch that is up.
    pub(super) fn carry_out(&mut self, device: &mut Device, election: u64, call: &Call) -> Answer {
        device.check_primary(election)?;
        let mut answer = 0;
        match call {
            Call::Bind(_, peer) => {
                device.attach(*peer);
            }
            Call::Authenticate(port, keys) => {
                let bound = self.ports.get(port);
                let bound =
                    bound.ok_or(DriverError::Port { port: *port, source: "it is not bound".into() })?;
                device.authenticate(bound.peer, keys)?;
            }
            Call::Unbind(port) => {
                if let Some(bound) = self.ports.get(port).cloned() {
                    let elsewhere = |(other, held): (&u16, &Bound)| other != port && held.peer == bound.peer;
                    match bound.keyed() {
                        _ if !self.ports.iter().any(elsewhere) => device.detach(bound.peer),
                        Some((peer, job, epoch)) => device.forget_keys(peer, job, epoch),
                        None => {}
                    }
                }
            }
            Call::Insert(entries) => device.insert(&self.placed(device, entries)?)?,
            Call::Delete(entries) => {
                // What a switch has lost is not desired any more.
                let held = entries.iter().filter_map(|entry| self.entries.get(&key(entry)).cloned());
                let held: Vec<_> = held.collect();
                device.delete(&self.placed(device, &held)?)?;
            }
            Call::SetGroup(group, replicas) => {
                let replicas = self.placed_group(device, replicas)?;
                device.set_group(*group, &replicas)?;
            }
            Call::DeleteGroup(group) => device.set_group(*group, &[])?,
            Call::Advance(first, slots, chunk) => answer = device.advance(*first, *slots, *chunk)?,
            Call::Release(first, slots, epoch) => device.release((*first, *slots, *epoch))?,
            Call::Spilled(group) => answer = device.spilled(*group) as u32,
        }
        self.note(call);
        Ok(answer)
    }

    /// The switch's port of a port of the control plane.
    fn at(&self, device: &Device, port: u16) -> Result<u16, DriverError> {
        let at = self.ports.get(&port).and_then(|bound| device.held.ports.get(&bound.peer));
        at.copied().ok_or(DriverError::Port { port, source: "it is not bound".into() })
    }

    fn placed(&self, device: &Device, entries: &[TableEntry]) -> Result<Vec<TableEntry>, DriverError> {
        let place = |entry: &TableEntry| {
            let mut entry = entry.clone();
            if entry.table == table_id(id::JOB) {
                for field in entry.matches.iter_mut().filter(|field| field.field == id::key::PORT) {
                    field.value = u64::from(self.at(device, field.value as u16)?);
                }
            }
            Ok(entry)
        };
        entries.iter().map(place).collect()
    }

    fn placed_group(&self, device: &Device, replicas: &[Replica]) -> Result<Vec<Replica>, DriverError> {
        let place = |replica: &Replica| Ok(Replica { port: self.at(device, replica.port)?, ..*replica });
        replicas.iter().map(place).collect()
    }

    /// Connects as the primary controller and brings the switch into its desired state; whether the switch has lost what its slots held.
    pub(super) fn take_over(&mut self, device: &mut Device) -> Result<bool, DriverError> {
        let boot = Some(device.boot.to_string());
        let emptied = !self.entries.is_empty() && device.held.is_empty();
        let fresh = self.boot.is_some() && self.boot != boot || emptied;
        if fresh {
            (self.ports, self.groups, self.entries) = Default::default();
            self.unreleased.clear();
        }
        self.boot = boot;
        let peers: Vec<SocketAddr> = self.ports.values().map(|bound| bound.peer).collect();
        let gone: Vec<SocketAddr> =
            device.held.ports.keys().filter(|peer| !peers.contains(peer)).copied().collect();
        gone.iter().for_each(|peer| device.detach(*peer));
        for peer in &peers {
            device.attach(*peer);
        }
        let keyed: Vec<_> = self.ports.values().filter_map(Bound::keyed).collect();
        for (peer, job, epoch) in device.held.keys.clone() {
            if !keyed.contains(&(peer, job, epoch)) {
                device.forget_keys(peer, job, epoch);
            }
        }
        for bound in self.ports.values() {
            if let (Some(keys), Some(keyed)) = (&bound.keys, bound.keyed())
                && !device.held.keys.contains(&keyed)
            {
                device.authenticate(bound.peer, keys)?;
            }
        }
        let entries: Vec<TableEntry> = self.entries.values().cloned().collect();
        let mut wanted = Held { ports: device.held.ports.clone(), ..Held::default() };
        for entry in self.placed(device, &entries)? {
            wanted.entries.insert(key(&entry), entry);
        }
        for (group, replicas) in &self.groups {
            wanted.groups.insert(*group, self.placed_group(device, replicas)?);
        }
        let differing = |of: &Held, from: &Held| -> Vec<TableEntry> {
            let other = |(key, entry): &(&String, &TableEntry)| from.entries.get(*key) != Some(entry);
            of.entries.iter().filter(other).map(|(_, entry)| entry.clone()).collect()
        };
        let (removed, inserted) = (differing(&device.held, &wanted), differing(&wanted, &device.held));
        device.delete(&removed)?;
        for left in std::mem::take(&mut self.unreleased) {
            device.release(left)?;
        }
        for group in device.held.groups.keys().copied().collect::<Vec<_>>() {
            if !wanted.groups.contains_key(&group) {
                device.set_group(group, &[])?;
            }
        }
        for (group, replicas) in &wanted.groups {
            device.set_group(*group, replicas)?;
        }
        device.insert(&inserted)?;
        Ok(fresh)
    }
}
