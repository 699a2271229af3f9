//! In steady state nothing is allocated per packet.
#![expect(unsafe_code, reason = "counting allocations takes a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_io::{PacketIo, PortId, Transmit, loopback};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the calls of each thread.
struct Counting;

// SAFETY: every call goes to `System` with the same arguments; counting allocates nothing (the cell has no destructor
// and is initialised at compile time).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Moves bursts to `far` and back, and returns how many allocations that took after a warm-up.
fn allocations(mut near: impl PacketIo, mut far: impl PacketIo) -> u64 {
    let memory = [0x5a; 64 * 100];
    let packets: Vec<_> =
        (0..64).map(|index| Transmit { port: PortId(0), offset: index * 100, len: 100 }).collect();
    let mut batch = far.capabilities().batch();
    let mut back: Vec<Transmit> = Vec::with_capacity(1024);
    let mut before = 0;
    for round in 0..400 {
        if round == 200 {
            before = ALLOCATIONS.get();
        }
        near.transmit(&memory, &packets).expect("transmit");
        near.wait(Duration::ZERO).expect("wait");
        while far.receive(&mut batch).expect("receive") > 0 {
            back.clear();
            back.extend(batch.packets().iter().map(|packet| packet.to(packet.port)));
            far.transmit(batch.memory(), &back).expect("transmit");
        }
        while near.receive(&mut batch).expect("receive") > 0 {}
        far.wait(Duration::ZERO).expect("wait");
    }
    assert!(near.counters().rx_packets > 1000, "{:?}", near.counters());
    ALLOCATIONS.get() - before
}

fn star() -> (impl PacketIo, impl PacketIo) {
    let (hub, mut spokes) = loopback::star(1, 256, 100);
    (spokes.remove(0), hub)
}

#[test]
fn loopback_and_middleware() {
    let (near, far) = star();
    assert_eq!(allocations(near, far), 0, "loopback");

    let (near, far) = star();
    let near = Captured::new(near, std::io::sink(), Resolution::Micro).expect("a sink takes everything");
    assert_eq!(allocations(near, far), 0, "capture");

    // Held packets keep their buffers; the last growth may come late, so a few are allowed.
    let (near, far) = star();
    let config: FaultConfig =
        "loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1,delay=0ns..1us,hold=10us,seed=5"
            .parse()
            .expect("faults");
    let count = allocations(Faulty::new(near, config), far);
    assert!(count < 200, "fault middleware: {count} allocations for 25600 packets");
}

#[cfg(target_os = "linux")]
#[test]
fn sockets() {
    use netfold_io::udp::{UdpConfig, UdpIo};
    for (gso, gro) in [(true, true), (false, false)] {
        let config = UdpConfig { gso, gro, datagram_len_max: 100, ..UdpConfig::default() };
        let mut far = UdpIo::bind("127.0.0.1:0".parse().expect("an address"), config).expect("bind");
        let near = UdpIo::connect(far.local_addr().expect("bound"), config).expect("connect");
        far.bind_port(PortId(0), near.local_addr().expect("bound")).expect("bind_port");
        assert_eq!(allocations(near, far), 0, "udp, gso {gso}, gro {gro}");
    }
}
