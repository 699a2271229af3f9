//! What the I/O alone can do: one client, a plain forwarder, and every backend and payload.
//!
//! `cargo bench -p netfold-io` prints one line per case: datagrams per second there and back, the bytes of their
//! payload in one direction, and system calls per datagram. Client and forwarder have a thread each, so a machine of
//! two cores shows the rate of one core at each end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::forward::Forwarder;
use netfold_io::link::{AfPacket, Link, PacketRing, RingVersion, Xdp, XdpConfig};
use netfold_io::shm::{Hub, Spoke};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, PortId, Transmit, loopback};
use netfold_io_conformance::segment::{HUB, Segment, address, spoke};

/// Datagrams under way, as many as a worker's window by default.
const WINDOW: usize = 256;
const TIME: Duration = Duration::from_millis(400);
/// Netfold header and 64, 352 and 2048 lanes of 4 bytes.
const LENGTHS: [usize; 3] = [32 + 256, 32 + 1408, 32 + 8192];

fn main() {
    // `cargo test --benches` only wants to see that it runs.
    let time = if std::env::args().any(|argument| argument == "--bench") { TIME } else { Duration::ZERO };
    println!("{:<22} {:>6} {:>9} {:>9} {:>12}", "backend", "bytes", "Mpkt/s", "GB/s", "calls/packet");
    for len in LENGTHS {
        let (hub, mut spokes) = loopback::star(1, WINDOW, len);
        report("loopback", len, hub, spokes.remove(0), time);
        let (hub, spoke) = shared(len);
        report("shm", len, hub, spoke, time);
        for (name, gso, gro) in [
            ("udp, gso and gro", true, true),
            ("udp, gso", true, false),
            ("udp, gro", false, true),
            ("udp", false, false),
        ] {
            let config = UdpConfig { datagram_len_max: len, gso, gro, ..UdpConfig::default() };
            let mut hub = UdpIo::bind(([127, 0, 0, 1], 0).into(), config).expect("bind");
            let spoke = UdpIo::connect(hub.local_addr().expect("bound"), config).expect("connect");
            hub.bind_port(PortId(0), spoke.local_addr().expect("bound")).expect("bind_port");
            report(name, len, hub, spoke, time);
        }
        raw(len, time);
    }
}

/// Rings in memory that is mapped twice, as by two processes.
fn shared(len: usize) -> (Hub, Spoke) {
    let name = format!("bench-{}-{len}", std::process::id()).parse().expect("a name");
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut hub = Hub::open(&name, here, len, None).expect("a name of its own");
    let spoke = Spoke::attach(&name, here.ip(), len).expect("it is there");
    hub.bind_port(PortId(0), spoke.local_addr().expect("the hub says")).expect("bind_port");
    (hub, spoke)
}

/// Links on the two ends of a pair of virtual interfaces.
fn raw(len: usize, time: Duration) {
    type Open = fn(&str) -> Result<Box<dyn Link>, IoError>;
    let links: [(&str, Open); 5] = [
        ("af-packet", |interface| Ok(Box::new(AfPacket::open(interface)?))),
        ("packet-ring", |interface| Ok(Box::new(PacketRing::open(interface)?))),
        ("packet-ring, version 3", |interface| {
            Ok(Box::new(PacketRing::open_as(interface, RingVersion::Three)?))
        }),
        ("af-xdp", |interface| Ok(Box::new(Xdp::open(interface, XdpConfig::new(address(interface)))?))),
        ("af-xdp, generic", |interface| {
            let config = XdpConfig { force_generic: true, ..XdpConfig::new(address(interface)) };
            Ok(Box::new(Xdp::open(interface, config)?))
        }),
    ];
    for (name, open) in links {
        let made = Segment::pair(len + 32).and_then(|segment| {
            let ends = segment.namespace().run(move || -> Result<_, IoError> {
                let hub = EthernetConfig::new(address(HUB));
                let mut hub = Ethernet::bind(open(HUB)?, hub)?;
                let at = hub.local_addr().expect("adapters have one");
                let config = EthernetConfig::new(address(&spoke(0)));
                let spoke = Ethernet::connect(open(&spoke(0))?, at, config)?;
                hub.bind_port(PortId(0), spoke.local_addr().expect("adapters have one"))?;
                Ok((hub, spoke))
            });
            let (hub, spoke) = ends.map_err(|error| error.to_string())?;
            report(name, len, hub, spoke, time);
            Ok(())
        });
        if let Err(reason) = made {
            println!("skipped: {name}, {len} bytes: {reason}");
        }
    }
}

fn report(name: &str, len: usize, hub: impl PacketIo + 'static, mut spoke: impl PacketIo, time: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let waker = hub.waker();
    let stopped = Arc::clone(&stop);
    let forwarding = std::thread::spawn(move || Forwarder::new(hub).run(&stopped).expect("forward"));
    let (packets, seconds) = drive(&mut spoke, len, time);
    stop.store(true, Ordering::Release);
    waker.wake();
    forwarding.join().expect("the forwarder ends");
    let counters = spoke.counters();
    let calls = (counters.rx_calls + counters.tx_calls + counters.sleeps) as f64 / packets as f64;
    let rate = packets as f64 / seconds;
    println!("{name:<22} {len:>6} {:>9.3} {:>9.3} {calls:>12.3}", rate / 1e6, rate * len as f64 / 1e9);
}

/// Keeps a window of datagrams under way; returns how many came back, and the seconds it took.
fn drive(spoke: &mut impl PacketIo, len: usize, time: Duration) -> (u64, f64) {
    let memory = vec![0x5a; WINDOW * len];
    let packets: Vec<_> = (0..WINDOW)
        .map(|index| Transmit { port: PortId(0), offset: (index * len) as u32, len: len as u32 })
        .collect();
    let mut batch = spoke.capabilities().batch();
    let (mut under_way, mut back) = (0, 0);
    let start = Instant::now();
    while back == 0 || start.elapsed() < time {
        under_way += spoke.transmit(&memory, &packets[under_way..]).expect("transmit");
        let count = spoke.receive(&mut batch).expect("receive");
        if count == 0 && !spoke.wait(Duration::from_millis(50)).expect("wait") {
            under_way = 0; // lost in a full socket buffer: begin again
        }
        under_way = under_way.saturating_sub(count);
        back += count as u64;
    }
    (back, start.elapsed().as_secs_f64())
}
