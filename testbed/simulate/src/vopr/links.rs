//! The links of the simulated network: each carries one datagram at a time, and those that find too many before them are lost.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::plan::{AGGREGATORS, HOSTS_PER_LEAF, SPINE};

/// Bytes a second of a host's link, in each direction: 1 Gbit/s. The links of leaves carry what all their hosts send.
const HOST_RATE: u64 = 125_000_000;

/// Longest wait for a link.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// What a datagram has beside its payload on an Ethernet link: preamble, headers, checksum and gap.
const OVERHEAD: usize = 66;

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    /// From a host to its leaf.
    HostUp(usize),
    /// From a leaf to a host.
    HostDown(usize),
    /// From a leaf to the spine.
    LeafUp(usize),
    /// From the spine to a leaf.
    LeafDown(usize),
}

impl Link {
    fn rate(self) -> u64 {
        match self {
            Self::HostUp(_) | Self::HostDown(_) => HOST_RATE,
            Self::LeafUp(_) | Self::LeafDown(_) => HOST_RATE * HOSTS_PER_LEAF as u64,
        }
    }
}

/// An end of a way through the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Host(usize),
    Leaf(usize),
    Spine,
}

impl End {
    fn leaf(self) -> Option<usize> {
        match self {
            Self::Host(host) => Some(host / HOSTS_PER_LEAF),
            Self::Leaf(leaf) => Some(leaf),
            Self::Spine => None,
        }
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// When each has carried all that was given to it.
    free: BTreeMap<Link, Duration>,
}

impl Links {
    /// How long a datagram that is sent now is under way on links; `None` when it is lost before one of them.
    pub(super) fn carry(
        &mut self,
        now: Duration,
        (from, to): (SocketAddr, SocketAddr),
        bytes: usize,
    ) -> Option<Duration> {
        let mut at = now;
        for link in way(end(from), end(to)).into_iter().flatten() {
            let free = self.free.entry(link).or_default();
            let begin = at.max(*free);
            if begin - at > WAIT_MAX {
                return None;
            }
            at = begin + Duration::from_nanos((bytes + OVERHEAD) as u64 * 1_000_000_000 / link.rate());
            *free = at;
        }
        Some(at - now)
    }
}

/// Addresses are those of `plan::host_address` and of the world's switches. An aggregator is where its switch is.
fn end(address: SocketAddr) -> End {
    let IpAddr::V4(ip) = address.ip() else { return End::Spine };
    let [_, net, leaf, last] = ip.octets().map(usize::from);
    match (net, leaf, last) {
        (9, ..) if last % AGGREGATORS == SPINE => End::Spine,
        (9, ..) => End::Leaf(last % AGGREGATORS - 1),
        _ => End::Host((leaf - 1) * HOSTS_PER_LEAF + last - 1),
    }
}

/// The links from one end to another, in order.
fn way(from: End, to: End) -> [Option<Link>; 4] {
    let of_host = |end, link: fn(usize) -> Link| match end {
        End::Host(host) => Some(link(host)),
        End::Leaf(_) | End::Spine => None,
    };
    let across =
        |end: End, link: fn(usize) -> Link| end.leaf().filter(|_| from.leaf() != to.leaf()).map(link);
    [
        of_host(from, Link::HostUp),
        across(from, Link::LeafUp),
        across(to, Link::LeafDown),
        of_host(to, Link::HostDown),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vopr::plan::host_address;

    fn host(host: usize) -> SocketAddr {
        SocketAddr::new(host_address(host), 40_000)
    }

    fn switch(last: u8) -> SocketAddr {
        ([10, 9, 0, last], 20_038).into()
    }

    #[test]
    fn ways_lead_over_leaves_and_the_spine() {
        let links = |from, to| way(end(from), end(to)).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(links(host(1), switch(1)), [Link::HostUp(1)]);
        assert_eq!(links(switch(2), host(5)), [Link::HostDown(5)]);
        assert_eq!(links(switch(1), switch(9)), [Link::LeafUp(0)]);
        assert_eq!(links(switch(9), switch(2)), [Link::LeafDown(1)]);
        assert_eq!(links(switch(12), switch(9)), [Link::LeafUp(1)], "an aggregator is where its switch is");
        assert_eq!((links(switch(1), switch(11)), links(switch(9), switch(19))), (vec![], vec![]));
        let across = [Link::HostUp(0), Link::LeafUp(0), Link::LeafDown(1), Link::HostDown(7)];
        assert_eq!(links(host(0), host(7)), across);
    }

    #[test]
    fn datagrams_wait_for_each_other_and_are_lost_after_too_long_a_wait() {
        let (mut links, way) = (Links::default(), (host(0), switch(1)));
        let one = links.carry(Duration::ZERO, way, 1_184).unwrap();
        assert_eq!(one, Duration::from_micros(10));
        assert_eq!(links.carry(Duration::ZERO, way, 1_184), Some(2 * one));
        assert_eq!(links.carry(Duration::ZERO, (host(1), switch(1)), 1_184), Some(one), "a link of its own");
        let carried = (0..1_000).filter(|_| links.carry(Duration::ZERO, way, 1_184).is_some()).count();
        assert_eq!(carried, 199);
        assert_eq!(links.carry(Duration::from_millis(3), way, 1_184), Some(one));
    }
}
