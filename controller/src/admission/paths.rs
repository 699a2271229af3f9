//! Which UDP ports members use: where the fabric's hash is known, those that spread exactly over its equal paths, or those of the paths that a
//! schedule has chosen.

use super::{Coordinator, SessionId, Stage};
use crate::equal_paths::{PathSet, Way, exact_ports};
use crate::jobs::{ActiveTree, JobEvent};
use crate::record::JobName;
use crate::schedule::paths::{CHANGE_INTERVAL, Fabric, Flow, Observed};
use crate::schedule::{Decision, Schedule};
use crate::traffic::{AVOIDED_MAX, TreePattern};
use crate::view::PathsView;
use netfold_control::{PathPolicy, PathReport, PortSet, SessionEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The equal paths that members of a job are ordered to use.
#[derive(Debug, Default)]
pub(super) struct PathOrders {
    /// By tree and rank; others use all.
    paths: BTreeMap<(u8, u16), u8>,
    /// This controller has chosen them; otherwise they are those that it found.
    chosen: bool,
}

/// What follows from the ports of a member and the fabric's hash.
#[derive(Debug)]
pub(super) struct MemberPath {
    /// The member's first port and its switch's.
    ends: (SocketAddr, SocketAddr),
    udp_ports: u8,
    /// The part of its bytes that each path carries without an order.
    shares: Vec<f64>,
    /// Paths of which it has ports in both directions.
    possible: PathSet,
}

/// By job and rank.
pub(super) type MemberPaths = BTreeMap<(u16, u16), MemberPath>;

/// The tree and rank of each flow of a job.
type Places = Vec<(u8, u16)>;

impl Coordinator {
    /// A member reports how it uses its paths.
    pub(super) fn note_paths(&mut self, id: SessionId, stage: Stage, report: PathReport) {
        let Stage::Active { job, rank } = stage else { return };
        let now = self.now;
        let Some(active) = self.active.get_mut(&job) else { return };
        if !active.members.contains_key(&rank) {
            return;
        }
        let used = report.ordered;
        let is_new = self.sessions.get(&id).is_some_and(|session| session.ordered.is_none());
        if active.paths.report(now, rank, active.spec.udp_ports, report)
            && let Some(used) = used.filter(|_| is_new)
        {
            self.order_ports(id, (job, rank), used);
        }
    }

    /// Orders the ports that a member is to use, unless it uses them or was sent that order in this session.
    fn order_ports(&mut self, id: SessionId, (job, rank): (u16, u16), used: PortSet) {
        self.adopt(id, (job, rank), used);
        let Some(ports) = self.active.get(&job).and_then(|active| self.ports_of(active, rank)) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.ordered == Some(ports) {
            return;
        }
        session.ordered = Some(ports);
        if used != ports {
            self.send(id, SessionEvent::UsePorts { ports });
        }
    }

    /// Takes over the path that a member was ordered to use by a controller before this one.
    fn adopt(&mut self, id: SessionId, (job, rank): (u16, u16), used: PortSet) {
        let is_new = self.sessions.get(&id).is_some_and(|session| session.ordered.is_none());
        if self.config.schedule != Schedule::Crux || !is_new {
            return;
        }
        let Some(active) = self.active.get(&job).filter(|active| active.name.group.is_empty()) else {
            return;
        };
        let Some(ways) = self.ways_of(active, rank) else { return };
        let is_of = |path: &u8| alone(&ways, *path) == Some(used);
        if let Some(path) = self.all_paths().iter().find(is_of) {
            let place = (active.name.tree, rank);
            let orders = self.path_orders.entry(active.name.name.clone()).or_default();
            if !orders.chosen {
                orders.paths.insert(place, path);
            }
        }
    }

    fn all_paths(&self) -> PathSet {
        PathSet::first(self.config.equal_paths.map_or(0, |paths| paths.paths))
    }

    /// The path that a member is ordered to use alone.
    fn ordered_path(&self, active: &ActiveTree, rank: u16) -> Option<u8> {
        let of_job = self.path_orders.get(&active.name.name).filter(|_| active.name.group.is_empty())?;
        of_job.paths.get(&(active.name.tree, rank)).copied()
    }

    /// The ports that a member is to use; `None` where the hash is not known.
    fn ports_of(&self, active: &ActiveTree, rank: u16) -> Option<PortSet> {
        let ways = self.ways_of(active, rank)?;
        let ordered = self.ordered_path(active, rank).and_then(|path| alone(&ways, path));
        let exact = || exact_ports(&ways, self.all_paths());
        Some(ordered.or_else(exact).unwrap_or(PortSet::first(active.spec.udp_ports)))
    }

    /// The equal paths of each of a member's ports; `None` where they are not known, or the member's packets take none.
    fn ways_of(&self, active: &ActiveTree, rank: u16) -> Option<Vec<Way>> {
        let (member, switch) = self.equal_ends(active, rank)?;
        self.config.equal_paths?.ways(member, active.spec.udp_ports, switch)
    }

    /// The first port of a member and that of its switch, with equal paths in between.
    fn equal_ends(&self, active: &ActiveTree, rank: u16) -> Option<(SocketAddr, SocketAddr)> {
        self.config.equal_paths?;
        let member = *active.placement.members.get(usize::from(rank))?;
        if self.config.direct.iter().any(|prefix| prefix.contains(member.ip())) {
            return None;
        }
        let (at, _) = *active.placement.plan.workers().get(usize::from(rank))?;
        let info = self.fleet.info(active.placement.switches[at]);
        let own = || Some(SocketAddr::new(self.config.own_address?, info.limits.udp_port));
        Some((member, info.data.or_else(own)?))
    }

    /// How many members of a tree use ports that spread exactly, as they report.
    fn exact_members(&self, active: &ActiveTree) -> usize {
        let is_exact = |(rank, used): &(u16, PortSet)| {
            let ways = self.ways_of(active, *rank);
            ways.and_then(|ways| exact_ports(&ways, self.all_paths())) == Some(*used)
        };
        active.paths.ordered().filter(is_exact).count()
    }

    /// Chooses equal paths of jobs anew, if it is time to, and orders what has changed.
    pub(super) fn choose_paths(&mut self) {
        let Some(paths) = self.config.equal_paths.filter(|_| self.now >= self.next_path_choice) else {
            return;
        };
        self.next_path_choice = self.now + CHANGE_INTERVAL;
        let host_rate = self.config.banding.link_bps.max(8) as f64 / 8.0;
        let path_rate = paths.rate_bps.map_or(host_rate, |rate_bps| rate_bps.max(8) as f64 / 8.0);
        let fabric = Fabric { paths: paths.paths, path_rate, host_rate };
        // The names of jobs are borrowed from the rest.
        let mut chooser = std::mem::take(&mut self.path_chooser);
        let mut before = std::mem::take(&mut self.member_paths);
        let mut known = BTreeMap::new();
        let (observed, places) = self.observe_paths((&mut before, &mut known));
        let changes = chooser.decide(self.now, &observed, fabric).into_iter().filter_map(|change| {
            let job = observed.iter().position(|(name, _)| **name == change.job)?;
            let orders =
                places[job].iter().zip(change.orders).filter_map(|(place, path)| Some((*place, path?)));
            Some((change.job, PathOrders { paths: orders.collect(), chosen: true }))
        });
        let changes: Vec<(JobName, PathOrders)> = changes.collect();
        drop(observed);
        self.member_paths = known;
        let mut orders = std::mem::take(&mut self.path_orders);
        // A job whose workers join again keeps them.
        orders.retain(|name, _| self.trees_of(name, "").next().is_some());
        self.path_orders = orders;
        for (name, decision) in chooser.changes() {
            self.log(JobEvent::Scheduled { name: name.clone(), decision: Decision::Paths(decision) });
        }
        self.path_chooser = chooser;
        for (job, orders) in changes {
            self.path_orders.insert(job.clone(), orders);
            self.send_orders(&job);
        }
    }

    /// What is known of jobs that run, in the order of their names, and the tree and rank of each flow. Takes what does not change from `before` to `known`.
    fn observe_paths(
        &self,
        (before, known): (&mut MemberPaths, &mut MemberPaths),
    ) -> (Vec<(&JobName, Observed)>, Vec<Places>) {
        let mut ends: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let (mut observed, mut places) = (Vec::new(), Vec::new());
        for (name, trees) in self.running_jobs() {
            let own: Vec<&ActiveTree> = trees.into_iter().filter(|tree| tree.name.group.is_empty()).collect();
            let Some(TreePattern { pattern, .. }) = self.pattern_of(own.iter().copied()) else { continue };
            let (mut flows, mut of_flows) = (Vec::new(), Vec::new());
            for tree in &own {
                let reporting: BTreeSet<u16> = tree.paths.ordered().map(|(rank, _)| rank).collect();
                for rank in tree.members.keys() {
                    let key = (tree.placement.job().job, *rank);
                    let kept = before.remove(&key);
                    let Some(paths) = self.path_of(tree, *rank, kept) else { continue };
                    let ends = [paths.ends.1.ip(), paths.ends.0.ip()].map(|end| {
                        let next = ends.len();
                        *ends.entry(end).or_insert(next)
                    });
                    let possible = if reporting.contains(rank) { paths.possible } else { PathSet(0) };
                    let ordered = self.ordered_path(tree, *rank);
                    flows.push(Flow { ends, shares: paths.shares.clone(), possible, ordered });
                    known.insert(key, paths);
                    of_flows.push((tree.name.tree, *rank));
                }
            }
            let world = own.first().map_or(1, |tree| tree.spec.world);
            let compute = Duration::from_micros(pattern.compute_us);
            let seen = Observed {
                period: Duration::from_micros(pattern.period_us),
                span: Duration::from_micros(pattern.span_us),
                compute,
                bytes: pattern.bytes as f64 / own.len().max(1) as f64,
                work: compute.as_secs_f64() * f64::from(world),
                confidence: pattern.confidence(),
                flows,
            };
            observed.push((name, seen));
            places.push(of_flows);
        }
        (observed, places)
    }

    /// The equal paths of a member: those that were computed before, if its ends are the same.
    fn path_of(&self, tree: &ActiveTree, rank: u16, kept: Option<MemberPath>) -> Option<MemberPath> {
        let ends = self.equal_ends(tree, rank)?;
        let udp_ports = tree.spec.udp_ports;
        let is_same = |kept: &MemberPath| (kept.ends, kept.udp_ports) == (ends, udp_ports);
        if let Some(kept) = kept.filter(is_same) {
            return Some(kept);
        }
        let ways = self.ways_of(tree, rank)?;
        let used = exact_ports(&ways, self.all_paths()).unwrap_or(PortSet::first(udp_ports));
        let mut shares = vec![0.0; self.all_paths().iter().count()];
        for (_, way) in (0..).zip(&ways).filter(|(port, _)| used.contains(*port)) {
            for path in [way.up, way.down] {
                shares[usize::from(path)] += 0.5 / f64::from(used.count());
            }
        }
        let possible = self.all_paths().iter().filter(|path| alone(&ways, *path).is_some());
        let possible = PathSet(possible.fold(0, |set, path| set | PathSet::one(path).0));
        Some(MemberPath { ends, udp_ports, shares, possible })
    }

    /// Sends the members of a job what has changed for them.
    fn send_orders(&mut self, name: &JobName) {
        let mut members = Vec::new();
        for tree in self.running_trees(name) {
            for (rank, used) in tree.paths.ordered() {
                if let Some(session) = tree.members.get(&rank).and_then(|presence| presence.session()) {
                    members.push((session, (tree.placement.job().job, rank), used));
                }
            }
        }
        for (session, place, used) in members {
            self.order_ports(session, place, used);
        }
    }

    /// How the job's workers use their paths, not in its groups; once that is known.
    pub(super) fn paths_view(&self, name: &JobName) -> Option<PathsView> {
        let policy = self.config.multipath.map(|multipath| multipath.policy).unwrap_or_default();
        let mut view: Option<PathsView> = None;
        for tree in self.running_trees(name).filter(|tree| tree.spec.udp_ports > 1) {
            let (members, avoided) = tree.paths.avoided(self.now, tree.name.tree);
            let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
            let view = view.get_or_insert_with(|| PathsView {
                udp_ports: tree.spec.udp_ports,
                policy,
                members: 0,
                exact: 0,
                avoided_count: 0,
                avoided: Vec::new(),
            });
            view.members = view.members.max(count(members));
            view.exact = view.exact.max(count(self.exact_members(tree)));
            // Others send by some paths less for no reason, or until they are drawn again.
            if !matches!(policy, PathPolicy::Weighted | PathPolicy::Mixed) {
                continue;
            }
            view.avoided_count = view.avoided_count.saturating_add(count(avoided.len()));
            view.avoided.extend(avoided);
        }
        let mut view = view.filter(|view| view.members > 0)?;
        view.avoided.truncate(AVOIDED_MAX);
        Some(view)
    }
}

/// The ports of one path in both directions; at most as many as are used together.
fn alone(ways: &[Way], path: u8) -> Option<PortSet> {
    exact_ports(ways, PathSet::one(path))
}
