//! Contributions of best-effort jobs that found no slot.

use super::Coordinator;
use crate::executor::SwitchTask;
use crate::jobs::SpilledCount;
use crate::timers::Timer;
use std::sync::Arc;
use std::time::Duration;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// Has the spilled contributions of a job counted, if it shares slots and is not over.
    pub(super) fn count_spilled(&mut self, job: u16) {
        let Some(active) = self.active.get(&job).filter(|active| !active.is_over()) else { return };
        if !active.placement.plan.shares_slots() {
            return;
        }
        let placement = Arc::clone(&active.placement);
        self.task(SwitchTask::CountSpilled { placement });
    }

    /// A reading has been tried at each switch; the first one is what earlier jobs have spilled there. A smaller number than before is that of a switch
    /// which has started again since.
    pub(super) fn spilled_counted(&mut self, now: Duration, job: u16, spilled: &[Option<u64>]) {
        let Some(active) = self.active.get_mut(&job).filter(|active| !active.is_over()) else { return };
        active.spilled.resize(spilled.len(), None);
        for (counted, read) in active.spilled.iter_mut().zip(spilled) {
            let Some(read) = *read else { continue };
            let counted = counted.get_or_insert(SpilledCount { counted: 0, read });
            counted.counted += read.checked_sub(counted.read).unwrap_or(read);
            counted.read = read;
        }
        self.timers.arm(now + INTERVAL, Timer::Spilled(job));
    }
}
