//! The control plane's driver of a software switch in this process.

use std::error::Error;
use std::net::SocketAddr;

use netfold_controller::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::profile::Numerics;
use netfold_switch::{Core, Handle};
use netfold_wire::JobKeys;

/// Ports that workers may be bound to: numbers below this. The switch keeps the highest number of all for the control plane's own packets.
pub const PORTS_MAX: u16 = netfold_switch::switch::PORTS_MAX + 1;

/// Controls a switch in this process. Its thread executes calls between bursts; they block until executed.
pub struct LocalDriver {
    handle: Handle,
    limits: Limits,
    numerics: Numerics,
}

impl LocalDriver {
    /// A driver by a switch's handle; `limits` and `numerics` are those that the switch was built for. It may be created before
    /// the switch runs.
    pub fn new(handle: Handle, limits: Limits, numerics: Numerics) -> Self {
        Self { handle, limits, numerics }
    }

    fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, DriverError> {
        self.handle.call(call).map_err(|error| DriverError::Unreachable(Box::new(error)))
    }

    fn port<E: Error + Send + Sync + 'static>(
        &self,
        port: u16,
        call: impl FnOnce(&mut Core) -> Result<(), E> + Send + 'static,
    ) -> Result<(), DriverError> {
        self.call(call)?.map_err(|source| DriverError::Port { port, source: Box::new(source) })
    }

    fn entry<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> Result<R, EntryError> + Send + 'static,
    ) -> Result<R, DriverError> {
        self.call(call)?.map_err(DriverError::Entry)
    }
}

impl SwitchDriver for LocalDriver {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn numerics(&self) -> Numerics {
        self.numerics
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.port(port, move |core| core.bind_port(port, peer))
    }

    fn bind_ports(&mut self, port: u16, peer: SocketAddr, udp_ports: u8) -> Result<(), DriverError> {
        self.port(port, move |core| core.bind_ports(port, peer, udp_ports))
    }

    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        let keys = keys.clone();
        self.port(port, move |core| core.authenticate(port, &keys))
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.port(port, move |core| core.unbind_port(port))
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let entries = entries.to_vec();
        self.entry(move |core| core.insert(&entries))
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let entries = entries.to_vec();
        self.entry(move |core| core.delete(&entries))
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let replicas = replicas.to_vec();
        self.entry(move |core| core.set_group(group, &replicas))
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.entry(move |core| core.set_group(group, &[]))
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.entry(move |core| core.advance(first_slot, slots, chunk))
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        self.entry(move |core| core.release(first_slot, slots, epoch))
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        let counted = self.call(move |core| core.spilled(group))?;
        counted.ok_or_else(|| DriverError::Refused("its program is not for best-effort jobs".into()))
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.limits.slots);
        let end = end.ok_or(EntryError::Param(0))?;
        self.entry(move |core| {
            let sets = (first_slot..end).flat_map(|slot| [(slot, 0), (slot, 1)]);
            let read = |(slot, set)| {
                let stored = core.probe(slot, set).ok_or(EntryError::Param(0))?;
                Ok(SlotState { slot, set, chunk: stored.chunk, seen: stored.bitmap })
            };
            sets.map(read).collect()
        })
    }
}
