//! Where peers are: which port of a switch leads to them, and at which Ethernet address.

use std::net::{SocketAddr, SocketAddrV4};

use super::driver::PeerPort;
use netfold_controller::topology::Prefix;

/// Knows where the peers of one switch are, without asking the switch.
pub trait PeerPorts: Send {
    /// Where a peer is attached, or the next hop to it; `None` when that is not known.
    fn find(&self, peer: SocketAddrV4) -> Option<PeerPort>;
}

impl<F: Fn(SocketAddrV4) -> Option<PeerPort> + Send> PeerPorts for F {
    fn find(&self, peer: SocketAddrV4) -> Option<PeerPort> {
        self(peer)
    }
}

/// How a switch gets to its peers.
pub enum Attachment {
    /// Every peer is at a port that is known beforehand.
    Known(Box<dyn PeerPorts>),
    /// The switch assigns a port to every peer that is announced through the service `netfold.switch.v1.Ports` beside
    /// P4Runtime: Netfold's own switch, whose links are UDP.
    Attached,
}

/// Peers by address. The longest prefix wins, and of equal ones the last that was entered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerTable {
    ranges: Vec<(Prefix, PeerPort)>,
}

impl PeerTable {
    /// Without peers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps all peers with such an address to `place`.
    #[must_use]
    pub fn with(mut self, prefix: Prefix, place: PeerPort) -> Self {
        self.ranges.push((prefix, place));
        self
    }
}

impl PeerPorts for PeerTable {
    fn find(&self, peer: SocketAddrV4) -> Option<PeerPort> {
        let within = |(prefix, _): &&(Prefix, PeerPort)| prefix.contains((*peer.ip()).into());
        let found = self.ranges.iter().filter(within).max_by_key(|(prefix, _)| prefix.len());
        found.map(|(_, place)| *place)
    }
}

/// Why a port cannot be bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    #[error("no peer is bound to it")]
    Unbound,
    #[error("the switch does not authenticate packets, or would be sent the keys in clear text")]
    Plain,
    #[error("the switch takes no port of that number")]
    Number,
    #[error("{0} is no IPv4 address, and the pipeline knows only those")]
    NotIpv4(SocketAddr),
    #[error("no port of the switch is known to lead to {0}: enter it among the neighbours")]
    Unknown(SocketAddrV4),
    #[error("{0} is not reached by one of the switch's interfaces, or does not answer ARP there")]
    NoNeighbour(SocketAddrV4),
    #[error("the neighbour is said to be at port {0} of the switch, which is not for peers")]
    Reserved(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let place = |port| PeerPort { port, mac: u64::from(port) };
        let places = PeerTable::new()
            .with("10.1.0.0/16".parse().unwrap(), place(1))
            .with("10.1.2.3".parse().unwrap(), place(2))
            .with(Prefix::everything(false), place(3));
        let at = |address: [u8; 4]| places.find(SocketAddrV4::new(address.into(), 9)).map(|found| found.port);
        assert_eq!(at([10, 1, 9, 9]), Some(1));
        assert_eq!(at([10, 1, 2, 3]), Some(2));
        assert_eq!(at([192, 168, 0, 1]), Some(3));
        assert_eq!(PeerTable::new().find(SocketAddrV4::new([127, 0, 0, 1].into(), 1)), None);
    }
}
