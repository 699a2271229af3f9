//! The slot machine of DESIGN's protocol, written to be read and shared with nothing: the yardstick for the generated
//! pipeline.

use std::ops::Range;

use netfold_wire::{Flags, Kind, LaneOp, Packet, Reason, VERSION, header, serial};

use super::switch::{JobSetup, SimSwitch, fold_digest};

/// A switch whose rules can be read off.
#[derive(Debug)]
pub struct ReferenceSwitch {
    lane_words: usize,
    jobs: Vec<JobSetup>,
    /// Both sets of each slot: index 2 x slot + set.
    places: Vec<Occupant>,
}

#[derive(Debug, Clone)]
struct Occupant {
    chunk: u32,
    seen: u32,
    exponent: u8,
    lanes: Vec<i32>,
}

/// What a packet brings about.
enum Answer {
    Nothing,
    Reject(Reason),
    Stale,
    Repeat,
    Complete,
}

impl ReferenceSwitch {
    /// A switch of `slots` slots that knows these jobs.
    pub fn new(slots: u32, lane_words: u32, jobs: &[JobSetup]) -> Self {
        let lane_words = lane_words as usize;
        let empty = Occupant { chunk: 0, seen: 0, exponent: 0, lanes: vec![0; lane_words] };
        let mut places = vec![empty; 2 * slots as usize];
        for job in jobs {
            for place in &mut places[2 * job.base as usize..2 * (job.base + job.slots) as usize] {
                place.chunk = job.first_chunk.wrapping_sub(1);
            }
        }
        Self { lane_words, jobs: jobs.to_vec(), places }
    }

    /// The job and rank that a packet belongs to, or what to answer when it is not admitted.
    fn admit(&self, port: u16, packet: &Packet<&[u8]>) -> Result<(usize, usize), Answer> {
        let lanes = if packet.flags().contains(Flags::BARE) { 0 } else { self.lane_words };
        let known_op = LaneOp::try_from(packet.op()).is_ok();
        if packet.version() != VERSION || packet.payload().len() != 4 * lanes || !known_op {
            return Err(Answer::Nothing);
        }
        let number = self.jobs.iter().position(|job| job.job == packet.job()).ok_or(Answer::Nothing)?;
        let job = &self.jobs[number];
        let rank = job.ports.iter().position(|member| *member == port).ok_or(Answer::Nothing)?;
        if packet.kind() != Kind::Data as u8 || packet.key() != job.key {
            Err(Answer::Nothing)
        } else if packet.epoch() != job.epoch {
            Err(Answer::Reject(Reason::Epoch))
        } else if u32::from(packet.slot()) >= job.slots {
            Err(Answer::Reject(Reason::Slot))
        } else {
            Ok((number, rank))
        }
    }

    fn place(&self, number: usize, packet: &Packet<&[u8]>) -> usize {
        2 * (self.jobs[number].base as usize + usize::from(packet.slot())) + usize::from(packet.set())
    }

    /// The four rules of the slot machine.
    fn fold(&mut self, number: usize, rank: usize, packet: &Packet<&[u8]>) -> Answer {
        let full = u32::MAX >> (32 - self.jobs[number].ports.len());
        let at = self.place(number, packet);
        let place = &mut self.places[at];
        let share = || {
            packet
                .payload()
                .chunks_exact(4)
                .map(|word| i32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        };
        if serial::newer(packet.chunk(), place.chunk) {
            (place.chunk, place.seen, place.exponent) = (packet.chunk(), 1 << rank, packet.exp_next());
            place.lanes.fill(0);
            place.lanes.iter_mut().zip(share()).for_each(|(lane, new)| *lane = new);
        } else if packet.chunk() != place.chunk {
            return Answer::Stale;
        } else if place.seen >> rank & 1 == 1 {
            return if place.seen == full { Answer::Repeat } else { Answer::Nothing };
        } else {
            place.seen |= 1 << rank;
            place.exponent = place.exponent.max(packet.exp_next());
            for (lane, new) in place.lanes.iter_mut().zip(share()) {
                *lane = match packet.op() {
                    0 => lane.wrapping_add(new),
                    1 => new.min(*lane),
                    _ => new.max(*lane),
                };
            }
        }
        if place.seen == full { Answer::Complete } else { Answer::Nothing }
    }

    /// The result of the slot, in the header of the packet that asks for it.
    fn result(&self, number: usize, packet: &Packet<&[u8]>) -> Vec<u8> {
        let place = &self.places[self.place(number, packet)];
        let mut bytes = header_of(packet, Kind::Result);
        let mut result = Packet::new_unchecked(&mut bytes[..]);
        let world = self.jobs[number].ports.len() as u32;
        result.set_flags(packet.flags().without(Flags::RESEND));
        result.set_bitmap(u32::MAX >> (32 - world));
        result.set_count(world as u16);
        result.set_exp_next(place.exponent);
        if !packet.flags().contains(Flags::BARE) {
            bytes.extend(place.lanes.iter().flat_map(|lane| lane.to_be_bytes()));
        }
        bytes
    }
}

impl SimSwitch for ReferenceSwitch {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let Ok(packet) = Packet::new_checked(datagram) else { return };
        let (number, answer) = match self.admit(port, &packet) {
            Ok((number, rank)) => (number, self.fold(number, rank, &packet)),
            Err(answer) => (0, answer),
        };
        match answer {
            Answer::Nothing => {}
            Answer::Reject(reason) => out.push((port, header_only(&packet, Kind::Reject, Some(reason)))),
            Answer::Stale => out.push((port, header_only(&packet, Kind::Stale, None))),
            Answer::Repeat => out.push((port, self.result(number, &packet))),
            Answer::Complete => {
                let bytes = self.result(number, &packet);
                out.extend(self.jobs[number].ports.iter().map(|member| (*member, bytes.clone())));
            }
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        let places = &self.places[2 * slots.start as usize..2 * slots.end as usize];
        places.iter().fold(0, |digest, place| {
            let digest = fold_digest(digest, [place.chunk, place.seen, u32::from(place.exponent)]);
            fold_digest(digest, place.lanes.iter().map(|lane| lane.cast_unsigned()))
        })
    }

    fn slots(&self) -> u32 {
        (self.places.len() / 2) as u32
    }
}

fn header_of(packet: &Packet<&[u8]>, kind: Kind) -> Vec<u8> {
    let mut bytes = packet.into_inner()[..header::LEN].to_vec();
    Packet::new_unchecked(&mut bytes[..]).set_kind_raw(kind as u8);
    bytes
}

fn header_only(packet: &Packet<&[u8]>, kind: Kind, reason: Option<Reason>) -> Vec<u8> {
    let mut bytes = header_of(packet, kind);
    let mut answer = Packet::new_unchecked(&mut bytes[..]);
    answer.set_flags(packet.flags().with(Flags::BARE));
    if let Some(reason) = reason {
        answer.set_reason_raw(reason as u8);
    }
    bytes
}
