//! Switches that are driven over P4Runtime, whatever they are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netfold_controller::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::Numerics;
use netfold_p4::{allreduce, p4info};
use netfold_southbound::p4runtime::P4RuntimeDriver;

use super::RunError;
use super::fabric::Counted;

/// A driver that counters can be read from while a control plane uses it.
#[derive(Clone)]
pub(super) struct SharedDriver(Arc<Mutex<P4RuntimeDriver>>);

impl SharedDriver {
    pub(super) fn new(driver: P4RuntimeDriver) -> Self {
        Self(Arc::new(Mutex::new(driver)))
    }

    fn driver(&self) -> MutexGuard<'_, P4RuntimeDriver> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counted(&self, switch: usize) -> Result<Counted, RunError> {
        let read = |id| {
            let counted = self.driver().counters(p4info::counter_id(id));
            counted.map_err(|error| RunError::Remote { switch, source: error.into() })
        };
        Ok(Counted {
            packets: read(allreduce::id::PACKETS)?,
            answers: read(allreduce::id::ANSWERS)?,
            queues: None,
            bytes: None,
        })
    }
}

impl SwitchDriver for SharedDriver {
    fn limits(&self) -> Limits {
        self.driver().limits()
    }
    fn numerics(&self) -> Numerics {
        self.driver().numerics()
    }
    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.driver().bind_port(port, peer)
    }
    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.driver().unbind_port(port)
    }
    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.driver().insert(entries)
    }
    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.driver().delete(entries)
    }
    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        self.driver().set_group(group, replicas)
    }
    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.driver().delete_group(group)
    }
    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.driver().advance(first_slot, slots, chunk)
    }
    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        self.driver().release(first_slot, slots, epoch)
    }
    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        self.driver().spilled(group)
    }
    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        self.driver().read_slots(first_slot, slots)
    }
}
