//! Forged packets: each has something wrong that a switch or a worker must see.

use netfold_wire::{Flags, Kind, LaneOp, Packet, header};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::switch::JobSetup;

/// A port that belongs to no job.
const UNASSIGNED: u16 = 60_000;

/// A packet to slip in at the switch.
#[derive(Debug)]
pub(super) struct Forgery {
    pub(super) port: u16,
    pub(super) bytes: Vec<u8>,
    /// It is of the other job's own, and may change the other job's slots.
    pub(super) of_other_job: bool,
}

/// Makes a forgery for the switch from a packet that reached it on `port`: DATA, or a RESULT from the switch above.
pub(super) fn at_switch(
    rng: &mut Xoshiro256PlusPlus,
    job: &JobSetup,
    other_job: &JobSetup,
    port: u16,
    genuine: &[u8],
) -> Forgery {
    let mut bytes = genuine.to_vec();
    let mut port = port;
    let mut of_other_job = false;
    let mut packet = Packet::new_unchecked(&mut bytes[..]);
    match rng.random_range(0..14) {
        0 => {
            bytes = noise(rng);
            port = if rng.random() { port } else { UNASSIGNED };
        }
        1 => port = UNASSIGNED,
        2 => port = other_job.ports[0],
        3 => packet.set_key(packet.key() ^ bit(rng)),
        4 => packet.set_epoch(packet.epoch() ^ bit(rng)),
        5 => packet.set_job(packet.job() ^ 1 << rng.random_range(0..16)),
        6 => {
            packet.set_slot(packet.slot() | (job.slots << rng.random_range(0..15 - job.slots.ilog2())) as u16)
        }
        7 => packet.set_version(packet.version() ^ 1 << rng.random_range(0..4)),
        8 => {
            // A CLOSE is a member's right.
            let kind = other(rng, packet.kind(), 16);
            packet.set_kind_raw(if kind == Kind::Close as u8 { 0 } else { kind });
        }
        9 => resize(rng, &mut bytes),
        10 => packet.set_op_raw(rng.random_range(LaneOp::ALL.len() as u8..16)),
        11 => packet.set_chunk(older(rng, packet.chunk(), job.slots)),
        12 => {
            (port, of_other_job) = (other_job.ports[0], true);
            packet.set_job(other_job.job);
            packet.set_key(other_job.key);
            packet.set_epoch(other_job.epoch);
            packet.set_slot(packet.slot() & (other_job.slots - 1) as u16);
            packet.set_kind_raw(Kind::Data as u8);
        }
        _ => packet.set_flags(Flags(packet.flags().0 ^ Flags::BARE.0)),
    }
    Forgery { port, bytes, of_other_job }
}

/// Makes a forgery for a rank from a packet that the switch sent it.
pub(super) fn at_rank(rng: &mut Xoshiro256PlusPlus, job: &JobSetup, genuine: &[u8]) -> Vec<u8> {
    let mut bytes = genuine.to_vec();
    let mut packet = Packet::new_unchecked(&mut bytes[..]);
    match rng.random_range(0..11) {
        0 => bytes = noise(rng),
        1 => packet.set_key(packet.key() ^ bit(rng)),
        2 => packet.set_epoch(packet.epoch() ^ bit(rng)),
        3 => packet.set_job(packet.job() ^ 1 << rng.random_range(0..16)),
        4 => packet.set_slot(packet.slot() ^ 1 << rng.random_range(0..15)),
        5 => packet.set_set(packet.set() ^ 1),
        6 => packet.set_version(packet.version() ^ 1 << rng.random_range(0..4)),
        7 => packet.set_chunk(older(rng, packet.chunk(), job.slots)),
        8 => packet.set_kind_raw([0, 1, 3, 6, 7, 8, 15][rng.random_range(0..7)]),
        9 => resize(rng, &mut bytes),
        // More workers than there are. Only a member's switch knows which of them, and which is a child.
        _ => packet.set_count(packet.count() | 1 << 15),
    }
    bytes
}

fn bit(rng: &mut Xoshiro256PlusPlus) -> u32 {
    1 << rng.random_range(0..32)
}

fn noise(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    (0..rng.random_range(0..600)).map(|_| rng.random()).collect()
}

fn other(rng: &mut Xoshiro256PlusPlus, kind: u8, end: u8) -> u8 {
    (kind + rng.random_range(1..end)) % end
}

/// A chunk of the same slot and set that is older than anything a switch may still hold there.
fn older(rng: &mut Xoshiro256PlusPlus, chunk: u32, slots: u32) -> u32 {
    chunk.wrapping_sub(2 * slots * rng.random_range(2..1000))
}

fn resize(rng: &mut Xoshiro256PlusPlus, bytes: &mut Vec<u8>) {
    let len = rng.random_range(0..2 * bytes.len());
    // A bare packet lengthened, or a full one shortened, is still of the wrong length.
    bytes.resize(if len == bytes.len() { len + 1 } else { len }, 0);
    debug_assert!(bytes.len() != header::LEN || bytes[1] & Flags::BARE.0 == 0);
}
