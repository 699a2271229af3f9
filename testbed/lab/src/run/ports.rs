//! A driver of a switch whose ports several plans number for themselves.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netfold_controller::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_p4::allreduce::id;
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::p4info::table_id;
use netfold_p4::profile::Numerics;
use netfold_wire::JobKeys;

/// Has a driver use the switch's own ports in place of those of plans, as drivers over P4Runtime do. A port is bound as long as a plan uses it.
pub(super) struct OwnPorts<D> {
    driver: D,
    /// By the number in plans.
    own: BTreeMap<u16, u16>,
    /// Ports of plans that are bound.
    bound: Vec<u16>,
}

impl<D> OwnPorts<D> {
    pub(super) fn new(driver: D, own: BTreeMap<u16, u16>) -> Self {
        Self { driver, own, bound: Vec::new() }
    }

    fn own(&self, port: u16) -> u16 {
        self.own.get(&port).copied().unwrap_or(port)
    }

    fn is_bound(&self, own: u16) -> bool {
        self.bound.iter().any(|port| self.own(*port) == own)
    }

    fn placed(&self, entries: &[TableEntry]) -> Vec<TableEntry> {
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter(|entry| entry.table == table_id(id::JOB)) {
            for field in entry.matches.iter_mut().filter(|field| field.field == id::key::PORT) {
                field.value = u16::try_from(field.value).map_or(field.value, |port| self.own(port).into());
            }
        }
        entries
    }
}

impl<D: SwitchDriver> SwitchDriver for OwnPorts<D> {
    fn limits(&self) -> Limits {
        self.driver.limits()
    }
    fn numerics(&self) -> Numerics {
        self.driver.numerics()
    }
    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        let own = self.own(port);
        if !self.is_bound(own) {
            self.driver.bind_port(own, peer)?;
        }
        self.bound.push(port);
        Ok(())
    }
    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        self.driver.authenticate(self.own(port), keys)
    }
    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.bound.retain(|bound| *bound != port);
        let own = self.own(port);
        if self.is_bound(own) { Ok(()) } else { self.driver.unbind_port(own) }
    }
    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.driver.insert(&self.placed(entries))
    }
    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.driver.delete(&self.placed(entries))
    }
    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let own = |replica: &Replica| Replica { port: self.own(replica.port), ..*replica };
        let replicas: Vec<Replica> = replicas.iter().map(own).collect();
        self.driver.set_group(group, &replicas)
    }
    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.driver.delete_group(group)
    }
    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.driver.advance(first_slot, slots, chunk)
    }
    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        self.driver.release(first_slot, slots, epoch)
    }
    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        self.driver.spilled(group)
    }
    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        self.driver.read_slots(first_slot, slots)
    }
}
