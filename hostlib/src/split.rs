//! Communicators of some of a communicator's ranks.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use netfold_collectives::mesh::TcpRendezvous;
use netfold_control::{Credentials, Mode};
use netfold_io::Cores;
use netfold_proto::Tolerance;

use crate::builder::Builder;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::join::Opener;
use crate::quantize::Rounding;

/// What a group inherits from the communicator that it is split from.
#[derive(Debug, Clone)]
pub(crate) struct Heritage {
    pub(crate) job: String,
    pub(crate) mode: Mode,
    pub(crate) rounding: Rounding,
    pub(crate) tolerance: Tolerance,
    pub(crate) slots: u32,
    pub(crate) classes: u8,
    pub(crate) small: usize,
    pub(crate) switch: Vec<SocketAddr>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) bind: Vec<IpAddr>,
    pub(crate) opener: Opener,
    pub(crate) controlled: bool,
    pub(crate) controller: Vec<(SocketAddr, String)>,
    pub(crate) controller_ca: Option<PathBuf>,
    pub(crate) trees: u8,
    pub(crate) cores: Cores,
    pub(crate) rejoin: Option<bool>,
    pub(crate) host: Option<String>,
    pub(crate) shared_memory: bool,
    pub(crate) fall_back: bool,
    pub(crate) join_timeout: Duration,
    pub(crate) stall_timeout: Option<Duration>,
    /// The address of this host through which the other ranks are reached.
    pub(crate) ip: Option<IpAddr>,
}

/// What a rank says of itself in a split: colour, key and, on each group's first rank, where to meet.
const CARD: usize = 32;

/// A rank's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    /// None for ranks that want no group.
    color: Option<u32>,
    key: i32,
}

impl Wish {
    fn to_bytes(self) -> [u8; CARD] {
        let mut card = [0; CARD];
        card[0] = u8::from(self.color.is_some());
        card[1..5].copy_from_slice(&self.color.unwrap_or(0).to_be_bytes());
        card[5..9].copy_from_slice(&self.key.to_be_bytes());
        card
    }

    fn from_bytes(card: &[u8; CARD]) -> Self {
        let word = |at: usize| [card[at], card[at + 1], card[at + 2], card[at + 3]];
        Self { color: (card[0] == 1).then(|| u32::from_be_bytes(word(1))), key: i32::from_be_bytes(word(5)) }
    }
}

/// The members of a colour in order of key, then rank.
fn members(wishes: &[Wish], color: u32) -> Vec<u16> {
    let mut members: Vec<u16> =
        (0..wishes.len() as u16).filter(|rank| wishes[usize::from(*rank)].color == Some(color)).collect();
    members.sort_by_key(|rank| (wishes[usize::from(*rank)].key, *rank));
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
        let heritage = self.heritage();
        let ip = heritage.ip.ok_or(Error::Missing("rendezvous"))?;
        let cards = self.exchange_cards(Wish { color, key }.to_bytes())?;
        let wishes: Vec<Wish> = cards.iter().map(Wish::from_bytes).collect();
        let mine = color.map(|color| members(&wishes, color));
        // Each group's first rank listens before it says where.
        let first = mine.as_ref().is_some_and(|members| members.first() == Some(&self.rank()));
        let listener = first.then(|| TcpListener::bind((ip, 0))).transpose();
        let mut card = [0; CARD];
        if let Ok(Some(listener)) = &listener
            && let Ok(address) = listener.local_addr()
        {
            card[..2].copy_from_slice(&address.port().to_be_bytes());
            match address.ip() {
                IpAddr::V4(ip) => card[2..18].copy_from_slice(&ip.to_ipv6_mapped().octets()),
                IpAddr::V6(ip) => card[2..18].copy_from_slice(&ip.octets()),
            }
        }
        let cards = self.exchange_cards(card)?;
        let (Some(color), Some(members)) = (color, mine) else { return Ok(None) };
        let place = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0) as u16;
        let card = &cards[usize::from(members[0])];
        let mut octets = [0; 16];
        octets.copy_from_slice(&card[2..18]);
        let ip = std::net::Ipv6Addr::from(octets).to_canonical();
        let address = SocketAddr::new(ip, u16::from_be_bytes([card[0], card[1]]));
        let world = members.len() as u16;
        // Every split of a job has a meeting place, and so a name, of its own.
        let job = format!("{:.32}/{color}@{}", heritage.job, address.port());
        let exchange = match listener.ok().flatten() {
            Some(listener) => TcpRendezvous::host(listener, &job, world, heritage.join_timeout),
            None => TcpRendezvous::new(address, &job, place, world, heritage.join_timeout),
        };
        let exchange = exchange.map_err(|error| Error::Exchange(std::sync::Arc::new(error)))?;
        Ok(Some(Builder::inherit(heritage, job).exchange(Box::new(exchange))))
    }

    fn exchange_cards(&self, mine: [u8; CARD]) -> Result<Vec<[u8; CARD]>, Error> {
        let mut all = vec![0u8; CARD * usize::from(self.world_size())];
        self.all_gather(&mine, &mut all)?;
        Ok(all.as_chunks::<CARD>().0.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_order_of_key_then_rank() {
        let wish = |color, key| Wish { color, key };
        let wishes = [wish(Some(1), 5), wish(None, 0), wish(Some(1), -2), wish(Some(2), 0), wish(Some(1), 5)];
        let told: Vec<Wish> = wishes.iter().map(|wish| Wish::from_bytes(&wish.to_bytes())).collect();
        assert_eq!(told, wishes);
        assert_eq!(members(&told, 1), [2, 0, 4]);
        assert_eq!((members(&told, 2), members(&told, 3)), (vec![3], vec![]));
    }
}
