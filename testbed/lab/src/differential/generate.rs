//! Packets that the hosts around a switch might send, right and wrong.

use netfold_p4::profile::{Encapsulation, Profile};
use netfold_wire::frame::OUTER_LEN;
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::jobs::{CONTROLLER, Job, Jobs, Sharing, Slot, UNKNOWN_SENDER};
use super::sequence::{Arrival, Settings};

/// Packets that may come again.
const RECENT: usize = 48;

/// Draws the packets of a sequence.
pub(super) struct Generator<'a> {
    rng: Xoshiro256PlusPlus,
    profile: &'a Profile,
    settings: &'a Settings,
    jobs: Jobs,
    arrivals: Vec<Arrival>,
}

/// A datagram before it is wrapped: where it comes from, header and whether lanes follow.
struct Datagram {
    port: u16,
    repr: Repr,
}

impl<'a> Generator<'a> {
    pub(super) fn new(
        rng: Xoshiro256PlusPlus,
        profile: &'a Profile,
        settings: &'a Settings,
        jobs: Jobs,
    ) -> Self {
        Self { rng, profile, settings, jobs, arrivals: Vec::new() }
    }

    pub(super) fn packets(mut self) -> Vec<Arrival> {
        self.advances();
        let end = self.arrivals.len() + self.settings.packets;
        while self.arrivals.len() < end {
            let arrival = match self.rng.random_range(0..100) {
                0..60 => self.progress(),
                60..72 => self.again(),
                72..78 => self.other_chunk(),
                78..88 => self.wrong_header(),
                88..91 => self.wrong_length(),
                91..95 => self.controller(),
                95..98 => self.mangled(),
                _ => self.noise(),
            };
            self.push(arrival);
        }
        self.arrivals
    }

    fn push(&mut self, mut arrival: Arrival) {
        if arrival.bytes.len() < self.settings.bytes_min {
            arrival.bytes.resize(self.settings.bytes_min, 0);
        }
        self.arrivals.push(arrival);
    }

    /// The controller moves the slots of every job to just before its first chunks, most of the time.
    fn advances(&mut self) {
        let mut wanted = Vec::new();
        for Job { node, slots, .. } in &self.jobs.list {
            for (i, slot) in (0u32..).zip(slots) {
                wanted.push((2 * node.base + i, slot.chunk.wrapping_sub(1)));
            }
        }
        for (index, chunk) in wanted {
            if self.rng.random_bool(0.95) {
                // In steps, because a newer number is less than 2^31 ahead.
                for chunk in [chunk / 3, chunk / 3 * 2, chunk] {
                    let datagram = self.controller_datagram(Kind::Advance, index, chunk);
                    let arrival = self.wrap(datagram);
                    self.push(arrival);
                }
            }
        }
    }

    fn controller_datagram(&mut self, kind: Kind, index: u32, chunk: u32) -> Datagram {
        let repr = Repr { kind, flags: Flags::BARE, job: 0, chunk, ..self.repr(0, index, chunk) };
        Datagram { port: CONTROLLER, repr }
    }

    /// A header of the job with this number among ours, for slot and set `index` of its range.
    fn repr(&mut self, job: usize, index: u32, chunk: u32) -> Repr {
        let rng = &mut self.rng;
        let node = self.jobs.list[job].node;
        let ops = &self.profile.ops;
        let op = ops
            [if rng.random_bool(0.02) { rng.random_range(0..ops.len()) } else { chunk as usize % ops.len() }];
        let bare = chunk.wrapping_mul(0x9e37_79b9) >> 30 == 0;
        let mut flags = if bare != rng.random_bool(0.02) { Flags::BARE } else { Flags::default() };
        if rng.random_bool(0.1) {
            flags = flags.with(Flags(rng.random::<u8>() & !Flags::BARE.0));
        }
        // Lanes cut off on the way, or a slot to be closed: a header alone, with no contribution.
        let cut = rng.random_bool(0.08);
        if cut {
            flags = Flags::BARE.with(Flags::TRIMMED).with(Flags(flags.0 & Flags::DROPPABLE.0));
        }
        let kind = if cut && rng.random_bool(0.3) { Kind::Close } else { Kind::Data };
        let count = if cut { 0 } else { [1, 1, 1, 2, rng.random()][rng.random_range(0..5)] };
        Repr {
            kind,
            flags,
            op,
            class: rng.random_range(0..16),
            reason: Reason::None,
            job: node.job,
            slot: (index / 2) as u16,
            set: (index % 2) as u8,
            epoch: node.epoch,
            key: node.key,
            chunk,
            bitmap: rng.random(),
            count,
            exp: rng.random(),
            exp_next: rng.random(),
            owner: LaneOwner::from_wire(rng.random_range(0..4)),
        }
    }

    /// Any slot of any job.
    fn place(&mut self) -> (usize, usize) {
        let job = self.rng.random_range(0..self.jobs.list.len());
        (job, self.rng.random_range(0..self.jobs.list[job].slots.len()))
    }

    /// The next packet that some slot waits for, to be changed until it is another: the slot goes on waiting.
    fn model(&mut self) -> Datagram {
        let (job, index) = self.place();
        let before = self.jobs.list[job].slots[index];
        let datagram = self.next(job, index);
        self.jobs.list[job].slots[index] = before;
        datagram
    }

    /// The next packet that a slot waits for.
    fn next(&mut self, job: usize, index: usize) -> Datagram {
        let Job { node, children, sharing, slots, .. } = &mut self.jobs.list[job];
        let slot = &mut slots[index];
        let parent = node.parent;
        let full = slot.sent == node.full();
        if full && (parent.is_none() || slot.settled) || slot.sent != 0 && self.rng.random_bool(0.02) {
            let chunk = slot.chunk.wrapping_add(if self.rng.random_bool(0.9) { 1 } else { 7 });
            *slot = Slot { chunk, sent: 0, settled: false };
        }
        if let Some(parent) = parent.filter(|_| slot.sent == node.full()) {
            slot.settled = true;
            let chunk = slot.chunk;
            let repr = Repr { kind: Kind::Result, ..self.repr(job, index as u32, chunk) };
            return Datagram { port: parent.port, repr };
        }
        let missing: Vec<_> = children.iter().filter(|child| slot.sent & 1 << child.rank == 0).collect();
        let child = *missing[self.rng.random_range(0..missing.len())];
        let mut bitmap = 1 << child.rank;
        if *sharing == Sharing::Aggregator && self.rng.random_bool(0.4) {
            bitmap = node.full();
        }
        let named = (*sharing == Sharing::Aggregator).then_some((children[0].port, bitmap));
        slot.sent |= bitmap;
        let chunk = slot.chunk;
        let mut repr = self.repr(job, index as u32, chunk);
        let Some((port, bitmap)) = named else { return Datagram { port: child.port, repr } };
        if self.rng.random_bool(0.95) {
            repr.bitmap = bitmap;
        }
        Datagram { port, repr }
    }

    fn progress(&mut self) -> Arrival {
        let (job, index) = self.place();
        let datagram = self.next(job, index);
        self.wrap(datagram)
    }

    /// A recent packet once more, as it was or marked as retransmitted.
    fn again(&mut self) -> Arrival {
        let count = self.arrivals.len().min(RECENT);
        if count == 0 {
            return self.progress();
        }
        let mut arrival = self.arrivals[self.arrivals.len() - 1 - self.rng.random_range(0..count)].clone();
        if self.rng.random_bool(0.5)
            && let Some(datagram) = self.datagram_of(&mut arrival.bytes)
        {
            let mut packet = Packet::new_unchecked(datagram);
            packet.set_flags(packet.flags().with(Flags::RESEND));
        }
        arrival
    }

    /// A member's packet for a chunk that the slot does not hold: older, or newer, which starts it anew.
    fn other_chunk(&mut self) -> Arrival {
        let (job, index) = self.place();
        let before = self.jobs.list[job].slots[index];
        let mut datagram = self.next(job, index);
        let chunk = &mut datagram.repr.chunk;
        if self.rng.random_bool(0.85) {
            *chunk = chunk.wrapping_sub(match self.rng.random_range(0..8) {
                0..5 => self.rng.random_range(1..4u32),
                5 => 1 << 31,
                6 => self.rng.random(),
                _ => (1 << 31) - 1,
            });
        } else {
            *chunk = chunk.wrapping_add(self.rng.random_range(1..200));
        }
        let (chunk, kind) = (*chunk, datagram.repr.kind);
        let newer = chunk.wrapping_sub(before.chunk).cast_signed() > 0;
        let slot = &mut self.jobs.list[job].slots[index];
        *slot = match kind {
            Kind::Data if newer && slot.chunk == before.chunk => {
                Slot { chunk, sent: slot.sent & !before.sent, settled: false }
            }
            Kind::Data if newer => Slot { chunk, ..*slot },
            _ => before,
        };
        self.wrap(datagram)
    }

    /// A packet that one field makes foreign.
    fn wrong_header(&mut self) -> Arrival {
        let mut datagram = self.model();
        let rng = &mut self.rng;
        let any_job = rng.random_range(0..self.jobs.list.len());
        let repr = &mut datagram.repr;
        match rng.random_range(0..10) {
            0 => repr.key ^= 1 << rng.random_range(0..32),
            1 => repr.epoch = repr.epoch.wrapping_sub(rng.random_range(1..3)),
            2 => repr.slot = rng.random_range(0..1 << 15),
            3 => repr.job ^= 1 << rng.random_range(0..16),
            4 => repr.kind = Kind::ALL[rng.random_range(0..Kind::ALL.len())],
            5 => repr.op = LaneOp::ALL[rng.random_range(0..LaneOp::ALL.len())],
            6 => datagram.port = UNKNOWN_SENDER,
            7 => {
                let children = &self.jobs.list[any_job].children;
                datagram.port = children[rng.random_range(0..children.len())].port;
            }
            _ => {
                let raw = rng.random_range(0..16);
                let field = rng.random_range(0..3);
                let mut arrival = self.wrap(datagram);
                if let Some(bytes) = self.datagram_of(&mut arrival.bytes) {
                    let mut packet = Packet::new_unchecked(bytes);
                    match field {
                        0 => packet.set_version(raw),
                        1 => packet.set_kind_raw(raw),
                        _ => packet.set_op_raw(raw),
                    }
                }
                return arrival;
            }
        }
        self.wrap(datagram)
    }

    /// Cut, padded, or with the flag that lies about the lanes.
    fn wrong_length(&mut self) -> Arrival {
        let mut datagram = self.model();
        if self.rng.random_bool(0.3) {
            let port = datagram.port;
            let bytes = self.bytes(&datagram);
            let mut flipped = bytes;
            let mut packet = Packet::new_unchecked(&mut flipped[..]);
            packet.set_flags(Flags(packet.flags().0 ^ Flags::BARE.0));
            return self.arrival(port, &flipped);
        }
        datagram.repr.flags = datagram.repr.flags.without(Flags::RESEND);
        let mut arrival = self.wrap(datagram);
        let len = arrival.bytes.len();
        if self.rng.random_bool(0.5) {
            arrival.bytes.truncate(self.rng.random_range(0..len));
        } else {
            let more = self.rng.random_range(1..40);
            arrival.bytes.extend((0..more).map(|_| self.rng.random::<u8>()));
        }
        arrival
    }

    fn controller(&mut self) -> Arrival {
        let (job, index) = self.place();
        let Job { node, slots, .. } = &mut self.jobs.list[job];
        let slot = &mut slots[index];
        let index = 2 * node.base + index as u32;
        let chunk = slot.chunk.wrapping_add([0, 0, 1, 3, u32::MAX][self.rng.random_range(0..5)]);
        let known = 2 * self.profile.slots;
        if self.settings.out_of_range && known < 1 << 16 && self.rng.random_bool(0.1) {
            let beyond = self.rng.random_range(known..1 << 16);
            let datagram = self.controller_datagram(Kind::Probe, beyond, chunk);
            return self.wrap(datagram);
        }
        let kind = if self.rng.random_bool(0.5) { Kind::Probe } else { Kind::Advance };
        if kind == Kind::Advance && chunk.wrapping_sub(slot.chunk).cast_signed() > 0 {
            *slot = Slot { chunk, sent: 0, settled: false };
        }
        let datagram = self.controller_datagram(kind, index, chunk);
        self.wrap(datagram)
    }

    /// Bits flip anywhere, more often in headers; or the IPv4 header is made to show a corner of its checksum.
    fn mangled(&mut self) -> Arrival {
        let datagram = self.model();
        let mut arrival = self.wrap(datagram);
        let ethernet = self.profile.encapsulation == Encapsulation::Ethernet;
        if ethernet && self.rng.random_bool(0.2) {
            two_zeros(&mut arrival.bytes, self.rng.random_bool(0.5));
            return arrival;
        }
        let headers = if ethernet { OUTER_LEN + header::LEN } else { header::LEN };
        for _ in 0..self.rng.random_range(1..4) {
            let end = if self.rng.random_bool(0.8) { headers } else { arrival.bytes.len() };
            let at = self.rng.random_range(0..end.min(arrival.bytes.len()));
            arrival.bytes[at] ^= 1 << self.rng.random_range(0..8);
        }
        if self.rng.random_bool(0.5) && ethernet {
            fill_checksum(&mut arrival.bytes);
        }
        arrival
    }

    fn noise(&mut self) -> Arrival {
        let len = self.rng.random_range(0..400);
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes[..]);
        let port = if self.rng.random_bool(0.5) { UNKNOWN_SENDER } else { self.rng.random_range(0..256) };
        Arrival { port, bytes, queue_depth: 0 }
    }

    /// Header and lanes.
    fn bytes(&mut self, datagram: &Datagram) -> Vec<u8> {
        let bare = datagram.repr.flags.contains(Flags::BARE);
        let lanes = if bare { 0 } else { self.profile.payload_bytes() as usize };
        let mut bytes = vec![0; header::LEN + lanes];
        datagram.repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        let lanes = &mut bytes[header::LEN..];
        if self.rng.random_bool(0.1) {
            // The ends of every lane's range.
            for lane in lanes.chunks_exact_mut(4) {
                lane.copy_from_slice(
                    &[0x8000_0000u32, 0x7fff_ffff, u32::MAX, 0][self.rng.random_range(0..4)].to_be_bytes(),
                );
            }
        } else {
            self.rng.fill(lanes);
        }
        bytes
    }

    fn wrap(&mut self, datagram: Datagram) -> Arrival {
        let bytes = self.bytes(&datagram);
        self.arrival(datagram.port, &bytes)
    }

    fn arrival(&mut self, port: u16, datagram: &[u8]) -> Arrival {
        let ecn = self.rng.random_range(0..4);
        let bytes = self.jobs.packet(port, ecn, datagram);
        let deep = self.settings.queue_depths && self.rng.random_bool(0.2);
        let queue_depth = if deep { self.rng.random_range(0..40) } else { 0 };
        Arrival { port, bytes, queue_depth }
    }

    /// The datagram in a packet that holds a whole header.
    fn datagram_of<'b>(&self, bytes: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let at = if self.profile.encapsulation == Encapsulation::Ethernet { OUTER_LEN } else { 0 };
        bytes.get_mut(at..).filter(|datagram| datagram.len() >= header::LEN)
    }
}

/// The sum of an IPv4 header's words without the checksum, folded.
fn ipv4_sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).enumerate().filter(|(i, _)| *i != 5);
    let sum: u32 = words.map(|(_, pair)| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Makes the right checksum 0 by the choice of the identification, and writes it as 0 or, which is wrong, as 0xffff.
fn two_zeros(frame: &mut [u8], right: bool) {
    let Some(header) = frame.get_mut(14..34) else { return };
    header[4..6].fill(0);
    let rest = !ipv4_sum(header);
    header[4..6].copy_from_slice(&rest.to_be_bytes());
    header[10..12].fill(if right { 0 } else { 0xff });
}

fn fill_checksum(frame: &mut [u8]) {
    let Some(header) = frame.get_mut(14..34) else { return };
    let right = !ipv4_sum(header);
    header[10..12].copy_from_slice(&right.to_be_bytes());
}
