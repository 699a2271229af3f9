//! A sequence of packets played to a printed program, and to the interpreter.

use std::sync::Arc;

use netfold_lab::differential::{Arrival, Copy, Sequence, Settings};
use netfold_p4::allreduce::{self, id};
use netfold_p4::entry::TableEntry;
use netfold_p4::interpret::{Interpreter, Send};
use netfold_p4::ir::{BinOp, Expr, Intrinsic, Program, Stmt};
use netfold_p4::p4info::{counter_id, table_id};
use netfold_p4::profile::Profile;
use netfold_p4::transit;
use netfold_p4_printed::{Fault, RECIRCULATION_PORT, Sent, TextError, Tofino};
use netfold_wire::frame::OUTER_LEN;
use netfold_wire::{Flags, Kind, Packet, UDP_PORT, header};

/// Where the host is that sequences have at the recirculation port.
const MOVED_PORT: u16 = 300;
/// Bytes of a buffer cell.
const CELL_BYTES: u32 = 80;

/// What leaves for a packet, and the counters behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) copies: Vec<Copy>,
    /// Egress queue of a packet that is sent.
    pub(crate) queue: u8,
    pub(crate) counters: Vec<Vec<u64>>,
}

/// What a sequence shows: a step for each packet, and the registers at the end.
pub(crate) struct Trace {
    pub(crate) sequence: Sequence,
    pub(crate) steps: Vec<Step>,
    registers: Vec<(String, Vec<Vec<u32>>)>,
    /// Ids of the program's counters.
    counters: Vec<u32>,
    /// Passes in which the printed program takes the words.
    passes: usize,
}

/// How a printed program differs from the interpreter.
#[derive(Debug)]
#[expect(dead_code, reason = "printed where a test fails")]
pub(crate) enum Difference {
    /// The text is not understood.
    Text(TextError),
    /// It does what a program must not do, at this packet.
    Fault(usize, Fault),
    /// Another output, at this packet.
    Step(usize, String),
    /// Other registers at the end.
    Register(String),
}

/// The address of another host, to which a program with forwarding has a path, and its port.
const ELSEWHERE: (u32, u16) = (0x0a63_0001, 9);

/// What every target can be sent.
fn settings(packets: usize) -> Settings {
    Settings { bytes_min: 14, out_of_range: false, ..Settings::software(packets) }
}

/// Whether the parser of a switch runs out of bytes in this frame.
fn is_short(frame: &[u8], lane_bytes: usize) -> bool {
    let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    if frame.len() < 14 || half(12) != 0x0800 {
        return frame.len() < 14;
    }
    let is_udp = |frame: &[u8]| frame[14] == 0x45 && half(20) & 0x3fff == 0 && frame[23] == 17;
    if frame.len() < 34 || !is_udp(frame) {
        return frame.len() < 34;
    }
    if frame.len() < OUTER_LEN || half(36) != UDP_PORT {
        return frame.len() < OUTER_LEN;
    }
    let datagram = &frame[OUTER_LEN..];
    if datagram.len() < header::LEN {
        return true;
    }
    let is_bare = Packet::new_unchecked(datagram).flags().contains(Flags::BARE);
    !is_bare && datagram.len() < header::LEN + lane_bytes
}

/// Adds fragments, packets that claim to have IPv4 options, and packets of members that fail a check or that no job knows, with a chunk that empty registers seem to hold.
fn foreign_packets(sequence: &mut Sequence) {
    let mut packets = Vec::new();
    for (at, arrival) in std::mem::take(&mut sequence.packets).into_iter().enumerate() {
        if at % 6 == 0 && arrival.bytes.len() >= OUTER_LEN + header::LEN {
            let mut foreign = arrival.clone();
            let mut packet = Packet::new_unchecked(&mut foreign.bytes[OUTER_LEN..]);
            packet.set_chunk(0);
            match at / 6 % 4 {
                0 => packet.set_version(9),
                1 => packet.set_key(packet.key() ^ 1),
                2 => set_ipv4_word(&mut foreign.bytes, 3, |word| word | 0x2000),
                // Options, which there are none of.
                _ => set_ipv4_word(&mut foreign.bytes, 0, |word| word.wrapping_add(0x100)),
            }
            packets.push(foreign);
        }
        packets.push(arrival);
    }
    sequence.packets = packets;
}

/// Makes some packets ones to another host: of each four one without a change, one of another protocol, and one with a wrong checksum.
fn packets_for_others(sequence: &mut Sequence) {
    sequence.entries.push(transit::entry(ELSEWHERE.0, ELSEWHERE.1));
    for (at, arrival) in sequence.packets.iter_mut().enumerate().filter(|(at, _)| at % 3 == 1) {
        let (high, low) = ((ELSEWHERE.0 >> 16) as u16, ELSEWHERE.0 as u16);
        set_ipv4_word(&mut arrival.bytes, 8, |_| high);
        set_ipv4_word(&mut arrival.bytes, 9, |_| low);
        match at / 3 % 4 {
            0 => set_ipv4_word(&mut arrival.bytes, 4, |word| word & 0xff00 | 6),
            1 if arrival.bytes.len() > 25 => arrival.bytes[25] ^= 1,
            _ => {}
        }
    }
}

/// Replaces a 16-bit word of the IPv4 header, and updates the checksum for it (RFC 1624).
fn set_ipv4_word(frame: &mut [u8], word: usize, change: impl Fn(u16) -> u16) {
    let Some(ip) = frame.get_mut(14..34) else { return };
    let get = |ip: &[u8], word: usize| u16::from_be_bytes([ip[2 * word], ip[2 * word + 1]]);
    let (old, checksum) = (get(ip, word), get(ip, 5));
    let new = change(old);
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    ip[2 * word..2 * word + 2].copy_from_slice(&new.to_be_bytes());
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// The frame with 0 for a checksum of 0xffff where 0 is right: chips sum the header with its checksum, and to them these are one number.
fn with_one_zero(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some([0xff, 0xff]) = frame.get(24..26) {
        let words = frame[14..34].chunks(2).enumerate().filter(|(word, _)| *word != 5);
        let sum: u32 = words.map(|(_, pair)| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        if sum != 0 && sum.is_multiple_of(0xffff) {
            frame[24..26].fill(0);
        }
    }
    frame
}

/// The program without comparisons of a frame's length, which ingress of a chip does not know.
fn without_lengths(program: &Program) -> Program {
    fn in_expr(expr: &Expr) -> Expr {
        let inner = |side: &Expr| Box::new(in_expr(side));
        match expr {
            Expr::Binary(BinOp::Eq, left, _) if **left == Expr::Intrinsic(Intrinsic::PacketLength) => {
                Expr::Const(0, 8).eq(Expr::Const(0, 8))
            }
            Expr::Binary(op, left, right) => Expr::Binary(*op, inner(left), inner(right)),
            Expr::Not(side) => Expr::Not(inner(side)),
            other => other.clone(),
        }
    }
    fn in_block(block: &[Stmt]) -> Vec<Stmt> {
        let stmt = |stmt: &Stmt| match stmt {
            Stmt::If(cond, then, otherwise) => Stmt::If(in_expr(cond), in_block(then), in_block(otherwise)),
            other => other.clone(),
        };
        block.iter().map(stmt).collect()
    }
    Program { ingress: in_block(&program.ingress), ..program.clone() }
}

impl Trace {
    /// Plays a sequence to the interpreter, for a program of so many passes. Frames that end behind the first pass's words and before the last are left out: there the passes before
    /// have taken their words.
    pub(crate) fn in_passes(profile: &Profile, passes: usize, seed: u64, packets: usize) -> Self {
        let program = allreduce::program(profile).unwrap();
        let mut sequence = Sequence::from_seed(seed, profile, &settings(packets));
        for (at, arrival) in sequence.packets.iter_mut().enumerate().filter(|(at, _)| at % 2 == 1) {
            // Another TTL than switches set.
            set_ipv4_word(&mut arrival.bytes, 4, |word| word & 0xff | (at as u16) << 8);
        }
        foreign_packets(&mut sequence);
        if profile.transit > 0 {
            packets_for_others(&mut sequence);
        }
        let lane_bytes = profile.payload_bytes() as usize;
        sequence
            .packets
            .retain(|a| !is_short(&a.bytes, lane_bytes) || is_short(&a.bytes, lane_bytes / passes));
        let mut interpreter = Interpreter::new(Arc::new(without_lengths(&program))).unwrap();
        sequence.entries.iter().for_each(|entry| interpreter.insert(entry).unwrap());
        let mut steps = Vec::new();
        for arrival in &sequence.packets {
            let short = is_short(&arrival.bytes, lane_bytes);
            let (queue, copies) =
                if short { (0, Vec::new()) } else { interpreted(&mut interpreter, &sequence, arrival) };
            let counters = program.counters.iter().map(|counter| counter_id(counter.id));
            let counters = counters.map(|id| interpreter.counters(id).to_vec()).collect();
            steps.push(Step { copies, queue, counters });
        }
        let entry = |name: &str, index| interpreter.read_register(name, index as usize).unwrap().to_vec();
        let registers = program.registers.iter().map(|register| {
            (register.name.clone(), (0..register.size).map(|index| entry(&register.name, index)).collect())
        });
        let counters = program.counters.iter().map(|counter| counter_id(counter.id)).collect();
        Self { steps, registers: registers.collect(), counters, sequence, passes }
    }

    /// Plays the sequence to a printed program, up to the first difference.
    pub(crate) fn compare(&self, text: &str) -> Result<Tofino, Difference> {
        let mut tofino = Tofino::new(text).map_err(Difference::Text)?;
        for entry in &self.sequence.entries {
            let refused = |error| Difference::Step(0, format!("{entry:?}: {error}"));
            tofino.insert(&as_on_chips(entry)).map_err(refused)?;
        }
        for (at, (arrival, expected)) in self.sequence.packets.iter().zip(&self.steps).enumerate() {
            let printed = self.printed(&mut tofino, arrival);
            let (queue, copies) = printed.map_err(|fault| Difference::Fault(at, fault))?;
            let counters = self.counters.iter().map(|id| tofino.counters(*id).to_vec()).collect();
            let found = Step { copies, queue, counters };
            let differs = match self.passes {
                1 => found != *expected,
                _ => with_advance_unnamed(&found) != with_advance_unnamed(expected),
            };
            if differs {
                return Err(Difference::Step(
                    at,
                    format!("{arrival:02x?}: {found:02x?}, expected {expected:02x?}"),
                ));
            }
        }
        for (name, entries) in &self.registers {
            for (index, expected) in entries.iter().enumerate() {
                self.compare_entry(&tofino, name, index, expected)?;
            }
        }
        Ok(tofino)
    }

    /// Compares an entry of a register with those for the parts of the words: lanes are one part behind the other, exponents are those of the last, and
    /// all parts have received the same.
    fn compare_entry(
        &self,
        tofino: &Tofino,
        name: &str,
        index: usize,
        expected: &[u32],
    ) -> Result<(), Difference> {
        let entries = self.registers.iter().find(|(known, _)| known == name).map_or(0, |(_, all)| all.len());
        let part = |part: usize| {
            let mut found = Vec::new();
            let known = tofino.read_register(name, part * entries + index, &mut found);
            known.then_some(found)
        };
        let parts: Option<Vec<Vec<u32>>> = (0..self.passes).map(part).collect();
        let none = Difference::Register(format!("{name}[{index}]: there is none"));
        let mut parts = parts.ok_or(none)?;
        let found = match name {
            "sum" => vec![parts.concat()],
            "exponent" => {
                let last = parts.split_off(self.passes - 1);
                let unused = parts.iter().flatten().all(|exponent| *exponent == 0);
                if unused { last } else { parts }
            }
            _ => parts,
        };
        match found.iter().all(|part| *part == *expected) {
            true => Ok(()),
            false => {
                Err(Difference::Register(format!("{name}[{index}]: {found:x?}, expected {expected:x?}")))
            }
        }
    }

    /// What a printed program sends for a packet.
    fn printed(&self, tofino: &mut Tofino, arrival: &Arrival) -> Result<(u8, Vec<Copy>), Fault> {
        let full = OUTER_LEN as u32 + header::LEN as u32 + self.sequence.profile.payload_bytes();
        let cells = arrival.queue_depth * full.div_ceil(CELL_BYTES);
        let outcome = tofino.receive(moved(arrival.port), &arrival.bytes)?;
        let targets = match outcome.sent {
            Sent::Nothing => Vec::new(),
            Sent::Port(port) => vec![(if port == MOVED_PORT { RECIRCULATION_PORT } else { port }, 0)],
            Sent::Group(group) => replicas(&self.sequence, group),
        };
        let mut copies = Vec::new();
        for (port, instance) in targets {
            if let Some(bytes) = tofino.egress(instance, cells, &outcome.bytes)? {
                copies.push(Copy { port, bytes });
            }
        }
        Ok((outcome.queue, copies))
    }
}

/// The step without the children that a reply to ADVANCE names: in one pass none are named if the slot has a newer chunk, and later passes have that chunk.
fn with_advance_unnamed(step: &Step) -> Step {
    let mut step = step.clone();
    for copy in step.copies.iter_mut().filter(|copy| copy.bytes.len() >= OUTER_LEN + header::LEN) {
        let mut packet = Packet::new_unchecked(&mut copy.bytes[OUTER_LEN..]);
        if packet.kind() == Kind::Advance as u8 {
            packet.set_bitmap(0);
        }
    }
    step
}

/// Port and instance of each member of a group.
fn replicas(sequence: &Sequence, group: u16) -> Vec<(u16, u16)> {
    let found = sequence.groups.iter().find(|known| known.id == group);
    found.into_iter().flat_map(|group| &group.replicas).map(|r| (r.port, r.instance)).collect()
}

fn moved(port: u16) -> u16 {
    if port == RECIRCULATION_PORT { MOVED_PORT } else { port }
}

/// The entry with a port of 9 bits.
pub(crate) fn as_on_chips(entry: &TableEntry) -> TableEntry {
    let mut entry = entry.clone();
    let is_port = entry.table == table_id(id::JOB);
    for field in entry.matches.iter_mut().filter(|field| is_port && field.field == id::key::PORT) {
        field.value = moved(field.value as u16).into();
        field.mask &= 0x1ff;
    }
    entry
}

/// What the interpreter sends for a packet.
fn interpreted(interpreter: &mut Interpreter, sequence: &Sequence, arrival: &Arrival) -> (u8, Vec<Copy>) {
    let outcome = interpreter.process(arrival.port, &with_one_zero(&arrival.bytes));
    let targets = match outcome.send {
        Send::Drop => Vec::new(),
        Send::Unicast(port) => vec![(port, 0)],
        Send::Multicast(group) => replicas(sequence, group),
    };
    let copy = |(port, instance)| {
        let bytes = interpreter.egress(instance, arrival.queue_depth, &outcome.bytes);
        Copy { port, bytes }
    };
    (outcome.class, targets.into_iter().map(copy).collect())
}
