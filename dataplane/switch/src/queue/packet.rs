//! Classification, marking and trimming of queued packets.

use netfold_wire::frame::{Ipv4Packet, OUTER_LEN, UdpPacket};
use netfold_wire::{Flags, Kind, Packet, UDP_PORT, VERSION, header};

use super::config::{CLASSES, Framing};
use crate::runtime::CE;

/// Where the IPv4 and UDP headers begin in a frame.
const IP: usize = 14;
const UDP: usize = 34;

/// The kind of queue that a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrafficClass {
    /// The queue of this class.
    Class(usize),
    /// The queue of control packets, which have no lanes and precede all classes.
    Control,
}

/// The Netfold packet; `None` for other packets.
fn netfold(framing: Framing, bytes: &[u8]) -> Option<Packet<&[u8]>> {
    let datagram = match framing {
        Framing::Datagram => bytes,
        Framing::Ethernet => bytes.get(OUTER_LEN..).filter(|_| is_netfold(bytes))?,
    };
    Packet::new_checked(datagram).ok().filter(|packet| packet.version() == VERSION)
}

/// Whether a frame is IPv4 without options, in one piece, and UDP to or from Netfold's port. RESULTs go to the port that a child
/// sends from, so either end counts.
fn is_netfold(frame: &[u8]) -> bool {
    frame.len() >= OUTER_LEN
        && frame[12..15] == [8, 0, 0x45]
        && frame[IP + 6] & 0x3f == 0
        && frame[IP + 7] == 0
        && frame[IP + 9] == 17
        && [UDP, UDP + 2].iter().any(|at| frame[*at..at + 2] == UDP_PORT.to_be_bytes())
}

/// The class of a packet. Packets of other protocols have class 0.
pub(super) fn classify(framing: Framing, bytes: &[u8]) -> TrafficClass {
    let Some(packet) = netfold(framing, bytes) else { return TrafficClass::Class(0) };
    let data = [Kind::Data as u8, Kind::Result as u8, Kind::Close as u8].contains(&packet.kind());
    if data && !packet.flags().contains(Flags::TRIMMED.with(Flags::BARE)) {
        TrafficClass::Class(usize::from(packet.class()) % CLASSES)
    } else {
        TrafficClass::Control
    }
}

/// Whether a packet may be cut to its header: data with the flag `droppable` that still has lanes.
pub(super) fn may_be_trimmed(framing: Framing, bytes: &[u8]) -> bool {
    netfold(framing, bytes).is_some_and(|packet| {
        let flags = packet.flags();
        packet.kind() == Kind::Data as u8
            && flags.contains(Flags::DROPPABLE)
            && !flags.contains(Flags::BARE)
            && !packet.payload().is_empty()
    })
}

/// Cuts the lanes off a packet that [`may_be_trimmed`] and returns its new length.
pub(super) fn trim(framing: Framing, bytes: &mut [u8]) -> usize {
    let outer = if framing == Framing::Ethernet { OUTER_LEN } else { 0 };
    let mut packet = Packet::new_unchecked(&mut bytes[outer..]);
    packet.set_flags(packet.flags().with(Flags::TRIMMED).with(Flags::BARE));
    packet.set_count(0);
    let len = outer + header::LEN;
    if framing == Framing::Ethernet {
        let mut udp = UdpPacket::new_unchecked(&mut bytes[UDP..]);
        udp.set_len((len - UDP) as u16);
        udp.set_checksum(0);
        let mut ip = Ipv4Packet::new_unchecked(&mut bytes[IP..]);
        ip.set_total_len((len - IP) as u16);
        ip.fill_checksum();
    }
    len
}

/// Sets the congestion mark of a packet; `false` when it has none, or its sender does not support ECN.
pub(super) fn mark(framing: Framing, bytes: &mut [u8]) -> bool {
    match framing {
        Framing::Datagram => {
            let Some(packet) = netfold(framing, bytes) else { return false };
            let (kind, flags) = (packet.kind(), packet.flags());
            let can_mark = kind == Kind::Data as u8 || kind == Kind::Result as u8;
            if can_mark {
                Packet::new_unchecked(bytes).set_flags(flags.with(Flags::CONGESTION));
            }
            can_mark
        }
        Framing::Ethernet => {
            let ip = bytes.get_mut(IP..).filter(|ip| ip.len() >= 20 && ip[0] == 0x45);
            let Some(ip) = ip else { return false };
            let mut ip = Ipv4Packet::new_unchecked(ip);
            let is_capable = ip.ecn() != 0;
            if is_capable {
                ip.set_ecn(CE);
                ip.fill_checksum();
            }
            is_capable
        }
    }
}
