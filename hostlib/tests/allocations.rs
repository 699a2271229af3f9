//! The engine allocates for an operation, not for a packet.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use netfold::{Admission, Communicator, Mode, ReduceOp};
use netfold_io::{IoError, PacketIo, Received, loopback::star};
use netfold_testkit::allocation::{self, CountingAllocator};
use netfold_wire::{Kind, Packet};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
    let admission = Admission {
        job: 1,
        epoch: 1,
        key: 1,
        slots,
        first_chunk: 1,
        lane_words,
        udp_port: 0,
        bitmap,
        own_bit: 0,
        shift: 0,
        switch: None,
        grace_ms: 0,
        congestion: Default::default(),
        band: None,
    };
    let comm = Communicator::builder()
        .rank(0)
        .world_size(1)
        .mode(Mode::Bfp16)
        .transport(Box::new(spokes.remove(0)), admission)
        .connect()
        .unwrap();
    let count = |tensor: &mut [f32]| {
        comm.all_reduce(tensor, ReduceOp::Sum).unwrap(); // first uses of anything
        let before = allocation::of_all_threads();
        comm.all_reduce(tensor, ReduceOp::Sum).unwrap();
        allocation::of_all_threads() - before
    };
    let small = count(&mut [1.0; 1280]); // 10 packets
    let large = count(&mut vec![1.0; 1_280_000]); // 10,000 packets
    assert!(large <= small + 2, "{small} allocations for 10 packets, {large} for 10,000");
    assert!(small < 20, "{small} allocations for one operation");
    drop(comm);
    switch.join().unwrap();
}
