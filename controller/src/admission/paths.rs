//! Which UDP ports members use: where the fabric's hash is known, those that spread exactly over its equal paths, or those of the paths that a
//! schedule has chosen.

use super::{Coordinator, SessionId, Stage};
use crate::equal_paths::{PathSet, Way, exact_ports};
use crate::jobs::{ActiveTree, JobEvent};
use crate::record::JobName;
use crate::schedule::paths::{Fabric, Flow, Observed};
use crate::schedule::{Decision, Schedule};
use crate::traffic::{AVOIDED_MAX, TreePattern};
use crate::view::PathsView;
use netfold_control::{PathPolicy, PathReport, PortSet, SessionEvent};
use std::collections::BTreeMap;
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
        if active.paths.report(now, rank, active.spec.udp_ports, report)
            && let Some(used) = used
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
        let paths = self.config.equal_paths?;
        let member = *active.placement.members.get(usize::from(rank))?;
        if self.config.direct.iter().any(|prefix| prefix.contains(member.ip())) {
            return None;
        }
        let (at, _) = *active.placement.plan.workers().get(usize::from(rank))?;
        let info = self.fleet.info(active.placement.switches[at]);
        let own = || Some(SocketAddr::new(self.config.own_address?, info.limits.udp_port));
        paths.ways(member, active.spec.udp_ports, info.data.or_else(own)?)
    }

    /// How many members of a tree use ports that spread exactly, as they report.
    fn exact_members(&self, active: &ActiveTree) -> usize {
        let is_exact = |(rank, used): &(u16, PortSet)| {
            let ways = self.ways_of(active, *rank);
            ways.and_then(|ways| exact_ports(&ways, self.all_paths())) == Some(*used)
        };
        active.paths.ordered().filter(is_exact).count()
    }

    /// Chooses equal paths of jobs anew, and orders what has changed.
    pub(super) fn choose_paths(&mut self) {
        let Some(paths) = self.config.equal_paths else { return };
        let host_rate = self.config.banding.link_bps.max(8) as f64 / 8.0;
        let path_rate = paths.rate_bps.map_or(host_rate, |rate_bps| rate_bps.max(8) as f64 / 8.0);
        let fabric = Fabric { paths: paths.paths, path_rate, host_rate };
        // The names of jobs are borrowed from the rest.
        let mut chooser = std::mem::take(&mut self.path_chooser);
        let (observed, places) = self.observe_paths(paths.paths);
        let changes = chooser.decide(self.now, &observed, fabric).into_iter().filter_map(|change| {
            let job = observed.iter().position(|(name, _)| **name == change.job)?;
            let orders =
                places[job].iter().zip(change.orders).filter_map(|(place, path)| Some((*place, path?)));
            Some((change.job, PathOrders { paths: orders.collect(), chosen: true }))
        });
        let changes: Vec<(JobName, PathOrders)> = changes.collect();
        drop(observed);
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

    /// What is known of jobs that run, in the order of their names, and the tree and rank of each flow.
    fn observe_paths(&self, paths: u8) -> (Vec<(&JobName, Observed)>, Vec<Places>) {
        let mut ends: BTreeMap<(usize, Option<IpAddr>), usize> = BTreeMap::new();
        let (mut observed, mut places) = (Vec::new(), Vec::new());
        for (name, trees) in self.running_jobs() {
            let own: Vec<&ActiveTree> = trees.into_iter().filter(|tree| tree.name.group.is_empty()).collect();
            let Some(TreePattern { pattern, .. }) = self.pattern_of(own.iter().copied()) else { continue };
            let (mut flows, mut of_flows) = (Vec::new(), Vec::new());
            for tree in &own {
                for rank in tree.members.keys() {
                    let Some(ways) = self.ways_of(tree, *rank) else { continue };
                    let (at, _) = tree.placement.plan.workers()[usize::from(*rank)];
                    let switch = tree.placement.switches[at];
                    let host = tree.placement.members[usize::from(*rank)].ip();
                    let ends = [(switch, None), (switch, Some(host))].map(|end| {
                        let next = ends.len();
                        *ends.entry(end).or_insert(next)
                    });
                    flows.push(self.flow(tree, *rank, (&ways, paths), ends));
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

    /// What a member sends over equal paths.
    fn flow(&self, tree: &ActiveTree, rank: u16, (ways, paths): (&[Way], u8), ends: [usize; 2]) -> Flow {
        let used = exact_ports(ways, self.all_paths()).unwrap_or(PortSet::first(tree.spec.udp_ports));
        let mut shares = vec![0.0; usize::from(paths)];
        for (_, way) in (0..).zip(ways).filter(|(port, _)| used.contains(*port)) {
            for path in [way.up, way.down] {
                shares[usize::from(path)] += 0.5 / f64::from(used.count());
            }
        }
        let reports = tree.paths.ordered().any(|(reporting, _)| reporting == rank);
        let possible = self.all_paths().iter().filter(|path| reports && alone(ways, *path).is_some());
        let possible = PathSet(possible.fold(0, |set, path| set | PathSet::one(path).0));
        Flow { ends, shares, possible, ordered: self.ordered_path(tree, rank) }
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
