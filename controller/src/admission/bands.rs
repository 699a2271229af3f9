//! Which classes of packets jobs have, recomputed whenever a job begins or ends; members whose classes change are notified.

use super::{Coordinator, Named, SessionId};
use crate::bands::{Contender, Ranking};
use crate::jobs::{ActiveTree, JobEvent, TreePhase};
use crate::record::JobName;
use crate::schedule::Schedule;
use netfold_control::Band;
use netfold_control::SessionEvent;
use std::collections::BTreeMap;

impl Coordinator {
    /// Gives every job that runs its classes. Members whose classes change are notified if they have asked for it.
    pub(super) fn reband(&mut self) {
        let jobs = self.running_jobs();
        let (contenders, rates_bps) = self.contenders(&jobs);
        let bands = self.config.banding.of(&contenders, &rates_bps);
        let names = jobs.into_iter().map(|(name, _)| name.clone());
        let bands: BTreeMap<JobName, Option<Band>> = names.zip(bands).collect();
        let mut notified = Vec::new();
        let mut changed: BTreeMap<JobName, Band> = BTreeMap::new();
        for active in self.active.values_mut().filter(|active| active.phase == TreePhase::Running) {
            let band = bands.get(&active.name.name).copied().flatten();
            if std::mem::replace(&mut active.band, band) == band {
                continue;
            }
            let Some(band) = band else { continue };
            changed.insert(active.name.name.clone(), band);
            let sessions = active.members.values().filter_map(|presence| presence.session());
            notified.extend(sessions.map(|session| (session, band)));
        }
        for (session, band) in notified {
            if self.sessions.get(&session).is_some_and(|session| session.banded) {
                self.send(session, SessionEvent::Band(band));
            }
        }
        for (name, band) in changed {
            self.log(JobEvent::Banded { name, band });
        }
    }

    /// All jobs that run in the order of their names, each with its trees and those of its groups.
    pub(super) fn running_jobs(&self) -> Vec<(&JobName, Vec<&ActiveTree>)> {
        let mut jobs: Vec<(&JobName, Vec<&ActiveTree>)> = Vec::new();
        for (name, named) in &self.names {
            let Named::Active(number) = named else { continue };
            let tree = self.active.get(number).filter(|active| active.phase == TreePhase::Running);
            let Some(tree) = tree else { continue };
            match jobs.last_mut().filter(|(last, _)| **last == name.name) {
                Some((_, trees)) => trees.push(tree),
                None => jobs.push((&name.name, vec![tree])),
            }
        }
        jobs
    }

    /// What these jobs contend with, in their order: the links that their trees use, and the rates of these.
    pub(super) fn contenders(&self, jobs: &[(&JobName, Vec<&ActiveTree>)]) -> (Vec<Contender>, Vec<u64>) {
        let mut wires = self.wires.dense();
        let contender = |(name, trees): &(&JobName, Vec<&ActiveTree>)| {
            let iteration = trees.first().and_then(|tree| self.ranked_iteration(tree));
            let ranked = self.config.banding.ranking == Ranking::Crux && iteration.is_some();
            // Nothing else needs the links.
            let needed = ranked || self.config.schedule == Schedule::Cassini;
            let trees = trees.iter().filter(|_| needed).map(|tree| wires.of(&tree.wires));
            Contender {
                priority: self.tenants.get(&name.tenant).map_or(0, |tenant| tenant.priority),
                iteration,
                trees: trees.collect(),
            }
        };
        let contenders = jobs.iter().map(contender).collect();
        (contenders, wires.rates_bps)
    }

    /// A worker asks for its job's classes of packets, now and whenever they change.
    pub(super) fn send_band(&mut self, id: SessionId, job: u16) {
        let Some(active) = self.active.get(&job).filter(|active| active.phase == TreePhase::Running) else {
            return;
        };
        // A controller may have had bands before it was restarted, and have none now.
        let band = active.band.unwrap_or_default();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.banded = true;
            self.send(id, SessionEvent::Band(band));
        }
    }
}
