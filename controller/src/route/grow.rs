//! Grows the best tree under a given root.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use netfold_wire::CHILDREN_MAX;

use super::{ChosenTree, Cost, Edge, RouteError, Search, Unfit};
use crate::topology::{LinkId, Role, SwitchId};
use crate::tree::Shape;

/// What is compared between links, and between ways over a switch in between: links of siblings, the highest load of the
/// tree so far, what is added to the sum.
type Price = (usize, u128, u128);

/// Workers by the switch that they are at.
type Leaves = BTreeMap<SwitchId, usize>;

/// A tree that grows.
struct Growth {
    leaves: Leaves,
    switches: Vec<SwitchId>,
    /// For each switch but the root its parent's place and the link to it.
    above: Vec<Option<(usize, LinkId)>>,
    places: BTreeMap<SwitchId, usize>,
    children: Vec<usize>,
    price: Price,
}

impl Growth {
    fn new(root: SwitchId, leaves: Leaves) -> Self {
        Self {
            switches: vec![root],
            above: vec![None],
            places: BTreeMap::from([(root, 0)]),
            children: vec![leaves.get(&root).copied().unwrap_or(0)],
            price: (0, 0, 0),
            leaves,
        }
    }

    fn add(&mut self, switch: SwitchId, parent: usize, link: LinkId, price: Price) -> usize {
        let place = self.switches.len();
        self.switches.push(switch);
        self.above.push(Some((parent, link)));
        self.places.insert(switch, place);
        self.children.push(self.leaves.get(&switch).copied().unwrap_or(0));
        self.children[parent] += 1;
        self.price = plus(self.price, price);
        place
    }

    fn levels(&self) -> usize {
        let deeper = |above: &Option<(usize, LinkId)>| above.is_some_and(|(parent, _)| parent != 0);
        1 + usize::from(self.switches.len() > 1) + usize::from(self.above.iter().any(deeper))
    }
}

fn plus(one: Price, other: Price) -> Price {
    (one.0 + other.0, one.1.max(other.1), one.2.saturating_add(other.2))
}

/// A way from a leaf to the root: over which switch and which links.
struct Way {
    over: SwitchId,
    lower: LinkId,
    /// The link from the switch in between to the root, where the tree has it not yet.
    upper: Option<LinkId>,
    price: Price,
}

impl<'a> Search<'a> {
    /// Whether a switch may have switches below it.
    pub(super) fn may_fold_folds(&self, switch: SwitchId) -> bool {
        self.topology.switch(switch).role != Role::Leaf
            && !self.topology.is_aggregator(switch)
            && self.unfit(switch).is_none()
    }

    /// Whether a switch has room for that many children, and a parent.
    pub(super) fn check_children(
        &self,
        switch: SwitchId,
        children: usize,
        has_parent: bool,
    ) -> Result<(), RouteError> {
        if children > CHILDREN_MAX {
            return Err(RouteError::FanIn { switch: self.name(switch), children });
        }
        let state = self.state(switch);
        let above = usize::from(has_parent);
        let needs = [
            ("ports", state.ports_free, children + above),
            ("multicast groups", state.groups_free, 1 + above),
        ];
        match needs.into_iter().find(|(_, free, need)| free < need) {
            None => Ok(()),
            Some((what, free, need)) => {
                let ranks = (0..self.planes.len()).filter(|rank| self.plane_at(*rank, switch).is_some());
                let ranks = ranks.map(|rank| rank as u16).collect();
                let why = Unfit::Short { what, free, need };
                Err(RouteError::Switch { switch: self.name(switch), why, ranks })
            }
        }
    }

    /// The best tree with this root, and what it costs.
    pub(super) fn grow(&self, root: SwitchId) -> Result<(Cost<'a>, ChosenTree), RouteError> {
        let reach = self.reach(root);
        let workers = self.seats(root, &reach)?;
        let mut leaves = Leaves::new();
        for (leaf, _) in &workers {
            *leaves.entry(*leaf).or_default() += 1;
        }
        if self.level() && leaves.len() > 1 && leaves.contains_key(&root) {
            return Err(RouteError::Depth { root: self.name(root) });
        }
        let below: Vec<SwitchId> = leaves.keys().copied().filter(|leaf| *leaf != root).collect();
        let next = |leaf: &SwitchId| reach[leaf.index()] == Reach::Next;
        let all_next = below.iter().all(next);
        let mut growth = Growth::new(root, leaves);
        let mut far = Vec::new();
        for leaf in below {
            if next(&leaf) && (all_next || !self.level()) {
                let (link, price) = self.best_link(leaf, root).ok_or_else(|| self.no_root())?;
                growth.add(leaf, 0, link, price);
            } else {
                far.push((self.ways(&growth, root, leaf, true).len(), leaf));
            }
        }
        // Those with the least choice first.
        far.sort_unstable();
        for (ways, leaf) in far {
            if ways == 0 {
                return Err(RouteError::Depth { root: self.name(root) });
            }
            self.connect(&mut growth, root, leaf)?;
        }
        for (place, switch) in growth.switches.iter().enumerate() {
            self.check_children(*switch, growth.children[place], place != 0)?;
        }
        let cost = Cost {
            root_shared: self.roots.contains(&root),
            links_shared: growth.price.0,
            off_plane: (0..workers.len()).filter(|rank| workers[*rank].1 != self.planes[*rank][0]).count(),
            levels: growth.levels(),
            load_max: growth.price.1,
            load_sum: growth.price.2,
            slots_free: Reverse(self.state(root).slots_free),
            name: &self.topology.switch(root).name,
        };
        Ok((cost, chosen(&growth, &workers)))
    }

    /// Where each worker hangs under this root: its switch, and the plane that is in.
    fn seats(&self, root: SwitchId, reach: &[Reach]) -> Result<Vec<(SwitchId, usize)>, RouteError> {
        let mut seats = Vec::with_capacity(self.planes.len());
        let mut missing = Vec::new();
        for (rank, planes) in self.planes.iter().enumerate() {
            let at = planes.iter().map(|plane| (self.leaf(rank, *plane), *plane));
            match at.into_iter().find(|(leaf, _)| reach[leaf.index()] != Reach::Not) {
                Some(seat) => seats.push(seat),
                None => missing.push(rank as u16),
            }
        }
        if missing.is_empty() {
            Ok(seats)
        } else {
            Err(RouteError::Path { root: Some(self.name(root)), ranks: missing })
        }
    }

    /// How each switch is reached from a root: links are up, and switches in between fit.
    fn reach(&self, root: SwitchId) -> Vec<Reach> {
        let mut reach = vec![Reach::Not; self.topology.switches().len()];
        reach[root.index()] = Reach::Root;
        let up = |(link, _): &&(LinkId, SwitchId)| self.network.links[link.index()].up;
        for (_, next) in self.topology.neighbours(root).iter().filter(up) {
            reach[next.index()] = Reach::Next;
        }
        for (_, middle) in self.topology.neighbours(root).iter().filter(up) {
            if self.may_fold_folds(*middle) {
                for (_, far) in self.topology.neighbours(*middle).iter().filter(up) {
                    let reach = &mut reach[far.index()];
                    if *reach == Reach::Not {
                        *reach = Reach::Far;
                    }
                }
            }
        }
        reach
    }

    /// The best link between two switches that is up, with what it costs.
    fn best_link(&self, from: SwitchId, to: SwitchId) -> Option<(LinkId, Price)> {
        let up = self.topology.links_between(from, to).filter(|link| self.network.links[link.index()].up);
        let priced = up.map(|link| {
            let load = self.network.relative(self.topology, link, self.request.load);
            ((usize::from(self.links.contains(&link)), load, load), link)
        });
        priced.min().map(|(price, link)| (link, price))
    }

    /// Connects a switch that workers are at to the root, over one in between.
    fn connect(&self, growth: &mut Growth, root: SwitchId, leaf: SwitchId) -> Result<(), RouteError> {
        // It may be there already, in between for another.
        if growth.places.contains_key(&leaf) {
            return Ok(());
        }
        let best = self.ways(growth, root, leaf, false).into_iter().min_by_key(|way| {
            let slots_free = Reverse(self.state(way.over).slots_free);
            (plus(growth.price, way.price), slots_free, &self.topology.switch(way.over).name)
        });
        let Some(way) = best else {
            // There were ways while the tree was empty: the root, or all switches in between, have become full.
            let full = if self.has_room(growth, 0) { growth.switches.len() - 1 } else { 0 };
            let parent = growth.above[full].map_or(0, |(parent, _)| parent);
            let children = growth.children[parent] + 1;
            self.check_children(growth.switches[parent], children, parent != 0)?;
            return Err(RouteError::FanIn { switch: self.name(growth.switches[parent]), children });
        };
        let over = match (growth.places.get(&way.over), way.upper) {
            (Some(place), _) => *place,
            (None, Some(upper)) => growth.add(way.over, 0, upper, (0, 0, 0)),
            (None, None) => return Err(self.no_root()),
        };
        growth.add(leaf, over, way.lower, way.price);
        Ok(())
    }

    /// The ways from a switch to the root over one in between that has room for one child more.
    fn ways(&self, growth: &Growth, root: SwitchId, leaf: SwitchId, all: bool) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        for (_, over) in self.topology.neighbours(leaf) {
            // One that workers are at would hold them at another depth than the rest.
            let uneven = self.level() && growth.leaves.contains_key(over);
            let known = ways.iter().any(|way| way.over == *over);
            if *over == root || known || uneven || !self.may_fold_folds(*over) {
                continue;
            }
            let Some((lower, price)) = self.best_link(leaf, *over) else { continue };
            let way = match growth.places.get(over) {
                Some(place)
                    if self.has_room(growth, *place)
                        && growth.above[*place].is_some_and(|(parent, _)| parent == 0) =>
                {
                    Way { over: *over, lower, upper: None, price }
                }
                Some(_) => continue,
                None if all || self.has_room(growth, 0) => match self.best_link(*over, root) {
                    Some((upper, more)) => {
                        Way { over: *over, lower, upper: Some(upper), price: plus(price, more) }
                    }
                    None => continue,
                },
                None => continue,
            };
            ways.push(way);
        }
        ways
    }

    fn has_room(&self, growth: &Growth, place: usize) -> bool {
        let above = usize::from(place != 0);
        let room = self.state(growth.switches[place]).ports_free.saturating_sub(above);
        growth.children[place] < room.min(CHILDREN_MAX)
    }
}

/// How a switch is reached from a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Not,
    Root,
    Next,
    Far,
}

fn chosen(growth: &Growth, workers: &[(SwitchId, usize)]) -> ChosenTree {
    let edge = |(child, above): (usize, &Option<(usize, LinkId)>)| {
        above.map(|(parent, link)| Edge { child, parent, link })
    };
    ChosenTree {
        switches: growth.switches.clone(),
        shape: Shape {
            above: growth.above.iter().map(|above| above.map(|(parent, _)| parent)).collect(),
            workers: workers.iter().map(|(leaf, _)| growth.places[leaf]).collect(),
        },
        edges: growth.above.iter().enumerate().filter_map(edge).collect(),
        planes: workers.iter().map(|(_, plane)| *plane).collect(),
    }
}
