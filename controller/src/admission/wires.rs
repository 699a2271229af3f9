//! The links that trees use, numbered when a tree gets its place and not whenever jobs are compared.

use crate::fleet::{Fleet, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A link that jobs may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wire {
    /// Between a host and a switch.
    Host(usize, IpAddr),
    /// Between two switches, by its number in the fleet.
    Switches(usize),
}

/// A link that trees use.
#[derive(Debug, Clone, Copy)]
struct Used {
    wire: Wire,
    rate_bps: u64,
    /// Trees that use it; its number is free if there are none.
    trees: u32,
}

/// The links of trees that have a place, each with a number as long as a tree uses it.
#[derive(Debug, Default)]
pub(super) struct Wires {
    numbers: BTreeMap<Wire, usize>,
    /// By number.
    used: Vec<Used>,
    free: Vec<usize>,
}

impl Wires {
    /// The links of a tree, each once, for [`ActiveTree::wires`](crate::jobs::ActiveTree::wires); `link_bps` is the rate of those that have none.
    pub(super) fn take(&mut self, placement: &Placement, fleet: &Fleet, link_bps: u64) -> Box<[usize]> {
        let hosts = placement.members.iter().zip(&placement.shape().workers);
        let hosts = hosts.map(|(member, at)| (Wire::Host(placement.switches[*at], member.ip()), link_bps));
        let switches = placement.chosen.edges.iter().map(|edge| {
            let link = edge.link.index();
            (Wire::Switches(link), fleet.link_rate(link).unwrap_or(link_bps))
        });
        self.hold(hosts.chain(switches))
    }

    /// The numbers of these links, each once, until they are released.
    fn hold(&mut self, links: impl Iterator<Item = (Wire, u64)>) -> Box<[usize]> {
        let mut numbers: Vec<usize> = links.map(|(wire, rate_bps)| self.number(wire, rate_bps)).collect();
        // A host may have several workers, whose contributions it sums itself or sends one after the other.
        let mut met = BTreeSet::new();
        numbers.retain(|number| met.insert(*number));
        numbers.iter().for_each(|number| self.used[*number].trees += 1);
        numbers.into()
    }

    /// The number of a link, which no tree need use yet.
    fn number(&mut self, wire: Wire, rate_bps: u64) -> usize {
        if let Some(number) = self.numbers.get(&wire) {
            return *number;
        }
        let used = Used { wire, rate_bps, trees: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.used[number] = used;
                number
            }
            None => {
                self.used.push(used);
                self.used.len() - 1
            }
        };
        self.numbers.insert(wire, number);
        number
    }

    /// A tree that has taken these does not use them any more.
    pub(super) fn release(&mut self, numbers: &[usize]) {
        for number in numbers {
            let used = &mut self.used[*number];
            used.trees -= 1;
            if used.trees == 0 {
                self.numbers.remove(&used.wire);
                self.free.push(*number);
            }
        }
    }

    /// Numbers for some trees, without gaps.
    pub(super) fn dense(&self) -> DenseWires<'_> {
        DenseWires { wires: self, dense: vec![None; self.used.len()], rates_bps: Vec::new() }
    }
}

/// Links numbered without gaps, as they are met: the numbers do not depend on what has run before.
pub(super) struct DenseWires<'a> {
    wires: &'a Wires,
    dense: Vec<Option<usize>>,
    /// By number, in bits a second.
    pub(super) rates_bps: Vec<u64>,
}

impl DenseWires<'_> {
    /// The links of a tree, in ascending order.
    pub(super) fn of(&mut self, numbers: &[usize]) -> Vec<usize> {
        let dense = numbers.iter().map(|number| {
            *self.dense[*number].get_or_insert_with(|| {
                self.rates_bps.push(self.wires.used[*number].rate_bps);
                self.rates_bps.len() - 1
            })
        });
        let mut dense: Vec<usize> = dense.collect();
        dense.sort_unstable();
        dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a tree was given, and its links.
    type HeldTree = (Box<[usize]>, Vec<(Wire, u64)>);

    /// Links of a tree, of which host links have even numbers.
    fn links(numbers: &[u8]) -> Vec<(Wire, u64)> {
        let link = |number: &u8| match number % 2 {
            0 => (Wire::Host(usize::from(number / 16), [10, 0, 0, *number].into()), 100),
            _ => (Wire::Switches(usize::from(*number)), 1000 + u64::from(*number)),
        };
        numbers.iter().map(link).collect()
    }

    /// The numbers that trees get if they are numbered as they are met, and the rates.
    fn as_met(trees: &[Vec<(Wire, u64)>]) -> (Vec<Vec<usize>>, Vec<u64>) {
        let (mut met, mut rates_bps): (Vec<Wire>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut number = |(wire, rate_bps): &(Wire, u64)| {
            met.iter().position(|other| other == wire).unwrap_or_else(|| {
                met.push(*wire);
                rates_bps.push(*rate_bps);
                met.len() - 1
            })
        };
        let sorted = |tree: &Vec<(Wire, u64)>| tree.iter().map(&mut number).collect::<BTreeSet<_>>();
        let sorted: Vec<BTreeSet<usize>> = trees.iter().map(sorted).collect();
        (sorted.into_iter().map(|tree| tree.into_iter().collect()).collect(), rates_bps)
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_trees_as_they_are_met(
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u8..24, 0..6)), 1..40),
        ) {
            let mut wires = Wires::default();
            let mut trees: Vec<HeldTree> = Vec::new();
            let mut most = 0;
            for (ends, numbers) in steps {
                if ends && !trees.is_empty() {
                    let (held, _) = trees.remove(numbers.len() % trees.len());
                    wires.release(&held);
                } else {
                    let of_tree = links(&numbers);
                    trees.push((wires.hold(of_tree.iter().copied()), of_tree));
                }
                let in_use: BTreeSet<Wire> = trees.iter().flat_map(|(_, of)| of).map(|(wire, _)| *wire).collect();
                most = most.max(in_use.len());
                prop_assert_eq!(wires.numbers.len(), in_use.len());
                prop_assert!(wires.used.len() <= most, "numbers that are free are used again");
                let mut dense = wires.dense();
                let given: Vec<Vec<usize>> = trees.iter().map(|(held, _)| dense.of(held)).collect();
                let all: Vec<Vec<(Wire, u64)>> = trees.iter().map(|(_, of)| of.clone()).collect();
                prop_assert_eq!((given, dense.rates_bps), as_met(&all));
            }
            trees.iter().for_each(|(held, _)| wires.release(held));
            prop_assert!(wires.numbers.is_empty() && wires.free.len() == wires.used.len());
        }
    }
}
