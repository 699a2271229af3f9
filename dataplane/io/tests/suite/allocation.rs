//! In steady state nothing is allocated per packet.

use std::time::Duration;

use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_io::{Authenticated, PacketIo, PortId, Transmit, loopback};
use netfold_testkit::allocation;
use netfold_wire::{JobKeys, PacketKey, PortKeys, TAG_LEN};

/// Moves bursts to `far` and back, and returns how many allocations that took after a warm-up.
fn allocations(near: impl PacketIo, far: impl PacketIo) -> u64 {
    counted(near, far).0
}

/// The same, and how many calls of the system a datagram took the near end, there and back.
fn counted(mut near: impl PacketIo, mut far: impl PacketIo) -> (u64, f64) {
    let memory = [0x5a; 64 * 100];
    let packets: Vec<_> =
        (0..64).map(|index| Transmit { port: PortId(0), offset: index * 100, len: 100 }).collect();
    let mut batch = far.capabilities().batch();
    let mut back: Vec<Transmit> = Vec::with_capacity(1024);
    // Links ask for their neighbours first.
    for attempt in 0.. {
        assert!(attempt < 5000, "nothing gets through: {:?}, {:?}", near.counters(), far.counters());
        if near.counters().rx_packets > 0 && far.counters().rx_packets > 0 {
            break;
        }
        near.transmit(&memory, &packets[..1]).expect("transmit");
        far.wait(Duration::from_millis(2)).expect("wait");
        far.receive(&mut batch).expect("receive");
        far.transmit(&memory, &packets[..1]).expect("transmit");
        near.wait(Duration::from_millis(2)).expect("wait");
        near.receive(&mut batch).expect("receive");
    }
    let mut before = 0;
    for round in 0..400 {
        if round == 200 {
            before = allocation::of_this_thread();
        }
        near.transmit(&memory, &packets).expect("transmit");
        near.wait(Duration::ZERO).expect("wait");
        far.wait(Duration::from_millis(1)).expect("wait");
        while far.receive(&mut batch).expect("receive") > 0 {
            back.clear();
            back.extend(batch.packets().iter().map(|packet| packet.to(packet.port)));
            far.transmit(batch.memory(), &back).expect("transmit");
        }
        near.wait(Duration::from_millis(1)).expect("wait");
        while near.receive(&mut batch).expect("receive") > 0 {}
        far.wait(Duration::ZERO).expect("wait");
    }
    assert!(near.counters().rx_packets > 1000, "{:?}", near.counters());
    let (count, counters) = (allocation::of_this_thread() - before, near.counters());
    (count, (counters.rx_calls + counters.tx_calls) as f64 / counters.rx_packets as f64)
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

    // Authenticated in both directions: keys of the job and the epoch that the datagrams' bytes name.
    let (hub, mut spokes) = loopback::star(1, 256, 100 + TAG_LEN);
    let (mut near, mut far) = (Authenticated::new(spokes.remove(0)), Authenticated::new(hub));
    let keys = |send, receive| JobKeys {
        job: 0x5a5a,
        epoch: 0x5a5a_5a5a,
        keys: PortKeys { send: PacketKey([send; 32]), receive: PacketKey([receive; 32]) },
    };
    near.authenticate(PortId(0), &keys(1, 2), 100).expect("room for a tag");
    far.authenticate(PortId(0), &keys(2, 1), 100).expect("room for a tag");
    assert_eq!(allocations(near, far), 0, "authenticated");

    // Held packets keep their buffers; the last growth may be delayed, so a few are allowed.
    let (near, far) = star();
    let config: FaultConfig =
        "loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1,undetected=0.1,delay=0ns..1us,hold=10us,seed=5"
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

/// Between processes as within one; and a busy end makes no system call for a datagram.
#[cfg(target_os = "linux")]
#[test]
fn shared_memory() {
    use netfold_io::shm::{Hub, Spoke};
    let name = format!("allocation-{}", std::process::id()).parse().expect("a name");
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let mut far = Hub::open(&name, here, 100, None).expect("a name of its own");
    let near = Spoke::attach(&name, here.ip(), 100).expect("it is there");
    far.bind_port(PortId(0), near.local_addr().expect("the hub says")).expect("bind_port");
    let (count, calls) = counted(near, far);
    assert_eq!(count, 0, "shm");
    // Both ends are on this thread here, so neither sleeps while the other sends.
    assert!(calls < 0.01, "{calls} calls a datagram");
}

/// A datagram costs no allocation, and a burst few calls of the system: none to receive from memory that is shared with the kernel, one for
/// many to send.
#[cfg(target_os = "linux")]
#[test]
fn links() {
    use netfold_io::ethernet::{Ethernet, EthernetConfig};
    use netfold_io::link::{AfPacket, Link, PacketRing, RingVersion, Xdp, XdpConfig};
    use netfold_io_conformance::segment::{HUB, Segment, address, spoke};

    type Open = fn(&str) -> Result<Box<dyn Link>, netfold_io::IoError>;
    // pnet makes its error on the heap when a socket turns out to be empty: a few allocations a burst, not a datagram.
    let kinds: [(&str, u64, f64, Open); 4] = [
        ("af-packet", 200 * 10, 5.0, |interface| Ok(Box::new(AfPacket::open(interface)?))),
        ("packet-ring", 0, 0.2, |interface| Ok(Box::new(PacketRing::open(interface)?))),
        ("packet-ring, version 3", 0, 0.2, |interface| {
            Ok(Box::new(PacketRing::open_as(interface, RingVersion::Three)?))
        }),
        ("af-xdp", 0, 0.2, |interface| {
            Ok(Box::new(Xdp::open(interface, XdpConfig::new(address(interface)))?))
        }),
    ];
    for (name, allocations_max, calls_max, open) in kinds {
        let made = Segment::pair(1500).and_then(|segment| {
            let ends = segment.namespace().run(move || -> Result<_, netfold_io::IoError> {
                let far = Ethernet::bind(open(HUB)?, EthernetConfig::new(address(HUB)))?;
                let (hub, config) = (far.local_addr(), EthernetConfig::new(address(&spoke(0))));
                Ok((Ethernet::connect(open(&spoke(0))?, hub.expect("adapters have one"), config)?, far))
            });
            ends.map_err(|error| error.to_string())
        });
        let (near, mut far) = match made {
            Ok(ends) => ends,
            Err(reason) => {
                println!("skipped: {name}: {reason}");
                continue;
            }
        };
        far.bind_port(PortId(0), near.local_addr().expect("adapters have one")).expect("bind_port");
        let (count, calls) = counted(near, far);
        println!("{name}: {count} allocations, {calls:.3} calls a datagram");
        assert!(count <= allocations_max, "{name}: {count} allocations for 12800 datagrams");
        assert!(calls <= calls_max, "{name}: {calls} calls a datagram");
    }
}

/// The same for a thread whose datagrams all arrive by another thread's queue.
#[cfg(target_os = "linux")]
#[test]
fn threads_of_one_interface() {
    use netfold_io::ethernet::{Ethernet, EthernetConfig};
    use netfold_io::link::{XdpConfig, XdpQueues};
    use netfold_io::{Cores, OpenOptions, open_threads};
    use netfold_io_conformance::segment::{HUB, Segment, address, spoke};
    use std::sync::atomic::{AtomicBool, Ordering};

    let made = Segment::pair_with_queues(1500, 2).and_then(|segment| {
        let ends = segment.namespace().run(|| -> Result<_, netfold_io::IoError> {
            let at = address(HUB);
            let opening = |port| OpenOptions::at((*at.ip(), port).into());
            let both = [opening(at.port() + 1), opening(at.port())];
            let spec = format!("af-xdp:{HUB}").parse().expect("a spec");
            let hubs = open_threads(&spec, &both, &Cores::default())?;
            // The hub's thread replies by its own queue, which is the second.
            let link = XdpQueues::open(&spoke(0), XdpConfig::new(address(&spoke(0))), 2)?;
            Ok((Ethernet::connect(link, at.into(), EthernetConfig::new(address(&spoke(0))))?, hubs))
        });
        ends.map_err(|error| error.to_string())
    });
    let (near, mut hubs) = match made {
        Ok(ends) => ends,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let (mut far, mut first) = (hubs.pop().expect("two"), hubs.pop().expect("two"));
    far.bind_port(PortId(0), near.local_addr().expect("adapters have one")).expect("bind_port");
    /// Ends the other thread, also when a check fails.
    struct Ended<'a>(&'a AtomicBool, std::task::Waker);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.wake_by_ref();
        }
    }
    let (stop, waker) = (AtomicBool::new(false), first.waker());
    std::thread::scope(|scope| {
        let ended = Ended(&stop, waker);
        let owner = scope.spawn(|| {
            let mut batch = first.capabilities().batch();
            let before = allocation::of_this_thread();
            while !stop.load(Ordering::Acquire) {
                first.wait(Duration::from_secs(20)).expect("wait");
                first.receive(&mut batch).expect("receive");
            }
            allocation::of_this_thread() - before
        });
        let (count, calls) = counted(near, far);
        drop(ended);
        assert_eq!((count, owner.join().expect("no panic")), (0, 0), "allocations");
        assert!(calls <= 0.2, "{calls} calls a datagram");
    });
}
