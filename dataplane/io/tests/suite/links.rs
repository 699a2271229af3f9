//! What links do on real interfaces beside the conformance checks: they talk with the kernel's sockets, leave the rest of the machine alone,
//! and leave nothing behind.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netfold_io::link::{AfPacket, Link, PacketRing, Xdp, XdpConfig, XdpMode};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, IoSpec, OpenOptions, PacketIo, PortId, RxBatch, Transmit, open};
use netfold_io_conformance::segment::{HUB, Segment, address, spoke};
use netfold_testkit::wait::eventually;
use netfold_wire::frame::{Endpoint, EthernetAddress, OUTER_LEN, Outer};

const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// The kinds of links, as `--io` names them.
const KINDS: [&str; 3] = ["af-packet", "packet-ring", "af-xdp"];

/// A pair of interfaces, or `None` where there can be none.
fn pair(mtu: usize) -> Option<Segment> {
    Segment::pair(mtu).inspect_err(|reason| println!("skipped: {reason}")).ok()
}

fn to(port: u16, len: u32) -> Transmit {
    Transmit { port: PortId(port), offset: 0, len }
}

/// Opens the hub's end as `kind`.
fn hub(segment: &Segment, kind: &str, more: &str) -> Box<dyn PacketIo> {
    let spec: IoSpec = format!("{kind}:{HUB}{more}").parse().expect("works on a healthy pair");
    let opening = OpenOptions::at(SocketAddr::V4(address(HUB)));
    segment.namespace().run(move || open(&spec, &opening)).expect("works on a healthy pair")
}

/// Gives an end of the pair its address in the kernel.
fn give_address(segment: &Segment, interface: &str) {
    let ip = *address(interface).ip();
    segment
        .namespace()
        .command(&format!("ip addr add {ip}/24 dev {interface}"))
        .expect("works on a healthy pair");
}

/// A kernel's socket at the spoke's end, towards the hub. Both ends being in one namespace, a hub whose address the kernel has too would be
/// reached without the wire; so the spoke's end gets a namespace of its own in tests of that.
fn socket(segment: &Segment, config: UdpConfig) -> UdpIo {
    let (own, peer) = (SocketAddr::V4(address(&spoke(0))), SocketAddr::V4(address(HUB)));
    segment.namespace().run(move || UdpIo::connect_from(own, peer, config)).expect("works on a healthy pair")
}

/// Sends again and again until something arrives, and returns it.
fn through(from: &mut dyn PacketIo, to: &mut dyn PacketIo, port: PortId, bytes: &[u8]) -> Vec<u8> {
    let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
    let packet = Transmit { port, offset: 0, len: bytes.len() as u32 };
    loop {
        from.transmit(bytes, &[packet]).expect("works on a healthy pair");
        to.wait(Duration::from_millis(2)).expect("works on a healthy pair");
        if to.receive(&mut batch).expect("works on a healthy pair") > 0 {
            return batch.bytes(&batch.packets()[0]).to_vec();
        }
        from.receive(&mut batch).expect("works on a healthy pair");
        assert!(start.elapsed() < HANG_TIMEOUT, "nothing gets through");
    }
}

#[test]
fn links_exchange_datagrams_with_kernel_sockets() {
    for kind in KINDS {
        let Some(segment) = pair(1500) else { return };
        give_address(&segment, &spoke(0));
        let mut hub = hub(&segment, kind, "");
        // Virtual interfaces hand checksums over unfinished: the hub must take them.
        let mut worker = socket(&segment, UdpConfig { gso: false, ..UdpConfig::default() });
        hub.bind_port(PortId(3), worker.local_addr().unwrap()).unwrap();
        let payload: Vec<u8> = (0..1400).map(|index| index as u8).collect();
        assert_eq!(through(&mut worker, &mut *hub, PortId(0), &payload), payload, "{kind}");
        assert_eq!(through(&mut *hub, &mut worker, PortId(3), &payload[1..]), payload[1..], "{kind}");
        let counters = hub.counters();
        assert_eq!((counters.malformed, counters.unknown_source), (0, 0), "{kind}");
    }
}

#[test]
fn the_owner_of_the_address_answers_pings() {
    // The kernel does not have the address, and packet sockets receive all frames of the interface.
    for kind in ["af-packet", "packet-ring"] {
        let Some(segment) = pair(1500) else { return };
        give_address(&segment, &spoke(0));
        let mut hub = hub(&segment, kind, "");
        let ping = segment.namespace().run(|| {
            let ip = address(HUB).ip().to_string();
            Command::new("ping").args(["-c", "1", "-W", "5", &ip]).stdout(Stdio::null()).spawn()
        });
        let Ok(mut ping) = ping else {
            println!("skipped: no ping");
            return;
        };
        let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        let status = loop {
            if let Some(status) = ping.try_wait().unwrap() {
                break status;
            }
            hub.wait(Duration::from_millis(10)).unwrap();
            hub.receive(&mut batch).unwrap();
            assert!(start.elapsed() < HANG_TIMEOUT, "ping does not end");
        };
        assert!(status.success(), "{kind}");
    }
}

#[test]
fn a_delayed_arp_request_is_answered() {
    for kind in KINDS {
        let Some(segment) = pair(1500) else { return };
        let mut hub = hub(&segment, kind, "");
        give_address(&segment, &spoke(0));
        let mut worker = socket(&segment, UdpConfig { gso: false, ..UdpConfig::default() });
        let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        // The hub knows no worker yet, so it asks for none: the worker's kernel has to ask.
        while hub.counters().unknown_source == 0 {
            worker.transmit(b"hello", &[to(0, 5)]).expect("works on a healthy pair");
            hub.wait(Duration::from_millis(2)).expect("works on a healthy pair");
            hub.receive(&mut batch).expect("works on a healthy pair");
            assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: {:?}", hub.counters());
        }
    }
}

/// A pair whose spoke's end is in another namespace, so that the kernel can have both addresses.
fn apart() -> Option<(Segment, Segment)> {
    let (near, far) = (pair(1500)?, pair(1500)?);
    far.namespace().command("ip link del hub").expect("works on a healthy pair");
    let pid = far.namespace().run(|| {
        // The thread's own entry, whose namespace is not the process's.
        std::fs::read_link("/proc/thread-self")
            .expect("works on a healthy pair")
            .to_string_lossy()
            .into_owned()
    });
    let tid = pid.rsplit('/').next().expect("works on a healthy pair").to_owned();
    near.namespace().command(&format!("ip link set spoke0 netns {tid}")).expect("works on a healthy pair");
    far.namespace().command("ip link set spoke0 up").expect("works on a healthy pair");
    give_address(&near, HUB);
    give_address(&far, &spoke(0));
    Some((near, far))
}

#[test]
fn a_kernel_address_can_be_shared() {
    for kind in KINDS {
        let Some((near, far)) = apart() else { return };
        let mut hub = hub(&near, kind, "");
        let taken = near.namespace().run(|| UdpSocket::bind(address(HUB)).map(drop));
        assert!(taken.is_err(), "the port is held");
        let mut worker = socket(&far, UdpConfig { gso: false, ..UdpConfig::default() });
        hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
        for round in 0..20_u8 {
            assert_eq!(through(&mut worker, &mut *hub, PortId(0), &[round; 64])[0], round, "{kind}");
        }
        assert_eq!(through(&mut *hub, &mut worker, PortId(0), b"down"), b"down", "{kind}");
        // The worker got no report of a closed port.
        assert_eq!(worker.counters().refused, 0, "{kind}");
        // The rest of the host is undisturbed: the kernel's own sockets on the same address receive their datagrams.
        let (echo, at) = near.namespace().run(|| {
            let socket = UdpSocket::bind((*address(HUB).ip(), 0)).unwrap();
            let at = socket.local_addr().unwrap();
            (socket, at)
        });
        let own = SocketAddr::from((*address(&spoke(0)).ip(), 0));
        let other = far.namespace().run(move || UdpSocket::bind(own)).unwrap();
        echo.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        other.send_to(b"not for netfold", at).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(echo.recv(&mut bytes).unwrap(), 15, "{kind}");
    }
}

#[test]
fn unsegmented_gso_packets_are_counted() {
    // The XDP link makes the kernel cut them; packet sockets see them whole.
    for kind in ["af-packet", "packet-ring"] {
        let Some(segment) = pair(1500) else { return };
        give_address(&segment, &spoke(0));
        let mut hub = hub(&segment, kind, "");
        let mut worker = socket(&segment, UdpConfig { datagram_len_max: 1400, ..UdpConfig::default() });
        if worker.gso_len_max() == 0 {
            println!("skipped: this kernel does not segment");
            return;
        }
        hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
        let _ = through(&mut worker, &mut *hub, PortId(0), b"hello");
        assert_eq!(
            worker
                .transmit(
                    &[1; 14_000],
                    &(0..10).map(|at| Transmit { offset: at * 1400, ..to(0, 1400) }).collect::<Vec<_>>()
                )
                .unwrap(),
            10
        );
        let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        while hub.counters().truncated == 0 {
            hub.wait(Duration::from_millis(2)).unwrap();
            assert_eq!(hub.receive(&mut batch).unwrap(), 0, "{kind}: a part of a super-buffer");
            assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: nothing was counted");
        }
        assert_eq!(through(&mut worker, &mut *hub, PortId(0), b"still there"), b"still there", "{kind}");
    }
}

#[test]
fn an_xdp_link_has_the_kernel_segment_gso_packets() {
    let Some(segment) = pair(1500) else { return };
    give_address(&segment, &spoke(0));
    let mut hub = hub(&segment, "af-xdp", "");
    let mut worker = socket(&segment, UdpConfig { datagram_len_max: 1400, ..UdpConfig::default() });
    hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
    let _ = through(&mut worker, &mut *hub, PortId(0), b"hello");
    let packets: Vec<_> = (0..10).map(|at| Transmit { offset: at * 1400, ..to(0, 1400) }).collect();
    assert_eq!(worker.transmit(&[1; 14_000], &packets).unwrap(), 10);
    let (start, mut batch, mut got) = (Instant::now(), RxBatch::new(64, 1 << 18), 0);
    while got < 10 {
        hub.wait(Duration::from_millis(2)).unwrap();
        hub.receive(&mut batch).unwrap();
        got += batch.packets().iter().filter(|packet| packet.len == 1400).count();
        assert!(start.elapsed() < HANG_TIMEOUT, "{got} arrived: {:?}", hub.counters());
    }
    assert_eq!(hub.counters().truncated, 0);
}

#[test]
fn frames_of_a_vlan_on_the_interface_are_ignored() {
    for kind in KINDS {
        let Some(segment) = pair(1500) else { return };
        let mut hub = hub(&segment, kind, "");
        hub.bind_port(PortId(0), SocketAddr::V4(address(&spoke(0)))).unwrap();
        let (mac, mut raw) = segment.namespace().run(|| {
            let mac = AfPacket::open(HUB).unwrap().properties().mac;
            (mac, AfPacket::open(&spoke(0)).unwrap())
        });
        let end = |mac, address: SocketAddrV4| Endpoint {
            mac: EthernetAddress(mac),
            ip: *address.ip(),
            port: address.port(),
        };
        let source = end(raw.properties().mac, address(&spoke(0)));
        let outer = Outer { source, destination: end(mac, address(HUB)) };
        let mut plain = [0; OUTER_LEN + 8];
        outer.emit(b"untagged", 0, &mut plain).unwrap();
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x81, 0, 0, 7]); // 802.1Q, VLAN 7
        tagged.extend(&plain[12..]);
        let mut send = |frame: &[u8]| {
            raw.frame(frame.len()).unwrap().copy_from_slice(frame);
            raw.push();
            raw.flush().unwrap();
        };
        for _ in 0..20 {
            send(&tagged);
        }
        send(&plain);
        let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        let mut got = 0;
        while got == 0 {
            hub.wait(Duration::from_millis(2)).unwrap();
            got = hub.receive(&mut batch).unwrap();
            assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: nothing arrives");
        }
        assert_eq!((got, hub.counters().rx_packets), (1, 1), "{kind}: the last alone");
    }
}

/// As the queues of a switch do: each has a port, and what goes to another is kept out of its socket by the kernel.
#[test]
fn packet_sockets_share_an_interface_by_port() {
    for kind in ["af-packet", "packet-ring"] {
        let Some(segment) = pair(1500) else { return };
        give_address(&segment, &spoke(0));
        let mut first = hub(&segment, kind, "");
        let second_at = SocketAddrV4::new(*address(HUB).ip(), address(HUB).port() + 1);
        let mut second: Box<dyn Link> = segment.namespace().run(move || match kind {
            "af-packet" => Box::new(AfPacket::open(HUB).unwrap()) as Box<dyn Link>,
            _ => Box::new(PacketRing::open(HUB).unwrap()),
        });
        second.hear_port(second_at.port()).unwrap();
        let mut worker = socket(&segment, UdpConfig { gso: false, ..UdpConfig::default() });
        first.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
        through(&mut worker, &mut *first, PortId(0), b"to the first");
        let other = UdpConfig { gso: false, ..UdpConfig::default() };
        let from = SocketAddr::new((*address(&spoke(0)).ip()).into(), 0);
        let mut other =
            segment.namespace().run(move || UdpIo::connect_from(from, second_at.into(), other)).unwrap();
        let (start, mut batch, mut ports) = (Instant::now(), RxBatch::new(64, 1 << 18), Vec::new());
        while ports.is_empty() {
            worker.transmit(b"to the first", &[to(0, 12)]).unwrap();
            other.transmit(b"to the second", &[to(0, 13)]).unwrap();
            second.wait(Duration::from_millis(2)).unwrap();
            second.receive(&mut batch).unwrap();
            for frame in batch.packets().iter().map(|packet| batch.bytes(packet)) {
                let is_udp = frame[12..14] == [8, 0] && frame[23] == 17;
                ports.extend(is_udp.then(|| u16::from_be_bytes([frame[36], frame[37]])));
            }
            // The hub replies for the address meanwhile.
            first.receive(&mut batch).unwrap();
            assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: nothing arrives");
        }
        assert!(ports.iter().all(|port| *port == second_at.port()), "{kind}: {ports:?}");
    }
}

/// Unread frames are counted once the ring is full.
#[test]
fn drops_of_a_full_ring_are_counted() {
    for kind in KINDS {
        let Some(segment) = pair(1500) else { return };
        give_address(&segment, &spoke(0));
        let mut hub = hub(&segment, kind, "");
        let mut worker = socket(&segment, UdpConfig { gso: false, ..UdpConfig::default() });
        hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
        through(&mut worker, &mut *hub, PortId(0), b"found");
        let (start, memory) = (Instant::now(), [5; 1400]);
        while hub.counters().rx_dropped == 0 {
            worker.transmit(&memory, &[to(0, 1400); 64]).unwrap();
            worker.wait(Duration::ZERO).unwrap();
            assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: nothing is dropped");
        }
        let dropped = hub.counters().rx_dropped;
        assert!(hub.counters().rx_dropped >= dropped, "{kind}: what was read once is not forgotten");
    }
}

/// What `ip` says of an interface.
pub(crate) fn shown(segment: &Segment, interface: &str) -> String {
    let interface = interface.to_owned();
    segment.namespace().run(move || {
        let output = Command::new("ip")
            .args(["-d", "link", "show", &interface])
            .output()
            .expect("works on a healthy pair");
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

/// Waits until no program is on the hub's interface. The kernel removes it after the last holder of the socket, which may be a child that
/// another test is starting, until it executes its own program.
pub(crate) fn await_no_program(segment: &Segment, what: &str) {
    eventually(what, || !shown(segment, HUB).contains("xdp"));
}

#[test]
fn an_xdp_link_reports_its_mode_and_leaves_nothing() {
    let Some(segment) = pair(1500) else { return };
    let open = |config: XdpConfig| segment.namespace().run(move || Xdp::open(HUB, config));
    let config = XdpConfig::new(address(HUB));
    let start = Instant::now();
    let native = match open(config) {
        Ok(native) => native,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    println!("opened in {:?}", start.elapsed());
    assert_eq!((native.mode(), native.properties().name), (XdpMode::Native, "af-xdp"));
    assert!(shown(&segment, HUB).contains("prog/xdp"), "the program is on the interface");
    let second = open(config);
    assert!(matches!(second.map(drop), Err(IoError::Link { .. })), "the hook is taken");
    drop(native);
    await_no_program(&segment, "the program is removed");
    let generic = open(XdpConfig { force_generic: true, ..config }).unwrap();
    assert_eq!((generic.mode(), generic.properties().name), (XdpMode::Generic, "af-xdp, generic"));
    drop(generic);
    await_no_program(&segment, "the generic program is removed");
    let queue = open(XdpConfig { queue: 77, ..config });
    assert!(matches!(queue.map(drop), Err(IoError::Link { .. })), "there is no such queue");
    await_no_program(&segment, "a link that is refused leaves nothing");
    let loopback = segment.namespace().run(move || Xdp::open("lo", config));
    assert!(matches!(loopback.map(drop), Err(IoError::Link { .. })), "no Ethernet");
}

/// As when a program is restarted: the kernel releases the queue and the hook after the previous holder has closed them.
#[test]
fn an_xdp_link_waits_for_its_predecessor_to_be_released() {
    let Some(segment) = pair(1500) else { return };
    let open = || segment.namespace().run(|| Xdp::open(HUB, XdpConfig::new(address(HUB))));
    let first = match open() {
        Ok(first) => first,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Long enough for the second to meet the first, in all runs but those where the machine stalls; those pass, too.
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        open().map(drop).expect("the first link is closed within the time limit");
    });
    for _ in 0..20 {
        open().map(drop).expect("what the last link held is released");
    }
}

#[test]
fn every_queue_is_a_link() {
    let Some(segment) = pair(1500) else { return };
    let namespace = segment.namespace();
    namespace.command("ip link del hub").unwrap();
    namespace
        .command("ip link add hub numrxqueues 2 numtxqueues 2 type veth peer name spoke0 numrxqueues 2 numtxqueues 2")
        .unwrap();
    let opened = namespace.run(|| Xdp::open_queues(HUB, XdpConfig::new(address(HUB)), 2));
    let links = match opened {
        Ok(links) => links,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    assert_eq!(links.len(), 2);
    let mut links = links.into_iter();
    drop(links.next());
    assert!(shown(&segment, HUB).contains("prog/xdp"), "the other queue still needs it");
    drop(links.next());
    await_no_program(&segment, "the last queue removes the program");
}

/// A link of all queues receives from all peers, whichever queue the interface selects, awake or asleep.
#[test]
fn a_link_of_several_queues_receives_from_all() {
    const PEERS: u16 = 32;
    let Some(segment) = pair(1500) else { return };
    let namespace = segment.namespace();
    namespace.command("ip link del hub").unwrap();
    let queues = "numrxqueues 4 numtxqueues 4";
    namespace.command(&format!("ip link add hub {queues} type veth peer name spoke0 {queues}")).unwrap();
    for interface in [HUB, &spoke(0)] {
        namespace.command(&format!("ip link set {interface} gso_max_segs 1 up")).unwrap();
    }
    give_address(&segment, &spoke(0));
    let opening = OpenOptions::at(SocketAddr::V4(address(HUB)));
    let open = |words: &str| {
        let spec: IoSpec = words.parse().unwrap();
        namespace.run(move || open(&spec, &opening)).inspect_err(|error| println!("skipped: {error}")).ok()
    };
    let config = UdpConfig { gso: false, ..UdpConfig::default() };
    let (own, at) = (*address(&spoke(0)).ip(), SocketAddr::V4(address(HUB)));
    let socket = |peer| {
        let own = SocketAddr::from((own, 4000 + peer));
        namespace.run(move || UdpIo::connect_from(own, at, config)).unwrap()
    };
    let mut batch = RxBatch::new(64, 1 << 18);
    // The first queue alone receives some of them.
    let Some(mut hub) = open("af-xdp:hub@0") else { return };
    let mut peers: Vec<UdpIo> = (0..PEERS).map(socket).collect();
    let mut received = std::collections::BTreeSet::new();
    for (port, peer) in (0..).zip(&mut peers) {
        hub.bind_port(PortId(port), peer.local_addr().unwrap()).unwrap();
        for _ in 0..3 {
            peer.transmit(b"word", &[to(0, 4)]).unwrap();
            hub.wait(Duration::from_millis(5)).unwrap();
            hub.receive(&mut batch).unwrap();
            received.extend(batch.packets().iter().map(|packet| packet.port));
        }
    }
    assert!(!received.is_empty() && received.len() < peers.len(), "{received:?}");
    drop(hub);
    let Some(mut hub) = open("af-xdp:hub@0-3") else { return };
    for (port, peer) in (0..).zip(&mut peers) {
        hub.bind_port(PortId(port), peer.local_addr().unwrap()).unwrap();
        let bytes = port.to_be_bytes();
        assert_eq!(through(peer, &mut *hub, PortId(0), &bytes), bytes);
        assert_eq!(through(&mut *hub, peer, PortId(port), &bytes), bytes);
    }
    // A datagram of any peer wakes a sleeping link.
    while hub.wait(Duration::from_millis(5)).unwrap() {
        hub.receive(&mut batch).unwrap();
    }
    std::thread::scope(|scope| {
        let hearing = scope.spawn(|| {
            let mut received = 0;
            while received < usize::from(PEERS) {
                assert!(hub.wait(HANG_TIMEOUT).unwrap(), "{received} were received");
                received += hub.receive(&mut batch).unwrap();
            }
        });
        for peer in &mut peers {
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(peer.transmit(b"word", &[to(0, 4)]).unwrap(), 1);
        }
        hearing.join().unwrap();
    });
}

#[test]
fn open_errors_name_the_remedy() {
    let Some(segment) = pair(9000) else { return };
    let named = |open: fn() -> Result<(), IoError>| match segment.namespace().run(open) {
        Err(IoError::Link { interface, problem, .. }) => (interface, problem),
        other => panic!("{other:?}"),
    };
    let (interface, problem) = named(|| PacketRing::open("nowhere").map(drop));
    assert!(interface == "nowhere" && problem.contains("no such interface"), "{problem}");
    let (_, problem) = named(|| AfPacket::open("lo").map(drop));
    assert!(problem.contains("no Ethernet"), "{problem}");
    let (_, problem) = named(|| Xdp::open(HUB, XdpConfig::new(address(HUB))).map(drop));
    assert!(problem.contains("MTU"), "{problem}");
}

/// The environment variable that makes this binary a process to be killed.
const VICTIM: &str = "NETFOLD_TEST_XDP_VICTIM";

#[test]
fn a_killed_process_leaves_nothing_and_can_be_replaced() {
    if std::env::var_os(VICTIM).is_some() {
        let link = Xdp::open(HUB, XdpConfig::new(address(HUB)));
        println!("{}", if link.is_ok() { "open" } else { "refused" });
        std::thread::sleep(3 * HANG_TIMEOUT); // killed long before
        return;
    }
    let Some(segment) = pair(1500) else { return };
    let program = std::env::current_exe().unwrap();
    for _ in 0..2 {
        let mut victim = Command::new(&program);
        victim
            .args(["--exact", "--nocapture", "links::a_killed_process_leaves_nothing_and_can_be_replaced"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped());
        let mut victim = segment.namespace().run(move || victim.spawn()).unwrap();
        let mut said = String::new();
        let mut stdout = victim.stdout.take().unwrap();
        let mut byte = [0; 1];
        while !said.contains("open") && !said.contains("refused") && stdout.read(&mut byte).unwrap() > 0 {
            said.push(char::from(byte[0]));
        }
        if said.contains("open") {
            assert!(shown(&segment, HUB).contains("prog/xdp"));
        } else {
            println!("skipped: no XDP sockets here ({said})");
        }
        victim.kill().unwrap(); // SIGKILL
        victim.wait().unwrap();
        await_no_program(&segment, "the program of a killed process is removed");
    }
}

#[test]
fn an_unresolved_neighbour_costs_no_call_per_datagram() {
    let Some(segment) = pair(1500) else { return };
    let mut hub = hub(&segment, "packet-ring", "");
    hub.bind_port(PortId(0), SocketAddr::from((Ipv4Addr::new(198, 18, 0, 99), 1))).unwrap();
    let packets = vec![to(0, 8); 100];
    let start = Instant::now();
    while hub.counters().unresolved < 100 {
        let taken = hub.transmit(&[0; 8], &packets).unwrap();
        if taken == 0 {
            assert!(hub.wait(HANG_TIMEOUT).unwrap(), "it is worth trying again some time");
        }
        assert!(start.elapsed() < HANG_TIMEOUT);
    }
    assert!(hub.counters().tx_calls < 20, "{:?}", hub.counters());
}

#[test]
fn requests_to_pause_pass_packet_sockets() {
    for kind in ["af-packet", "packet-ring"] {
        let Some(segment) = pair(1500) else { return };
        let mut hub = hub(&segment, kind, "");
        let spec: IoSpec = format!("{kind}:{}", spoke(0)).parse().expect("works on a healthy pair");
        let opening = OpenOptions::at(SocketAddr::V4(address(&spoke(0))));
        let worker = segment.namespace().run(move || open(&spec, &opening));
        let mut worker = worker.expect("works on a healthy pair");
        let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        let mut until = |wanted: u8, request: u8| {
            while worker.paused().priorities != wanted {
                hub.pause(request).expect("works on a healthy pair");
                worker.wait(Duration::from_millis(2)).expect("works on a healthy pair");
                worker.receive(&mut batch).expect("works on a healthy pair");
                assert!(start.elapsed() < HANG_TIMEOUT, "{kind}: no request arrives");
            }
        };
        until(0b1000_0010, 0b1000_0010);
        until(0, 0);
        assert_eq!((worker.counters().pause_ignored, worker.counters().malformed), (0, 0), "{kind}");
    }
}
