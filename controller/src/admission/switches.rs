//! Loss and return of switches, and the jobs that lose their places with them.

use super::Coordinator;
use crate::jobs::{EndReason, JobEvent, TreePhase};
use crate::message::Refused;
use crate::switch_status::SwitchUp;
use crate::timers::Timer;
use netfold_control::Refusal;
use std::time::Duration;

impl Coordinator {
    /// A switch can be used.
    pub fn switch_up(&mut self, now: Duration, switch: usize, up: SwitchUp) {
        self.tick(now);
        self.fleet.set_down(switch, None);
        let SwitchUp { fresh, data, boot } = up;
        if let Some(data) = data {
            self.fleet.set_data(switch, data);
        }
        if self.boots.insert(switch, boot.clone()).flatten() != boot {
            self.persist_switch(switch);
        }
        let name = self.fleet.info(switch).name.clone();
        if fresh {
            self.displace_all(switch, &format!("switch '{name}' has restarted"));
        }
        self.log(JobEvent::SwitchUp { switch: name, fresh });
        self.place_waiting(now);
    }

    /// A switch does not respond. Its jobs lose their place if that lasts.
    pub fn switch_down(&mut self, now: Duration, switch: usize, reason: String) {
        self.tick(now);
        if self.fleet.down(switch).is_none() {
            self.down_since.insert(switch, now);
            self.timers.arm(now + self.config.switch_timeout, Timer::Switch(switch));
            let name = self.fleet.info(switch).name.clone();
            self.log(JobEvent::SwitchDown { switch: name, reason: reason.clone() });
        }
        self.fleet.set_down(switch, Some(reason));
    }

    /// A switch's state was found to differ from the intended one and was corrected.
    pub fn switch_repaired(&mut self, now: Duration, switch: usize, message: String) {
        self.tick(now);
        let switch = self.fleet.info(switch).name.clone();
        self.log(JobEvent::SwitchRepaired { switch, message });
    }

    pub(super) fn check_switch(&mut self, switch: usize) {
        let Some(reason) = self.fleet.down(switch).map(str::to_owned) else { return };
        let since = self.down_since.get(&switch).copied().unwrap_or_default();
        let patience = if since.is_zero() { self.config.resume } else { self.config.switch_timeout };
        if self.now >= since + patience {
            let name = &self.fleet.info(switch).name;
            let message = format!("switch '{name}' is out of reach: {reason}");
            self.displace_all(switch, &message);
        }
    }

    /// Takes their place from all jobs at a switch.
    pub(super) fn displace_all(&mut self, switch: usize, message: &str) {
        let there = self.active.iter().filter(|(_, job)| job.placement.switches.contains(&switch));
        for job in there.map(|(job, _)| *job).collect::<Vec<_>>() {
            match self.active[&job].phase {
                TreePhase::Running => self.end(job, EndReason::Displaced { message: message.to_owned() }),
                TreePhase::Installing | TreePhase::Validating { .. } => {
                    let message = format!("{message}: join again");
                    self.abandon(job, Refused::new(Refusal::Unavailable, message));
                }
                TreePhase::Cancelled | TreePhase::Closing { .. } => {}
            }
        }
    }
}
