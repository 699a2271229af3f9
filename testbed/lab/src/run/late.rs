//! A rank that contributes late: the middleware of its end.
//!
//! Of the first operation of each class in each round it holds one contribution back, the first that may be left out, until the chunk's result has arrived
//! without it; then it sends it. So CLOSE completes the slot, and what arrives afterwards must change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netfold_io::{IoError, Middleware, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::{CLASSES_MAX, Flags, Kind, Packet};

/// So many packets of a chunk are held back: a chunk that the other ranks may not close any more completes in the end.
const HELD_MAX: u32 = 12;

/// A contribution that is held back.
struct Held {
    job: u16,
    chunk: u32,
    datagram: Vec<u8>,
    /// Packets of the chunk that were held back.
    packets: u32,
}

/// What was done in a class.
#[derive(Default)]
struct ClassState {
    /// The last round in which a contribution was held back.
    round: u64,
    held: Option<Held>,
}

/// The end of a rank that is late.
pub(super) struct Late<B> {
    inner: B,
    /// The round that the ranks are in, from 1 on.
    round: Arc<AtomicU64>,
    classes: [ClassState; CLASSES_MAX as usize],
    /// What is left of a burst.
    rest: Vec<Transmit>,
    /// Results of this burst whose late contributions are due.
    due: Vec<Vec<u8>>,
}

impl<B: PacketIo> Late<B> {
    pub(super) fn new(inner: B, round: Arc<AtomicU64>) -> Self {
        let classes = std::array::from_fn(|_| ClassState::default());
        Self { inner, round, classes, rest: Vec::new(), due: Vec::new() }
    }

    /// Whether a packet is held back.
    fn holds(&mut self, datagram: &[u8]) -> bool {
        let Ok(packet) = Packet::new_checked(datagram) else { return false };
        if packet.kind() != Kind::Data as u8 || packet.flags().contains(Flags::BARE) {
            return false;
        }
        let (job, chunk) = (packet.job(), packet.chunk());
        let state = &mut self.classes[usize::from(packet.class() % CLASSES_MAX)];
        if let Some(held) = state.held.as_mut().filter(|held| (held.job, held.chunk) == (job, chunk)) {
            held.packets += 1;
            if held.packets > HELD_MAX {
                state.held = None;
            }
            return state.held.is_some();
        }
        let round = self.round.load(Ordering::Acquire);
        if state.round == round || state.held.is_some() || !packet.flags().contains(Flags::DROPPABLE) {
            return false;
        }
        state.round = round;
        state.held = Some(Held { job, chunk, datagram: datagram.to_vec(), packets: 1 });
        true
    }

    /// Takes note of a packet that arrives.
    fn note(&mut self, datagram: &[u8]) {
        let Ok(packet) = Packet::new_checked(datagram) else { return };
        if packet.kind() != Kind::Result as u8 {
            return;
        }
        let (job, chunk) = (packet.job(), packet.chunk());
        let state = &mut self.classes[usize::from(packet.class() % CLASSES_MAX)];
        if let Some(held) = state.held.take_if(|held| (held.job, held.chunk) == (job, chunk)) {
            self.due.push(held.datagram);
        }
    }
}

impl<B: PacketIo> Middleware for Late<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.inner.receive(batch)?;
        for packet in batch.packets() {
            self.note(batch.bytes(packet));
        }
        for datagram in self.due.drain(..) {
            let all = Transmit { port: PortId(0), offset: 0, len: datagram.len() as u32 };
            // What is not taken is lost, as on any link.
            self.inner.transmit(&datagram, &[all])?;
        }
        Ok(count)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.clear();
        rest.extend(packets.iter().filter(|packet| !packet.bytes(memory).is_some_and(|it| self.holds(it))));
        let taken = self.inner.transmit(memory, &rest);
        // Up to the first that was not taken.
        let taken = taken.map(|count| {
            let stopped = rest.get(count).and_then(|next| packets.iter().position(|packet| packet == next));
            stopped.unwrap_or(packets.len())
        });
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_io::loopback;
    use netfold_wire::{LaneOp, LaneOwner, Repr, header};

    fn packet(kind: Kind, flags: Flags, class: u8, chunk: u32) -> Vec<u8> {
        let repr = Repr {
            kind,
            flags,
            op: LaneOp::Sum,
            class,
            reason: netfold_wire::Reason::None,
            job: 1,
            slot: 0,
            set: 0,
            epoch: 1,
            key: 1,
            chunk,
            bitmap: 0,
            count: u16::from(kind == Kind::Data),
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut datagram = vec![0; header::LEN];
        repr.emit(&mut Packet::new_unchecked(&mut datagram[..]));
        datagram.extend([0; 32]);
        datagram
    }

    fn send(io: &mut impl PacketIo, datagram: &[u8]) {
        let all = Transmit { port: PortId(0), offset: 0, len: datagram.len() as u32 };
        assert_eq!(io.transmit(datagram, &[all]).unwrap(), 1);
    }

    fn received(io: &mut impl PacketIo) -> Vec<u32> {
        let mut batch = io.capabilities().batch();
        io.receive(&mut batch).unwrap();
        let packets = batch.packets().iter();
        packets.map(|packet| Packet::new_checked(batch.bytes(packet)).unwrap().chunk()).collect()
    }

    #[test]
    fn one_contribution_of_a_class_and_round_arrives_after_its_result() {
        let (mut hub, mut spokes) = loopback::star(1, 16, 1024);
        let round = Arc::new(AtomicU64::new(1));
        let mut late = Late::new(spokes.remove(0), Arc::clone(&round));
        let droppable = |class, chunk| packet(Kind::Data, Flags::DROPPABLE, class, chunk);
        send(&mut late, &packet(Kind::Data, Flags::default(), 0, 1));
        send(&mut late, &droppable(0, 2));
        send(&mut late, &droppable(0, 3));
        send(&mut late, &droppable(5, 2));
        send(&mut late, &packet(Kind::Data, Flags::default(), 0, 2));
        assert_eq!(
            received(&mut hub),
            [1, 3],
            "chunk 2 of both classes is held back, and retransmissions of it"
        );
        send(&mut hub, &packet(Kind::Result, Flags::PARTIAL, 0, 2));
        assert_eq!(received(&mut late), [2]);
        assert_eq!(received(&mut hub), [2], "afterwards it is sent");
        send(&mut late, &droppable(0, 9));
        assert_eq!(received(&mut hub), [9], "one a round");
        round.store(2, Ordering::Release);
        send(&mut late, &droppable(0, 10));
        (1..HELD_MAX).for_each(|_| send(&mut late, &droppable(0, 10)));
        assert_eq!(received(&mut hub), [0; 0]);
        send(&mut late, &droppable(0, 10));
        assert_eq!(received(&mut hub), [10], "not for ever");
    }
}
