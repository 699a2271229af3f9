//! Ethernet, IPv4 and UDP headers of datagrams: written from a template, read and judged.
//!
//! Sources: RFC 791 and 768 for the headers, RFC 1071 for the sums, RFC 3168 for the ECN bits.

use std::net::{Ipv4Addr, SocketAddrV4};

use netfold_wire::Dscp;
use netfold_wire::frame::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, OUTER_LEN, UdpPacket,
};

use super::checksum::{fold, pseudo, sum};
use super::pause::MAC_CONTROL;

const IP: usize = 14;
const UDP: usize = IP + 20;

/// What a frame is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// A datagram for our address and port.
    Datagram { source: SocketAddrV4, start: u32, len: u32, ecn: u8 },
    /// For our address and port, and broken, cut up, or with options.
    Malformed,
    /// Address resolution.
    Arp,
    /// ICMP for our address.
    Icmp,
    /// MAC control: of the link.
    MacControl,
    /// For another host, or irrelevant.
    Foreign,
}

/// Reads a frame as the interface `mac` with the address `own` does. Anything may be in it.
pub(super) fn classify(frame: &[u8], mac: EthernetAddress, own: SocketAddrV4) -> Frame {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return Frame::Foreign };
    match ethernet.ethertype() {
        EthernetProtocol::Arp => return Frame::Arp,
        EthernetProtocol::Unknown(kind) if kind.to_be_bytes() == MAC_CONTROL => return Frame::MacControl,
        EthernetProtocol::Ipv4 if ethernet.dst_addr() == mac => {}
        _ => return Frame::Foreign,
    }
    let Ok(ip) = Ipv4Packet::new_checked(ethernet.payload()) else { return Frame::Foreign };
    if ip.version() != 4 || ip.dst_addr() != *own.ip() {
        return Frame::Foreign;
    }
    match ip.next_header() {
        IpProtocol::Icmp => return Frame::Icmp,
        IpProtocol::Udp => {}
        _ => return Frame::Foreign,
    }
    // From here on it concerns us, unless it is for another port, which only a first fragment with a whole header tells.
    let plain = ip.header_len() == 20 && !ip.more_frags() && ip.frag_offset() == 0;
    if !plain || fold(sum(&frame[IP..UDP])) != 0xffff {
        return Frame::Malformed;
    }
    let segment = ip.payload();
    if segment.len() < 8 {
        return Frame::Malformed;
    }
    let udp = UdpPacket::new_unchecked(segment);
    if udp.dst_port() != own.port() {
        return Frame::Foreign;
    }
    let len = usize::from(udp.len());
    if len < 8 || len > segment.len() || udp.src_port() == 0 || !sum_is_right(frame, &segment[..len]) {
        return Frame::Malformed;
    }
    Frame::Datagram {
        source: SocketAddrV4::new(ip.src_addr(), udp.src_port()),
        start: OUTER_LEN as u32,
        len: (len - 8) as u32, // at most 64 KiB
        ecn: ip.ecn(),
    }
}

/// Whether the UDP checksum is right or absent. A sender on this machine leaves the sum to a device that was never there (virtual
/// interfaces): then the field holds the sum of the pseudo header alone, and the bytes never were on a wire.
fn sum_is_right(frame: &[u8], segment: &[u8]) -> bool {
    let field = u16::from_ne_bytes([segment[6], segment[7]]);
    if field == 0 {
        return true;
    }
    let pseudo = pseudo(&frame[IP + 12..UDP], segment.len() as u16);
    field == fold(pseudo) || fold(pseudo + sum(segment)) == 0xffff
}

/// The headers in front of every datagram to one peer; lengths, checksums and the destination's Ethernet address are filled in
/// per datagram.
#[derive(Debug, Clone)]
pub(super) struct Template {
    bytes: [u8; OUTER_LEN],
    /// Sums of what stays the same.
    ip_sum: u64,
    pseudo_sum: u64,
    /// `None` where all classes have 0.
    dscp: Option<Dscp>,
}

impl Template {
    pub(super) fn new(mac: EthernetAddress, own: SocketAddrV4, peer: SocketAddrV4) -> Self {
        let mut bytes = [0; OUTER_LEN];
        let mut ethernet = EthernetFrame::new_unchecked(&mut bytes[..]);
        ethernet.set_src_addr(mac);
        ethernet.set_ethertype(EthernetProtocol::Ipv4);
        let mut ip = Ipv4Packet::new_unchecked(&mut bytes[IP..]);
        ip.set_version(4);
        ip.set_header_len(20);
        ip.clear_flags();
        ip.set_dont_frag(true);
        ip.set_hop_limit(64);
        ip.set_next_header(IpProtocol::Udp);
        ip.set_src_addr(*own.ip());
        ip.set_dst_addr(*peer.ip());
        let mut udp = UdpPacket::new_unchecked(&mut bytes[UDP..]);
        udp.set_src_port(own.port());
        udp.set_dst_port(peer.port());
        Self {
            ip_sum: sum(&bytes[IP..UDP]),
            pseudo_sum: pseudo(&bytes[IP + 12..UDP], 0) + sum(&bytes[UDP..UDP + 4]),
            bytes,
            dscp: None,
        }
    }

    /// What datagrams say of their class.
    pub(super) fn set_dscp(&mut self, dscp: &Dscp) {
        self.dscp = Some(*dscp).filter(|dscp| *dscp != Dscp::NONE);
    }

    /// Whether datagrams say that marks are heeded: ECT(0) or nothing (RFC 3168 section 5).
    pub(super) fn set_ecn_capable(&mut self, capable: bool) {
        Ipv4Packet::new_unchecked(&mut self.bytes[IP..]).set_ecn(if capable { 0b10 } else { 0 });
        self.ip_sum = sum(&self.bytes[IP..UDP]);
    }

    /// Fills `frame`, which is [`OUTER_LEN`] bytes longer than `datagram`; together they fit into an IPv4 packet. `datagram_sum` is the
    /// datagram's [`sum`], or `None` for a frame without UDP checksum.
    pub(super) fn write(
        &self,
        frame: &mut [u8],
        to: EthernetAddress,
        datagram: &[u8],
        datagram_sum: Option<u64>,
    ) {
        let (headers, payload) = frame.split_at_mut(OUTER_LEN);
        headers.copy_from_slice(&self.bytes);
        headers[..6].copy_from_slice(to.as_bytes());
        let udp_len = ((8 + datagram.len()) as u16).to_be_bytes();
        let ip_len = ((28 + datagram.len()) as u16).to_be_bytes();
        headers[IP + 2..IP + 4].copy_from_slice(&ip_len);
        let mut ip_sum = self.ip_sum + u64::from(u16::from_ne_bytes(ip_len));
        if let Some(dscp) = &self.dscp {
            // Bits that the template has zero.
            let class = dscp.of_datagram(datagram) << 2;
            headers[IP + 1] |= class;
            ip_sum += u64::from(u16::from_ne_bytes([0, class]));
        }
        let ip_sum = !fold(ip_sum);
        headers[IP + 10..IP + 12].copy_from_slice(&ip_sum.to_ne_bytes());
        headers[UDP + 4..UDP + 6].copy_from_slice(&udp_len);
        payload.copy_from_slice(datagram);
        if let Some(datagram_sum) = datagram_sum {
            // The length counts twice: in the pseudo header and in the header.
            let lens = 2 * u64::from(u16::from_ne_bytes(udp_len));
            let udp_sum = !fold(self.pseudo_sum + lens + datagram_sum);
            // A sum of 0 says that there is none; its complement is the same number.
            let udp_sum = if udp_sum == 0 { 0xffff } else { udp_sum };
            headers[UDP + 6..].copy_from_slice(&udp_sum.to_ne_bytes());
        }
    }
}

/// Whether an address can be one host's.
pub(super) fn is_host(ip: Ipv4Addr) -> bool {
    !ip.is_unspecified() && !ip.is_broadcast() && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_wire::frame::Outer;
    use proptest::prelude::*;

    const OWN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
    const PEER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
    const OWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 20_038);
    const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4000);

    /// A frame from the peer to us.
    fn frame(datagram: &[u8], with_checksum: bool) -> Vec<u8> {
        let mut frame = vec![0xa5; OUTER_LEN + datagram.len()];
        let sum = with_checksum.then(|| sum(datagram));
        Template::new(PEER_MAC, PEER, OWN).write(&mut frame, OWN_MAC, datagram, sum);
        frame
    }

    #[test]
    fn a_partial_checksum_of_this_host_is_accepted() {
        let mut frame = frame(b"datagram", true);
        let partial = fold(pseudo(&frame[IP + 12..UDP], 16)).to_ne_bytes();
        frame[UDP + 6..UDP + 8].copy_from_slice(&partial);
        assert!(matches!(classify(&frame, OWN_MAC, OWN), Frame::Datagram { len: 8, .. }));
        frame[UDP + 7] ^= 1;
        assert_eq!(classify(&frame, OWN_MAC, OWN), Frame::Malformed);
    }

    #[test]
    fn ecn_capability_is_set() {
        let mut template = Template::new(PEER_MAC, PEER, OWN);
        for (capable, bits) in [(true, 2), (false, 0)] {
            template.set_ecn_capable(capable);
            let mut frame = [0; OUTER_LEN + 3];
            template.write(&mut frame, OWN_MAC, b"ecn", Some(sum(b"ecn")));
            let Frame::Datagram { ecn, .. } = classify(&frame, OWN_MAC, OWN) else { panic!("not read back") };
            assert_eq!(ecn, bits);
        }
    }

    #[test]
    fn each_class_has_its_code_point() {
        let mut points = [0; 16];
        points.iter_mut().zip(48..).for_each(|(point, value)| *point = value);
        let mut template = Template::new(PEER_MAC, PEER, OWN);
        template.set_ecn_capable(true);
        template.set_dscp(&Dscp::new(&points).unwrap());
        let mut datagram = [0; netfold_wire::header::LEN];
        let mut frame = [0; OUTER_LEN + netfold_wire::header::LEN];
        for class in 0..16 {
            let mut packet = netfold_wire::Packet::new_unchecked(&mut datagram[..]);
            packet.set_version(netfold_wire::VERSION);
            packet.set_class(class);
            template.write(&mut frame, OWN_MAC, &datagram, Some(sum(&datagram)));
            assert!(
                matches!(classify(&frame, OWN_MAC, OWN), Frame::Datagram { ecn: 2, .. }),
                "sums are right"
            );
            assert_eq!(frame[IP + 1] >> 2, 48 + class);
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let good = frame(b"datagram", true);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let from_elsewhere = (6 * 8..12 * 8).contains(&bit);
            let delivered = matches!(classify(&bad, OWN_MAC, OWN), Frame::Datagram { .. });
            assert_eq!(delivered, from_elsewhere, "bit {bit}");
        }
    }

    #[test]
    fn fragments_options_and_lengths() {
        let fix = |frame: &mut Vec<u8>| {
            frame[IP + 10..IP + 12].fill(0);
            let header_sum = !fold(sum(&frame[IP..UDP]));
            frame[IP + 10..IP + 12].copy_from_slice(&header_sum.to_ne_bytes());
        };
        for (at, value) in [(IP + 6, 0x20), (IP + 7, 1), (IP, 0x46)] {
            let mut bad = frame(b"datagram", false);
            bad[at] = value;
            fix(&mut bad);
            assert_eq!(classify(&bad, OWN_MAC, OWN), Frame::Malformed, "byte {at}");
        }
        for len in [0_u16, 7, 17, 0xffff] {
            let mut bad = frame(b"datagram", false);
            bad[UDP + 4..UDP + 6].copy_from_slice(&len.to_be_bytes());
            assert_eq!(classify(&bad, OWN_MAC, OWN), Frame::Malformed, "length {len}");
        }
        let mut padded = frame(b"x", true);
        padded.resize(60, 0);
        assert!(matches!(classify(&padded, OWN_MAC, OWN), Frame::Datagram { len: 1, .. }));
    }

    proptest! {
        #[test]
        fn smoltcp_reads_written_headers(
            datagram in proptest::collection::vec(any::<u8>(), 0..300),
            with_checksum: bool,
        ) {
            let frame = frame(&datagram, with_checksum);
            let (outer, payload) = Outer::parse(&frame).expect("a good frame");
            prop_assert_eq!(payload, &datagram[..]);
            prop_assert_eq!((outer.source.ip, outer.source.port), (*PEER.ip(), PEER.port()));
            prop_assert_eq!((outer.source.mac, outer.destination.mac), (PEER_MAC, OWN_MAC));
            let Frame::Datagram { source, start, len, ecn: 0 } = classify(&frame, OWN_MAC, OWN) else {
                panic!("not read back")
            };
            prop_assert_eq!(source, PEER);
            prop_assert_eq!(&frame[start as usize..][..len as usize], &datagram[..]);
        }

        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = classify(&bytes, OWN_MAC, OWN);
        }

        #[test]
        fn accepted_datagrams_lie_within_the_frame(
            changes in proptest::collection::vec((0_usize..60, any::<u8>()), 0..6),
            cut in 0_usize..60,
        ) {
            let mut bytes = frame(b"a datagram of some length", false);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(cut);
            if let Frame::Datagram { start, len, .. } = classify(&bytes, OWN_MAC, OWN) {
                prop_assert!((start + len) as usize <= bytes.len());
            }
        }
    }
}
