//! Traffic of links, computed from the counters of the members whose packets they carry. Switches count packets by result, not by port.

use super::{TreeTraffic, ratio};
use crate::view::LinkTraffic;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A tree of a job, and what its packets pass.
pub(crate) struct LinkedTree<'a> {
    /// Counters of its members.
    pub(crate) traffic: &'a TreeTraffic,
    /// The access link of each rank.
    pub(crate) members: Vec<AccessLink<'a>>,
    /// The links between its switches, by number.
    pub(crate) links: Vec<usize>,
}

/// The link of a host to a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessLink<'a> {
    /// The switch, by its place in the fleet.
    pub(crate) switch: usize,
    /// The host's name.
    pub(crate) host: Cow<'a, str>,
}

/// What is sent over a link towards the root of each tree, a second. From the root come as many results as there are chunks.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    bytes: f64,
    packets: f64,
    /// Of the members whose retransmissions count.
    sent: f64,
    retransmitted: f64,
}

impl Load {
    fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.packets += more.packets;
        self.sent += more.sent;
        self.retransmitted += more.retransmitted;
    }

    /// What a member sends to its switch; `None` if it has reported nothing.
    fn of_member(tree: &TreeTraffic, rank: u16) -> Option<Self> {
        let recent = tree.recent(rank)?;
        let rate = |count: u64| tree.seconds().map_or(0.0, |seconds| count as f64 / seconds);
        let sent = rate(recent.packets_sent);
        let retransmitted = rate(recent.packets_retransmitted);
        Some(Self { bytes: rate(recent.bytes_sent), packets: sent, sent, retransmitted })
    }

    /// What a switch sends to its parent: one packet for each chunk, of which each member sends one and retransmissions. `None` if no
    /// member has reported anything.
    fn of_tree(tree: &TreeTraffic) -> Option<Self> {
        let sum = tree.sum()?;
        let rate = |count: u64| tree.seconds().map_or(0.0, |seconds| count as f64 / seconds);
        let (sent, retransmitted) = (rate(sum.recent.packets_sent), rate(sum.recent.packets_retransmitted));
        let of_one =
            (1.0 - ratio(sum.recent.packets_retransmitted, sum.recent.packets_sent)) / f64::from(sum.members);
        Some(Self {
            bytes: rate(sum.recent.bytes_sent) * of_one,
            packets: sent * of_one,
            sent,
            retransmitted,
        })
    }

    fn view(self) -> LinkTraffic {
        LinkTraffic {
            bytes_per_second: self.bytes.round() as u64,
            packets_per_second: self.packets.round() as u64,
            retransmission_ratio: if self.sent > 0.0 { self.retransmitted / self.sent } else { 0.0 },
        }
    }
}

/// Traffic of links, over the last seconds; `None` where no member has reported any.
pub(crate) struct LinkSums<'a> {
    /// The access links of all members, with the number of members.
    pub(crate) access: BTreeMap<AccessLink<'a>, (u32, Option<LinkTraffic>)>,
    /// The links between switches, by number.
    pub(crate) links: Vec<Option<LinkTraffic>>,
}

/// The traffic of all access links of these trees, and of `links` links between switches.
pub(crate) fn of_links<'a>(links: usize, trees: impl IntoIterator<Item = LinkedTree<'a>>) -> LinkSums<'a> {
    let mut access: BTreeMap<AccessLink<'a>, (u32, Option<Load>)> = BTreeMap::new();
    let mut between: Vec<Option<Load>> = vec![None; links];
    for LinkedTree { traffic, members, links } in trees {
        for (rank, link) in (0..).zip(members) {
            let (members, load) = access.entry(link).or_default();
            *members += 1;
            add(load, Load::of_member(traffic, rank));
        }
        let over = Load::of_tree(traffic);
        for link in links {
            if let Some(load) = between.get_mut(link) {
                add(load, over);
            }
        }
    }
    let view = |load: Option<Load>| load.map(Load::view);
    LinkSums {
        access: access.into_iter().map(|(link, (members, load))| (link, (members, view(load)))).collect(),
        links: between.into_iter().map(view).collect(),
    }
}

fn add(sum: &mut Option<Load>, more: Option<Load>) {
    if let Some(more) = more {
        sum.get_or_insert_default().add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_control::MemberCounters;
    use std::time::Duration;

    /// So many members, each of which sends 1,000 packets of 100 bytes a second, of which `retransmitted` are retransmissions.
    fn tree(members: u16, retransmitted: u64) -> TreeTraffic {
        let mut tree = TreeTraffic::default();
        for second in 0..4 {
            for rank in 0..members {
                let packets_sent = 1_000 * second;
                let counters = MemberCounters {
                    packets_sent,
                    bytes_sent: 100 * packets_sent,
                    packets_retransmitted: retransmitted * second,
                    ..MemberCounters::default()
                };
                tree.report(rank, counters);
            }
            tree.sample(Duration::from_secs(second));
        }
        tree
    }

    fn at(host: &str, switch: usize) -> AccessLink<'_> {
        AccessLink { host: host.into(), switch }
    }

    fn traffic(
        bytes_per_second: u64,
        packets_per_second: u64,
        retransmission_ratio: f64,
    ) -> Option<LinkTraffic> {
        Some(LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio })
    }

    #[test]
    fn an_access_link_carries_what_its_members_send() {
        let (first, second, silent) = (tree(3, 0), tree(1, 100), TreeTraffic::default());
        let sums = of_links(
            0,
            [
                LinkedTree {
                    traffic: &first,
                    members: vec![at("a", 0), at("a", 0), at("b", 0)],
                    links: Vec::new(),
                },
                // Another job on host b, and host a in another plane.
                LinkedTree { traffic: &second, members: vec![at("b", 0)], links: Vec::new() },
                LinkedTree { traffic: &silent, members: vec![at("a", 1)], links: Vec::new() },
            ],
        );
        let access: Vec<_> = sums.access.into_iter().collect();
        assert_eq!(
            access,
            [
                (at("a", 0), (2, traffic(200_000, 2_000, 0.0))),
                (at("b", 0), (2, traffic(200_000, 2_000, 0.05))),
                (at("a", 1), (1, None)),
            ]
        );
    }

    #[test]
    fn a_link_between_switches_carries_one_packet_for_each_chunk_of_its_trees() {
        let (clean, lossy) = (tree(4, 0), tree(2, 100));
        let over = |traffic, links| LinkedTree { traffic, members: Vec::new(), links };
        let none = TreeTraffic::default();
        let sums = of_links(4, [over(&clean, vec![0, 1]), over(&lossy, vec![1, 9]), over(&none, vec![2])]);
        // Of the second tree 900 chunks a second, whose 100 retransmissions are its members'.
        let both = traffic(190_000, 1_900, 200.0 / 6_000.0);
        assert_eq!(sums.links, [traffic(100_000, 1_000, 0.0), both, None, None]);
    }

    #[test]
    fn rates_are_zero_when_nothing_is_sent() {
        let mut idle = tree(1, 10);
        idle.pause();
        let sums = of_links(1, [LinkedTree { traffic: &idle, members: vec![at("a", 0)], links: vec![0] }]);
        assert_eq!(sums.links, [traffic(0, 0, 0.0)]);
        assert_eq!(sums.access[&at("a", 0)], (1, traffic(0, 0, 0.0)));
    }
}
