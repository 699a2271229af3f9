//! Whole frames: Ethernet, IPv4 and UDP around a datagram, by smoltcp's wire types.

use smoltcp::phy::{Checksum, ChecksumCapabilities};
pub use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Address,
    Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use crate::{Error, UDP_PORT};

/// Bytes of Ethernet, IPv4 (without options) and UDP headers before the datagram.
pub const OUTER_LEN: usize = 14 + 20 + 8;

/// One end of a flow: hardware address, IPv4 address and UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Ethernet address.
    pub mac: EthernetAddress,
    /// IPv4 address.
    pub ip: Ipv4Address,
    /// UDP port.
    pub port: u16,
}

/// The outer headers of a frame: its source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// Sender.
    pub source: Endpoint,
    /// Receiver.
    pub destination: Endpoint,
}

impl Outer {
    /// Parses the outer headers and returns them with the datagram. Ethernet padding behind the datagram is left out.
    ///
    /// The IPv4 checksum must be right, and so must the UDP checksum unless it is 0. Options and fragments are
    /// refused; the UDP destination port is not judged.
    ///
    /// # Errors
    ///
    /// [`Error::Outer`] with the header that was malformed.
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), Error> {
        let ethernet = EthernetFrame::new_checked(frame).map_err(|_| Error::Outer("ethernet"))?;
        if ethernet.ethertype() != EthernetProtocol::Ipv4 {
            return Err(Error::Outer("ethertype is not IPv4"));
        }
        let payload = &frame[EthernetFrame::<&[u8]>::header_len()..];
        let ip = Ipv4Packet::new_checked(payload).map_err(|_| Error::Outer("ipv4"))?;
        if ip.version() != 4 || ip.header_len() != 20 {
            return Err(Error::Outer("ipv4 options are not supported"));
        }
        if ip.more_frags() || ip.frag_offset() != 0 {
            return Err(Error::Outer("ipv4 fragment"));
        }
        if !ip.verify_checksum() {
            return Err(Error::Outer("ipv4 checksum"));
        }
        if ip.next_header() != IpProtocol::Udp {
            return Err(Error::Outer("not udp"));
        }
        let segment = &payload[20..usize::from(ip.total_len())];
        let udp = UdpPacket::new_checked(segment).map_err(|_| Error::Outer("udp"))?;
        if !udp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into()) {
            return Err(Error::Outer("udp checksum"));
        }
        let outer = Self {
            source: Endpoint { mac: ethernet.src_addr(), ip: ip.src_addr(), port: udp.src_port() },
            destination: Endpoint { mac: ethernet.dst_addr(), ip: ip.dst_addr(), port: udp.dst_port() },
        };
        Ok((outer, &segment[8..usize::from(udp.len())]))
    }

    /// Writes the outer headers in front of `datagram` into `frame` and returns the frame's length.
    ///
    /// Both checksums are filled in. The IPv4 header says "do not fragment" and carries `ecn` (2 bits).
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] when `frame` is shorter than [`OUTER_LEN`] plus the datagram; [`Error::Outer`] when the
    /// datagram is longer than IPv4 can carry.
    pub fn emit(&self, datagram: &[u8], ecn: u8, frame: &mut [u8]) -> Result<usize, Error> {
        let need = OUTER_LEN + datagram.len();
        if frame.len() < need {
            return Err(Error::Truncated { len: frame.len(), need });
        }
        if need - 14 > usize::from(u16::MAX) {
            return Err(Error::Outer("datagram is longer than IPv4 carries"));
        }
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..need]);
        ethernet.set_dst_addr(self.destination.mac);
        ethernet.set_src_addr(self.source.mac);
        ethernet.set_ethertype(EthernetProtocol::Ipv4);
        let repr = Ipv4Repr {
            src_addr: self.source.ip,
            dst_addr: self.destination.ip,
            next_header: IpProtocol::Udp,
            payload_len: 8 + datagram.len(),
            hop_limit: 64,
        };
        let mut checksums = ChecksumCapabilities::ignored();
        checksums.udp = Checksum::Tx;
        let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
        repr.emit(&mut ip, &checksums);
        ip.set_ecn(ecn & 3);
        ip.fill_checksum();
        let udp = UdpRepr { src_port: self.source.port, dst_port: self.destination.port };
        udp.emit(
            &mut UdpPacket::new_unchecked(ip.payload_mut()),
            &self.source.ip.into(),
            &self.destination.ip.into(),
            datagram.len(),
            |payload| payload.copy_from_slice(datagram),
            &checksums,
        );
        Ok(need)
    }

    /// The outer headers of a reply.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }

    /// Whether the frame is addressed to Netfold's UDP port.
    pub const fn is_netfold(&self) -> bool {
        self.destination.port == UDP_PORT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outer() -> Outer {
        Outer {
            source: Endpoint {
                mac: EthernetAddress([2, 0, 0, 0, 0, 1]),
                ip: Ipv4Address::new(10, 0, 0, 1),
                port: 4000,
            },
            destination: Endpoint {
                mac: EthernetAddress([2, 0, 0, 0, 0, 9]),
                ip: Ipv4Address::new(10, 0, 0, 9),
                port: UDP_PORT,
            },
        }
    }

    #[test]
    fn round_trip_with_padding() {
        let mut frame = [0xa5; 100];
        let len = outer().emit(b"datagram", 2, &mut frame).unwrap();
        assert_eq!(len, OUTER_LEN + 8);
        let (parsed, datagram) = Outer::parse(&frame[..64]).expect("trailing padding is allowed");
        assert_eq!((parsed, datagram), (outer(), &b"datagram"[..]));
        assert!(parsed.is_netfold());
        assert_eq!(frame[15] & 3, 2, "ecn bits");
    }

    #[test]
    fn every_flipped_bit_of_ip_udp_or_payload_is_seen() {
        let mut frame = [0; 50];
        let len = outer().emit(b"datagram", 0, &mut frame).unwrap();
        for bit in 14 * 8..len * 8 {
            let mut bad = frame;
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok((parsed, datagram)) = Outer::parse(&bad[..len]) {
                panic!("bit {bit} went unnoticed: {parsed:?} {datagram:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Outer::parse(&bytes);
        }

        #[test]
        fn mutated_frames_never_panic(at in 0usize..50, value: u8, cut in 0usize..51) {
            let mut frame = [0; 50];
            outer().emit(b"datagram", 0, &mut frame).unwrap();
            frame[at] = value;
            let _ = Outer::parse(&frame[..cut.min(50)]);
        }
    }
}
