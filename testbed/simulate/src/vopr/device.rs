//! A switch: the software switch, of which each datagram is a burst, and what a controller writes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use netfold_controller::driver::{DriverError, Limits};
use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_switch::{Core, Handle, Switch, best_effort_pipeline, datagram_pipeline};
use netfold_wire::{JobKeys, UDP_PORT};

use super::engine::{DATAGRAM_LEN_MAX, locked};

/// Bytes of lanes in the simulation's packets.
pub(super) const PAYLOAD: u32 = 256;

/// What a switch holds for a control plane, by the switch's own ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) ports: BTreeMap<SocketAddr, u16>,
    pub(super) groups: BTreeMap<u16, Vec<Replica>>,
    /// By key.
    pub(super) entries: BTreeMap<String, TableEntry>,
    /// Peer, job and epoch of packets that are authenticated.
    pub(super) keys: BTreeSet<(SocketAddr, u16, u32)>,
}

/// What identifies an entry in its table.
pub(super) fn key(entry: &TableEntry) -> String {
    format!("{} {} {:?}", entry.table, entry.priority, entry.matches)
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.groups.is_empty() && self.entries.is_empty()
    }
}

/// What goes in and out of a switch's packet I/O.
#[derive(Default)]
struct Wires {
    peers: BTreeMap<PortId, SocketAddr>,
    received: Option<(PortId, Vec<u8>)>,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

/// Packet I/O of a switch, a datagram at a time.
struct DeviceIo(Arc<Mutex<Wires>>);

impl PacketIo for DeviceIo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "simulated",
            datagram_len_max: DATAGRAM_LEN_MAX,
            burst_max: 1,
            batch_bytes: DATAGRAM_LEN_MAX,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        if let Some((port, datagram)) = locked(&self.0).received.take() {
            let _ = batch.push(port, &datagram, 0);
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let mut wires = locked(&self.0);
        for packet in packets {
            if let (Some(peer), Some(bytes)) = (wires.peers.get(&packet.port).copied(), packet.bytes(memory))
            {
                wires.sent.push((peer, bytes.to_vec()));
            }
        }
        Ok(packets.len())
    }

    fn wait(&mut self, _: Duration) -> Result<bool, IoError> {
        Ok(false)
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn counters(&self) -> IoCounters {
        IoCounters::default()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        locked(&self.0).peers.insert(port, peer);
        Ok(())
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        locked(&self.0).peers.remove(&port);
        Ok(())
    }
}

/// A software switch that no thread runs.
fn begin(wires: &Arc<Mutex<Wires>>, best_effort: bool) -> Handle {
    let pipeline = if best_effort { best_effort_pipeline(PAYLOAD) } else { datagram_pipeline(PAYLOAD) };
    let pipeline = pipeline.expect("a pipeline is generated for packets of 256 bytes");
    Switch::new(pipeline, Box::new(DeviceIo(Arc::clone(wires)))).idle()
}

/// A switch.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    /// Whether it runs the program for best-effort jobs.
    best_effort: bool,
    /// Most slots that it shares out.
    slots_max: u32,
    switch: Handle,
    wires: Arc<Mutex<Wires>>,
    pub(super) held: Held,
    /// Which start of it this is.
    pub(super) boot: u64,
    /// The greatest election id that a controller has shown.
    election: u64,
    pub(super) alive: bool,
    /// Until when it answers no controller.
    pub(super) hung_until: Duration,
    /// Writes refused because of a greater election id.
    pub(super) stale_writes: u64,
}

impl Device {
    /// A switch whose slots hold `chunk`, and which shares out `slots_max` of them at most.
    pub(super) fn new(
        name: &str,
        address: SocketAddr,
        chunk: u32,
        (best_effort, slots_max): (bool, u32),
    ) -> Self {
        let wires = Arc::default();
        let mut device = Self {
            name: name.into(),
            address,
            best_effort,
            slots_max,
            switch: begin(&wires, best_effort),
            wires,
            held: Held::default(),
            boot: 1,
            election: 0,
            alive: true,
            hung_until: Duration::ZERO,
            stale_writes: 0,
        };
        let slots = device.limits().slots;
        // A newer chunk is less than 2^31 ahead.
        for step in [chunk / 3, chunk / 3 * 2, chunk].into_iter().filter(|step| *step > 0) {
            device.advance(0, slots, step).expect("all slots are the switch's");
        }
        device
    }

    fn call<R: std::marker::Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> R + std::marker::Send + 'static,
    ) -> R {
        self.switch.call(call).expect("calls of an idle switch take place")
    }

    /// It starts again, with nothing.
    pub(super) fn restart(&mut self) {
        self.wires = Arc::default();
        self.switch = begin(&self.wires, self.best_effort);
        self.held = Held::default();
        self.boot += 1;
        self.election = 0;
        self.alive = true;
    }

    /// What it has to share out.
    pub(super) fn limits(&self) -> Limits {
        let (entries, lane_words, bounded_loss, owners, lane_ops) = self.call(|core| {
            let info = core.pipeline().info();
            (info.entries, info.lane_words, info.bounded_loss, info.owners, info.lane_ops)
        });
        Limits {
            slots: self.slots_max.min(entries / 2),
            lane_words,
            ports_max: 64,
            groups_max: 32,
            entries: u32::MAX,
            udp_port: UDP_PORT,
            sees_source: false,
            bounded_loss,
            owners,
            lane_ops,
            multipath: false,
            authenticates: true,
        }
    }

    /// Whether a controller with this election id may write; a greater one supersedes all before it.
    pub(super) fn arbitrate(&mut self, election: u64) -> bool {
        self.election = self.election.max(election);
        self.election == election
    }

    /// Refuses a write of a controller that has been superseded.
    pub(super) fn check_primary(&mut self, election: u64) -> Result<(), DriverError> {
        if election < self.election {
            self.stale_writes += 1;
            return Err(unreachable_switch("another controller is primary"));
        }
        Ok(())
    }

    /// Makes a peer a port, and returns it.
    pub(super) fn attach(&mut self, peer: SocketAddr) -> u16 {
        if let Some(port) = self.held.ports.get(&peer) {
            return *port;
        }
        let used = |port: &u16| self.held.ports.values().any(|other| other == port);
        let port = (1..).find(|port| !used(port)).expect("there are fewer peers than numbers");
        self.held.ports.insert(peer, port);
        self.call(move |core| core.bind_port(port, peer)).expect("a simulated port takes any peer");
        port
    }

    pub(super) fn detach(&mut self, peer: SocketAddr) {
        if let Some(port) = self.held.ports.remove(&peer) {
            self.call(move |core| core.unbind_port(port)).expect("a simulated port is unbound");
        }
        self.held.keys.retain(|(of, ..)| *of != peer);
    }

    /// Authenticates a job's packets of a peer that is a port.
    pub(super) fn authenticate(&mut self, peer: SocketAddr, keys: &JobKeys) -> Result<(), DriverError> {
        let Some(port) = self.held.ports.get(&peer).copied() else {
            return Err(unreachable_switch("keys of a peer that is no port"));
        };
        let given = keys.clone();
        let done = self.call(move |core| core.authenticate(port, &given));
        done.map_err(|source| DriverError::Port { port, source: Box::new(source) })?;
        self.held.keys.insert((peer, keys.job, keys.epoch));
        Ok(())
    }

    /// Takes a job's keys away.
    pub(super) fn forget_keys(&mut self, peer: SocketAddr, job: u16, epoch: u32) {
        if let Some(port) = self.held.ports.get(&peer).copied() {
            self.call(move |core| core.forget_keys(port, job, epoch));
        }
        self.held.keys.remove(&(peer, job, epoch));
    }

    /// Adds all entries or none.
    pub(super) fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let given = entries.to_vec();
        self.call(move |core| core.insert(&given))?;
        self.held.entries.extend(entries.iter().map(|entry| (key(entry), entry.clone())));
        Ok(())
    }

    /// Removes all entries or none.
    pub(super) fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let given = entries.to_vec();
        self.call(move |core| core.delete(&given))?;
        entries.iter().for_each(|entry| drop(self.held.entries.remove(&key(entry))));
        Ok(())
    }

    /// Sets a group; without replicas it is deleted.
    pub(super) fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let given = replicas.to_vec();
        self.call(move |core| core.set_group(group, &given))?;
        if replicas.is_empty() {
            self.held.groups.remove(&group);
        } else {
            self.held.groups.insert(group, replicas.to_vec());
        }
        Ok(())
    }

    /// Moves slots on, and returns the newest chunk that they hold.
    pub(super) fn advance(&mut self, first: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        Ok(self.call(move |core| core.advance(first, slots, chunk))?)
    }

    /// Releases what an epoch occupies of slots that jobs share.
    pub(super) fn release(&mut self, (first, slots, epoch): (u32, u32, u32)) -> Result<(), DriverError> {
        Ok(self.call(move |core| core.release(first, slots, epoch))?)
    }

    /// Contributions that found no slot, of a multicast group to the aggregator.
    pub(super) fn spilled(&self, group: u16) -> u64 {
        self.call(move |core| core.spilled(group)).unwrap_or(0)
    }

    /// Takes a datagram, and returns what to send where.
    pub(super) fn process(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(port) = self.held.ports.get(&from).copied() else { return Vec::new() };
        locked(&self.wires).received = Some((PortId(port), datagram.to_vec()));
        self.call(Core::turn).expect("simulated packet I/O does not fail");
        std::mem::take(&mut locked(&self.wires).sent)
    }
}

/// The error of a switch that does not answer, or does not obey.
pub(super) fn unreachable_switch(why: &str) -> DriverError {
    DriverError::Unreachable(why.into())
}
