//! A packet in parts: parsed on arrival, deparsed on departure.

use super::Send;
use super::eval::mask;
use crate::ir::*;

/// Arrival properties of a packet in a control block.
#[derive(Clone, Copy)]
pub(super) enum Arrival {
    Ingress { port: u16, congestion_mark: bool },
    Egress { instance: u16, queue_depth: u32 },
}

/// A header instance.
struct Instance {
    valid: bool,
    fields: Vec<u64>,
}

/// The state of one packet in a program. Reused between packets only for its memory.
pub(super) struct Packet {
    headers: Vec<Instance>,
    pub(super) has_lanes: bool,
    pub(super) lanes: Vec<u32>,
    pub(super) lane_vars: Vec<Vec<u64>>,
    pub(super) metadata: Vec<u64>,
    /// Offset of the payload.
    rest: usize,
    pub(super) port: u16,
    pub(super) length: usize,
    pub(super) checksum_error: bool,
    pub(super) congestion_mark: bool,
    pub(super) instance: u16,
    pub(super) queue_depth: u32,
    /// The current destination and queue.
    pub(super) send: Send,
    pub(super) class: u8,
}

impl Packet {
    pub(super) fn new(program: &Program) -> Self {
        let lanes = program.lane_count() as usize;
        let instance = |header: &Header| Instance { valid: false, fields: vec![0; header.fields.len()] };
        Self {
            headers: program.headers.iter().map(instance).collect(),
            has_lanes: false,
            lanes: vec![0; lanes],
            lane_vars: program.lane_vars.iter().map(|_| vec![0; lanes]).collect(),
            metadata: vec![0; program.metadata.len()],
            rest: 0,
            port: 0,
            length: 0,
            checksum_error: false,
            congestion_mark: false,
            instance: 0,
            queue_depth: 0,
            send: Send::Drop,
            class: 0,
        }
    }

    /// Resets the state and parses a packet.
    pub(super) fn arrive(&mut self, program: &Program, how: Arrival, bytes: &[u8]) {
        self.headers.iter_mut().for_each(|header| header.valid = false);
        self.has_lanes = false;
        self.metadata.fill(0);
        self.lane_vars.iter_mut().for_each(|var| var.fill(0));
        (self.send, self.class, self.rest, self.length) = (Send::Drop, 0, 0, bytes.len());
        (self.port, self.congestion_mark, self.instance, self.queue_depth) = match how {
            Arrival::Ingress { port, congestion_mark } => (port, congestion_mark, 0, 0),
            Arrival::Egress { instance, queue_depth } => (0, false, instance, queue_depth),
        };
        self.parse(program, bytes);
        let wrong = |(place, right)| matches!(place, LValue::Field(h, f) if self.field(h, f) != right);
        self.checksum_error = self.right_checksum(program).is_some_and(wrong);
    }

    /// Position and expected value of the IPv4 checksum, if there is one.
    fn right_checksum(&self, program: &Program) -> Option<(LValue, u64)> {
        let id = program.ipv4_checksum.filter(|id| self.has(Part::Header(*id)))?;
        let (field, right) = checksum(program.header(id), &self.headers[usize::from(id.0)].fields);
        Some((LValue::Field(id, field), right))
    }

    fn parse(&mut self, program: &Program, bytes: &[u8]) {
        let mut next = Some(StateId(0));
        while let Some(state) = next {
            let state = &program.parser.states[usize::from(state.0)];
            for part in &state.extract {
                if !self.extract(program, *part, bytes) {
                    return;
                }
            }
            next = match &state.next {
                Next::Accept => None,
                Next::Select { on, cases, otherwise } => {
                    let hit = cases.iter().find(|(values, _)| self.selected(program, on, values));
                    hit.map(|(_, target)| *target).or(*otherwise)
                }
            };
        }
    }

    fn selected(&self, program: &Program, on: &[(HeaderId, u16)], values: &[(u64, u64)]) -> bool {
        on.iter().zip(values).all(|((header, field), (value, care))| {
            let care = care & mask(program.field(*header, *field).bits);
            self.field(*header, *field) & care == value & care
        })
    }

    /// Extracts a part from the remaining bytes; false when they are too short.
    fn extract(&mut self, program: &Program, part: Part, bytes: &[u8]) -> bool {
        let len = match part {
            Part::Header(header) => program.header(header).len_bytes(),
            Part::Lanes => program.lane_bytes(),
        };
        let end = self.rest + len as usize;
        let Some(taken) = bytes.get(self.rest..end) else { return false };
        self.rest = end;
        match part {
            Part::Header(header) => {
                let instance = &mut self.headers[usize::from(header.0)];
                instance.valid = true;
                let mut at = 0;
                for (value, field) in instance.fields.iter_mut().zip(&program.header(header).fields) {
                    *value = read_bits(taken, at, field.bits);
                    at += field.bits as usize;
                }
            }
            Part::Lanes => {
                self.has_lanes = true;
                let width = program.lane_bits() as usize / 8;
                for (lane, bytes) in self.lanes.iter_mut().zip(taken.chunks_exact(width)) {
                    *lane = bytes.iter().fold(0, |lane, byte| lane << 8 | u32::from(*byte));
                }
            }
        }
        true
    }

    pub(super) fn has(&self, part: Part) -> bool {
        match part {
            Part::Header(header) => self.headers[usize::from(header.0)].valid,
            Part::Lanes => self.has_lanes,
        }
    }

    pub(super) fn remove(&mut self, part: Part) {
        match part {
            Part::Header(header) => self.headers[usize::from(header.0)].valid = false,
            Part::Lanes => self.has_lanes = false,
        }
    }

    /// Adds zero lanes to a packet that has none; false when it has a payload.
    pub(super) fn add_lanes(&mut self) -> bool {
        self.has_lanes = self.rest == self.length;
        self.lanes.fill(0);
        self.has_lanes
    }

    /// A header field; 0 when the header is absent.
    pub(super) fn field(&self, header: HeaderId, field: u16) -> u64 {
        let instance = &self.headers[usize::from(header.0)];
        if instance.valid { instance.fields[usize::from(field)] } else { 0 }
    }

    /// Assigns a value of the l-value's width; no effect on an absent header.
    pub(super) fn assign(&mut self, place: LValue, value: u64) {
        match place {
            LValue::Meta(meta) => self.metadata[usize::from(meta.0)] = value,
            LValue::Field(header, field) => {
                let instance = &mut self.headers[usize::from(header.0)];
                if instance.valid {
                    instance.fields[usize::from(field)] = value;
                }
            }
        }
    }

    /// The packet to send: checksum, present parts in deparser order, and the payload of `arrived`.
    pub(super) fn depart(&mut self, program: &Program, arrived: &[u8]) -> Vec<u8> {
        if let Some((place, right)) = self.right_checksum(program) {
            self.assign(place, right);
        }
        let mut bytes = Vec::with_capacity(arrived.len());
        for part in program.deparser.iter().filter(|part| self.has(**part)) {
            match part {
                Part::Header(header) => {
                    let values = &self.headers[usize::from(header.0)].fields;
                    emit(program.header(*header).fields.iter().zip(values), &mut bytes);
                }
                Part::Lanes if program.lane_bits() == 16 => {
                    bytes.extend(self.lanes.iter().flat_map(|lane| (*lane as u16).to_be_bytes()));
                }
                Part::Lanes => bytes.extend(self.lanes.iter().flat_map(|lane| lane.to_be_bytes())),
            }
        }
        bytes.extend_from_slice(arrived.get(self.rest..).unwrap_or_default());
        bytes
    }
}

/// `bits` of big-endian `bytes` from bit `at`, which lie within them.
fn read_bits(bytes: &[u8], at: usize, bits: u32) -> u64 {
    let end = at + bits as usize;
    let span = bytes[at / 8..end.div_ceil(8)].iter();
    let word = span.fold(0u128, |word, byte| word << 8 | u128::from(*byte));
    (word >> (end.next_multiple_of(8) - end)) as u64 & mask(bits)
}

/// Appends fields, which fill whole bytes.
fn emit<'f>(fields: impl Iterator<Item = (&'f Field, &'f u64)>, bytes: &mut Vec<u8>) {
    let (mut word, mut held) = (0u128, 0);
    for (field, value) in fields {
        word = word << field.bits | u128::from(*value);
        held += field.bits;
        while held >= 8 {
            held -= 8;
            bytes.push((word >> held) as u8);
        }
        word &= u128::from(mask(held));
    }
}

/// Index of the checksum field of an IPv4 header and its expected value: the complement of the one's complement sum
/// of the other fields in 16-bit words (RFC 1071).
fn checksum(header: &Header, fields: &[u64]) -> (u16, u64) {
    let is_checksum = |field: &Field| field.name == "checksum";
    let own = header.fields.iter().position(is_checksum).unwrap_or(0);
    let mut bytes = Vec::with_capacity(20);
    emit(header.fields.iter().zip(fields).filter(|(field, _)| !is_checksum(field)), &mut bytes);
    let words = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (own as u16, u64::from(!folded as u16))
}
