//! Any frames at a raw Ethernet link: a switch that replies to ARP and pings, with a few workers as neighbours.

use std::net::{Ipv4Addr, SocketAddr};

use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::link::{Link, Station, segment};
use netfold_io::{PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::UDP_PORT;
use netfold_wire::frame::{Endpoint, EthernetAddress, IpProtocol, Ipv4Packet, OUTER_LEN, Outer};

use crate::input::Input;

const STEPS_MAX: usize = 100;
const FRAME_LEN_MAX: usize = 1514;
/// Frames that a station holds.
const FRAMES: usize = 64;
/// Ports 0, 1 and 2 are those of hosts 2, 3 and 4.
const PEERS: u8 = 3;
/// Ethernet, ARP for IPv4.
const ARP_LEN: usize = 42;
/// The shortest frame of Ethernet, without its check sequence: what a shorter request takes on a wire.
const FRAME_LEN_MIN: usize = 60;

/// Addresses not in use: 198.18.0.0/15 is for benchmarks (RFC 2544). The switch is host 1.
fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, host)
}

fn mac(station: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, station]
}

struct Scene {
    switch: Ethernet<Station>,
    /// Sends and receives all other hosts' frames.
    others: Station,
    received: RxBatch,
    replies: RxBatch,
}

/// Reads the data as frames, and as packets to send between them.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut scene = Scene::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let mut frame = [0; FRAME_LEN_MAX];
        let len = match input.below(5) {
            0 => anything(&mut input, &mut frame),
            1 => arp(&mut input, &mut frame),
            2 => echo(&mut input, &mut frame),
            3 => datagram(&mut input, &mut frame),
            _ => {
                scene.send(&mut input);
                continue;
            }
        };
        scene.inject(&frame[..len]);
    }
}

/// Any bytes behind a header that a switch receives.
fn anything(input: &mut Input<'_>, frame: &mut [u8]) -> usize {
    let ethertype: [u8; 2] = [[8, 0], [8, 6], [0x81, 0], [0x86, 0xdd]][input.below(4)];
    frame[..6].copy_from_slice(&[mac(1), [0xff; 6]][input.below(2)]);
    frame[6..12].copy_from_slice(&mac(2));
    frame[12..14].copy_from_slice(&ethertype);
    let bytes = input.bytes(64);
    frame[14..14 + bytes.len()].copy_from_slice(bytes);
    14 + bytes.len()
}

/// ARP, RFC 826.
fn arp(input: &mut Input<'_>, frame: &mut [u8]) -> usize {
    let (from, to) = (input.below(7) as u8, input.below(4) as u8);
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&mac(from));
    frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + input.below(2) as u8]);
    frame[22..28].copy_from_slice(&mac(from));
    frame[28..32].copy_from_slice(&ip(from).octets());
    frame[38..42].copy_from_slice(&ip(to).octets());
    input.disturb(&mut frame[..ARP_LEN]);
    ARP_LEN + input.below(20)
}

/// A ping, RFC 792.
fn echo(input: &mut Input<'_>, frame: &mut [u8]) -> usize {
    let payload = input.bytes(16);
    let len = 14 + 20 + 8 + payload.len();
    frame[..6].copy_from_slice(&mac(1));
    frame[6..12].copy_from_slice(&mac(2));
    frame[12..14].copy_from_slice(&[8, 0]);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..len]);
    packet.set_version(4);
    packet.set_header_len(20);
    packet.set_total_len((len - 14) as u16);
    packet.set_hop_limit(64);
    packet.set_next_header(IpProtocol::Icmp);
    packet.set_src_addr(ip(input.below(7) as u8));
    packet.set_dst_addr([ip(1), Ipv4Addr::BROADCAST, ip(255)][input.below(3)]);
    packet.fill_checksum();
    let message = packet.payload_mut();
    message[0] = 8;
    message[8..].copy_from_slice(payload);
    let sum = message.chunks(2).fold(0_u32, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    });
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    input.disturb(&mut frame[..len]);
    len
}

/// A datagram of Netfold's, or nearly so.
fn datagram(input: &mut Input<'_>, frame: &mut [u8]) -> usize {
    let host = 2 + input.below(5) as u8;
    let source = Endpoint { mac: EthernetAddress(mac(host)), ip: ip(host), port: UDP_PORT };
    let destination = Endpoint { mac: EthernetAddress(mac(1)), ip: ip(1), port: UDP_PORT };
    let payload = input.bytes(64);
    let outer = Outer { source, destination };
    let len = outer.emit(payload, 0, frame).expect("there is room");
    input.disturb(&mut frame[..len]);
    len
}

impl Scene {
    fn new() -> Self {
        let mut stations = segment(2, FRAMES, FRAME_LEN_MAX).into_iter();
        let mut next = || stations.next().expect("two stations");
        let mut switch = Ethernet::bind(next(), EthernetConfig::at(ip(1))).expect("a right configuration");
        for port in 0..PEERS {
            let peer = SocketAddr::from((ip(2 + port), UDP_PORT));
            switch.bind_port(PortId(port.into()), peer).expect("a neighbour");
        }
        let mut scene = Self {
            switch,
            others: next(),
            received: RxBatch::new(FRAMES, FRAMES * FRAME_LEN_MAX),
            replies: RxBatch::new(FRAMES, FRAMES * FRAME_LEN_MAX),
        };
        scene.others.receive(&mut scene.replies).expect("the segment is whole");
        scene
    }

    /// Has one of the other hosts send a frame, and checks what the switch makes of it.
    fn inject(&mut self, bytes: &[u8]) {
        let frame = self.others.frame(bytes.len()).expect("the queue is empty");
        frame.copy_from_slice(bytes);
        self.others.push();
        self.others.flush().expect("the segment is whole");
        while self.switch.receive(&mut self.received).expect("frames break no link") > 0 {
            for packet in self.received.packets() {
                let (outer, payload) = Outer::parse(bytes).expect("a datagram has valid headers");
                assert_eq!(self.received.bytes(packet), payload);
                assert_eq!((outer.destination.ip, outer.destination.port), (ip(1), UDP_PORT));
                let peer = SocketAddr::from((outer.source.ip, outer.source.port));
                assert_eq!(self.switch.peer(packet.port), Some(peer));
            }
        }
        self.others.receive(&mut self.replies).expect("the segment is whole");
        let replies: Vec<_> = self.replies.packets().iter().map(|reply| self.replies.bytes(reply)).collect();
        let answers = replies.iter().filter(|reply| !is_arp_request(reply));
        let sent: usize = answers.clone().map(|reply| reply.len()).sum();
        assert!(
            answers.count() <= 1 && sent <= bytes.len().max(FRAME_LEN_MIN),
            "{bytes:02x?}: {replies:02x?}"
        );
    }

    /// Sends a packet to a worker, known or not.
    fn send(&mut self, input: &mut Input<'_>) {
        let payload = input.bytes(32);
        let packet = Transmit { port: PortId(input.below(4) as u16), offset: 0, len: payload.len() as u32 };
        // It is refused for a port without peer, and not taken while the neighbour is asked for.
        let _ = self.switch.transmit(payload, &[packet]);
        self.others.receive(&mut self.replies).expect("the segment is whole");
        for frame in self.replies.packets().iter().map(|frame| self.replies.bytes(frame)) {
            assert!(is_arp_request(frame) || frame[OUTER_LEN..] == *payload, "{frame:02x?}");
        }
    }
}

fn is_arp_request(frame: &[u8]) -> bool {
    frame[12..14] == [8, 6] && frame[20..22] == [0, 1]
}
