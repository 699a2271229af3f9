//! The switch loop and its control handle.

mod burst;
mod busy_poll;
mod egress;

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_io::{Authenticated, IoError, PacketIo, PortId, Received, RxBatch, Transmit};
use netfold_p4::allreduce;
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::p4info;
use netfold_wire::{JobKeys, Kind, Reason, Repr, header};

use crate::queue::{QueueConfig, QueueConfigError, QueuesCounters};
use crate::runtime::{Pipeline, Send, Verdict};
use burst::{BurstBuffers, Copies};
use busy_poll::BusyPoll;
use egress::Egress;

/// The port on which the control plane's packets arrive; no I/O backend assigns it.
pub const CONTROLLER_PORT: u16 = u16::MAX;

/// Ports that peers may be bound to: 1 to this number.
pub const PORTS_MAX: u16 = 4095;

/// Multicast groups 1 to this number.
pub const GROUPS_MAX: usize = 2048;

/// Replicas of one group.
pub const REPLICAS_MAX: usize = 64;

/// Control calls waiting for the switch.
const CALLS_MAX: usize = 64;

/// How long the loop sleeps when nothing arrives; a control call wakes it earlier.
const IDLE: Duration = Duration::from_millis(100);

/// How long packets are retried on a full output before they are dropped and counted. Longer than a receiver on a busy
/// machine waits for a processor; a receiver that never reads delays the switch by this much per burst.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(50);

/// Counters of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Packets by [`Reason`]; `none` are those that were aggregated or answered.
    pub packets: Vec<(&'static str, u64)>,
    /// RESULTs multicast.
    pub results: u64,
    /// RESULTs repeated to one child.
    pub repeated: u64,
    /// Packets from addresses that are no port.
    pub unknown_source: u64,
    /// Packets dropped because the output stayed full.
    pub output_dropped: u64,
    /// Counters of the I/O backend.
    pub io: netfold_io::IoCounters,
    /// Counters of the queues, in a switch that has any.
    pub queues: Option<QueuesCounters>,
}

impl SwitchCounters {
    /// Adds the counters of another switch, such as another queue of the same one.
    pub fn add(&mut self, other: &Self) {
        let Self { packets, results, repeated, unknown_source, output_dropped, io, queues } = self;
        for &(reason, count) in &other.packets {
            match packets.iter_mut().find(|(counted, _)| *counted == reason) {
                Some((_, sum)) => *sum += count,
                None => packets.push((reason, count)),
            }
        }
        *results += other.results;
        *repeated += other.repeated;
        *unknown_source += other.unknown_source;
        *output_dropped += other.output_dropped;
        io.add(&other.io);
        if let Some(more) = &other.queues {
            let queues = queues.get_or_insert_default();
            queues.queues.extend(more.queues.iter().cloned());
            queues.refused += more.refused;
            queues.pauses += more.pauses;
        }
    }
}

impl std::iter::Sum for SwitchCounters {
    fn sum<I: Iterator<Item = Self>>(counted: I) -> Self {
        counted.fold(Self::default(), |mut sum, more| {
            sum.add(&more);
            sum
        })
    }
}

/// A closure that the switch runs between two bursts.
pub type Call = Box<dyn FnOnce(&mut Core) + core::marker::Send>;

/// Callback for the packets that go to the control plane. It runs on the switch's thread, so it must not block.
type PacketInCallback = Box<dyn FnMut(&[u8]) + core::marker::Send>;

/// What a control call can touch: pipeline, multicast groups and I/O.
pub struct Core {
    pipeline: Box<dyn Pipeline>,
    io: Authenticated<Box<dyn PacketIo>>,
    groups: Vec<Vec<Replica>>,
    /// The port that leads to the control plane, and the callback for packets sent there.
    cpu: Option<(u16, PacketInCallback)>,
    /// Queues in front of the backend; without them, packets leave at once.
    egress: Option<Box<Egress>>,
    output_dropped: u64,
    burst: BurstBuffers,
    copies: Copies,
    stopping: bool,
}

/// A switch, to be run by one thread.
pub struct Switch {
    core: Core,
    calls: Receiver<Call>,
    sender: SyncSender<Call>,
    /// How long the loop polls for packets before it sleeps.
    busy_poll: Duration,
}

/// The control side of a switch. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Access);

#[derive(Clone)]
enum Access {
    /// To the thread that runs the switch.
    Running { calls: SyncSender<Call>, waker: Waker },
    /// No thread runs it.
    Idle(Arc<Mutex<Core>>),
}

/// A control call that did not take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the switch has stopped")]
pub struct CallError;

impl Handle {
    /// Runs a closure on the switch's thread, between two bursts, and returns what it returns. The closure for a switch that is
    /// [idle](Switch::idle) runs on the caller's thread.
    ///
    /// # Errors
    ///
    /// [`CallError`] when the switch has stopped.
    pub fn call<R: core::marker::Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> R + core::marker::Send + 'static,
    ) -> Result<R, CallError> {
        let (calls, waker) = match &self.0 {
            Access::Running { calls, waker } => (calls, waker),
            Access::Idle(core) => return Ok(call(&mut core.lock().unwrap_or_else(PoisonError::into_inner))),
        };
        let (reply, answer) = mpsc::sync_channel(1);
        let call: Call = Box::new(move |core| drop(reply.send(call(core))));
        calls.send(call).map_err(|_| CallError)?;
        waker.wake_by_ref();
        answer.recv().map_err(|_| CallError)
    }

    /// Whether no thread runs the switch, so that calls do not wait for one.
    pub fn is_idle(&self) -> bool {
        matches!(self.0, Access::Idle(_))
    }

    /// Requests the switch to stop after its current burst. No effect if it has stopped.
    pub fn stop(&self) {
        let _ = self.call(|core| core.stopping = true);
    }
}

impl Switch {
    /// A switch over a backend, whose generated pipeline admits only the control plane's packets.
    ///
    /// # Panics
    ///
    /// When the pipeline is of another program than all-reduce, or has entries already; see [`Self::try_new`].
    pub fn new(pipeline: Box<dyn Pipeline>, io: Box<dyn PacketIo>) -> Self {
        Self::try_new(pipeline, io).expect("an empty job table takes the controller's entries")
    }

    /// Like [`Self::new`], for pipelines of any program.
    ///
    /// # Errors
    ///
    /// When the pipeline has no job table that takes the controller's entries.
    pub fn try_new(pipeline: Box<dyn Pipeline>, io: Box<dyn PacketIo>) -> Result<Self, EntryError> {
        let mut switch = Self::bare(pipeline, io);
        for kind in [Kind::Advance, Kind::Probe] {
            let entry = allreduce::controller_entry(CONTROLLER_PORT, kind);
            switch.core.pipeline.insert(&entry)?;
        }
        Ok(switch)
    }

    /// A switch whose tables are those of the pipeline: its controller must admit the controller's packets itself;
    /// [`Core::advance`] and [`Core::probe`] have no effect until then.
    pub fn bare(pipeline: Box<dyn Pipeline>, io: Box<dyn PacketIo>) -> Self {
        let (sender, calls) = mpsc::sync_channel(CALLS_MAX);
        let groups = vec![Vec::new(); GROUPS_MAX + 1];
        Self {
            core: Core {
                pipeline,
                io: Authenticated::new(io),
                groups,
                cpu: None,
                egress: None,
                output_dropped: 0,
                burst: BurstBuffers::default(),
                copies: Copies::default(),
                stopping: false,
            },
            calls,
            sender,
            busy_poll: Duration::ZERO,
        }
    }

    /// Polls for packets for this time after the last packet before the thread sleeps, and yields the core between polls to threads that
    /// wait for one. Default zero: it sleeps at once.
    #[must_use]
    pub fn with_busy_poll(mut self, time: Duration) -> Self {
        self.busy_poll = time;
        self
    }

    /// Puts queues in front of the backend: priorities, weights, marks, rates. Without them, packets leave at once.
    ///
    /// # Errors
    ///
    /// [`QueueConfigError`] when a number of the configuration is out of range.
    pub fn with_queues(mut self, config: &QueueConfig) -> Result<Self, QueueConfigError> {
        self.core.set_queues(config)?;
        Ok(self)
    }

    /// The control side.
    pub fn handle(&self) -> Handle {
        Handle(Access::Running { calls: self.sender.clone(), waker: self.core.io.waker() })
    }

    /// The control side of a switch that no thread runs: calls take place, and packets are received in [`Core::turn`] alone. For tests of
    /// control planes, and for simulations; handles that were given before fail.
    pub fn idle(self) -> Handle {
        Handle(Access::Idle(Arc::new(Mutex::new(self.core))))
    }

    /// Runs until a handle stops it; returns the counters.
    ///
    /// # Errors
    ///
    /// When the backend fails for good.
    pub fn run(mut self) -> Result<SwitchCounters, IoError> {
        let capabilities = self.core.io.capabilities();
        let mut batch = capabilities.batch();
        let mut verdicts = Vec::with_capacity(capabilities.burst_max);
        let mut output = Vec::with_capacity(capabilities.burst_max * REPLICAS_MAX);
        let mut polling = BusyPoll::new(self.busy_poll);
        loop {
            while let Ok(call) = self.calls.try_recv() {
                call(&mut self.core);
            }
            if self.core.stopping {
                return Ok(self.core.counters());
            }
            if self.core.is_paused()? {
                continue;
            }
            if self.core.io.receive(&mut batch)? == 0 {
                let idle = self.core.drain()?;
                if polling.polls_on() {
                    std::thread::yield_now();
                } else {
                    self.core.io.wait(idle)?;
                }
                continue;
            }
            polling.received();
            self.core.burst(&mut batch, &mut verdicts, &mut output)?;
        }
    }
}

impl Core {
    /// Receives a burst and processes it, if there is one; whether there was. For a switch that is [idle](Switch::idle), whose packets
    /// [`Switch::run`] does not receive.
    ///
    /// # Errors
    ///
    /// When the backend fails for good.
    pub fn turn(&mut self) -> Result<bool, IoError> {
        let capabilities = self.io.capabilities();
        let mut batch = capabilities.batch();
        if self.io.receive(&mut batch)? == 0 {
            return Ok(false);
        }
        let mut output = Vec::with_capacity(capabilities.burst_max * REPLICAS_MAX);
        self.burst(&mut batch, &mut Vec::with_capacity(capabilities.burst_max), &mut output)?;
        Ok(true)
    }

    fn burst(
        &mut self,
        batch: &mut RxBatch,
        verdicts: &mut Vec<Verdict>,
        output: &mut Vec<Transmit>,
    ) -> Result<(), IoError> {
        let (packets, memory) = batch.split();
        self.process(packets, memory, verdicts, output)
    }

    /// Runs the pipeline over packets and sends its output. Those that the pipeline may make longer follow the others, in memory with room behind
    /// each.
    fn process(
        &mut self,
        packets: &[Received],
        memory: &mut [u8],
        verdicts: &mut Vec<Verdict>,
        output: &mut Vec<Transmit>,
    ) -> Result<(), IoError> {
        let info = self.pipeline.info();
        let Some(growth) = info.growth else { return self.process_all(packets, memory, verdicts, output) };
        let len_max = growth.len + info.lane_words * 4;
        let mut buffers = std::mem::take(&mut self.burst);
        let done = if buffers.separate(packets, memory, growth, len_max) {
            let BurstBuffers { constant, growing, room } = &mut buffers;
            let first = self.process_all(constant, memory, verdicts, output);
            first.and_then(|()| self.process_all(growing, room, verdicts, output))
        } else {
            self.process_all(packets, memory, verdicts, output)
        };
        self.burst = buffers;
        done
    }

    fn process_all(
        &mut self,
        packets: &[Received],
        memory: &mut [u8],
        verdicts: &mut Vec<Verdict>,
        output: &mut Vec<Transmit>,
    ) -> Result<(), IoError> {
        verdicts.clear();
        output.clear();
        self.copies.clear();
        self.pipeline.burst(packets, memory, verdicts);
        for (packet, verdict) in packets.iter().zip(verdicts.iter()) {
            let copy = |port| Transmit { port: PortId(port), offset: packet.offset, len: verdict.len };
            match verdict.send {
                Send::Drop => {}
                Send::Unicast(port) => to(&mut self.cpu, output, copy(port), memory),
                Send::Multicast(group) => {
                    let Some(replicas) = self.groups.get(usize::from(group)) else { continue };
                    if self.copies.add(&mut *self.pipeline, copy(0).bytes(memory), replicas) {
                        continue;
                    }
                    replicas.iter().for_each(|replica| to(&mut self.cpu, output, copy(replica.port), memory));
                }
            }
        }
        self.send(memory, output)?;
        self.send_copies(output)
    }

    /// Sends the copies that egress has rewritten.
    fn send_copies(&mut self, output: &mut Vec<Transmit>) -> Result<(), IoError> {
        if self.copies.is_empty() {
            return Ok(());
        }
        let mut copies = std::mem::take(&mut self.copies);
        output.clear();
        for copy in copies.packets.drain(..) {
            to(&mut self.cpu, output, copy, &copies.memory);
        }
        let sent = self.send(&copies.memory, output);
        self.copies = copies;
        sent
    }

    /// Sets the callback for packets that the pipeline sends to `port`. It runs on the switch's thread, so it must not block.
    pub fn set_cpu_port(&mut self, port: u16, callback: impl FnMut(&[u8]) + core::marker::Send + 'static) {
        self.cpu = Some((port, Box::new(callback)));
    }

    /// Runs the pipeline over a packet of the control plane, received on the port of [`Self::set_cpu_port`], and sends its
    /// output. The packet is rewritten in place.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] when there is no such port, [`IoError::Oversize`] when the packet is longer than
    /// [`Self::datagram_len_max`]; the packet is not processed then. Otherwise the backend's error.
    pub fn packet_out(&mut self, packet: &mut [u8]) -> Result<(), IoError> {
        let Some((port, _)) = &self.cpu else {
            return Err(IoError::Unsupported("a port of the control plane"));
        };
        let (port, len, max) = (PortId(*port), packet.len(), self.datagram_len_max());
        let len = u32::try_from(len).ok().filter(|_| len <= max);
        let len = len.ok_or(IoError::Oversize { port, len: packet.len(), max })?;
        let received = Received { port, offset: 0, len, ecn: 0 };
        self.process(&[received], packet, &mut Vec::with_capacity(1), &mut Vec::with_capacity(REPLICAS_MAX))
    }

    /// Puts queues in front of the backend, or replaces them; packets in the old queues are dropped.
    ///
    /// # Errors
    ///
    /// [`QueueConfigError`] when a number of the configuration is out of range; nothing is changed then.
    pub fn set_queues(&mut self, config: &QueueConfig) -> Result<(), QueueConfigError> {
        self.egress = Some(Box::new(Egress::new(config, &mut self.io)?));
        Ok(())
    }

    /// Whether full queues keep the switch from receiving packets for now.
    fn is_paused(&mut self) -> Result<bool, IoError> {
        let Some(egress) = &mut self.egress else { return Ok(false) };
        let paused = egress.pause();
        if paused {
            egress.send(&mut self.io)?;
        }
        Ok(paused)
    }

    /// Sends the packets that may leave their queues, and returns how long none may leave after that.
    fn drain(&mut self) -> Result<Duration, IoError> {
        let Some(egress) = &mut self.egress else { return Ok(IDLE) };
        egress.send(&mut self.io)?;
        Ok(egress.idle_time(IDLE))
    }

    fn send(&mut self, memory: &[u8], mut output: &[Transmit]) -> Result<(), IoError> {
        if let Some(egress) = &mut self.egress {
            return egress.enqueue(&mut self.io, memory, output);
        }
        let mut full_since = None;
        while !output.is_empty() {
            let taken = self.io.transmit(memory, output)?;
            output = &output[taken..];
            if taken > 0 {
                full_since = None;
            } else if full_since.get_or_insert_with(Instant::now).elapsed() < OUTPUT_TIMEOUT {
                std::thread::yield_now();
            } else {
                self.output_dropped += output.len() as u64;
                break;
            }
        }
        Ok(())
    }

    /// The pipeline.
    pub fn pipeline(&mut self) -> &mut dyn Pipeline {
        &mut *self.pipeline
    }

    /// Replaces the pipeline from the next burst on. Multicast groups become empty; ports stay.
    pub fn replace_pipeline(&mut self, pipeline: Box<dyn Pipeline>) {
        self.pipeline = pipeline;
        self.groups.iter_mut().for_each(Vec::clear);
    }

    /// UDP ports that the peer of a port may have at most.
    pub fn udp_ports_max(&self) -> u8 {
        self.io.capabilities().udp_ports_max
    }

    /// Longest datagram that the data path takes, in bytes.
    pub fn datagram_len_max(&self) -> usize {
        self.io.capabilities().datagram_len_max
    }

    /// Makes a peer's address a port.
    ///
    /// # Errors
    ///
    /// When the backend refuses.
    pub fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), IoError> {
        self.bind_ports(port, peer, 1)
    }

    /// The same for a peer that sends from several consecutive UDP ports, `peer`'s first. Packets for it go to the one that its last packet came
    /// from.
    ///
    /// # Errors
    ///
    /// The backend's: [`IoError::Unsupported`] where it knows a peer by one UDP port.
    pub fn bind_ports(&mut self, port: u16, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        PacketIo::bind_ports(&mut self.io, PortId(port), peer, udp_ports)
    }

    /// Gives a job keys on a port: from now on its packets there have tags in both directions, and those without the right one are dropped and
    /// counted. Keys that it has already change nothing; binding the port again, or unbinding it, takes all keys there away.
    ///
    /// # Errors
    ///
    /// [`IoError::Oversize`] when the data path sends no packets as long as the pipeline's with a tag, [`IoError::Unsupported`] when too many
    /// jobs have keys on the port; nothing has changed then.
    pub fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), IoError> {
        let datagram_len = header::LEN + self.pipeline.info().lane_words as usize * 4;
        self.io.authenticate(PortId(port), keys, datagram_len)
    }

    /// Takes a job's keys on a port away.
    pub fn forget_keys(&mut self, port: u16, job: u16, epoch: u32) {
        self.io.forget(PortId(port), job, epoch);
    }

    /// Number and epoch of the jobs that have keys on a port.
    pub fn authenticated(&self, port: u16) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.io.authenticated(PortId(port))
    }

    /// Removes a port.
    ///
    /// # Errors
    ///
    /// When the backend refuses.
    pub fn unbind_port(&mut self, port: u16) -> Result<(), IoError> {
        self.io.unbind_port(PortId(port))
    }

    /// The address of a port's peer, if the backend has addresses.
    pub fn peer(&self, port: u16) -> Option<SocketAddr> {
        self.io.peer(PortId(port))
    }

    /// The data path's local address, if it has one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.io.local_addr()
    }

    /// Adds all entries or none.
    ///
    /// # Errors
    ///
    /// The error of the first entry that does not fit.
    pub fn insert(&mut self, entries: &[TableEntry]) -> Result<(), EntryError> {
        for (i, entry) in entries.iter().enumerate() {
            if let Err(error) = self.pipeline.insert(entry) {
                for done in &entries[..i] {
                    let _ = self.pipeline.delete(done);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes all entries or none.
    ///
    /// # Errors
    ///
    /// [`EntryError::NotFound`] when an entry is not there; then nothing was removed.
    pub fn delete(&mut self, entries: &[TableEntry]) -> Result<(), EntryError> {
        for (i, entry) in entries.iter().enumerate() {
            if let Err(error) = self.pipeline.delete(entry) {
                for done in &entries[..i] {
                    let _ = self.pipeline.insert(done);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sets the replicas of a multicast group; an empty list deletes it.
    ///
    /// # Errors
    ///
    /// [`EntryError::Group`] for group 0, a group above [`GROUPS_MAX`] or more than [`REPLICAS_MAX`] replicas.
    pub fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), EntryError> {
        let slot =
            self.groups.get_mut(usize::from(group)).filter(|_| group > 0 && replicas.len() <= REPLICAS_MAX);
        *slot.ok_or(EntryError::Group(group))? = replicas.to_vec();
        Ok(())
    }

    /// Advances every (slot, set) of a range to `chunk`, where it is newer, and returns the newest chunk now stored in the
    /// range, in serial order. Uses ordinary ADVANCE packets.
    ///
    /// # Errors
    ///
    /// [`EntryError::Param`] when the range does not lie in the switch's slots.
    pub fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, EntryError> {
        let end = first_slot.checked_add(slots).filter(|end| end * 2 <= self.pipeline.info().entries);
        let end = end.ok_or(EntryError::Param(0))?;
        // After an ADVANCE every slot holds `chunk` or a newer one, so distances from `chunk` are totally ordered.
        let mut newest = None;
        for slot in first_slot..end {
            for set in 0..2 {
                let stored = self
                    .controller_packet(Kind::Advance, (slot, set), chunk, 0)
                    .ok_or(EntryError::Param(0))?;
                newest = newest.max(Some(stored.chunk.wrapping_sub(chunk)));
            }
        }
        newest.map(|distance| chunk.wrapping_add(distance)).ok_or(EntryError::Param(1))
    }

    /// Releases what an epoch occupies of a range of slots that best-effort jobs share, by ADVANCE packets to chunk 0.
    ///
    /// # Errors
    ///
    /// [`EntryError::Param`] when the range does not lie in the switch's slots.
    pub fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), EntryError> {
        let end = first_slot.checked_add(slots).filter(|end| end * 2 <= self.pipeline.info().entries);
        let end = end.ok_or(EntryError::Param(0))?;
        for place in (first_slot..end).flat_map(|slot| [(slot, 0), (slot, 1)]) {
            self.controller_packet(Kind::Advance, place, 0, epoch).ok_or(EntryError::Param(0))?;
        }
        Ok(())
    }

    /// Contributions that found no slot, by the multicast group to the aggregator; `None` if the program is not for best-effort jobs.
    pub fn spilled(&self, group: u16) -> Option<u64> {
        let spilled = self.pipeline.counters(p4info::counter_id(allreduce::id::SPILLED));
        spilled.get(usize::from(group)).copied()
    }

    /// Reads a (slot, set) by a PROBE packet; returns its chunk and bitmap.
    pub fn probe(&mut self, slot: u32, set: u8) -> Option<Repr> {
        self.controller_packet(Kind::Probe, (slot, set), 0, 0)
    }

    fn controller_packet(
        &mut self,
        kind: Kind,
        (slot, set): (u32, u8),
        chunk: u32,
        epoch: u32,
    ) -> Option<Repr> {
        let slot = u16::try_from(slot).ok().filter(|slot| *slot < 1 << 15)?;
        let repr = Repr { epoch, ..Repr::from_controller(kind, (slot, set), chunk) };
        let mut bytes = [0; header::LEN];
        repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
        let packet = Received { port: PortId(CONTROLLER_PORT), offset: 0, len: header::LEN as u32, ecn: 0 };
        let mut verdicts = Vec::with_capacity(1);
        self.pipeline.burst(&[packet], &mut bytes, &mut verdicts);
        let answered = verdicts.first().is_some_and(|verdict| verdict.send == Send::Unicast(CONTROLLER_PORT));
        let packet = header::Packet::new_checked(&bytes[..]).ok()?;
        answered.then(|| Repr::parse(&packet).ok()).flatten()
    }

    /// The counters of the switch.
    pub fn counters(&self) -> SwitchCounters {
        let packets = self.pipeline.counters(p4info::counter_id(allreduce::id::PACKETS));
        let answers = self.pipeline.counters(p4info::counter_id(allreduce::id::ANSWERS));
        let io = self.io.counters();
        SwitchCounters {
            packets: Reason::ALL.iter().map(|r| r.name()).zip(packets.iter().copied()).collect(),
            results: answers.first().copied().unwrap_or(0),
            repeated: answers.get(1).copied().unwrap_or(0),
            unknown_source: io.unknown_source,
            output_dropped: self.output_dropped + self.egress.as_ref().map_or(0, |egress| egress.timed_out()),
            io,
            queues: self.egress.as_ref().map(|egress| egress.counters()),
        }
    }
}

/// Appends a packet to the output, or gives it to the control plane.
fn to(
    cpu: &mut Option<(u16, PacketInCallback)>,
    output: &mut Vec<Transmit>,
    packet: Transmit,
    memory: &[u8],
) {
    match cpu {
        Some((port, callback)) if *port == packet.port.0 => {
            packet.bytes(memory).into_iter().for_each(callback);
        }
        _ => output.push(packet),
    }
}

#[cfg(test)]
mod tests;
