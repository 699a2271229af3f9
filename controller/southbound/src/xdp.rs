//! Control of a switch in this host's kernel: the program in the driver path, with its tables and groups as maps ([`netfold_xdp`]).
//!
//! - [`XdpDriver`]: a [`SwitchDriver`] for programs of [`netfold_p4::allreduce`] with outer headers.
//! - [`Neighbours`]: where peers are, by the kernel's own tables of routes and neighbours.

mod neighbours;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use netfold_controller::driver::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_p4::allreduce::{Address, controller_entry};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::interpret::Send;
use netfold_p4::profile::{Numerics, Profile};
use netfold_p4::xdp::PORTS_MAX;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Kind, UDP_PORT};
use netfold_xdp::{Datapath, XdpError};

use crate::p4runtime::{Bound, ControlPort, Desired, PeerPorts, PortError, advance, port_error, read_slots};
pub use neighbours::Neighbours;

/// The port by which packets of the control plane arrive. Its interface has no program: they are test runs.
const CONTROL_PORT: u16 = PORTS_MAX as u16 - 1;

/// The interface of test runs: the loopback interface, the first of every network namespace.
const LOOPBACK: u32 = 1;

/// A program in the kernel that counters can be read from while a control plane uses it.
#[derive(Debug, Clone)]
pub struct SharedDatapath(Arc<Mutex<Datapath>>);

impl SharedDatapath {
    /// Shares it.
    pub fn new(datapath: Datapath) -> Self {
        Self(Arc::new(Mutex::new(datapath)))
    }

    /// Exclusive access.
    pub fn lock(&self) -> MutexGuard<'_, Datapath> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Control of a program in this host's kernel. Interfaces are [ports](Datapath::set_port) already, numbered from 1 on.
///
/// A call that fails takes back what it had done.
pub struct XdpDriver {
    datapath: SharedDatapath,
    profile: Profile,
    places: Box<dyn PeerPorts>,
    control: TestRuns,
    desired: Desired,
    /// The entries that address the copies of each group.
    addresses: BTreeMap<u16, Vec<TableEntry>>,
    nonce: u32,
}

impl XdpDriver {
    /// Takes control of a program that was made for `profile` and has empty tables. `switch` is what it calls itself in copies, `places` knows
    /// at which port a peer is.
    ///
    /// # Errors
    ///
    /// [`DriverError`], when the program has no job table for the control plane's packets.
    pub fn new(
        datapath: SharedDatapath,
        profile: Profile,
        switch: Address,
        places: Box<dyn PeerPorts>,
    ) -> Result<Self, DriverError> {
        let mut program = datapath.lock();
        program.set_port(CONTROL_PORT, LOOPBACK).map_err(refused)?;
        for kind in [Kind::Advance, Kind::Probe] {
            program.insert(&controller_entry(CONTROL_PORT, kind))?;
        }
        drop(program);
        let control = TestRuns { datapath: datapath.clone(), switch, answers: VecDeque::new() };
        let desired = Desired::new(Some(switch), CONTROL_PORT, Vec::new());
        Ok(Self { datapath, profile, places, control, desired, addresses: BTreeMap::new(), nonce: 0 })
    }

    fn placed(&self, entries: &[TableEntry]) -> Result<Vec<TableEntry>, DriverError> {
        entries.iter().map(|entry| self.desired.placed(entry)).collect()
    }
}

/// Replaces entries, all or none.
fn exchange(datapath: &mut Datapath, removed: &[TableEntry], added: &[TableEntry]) -> Result<(), EntryError> {
    // If this fails, so did the kernel, and the caller receives the first error.
    let restore = |datapath: &mut Datapath, removed: &[TableEntry], added: &[TableEntry]| {
        added.iter().for_each(|entry| drop(datapath.delete(entry)));
        removed.iter().for_each(|entry| drop(datapath.insert(entry)));
    };
    for (done, entry) in removed.iter().enumerate() {
        if let Err(error) = datapath.delete(entry) {
            restore(datapath, &removed[..done], &[]);
            return Err(error);
        }
    }
    for (done, entry) in added.iter().enumerate() {
        if let Err(error) = datapath.insert(entry) {
            restore(datapath, removed, &added[..done]);
            return Err(error);
        }
    }
    Ok(())
}

impl SwitchDriver for XdpDriver {
    fn limits(&self) -> Limits {
        Limits::of(&self.profile, UDP_PORT)
    }

    fn numerics(&self) -> Numerics {
        self.profile.numerics
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        let SocketAddr::V4(at) = peer else {
            return Err(port_error(port, PortError::NotIpv4(peer)));
        };
        if port >= self.limits().ports_max {
            return Err(port_error(port, PortError::Number));
        }
        let at = self.places.find(at).ok_or_else(|| port_error(port, PortError::NoNeighbour(at)))?;
        self.desired.ports.insert(port, Bound { peer, udp_ports: 1, at: Some(at), keys: None });
        Ok(())
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.desired.ports.remove(&port);
        Ok(())
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let placed = self.placed(entries)?;
        Ok(exchange(&mut self.datapath.lock(), &[], &placed)?)
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let placed = self.placed(entries)?;
        let mut datapath = self.datapath.lock();
        exchange(&mut datapath, &placed, &[])?;
        // A packet that one of them admitted may be on its way to a slot.
        datapath.wait_for_packets().or_else(|error| {
            exchange(&mut datapath, &[], &placed)?;
            Err(refused(error))
        })
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        if group == 0 || group > self.limits().groups_max {
            return Err(EntryError::Group(group).into());
        }
        self.desired.check_group(group, replicas)?;
        let (placed, addresses) = self.desired.placed_group(replicas)?;
        let held = self.addresses.get(&group).map_or(&[][..], Vec::as_slice);
        let without = |of: &[TableEntry], others: &[TableEntry]| -> Vec<TableEntry> {
            of.iter().filter(|entry| !others.contains(entry)).cloned().collect()
        };
        let (stale, fresh) = (without(held, &addresses), without(&addresses, held));
        let mut datapath = self.datapath.lock();
        exchange(&mut datapath, &stale, &fresh)?;
        if let Err(error) = datapath.set_group(group, &placed) {
            exchange(&mut datapath, &fresh, &stale)?;
            return Err(refused(error));
        }
        self.addresses.insert(group, addresses);
        self.desired.groups.insert(group, replicas.to_vec());
        Ok(())
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        if !self.desired.groups.contains_key(&group) {
            return Ok(());
        }
        self.set_group(group, &[])?;
        self.desired.groups.remove(&group);
        self.addresses.remove(&group);
        Ok(())
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.profile.slots && slots > 0);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        advance(&mut self.control, self.nonce, first_slot, slots, chunk)
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.profile.slots);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        read_slots(&mut self.control, self.nonce, first_slot, slots)
    }
}

fn refused(error: XdpError) -> DriverError {
    DriverError::Refused(Box::new(error))
}

/// A control port whose packets the kernel processes at once, without an interface.
struct TestRuns {
    datapath: SharedDatapath,
    switch: Address,
    answers: VecDeque<Vec<u8>>,
}

impl ControlPort for TestRuns {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let [_, _, mac @ ..] = self.switch.mac.to_be_bytes();
        let at =
            |port| Endpoint { mac: EthernetAddress(mac), ip: Ipv4Address::from_bits(self.switch.ip), port };
        let outer = Outer { source: at(self.switch.port), destination: at(UDP_PORT) };
        let mut frame = vec![0; OUTER_LEN + datagram.len()];
        outer.emit(datagram, 0, &mut frame).map_err(io::Error::other)?;
        let ran = self.datapath.lock().test_ingress(&mut frame).map_err(io::Error::other)?;
        if ran.send == Send::Unicast(CONTROL_PORT) {
            self.answers.push_back(frame.split_off(OUTER_LEN.min(frame.len())));
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        let Some(answer) = self.answers.pop_front() else {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
            return Ok(None);
        };
        let len = answer.len().min(buffer.len());
        buffer[..len].copy_from_slice(&answer[..len]);
        Ok(Some(len))
    }
}
