//! Carries out what admission decides on the switches, and remembers what they hold for whom.
//!
//! The order of the steps is the safety argument, and [`tree::install`](crate::tree::install) keeps it: a range is never advanced, nor
//! given to the next job, while an entry admits packets to it.
//!
//! A job's tasks are carried out one after the other, those of different jobs at the same time; each switch takes one call at a time. So
//! a switch that does not answer delays the jobs that use it, and no others. What a job gives back is given to another one only
//! after the outcome of its task, so no order between the tasks of two jobs is needed.
//!
//! Tenants share the time of switches and the threads of tasks: both are given to them in rotation, and no tenant holds all threads.

mod rotation;
mod turns;

use crate::driver::{DriverError, SlotState, SwitchDriver};
use crate::fleet::Placement;
use crate::flight_record::{SWITCHES_READ_MAX, SwitchReading, next_switches};
use crate::policy::{Supply, leaves_others};
use crate::tree::{Drivers, InstallError, Installed, prepare};
use netfold_control::PathToken;
use rotation::Rotation;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turns::Turns;

/// One piece of work on the switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchTask {
    /// Give a tree of a job its place, where its members are challenged to validate their addresses.
    Prepare {
        /// The place.
        placement: Arc<Placement>,
        /// Of each rank.
        tokens: Vec<PathToken>,
    },
    /// Admit the packets of a tree that was prepared.
    Install {
        /// Job number.
        job: u16,
    },
    /// Record that a tree is installed, and that these ranks are retired: the driver's starter tells the switches.
    Adopt {
        /// The place.
        placement: Arc<Placement>,
        /// First chunk number of the stream.
        first_chunk: u32,
        /// Ranks that have left gracefully.
        left: Vec<u16>,
    },
    /// Remove one member that has left a running job gracefully.
    Retire {
        /// Job number.
        job: u16,
        /// Rank of the member.
        rank: u16,
    },
    /// Take away all that a job holds. May be repeated.
    Withdraw {
        /// Job number.
        job: u16,
    },
    /// Read how many contributions of a tree were spilled, where it shares slots. Nothing changes.
    CountSpilled {
        /// The place.
        placement: Arc<Placement>,
    },
    /// Read some slots of a running tree that stalls, from the root down to where contributions are missing. Nothing changes.
    Inspect {
        /// The place.
        placement: Arc<Placement>,
        /// The class that stalls, and how many slots each class has.
        class: (u8, u32),
        /// First slot, counted from the job's first, and number of slots.
        range: (u32, u32),
        /// The oldest chunk that a rank reports as outstanding.
        chunk: Option<u32>,
    },
}

impl SwitchTask {
    /// Number of the job that it is for.
    pub fn job(&self) -> u16 {
        match self {
            Self::Prepare { placement, .. }
            | Self::CountSpilled { placement }
            | Self::Adopt { placement, .. }
            | Self::Inspect { placement, .. } => placement.job().job,
            Self::Install { job } | Self::Retire { job, .. } | Self::Withdraw { job } => *job,
        }
    }
}

/// How a [`SwitchTask`] went.
#[derive(Debug)]
pub enum TaskOutcome {
    /// The job's members may validate their addresses.
    Prepared {
        /// Job number.
        job: u16,
    },
    /// The job may start.
    Installed {
        /// Job number.
        job: u16,
        /// First chunk number of the stream: newer in serial order than all that the range has seen.
        first_chunk: u32,
    },
    /// The job cannot start.
    InstallFailed {
        /// Job number.
        job: u16,
        /// The switch where a step failed, by its place in the fleet.
        switch: usize,
        /// The step that failed.
        error: DriverError,
        /// Whether every step before it was undone. If not, a [`SwitchTask::Withdraw`] must follow.
        clean: bool,
    },
    /// A [`SwitchTask::Adopt`] was done.
    Adopted {
        /// Job number.
        job: u16,
    },
    /// A [`SwitchTask::Retire`] was tried; on an error the member's place is held until the job is withdrawn.
    Retired {
        /// Job number.
        job: u16,
        /// Rank of the member.
        rank: u16,
        /// How it went.
        result: Result<(), DriverError>,
    },
    /// A [`SwitchTask::Withdraw`] was tried; on an error it must be repeated.
    Withdrawn {
        /// Job number.
        job: u16,
        /// How it went: the first error of several.
        result: Result<(), DriverError>,
    },
    /// A [`SwitchTask::CountSpilled`] was tried.
    SpilledCounted {
        /// Job number.
        job: u16,
        /// At each switch where it shares slots, contributions by the group of the job's copies to the aggregator, since the switch has its
        /// program; `None` if that is not known.
        spilled: Vec<Option<u64>>,
    },
    /// A [`SwitchTask::Inspect`] was tried.
    Inspected {
        /// Job number.
        job: u16,
        /// What was read of each switch, or why it was not.
        readings: Vec<SwitchReading>,
    },
}

impl TaskOutcome {
    /// Number of the job that the task was for.
    pub fn job(&self) -> u16 {
        match self {
            Self::Prepared { job }
            | Self::Installed { job, .. }
            | Self::InstallFailed { job, .. }
            | Self::Adopted { job }
            | Self::Retired { job, .. }
            | Self::Withdrawn { job, .. }
            | Self::SpilledCounted { job, .. }
            | Self::Inspected { job, .. } => *job,
        }
    }
}

/// A task, and the tenant for whose job it is: empty where there are no tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantTask {
    /// The tenant's name.
    pub tenant: Arc<str>,
    /// What is to be done.
    pub task: SwitchTask,
}

impl TenantTask {
    /// Number of the job that it is for.
    pub fn job(&self) -> u16 {
        self.task.job()
    }
}

/// Tasks that wait or are under way: those of a job in order, one at a time; those of tenants in rotation.
#[derive(Debug, Default)]
pub struct TaskQueue {
    /// Tasks of each job that has one under way or ready, apart from that one.
    waiting: BTreeMap<u16, VecDeque<TenantTask>>,
    /// Tasks that may begin.
    ready: Rotation<SwitchTask>,
    /// How many of each tenant are under way; none is zero.
    under_way: BTreeMap<Arc<str>, u32>,
    /// Whose they are.
    tenants: BTreeMap<u16, Arc<str>>,
}

impl TaskQueue {
    /// Adds a task behind those of its job.
    pub fn push(&mut self, task: TenantTask) {
        match self.waiting.get_mut(&task.job()) {
            Some(waiting) => waiting.push_back(task),
            None => {
                self.waiting.insert(task.job(), VecDeque::new());
                self.ready.push(task.tenant, task.task);
            }
        }
    }

    /// The next task that may begin now, if at most `most` are under way with it. A tenant that would have more of them under way than others
    /// leaves a quarter to these: its tasks may all wait for a switch that does not answer.
    pub fn pop(&mut self, most: usize) -> Option<TenantTask> {
        let under_way = &self.under_way;
        let idle = self.ready.tenants().filter(|tenant| !under_way.contains_key(*tenant)).count();
        let tenants = (under_way.len() + idle) as u64;
        let (all, used) = (most as u32, under_way.values().sum());
        let may = |tenant: &str| {
            let held = under_way.get(tenant).copied().unwrap_or_default();
            used < all && leaves_others(Supply { all, used, held }, 1, (1, tenants))
        };
        let (tenant, task) = self.ready.pop(may)?;
        *self.under_way.entry(Arc::clone(&tenant)).or_default() += 1;
        self.tenants.insert(task.job(), Arc::clone(&tenant));
        Some(TenantTask { tenant, task })
    }

    /// A task of a job has ended.
    pub fn finish(&mut self, job: u16) {
        if let Some(tenant) = self.tenants.remove(&job)
            && let Some(count) = self.under_way.get_mut(&tenant)
        {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&tenant);
            }
        }
        let Some(waiting) = self.waiting.get_mut(&job) else { return };
        match waiting.pop_front() {
            Some(TenantTask { tenant, task }) => self.ready.push(tenant, task),
            None => drop(self.waiting.remove(&job)),
        }
    }
}

/// What the switches hold for one job: exactly what succeeded and was not undone.
struct Ledger {
    placement: Arc<Placement>,
    installed: Installed,
}

/// Runs [`SwitchTask`]s on the switches of a fleet, from any number of threads.
pub struct Executor {
    drivers: Vec<Driver>,
    /// Of jobs without a task under way.
    ledgers: Mutex<BTreeMap<u16, Ledger>>,
}

/// A driver, for one call at a time.
type Driver = Turns<Box<dyn SwitchDriver>>;

/// The drivers of a placement's switches.
struct Picked<'a> {
    drivers: &'a [Driver],
    switches: &'a [usize],
    /// For whom.
    tenant: &'a Arc<str>,
}

impl Drivers for Picked<'_> {
    fn with<R>(&mut self, switch: usize, call: impl FnOnce(&mut dyn SwitchDriver) -> R) -> R {
        self.drivers[self.switches[switch]].with(self.tenant, |driver| call(driver.as_mut()))
    }
}

impl Executor {
    /// An executor for switches, in the order of the fleet, that hold nothing of ours except what later [`SwitchTask::Adopt`]s name.
    pub fn new(drivers: Vec<Box<dyn SwitchDriver>>) -> Self {
        Self { drivers: drivers.into_iter().map(Turns::new).collect(), ledgers: Mutex::default() }
    }

    fn ledgers(&self) -> MutexGuard<'_, BTreeMap<u16, Ledger>> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn picked<'a>(&'a self, tenant: &'a Arc<str>, placement: &'a Placement) -> Picked<'a> {
        Picked { drivers: &self.drivers, switches: &placement.switches, tenant }
    }

    /// Carries out one task; blocks as long as the drivers do. No other task of the same job is under way.
    pub fn run(&self, TenantTask { tenant, task }: TenantTask) -> TaskOutcome {
        match task {
            SwitchTask::Prepare { placement, tokens } => self.prepare(&tenant, placement, &tokens),
            SwitchTask::Install { job } => self.install(&tenant, job),
            SwitchTask::Adopt { placement, first_chunk, left } => {
                let job = placement.job().job;
                let installed = Installed::assume(&placement.plan, first_chunk, &left);
                self.ledgers().insert(job, Ledger { placement, installed });
                TaskOutcome::Adopted { job }
            }
            SwitchTask::Retire { job, rank } => {
                TaskOutcome::Retired { job, rank, result: self.retire(&tenant, job, rank) }
            }
            SwitchTask::Withdraw { job } => {
                TaskOutcome::Withdrawn { job, result: self.withdraw(&tenant, job) }
            }
            SwitchTask::CountSpilled { placement } => {
                let job = placement.job().job;
                let read = |(at, group)| {
                    self.picked(&tenant, &placement).with(at, |driver| driver.spilled(group)).ok()
                };
                TaskOutcome::SpilledCounted { job, spilled: placement.plan.shared().map(read).collect() }
            }
            SwitchTask::Inspect { placement, class, range, chunk } => {
                let readings = self.inspect(&tenant, &placement, (class, range), chunk);
                TaskOutcome::Inspected { job: placement.job().job, readings }
            }
        }
    }

    fn prepare(&self, tenant: &Arc<str>, placement: Arc<Placement>, tokens: &[PathToken]) -> TaskOutcome {
        let job = placement.job().job;
        match prepare(&placement.plan, tokens, &mut self.picked(tenant, &placement)) {
            Ok(installed) => {
                self.ledgers().insert(job, Ledger { placement, installed });
                TaskOutcome::Prepared { job }
            }
            Err(error) => self.failed(placement, error),
        }
    }

    fn install(&self, tenant: &Arc<str>, job: u16) -> TaskOutcome {
        // Nothing is held for a job that was not prepared.
        let Some(Ledger { placement, installed }) = self.take(job) else {
            return TaskOutcome::Withdrawn { job, result: Ok(()) };
        };
        match installed.complete(&placement.plan, &mut self.picked(tenant, &placement)) {
            Ok(installed) => {
                let first_chunk = installed.first_chunk();
                self.ledgers().insert(job, Ledger { placement, installed });
                TaskOutcome::Installed { job, first_chunk }
            }
            Err(error) => self.failed(placement, error),
        }
    }

    fn failed(&self, placement: Arc<Placement>, error: InstallError) -> TaskOutcome {
        let job = placement.job().job;
        let switch = placement.switches[error.switch];
        let clean = error.left.is_none();
        if let Some(installed) = error.left {
            self.ledgers().insert(job, Ledger { placement, installed });
        }
        TaskOutcome::InstallFailed { job, switch, error: error.source, clean }
    }

    fn take(&self, job: u16) -> Option<Ledger> {
        self.ledgers().remove(&job)
    }

    fn retire(&self, tenant: &Arc<str>, job: u16, rank: u16) -> Result<(), DriverError> {
        let Some(Ledger { placement, mut installed }) = self.take(job) else { return Ok(()) };
        let result = installed.retire(&placement.plan, rank, &mut self.picked(tenant, &placement));
        self.ledgers().insert(job, Ledger { placement, installed });
        result
    }

    /// Reads the root's slots, and those of switches below whose sums are missing, as far as there are not too many.
    fn inspect(
        &self,
        tenant: &Arc<str>,
        placement: &Placement,
        (class, (first, count)): ((u8, u32), (u32, u32)),
        chunk: Option<u32>,
    ) -> Vec<SwitchReading> {
        let mut drivers = self.picked(tenant, placement);
        let mut due = VecDeque::from([placement.plan.order()[0]]);
        let mut readings: Vec<SwitchReading> = Vec::new();
        while let Some(at) = due.pop_front().filter(|_| readings.len() < SWITCHES_READ_MAX) {
            let base = placement.sites[at].first_slot;
            let read = drivers.with(at, |driver| driver.read_slots(base + first, count));
            let of_job = |state: SlotState| SlotState { slot: state.slot.wrapping_sub(base), ..state };
            let slots = match read {
                Ok(read) => Ok(read.into_iter().map(of_job).collect()),
                Err(error) => Err(error.chain()),
            };
            readings.push(SwitchReading { at, slots });
            due.extend(next_switches(placement, &readings, class, at, chunk));
        }
        readings
    }

    fn withdraw(&self, tenant: &Arc<str>, job: u16) -> Result<(), DriverError> {
        let Some(Ledger { placement, mut installed }) = self.take(job) else { return Ok(()) };
        let result = installed.withdraw(&mut self.picked(tenant, &placement));
        if result.is_err() {
            self.ledgers().insert(job, Ledger { placement, installed });
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retire(job: u16, rank: u16) -> SwitchTask {
        SwitchTask::Retire { job, rank }
    }

    fn push(queue: &mut TaskQueue, tenant: &str, task: SwitchTask) {
        queue.push(TenantTask { tenant: tenant.into(), task });
    }

    fn pop(queue: &mut TaskQueue, most: usize) -> Option<SwitchTask> {
        queue.pop(most).map(|task| task.task)
    }

    #[test]
    fn tasks_of_a_job_are_in_order_and_others_do_not_wait() {
        let mut queue = TaskQueue::default();
        for task in [retire(1, 0), retire(1, 1), retire(2, 0), SwitchTask::Withdraw { job: 1 }] {
            push(&mut queue, "red", task);
        }
        assert_eq!(
            (pop(&mut queue, 8), pop(&mut queue, 8), pop(&mut queue, 8)),
            (Some(retire(1, 0)), Some(retire(2, 0)), None)
        );
        queue.finish(1);
        assert_eq!((pop(&mut queue, 8), pop(&mut queue, 8)), (Some(retire(1, 1)), None));
        queue.finish(2);
        push(&mut queue, "red", retire(2, 1));
        assert_eq!(pop(&mut queue, 1), None, "as many as may be are under way");
        queue.finish(1);
        assert_eq!(pop(&mut queue, 1), Some(retire(2, 1)));
        queue.finish(2);
        assert_eq!((pop(&mut queue, 1), pop(&mut queue, 1)), (Some(SwitchTask::Withdraw { job: 1 }), None));
        queue.finish(1);
        assert!(queue.waiting.is_empty() && queue.ready.len() == 0);
        assert!(queue.under_way.is_empty() && queue.tenants.is_empty());
    }

    #[test]
    fn tasks_of_one_tenant_that_never_end_leave_threads_to_others() {
        let mut queue = TaskQueue::default();
        for job in 0..100 {
            push(&mut queue, "red", retire(job, 0));
        }
        push(&mut queue, "blue", retire(100, 0));
        let begun: Vec<_> = std::iter::from_fn(|| queue.pop(16)).collect();
        let red = begun.iter().filter(|task| &*task.tenant == "red").count();
        assert_eq!((begun.len(), red), (12, 11), "a quarter of 16 is left, and both took turns");
        // More come while all of red's are stuck: blue has its half.
        for job in 101..=120 {
            push(&mut queue, "blue", retire(job, 0));
        }
        let begun: Vec<_> = std::iter::from_fn(|| queue.pop(16)).collect();
        assert!(begun.len() == 4 && begun.iter().all(|task| &*task.tenant == "blue"), "{begun:?}");
        queue.finish(100);
        assert_eq!(queue.pop(16).map(|task| task.tenant), Some("blue".into()));
    }
}
