//! The engine allocates for an operation, not for a packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use netfold::confidential::{CodedChunk, Masks, OpId};
use netfold::{Admission, Communicator, Mode, ReduceOp};
use netfold_io::{IoError, Middleware, PacketIo, Received, RxBatch, loopback::star};
use netfold_testkit::allocation;
use netfold_wire::{Kind, Packet};

/// Packet I/O that publishes how often the engine's thread has allocated, where it is not the caller that turns the engine.
struct Counted {
    io: Box<dyn PacketIo>,
    allocations: Arc<AtomicU64>,
    caller: thread::ThreadId,
}

impl Middleware for Counted {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if thread::current().id() != self.caller {
            self.allocations.store(allocation::of_this_thread(), Ordering::SeqCst);
        }
        self.inner_mut().receive(batch)
    }
}

/// A switch for one worker turns packets round in place, without allocating itself.
fn mirror(mut io: impl PacketIo) {
    let mut batch = io.capabilities().batch();
    let mut packets = Vec::with_capacity(4096);
    loop {
        match io.receive(&mut batch) {
            Ok(0) => drop(io.wait(Duration::from_secs(1)).unwrap()),
            Ok(_) => {}
            Err(IoError::PeerClosed) => return,
            Err(error) => panic!("{error}"),
        }
        packets.clear();
        let (received, memory) = batch.split();
        for &packet in received {
            let Received { port, offset, len, .. } = packet;
            Packet::new_unchecked(&mut memory[offset as usize..][..len as usize])
                .set_kind_raw(Kind::Result as u8);
            packets.push(packet.to(port));
        }
        let mut taken = 0;
        while taken < packets.len() {
            match io.transmit(memory, &packets[taken..]) {
                Ok(count) => taken += count,
                Err(IoError::PeerClosed) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_hundred_times_the_packets_cost_no_more_allocations() {
    let (hub, mut spokes) = star(1, 64, 2048);
    let switch = thread::spawn(move || mirror(hub));
    let (slots, lane_words, bitmap) = (16, 64, 1);
    let admission = Admission { first_chunk: 1, ..Admission::new((1, 1, 1), slots, lane_words, bitmap) };
    let of_engine = Arc::new(AtomicU64::new(0));
    let allocations = Arc::clone(&of_engine);
    let caller = thread::current().id();
    let wrap = move |io| Box::new(Counted { io, allocations, caller }) as Box<dyn PacketIo>;
    let comm = Communicator::builder()
        .rank(0)
        .world_size(1)
        .mode(Mode::Bfp16)
        .transport(Box::new(spokes.remove(0)), admission)
        .middleware(wrap)
        .connect()
        .unwrap();
    let allocations = || allocation::of_this_thread() + of_engine.load(Ordering::SeqCst);
    let count = |tensor: &mut [f32]| {
        comm.all_reduce(tensor, ReduceOp::Sum).unwrap(); // first uses of anything
        let before = allocations();
        comm.all_reduce(tensor, ReduceOp::Sum).unwrap();
        allocations() - before
    };
    let small = count(&mut [1.0; 1280]); // 10 packets
    let large = count(&mut vec![1.0; 1_280_000]); // 10,000 packets
    assert!(large <= small + 2, "{small} allocations for 10 packets, {large} for 10,000");
    assert!(small < 20, "{small} allocations for one operation");
    drop(comm);
    switch.join().unwrap();
}

#[test]
fn masks_allocate_nothing_for_a_packet() {
    let mut masks = Masks::new(&[3; 32], 0, (1, 4), 1408);
    let mut lanes = vec![0; 1408];
    let before = allocation::of_this_thread();
    for chunk in 0..1000 {
        let coded = CodedChunk { op: OpId(0), chunk, exp: 1, full_headroom: false };
        masks.add(coded, &mut lanes);
        assert_eq!(masks.remove(coded, &lanes).len(), lanes.len());
    }
    assert_eq!(allocation::of_this_thread(), before);
}
