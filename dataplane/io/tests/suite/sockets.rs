//! What only some backends can do: unknown sources, binding, refusals, segmentation, back-pressure, lost peers.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use netfold_io::udp::{DATAGRAM_LEN_MAX, UdpConfig, UdpIo};
use netfold_io::{IoError, Null, PacketIo, PortId, RxBatch, Transmit, loopback};
use netfold_testkit::namespace;
use netfold_wire::{Dscp, Packet, VERSION};

const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const HANG_TIMEOUT: Duration = Duration::from_secs(20);

fn to(port: u16, len: u32) -> Transmit {
    Transmit { port: PortId(port), offset: 0, len }
}

fn address(io: &UdpIo) -> SocketAddr {
    io.local_addr().expect("sockets have one")
}

/// Receives into a fresh batch until something comes, and returns that burst.
fn burst(io: &mut impl PacketIo) -> RxBatch {
    let mut batch = io.capabilities().batch();
    while io.receive(&mut batch).expect("receive") == 0 {
        assert!(io.wait(HANG_TIMEOUT).expect("wait"), "nothing arrived");
    }
    batch
}

#[test]
fn unknown_sources_are_dropped_and_counted() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let stranger = UdpSocket::bind(LOCALHOST).unwrap();
    stranger.send_to(b"let me in", address(&hub)).unwrap();
    let mut known = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
    hub.bind_port(PortId(4), address(&known)).unwrap();
    assert_eq!(known.transmit(b"hello", &[to(0, 5)]).unwrap(), 1);
    let batch = burst(&mut hub);
    assert_eq!((batch.len(), batch.packets()[0].port), (1, PortId(4)));
    assert_eq!(batch.bytes(&batch.packets()[0]), b"hello");
    assert_eq!((hub.counters().unknown_source, hub.counters().rx_packets), (1, 1));
}

#[test]
fn an_unbound_peer_is_an_unknown_source() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let mut spoke = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
    hub.bind_port(PortId(0), address(&spoke)).unwrap();
    assert_eq!(hub.peer(PortId(0)), spoke.local_addr());
    assert!(matches!(
        hub.bind_port(PortId(1), address(&spoke)),
        Err(IoError::PeerBound { port: PortId(0), .. })
    ));
    hub.unbind_port(PortId(0)).unwrap();
    assert!(matches!(hub.unbind_port(PortId(0)), Err(IoError::UnknownPort(PortId(0)))));
    spoke.transmit(b"x", &[to(0, 1)]).unwrap();
    assert!(hub.wait(HANG_TIMEOUT).unwrap());
    assert_eq!(hub.receive(&mut RxBatch::new(4, 9000)).unwrap(), 0);
    assert_eq!(hub.counters().unknown_source, 1);
    assert_eq!(hub.transmit(b"x", &[to(0, 1)]).unwrap(), 1);
    assert_eq!(hub.counters().unbound_port, 1);
    hub.bind_port(PortId(1), address(&spoke)).expect("free again");
}

#[test]
fn fixed_ports_cannot_be_bound() {
    let (hub, _spokes) = loopback::star(1, 4, 64);
    let spoke =
        UdpIo::connect(address(&UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap()), UdpConfig::default());
    let backends: [Box<dyn PacketIo>; 3] = [Box::new(hub), Box::new(spoke.unwrap()), Box::new(Null::new(64))];
    for mut io in backends {
        assert!(matches!(io.bind_port(PortId(0), LOCALHOST), Err(IoError::Unsupported(_))));
        assert!(matches!(io.unbind_port(PortId(0)), Err(IoError::Unsupported(_))));
    }
}

#[test]
fn an_error_names_a_taken_port() {
    let first = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let error = UdpIo::bind(address(&first), UdpConfig::default()).map(drop).unwrap_err();
    assert!(matches!(&error, IoError::Bind { address: taken, .. } if *taken == address(&first)), "{error}");
    assert!(error.to_string().contains(&address(&first).to_string()), "{error}");
}

#[test]
fn a_refused_connection_is_counted_and_survived() {
    let unreachable = address(&UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap()); // closed again at once
    let mut io = UdpIo::connect(unreachable, UdpConfig::default()).unwrap();
    let mut batch = io.capabilities().batch();
    for _ in 0..5 {
        assert_eq!(io.transmit(b"hello", &[to(0, 5), to(0, 3)]).unwrap(), 2);
        assert_eq!(io.receive(&mut batch).unwrap(), 0);
    }
    assert!(io.counters().refused > 0, "{:?}", io.counters());
    // The peer comes back at the same address: nothing has to be done.
    let mut hub = UdpIo::bind(unreachable, UdpConfig::default()).unwrap();
    hub.bind_port(PortId(0), SocketAddr::new(LOCALHOST.ip(), address(&io).port())).unwrap();
    assert_eq!(io.transmit(b"hello", &[to(0, 5)]).unwrap(), 1);
    assert_eq!(burst(&mut hub).len(), 1);
}

#[test]
fn gso_packets_are_segmented_and_coalesced_where_the_kernel_can() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let mut spoke = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
    hub.bind_port(PortId(0), address(&spoke)).unwrap();
    let memory: Vec<u8> = (0..30 * 1436).map(|index| (index / 1436) as u8).collect();
    let packets: Vec<_> =
        (0..30).map(|index| Transmit { port: PortId(0), offset: index * 1436, len: 1436 }).collect();
    assert_eq!(spoke.transmit(&memory, &packets).unwrap(), 30);
    let mut got = Vec::new();
    while got.len() < 30 {
        let batch = burst(&mut hub);
        got.extend(batch.packets().iter().map(|packet| batch.bytes(packet).to_vec()));
    }
    assert!(got.iter().enumerate().all(|(index, bytes)| bytes[..] == [index as u8; 1436]));
    if spoke.gso_len_max() < 1436 || !hub.gro() {
        println!("skipped: no segmentation offload on this route");
        return;
    }
    assert_eq!((spoke.counters().tx_calls, spoke.counters().gso_runs), (1, 1));
    assert!(hub.counters().gro_runs >= 1, "{:?}", hub.counters());
    for (allowed, runs) in [(false, 1), (true, 2)] {
        spoke.set_segmentation(allowed);
        assert_eq!(spoke.transmit(&memory, &packets).unwrap(), 30);
        assert_eq!(spoke.counters().gso_runs, runs, "runs allowed: {allowed}");
    }
}

/// Messages of one datagram are received with room for one each; a run among them has all its datagrams delivered in order nonetheless.
#[test]
fn gso_packets_among_datagrams_arrive_whole_and_in_order() {
    let config = UdpConfig { datagram_len_max: 1436, ..UdpConfig::default() };
    let mut hub = UdpIo::bind(LOCALHOST, config).unwrap();
    let plain = UdpConfig { gso: false, ..config };
    let mut spokes = [plain, config].map(|config| UdpIo::connect(address(&hub), config).unwrap());
    for (port, spoke) in (0..).zip(&spokes) {
        hub.bind_port(PortId(port), address(spoke)).unwrap();
    }
    let mut sent = [0_u32; 2];
    let mut got = [0_u32; 2];
    for _ in 0..3 {
        // Single ones until they are expected, then runs: longer than one place has room for, of one, with a short end, two in a row.
        for (port, count, len, last) in
            [(0, 100, 1436, 1436), (1, 30, 1000, 8), (0, 4, 20, 20), (1, 1, 1436, 1436), (1, 45, 1436, 700)]
        {
            let memory: Vec<u8> = (sent[port]..sent[port] + count)
                .flat_map(|number| (0..len).map(move |at| number.to_be_bytes()[at % 4]))
                .collect();
            let packets: Vec<_> = (0..count)
                .map(|index| Transmit {
                    port: PortId(0),
                    offset: index * len as u32,
                    len: if index + 1 == count { last } else { len as u32 },
                })
                .collect();
            assert_eq!(spokes[port].transmit(&memory, &packets).unwrap(), packets.len());
            sent[port] += count;
        }
        while got != sent {
            let batch = burst(&mut hub);
            for packet in batch.packets() {
                let number = &mut got[usize::from(packet.port.0)];
                let expected = number.to_be_bytes();
                let bytes = batch.bytes(packet);
                assert!(
                    bytes.len() >= 8 && bytes.chunks(4).all(|chunk| chunk == &expected[..chunk.len()]),
                    "{number}"
                );
                *number += 1;
            }
        }
    }
    assert_eq!((hub.counters().truncated, hub.counters().rx_packets), (0, u64::from(sent[0] + sent[1])));
    if spokes[1].gso_len_max() < 1436 || !hub.gro() {
        println!("skipped: no segmentation offload on this route");
        return;
    }
    assert!(hub.counters().gro_runs >= 3, "{:?}", hub.counters());
}

#[test]
fn datagrams_beyond_the_limit_are_dropped_and_counted() {
    for gro in [true, false] {
        let config = UdpConfig { datagram_len_max: 100, gro, ..UdpConfig::default() };
        let mut hub = UdpIo::bind(LOCALHOST, config).unwrap();
        let mut spoke = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
        hub.bind_port(PortId(0), address(&spoke)).unwrap();
        assert_eq!(spoke.transmit(&[1; 101], &[to(0, 101), to(0, 100)]).unwrap(), 2);
        let mut got = 0;
        while got == 0 {
            let batch = burst(&mut hub);
            assert!(batch.packets().iter().all(|packet| packet.len == 100));
            got += batch.len();
        }
        assert_eq!((got, hub.counters().truncated), (1, 1), "gro: {gro}");
    }
}

/// A socket's buffer fills without a reader: datagrams that do not fit are counted, so that no loss is hidden.
#[test]
fn drops_of_a_full_socket_buffer_are_counted() {
    let config = UdpConfig { socket_buffer: 1 << 16, gso: false, gro: false, ..UdpConfig::default() };
    let mut hub = UdpIo::bind(LOCALHOST, config).unwrap();
    let mut spoke = UdpIo::connect(address(&hub), config).unwrap();
    hub.bind_port(PortId(0), address(&spoke)).unwrap();
    let (memory, packets) = ([7; 1000], [to(0, 1000); 50]);
    for _ in 0..40 {
        assert_eq!(spoke.transmit(&memory, &packets).unwrap(), 50);
    }
    let mut batch = hub.capabilities().batch();
    while hub.receive(&mut batch).unwrap() > 0 {}
    let counters = hub.counters();
    assert!(counters.rx_dropped > 0 && counters.rx_packets > 0, "{counters:?}");
    assert_eq!(counters.rx_packets + counters.rx_dropped, 2000);
}

#[test]
fn the_largest_udp_datagram_passes() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let mut spoke = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
    hub.bind_port(PortId(0), address(&spoke)).unwrap();
    let memory: Vec<u8> = (0..DATAGRAM_LEN_MAX).map(|index| (index * 13) as u8).collect();
    let packets = [to(0, DATAGRAM_LEN_MAX as u32); 3];
    assert_eq!(spoke.transmit(&memory, &packets).unwrap(), 3);
    // Once into a batch made for it, then into one that just holds a datagram.
    let mut got = 0;
    for bytes in [hub.capabilities().batch_bytes, DATAGRAM_LEN_MAX, DATAGRAM_LEN_MAX] {
        let mut batch = RxBatch::new(1, bytes);
        while hub.receive(&mut batch).unwrap() == 0 {
            assert!(hub.wait(HANG_TIMEOUT).unwrap(), "nothing arrived");
        }
        assert!(batch.bytes(&batch.packets()[0]) == memory);
        got += batch.len();
    }
    assert_eq!(got, 3);
}

/// Run by the next test in a network where no route takes segments of this length.
#[test]
#[ignore = "needs a loopback interface with an MTU of 1400; run by segmentation_is_disabled_where_the_route_refuses_it"]
fn short_mtu() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let mut spoke = UdpIo::connect(address(&hub), UdpConfig::default()).unwrap();
    hub.bind_port(PortId(0), address(&spoke)).unwrap();
    if spoke.gso_len_max() == 0 {
        return;
    }
    let mut send = |len: usize| {
        let memory: Vec<u8> = (0..20 * len).map(|index| (index / len) as u8).collect();
        let packets: Vec<_> = (0..20)
            .map(|index| Transmit { port: PortId(0), offset: index * len as u32, len: len as u32 })
            .collect();
        assert_eq!(spoke.transmit(&memory, &packets).unwrap(), 20);
        let mut got = 0;
        while got < 20 {
            let batch = burst(&mut hub);
            for packet in batch.packets() {
                assert_eq!(batch.bytes(packet), vec![got; len]);
                got += 1;
            }
        }
        (spoke.gso_len_max(), spoke.counters())
    };
    let (gso_len_max, counters) = send(1436);
    assert_eq!(
        (gso_len_max, counters.gso_runs, counters.tx_calls),
        (1435, 0, 2),
        "refused once, then sent one by one"
    );
    let (gso_len_max, counters) = send(1000);
    assert_eq!((gso_len_max, counters.gso_runs), (1435, 1), "shorter ones are still segmented");
    assert_eq!(counters.tx_failed, 0);
}

#[test]
fn segmentation_is_disabled_where_the_route_refuses_it() {
    namespace::ignored_test("ip link set lo mtu 1400 && ip link set lo up", "sockets::short_mtu");
}

#[test]
fn full_rings_cause_back_pressure_and_wake_the_sender() {
    let (mut hub, mut spokes) = loopback::star(2, 4, 64);
    let mut taken = 0;
    while hub.transmit(&[0; 64], &[to(1, 64)]).unwrap() == 1 {
        taken += 1;
    }
    assert_eq!((taken, hub.counters().backpressure), (4, 1));
    assert!(!hub.wait(Duration::ZERO).unwrap());
    assert_eq!(
        hub.transmit(&[0; 64], &[to(0, 64), to(1, 64), to(0, 64)]).unwrap(),
        1,
        "stops at the full one"
    );
    let waiting = std::thread::spawn(move || (hub.wait(HANG_TIMEOUT).unwrap(), hub));
    let mut batch = RxBatch::new(8, 64);
    for _ in 0..4 {
        assert_eq!(spokes[1].receive(&mut batch).unwrap(), 1);
    }
    let (woken, mut hub) = waiting.join().unwrap();
    assert!(woken);
    assert!(!hub.wait(Duration::ZERO).unwrap() || !hub.wait(Duration::ZERO).unwrap(), "reported once");
    assert_eq!(hub.transmit(&[0; 64], &[to(1, 64)]).unwrap(), 1);
}

#[test]
fn dropped_ends_are_detected() {
    let (mut hub, mut spokes) = loopback::star(2, 4, 64);
    let mut batch = RxBatch::new(8, 512);
    spokes[0].transmit(b"last", &[to(0, 4)]).unwrap();
    drop(spokes.remove(0));
    assert!(hub.wait(HANG_TIMEOUT).unwrap());
    assert_eq!(hub.receive(&mut batch).unwrap(), 1, "what was sent before still arrives");
    assert_eq!(hub.receive(&mut batch).unwrap(), 0);
    while hub.wait(Duration::ZERO).unwrap() {} // ends: a lost spoke is news once
    assert_eq!(hub.transmit(b"both", &[to(0, 4), to(1, 4)]).unwrap(), 2);
    assert_eq!(hub.counters().unbound_port, 1);

    let mut spoke = spokes.remove(0);
    let waiting = std::thread::spawn(move || {
        let mut batch = RxBatch::new(8, 512);
        let mut received = 0;
        loop {
            match spoke.receive(&mut batch) {
                Ok(0) => assert!(spoke.wait(HANG_TIMEOUT).unwrap()),
                Ok(count) => received += count,
                Err(error) => return (received, error, spoke),
            }
        }
    });
    drop(hub);
    let (received, error, mut spoke) = waiting.join().unwrap();
    assert!(received == 1 && matches!(error, IoError::PeerClosed), "{error}");
    assert!(matches!(spoke.transmit(b"x", &[to(0, 1)]), Err(IoError::PeerClosed)));
    assert!(spoke.wait(HANG_TIMEOUT).unwrap(), "no sleep without hope");
}

#[test]
fn ecn_bits_arrive() {
    let mut hub = UdpIo::bind(LOCALHOST, UdpConfig::default()).unwrap();
    let marked = UdpSocket::bind(LOCALHOST).unwrap();
    hub.bind_port(PortId(0), marked.local_addr().unwrap()).unwrap();
    set_tos(&marked, 3);
    marked.send_to(b"marked", address(&hub)).unwrap();
    assert_eq!(burst(&mut hub).packets()[0].ecn, 3);
}

/// Datagrams of several classes in one burst, as they arrive: the class and what the IP header says.
fn marks(io: &mut UdpIo, receiver: &UdpSocket, classes: &[u8]) -> Vec<(u8, u8)> {
    const LEN: usize = 1000;
    let mut memory = vec![0; classes.len() * LEN];
    for (datagram, class) in memory.chunks_exact_mut(LEN).zip(classes) {
        let mut packet = Packet::new_unchecked(datagram);
        packet.set_version(VERSION);
        packet.set_class(*class);
    }
    let packets: Vec<Transmit> = (0..classes.len())
        .map(|at| Transmit { port: PortId(0), offset: (at * LEN) as u32, len: LEN as u32 })
        .collect();
    assert_eq!(io.transmit(&memory, &packets).expect("a socket sends"), packets.len());
    let arrived = (0..classes.len()).map(|_| {
        let mut datagram = [0; 2 * LEN];
        let (len, tos) = receive_with_tos(receiver, &mut datagram);
        assert_eq!(len, LEN);
        (Packet::new_checked(&datagram[..len]).expect("as it was sent").class(), tos)
    });
    arrived.collect()
}

#[test]
fn each_class_has_its_code_point() {
    for (gso, ip) in [(true, "127.0.0.1"), (false, "127.0.0.1"), (true, "::1"), (false, "::1")] {
        let Ok(receiver) = UdpSocket::bind((ip, 0)) else {
            eprintln!("skipped: no address {ip} here");
            continue;
        };
        receiver.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        let config = UdpConfig { gso, ..UdpConfig::default() };
        let mut io = UdpIo::connect(receiver.local_addr().unwrap(), config).unwrap();
        receive_tos(&receiver, ip.contains(':'));
        let classes = [3, 3, 3, 0, 15, 15, 3, 3];
        let said = |all: &[(u8, u8)]| all.iter().map(|(_, tos)| *tos).collect::<Vec<_>>();
        assert_eq!(said(&marks(&mut io, &receiver, &classes)), [0; 8], "nothing at first");

        let mut points = [0; 16];
        (points[0], points[3], points[15]) = (8, 10, 46);
        io.set_dscp(&Dscp::new(&points).unwrap()).unwrap();
        io.set_ecn_capable(true).unwrap();
        let calls = io.counters().tx_calls;
        let arrived = marks(&mut io, &receiver, &classes);
        assert_eq!(arrived.iter().map(|(class, _)| *class).collect::<Vec<_>>(), classes, "in order");
        assert!(
            arrived.iter().all(|(class, tos)| *tos == points[usize::from(*class)] << 2 | 0b10),
            "{arrived:?}"
        );
        assert_eq!(io.counters().tx_calls, calls + 1, "a burst is one system call still");
        assert!(!gso || io.gso_len_max() == 0 || io.counters().gso_runs > 0, "runs of a class go as one");

        io.set_dscp(&Dscp::new(&[34; 16]).unwrap()).unwrap();
        assert_eq!(said(&marks(&mut io, &receiver, &classes)), [34 << 2 | 0b10; 8]);
        io.set_ecn_capable(false).unwrap();
        io.set_dscp(&Dscp::NONE).unwrap();
        assert_eq!(said(&marks(&mut io, &receiver, &classes)), [0; 8]);
    }
}

/// Makes the kernel pass the second byte of IP headers with received datagrams.
#[expect(unsafe_code, reason = "the standard library cannot ask for it")]
fn receive_tos(socket: &UdpSocket, ipv6: bool) {
    use std::os::fd::AsRawFd;
    let (level, name) = match ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        false => (libc::IPPROTO_IP, libc::IP_RECVTOS),
    };
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `on`, which lives through the call.
    let rc =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(&on).cast(), len) };
    assert_eq!(rc, 0);
}

/// A datagram's length and the second byte of its IP header, the only one that is passed with it.
#[expect(unsafe_code, reason = "the standard library has no control messages")]
fn receive_with_tos(socket: &UdpSocket, datagram: &mut [u8]) -> (usize, u8) {
    use std::os::fd::AsRawFd;
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
    // SAFETY: all fields of `msghdr` are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the header points to one piece and a control area, each of the length that it names, alive through the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, 0) };
    let len = usize::try_from(len).expect("a datagram in time");
    (len, control.0[size_of::<usize>() + 2 * size_of::<libc::c_int>()])
}

#[expect(unsafe_code, reason = "the standard library cannot set IP_TOS")]
fn set_tos(socket: &UdpSocket, tos: libc::c_int) {
    use std::os::fd::AsRawFd;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `tos`, which lives through the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_TOS,
            std::ptr::from_ref(&tos).cast(),
            len,
        )
    };
    assert_eq!(rc, 0);
}

#[test]
fn null_discards() {
    let mut io = Null::new(10);
    assert_eq!(io.transmit(&[0; 10], &[to(0, 10), to(7, 0)]).unwrap(), 2);
    assert_eq!(io.counters().tx_bytes, 10);
    assert!(matches!(io.transmit(&[0; 11], &[to(0, 11)]), Err(IoError::Oversize { .. })));
    assert_eq!(io.receive(&mut RxBatch::new(1, 10)).unwrap(), 0);
    io.waker().wake();
    assert!(io.wait(HANG_TIMEOUT).unwrap());
    assert!(!io.wait(Duration::from_millis(1)).unwrap());
}
