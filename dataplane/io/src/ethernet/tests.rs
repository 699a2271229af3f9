//! The adapter over a segment in memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use netfold_wire::frame::{Endpoint, EthernetFrame, EthernetProtocol, Outer};
use proptest::prelude::*;
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr};

use super::*;
use crate::link::{Station, segment};

const HANG_TIMEOUT: Duration = Duration::from_secs(20);
const FRAME: usize = 1514;

/// Addresses not in use: 198.18.0.0/15 is for benchmarks (RFC 2544).
fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, host)
}

fn at(host: u8) -> SocketAddr {
    SocketAddr::from((ip(host), UDP_PORT))
}

fn to(port: u16, len: u32) -> Transmit {
    Transmit { port: PortId(port), offset: 0, len }
}

/// A listener at host 1 and one worker at host 2, bound as port 7.
fn pair(frames: usize) -> (Ethernet<Station>, Ethernet<Station>) {
    let mut stations = segment(2, frames, FRAME).into_iter();
    let mut next = || stations.next().expect("two stations");
    let mut hub = Ethernet::bind(next(), EthernetConfig::at(ip(1))).unwrap();
    let spoke = Ethernet::connect(next(), at(1), EthernetConfig::at(ip(2))).unwrap();
    hub.bind_port(PortId(7), at(2)).unwrap();
    (hub, spoke)
}

/// Lets both receive what has arrived; twice, so that each has the other's reply.
fn settle(ends: [&mut dyn PacketIo; 2]) {
    let mut batch = RxBatch::new(64, 1 << 20);
    for end in [0, 1, 0, 1] {
        while ends[end].receive(&mut batch).unwrap() > 0 {}
    }
}

fn receive(io: &mut impl PacketIo) -> RxBatch {
    let mut batch = io.capabilities().batch();
    while io.receive(&mut batch).unwrap() == 0 {
        assert!(io.wait(HANG_TIMEOUT).unwrap(), "nothing arrived");
    }
    batch
}

fn send(io: &mut impl PacketIo, memory: &[u8], packet: Transmit) {
    while io.transmit(memory, &[packet]).unwrap() == 0 {
        assert!(io.wait(HANG_TIMEOUT).unwrap(), "no room");
    }
}

#[test]
fn neighbours_are_resolved_and_datagrams_pass_both_ways() {
    let (mut hub, mut spoke) = pair(16);
    settle([&mut hub, &mut spoke]);
    send(&mut spoke, b"up", to(0, 2));
    let batch = receive(&mut hub);
    assert_eq!((batch.packets()[0].port, batch.bytes(&batch.packets()[0])), (PortId(7), &b"up"[..]));
    send(&mut hub, b"down", to(7, 4));
    let batch = receive(&mut spoke);
    assert_eq!((batch.packets()[0].port, batch.bytes(&batch.packets()[0])), (PortId(0), &b"down"[..]));
    assert_eq!((hub.counters().rx_packets, hub.counters().tx_packets), (1, 1));
    assert_eq!((hub.peer(PortId(7)), hub.local_addr()), (Some(at(2)), Some(at(1))));
}

#[test]
fn datagrams_that_share_bytes_have_checksums_of_their_own() {
    let (mut hub, mut spoke) = pair(16);
    settle([&mut hub, &mut spoke]);
    let memory: Vec<u8> = (0..200).collect();
    let of = |offset, len| Transmit { port: PortId(7), offset, len };
    let burst = [of(0, 90), of(0, 90), of(0, 91), of(1, 91), of(1, 91), of(109, 91), of(0, 0), of(0, 90)];
    assert_eq!(hub.transmit(&memory, &burst).unwrap(), burst.len());
    let mut received = Vec::new();
    while received.len() < burst.len() {
        let batch = receive(&mut spoke);
        received.extend(batch.packets().iter().map(|packet| batch.bytes(packet).to_vec()));
    }
    let sent: Vec<_> = burst.iter().map(|packet| packet.bytes(&memory).unwrap().to_vec()).collect();
    assert_eq!((received, spoke.counters().malformed), (sent, 0));
}

#[test]
fn unknown_sources_wrong_ports_and_malformed_datagrams_are_counted() {
    let mut stations = segment(2, 64, FRAME).into_iter();
    let mut hub = Ethernet::bind(stations.next().unwrap(), EthernetConfig::at(ip(1))).unwrap();
    let mut raw = stations.next().unwrap();
    hub.bind_port(PortId(0), at(2)).unwrap();
    let end = |station: u8, host, port| Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, station]),
        ip: ip(host),
        port,
    };
    let mut inject = |source, destination, break_at: Option<usize>| {
        let frame = raw.frame(OUTER_LEN + 4).unwrap();
        Outer { source, destination }.emit(b"data", 1, frame).unwrap();
        if let Some(at) = break_at {
            frame[at] ^= 4;
        }
        raw.push();
        raw.flush().unwrap();
    };
    inject(end(2, 3, UDP_PORT), end(1, 1, UDP_PORT), None); // unknown address
    inject(end(2, 2, 1), end(1, 1, UDP_PORT), None); // unknown port
    inject(end(2, 2, UDP_PORT), end(1, 1, 1), None); // not for our port
    inject(end(2, 2, UDP_PORT), end(1, 9, UDP_PORT), None); // not for our address
    inject(end(2, 2, UDP_PORT), end(1, 1, UDP_PORT), Some(OUTER_LEN)); // checksum of UDP
    inject(end(2, 2, UDP_PORT), end(1, 1, UDP_PORT), Some(22)); // checksum of IPv4
    inject(end(2, 2, UDP_PORT), end(1, 1, UDP_PORT), None);
    let batch = receive(&mut hub);
    assert_eq!((batch.len(), batch.packets()[0].ecn), (1, 1));
    let counters = hub.counters();
    assert_eq!((counters.unknown_source, counters.malformed, counters.rx_packets), (2, 2, 1));
}

#[test]
fn an_unresponsive_neighbour_is_awaited_and_then_given_up() {
    let mut stations = segment(2, 64, FRAME).into_iter();
    let mut hub = Ethernet::bind(stations.next().unwrap(), EthernetConfig::at(ip(1))).unwrap();
    let mut raw = stations.next().unwrap();
    hub.bind_port(PortId(0), at(2)).unwrap();
    assert_eq!(hub.transmit(b"x", &[to(0, 1)]).unwrap(), 0, "held back");
    let start = Instant::now();
    while hub.transmit(b"x", &[to(0, 1)]).unwrap() == 0 {
        assert!(hub.wait(HANG_TIMEOUT).unwrap());
    }
    assert!(start.elapsed() < HANG_TIMEOUT / 2, "wait returns when it is worth trying");
    assert_eq!((hub.counters().unresolved, hub.counters().tx_packets), (1, 0));
    let mut batch = RxBatch::new(64, 1 << 17);
    assert!(raw.receive(&mut batch).unwrap() >= 3, "it was asked for several times");
    // The neighbour's address arrives late and unsolicited: in a request.
    arp(&mut raw, ArpOperation::Request, 2, ip(2), ip(1));
    let mut own = hub.capabilities().batch();
    assert_eq!(hub.receive(&mut own).unwrap(), 0);
    assert_eq!(hub.transmit(b"x", &[to(0, 1)]).unwrap(), 1);
    assert_eq!((hub.counters().unresolved, hub.counters().tx_packets), (1, 1));
}

fn arp(raw: &mut Station, operation: ArpOperation, station: u8, source: Ipv4Addr, target: Ipv4Addr) {
    let frame = raw.frame(42).unwrap();
    let mut ethernet = EthernetFrame::new_unchecked(frame);
    ethernet.set_dst_addr(EthernetAddress::BROADCAST);
    ethernet.set_src_addr(EthernetAddress([2, 0, 0, 0, 0, station]));
    ethernet.set_ethertype(EthernetProtocol::Arp);
    ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress([2, 0, 0, 0, 0, station]),
        source_protocol_addr: source,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: target,
    }
    .emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    raw.push();
    raw.flush().unwrap();
}

#[test]
fn arp_requests_and_pings_get_replies() {
    let mut stations = segment(2, 64, FRAME).into_iter();
    let mut hub = Ethernet::bind(stations.next().unwrap(), EthernetConfig::at(ip(1))).unwrap();
    let mut raw = stations.next().unwrap();
    let (mut own, mut batch) = (hub.capabilities().batch(), RxBatch::new(64, 1 << 17));
    arp(&mut raw, ArpOperation::Request, 2, ip(2), ip(1));
    assert_eq!(hub.receive(&mut own).unwrap(), 0);
    assert_eq!(raw.receive(&mut batch).unwrap(), 1);
    let answer = batch.bytes(&batch.packets()[0]).to_vec();
    assert_eq!((&answer[..6], answer[21]), (&[2, 0, 0, 0, 0, 2][..], 2), "a reply, to us");
    assert_eq!(answer[22..32], [2, 0, 0, 0, 0, 1, 198, 18, 0, 1]);

    ping(&mut raw);
    assert_eq!(hub.receive(&mut own).unwrap(), 0);
    assert_eq!(raw.receive(&mut batch).unwrap(), 1);
    let answer = batch.bytes(&batch.packets()[0]);
    assert_eq!((answer[23], answer[34]), (1, 0), "an echo reply");
    assert_eq!(answer[answer.len() - 4..], *b"ping");
}

fn ping(raw: &mut Station) {
    use netfold_wire::frame::{IpProtocol, Ipv4Packet};
    let frame = raw.frame(14 + 20 + 12).unwrap();
    frame.fill(0);
    let mut ethernet = EthernetFrame::new_unchecked(frame);
    ethernet.set_dst_addr(EthernetAddress([2, 0, 0, 0, 0, 1]));
    ethernet.set_src_addr(EthernetAddress([2, 0, 0, 0, 0, 2]));
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    packet.set_version(4);
    packet.set_header_len(20);
    packet.set_total_len(32);
    packet.set_hop_limit(64);
    packet.set_next_header(IpProtocol::Icmp);
    packet.set_src_addr(ip(2));
    packet.set_dst_addr(ip(1));
    packet.fill_checksum();
    let echo = packet.payload_mut();
    echo.copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1, b'p', b'i', b'n', b'g']);
    let sum = !checksum::fold(checksum::sum(echo));
    echo[2..4].copy_from_slice(&sum.to_ne_bytes());
    raw.push();
    raw.flush().unwrap();
}

#[test]
fn peers_beyond_the_network_use_the_gateway() {
    let mut stations = segment(2, 64, FRAME).into_iter();
    let config = EthernetConfig { gateway: Some(ip(254)), ..EthernetConfig::at(ip(1)) };
    let mut hub = Ethernet::bind(stations.next().unwrap(), config).unwrap();
    let mut raw = stations.next().unwrap();
    hub.bind_port(PortId(0), "192.0.2.1:9".parse().unwrap()).unwrap();
    let mut batch = RxBatch::new(64, 1 << 17);
    assert_eq!(raw.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.bytes(&batch.packets()[0])[38..42], ip(254).octets(), "the gateway is asked for");
    arp(&mut raw, ArpOperation::Reply, 2, ip(254), ip(1));
    let mut own = hub.capabilities().batch();
    assert_eq!(hub.receive(&mut own).unwrap(), 0);
    assert_eq!(hub.transmit(b"x", &[to(0, 1)]).unwrap(), 1);
    raw.receive(&mut batch).unwrap();
    let frame = batch.bytes(&batch.packets()[0]);
    assert_eq!((&frame[..6], &frame[30..34]), (&[2, 0, 0, 0, 0, 2][..], &[192, 0, 2, 1][..]));
}

#[test]
fn a_full_segment_is_back_pressure_and_loses_nothing() {
    let (mut hub, mut spoke) = pair(4);
    settle([&mut hub, &mut spoke]);
    let packets = vec![to(0, 8); 40];
    let (mut sent, mut got) = (0, 0);
    let mut batch = hub.capabilities().batch();
    let mut pressed = false;
    while got < packets.len() {
        let taken = spoke.transmit(&[1; 8], &packets[sent..]).unwrap();
        pressed |= taken < packets.len() - sent;
        sent += taken;
        let arrived = hub.receive(&mut batch).unwrap();
        got += arrived;
        if arrived == 0 {
            assert!(spoke.wait(HANG_TIMEOUT).unwrap());
        }
    }
    assert!(pressed && spoke.counters().backpressure > 0);
    assert_eq!(hub.counters().rx_packets, 40);
}

#[test]
fn invalid_configurations_are_refused() {
    let open = |config| {
        let station = segment(1, 4, FRAME).remove(0);
        Ethernet::bind(station, config).map(drop)
    };
    let base = EthernetConfig::at(ip(1));
    let wrong = [
        EthernetConfig { address: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 1), ..base },
        EthernetConfig { prefix_len: 33, ..base },
        EthernetConfig { gateway: Some(Ipv4Addr::BROADCAST), ..base },
    ];
    for config in wrong {
        assert!(matches!(open(config), Err(IoError::Address { .. })), "{config:?}");
    }
    let short = Ethernet::bind(segment(1, 4, 42).remove(0), base);
    assert!(matches!(short.map(drop), Err(IoError::Address { .. })));
    let v6 = Ethernet::connect(segment(1, 4, FRAME).remove(0), "[::1]:1".parse().unwrap(), base);
    assert!(matches!(v6.map(drop), Err(IoError::Family { .. })));
    let mut hub = Ethernet::bind(segment(1, 4, FRAME).remove(0), base).unwrap();
    hub.bind_port(PortId(0), at(2)).unwrap();
    assert!(matches!(hub.bind_port(PortId(1), at(2)), Err(IoError::PeerBound { port: PortId(0), .. })));
    assert!(matches!(hub.unbind_port(PortId(5)), Err(IoError::UnknownPort(PortId(5)))));
    assert!(matches!(hub.bind_port(PortId(1), "0.0.0.0:1".parse().unwrap()), Err(IoError::Address { .. })));
}

#[test]
fn kernel_ports_are_reserved() {
    let loopback = EthernetConfig::new(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let first = Ethernet::bind(segment(1, 4, FRAME).remove(0), loopback).unwrap();
    let Some(SocketAddr::V4(address)) = first.local_addr() else { panic!("no address") };
    assert_ne!(address.port(), 0);
    let second = Ethernet::bind(segment(1, 4, FRAME).remove(0), EthernetConfig::new(address));
    assert!(matches!(second.map(drop), Err(IoError::Bind { .. })));
}

proptest! {
    /// No content of a frame causes a panic, and only datagrams from the bound address are delivered, to its port.
    #[test]
    fn hostile_frames(
        changes in proptest::collection::vec((0_usize..80, any::<u8>()), 0..5),
        noise in proptest::collection::vec(any::<u8>(), 0..100),
        len in 0_usize..80,
        kind in 0_u8..3,
    ) {
        let mut stations = segment(2, 64, FRAME).into_iter();
        let mut hub = Ethernet::bind(stations.next().unwrap(), EthernetConfig::at(ip(1))).unwrap();
        let mut raw = stations.next().unwrap();
        hub.bind_port(PortId(3), at(2)).unwrap();
        let end = |station: u8, host| Endpoint {
            mac: EthernetAddress([2, 0, 0, 0, 0, station]),
            ip: ip(host),
            port: UDP_PORT,
        };
        let mut frame = [0_u8; 80];
        Outer { source: end(2, 2), destination: end(1, 1) }.emit(&[9; 38], 0, &mut frame).unwrap();
        if kind == 1 {
            frame[12..14].copy_from_slice(&[8, 6]); // as ARP
        }
        for (at, value) in changes {
            frame[at] = value;
        }
        let bytes = if kind == 2 { &noise[..] } else { &frame[..len] };
        raw.frame(bytes.len()).unwrap().copy_from_slice(bytes);
        raw.push();
        raw.flush().unwrap();
        let mut batch = hub.capabilities().batch();
        hub.receive(&mut batch).unwrap();
        for packet in batch.packets() {
            prop_assert_eq!(packet.port, PortId(3));
            prop_assert!(bytes.len() >= OUTER_LEN && bytes[26..30] == ip(2).octets());
            prop_assert!(packet.len as usize <= bytes.len() - OUTER_LEN);
        }
    }
}

#[test]
fn neighbours_are_asked_to_pause_and_other_control_frames_are_counted() {
    let (mut hub, mut spoke) = pair(16);
    settle([&mut hub, &mut spoke]);
    assert_eq!(spoke.paused(), Paused::default());
    let holds = hub.pause(0b101).unwrap();
    settle([&mut hub, &mut spoke]);
    let paused = spoke.paused();
    assert_eq!(paused.priorities, 0b101);
    assert!(!paused.left.is_zero() && paused.left <= holds, "{paused:?} of {holds:?}");
    assert!(paused.holds(0) && paused.holds(5) && !paused.holds(2) && !paused.holds(15));
    hub.pause(0b001).unwrap();
    settle([&mut hub, &mut spoke]);
    assert_eq!(spoke.paused().priorities & 0b100, 0, "what is not renewed is withdrawn");
    hub.pause(0).unwrap();
    settle([&mut hub, &mut spoke]);
    assert_eq!((spoke.paused(), spoke.counters().pause_ignored), (Paused::default(), 0));
    // A PAUSE of IEEE 802.3, for all priorities together.
    let frame = hub.link.frame(pause::FRAME_LEN).unwrap();
    pause::write(frame, [2, 0, 0, 0, 0, 1], 0xff, 0);
    frame[14..16].copy_from_slice(&[0, 1]);
    hub.link.push();
    hub.link.flush().unwrap();
    settle([&mut hub, &mut spoke]);
    assert_eq!((spoke.paused(), spoke.counters().pause_ignored), (Paused::default(), 1));
    send(&mut spoke, b"up", to(0, 2));
    assert_eq!(receive(&mut hub).len(), 1, "datagrams pass as before");
}
