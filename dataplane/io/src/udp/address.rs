//! Socket addresses as the kernel reads and writes them, and the table of peers.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::mix::Mix;
use crate::{IoError, PortId};

/// Bytes of `sockaddr_in`.
const V4_LEN: usize = 16;
/// Bytes of `sockaddr_in6`, the longest kept here.
const V6_LEN: usize = 28;

/// A `sockaddr_in` or `sockaddr_in6`, byte for byte: family (2, native order), port (2, big-endian), then for IPv4
/// the address (4) and zeros (8), for IPv6 flow (4), address (16) and scope (4, native order). Source: ip(7), ipv6(7).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct RawAddress {
    pub(super) bytes: [u8; V6_LEN],
    pub(super) len: u32,
}

/// What identifies a peer: address (IPv4 mapped into IPv6) and UDP port. Flow label and scope do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    ip: u128,
    port: u16,
}

impl RawAddress {
    /// Room for any address; the kernel fills it in.
    pub(super) const EMPTY: Self = Self { bytes: [0; V6_LEN], len: V6_LEN as u32 };

    /// The form that a socket bound to `local` takes, or `None` when the families do not fit. An IPv6 socket reaches
    /// IPv4 peers by mapped addresses.
    pub(super) fn new(peer: SocketAddr, local: SocketAddr) -> Option<Self> {
        match (peer, local) {
            (SocketAddr::V4(peer), SocketAddr::V4(_)) => {
                let mut bytes = [0; V6_LEN];
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[2..4].copy_from_slice(&peer.port().to_be_bytes());
                bytes[4..8].copy_from_slice(&peer.ip().octets());
                Some(Self { bytes, len: V4_LEN as u32 })
            }
            (SocketAddr::V4(peer), SocketAddr::V6(_)) => {
                Some(Self::v6(SocketAddrV6::new(peer.ip().to_ipv6_mapped(), peer.port(), 0, 0)))
            }
            (SocketAddr::V6(peer), SocketAddr::V6(_)) => Some(Self::v6(peer)),
            (SocketAddr::V6(_), SocketAddr::V4(_)) => None,
        }
    }

    fn v6(peer: SocketAddrV6) -> Self {
        let mut bytes = [0; V6_LEN];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&peer.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&peer.flowinfo().to_be_bytes());
        bytes[8..24].copy_from_slice(&peer.ip().octets());
        bytes[24..28].copy_from_slice(&peer.scope_id().to_ne_bytes());
        Self { bytes, len: V6_LEN as u32 }
    }

    /// `None` for a family that is neither.
    fn key(&self) -> Option<Key> {
        let family = i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]));
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        if family == libc::AF_INET {
            let mut octets = [0; 4];
            octets.copy_from_slice(&self.bytes[4..8]);
            Some(Key::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
        } else if family == libc::AF_INET6 {
            let mut octets = [0; 16];
            octets.copy_from_slice(&self.bytes[8..24]);
            Some(Key::new(IpAddr::V6(Ipv6Addr::from(octets)), port))
        } else {
            None
        }
    }
}

impl Key {
    fn new(ip: IpAddr, port: u16) -> Self {
        let ip = match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Self { ip: u128::from(ip), port }
    }
}

/// The peer of a port: an address, and consecutive UDP ports that it sends from.
#[derive(Debug, Clone, Copy)]
struct Peer {
    first: SocketAddr,
    udp_ports: u8,
    /// Where its packets go: the UDP port that its last packet came from.
    destination: RawAddress,
}

impl Peer {
    fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let (ip, first) = (self.first.ip(), self.first.port());
        (0..u16::from(self.udp_ports)).map(move |index| Key::new(ip, first + index))
    }
}

/// Which peer has which port, both ways.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_port: Vec<Option<Peer>>,
    by_address: HashMap<Key, PortId, BuildHasherDefault<Mix>>,
}

impl Peers {
    /// Makes `peer`, with so many consecutive UDP ports from its own on, the peer of `port`, and forgets the one before.
    pub(super) fn bind(
        &mut self,
        port: PortId,
        peer: SocketAddr,
        udp_ports: u8,
        local: SocketAddr,
    ) -> Result<(), IoError> {
        let destination = RawAddress::new(peer, local).ok_or(IoError::Family { peer, local })?;
        let udp_ports = udp_ports.max(1);
        if peer.port().checked_add(u16::from(udp_ports - 1)).is_none() {
            return Err(IoError::PortRange { peer, udp_ports });
        }
        let new = Peer { first: peer, udp_ports, destination };
        let taken = new.keys().find_map(|key| self.by_address.get(&key).filter(|other| **other != port));
        if let Some(&other) = taken {
            return Err(IoError::PeerBound { peer, port: other });
        }
        let index = usize::from(port.0);
        if index >= self.by_port.len() {
            self.by_port.resize(index + 1, None);
        }
        if let Some(old) = self.by_port[index].replace(new) {
            self.forget(&old);
        }
        self.by_address.extend(new.keys().map(|key| (key, port)));
        Ok(())
    }

    pub(super) fn unbind(&mut self, port: PortId) -> Result<(), IoError> {
        let entry = self.by_port.get_mut(usize::from(port.0)).and_then(Option::take);
        self.forget(&entry.ok_or(IoError::UnknownPort(port))?);
        Ok(())
    }

    fn forget(&mut self, old: &Peer) {
        for key in old.keys() {
            self.by_address.remove(&key);
        }
    }

    /// The port that packets from `source` come in by. What is sent to that port from now on goes to `source`.
    pub(super) fn note_source(&mut self, source: &RawAddress) -> Option<PortId> {
        let port = *self.by_address.get(&source.key()?)?;
        let peer = self.by_port.get_mut(usize::from(port.0))?.as_mut()?;
        if peer.udp_ports > 1 {
            peer.destination.bytes[2..4].copy_from_slice(&source.bytes[2..4]);
        }
        Some(port)
    }

    pub(super) fn address(&self, port: PortId) -> Option<&RawAddress> {
        self.entry(port).map(|peer| &peer.destination)
    }

    pub(super) fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.entry(port).map(|peer| peer.first)
    }

    fn entry(&self, port: PortId) -> Option<&Peer> {
        self.by_port.get(usize::from(port.0))?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    const ANY_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn kernel_layout() {
        let v4 = RawAddress::new(address("10.1.2.3:20038"), ANY_V4).unwrap();
        assert_eq!(v4.bytes[2..8], [0x4e, 0x46, 10, 1, 2, 3]);
        assert_eq!(v4.len, 16);
        let v6 = RawAddress::new(address("[fe80::1%3]:1"), ANY_V6).unwrap();
        assert_eq!(v6.bytes[8..10], [0xfe, 0x80]);
        assert_eq!(v6.bytes[24..28], 3_u32.to_ne_bytes());
        assert!(RawAddress::new(address("[::1]:1"), ANY_V4).is_none());
    }

    #[test]
    fn a_mapped_source_is_the_same_peer() {
        let mut peers = Peers::default();
        peers.bind(PortId(3), address("10.1.2.3:7"), 1, ANY_V6).unwrap();
        let plain = RawAddress::new(address("10.1.2.3:7"), ANY_V4).unwrap();
        let mapped = RawAddress::new(address("[::ffff:10.1.2.3]:7"), ANY_V6).unwrap();
        assert_eq!(peers.note_source(&plain), Some(PortId(3)));
        assert_eq!(peers.note_source(&mapped), Some(PortId(3)));
        let other = RawAddress::new(address("10.1.2.3:8"), ANY_V4).unwrap();
        assert_eq!(peers.note_source(&other), None);
    }

    #[test]
    fn binding_rules() {
        let mut peers = Peers::default();
        let (a, b) = (address("127.0.0.1:1"), address("127.0.0.1:2"));
        peers.bind(PortId(0), a, 1, ANY_V4).unwrap();
        peers.bind(PortId(0), a, 1, ANY_V4).expect("again is no change");
        let taken = peers.bind(PortId(1), a, 1, ANY_V4);
        assert!(matches!(taken, Err(IoError::PeerBound { port: PortId(0), .. })), "{taken:?}");
        peers.bind(PortId(0), b, 1, ANY_V4).expect("another peer for the port");
        assert_eq!(peers.note_source(&RawAddress::new(a, ANY_V4).unwrap()), None);
        peers.bind(PortId(9), a, 1, ANY_V4).expect("the old peer is free again");
        peers.unbind(PortId(9)).unwrap();
        assert!(matches!(peers.unbind(PortId(9)), Err(IoError::UnknownPort(PortId(9)))));
        assert!(matches!(peers.unbind(PortId(77)), Err(IoError::UnknownPort(PortId(77)))));
        assert!(matches!(peers.bind(PortId(1), address("[::1]:1"), 1, ANY_V4), Err(IoError::Family { .. })));
    }
    #[test]
    fn a_peer_is_reached_where_its_last_packet_came_from() {
        let mut peers = Peers::default();
        let from = |port| RawAddress::new(SocketAddr::from(([10, 1, 2, 3], port)), ANY_V4).unwrap();
        let destination = |peers: &Peers| peers.address(PortId(2)).unwrap().key();
        peers.bind(PortId(2), address("10.1.2.3:5000"), 4, ANY_V4).unwrap();
        assert_eq!(destination(&peers), from(5000).key(), "nothing was received yet");
        assert_eq!((peers.note_source(&from(5003)), peers.note_source(&from(5004))), (Some(PortId(2)), None));
        assert_eq!(destination(&peers), from(5003).key());
        for first in ["10.1.2.3:4999", "10.1.2.3:5003"] {
            let taken = peers.bind(PortId(3), address(first), 2, ANY_V4);
            assert!(matches!(taken, Err(IoError::PeerBound { port: PortId(2), .. })), "{taken:?}");
        }
        peers.bind(PortId(3), address("10.1.2.3:4998"), 2, ANY_V4).expect("next to the others");
        peers.unbind(PortId(2)).unwrap();
        assert_eq!(peers.note_source(&from(5001)), None);
        let beyond = peers.bind(PortId(2), address("10.1.2.3:65535"), 2, ANY_V4);
        assert!(matches!(beyond, Err(IoError::PortRange { .. })), "{beyond:?}");
    }
}
