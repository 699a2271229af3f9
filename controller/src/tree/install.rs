//! Carries a plan out on the switches of its tree, all of it or nothing.

use std::fmt;

use netfold_p4::allreduce::{job_entries, node_entries};
use netfold_p4::entry::{Replica, TableEntry};

use super::{MulticastGroup, TreePlan};
use crate::driver::{DriverError, HeldEntity, SwitchDriver};

/// What is done at every switch before the next is done at any; in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallStep {
    /// Ports are bound to peers.
    Ports,
    /// Slots are moved on.
    Advance,
    /// Multicast groups are set.
    Groups,
    /// Table entries are inserted.
    Entries,
}

impl fmt::Display for InstallStep {
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
    pub step: InstallStep,
    /// What it said.
    #[source]
    pub source: DriverError,
    /// What could not be undone because a switch did not answer; withdraw it later. `None`: all is as it was before.
    pub left: Option<Installed>,
}

/// Drivers of a tree's switches, by their number in the plan.
pub trait Drivers {
    /// The driver of a switch.
    fn driver(&mut self, switch: usize) -> &mut dyn SwitchDriver;
}

impl Drivers for [Box<dyn SwitchDriver>] {
    fn driver(&mut self, switch: usize) -> &mut dyn SwitchDriver {
        self[switch].as_mut()
    }
}

impl Drivers for Vec<Box<dyn SwitchDriver>> {
    fn driver(&mut self, switch: usize) -> &mut dyn SwitchDriver {
        self[switch].as_mut()
    }
}

/// What the switches of a tree hold for a job. Dropping it forgets it; the switches keep it.
#[derive(Debug, Default)]
pub struct Installed {
    first_chunk: u32,
    /// Everything done and not undone, in order.
    done: Vec<InstalledEntity>,
}

/// One thing that a switch holds for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledEntity {
    /// The switch, by its number in the plan.
    pub switch: usize,
    /// The child's port, where it is an entry that admits a child.
    pub child: Option<u16>,
    /// What it holds.
    pub held: HeldEntity,
}

/// Installs a plan.
///
/// # Errors
///
/// [`InstallError`] with the first failure. Everything done before it was undone, unless the error says otherwise.
///
/// # Panics
///
/// When a switch of the plan has no driver.
pub fn install<D: Drivers + ?Sized>(plan: &TreePlan, drivers: &mut D) -> Result<Installed, InstallError> {
    let mut installed = Installed::default();
    match installed.proceed(plan, drivers) {
        Ok(()) => Ok(installed),
        Err((switch, step, source)) => {
            let clean = installed.withdraw(drivers).is_ok();
            Err(InstallError { switch, step, source, left: (!clean).then_some(installed) })
        }
    }
}

/// What every switch of a plan holds once it is installed, in the order in which it is done.
fn holdings(plan: &TreePlan) -> Vec<InstalledEntity> {
    let mut all = Vec::new();
    for &switch in plan.order() {
        let ports = plan.switch_plans()[switch].ports.iter();
        let held = ports.filter_map(|at| Some(HeldEntity::Port { port: at.port, peer: at.peer? }));
        all.extend(held.map(|held| InstalledEntity { switch, child: None, held }));
    }
    for &switch in plan.order() {
        let groups = plan.switch_plans()[switch].groups.iter().cloned();
        let held = groups.map(|MulticastGroup { group, replicas }| HeldEntity::Group { group, replicas });
        all.extend(held.map(|held| InstalledEntity { switch, child: None, held }));
    }
    for &switch in plan.order() {
        let place = &plan.switch_plans()[switch];
        let node = HeldEntity::Entries(node_entries(&place.node));
        all.push(InstalledEntity { switch, child: None, held: node });
        all.extend(place.children.iter().map(|child| InstalledEntity {
            switch,
            child: Some(child.port),
            held: HeldEntity::Entries(job_entries(&place.node, child)),
        }));
    }
    all
}

type Failure = (usize, InstallStep, DriverError);

impl Installed {
    /// What the switches hold for a plan that was installed earlier, with the first chunk number of that time. `retired` lists
    /// the ranks of members retired since.
    pub fn assume(plan: &TreePlan, first_chunk: u32, retired: &[u16]) -> Self {
        let mut done = holdings(plan);
        for rank in retired {
            let Some(&(at, gone)) = plan.workers().get(usize::from(*rank)) else { continue };
            done.retain_mut(|done| {
                done.switch != at
                    || match &mut done.held {
                        HeldEntity::Port { port, .. } => *port != gone,
                        HeldEntity::Group { replicas, .. } => {
                            replicas.retain(|replica| replica.port != gone);
                            !replicas.is_empty()
                        }
                        HeldEntity::Entries(_) => done.child != Some(gone),
                    }
            });
        }
        Self { first_chunk, done }
    }

    /// First chunk number of the job's stream: newer in serial order than all that its slots have seen at any switch.
    pub fn first_chunk(&self) -> u32 {
        self.first_chunk
    }

    /// All that is held, in the order in which it was done.
    pub fn held(&self) -> &[InstalledEntity] {
        &self.done
    }

    /// Takes everything away again: entries from the leaves up, then groups, then ports. Call it again after an error; what
    /// was removed is not removed twice.
    ///
    /// # Errors
    ///
    /// The first switch that did not answer. What would have come after on other switches is not done, because it is safe
    /// only in this order.
    pub fn withdraw<D: Drivers + ?Sized>(&mut self, drivers: &mut D) -> Result<(), DriverError> {
        while let Some(InstalledEntity { switch, held, .. }) = self.done.last() {
            let switch = *switch;
            match held {
                HeldEntity::Port { port, .. } => drivers.driver(switch).unbind_port(*port)?,
                HeldEntity::Group { group, .. } => drivers.driver(switch).delete_group(*group)?,
                HeldEntity::Entries(_) => {
                    let (first, entries) = self.last_entries(switch);
                    if !entries.is_empty() {
                        drivers.driver(switch).delete(&entries)?;
                    }
                    self.done.truncate(first + 1);
                }
            }
            self.done.pop();
        }
        Ok(())
    }

    /// The entries that were inserted last, all at one switch, and the place of the first of them.
    fn last_entries(&self, at: usize) -> (usize, Vec<TableEntry>) {
        let of = |done: &&InstalledEntity| matches!(done.held, HeldEntity::Entries(_)) && done.switch == at;
        let first = self.done.len() - self.done.iter().rev().take_while(of).count();
        let entries = self.done[first..].iter().filter_map(|done| match &done.held {
            HeldEntity::Entries(entries) => Some(entries),
            _ => None,
        });
        (first, entries.flatten().cloned().collect())
    }

    /// Takes away what one worker of a running job holds: its entries, its copy of results, its port. The rest of the job stays.
    ///
    /// # Errors
    ///
    /// The first call that failed. What was removed is not removed twice.
    pub fn retire<D: Drivers + ?Sized>(
        &mut self,
        plan: &TreePlan,
        rank: u16,
        drivers: &mut D,
    ) -> Result<(), DriverError> {
        let Some(&(switch, gone)) = plan.workers().get(usize::from(rank)) else { return Ok(()) };
        let driver = drivers.driver(switch);
        let find = |done: &[InstalledEntity], want: &dyn Fn(&InstalledEntity) -> bool| {
            done.iter().position(|done| done.switch == switch && want(done))
        };
        if let Some(index) = find(&self.done, &|done| done.child == Some(gone)) {
            if let HeldEntity::Entries(entries) = &self.done[index].held {
                driver.delete(entries)?;
            }
            self.done.remove(index);
        }
        let copies = |done: &InstalledEntity| matches!(&done.held, HeldEntity::Group { replicas, .. } if replicas.iter().any(|r| r.port == gone));
        if let Some(index) = find(&self.done, &copies)
            && let HeldEntity::Group { group, replicas } = &mut self.done[index].held
        {
            let rest: Vec<Replica> = replicas.iter().filter(|r| r.port != gone).copied().collect();
            if rest.is_empty() {
                driver.delete_group(*group)?;
                self.done.remove(index);
            } else {
                driver.set_group(*group, &rest)?;
                *replicas = rest;
            }
        }
        let bound =
            |done: &InstalledEntity| matches!(done.held, HeldEntity::Port { port, .. } if port == gone);
        if let Some(index) = find(&self.done, &bound) {
            driver.unbind_port(gone)?;
            self.done.remove(index);
        }
        Ok(())
    }

    fn proceed<D: Drivers + ?Sized>(&mut self, plan: &TreePlan, drivers: &mut D) -> Result<(), Failure> {
        let mut steps = holdings(plan).into_iter().peekable();
        let mut advanced = false;
        while let Some(done) = steps.next() {
            let switch = done.switch;
            if !advanced && !matches!(done.held, HeldEntity::Port { .. }) {
                self.first_chunk = advance(plan, drivers)?;
                advanced = true;
            }
            let driver = drivers.driver(switch);
            match &done.held {
                HeldEntity::Port { port, peer } => {
                    driver.bind_port(*port, *peer).map_err(|source| (switch, InstallStep::Ports, source))?;
                    self.done.push(done);
                }
                HeldEntity::Group { group, replicas } => {
                    driver
                        .set_group(*group, replicas)
                        .map_err(|source| (switch, InstallStep::Groups, source))?;
                    self.done.push(done);
                }
                HeldEntity::Entries(entries) => {
                    let mut all = entries.clone();
                    let mut pieces = vec![done];
                    while let Some(next) = steps.next_if(|next| next.switch == switch) {
                        if let HeldEntity::Entries(entries) = &next.held {
                            all.extend_from_slice(entries);
                        }
                        pieces.push(next);
                    }
                    driver.insert(&all).map_err(|source| (switch, InstallStep::Entries, source))?;
                    self.done.extend(pieces);
                }
            }
        }
        Ok(())
    }
}

/// Moves the job's slots on at every switch and returns a first chunk number that is newer than all of them.
///
/// After an ADVANCE to 0 the slots hold 0 ..= 2^31. Numbers up to 2^30 are left behind by the one after the greatest; if
/// some slot is further on, one ADVANCE more, to 2^30, brings all within 2^30 of each other.
fn advance<D: Drivers + ?Sized>(plan: &TreePlan, drivers: &mut D) -> Result<u32, Failure> {
    const STEP: u32 = 1 << 30;
    let mut furthest = (0, 0);
    for chunk in [0, STEP] {
        furthest = (0, plan.order()[0]);
        for &switch in plan.order() {
            let node = &plan.switch_plans()[switch].node;
            let stored = drivers.driver(switch).advance(node.base, node.slots, chunk);
            let stored = stored.map_err(|source| (switch, InstallStep::Advance, source))?;
            furthest = furthest.max((stored.wrapping_sub(chunk), switch));
        }
        if furthest.0 <= STEP {
            return Ok(chunk.wrapping_add(furthest.0).wrapping_add(1));
        }
    }
    let (distance, switch) = furthest;
    let source = DriverError::Serial { stored: STEP.wrapping_add(distance), chunk: STEP };
    Err((switch, InstallStep::Advance, source))
}
