//! Communicators of some of a communicator's ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use netfold_collectives::mesh::TcpRendezvous;
use netfold_control::QuotaQuery;
use netfold_wire::VERSION;

use crate::attach::security;
use crate::builder::Builder;
use crate::communicator::Communicator;
use crate::config::NAME_LEN_MAX;
use crate::error::Error;
use crate::session::Session;

/// Length of the messages of a split: a rank's request, then the address of each group's rendezvous.
const MESSAGE_LEN: usize = 32;

/// First bytes of a request: ranks that gather something else are not taken for ranks that split.
const MAGIC: [u8; 8] = *b"nf-split";

/// A rank's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SplitRequest {
    /// How many times the communicator was split before.
    earlier: u32,
    /// `None` for ranks without a group.
    color: Option<u32>,
    key: i32,
}

impl SplitRequest {
    fn to_bytes(self) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        message[..8].copy_from_slice(&MAGIC);
        message[8] = u8::from(self.color.is_some());
        message[9..13].copy_from_slice(&self.color.unwrap_or(0).to_be_bytes());
        message[13..17].copy_from_slice(&self.key.to_be_bytes());
        message[17..21].copy_from_slice(&self.earlier.to_be_bytes());
        message
    }

    /// `None` for what is no request.
    fn from_bytes(message: &[u8; MESSAGE_LEN]) -> Option<Self> {
        let word = |at: usize| [message[at], message[at + 1], message[at + 2], message[at + 3]];
        (message[..8] == MAGIC && message[8] <= 1).then(|| Self {
            earlier: u32::from_be_bytes(word(17)),
            color: (message[8] == 1).then(|| u32::from_be_bytes(word(9))),
            key: i32::from_be_bytes(word(13)),
        })
    }
}

/// The requests of all ranks, if they are of the same split.
fn agreed(mine: SplitRequest, messages: &[[u8; MESSAGE_LEN]]) -> Result<Vec<SplitRequest>, Error> {
    let nth = |request: SplitRequest| format!("split number {} of this communicator", request.earlier + 1);
    let mut requests = Vec::with_capacity(messages.len());
    for (rank, message) in (0u16..).zip(messages) {
        let request = SplitRequest::from_bytes(message);
        match request.filter(|request| request.earlier == mine.earlier) {
            Some(request) => requests.push(request),
            None => {
                let theirs = request.map_or_else(|| "an all-gather of bytes, no split".to_owned(), nth);
                return Err(Error::Differs { rank, mine: nth(mine), theirs });
            }
        }
    }
    Ok(requests)
}

/// The members of a colour in order of key, then rank.
fn members(requests: &[SplitRequest], color: u32) -> Vec<u16> {
    let mut members: Vec<u16> =
        (0..requests.len() as u16).filter(|rank| requests[usize::from(*rank)].color == Some(color)).collect();
    members.sort_by_key(|rank| (requests[usize::from(*rank)].key, *rank));
    members
}

/// The name of a group: the same on all of its ranks, unique in the job as long as its parent's is, and not used again by it.
fn group_name(parent: Option<&str>, earlier: u32, color: u32) -> String {
    let own = format!("{}.{color}", u64::from(earlier) + 1);
    match parent {
        None => own,
        Some(parent) if parent.len() + 1 + own.len() <= NAME_LEN_MAX => format!("{parent}:{own}"),
        // FNV-1a, of a name that is too long to be a part of others.
        Some(parent) => {
            let hash = parent.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            format!("{hash:016x}:{own}")
        }
    }
}

/// The number of groups that will use a switch: those with ranks on several hosts. `hosts` has the host of each rank.
fn groups_at_switch(requests: &[SplitRequest], hosts: &[u16]) -> u32 {
    let mut groups = BTreeMap::<u32, BTreeSet<u16>>::new();
    for (request, host) in requests.iter().zip(hosts) {
        if let Some(color) = request.color {
            groups.entry(color).or_default().insert(*host);
        }
    }
    groups.values().filter(|hosts| hosts.len() > 1).count() as u32
}

/// Where a group's first rank listens: port, then address; all zeros where it could not. Then the length of the objection that the sender has to
/// the split.
fn address_message(listener: Option<&TcpListener>, objection: &str) -> [u8; MESSAGE_LEN] {
    let mut message = [0; MESSAGE_LEN];
    if let Some(address) = listener.and_then(|listener| listener.local_addr().ok()) {
        message[..2].copy_from_slice(&address.port().to_be_bytes());
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        message[2..18].copy_from_slice(&ip.octets());
    }
    message[18..20].copy_from_slice(&(objection.len() as u16).to_be_bytes());
    message
}

fn address_of(message: &[u8; MESSAGE_LEN]) -> Option<SocketAddr> {
    let mut octets = [0; 16];
    octets.copy_from_slice(&message[2..18]);
    let port = u16::from_be_bytes([message[0], message[1]]);
    (port != 0).then(|| SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port))
}

impl Communicator {
    /// Splits the ranks into groups, as MPI does: ranks of the same colour form one, numbered by key and then by rank here. All ranks
    /// call it, those with no colour too, which get `None`. Returns a builder of the group with this communicator's settings; every
    /// member must [`connect`](Builder::connect) it.
    ///
    /// Groups are [groups of this communicator's job](Builder::group). Those whose ranks share a host fold in shared memory and never use the
    /// switch; each of the others requests slots of its own for its first operation, gives them back when it is [idle](Builder::idle_timeout), and takes
    /// another path when there are none. Leave groups before their job.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where the ranks have no [`rendezvous`](Builder::rendezvous); [`Error::Quota`], on every rank, where the tenant's quota is too
    /// small for the groups that need slots, with the number of these; [`Error::Differs`], on every rank, where one of them is at another
    /// split; [`Error::Leader`] on the ranks of a group whose first rank cannot listen; any error that ends the job.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Builder>, Error> {
        let config = self.config();
        let place = self.place().ok_or(Error::Missing("rendezvous"))?;
        let ip = place.ip;
        let earlier = self.count_split();
        let request = SplitRequest { earlier, color, key };
        let requests = agreed(request, &self.exchange_messages(request.to_bytes())?)?;
        let mine = color.map(|color| members(&requests, color));
        // Each group's first rank listens before it sends the address.
        let first = mine.as_ref().is_some_and(|members| members.first() == Some(&self.rank()));
        let listener = first.then(|| TcpListener::bind((ip, 0))).and_then(Result::ok);
        let objection = self.object_to_split(groups_at_switch(&requests, &place.hosts));
        let messages = self.exchange_messages(address_message(listener.as_ref(), &objection))?;
        self.check_objection(objection, &messages[0])?;
        let (Some(color), Some(members)) = (color, mine) else { return Ok(None) };
        let index = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0) as u16;
        let address = address_of(&messages[usize::from(members[0])]).ok_or_else(|| Error::Leader {
            message: format!(
                "rank {} cannot listen at {ip} for the other ranks of its group: check its limit of open files",
                members[0]
            ),
        })?;
        let world = members.len() as u16;
        let group = group_name(config.group.as_deref(), earlier, color);
        // Every split has its own rendezvous.
        let name = config.job.as_deref().unwrap_or("netfold");
        let meeting = format!("{name:.32}/{color}@{}", address.port());
        let exchange = match listener {
            Some(listener) => TcpRendezvous::host(listener, &meeting, world, config.join_timeout),
            None => TcpRendezvous::new(address, &meeting, index, world, config.join_timeout),
        };
        let exchange = exchange.map_err(|error| Error::Exchange(Arc::new(error)))?;
        Ok(Some(Builder::from_config(config.inherited(group, self.lane_ops())).exchange(Box::new(exchange))))
    }

    /// On rank 0, why the tenant's quota has no room for so many groups; empty where it has.
    fn object_to_split(&self, groups: u32) -> String {
        let config = self.config();
        // A switch's own control port has no tenants.
        if self.rank() > 0 || groups == 0 || !config.controlled {
            return String::new();
        }
        let query = QuotaQuery {
            version: VERSION,
            credentials: config.credentials.clone(),
            groups,
            slots: config.all_slots(),
            classes: config.classes,
            trees: config.trees,
        };
        match Session::check_quota(&config.switch, security(config).as_ref(), query) {
            Err(Error::Quota { message }) => message,
            _ => String::new(),
        }
    }

    /// Has every rank know rank 0's objection, if it has one.
    fn check_objection(&self, mine: String, first: &[u8; MESSAGE_LEN]) -> Result<(), Error> {
        let len = usize::from(u16::from_be_bytes([first[18], first[19]]));
        if len == 0 {
            return Ok(());
        }
        let mut text = mine.into_bytes();
        text.resize(len, 0);
        self.broadcast(&mut text, 0)?;
        Err(Error::Quota { message: String::from_utf8_lossy(&text).into_owned() })
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
        let request = |color, key| SplitRequest { earlier: 3, color, key };
        let requests = [
            request(Some(1), 5),
            request(None, 0),
            request(Some(1), -2),
            request(Some(2), 0),
            request(Some(1), 5),
        ];
        let messages = requests.map(SplitRequest::to_bytes);
        let gathered = agreed(requests[1], &messages).unwrap();
        assert_eq!(gathered, requests);
        assert_eq!(members(&gathered, 1), [2, 0, 4]);
        assert_eq!((members(&gathered, 2), members(&gathered, 3)), (vec![3], vec![]));
    }

    #[test]
    fn groups_of_one_host_do_not_use_the_switch() {
        let request = |color| SplitRequest { earlier: 0, color, key: 0 };
        let requests = [Some(1), Some(1), Some(2), Some(2), Some(3), None].map(request);
        assert_eq!(groups_at_switch(&requests, &[0, 0, 0, 3, 3, 3]), 1);
        assert_eq!(groups_at_switch(&requests, &[0, 1, 2, 3, 4, 5]), 2);
    }

    #[test]
    fn ranks_that_do_not_split_together_are_named() {
        let request = |earlier| SplitRequest { earlier, color: None, key: 0 };
        let messages = [request(0).to_bytes(), request(0).to_bytes(), request(1).to_bytes()];
        for (mine, named) in [(0, 2), (1, 0)] {
            let Err(Error::Differs { rank, mine, theirs }) = agreed(request(mine), &messages) else {
                panic!("they differ")
            };
            assert_eq!(rank, named, "{mine} {theirs}");
            assert!(mine.contains("number") && theirs.contains("number"), "{mine} {theirs}");
        }
        let error = agreed(request(0), &[request(0).to_bytes(), [7; MESSAGE_LEN]]).unwrap_err();
        assert!(error.to_string().contains("rank 1") && error.to_string().contains("all-gather"), "{error}");
    }

    #[test]
    fn names_of_groups_are_unique_and_short() {
        assert_eq!(group_name(None, 0, 7), "1.7");
        assert_eq!(group_name(Some("1.7"), 1, 0), "1.7:2.0");
        let mut nested = String::from("tp");
        let mut all = std::collections::BTreeSet::new();
        for depth in 0..50 {
            let sibling = group_name(Some(&nested), u32::MAX, depth + 1);
            nested = group_name(Some(&nested), u32::MAX, u32::MAX);
            assert!(nested.len() <= NAME_LEN_MAX && !nested.contains('/'), "{nested}");
            assert!(all.insert(nested.clone()) && all.insert(sibling), "{nested}");
        }
    }

    #[test]
    fn addresses_pass_through_messages() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(address_of(&address_message(Some(&listener), "no room")), listener.local_addr().ok());
        assert_eq!(address_of(&address_message(None, "")), None);
    }
}
