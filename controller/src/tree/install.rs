//! Carries a plan out on the switches of its tree, all of it or nothing.

use std::fmt;

use netfold_p4::allreduce::{job_entries, node_entries};
use netfold_p4::entry::TableEntry;

use super::Plan;
use crate::driver::{DriverError, SwitchDriver};

/// What is done at every switch before the next is done at any; in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Ports are bound to peers.
    Ports,
    /// Slots are moved on.
    Advance,
    /// Multicast groups are set.
    Groups,
    /// Table entries are inserted.
    Entries,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ports => "binding ports",
            Self::Advance => "moving slots on",
            Self::Groups => "setting multicast groups",
            Self::Entries => "inserting table entries",
        })
    }
}

/// A switch of the tree did not do its part.
#[derive(Debug, thiserror::Error)]
#[error("switch {switch} failed at {step}{}", .left.as_ref().map_or("", |_| ", and not all could be undone"))]
pub struct InstallError {
    /// The switch, by its number in the plan.
    pub switch: usize,
    /// What it was asked.
    pub step: Step,
    /// What it said.
    #[source]
    pub source: DriverError,
    /// What could not be undone because a switch did not answer; withdraw it later. `None`: all is as it was before.
    pub left: Option<Installed>,
}

/// What the switches of a tree hold for a job. Dropping it forgets it; the switches keep it.
#[derive(Debug, Default)]
pub struct Installed {
    first_chunk: u32,
    /// Everything done and not undone, in order.
    done: Vec<(usize, Held)>,
}

#[derive(Debug)]
enum Held {
    Port(u16),
    Group(u16),
    Entries(Vec<TableEntry>),
}

/// Installs a plan; driver `i` is that of switch `i`.
///
/// # Errors
///
/// [`InstallError`] with the first failure. Everything done before it was undone, unless the error says otherwise.
///
/// # Panics
///
/// When there are fewer drivers than switches.
pub fn install(plan: &Plan, drivers: &mut [Box<dyn SwitchDriver>]) -> Result<Installed, InstallError> {
    assert!(drivers.len() >= plan.places().len(), "one driver for each switch of the plan");
    let mut installed = Installed::default();
    match installed.proceed(plan, drivers) {
        Ok(()) => Ok(installed),
        Err((switch, step, source)) => {
            let clean = installed.withdraw(drivers).is_ok();
            Err(InstallError { switch, step, source, left: (!clean).then_some(installed) })
        }
    }
}

type Failure = (usize, Step, DriverError);

impl Installed {
    /// First chunk number of the job's stream: newer in serial order than all that its slots have seen at any switch.
    pub fn first_chunk(&self) -> u32 {
        self.first_chunk
    }

    /// Takes everything away again: entries from the leaves up, then groups, then ports. Call it again after an error; what
    /// is gone is not asked for twice.
    ///
    /// # Errors
    ///
    /// The first switch that did not answer. What would have come after on other switches is not done, because it is safe
    /// only in this order.
    pub fn withdraw(&mut self, drivers: &mut [Box<dyn SwitchDriver>]) -> Result<(), DriverError> {
        while let Some((switch, held)) = self.done.last() {
            let driver = drivers[*switch].as_mut();
            match held {
                Held::Port(port) => driver.unbind_port(*port)?,
                Held::Group(group) => driver.delete_group(*group)?,
                Held::Entries(entries) => driver.delete(entries)?,
            }
            self.done.pop();
        }
        Ok(())
    }

    fn proceed(&mut self, plan: &Plan, drivers: &mut [Box<dyn SwitchDriver>]) -> Result<(), Failure> {
        for &switch in plan.order() {
            for attachment in &plan.places()[switch].ports {
                if let Some(peer) = attachment.peer {
                    let bound = drivers[switch].bind_port(attachment.port, peer);
                    bound.map_err(|source| (switch, Step::Ports, source))?;
                    self.done.push((switch, Held::Port(attachment.port)));
                }
            }
        }
        self.first_chunk = advance(plan, drivers)?;
        for &switch in plan.order() {
            for group in &plan.places()[switch].groups {
                let set = drivers[switch].set_group(group.group, &group.replicas);
                set.map_err(|source| (switch, Step::Groups, source))?;
                self.done.push((switch, Held::Group(group.group)));
            }
        }
        for &switch in plan.order() {
            let place = &plan.places()[switch];
            let mut entries = node_entries(&place.node);
            entries.extend(place.children.iter().flat_map(|child| job_entries(&place.node, child)));
            let inserted = drivers[switch].insert(&entries);
            inserted.map_err(|source| (switch, Step::Entries, source))?;
            self.done.push((switch, Held::Entries(entries)));
        }
        Ok(())
    }
}

/// Moves the job's slots on at every switch and returns a first chunk number that is newer than all of them.
///
/// After an ADVANCE to 0 the slots hold 0 ..= 2^31. Numbers up to 2^30 are left behind by the one after the greatest; if
/// some slot is further on, one ADVANCE more, to 2^30, brings all within 2^30 of each other.
fn advance(plan: &Plan, drivers: &mut [Box<dyn SwitchDriver>]) -> Result<u32, Failure> {
    const STEP: u32 = 1 << 30;
    let mut furthest = (0, 0);
    for chunk in [0, STEP] {
        furthest = (0, plan.order()[0]);
        for &switch in plan.order() {
            let node = &plan.places()[switch].node;
            let stored = drivers[switch].advance(node.base, node.slots, chunk);
            let stored = stored.map_err(|source| (switch, Step::Advance, source))?;
            furthest = furthest.max((stored.wrapping_sub(chunk), switch));
        }
        if furthest.0 <= STEP {
            return Ok(chunk.wrapping_add(furthest.0).wrapping_add(1));
        }
    }
    let (distance, switch) = furthest;
    let source = DriverError::Serial { stored: STEP.wrapping_add(distance), chunk: STEP };
    Err((switch, Step::Advance, source))
}
