//! In steady state a DPDK link and the adapter above it allocate nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netfold_dpdk::{Dpdk, Eal, Port, PortConfig, ring_queues};
use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::{PacketIo, PortId, Transmit};
use netfold_testkit::allocation;

use crate::eal;

/// Moves bursts there and back, and returns how many datagrams moved and how many allocations that took after a while.
fn bursts(near: &mut impl PacketIo, far: &mut impl PacketIo, count: u32) -> (u64, u64) {
    let memory = [0x5a; 64 * 100];
    let packets: Vec<_> =
        (0..64).map(|index| Transmit { port: PortId(0), offset: index * 100, len: 100 }).collect();
    let (mut batch, mut echo) = (far.capabilities().batch(), Vec::with_capacity(1024));
    // The vectors and the batch are not the link's.
    let before = (near.counters().rx_packets, allocation::of_this_thread());
    for _ in 0..count {
        near.transmit(&memory, &packets).expect("transmit");
        near.wait(Duration::ZERO).expect("wait");
        while far.receive(&mut batch).expect("receive") > 0 {
            echo.clear();
            echo.extend(batch.packets().iter().map(|packet| packet.to(packet.port)));
            far.transmit(batch.memory(), &echo).expect("transmit");
        }
        while near.receive(&mut batch).expect("receive") > 0 {}
        far.wait(Duration::ZERO).expect("wait");
    }
    (near.counters().rx_packets - before.0, allocation::of_this_thread() - before.1)
}

fn at(host: u8) -> EthernetConfig {
    EthernetConfig::at(Ipv4Addr::new(198, 18, 0, host))
}

#[test]
fn rings() {
    let (a, b) = rings_of(&eal());
    let mut far = Ethernet::bind(a, at(1)).expect("an adapter");
    let hub = far.local_addr().expect("adapters have one");
    let mut near = Ethernet::connect(b, hub, at(2)).expect("an adapter");
    far.bind_port(PortId(0), SocketAddr::V4(at(2).address)).expect("bind_port");
    bursts(&mut near, &mut far, 200);
    let (moved, allocations) = bursts(&mut near, &mut far, 200);
    assert!(moved > 5000, "{:?}", near.counters());
    assert_eq!(allocations, 0);
}

fn rings_of(eal: &Eal) -> (Dpdk, Dpdk) {
    let (a, b) = netfold_dpdk::rings(eal, 255).expect("rings");
    let start = |device| {
        let (_, mut queues) = Port::start(device, &PortConfig::default()).expect("the port starts");
        Dpdk::new(queues.remove(0)).expect("a link")
    };
    (start(a), start(b))
}

/// The same for a thread without a queue: another thread receives and sends for it.
#[test]
fn threads_of_one_device() {
    let (near, far) = ring_queues(&eal(), 255, 1).expect("rings");
    let config = PortConfig { threads: 2, ..PortConfig::default() };
    let (_, queues) = Port::start(far, &config).expect("the port starts");
    let ip = *at(1).address.ip();
    let mut links = Dpdk::share(queues, 2, ip).expect("links");
    let mut far = Ethernet::bind(links.pop().expect("two"), at(1)).expect("an adapter");
    let mut other = EthernetConfig { answers: false, ..at(1) };
    other.address.set_port(other.address.port() + 1);
    let mut first = Ethernet::bind(links.pop().expect("two"), other).expect("an adapter");
    let (_, mut queues) = Port::start(near, &PortConfig::default()).expect("the port starts");
    let link = Dpdk::new(queues.remove(0)).expect("a link");
    let mut near = Ethernet::connect(link, at(1).address.into(), at(2)).expect("an adapter");
    far.bind_port(PortId(0), SocketAddr::V4(at(2).address)).expect("bind_port");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let mut batch = first.capabilities().batch();
            let before = allocation::of_this_thread();
            while !stop.load(Ordering::Acquire) {
                first.wait(Duration::from_millis(10)).expect("wait");
                first.receive(&mut batch).expect("receive");
            }
            allocation::of_this_thread() - before
        });
        let mut moved = 0;
        let mut allocations = 0;
        // How much comes back in a round is up to when the other thread runs.
        let begun = std::time::Instant::now();
        while moved < 5000 && begun.elapsed() < Duration::from_secs(20) {
            bursts(&mut near, &mut far, 20);
            let (more, allocated) = bursts(&mut near, &mut far, 200);
            (moved, allocations) = (moved + more, allocations + allocated);
        }
        stop.store(true, Ordering::Release);
        assert!(moved >= 5000, "{:?}", near.counters());
        assert_eq!((allocations, owner.join().expect("no panic")), (0, 0), "allocations");
    });
    assert!(far.counters().rx_crossed >= 5000, "{:?}", far.counters());
}
