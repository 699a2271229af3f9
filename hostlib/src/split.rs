//! Communicators of some of a communicator's ranks.

use std::net::{IpAddr, SocketAddr, TcpListener};

use netfold_collectives::mesh::TcpRendezvous;

use crate::builder::Builder;
use crate::communicator::Communicator;
use crate::error::Error;

/// Length of the messages of a split: colour and key, then the address of each group's rendezvous.
const MESSAGE_LEN: usize = 32;

/// A rank's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SplitRequest {
    /// `None` for ranks without a group.
    color: Option<u32>,
    key: i32,
}

impl SplitRequest {
    fn to_bytes(self) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        message[0] = u8::from(self.color.is_some());
        message[1..5].copy_from_slice(&self.color.unwrap_or(0).to_be_bytes());
        message[5..9].copy_from_slice(&self.key.to_be_bytes());
        message
    }

    fn from_bytes(message: &[u8; MESSAGE_LEN]) -> Self {
        let word = |at: usize| [message[at], message[at + 1], message[at + 2], message[at + 3]];
        Self {
            color: (message[0] == 1).then(|| u32::from_be_bytes(word(1))),
            key: i32::from_be_bytes(word(5)),
        }
    }
}

/// The members of a colour in order of key, then rank.
fn members(requests: &[SplitRequest], color: u32) -> Vec<u16> {
    let mut members: Vec<u16> =
        (0..requests.len() as u16).filter(|rank| requests[usize::from(*rank)].color == Some(color)).collect();
    members.sort_by_key(|rank| (requests[usize::from(*rank)].key, *rank));
    members
}

impl Communicator {
    /// Splits the ranks into groups, as MPI does: ranks of the same colour form one, numbered by key and then by rank here. All ranks
    /// call it, those with no colour too, which get `None`. Returns a builder of the group with this communicator's settings; every
    /// member must [`connect`](Builder::connect) it.
    ///
    /// Groups are jobs of their own: each asks the switch for slots, and takes another path when there are none.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where the ranks have no [`rendezvous`](Builder::rendezvous); any error that ends the job.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Builder>, Error> {
        let config = self.config();
        let ip = self.ip().ok_or(Error::Missing("rendezvous"))?;
        let messages = self.exchange_messages(SplitRequest { color, key }.to_bytes())?;
        let requests: Vec<SplitRequest> = messages.iter().map(SplitRequest::from_bytes).collect();
        let mine = color.map(|color| members(&requests, color));
        // Each group's first rank listens before it sends the address.
        let first = mine.as_ref().is_some_and(|members| members.first() == Some(&self.rank()));
        let listener = first.then(|| TcpListener::bind((ip, 0))).transpose();
        let mut message = [0; MESSAGE_LEN];
        if let Ok(Some(listener)) = &listener
            && let Ok(address) = listener.local_addr()
        {
            message[..2].copy_from_slice(&address.port().to_be_bytes());
            match address.ip() {
                IpAddr::V4(ip) => message[2..18].copy_from_slice(&ip.to_ipv6_mapped().octets()),
                IpAddr::V6(ip) => message[2..18].copy_from_slice(&ip.octets()),
            }
        }
        let messages = self.exchange_messages(message)?;
        let (Some(color), Some(members)) = (color, mine) else { return Ok(None) };
        let place = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0) as u16;
        let message = &messages[usize::from(members[0])];
        let mut octets = [0; 16];
        octets.copy_from_slice(&message[2..18]);
        let ip = std::net::Ipv6Addr::from(octets).to_canonical();
        let address = SocketAddr::new(ip, u16::from_be_bytes([message[0], message[1]]));
        let world = members.len() as u16;
        // Every split of a job has its own rendezvous, and so its own name.
        let name = config.job.as_deref().unwrap_or("netfold");
        let job = format!("{name:.32}/{color}@{}", address.port());
        let exchange = match listener.ok().flatten() {
            Some(listener) => TcpRendezvous::host(listener, &job, world, config.join_timeout),
            None => TcpRendezvous::new(address, &job, place, world, config.join_timeout),
        };
        let exchange = exchange.map_err(|error| Error::Exchange(std::sync::Arc::new(error)))?;
        Ok(Some(Builder::from_config(config.inherited(job)).exchange(Box::new(exchange))))
    }

    fn exchange_messages(&self, mine: [u8; MESSAGE_LEN]) -> Result<Vec<[u8; MESSAGE_LEN]>, Error> {
        let mut all = vec![0u8; MESSAGE_LEN * usize::from(self.world_size())];
        self.all_gather(&mine, &mut all)?;
        Ok(all.as_chunks::<MESSAGE_LEN>().0.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_order_of_key_then_rank() {
        let request = |color, key| SplitRequest { color, key };
        let requests = [
            request(Some(1), 5),
            request(None, 0),
            request(Some(1), -2),
            request(Some(2), 0),
            request(Some(1), 5),
        ];
        let gathered: Vec<SplitRequest> =
            requests.iter().map(|request| SplitRequest::from_bytes(&request.to_bytes())).collect();
        assert_eq!(gathered, requests);
        assert_eq!(members(&gathered, 1), [2, 0, 4]);
        assert_eq!((members(&gathered, 2), members(&gathered, 3)), (vec![3], vec![]));
    }
}
