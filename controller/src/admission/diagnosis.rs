//! Conclusions about what slows jobs down, for people. They change no decision.

use super::Coordinator;
use crate::jobs::{JobEvent, TreeName, TreePhase};
use crate::traffic::Change;

impl Coordinator {
    /// Evaluates the newest samples of all jobs that run, and logs what begins or ends.
    pub(super) fn diagnose(&mut self) {
        let mut events = Vec::new();
        for active in self.active.values_mut().filter(|active| active.phase == TreePhase::Running) {
            let changes = active.traffic.diagnose(active.members.keys().copied());
            let TreeName { name, group, .. } = &active.name;
            events.extend(changes.into_iter().map(|change| {
                let (name, group) = (name.clone(), group.clone());
                match change {
                    Change::Begun(finding) => JobEvent::Slowed { name, group, finding },
                    Change::Over(finding) => JobEvent::Recovered { name, group, finding },
                }
            }));
        }
        events.into_iter().for_each(|event| self.log(event));
    }
}
