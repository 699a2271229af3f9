//! Ports in memory: packets in slots that the pipeline reads and changes in place.
#![expect(unsafe_code, reason = "DPDK calls the ports by pointers")]

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};

use crate::sys;

/// Bytes behind a packet: an instruction reads and writes 8 bytes at a time, whatever the width of its field.
const SLACK: usize = 8;

/// A packet that waits to be received.
struct Waiting {
    slot: u32,
    length: u32,
}

/// A packet that the pipeline has sent or dropped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) port: u32,
    pub(super) slot: u32,
    pub(super) start: u32,
    pub(super) length: u32,
}

/// The slots, and what is in them. Nothing is allocated once it is made.
pub(super) struct Memory {
    bytes: Box<[u8]>,
    slot_bytes: usize,
    headroom: usize,
    most: usize,
    waiting: Vec<VecDeque<Waiting>>,
    free: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    pub(super) done: Vec<Done>,
    /// Packets received and not sent yet, and those that wait.
    pub(super) outstanding: usize,
}

/// What a port knows.
struct Port {
    memory: *mut Memory,
    number: u32,
}

impl Memory {
    /// `slots` packets of at most `most` bytes, whose headers have at most `headers` bytes together.
    pub(super) fn new(inputs: u32, slots: u32, most: usize, headers: usize) -> Self {
        // Headers may be emitted in front of the packet, and an extraction may go beyond its end.
        let slot_bytes = (headers + most + headers + SLACK).next_multiple_of(64);
        let count = slots as usize;
        Self {
            bytes: vec![0; slot_bytes * count].into_boxed_slice(),
            slot_bytes,
            headroom: headers,
            most,
            waiting: (0..inputs).map(|_| VecDeque::with_capacity(count)).collect(),
            free: (0..slots).rev().collect(),
            tokens: vec![0; count],
            done: Vec::with_capacity(count),
            outstanding: 0,
        }
    }

    /// Queues a packet at an input port; false when there is no such port, no slot, or the packet is too long.
    pub(super) fn offer(&mut self, port: u32, token: u32, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Some(waiting) = self.waiting.get_mut(port as usize).filter(|_| length <= self.most) else {
            return false;
        };
        let Some(slot) = self.free.pop() else { return false };
        let mut at = slot as usize * self.slot_bytes + self.headroom;
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.tokens[slot as usize] = token;
        waiting.push_back(Waiting { slot, length: length as u32 });
        self.outstanding += 1;
        true
    }

    /// The bytes of a packet that is done.
    pub(super) fn bytes(&self, done: &Done) -> &[u8] {
        let start = done.slot as usize * self.slot_bytes + done.start as usize;
        self.bytes.get(start..start + done.length as usize).unwrap_or_default()
    }

    /// Makes the slots of all packets that are done free again.
    pub(super) fn recycle(&mut self) {
        self.free.extend(self.done.drain(..).map(|done| done.slot));
    }

    fn receive(&mut self, port: u32, packet: &mut sys::rte_swx_pkt) -> bool {
        let Some(next) = self.waiting.get_mut(port as usize).and_then(VecDeque::pop_front) else {
            return false;
        };
        let slot = next.slot as usize;
        // The number of the slot, from 1.
        packet.handle = std::ptr::without_provenance_mut(slot + 1);
        packet.pkt = self.bytes[slot * self.slot_bytes..].as_mut_ptr();
        packet.offset = self.headroom as u32;
        packet.length = next.length;
        true
    }

    /// Takes a packet that was sent; where it does not lie in its slot, because a program removed more than there was, it is empty.
    fn sent(&mut self, port: u32, packet: &sys::rte_swx_pkt) {
        let slot = packet.handle.addr() as u32 - 1;
        let fits = (packet.offset as usize)
            .checked_add(packet.length as usize)
            .is_some_and(|end| end <= self.slot_bytes);
        let (start, length) = if fits { (packet.offset, packet.length) } else { (0, 0) };
        self.done.push(Done { port, slot, start, length });
        self.outstanding -= 1;
    }
}

/// Arguments of a port's creation.
pub(super) struct PortArgs {
    pub(super) memory: *mut Memory,
    pub(super) number: u32,
}

unsafe extern "C" fn create(args: *mut c_void) -> *mut c_void {
    // SAFETY: the caller of the port's configuration passes a `PortArgs`, which is alive through the call.
    let args = unsafe { &*args.cast::<PortArgs>() };
    Box::into_raw(Box::new(Port { memory: args.memory, number: args.number })).cast()
}

unsafe extern "C" fn free(port: *mut c_void) {
    // SAFETY: DPDK frees a port once, and `create` made it of a box.
    drop(unsafe { Box::from_raw(port.cast::<Port>()) });
}

unsafe extern "C" fn receive(port: *mut c_void, packet: *mut sys::rte_swx_pkt) -> c_int {
    // SAFETY: a port made by `create`, and a packet of DPDK's. The memory outlives the pipeline, which calls this only while it runs, and
    // the caller that runs it holds no reference to the memory meanwhile.
    let (port, packet) = unsafe { (&*port.cast::<Port>(), &mut *packet) };
    // SAFETY: as above.
    unsafe { &mut *port.memory }.receive(port.number, packet).into()
}

unsafe extern "C" fn send(port: *mut c_void, packet: *mut sys::rte_swx_pkt) {
    // SAFETY: as in `receive`.
    let (port, packet) = unsafe { (&*port.cast::<Port>(), &*packet) };
    // SAFETY: as in `receive`.
    unsafe { &mut *port.memory }.sent(port.number, packet);
}

/// Never called: specifications with mirroring are refused.
unsafe extern "C" fn clone(_: *mut c_void, _: *mut sys::rte_swx_pkt) {}
unsafe extern "C" fn clone_cut(_: *mut c_void, _: *mut sys::rte_swx_pkt, _: u32) {}

/// Counts nothing: the packets are in this process.
unsafe extern "C" fn input_stats(_: *mut c_void, stats: *mut sys::rte_swx_port_in_stats) {
    // SAFETY: DPDK passes memory for the statistics, which are numbers.
    unsafe { stats.write_bytes(0, 1) };
}

unsafe extern "C" fn output_stats(_: *mut c_void, stats: *mut sys::rte_swx_port_out_stats) {
    // SAFETY: as in `input_stats`.
    unsafe { stats.write_bytes(0, 1) };
}

/// The functions of input ports.
pub(super) fn inputs() -> sys::rte_swx_port_in_ops {
    sys::rte_swx_port_in_ops {
        create: Some(create),
        free: Some(free),
        pkt_rx: Some(receive),
        stats_read: Some(input_stats),
    }
}

/// The functions of output ports.
pub(super) fn outputs() -> sys::rte_swx_port_out_ops {
    sys::rte_swx_port_out_ops {
        create: Some(create),
        free: Some(free),
        pkt_tx: Some(send),
        pkt_fast_clone_tx: Some(clone),
        pkt_clone_tx: Some(clone_cut),
        flush: None,
        stats_read: Some(output_stats),
    }
}
