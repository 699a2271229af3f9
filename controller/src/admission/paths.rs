//! Which UDP ports members use: where the fabric's hash is known, those that spread exactly over its equal paths.

use super::{Coordinator, SessionId, Stage};
use crate::jobs::ActiveTree;
use crate::record::JobName;
use crate::route::hash::{PathSet, Way, exact_ports};
use crate::traffic::AVOIDED_MAX;
use crate::view::PathsView;
use netfold_control::{PathPolicy, PathReport, PortSet, SessionEvent};
use std::net::SocketAddr;

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

    /// The ports that a member is to use; `None` where the hash is not known.
    fn ports_of(&self, active: &ActiveTree, rank: u16) -> Option<PortSet> {
        let ways = self.ways_of(active, rank)?;
        let all = PathSet::first(self.config.equal_paths?.paths);
        Some(exact_ports(&ways, all).unwrap_or(PortSet::first(active.spec.udp_ports)))
    }

    /// The equal paths of each of a member's ports.
    fn ways_of(&self, active: &ActiveTree, rank: u16) -> Option<Vec<Way>> {
        let paths = self.config.equal_paths.filter(|_| active.spec.udp_ports > 1)?;
        let member = *active.placement.members.get(usize::from(rank))?;
        let (at, _) = *active.placement.plan.workers().get(usize::from(rank))?;
        let info = self.fleet.info(active.placement.switches[at]);
        let own = || Some(SocketAddr::new(self.config.own_address?, info.limits.udp_port));
        paths.ways(member, active.spec.udp_ports, info.data.or_else(own)?)
    }

    /// How many members of a tree use ports that spread exactly, as they report.
    fn exact_members(&self, active: &ActiveTree) -> usize {
        let Some(paths) = self.config.equal_paths else { return 0 };
        let is_exact = |(rank, used): &(u16, PortSet)| {
            let ways = self.ways_of(active, *rank);
            ways.and_then(|ways| exact_ports(&ways, PathSet::first(paths.paths))) == Some(*used)
        };
        active.paths.ordered().filter(is_exact).count()
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
