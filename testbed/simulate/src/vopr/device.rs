//! A switch: the software switch's generated pipeline, its ports and groups, and what a controller writes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use netfold_controller::driver::{DriverError, Limits};
use netfold_io::{
    Authenticated, Capabilities, IoCounters, IoError, PacketIo, PortId, Received, RxBatch, Transmit,
};
use netfold_p4::allreduce;
use netfold_p4::entry::{Replica, TableEntry};
use netfold_switch::switch::CONTROLLER_PORT;
use netfold_switch::{Pipeline, Send, Verdict, datagram_pipeline};
use netfold_wire::{Flags, JobKeys, Kind, LaneOp, Packet, Reason, Repr, UDP_PORT, header};

use super::engine::DATAGRAM_LEN_MAX;

/// Bytes of lanes in the simulation's packets.
const PAYLOAD: u32 = 256;

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

/// Packet I/O of a switch, a datagram at a time.
#[derive(Default)]
struct DeviceIo {
    peers: BTreeMap<PortId, SocketAddr>,
    received: Option<(PortId, Vec<u8>)>,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl PacketIo for DeviceIo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "simulated",
            datagram_len_max: DATAGRAM_LEN_MAX,
            burst_max: 1,
            batch_bytes: DATAGRAM_LEN_MAX,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        if let Some((port, datagram)) = self.received.take() {
            let _ = batch.push(port, &datagram, 0);
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        for packet in packets {
            if let (Some(peer), Some(bytes)) = (self.peers.get(&packet.port), packet.bytes(memory)) {
                self.sent.push((*peer, bytes.to_vec()));
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
        self.peers.insert(port, peer);
        Ok(())
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.peers.remove(&port);
        Ok(())
    }
}

/// A switch.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pipeline: Box<dyn Pipeline>,
    io: Authenticated<DeviceIo>,
    batch: RxBatch,
    pub(super) held: Held,
    /// Which start of it this is.
    pub(super) boot: u64,
    /// The greatest election id that a controller has shown.
    election: u64,
    pub(super) alive: bool,
    /// Until when it answers no controller.
    pub(super) hung_until: Duration,
    verdicts: Vec<Verdict>,
    /// Writes refused because of a greater election id.
    pub(super) stale_writes: u64,
}

impl Device {
    /// A switch whose slots hold `chunk`.
    pub(super) fn new(name: &str, address: SocketAddr, chunk: u32) -> Self {
        let mut device = Self {
            name: name.into(),
            address,
            pipeline: pipeline(),
            io: Authenticated::new(DeviceIo::default()),
            batch: RxBatch::new(1, DATAGRAM_LEN_MAX),
            held: Held::default(),
            boot: 1,
            election: 0,
            alive: true,
            hung_until: Duration::ZERO,
            verdicts: Vec::new(),
            stale_writes: 0,
        };
        device.begin();
        let slots = device.limits().slots;
        for step in [chunk / 3, chunk / 3 * 2, chunk].into_iter().filter(|step| *step > 0) {
            device.advance(0, slots, step);
        }
        device
    }

    fn begin(&mut self) {
        let entry = allreduce::controller_entry(CONTROLLER_PORT, Kind::Advance);
        self.pipeline.insert(&entry).expect("an empty table takes the controller's entry");
    }

    /// It starts again, with nothing.
    pub(super) fn restart(&mut self) {
        self.pipeline = pipeline();
        self.io = Authenticated::new(DeviceIo::default());
        self.held = Held::default();
        self.boot += 1;
        self.election = 0;
        self.alive = true;
        self.begin();
    }

    /// What it has to share out.
    pub(super) fn limits(&self) -> Limits {
        let info = self.pipeline.info();
        Limits {
            slots: info.entries / 2,
            lane_words: info.lane_words,
            ports_max: 64,
            groups_max: 32,
            udp_port: UDP_PORT,
            sees_source: false,
            bounded_loss: info.bounded_loss,
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
        let used = |port: &u16| self.held.ports.values().any(|other| other == port);
        let free = (1..).find(|port| !used(port)).unwrap_or(0);
        match self.held.ports.get(&peer) {
            Some(port) => *port,
            None => {
                self.held.ports.insert(peer, free);
                self.io.bind_port(PortId(free), peer).expect("a simulated port takes any peer");
                free
            }
        }
    }

    /// Authenticates a job's packets of a peer that is a port.
    pub(super) fn authenticate(&mut self, peer: SocketAddr, keys: &JobKeys) -> Result<(), DriverError> {
        let Some(port) = self.held.ports.get(&peer).copied() else {
            return Err(unreachable_switch("keys of a peer that is no port"));
        };
        let done = self.io.authenticate(PortId(port), keys, header::LEN + PAYLOAD as usize);
        done.map_err(|source| DriverError::Port { port, source: Box::new(source) })?;
        self.held.keys.insert((peer, keys.job, keys.epoch));
        Ok(())
    }

    /// Takes a job's keys away.
    pub(super) fn forget_keys(&mut self, peer: SocketAddr, job: u16, epoch: u32) {
        if let Some(port) = self.held.ports.get(&peer) {
            self.io.forget(PortId(*port), job, epoch);
        }
        self.held.keys.remove(&(peer, job, epoch));
    }

    pub(super) fn detach(&mut self, peer: SocketAddr) {
        if let Some(port) = self.held.ports.remove(&peer) {
            self.io.unbind_port(PortId(port)).expect("a simulated port is unbound");
        }
        self.held.keys.retain(|(of, ..)| *of != peer);
    }

    /// Adds all entries or none.
    pub(super) fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        for (done, entry) in entries.iter().enumerate() {
            if let Err(error) = self.pipeline.insert(entry) {
                entries[..done].iter().for_each(|entry| drop(self.pipeline.delete(entry)));
                return Err(DriverError::Entry(error));
            }
        }
        self.held.entries.extend(entries.iter().map(|entry| (key(entry), entry.clone())));
        Ok(())
    }

    /// Removes all entries or none.
    pub(super) fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        for (done, entry) in entries.iter().enumerate() {
            if let Err(error) = self.pipeline.delete(entry) {
                entries[..done].iter().for_each(|entry| drop(self.pipeline.insert(entry)));
                return Err(DriverError::Entry(error));
            }
        }
        entries.iter().for_each(|entry| drop(self.held.entries.remove(&key(entry))));
        Ok(())
    }

    pub(super) fn set_group(&mut self, group: u16, replicas: Vec<Replica>) {
        self.held.groups.insert(group, replicas);
    }

    pub(super) fn delete_group(&mut self, group: u16) {
        self.held.groups.remove(&group);
    }

    /// Moves slots on, and returns the newest chunk that they hold.
    pub(super) fn advance(&mut self, first: u32, slots: u32, chunk: u32) -> u32 {
        let sets = (first..first + slots).flat_map(|slot| [(slot, 0), (slot, 1)]);
        let newest = sets.map(|(slot, set)| self.advance_one(slot, set, chunk).wrapping_sub(chunk)).max();
        chunk.wrapping_add(newest.unwrap_or(0))
    }

    fn advance_one(&mut self, slot: u32, set: u8, chunk: u32) -> u32 {
        let repr = Repr {
            kind: Kind::Advance,
            flags: Flags::BARE,
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: 0,
            slot: slot as u16,
            set,
            epoch: 0,
            key: 0,
            chunk,
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
        };
        let mut bytes = [0; header::LEN];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        let verdict = self.burst(CONTROLLER_PORT, header::LEN, &mut bytes);
        assert_eq!(verdict.send, Send::Unicast(CONTROLLER_PORT), "an ADVANCE is answered");
        Packet::new_unchecked(&bytes[..]).chunk()
    }

    fn burst(&mut self, port: u16, len: usize, bytes: &mut [u8]) -> Verdict {
        let packet = Received { port: PortId(port), offset: 0, len: len as u32, ecn: 0 };
        self.verdicts.clear();
        self.pipeline.burst(&[packet], bytes, &mut self.verdicts);
        self.verdicts[0]
    }

    /// Takes a datagram, and returns what to send where.
    pub(super) fn process(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(port) = self.held.ports.get(&from).copied() else { return Vec::new() };
        netfold_io::Middleware::inner_mut(&mut self.io).received = Some((PortId(port), datagram.to_vec()));
        let received = self.io.receive(&mut self.batch).expect("simulated packet I/O does not fail");
        if received == 0 {
            return Vec::new();
        }
        let mut bytes = self.batch.bytes(&self.batch.packets()[0]).to_vec();
        let len = bytes.len();
        // Room for lanes that were cut off.
        bytes.resize(bytes.len().max(header::LEN + PAYLOAD as usize), 0xee);
        let verdict = self.burst(port, len, &mut bytes);
        bytes.truncate(verdict.len as usize);
        let to = match verdict.send {
            Send::Drop => Vec::new(),
            Send::Unicast(port) => vec![port],
            Send::Multicast(group) => {
                let replicas = self.held.groups.get(&group).map(Vec::as_slice).unwrap_or_default();
                replicas.iter().map(|replica| replica.port).collect()
            }
        };
        let len = bytes.len() as u32;
        let packets: Vec<_> =
            to.iter().map(|port| Transmit { port: PortId(*port), offset: 0, len }).collect();
        self.io.transmit(&bytes, &packets).expect("simulated packet I/O does not fail");
        std::mem::take(&mut netfold_io::Middleware::inner_mut(&mut self.io).sent)
    }
}

fn pipeline() -> Box<dyn Pipeline> {
    datagram_pipeline(PAYLOAD).expect("a pipeline is generated for packets of 256 bytes")
}

/// The error of a switch that does not answer, or does not obey.
pub(super) fn unreachable_switch(why: &str) -> DriverError {
    DriverError::Unreachable(why.into())
}
