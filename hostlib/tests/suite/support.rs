//! A switch in plain code, written from the protocol alone, and threads that play the ranks of a job on it.

use std::collections::HashMap;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netfold::{Admission, Builder, Communicator, Mode};
use netfold_io::loopback::{Loopback, star};
use netfold_io::{IoError, PacketIo, PortId, Transmit};
use netfold_wire::{Flags, Kind, LaneOp, Packet, Repr, header, serial};

/// Far longer than any step of a test takes, and shorter than the stall timeout of a communicator, 60 s.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(30);

pub(crate) const LANE_WORDS: u32 = 64;

/// What one (slot, set) holds.
struct Held {
    chunk: u32,
    seen: u32,
    exp_next: u8,
    lanes: Vec<u8>,
}

/// Folds by the rules of the slot machine for a single job; the rank is the port.
pub(crate) struct ReferenceSwitch {
    world: u16,
    held: HashMap<(u16, u8), Held>,
}

impl ReferenceSwitch {
    pub(crate) fn new(world: u16) -> Self {
        Self { world, held: HashMap::new() }
    }

    /// Serves until all workers have closed.
    pub(crate) fn serve(mut self, mut io: impl PacketIo) {
        let mut batch = io.capabilities().batch();
        loop {
            match io.receive(&mut batch) {
                Ok(0) => drop(io.wait(Duration::from_secs(1)).unwrap()),
                Ok(_) => {}
                Err(IoError::PeerClosed) => return,
                Err(error) => panic!("{error}"),
            }
            for packet in batch.packets() {
                let (bytes, ports) = self.handle(packet.port, batch.bytes(packet).to_vec());
                for port in ports {
                    let packet = Transmit { port, offset: 0, len: bytes.len() as u32 };
                    loop {
                        match io.transmit(&bytes, &[packet]) {
                            Ok(0) => drop(io.wait(Duration::from_millis(10)).unwrap()),
                            // A worker that has left may have left packets on their way, which are answered.
                            Ok(_) | Err(IoError::PeerClosed) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
        }
    }

    fn handle(&mut self, from: PortId, mut datagram: Vec<u8>) -> (Vec<u8>, Vec<PortId>) {
        let mut repr = Repr::parse(&Packet::new_checked(&datagram[..]).unwrap()).unwrap();
        assert_eq!(repr.kind, Kind::Data);
        let full = u32::MAX >> (32 - self.world);
        let bit = 1 << from.0;
        // Headers alone count as zeros: ranks may predict differently.
        let mut contribution = datagram[header::LEN..].to_vec();
        contribution.resize(4 * LANE_WORDS as usize, 0);
        let fresh = Held { chunk: repr.chunk, seen: 0, exp_next: 0, lanes: vec![] };
        let held = self.held.entry((repr.slot, repr.set)).or_insert(fresh);
        let all: Vec<PortId> = (0..self.world).map(PortId).collect();
        let ports = if serial::newer(held.chunk, repr.chunk) {
            repr.kind = Kind::Stale;
            vec![from]
        } else {
            if serial::newer(repr.chunk, held.chunk) {
                *held = Held { chunk: repr.chunk, seen: 0, exp_next: 0, lanes: vec![] };
            }
            if held.seen & bit != 0 {
                if held.seen == full { vec![from] } else { vec![] }
            } else {
                if held.seen == 0 {
                    (held.lanes, held.exp_next) = (contribution, repr.exp_next);
                } else {
                    reduce(repr.op, &mut held.lanes, &contribution);
                    held.exp_next = held.exp_next.max(repr.exp_next);
                }
                held.seen |= bit;
                if held.seen == full { all } else { vec![] }
            }
        };
        if repr.kind == Kind::Data {
            repr.kind = Kind::Result;
            repr.flags = repr.flags.without(Flags::RESEND);
            (repr.bitmap, repr.count, repr.exp_next) = (full, self.world, held.exp_next);
            let lanes = &mut datagram[header::LEN..];
            lanes.copy_from_slice(&held.lanes[..lanes.len()]);
        }
        repr.emit(&mut Packet::new_unchecked(&mut datagram[..]));
        (datagram, ports)
    }
}

fn reduce(op: LaneOp, sum: &mut [u8], contribution: &[u8]) {
    for (to, from) in sum.chunks_exact_mut(4).zip(contribution.chunks_exact(4)) {
        let [a, b] = [&*to, from].map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        to.copy_from_slice(&op.fold(a, b).to_be_bytes());
    }
}

pub(crate) fn admission(world: u16, slots: u32, first_chunk: u32) -> Admission {
    let (lane_words, bitmap) = (LANE_WORDS, u32::MAX >> (32 - world));
    Admission { first_chunk, ..Admission::new((3, 7, 0xfeed), slots, lane_words, bitmap) }
}

/// A switch thread and the workers' ends of its rings.
pub(crate) fn switch(world: u16) -> (Vec<Loopback>, JoinHandle<()>) {
    let (hub, spokes) = star(usize::from(world), 64, header::LEN + 4 * LANE_WORDS as usize);
    let switch = thread::spawn(move || ReferenceSwitch::new(world).serve(hub));
    (spokes, switch)
}

pub(crate) fn builder(io: impl PacketIo + 'static, rank: u16, world: u16, mode: Mode, slots: u32) -> Builder {
    Communicator::builder()
        .rank(rank)
        .world_size(world)
        .mode(mode)
        .stall_timeout(Duration::from_secs(20))
        .transport(Box::new(io), admission(world, slots, u32::MAX - 100)) // chunk numbers wrap on the way
}

/// Runs `body` on every rank of a job in parallel and returns what they return, by rank.
pub(crate) fn job<R: Send>(
    world: u16,
    mode: Mode,
    slots: u32,
    body: impl Fn(Communicator) -> R + Send + Sync,
) -> Vec<R> {
    let (spokes, switch) = switch(world);
    let results = thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .zip(spokes)
            .map(|(rank, io)| {
                let body = &body;
                scope.spawn(move || body(builder(io, rank, world, mode, slots).connect().unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    switch.join().unwrap();
    results
}
