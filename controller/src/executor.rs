//! Carries out what admission decides on the switches, one task at a time, and remembers what they hold for whom.
//!
//! The order of the steps is the safety argument, and [`tree::install`](crate::tree::install) keeps it: a range is never advanced, nor
//! given to the next job, while an entry admits packets to it.

use crate::driver::{DriverError, SwitchDriver};
use crate::fleet::Placement;
use crate::tree::{Drivers, Installed, install};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One piece of work on the switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchTask {
    /// Give a tree of a job its place.
    Install(Arc<Placement>),
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
}

/// How a [`SwitchTask`] went.
#[derive(Debug)]
pub enum TaskOutcome {
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
}

/// What the switches hold for one job: exactly what succeeded and was not undone.
struct Ledger {
    placement: Arc<Placement>,
    installed: Installed,
}

/// Runs [`SwitchTask`]s on the switches of a fleet.
pub struct Executor {
    drivers: Vec<Box<dyn SwitchDriver>>,
    ledgers: BTreeMap<u16, Ledger>,
}

/// The drivers of a placement's switches.
struct Picked<'a> {
    drivers: &'a mut [Box<dyn SwitchDriver>],
    switches: &'a [usize],
}

impl Drivers for Picked<'_> {
    fn driver(&mut self, switch: usize) -> &mut dyn SwitchDriver {
        self.drivers[self.switches[switch]].as_mut()
    }
}

impl Executor {
    /// An executor for switches, in the order of the fleet, that hold nothing of ours except what later [`SwitchTask::Adopt`]s name.
    pub fn new(drivers: Vec<Box<dyn SwitchDriver>>) -> Self {
        Self { drivers, ledgers: BTreeMap::new() }
    }

    /// Carries out one task; blocks as long as the drivers do.
    pub fn run(&mut self, task: SwitchTask) -> TaskOutcome {
        match task {
            SwitchTask::Install(placement) => self.install(placement),
            SwitchTask::Adopt { placement, first_chunk, left } => {
                let job = placement.job().job;
                let installed = Installed::assume(&placement.plan, first_chunk, &left);
                self.ledgers.insert(job, Ledger { placement, installed });
                TaskOutcome::Adopted { job }
            }
            SwitchTask::Retire { job, rank } => {
                TaskOutcome::Retired { job, rank, result: self.retire(job, rank) }
            }
            SwitchTask::Withdraw { job } => TaskOutcome::Withdrawn { job, result: self.withdraw(job) },
        }
    }

    fn install(&mut self, placement: Arc<Placement>) -> TaskOutcome {
        let job = placement.job().job;
        let mut picked = Picked { drivers: &mut self.drivers, switches: &placement.switches };
        match install(&placement.plan, &mut picked) {
            Ok(installed) => {
                let first_chunk = installed.first_chunk();
                self.ledgers.insert(job, Ledger { placement, installed });
                TaskOutcome::Installed { job, first_chunk }
            }
            Err(error) => {
                let switch = placement.switches[error.switch];
                let clean = error.left.is_none();
                if let Some(installed) = error.left {
                    self.ledgers.insert(job, Ledger { placement, installed });
                }
                TaskOutcome::InstallFailed { job, switch, error: error.source, clean }
            }
        }
    }

    fn retire(&mut self, job: u16, rank: u16) -> Result<(), DriverError> {
        let Some(Ledger { placement, installed }) = self.ledgers.get_mut(&job) else { return Ok(()) };
        let mut picked = Picked { drivers: &mut self.drivers, switches: &placement.switches };
        installed.retire(&placement.plan, rank, &mut picked)
    }

    fn withdraw(&mut self, job: u16) -> Result<(), DriverError> {
        if let Some(Ledger { placement, installed }) = self.ledgers.get_mut(&job) {
            let mut picked = Picked { drivers: &mut self.drivers, switches: &placement.switches };
            installed.withdraw(&mut picked)?;
            self.ledgers.remove(&job);
        }
        Ok(())
    }
}
