//! Which peer has which port, both ways.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::{SocketAddr, SocketAddrV4};

use super::headers::Template;
use super::neighbours::Hop;
use crate::mix::Mix;
use crate::{IoError, PortId};

/// One peer: how it is addressed, and by which neighbour it is reached.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddrV4,
    pub(super) hop: Hop,
    pub(super) template: Template,
}

/// The peers by port and by address. Only bound peers are ever inserted, so strangers cannot make it grow.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_port: Vec<Option<Peer>>,
    by_address: HashMap<u64, PortId, BuildHasherDefault<Mix>>,
}

fn key(address: SocketAddrV4) -> u64 {
    u64::from(u32::from(*address.ip())) << 16 | u64::from(address.port())
}

impl Peers {
    /// Whether `address` may become the peer of `port`.
    ///
    /// # Errors
    ///
    /// [`IoError::PeerBound`] when it is another port's.
    pub(super) fn check(&self, port: PortId, address: SocketAddrV4) -> Result<(), IoError> {
        match self.by_address.get(&key(address)) {
            Some(&other) if other != port => {
                Err(IoError::PeerBound { peer: SocketAddr::V4(address), port: other })
            }
            _ => Ok(()),
        }
    }

    /// Makes `peer` the peer of `port`; returns the one before.
    pub(super) fn insert(&mut self, port: PortId, peer: Peer) -> Option<Peer> {
        let index = usize::from(port.0);
        if index >= self.by_port.len() {
            self.by_port.resize(index + 1, None);
        }
        let address = peer.address;
        let old = self.by_port[index].replace(peer);
        if let Some(old) = &old {
            self.by_address.remove(&key(old.address));
        }
        self.by_address.insert(key(address), port);
        old
    }

    /// Takes the peer of `port` away.
    pub(super) fn remove(&mut self, port: PortId) -> Option<Peer> {
        let old = self.by_port.get_mut(usize::from(port.0)).and_then(Option::take)?;
        self.by_address.remove(&key(old.address));
        Some(old)
    }

    /// The port that datagrams from `source` come in by.
    pub(super) fn port_of(&self, source: SocketAddrV4) -> Option<PortId> {
        self.by_address.get(&key(source)).copied()
    }

    /// The headers of all peers.
    pub(super) fn templates(&mut self) -> impl Iterator<Item = &mut Template> {
        self.by_port.iter_mut().flatten().map(|peer| &mut peer.template)
    }

    pub(super) fn get(&self, port: PortId) -> Option<&Peer> {
        self.by_port.get(usize::from(port.0))?.as_ref()
    }
}
