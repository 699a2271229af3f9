//! Ports in memory: packets in slots that the pipeline reads and changes in place; and external objects, which reach them.
#![expect(unsafe_code, reason = "DPDK calls ports and objects by pointers")]

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

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

/// What a program's external objects do.
pub trait Externs {
    /// Does what the object does, the `object`-th of the specification from 0: with the fields of its mailbox, which are numbers of this machine's byte
    /// order, and packets of the pipeline. It must not panic.
    fn call(&mut self, object: usize, mailbox: &mut [u32], packets: &mut Packets<'_>);
}

/// No object.
impl Externs for () {
    fn call(&mut self, _: usize, _: &mut [u32], _: &mut Packets<'_>) {}
}

/// The memory of the packets in the pipeline.
#[derive(Debug)]
pub struct Packets<'m> {
    bytes: &'m mut [u8],
    ends: &'m mut [u32],
    slot_bytes: usize,
    headroom: usize,
}

impl Packets<'_> {
    /// The memory of the packet with this number (see [`number_at`](super::PipelineConfig::number_at)), from where the packet began when it was
    /// offered to behind its room for more. `None` if there is no such number.
    #[inline]
    pub fn get(&mut self, number: u32) -> Option<&mut [u8]> {
        let start = (number as usize).checked_mul(self.slot_bytes)?;
        let slot = self.bytes.get_mut(start..start.checked_add(self.slot_bytes)?)?;
        slot.get_mut(self.headroom..)
    }

    /// Makes the packet with this number longer, as if it had been offered so; what is in its memory there, it has. False, without effect, if there is no such
    /// number, or no room.
    pub fn grow(&mut self, number: u32, bytes: u32) -> bool {
        let Some(end) = self.ends.get_mut(number as usize) else { return false };
        let longer = end.checked_add(bytes).filter(|longer| *longer as usize <= self.slot_bytes);
        *end = longer.unwrap_or(*end);
        longer.is_some()
    }
}

/// The slots, and what is in them. Nothing is allocated once it is made.
pub(super) struct Memory {
    bytes: Box<[u8]>,
    slot_bytes: usize,
    headroom: usize,
    most: usize,
    /// Where a packet's number is written into it.
    number_at: Option<usize>,
    /// The reference to what executes external objects, while the pipeline runs.
    pub(super) externs: Option<NonNull<c_void>>,
    waiting: Vec<VecDeque<Waiting>>,
    free: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    /// Where each packet ends in its slot.
    ends: Vec<u32>,
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
    /// `slots` packets of at most `most` bytes, whose headers have at most `headers` bytes together, and from which at most `extracted` are extracted.
    pub(super) fn new(
        inputs: u32,
        slots: u32,
        most: usize,
        headers: usize,
        extracted: usize,
        number_at: Option<usize>,
    ) -> Self {
        // Headers may be emitted in front of the packet, and an extraction may go beyond its end.
        let slot_bytes = (headers + most + extracted + SLACK).next_multiple_of(64);
        let count = slots as usize;
        Self {
            bytes: vec![0; slot_bytes * count].into_boxed_slice(),
            slot_bytes,
            headroom: headers,
            most,
            number_at,
            externs: None,
            waiting: (0..inputs).map(|_| VecDeque::with_capacity(count)).collect(),
            free: (0..slots).rev().collect(),
            tokens: vec![0; count],
            ends: vec![0; count],
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
        let start = slot as usize * self.slot_bytes + self.headroom;
        let mut at = start;
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        // Behind a shorter packet it is of no account, and within the slot all the same.
        let number = self.number_at.and_then(|at| self.bytes.get_mut(start + at..start + at + 4));
        if let Some(number) = number {
            number.copy_from_slice(&slot.to_be_bytes());
        }
        self.tokens[slot as usize] = token;
        self.ends[slot as usize] = (self.headroom + length) as u32;
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
        // DPDK's length does not know of what a packet has more.
        let end = self.ends.get(slot as usize).copied().unwrap_or_default();
        let length = end.checked_sub(packet.offset);
        let (start, length) = length.map_or((0, 0), |length| (packet.offset, length));
        self.done.push(Done { port, slot, start, length });
        self.outstanding -= 1;
    }
}

/// An external object, and arguments of its creation.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) memory: *mut Memory,
    /// Its place among the objects.
    pub(super) number: usize,
    /// Fields of its mailbox.
    pub(super) fields: usize,
}

pub(super) unsafe extern "C" fn create_object(args: *const c_char) -> *mut c_void {
    // SAFETY: the caller of the object's configuration passes an `Object`, which is alive through the call, and DPDK passes it on.
    let object = unsafe { &*args.cast::<Object>() };
    Box::into_raw(Box::new(object.clone())).cast()
}

pub(super) unsafe extern "C" fn free_object(object: *mut c_void) {
    // SAFETY: DPDK frees an object once, and `create_object` made it of a box.
    drop(unsafe { Box::from_raw(object.cast::<Object>()) });
}

/// The member function of every object; 1 stands for an operation that is complete.
pub(super) unsafe extern "C" fn run_object(object: *mut c_void, mailbox: *mut c_void) -> c_int {
    // SAFETY: an object made by `create_object`. The memory outlives the pipeline, which calls this only while it runs, and the caller that runs it
    // holds no reference to the memory meanwhile.
    let (object, memory) = unsafe {
        let object = &*object.cast::<Object>();
        (object, &mut *object.memory)
    };
    // SAFETY: DPDK's memory for the mailbox, as large as its structure, which has that many fields of 32 bits first. Nothing else uses it now.
    let mailbox = unsafe { std::slice::from_raw_parts_mut(mailbox.cast::<u32>(), object.fields) };
    if let Some(externs) = memory.externs {
        // SAFETY: the pipeline's `run` has put the address of this reference there, and waits for the pipeline.
        let externs = unsafe { &mut **externs.cast::<&mut dyn Externs>().as_ptr() };
        let Memory { bytes, ends, slot_bytes, headroom, .. } = memory;
        let mut packets = Packets { bytes, ends, slot_bytes: *slot_bytes, headroom: *headroom };
        externs.call(object.number, mailbox, &mut packets);
    }
    1
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
