//! Snapshot of the control plane for display.

use super::rebalance::LinkLoad;
use super::{Coordinator, Named};
use crate::fleet::LinkInfo;
use crate::jobs::{ActiveTree, FormingTree, Presence, TreeName};
use crate::rebalance::Demand;
use crate::record::{JobName, JobRecord, JobSpec, JobState};
use crate::traffic::{self, AccessLink, LinkedTree, TreeTraffic};
use crate::view::SnapshotScope;
use crate::view::{
    AccessView, Finding, GroupView, JobView, LINK_JOBS_MAX, LinkJobView, LinkTraffic, LinkView, MemberView,
    PlaceView, RangeView, Snapshot, SwitchView, TenantView, TrafficView, TreeView,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// What a view of a link is made of.
type LinkParts<'a> = (((&'a LinkInfo, u64), Option<LinkTraffic>), LinkLoad);

impl Coordinator {
    /// Snapshot of tenants, jobs, switches and links.
    pub fn snapshot(&self, scope: SnapshotScope) -> Snapshot {
        let mut names: BTreeSet<&JobName> = self.names.keys().map(|tree| &tree.name).collect();
        names.extend(self.membership_numbers.keys());
        if scope == SnapshotScope::All {
            names.extend(self.jobs.keys());
        }
        let sums =
            traffic::of_links(self.fleet.links().count(), self.active.values().map(|job| self.linked(job)));
        Snapshot {
            taken_ms: self.config.unix_s * 1000 + self.now.as_millis() as u64,
            tenants: self.tenants.keys().filter_map(|name| self.view_tenant(name)).collect(),
            jobs: names.into_iter().filter_map(|name| self.view_job(name)).collect(),
            switches: (0..self.fleet.len()).map(|switch| self.view_switch(switch)).collect(),
            links: self.view_links(sums.links),
            access: self.view_access(sums.access),
            sessions: self.sessions.len() as u32,
            epoch_next: self.fleet.epoch_next(),
            stall_reports: self.stall_reports,
        }
    }

    fn view_tenant(&self, name: &str) -> Option<TenantView> {
        let record = self.tenants.get(name)?;
        Some(TenantView {
            name: name.to_owned(),
            quota: record.quota,
            used: self.used(name),
            weight: record.weight,
            priority: record.priority,
            token: record.token.is_some(),
        })
    }

    /// One job, if it forms, runs or is remembered.
    pub fn view_job(&self, name: &JobName) -> Option<JobView> {
        let trees = self.view_trees(name, "");
        let groups = self.view_groups(name);
        let record = self.jobs.get(name);
        let known = record.map(|record| record.spec).or(groups.first().map(|group| group.spec));
        let spec = self.spec_of(name, "").or(known)?;
        let state = match record.map(|record| record.state) {
            _ if self.trees_with_groups(name).any(|(_, named)| self.is_running(named)) => JobState::Running,
            _ if !trees.is_empty() || !groups.is_empty() || self.membership_of(name).is_some() => {
                JobState::Forming
            }
            state => state.unwrap_or(JobState::Ended),
        };
        let epoch = trees.iter().filter_map(|tree| tree.epoch).max();
        let band = self.trees_with_groups(name).find_map(|(_, named)| match named {
            Named::Active(job) => self.active[&job].band,
            Named::Forming(_) => None,
        });
        let traffic = self.traffic_of(name, "");
        let findings = self.findings_of(name, "");
        let known = |get: fn(&JobRecord) -> u64| record.map_or(0, get);
        Some(JobView {
            name: name.clone(),
            spec,
            declared: record.is_some_and(|record| record.declared),
            state,
            epoch: epoch.unwrap_or(known(|record| record.epoch.into()) as u32),
            changed_s: known(|record| record.changed_s),
            last: record.and_then(|record| record.last.clone()),
            band,
            traffic,
            findings,
            stalls: self.stalls_view(name),
            pattern: self.pattern_view(name),
            paths: self.paths_view(name),
            schedule: self.schedule_of(name),
            placement: self.placement_of(name),
            membership: self.view_membership(name),
            trees,
            groups,
        })
    }

    fn view_groups(&self, name: &JobName) -> Vec<GroupView> {
        let groups = self.trees_with_groups(name).filter(|(tree, _)| !tree.group.is_empty());
        let names: BTreeSet<&str> = groups.map(|(tree, _)| tree.group.as_str()).collect();
        let view = |group: &str| {
            let trees = self.view_trees(name, group);
            let running = self.trees_of(name, group).any(|(_, named)| self.is_running(named));
            Some(GroupView {
                group: group.to_owned(),
                spec: self.spec_of(name, group)?,
                state: if running { JobState::Running } else { JobState::Forming },
                epoch: trees.iter().filter_map(|tree| tree.epoch).max().unwrap_or(0),
                traffic: self.traffic_of(name, group),
                findings: self.findings_of(name, group),
                trees,
            })
        };
        names.into_iter().filter_map(view).collect()
    }

    fn view_trees(&self, name: &JobName, group: &str) -> Vec<TreeView> {
        self.trees_of(name, group).map(|(_, named)| self.view_tree(named)).collect()
    }

    /// What the workers of a job or group that forms or runs have agreed on.
    fn spec_of(&self, name: &JobName, group: &str) -> Option<JobSpec> {
        self.trees_of(name, group).next().map(|(_, named)| match named {
            Named::Forming(formation) => self.forming[&formation].spec,
            Named::Active(job) => self.active[&job].spec,
        })
    }

    fn traffic_of(&self, name: &JobName, group: &str) -> Option<TrafficView> {
        traffic::of_job(self.tree_traffic(name, group))
    }

    fn findings_of(&self, name: &JobName, group: &str) -> Vec<Finding> {
        traffic::findings_of_job(self.tree_traffic(name, group))
    }

    fn tree_traffic(&self, name: &JobName, group: &str) -> impl Iterator<Item = &TreeTraffic> {
        self.trees_of(name, group).filter_map(|(_, named)| match named {
            Named::Active(job) => Some(&self.active[&job].traffic),
            Named::Forming(_) => None,
        })
    }

    /// Whether a tree of a job has begun.
    fn is_running(&self, named: Named) -> bool {
        match named {
            Named::Forming(_) => false,
            Named::Active(job) => !self.active[&job].phase.is_starting(),
        }
    }

    fn view_tree(&self, named: Named) -> TreeView {
        match named {
            Named::Forming(formation) => self.view_forming(&self.forming[&formation]),
            Named::Active(job) => self.view_active(&self.active[&job]),
        }
    }

    fn view_forming(&self, job: &FormingTree) -> TreeView {
        let member = |(rank, id): (&u16, &super::SessionId)| {
            let endpoint = self.sessions.get(id)?.endpoint?;
            Some(MemberView { rank: *rank, endpoint, switch: None, state: "here", counters: None })
        };
        TreeView {
            tree: job.name.tree,
            phase: "forming",
            number: None,
            epoch: None,
            slots: None,
            places: Vec::new(),
            spilled: None,
            sharing: None,
            members: job.members.iter().filter_map(member).collect(),
        }
    }

    fn view_active(&self, job: &ActiveTree) -> TreeView {
        let placement = &job.placement;
        let name = |at: usize| self.fleet.info(placement.switches[at]).name.clone();
        let place = |&at: &usize| PlaceView {
            switch: name(at),
            parent: placement.shape().above[at].map(name),
            first_slot: placement.sites[at].first_slot,
            slots: placement.job().slots,
            shared: placement.sites[at].shared.is_some(),
            workers: placement.shape().workers.iter().filter(|leaf| **leaf == at).count() as u16,
        };
        let member = |(rank, endpoint): (usize, &std::net::SocketAddr)| MemberView {
            rank: rank as u16,
            endpoint: *endpoint,
            switch: Some(name(placement.shape().workers[rank])),
            state: match job.members.get(&(rank as u16)) {
                Some(Presence::Here(_)) => "here",
                Some(Presence::Away(_)) => "away",
                None => "left",
            },
            counters: job.traffic.member(rank as u16),
        };
        TreeView {
            tree: job.name.tree,
            phase: job.phase.name(),
            number: Some(placement.job().job),
            epoch: Some(placement.job().epoch),
            slots: Some(placement.job().slots),
            places: placement.plan.order().iter().map(place).collect(),
            spilled: job.spilled.iter().flatten().map(|at| at.counted).reduce(|all, at| all + at),
            sharing: placement.sharing.as_ref().map(ToString::to_string),
            members: placement.members.iter().enumerate().map(member).collect(),
        }
    }

    /// What the packets of a tree pass.
    fn linked<'a>(&'a self, job: &'a ActiveTree) -> LinkedTree<'a> {
        let ActiveTree { placement, traffic, .. } = job;
        let access = |(leaf, endpoint): (&usize, &SocketAddr)| AccessLink {
            host: match self.fleet.host_name(endpoint.ip()) {
                Some(name) => name.into(),
                None => endpoint.ip().to_string().into(),
            },
            switch: placement.switches[*leaf],
        };
        LinkedTree {
            traffic,
            members: placement.shape().workers.iter().zip(&placement.members).map(access).collect(),
            links: placement.chosen.edges.iter().map(|edge| edge.link.index()).collect(),
        }
    }

    fn view_links(&self, traffic: Vec<Option<LinkTraffic>>) -> Vec<LinkView> {
        let mut jobs = self.view_link_jobs();
        let view = |(number, (((link, trees), traffic), load)): (usize, LinkParts<'_>)| LinkView {
            a: self.fleet.info(link.a).name.clone(),
            b: self.fleet.info(link.b).name.clone(),
            rate: link.rate,
            up: self.fleet.down(link.a).is_none() && self.fleet.down(link.b).is_none(),
            drained: self.fleet.is_link_drained(number),
            trees: u32::try_from(trees).unwrap_or(u32::MAX),
            demand: load.demand,
            demand_measured: load.measured,
            jobs: jobs.remove(&number).unwrap_or_default(),
            traffic,
        };
        self.fleet.links().zip(traffic).zip(self.link_loads()).enumerate().map(view).collect()
    }

    /// Trees over each link that carries any.
    fn view_link_jobs(&self) -> BTreeMap<usize, Vec<LinkJobView>> {
        let mut trees: BTreeMap<usize, Vec<(bool, Demand, u16)>> = BTreeMap::new();
        for (number, job) in self.active.iter().filter(|(_, job)| !job.is_over()) {
            let demand = self.demand_of(job);
            let stays = self.tree_moves.staying.contains_key(number);
            for edge in &job.placement.chosen.edges {
                trees.entry(edge.link.index()).or_default().push((stays, demand, *number));
            }
        }
        let view = |(_, demand, number): (bool, Demand, u16)| {
            let TreeName { name, group, tree } = &self.active[&number].name;
            LinkJobView {
                job: name.clone(),
                group: group.clone(),
                tree: *tree,
                demand: demand.bits_per_second,
                source: demand.source.name(),
                stays: self.tree_moves.staying.get(&number).cloned(),
            }
        };
        let most = |(link, mut trees): (usize, Vec<(bool, Demand, u16)>)| {
            trees.sort_by_key(|(stays, demand, number)| (!stays, Reverse(demand.bits_per_second), *number));
            (link, trees.into_iter().take(LINK_JOBS_MAX).map(view).collect())
        };
        trees.into_iter().map(most).collect()
    }

    fn view_access(&self, sums: BTreeMap<AccessLink<'_>, (u32, Option<LinkTraffic>)>) -> Vec<AccessView> {
        let view = |(link, (workers, traffic)): (AccessLink<'_>, (u32, Option<LinkTraffic>))| AccessView {
            host: link.host.into_owned(),
            switch: self.fleet.info(link.switch).name.clone(),
            workers,
            traffic,
        };
        sums.into_iter().map(view).collect()
    }

    fn view_switch(&self, switch: usize) -> SwitchView {
        let info = self.fleet.info(switch);
        let [(slots_used, slots), (ports_used, ports), (groups_used, groups)] = self.fleet.used(switch);
        let mut ranges = Vec::new();
        for job in self.active.values() {
            if let Some(at) = job.placement.switches.iter().position(|other| *other == switch) {
                ranges.push(RangeView {
                    first: job.placement.sites[at].first_slot,
                    slots: job.placement.job().slots,
                    job: job.name.name.clone(),
                    group: job.name.group.clone(),
                    tree: job.name.tree,
                });
            }
        }
        ranges.sort_by_key(|range| range.first);
        SwitchView {
            name: info.name.clone(),
            role: info.role.clone(),
            kind: info.kind.clone(),
            address: info.control.clone(),
            up: self.fleet.down(switch).is_none(),
            down_reason: self.fleet.down(switch).map(str::to_owned),
            drained: self.fleet.is_drained(switch),
            numerics: info.numerics,
            slots,
            slots_used,
            ports,
            ports_used,
            groups,
            groups_used,
            ranges,
            packets: Vec::new(),
        }
    }
}
