//! Carries out what admission decides on a switch, one task at a time, and remembers what the switch holds for whom.
//!
//! The order of the steps is the safety argument. A job is *installed* as: ports, ADVANCE over its range (no entry
//! admits anyone to the range yet), multicast group, and last the job-table entries. It is *withdrawn* as: entries,
//! then the group, then the ports. So a range is never advanced, nor given to the next job, while an entry admits
//! packets to it.

use crate::driver::{DriverError, SwitchDriver};
use crate::pool::{Placement, Seat};
use netfold_p4::allreduce::{Child, Node, job_entries, node_entries};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_wire::control::Numerics;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One piece of work on the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Give a job its place.
    Install(Placement),
    /// Take away one member that has left a running job in peace.
    Retire {
        /// Job number.
        job: u16,
        /// Rank of the member.
        rank: u8,
    },
    /// Take away all that a job holds. May be repeated.
    Withdraw {
        /// Job number.
        job: u16,
    },
}

/// How a [`Task`] went.
#[derive(Debug)]
pub enum Outcome {
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
        /// The step that failed.
        error: DriverError,
        /// Whether every step before it was undone. If not, a [`Task::Withdraw`] must follow.
        clean: bool,
    },
    /// A [`Task::Retire`] was tried; on an error the member's place is held until the job is withdrawn.
    Retired {
        /// Job number.
        job: u16,
        /// Rank of the member.
        rank: u8,
        /// How it went.
        result: Result<(), DriverError>,
    },
    /// A [`Task::Withdraw`] was tried; on an error it must be repeated.
    Withdrawn {
        /// Job number.
        job: u16,
        /// How it went: the first error of several.
        result: Result<(), DriverError>,
    },
}

/// What the switch holds for one member.
struct Held {
    rank: u8,
    port: u16,
    /// Empty before they are inserted and after they are deleted.
    entries: Vec<TableEntry>,
}

/// What the switch holds for one job: exactly what succeeded and was not undone.
#[derive(Default)]
struct Ledger {
    /// Entries that the job needs once; empty before they are inserted and after they are deleted.
    entries: Vec<TableEntry>,
    group: Option<(u16, Vec<Replica>)>,
    members: Vec<Held>,
}

/// Runs [`Task`]s on a [`SwitchDriver`].
pub struct Executor {
    driver: Box<dyn SwitchDriver>,
    sees_source: bool,
    ledgers: BTreeMap<u16, Ledger>,
}

impl Executor {
    /// An executor for a switch that holds nothing of ours.
    pub fn new(driver: Box<dyn SwitchDriver>) -> Self {
        Self { sees_source: driver.limits().sees_source, driver, ledgers: BTreeMap::new() }
    }

    /// Carries out one task; blocks as long as the driver does.
    pub fn run(&mut self, task: Task) -> Outcome {
        match task {
            Task::Install(placement) => self.install(&placement),
            Task::Retire { job, rank } => {
                let result = match self.ledgers.get_mut(&job) {
                    Some(ledger) => ledger.retire(self.driver.as_mut(), rank),
                    None => Ok(()),
                };
                Outcome::Retired { job, rank, result }
            }
            Task::Withdraw { job } => Outcome::Withdrawn { job, result: self.withdraw(job) },
        }
    }

    fn install(&mut self, placement: &Placement) -> Outcome {
        let job = placement.job;
        let ledger = self.ledgers.entry(job).or_default();
        match ledger.install(self.driver.as_mut(), placement, self.sees_source) {
            Ok(first_chunk) => Outcome::Installed { job, first_chunk },
            Err(error) => Outcome::InstallFailed { job, error, clean: self.withdraw(job).is_ok() },
        }
    }

    fn withdraw(&mut self, job: u16) -> Result<(), DriverError> {
        if let Some(ledger) = self.ledgers.get_mut(&job) {
            ledger.withdraw(self.driver.as_mut())?;
            self.ledgers.remove(&job);
        }
        Ok(())
    }
}

impl Ledger {
    fn install(
        &mut self,
        driver: &mut dyn SwitchDriver,
        placement: &Placement,
        sees_source: bool,
    ) -> Result<u32, DriverError> {
        for seat in &placement.seats {
            driver.bind_port(seat.port, seat.peer)?;
            self.members.push(Held { rank: seat.rank, port: seat.port, entries: Vec::new() });
        }
        let newest = newest_chunk(driver, placement.first_slot, placement.slots)?;
        let replicas: Vec<Replica> = placement
            .seats
            .iter()
            .map(|seat| Replica { port: seat.port, instance: seat.port.saturating_add(1) })
            .collect();
        driver.set_group(placement.group, &replicas)?;
        self.group = Some((placement.group, replicas));
        let node = node(placement, driver.numerics());
        let entries = node_entries(&node);
        driver.insert(&entries)?;
        self.entries = entries;
        for (seat, held) in placement.seats.iter().zip(&mut self.members) {
            let entries = job_entries(&node, &child(seat, sees_source));
            driver.insert(&entries)?;
            held.entries = entries;
        }
        Ok(newest.wrapping_add(1))
    }

    fn retire(&mut self, driver: &mut dyn SwitchDriver, rank: u8) -> Result<(), DriverError> {
        let Some(index) = self.members.iter().position(|held| held.rank == rank) else { return Ok(()) };
        let held = &mut self.members[index];
        delete_entries(driver, &mut held.entries)?;
        if let Some((group, replicas)) = &mut self.group {
            let rest: Vec<Replica> = replicas.iter().filter(|r| r.port != held.port).copied().collect();
            driver.set_group(*group, &rest)?;
            *replicas = rest;
        }
        driver.unbind_port(held.port)?;
        self.members.remove(index);
        Ok(())
    }

    /// Undoes all that can be undone; the first error, if any, stops what must come after it.
    fn withdraw(&mut self, driver: &mut dyn SwitchDriver) -> Result<(), DriverError> {
        let mut result = Ok(());
        for held in &mut self.members {
            result = result.and(delete_entries(driver, &mut held.entries));
        }
        result?;
        delete_entries(driver, &mut self.entries)?;
        if let Some((group, _)) = &self.group {
            driver.delete_group(*group)?;
            self.group = None;
        }
        let mut result = Ok(());
        self.members.retain(|held| match driver.unbind_port(held.port) {
            Ok(()) => false,
            Err(error) => {
                if result.is_ok() {
                    result = Err(error);
                }
                true
            }
        });
        result
    }
}

fn delete_entries(driver: &mut dyn SwitchDriver, entries: &mut Vec<TableEntry>) -> Result<(), DriverError> {
    if !entries.is_empty() {
        driver.delete(entries)?;
        entries.clear();
    }
    Ok(())
}

fn node(placement: &Placement, numerics: Numerics) -> Node {
    Node {
        job: placement.job,
        epoch: placement.epoch,
        key: placement.key,
        base: placement.first_slot,
        slots: placement.slots,
        children: placement.seats.len() as u8,
        workers: placement.world,
        world: placement.world,
        group: placement.group,
        parent: None,
        shift: (numerics == Numerics::Wide).then(|| shift_for(placement.world)),
    }
}

/// Bits by which a switch shifts the sum of so many shares, so that it fits a lane again: ceil(log2(children)).
pub(crate) fn shift_for(children: u16) -> u8 {
    children.next_power_of_two().trailing_zeros() as u8
}

fn child(seat: &Seat, sees_source: bool) -> Child {
    let source = match seat.peer.ip() {
        IpAddr::V4(address) if sees_source => address.to_bits(),
        _ => 0,
    };
    Child { port: seat.port, source, rank: seat.rank }
}

/// The newest chunk number that a range holds, after moving the slots forward, if need be, until none of them is more
/// than 2^30 behind it: then the number after it is newer than all in serial order.
///
/// One ADVANCE is enough unless the switch has seen more than 2^30 chunks in a slot since it started.
fn newest_chunk(driver: &mut dyn SwitchDriver, first_slot: u32, slots: u32) -> Result<u32, DriverError> {
    const STEP: u32 = 1 << 30;
    // An ADVANCE to 0 leaves numbers of 0 ..= 2^31 behind (the opposite of 0 counts as newer), one to 2^30 after it
    // numbers within 2^30 of each other.
    let stored = driver.advance(first_slot, slots, 0)?;
    if stored <= STEP {
        return Ok(stored);
    }
    let stored = driver.advance(first_slot, slots, STEP)?;
    if stored.wrapping_sub(STEP) > STEP {
        return Err(DriverError::Serial { stored, chunk: STEP });
    }
    Ok(stored)
}
