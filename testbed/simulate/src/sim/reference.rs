//! The slot machine of DESIGN's protocol, written to be read and shared with nothing: the yardstick for the generated
//! pipeline.

use std::ops::Range;

use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Numerics, Packet, Reason, VERSION, header, serial};

use super::switch::{JobSetup, SimSwitch, fold_digest, fold_lanes};

/// A switch whose rules can be read off.
#[derive(Debug)]
pub struct ReferenceSwitch {
    lane_words: usize,
    /// Sums stop at the ends of the range and stay there, and such a result has the flag.
    saturating: bool,
    jobs: Vec<JobSetup>,
    /// Both sets of each slot: index 2 x slot + set.
    slot_sets: Vec<Occupant>,
}

#[derive(Debug, Clone)]
struct Occupant {
    chunk: u32,
    seen: u32,
    exponent: u8,
    lanes: Vec<i32>,
    /// The chunk whose result came down from the switch above.
    settled: u32,
    /// Children whose contributions are in the lanes, and the number of workers in them.
    contributors: u32,
    counted: u16,
    /// A contribution is missing, and a packet carried a congestion mark.
    partial: bool,
    marked: bool,
}

/// What a packet brings about.
enum Reply {
    Nothing,
    Reject(Reason),
    Stale,
    /// Not complete: it has contributions of these.
    Contributors(u32),
    Repeat,
    Complete,
    /// The fold goes to the switch above.
    Up,
    /// The result of the switch above goes to the children.
    Down,
}

impl ReferenceSwitch {
    /// A switch of `slots` slots that knows these jobs.
    pub fn new(slots: u32, lane_words: u32, jobs: &[JobSetup]) -> Self {
        let lane_words = lane_words as usize;
        let empty = Occupant {
            chunk: 0,
            seen: 0,
            exponent: 0,
            lanes: vec![0; lane_words],
            settled: 0,
            contributors: 0,
            counted: 0,
            partial: false,
            marked: false,
        };
        let mut slot_sets = vec![empty; 2 * slots as usize];
        for job in jobs {
            for slot_set in &mut slot_sets[2 * job.base as usize..2 * (job.base + job.slots) as usize] {
                slot_set.chunk = job.held;
                slot_set.settled = slot_set.chunk;
            }
        }
        Self { lane_words, saturating: false, jobs: jobs.to_vec(), slot_sets }
    }

    /// The same with sums that saturate.
    #[must_use]
    pub fn saturating(self) -> Self {
        Self { saturating: true, ..self }
    }

    /// The job that a packet belongs to and the rank of the child that sent it, none if the switch above did; or what to
    /// reply when it is not admitted.
    fn admit(&self, port: u16, packet: &Packet<&[u8]>) -> Result<(usize, Option<usize>), Reply> {
        let lanes = if packet.flags().contains(Flags::BARE) { 0 } else { self.lane_words };
        let numerics = if self.saturating { Numerics::Saturating } else { Numerics::Word };
        let op = LaneOp::try_from(packet.op()).ok().filter(|op| numerics.lane_ops().contains(op));
        if packet.version() != VERSION || packet.payload().len() != 4 * lanes || op.is_none() {
            return Err(Reply::Nothing);
        }
        let number = self.jobs.iter().position(|job| job.job == packet.job()).ok_or(Reply::Nothing)?;
        let job = &self.jobs[number];
        let rank = job.ports.iter().position(|member| *member == port);
        let kinds: &[Kind] = if rank.is_some() { &[Kind::Data, Kind::Close] } else { &[Kind::Result] };
        if (rank.is_none() && job.parent != Some(port))
            || !kinds.iter().any(|kind| packet.kind() == *kind as u8)
            || packet.key() != job.key
        {
            Err(Reply::Nothing)
        } else if packet.kind() != Kind::Data as u8
            && (packet.epoch() != job.epoch || u32::from(packet.slot()) >= job.slots)
        {
            // Nothing goes to the switch above; the sender of CLOSE is known by its DATA.
            Err(Reply::Nothing)
        } else if packet.epoch() != job.epoch {
            Err(Reply::Reject(Reason::Epoch))
        } else if u32::from(packet.slot()) >= job.slots {
            Err(Reply::Reject(Reason::Slot))
        } else {
            Ok((number, rank))
        }
    }

    fn slot_set(&self, number: usize, packet: &Packet<&[u8]>) -> usize {
        2 * (self.jobs[number].base as usize + usize::from(packet.slot())) + usize::from(packet.set())
    }

    /// The four rules of the slot machine.
    fn fold(&mut self, number: usize, rank: usize, packet: &Packet<&[u8]>) -> Reply {
        let (full, leaf) = (self.jobs[number].full(), self.jobs[number].parent.is_some());
        let (at, saturating) = (self.slot_set(number, packet), self.saturating);
        let slot_set = &mut self.slot_sets[at];
        let close = packet.kind() == Kind::Close as u8;
        let shared = if packet.count() > 0 { 1 << rank } else { 0 };
        let has_flag = |flag| packet.flags().contains(flag);
        let contribution = || {
            packet
                .payload()
                .chunks_exact(4)
                .map(|word| i32::from_be_bytes([word[0], word[1], word[2], word[3]]))
                .filter(|_| shared != 0)
        };
        if serial::newer(packet.chunk(), slot_set.chunk) {
            if close {
                return Reply::Nothing;
            }
            (slot_set.chunk, slot_set.seen, slot_set.exponent) =
                (packet.chunk(), 1 << rank, packet.exp_next());
            (slot_set.contributors, slot_set.counted) = (shared, packet.count());
            (slot_set.partial, slot_set.marked) = (has_flag(Flags::PARTIAL), has_flag(Flags::CONGESTION));
            slot_set.lanes.fill(0);
            slot_set.lanes.iter_mut().zip(contribution()).for_each(|(lane, new)| *lane = new);
        } else if packet.chunk() != slot_set.chunk {
            return Reply::Stale;
        } else if close && slot_set.seen != full {
            if slot_set.seen & packet.bitmap() != packet.bitmap() {
                return Reply::Contributors(slot_set.seen);
            }
            (slot_set.seen, slot_set.partial) = (full, true);
        } else if close || slot_set.seen >> rank & 1 == 1 {
            return match slot_set.seen == full {
                false if packet.flags().contains(Flags::DROPPABLE) => Reply::Contributors(slot_set.seen),
                false => Reply::Nothing,
                true if leaf && slot_set.settled != slot_set.chunk => Reply::Up,
                true => Reply::Repeat,
            };
        } else {
            slot_set.seen |= 1 << rank;
            (slot_set.contributors, slot_set.counted) =
                (slot_set.contributors | shared, slot_set.counted.wrapping_add(packet.count()));
            slot_set.partial |= has_flag(Flags::PARTIAL);
            slot_set.marked |= has_flag(Flags::CONGESTION);
            slot_set.exponent = slot_set.exponent.max(packet.exp_next());
            for (lane, new) in slot_set.lanes.iter_mut().zip(contribution()) {
                *lane = match packet.op() {
                    0 if saturating => match (at_end(*lane), at_end(new)) {
                        (true, _) => *lane,
                        (false, true) => new,
                        (false, false) => lane.saturating_add(new),
                    },
                    code => {
                        let op = LaneOp::try_from(code).unwrap_or(LaneOp::Sum);
                        op.fold(lane.cast_unsigned(), new.cast_unsigned()).cast_signed()
                    }
                };
            }
        }
        match slot_set.seen == full {
            false => Reply::Nothing,
            true if leaf => Reply::Up,
            true => Reply::Complete,
        }
    }

    /// The result that the switch above made of this one's fold and the others': it takes the fold's place.
    fn settle(&mut self, number: usize, packet: &Packet<&[u8]>) -> Reply {
        let (full, own) = (self.jobs[number].full(), 1 << self.jobs[number].rank);
        let at = self.slot_set(number, packet);
        let slot_set = &mut self.slot_sets[at];
        if packet.chunk() != slot_set.chunk || slot_set.seen != full || slot_set.settled == slot_set.chunk {
            return Reply::Nothing;
        }
        slot_set.settled = slot_set.chunk;
        // What is left out above is left out, whatever it contains.
        slot_set.contributors = if packet.bitmap() & own == 0 { 0 } else { slot_set.contributors };
        slot_set.counted = packet.count();
        slot_set.partial = packet.flags().contains(Flags::PARTIAL);
        slot_set.marked = packet.flags().contains(Flags::CONGESTION);
        slot_set.exponent = packet.exp_next();
        for (lane, word) in slot_set.lanes.iter_mut().zip(packet.payload().chunks_exact(4)) {
            *lane = i32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        }
        Reply::Down
    }

    /// What the slot holds, in the header of the packet that asks for it, as this switch's own contribution.
    fn contribution(&self, number: usize, packet: &Packet<&[u8]>) -> Vec<u8> {
        let mut bytes = self.result(number, packet);
        let mut contribution = Packet::new_unchecked(&mut bytes[..]);
        contribution.set_kind_raw(Kind::Data as u8);
        if contribution.count() == 0 && !contribution.payload_mut().is_empty() {
            contribution.set_flags(contribution.flags().with(Flags::TRIMMED).with(Flags::BARE));
            bytes.truncate(header::LEN);
        }
        bytes
    }

    /// A result as the child at `port` receives it: without lanes, if another member owns it.
    fn for_child(&self, number: usize, port: u16, mut bytes: Vec<u8>) -> Vec<u8> {
        let job = &self.jobs[number];
        let child = job.ports.iter().position(|member| *member == port);
        let behind = child.and_then(|child| job.behind[child]);
        let mut result = Packet::new_unchecked(&mut bytes[..]);
        if let (LaneOwner::Rank(owner), Some((first, last))) = (result.owner(), behind)
            && !(first..=last).contains(&owner)
        {
            result.set_flags(result.flags().with(Flags::BARE));
            bytes.truncate(header::LEN);
        }
        bytes
    }

    /// The result of the slot, in the header of the packet that asks for it.
    fn result(&self, number: usize, packet: &Packet<&[u8]>) -> Vec<u8> {
        let slot_set = &self.slot_sets[self.slot_set(number, packet)];
        let mut bytes = header_of(packet, Kind::Result);
        let mut result = Packet::new_unchecked(&mut bytes[..]);
        let trimmed = Flags::BARE.with(Flags::TRIMMED);
        let cut = packet.flags().contains(trimmed);
        let bare = packet.flags().contains(Flags::BARE) && !cut;
        let saturated = self.saturating && !bare && slot_set.lanes.iter().any(|lane| at_end(*lane));
        let passing = Flags::RESEND.with(Flags::TRIMMED).with(Flags::DROPPABLE);
        let mut flags = packet.flags().without(if cut { passing.with(trimmed) } else { passing });
        flags = flags.without(Flags::PARTIAL);
        for (holds, flag) in [
            (saturated, Flags::SATURATED),
            (slot_set.partial, Flags::PARTIAL),
            (slot_set.marked, Flags::CONGESTION),
        ] {
            flags = if holds { flags.with(flag) } else { flags };
        }
        result.set_flags(flags);
        result.set_bitmap(slot_set.contributors);
        result.set_count(slot_set.counted);
        result.set_exp_next(slot_set.exponent);
        if !bare {
            bytes.extend(slot_set.lanes.iter().flat_map(|lane| lane.to_be_bytes()));
        }
        bytes
    }
}

impl SimSwitch for ReferenceSwitch {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let Ok(packet) = Packet::new_checked(datagram) else { return };
        let (number, reply) = match self.admit(port, &packet) {
            Ok((number, Some(rank))) => (number, self.fold(number, rank, &packet)),
            Ok((number, None)) => (number, self.settle(number, &packet)),
            Err(reply) => (0, reply),
        };
        match reply {
            Reply::Nothing => {}
            Reply::Reject(reason) => out.push((port, header_only(&packet, Kind::Reject, Some(reason)))),
            Reply::Stale => out.push((port, header_only(&packet, Kind::Stale, None))),
            Reply::Contributors(seen) => {
                let mut bytes = header_only(&packet, Kind::Heard, None);
                Packet::new_unchecked(&mut bytes[..]).set_bitmap(seen);
                out.push((port, bytes));
            }
            Reply::Repeat => out.push((port, self.for_child(number, port, self.result(number, &packet)))),
            Reply::Up => {
                let bytes = self.contribution(number, &packet);
                out.extend(self.jobs[number].parent.map(|port| (port, bytes)));
            }
            Reply::Complete | Reply::Down => {
                let bytes = self.result(number, &packet);
                let copy = |member: &u16| (*member, self.for_child(number, *member, bytes.clone()));
                out.extend(self.jobs[number].ports.iter().map(copy));
            }
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        let slot_sets = &self.slot_sets[2 * slots.start as usize..2 * slots.end as usize];
        slot_sets.iter().fold(0, |digest, slot_set| {
            let digest = fold_digest(
                digest,
                [slot_set.chunk, slot_set.seen, u32::from(slot_set.exponent), slot_set.settled],
            );
            let tally = [
                slot_set.contributors,
                u32::from(slot_set.counted),
                slot_set.partial.into(),
                slot_set.marked.into(),
            ];
            let digest = fold_digest(digest, tally);
            fold_lanes(digest, slot_set.lanes.iter().map(|lane| lane.cast_unsigned()))
        })
    }

    fn slots(&self) -> u32 {
        (self.slot_sets.len() / 2) as u32
    }
}

fn at_end(lane: i32) -> bool {
    lane == i32::MIN || lane == i32::MAX
}

fn header_of(packet: &Packet<&[u8]>, kind: Kind) -> Vec<u8> {
    let mut bytes = packet.into_inner()[..header::LEN].to_vec();
    Packet::new_unchecked(&mut bytes[..]).set_kind_raw(kind as u8);
    bytes
}

fn header_only(packet: &Packet<&[u8]>, kind: Kind, reason: Option<Reason>) -> Vec<u8> {
    let mut bytes = header_of(packet, kind);
    let mut reply = Packet::new_unchecked(&mut bytes[..]);
    reply.set_flags(packet.flags().with(Flags::BARE));
    if let Some(reason) = reason {
        reply.set_reason_raw(reason as u8);
    }
    bytes
}
