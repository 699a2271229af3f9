//! Carries a plan out on the switches of its tree, all of it or nothing.

use std::collections::BTreeMap;
use std::fmt;

use netfold_control::PathToken;
use netfold_p4::allreduce::{
    aggregator_entries, challenge_entry, job_entries, node_entries, shared_job_entries, shared_node_entries,
};
use netfold_p4::entry::{Replica, TableEntry};

use super::{MulticastGroup, SlotUse, SwitchPlan, TreePlan};
use crate::driver::{DriverError, HeldEntity, SwitchDriver};

/// What is done at every switch before the next is done at any; in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallStep {
    /// Ports are bound to peers.
    Ports,
    /// Slots are moved on.
    Advance,
    /// Entries are inserted, and later deleted, by which members validate their addresses.
    Challenges,
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
            Self::Challenges => "challenging its members",
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
    /// Calls the driver of a switch, which no other thread calls meanwhile.
    fn with<R>(&mut self, switch: usize, call: impl FnOnce(&mut dyn SwitchDriver) -> R) -> R;
}

impl Drivers for [Box<dyn SwitchDriver>] {
    fn with<R>(&mut self, switch: usize, call: impl FnOnce(&mut dyn SwitchDriver) -> R) -> R {
        call(self[switch].as_mut())
    }
}

impl Drivers for Vec<Box<dyn SwitchDriver>> {
    fn with<R>(&mut self, switch: usize, call: impl FnOnce(&mut dyn SwitchDriver) -> R) -> R {
        call(self[switch].as_mut())
    }
}

/// What the switches of a tree hold for a job. Dropping it forgets it; the switches keep it.
#[derive(Debug, Default)]
pub struct Installed {
    first_chunk: u32,
    /// Everything done and not undone, in order; [`Self::challenges`] came between the ports and the rest.
    done: Vec<InstalledEntity>,
    /// Entries by which members validate their addresses, by switch.
    challenges: Vec<(usize, Vec<TableEntry>)>,
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

/// Installs a plan whose members need not validate their addresses.
///
/// # Errors
///
/// [`InstallError`] with the first failure. Everything done before it was undone, unless the error says otherwise.
///
/// # Panics
///
/// When a switch of the plan has no driver.
pub fn install<D: Drivers + ?Sized>(plan: &TreePlan, drivers: &mut D) -> Result<Installed, InstallError> {
    prepare(plan, &[], drivers)?.complete(plan, drivers)
}

/// The first half of an installation: ports, ADVANCE, and for each rank an entry by which its switch replies to the rank's packets with
/// the rank's token. No packet is admitted, and nothing is multicast. [`Installed::complete`] does the rest.
///
/// # Errors
///
/// As [`install`].
///
/// # Panics
///
/// When a switch of the plan has no driver.
pub fn prepare<D: Drivers + ?Sized>(
    plan: &TreePlan,
    tokens: &[PathToken],
    drivers: &mut D,
) -> Result<Installed, InstallError> {
    let mut installed = Installed::default();
    match installed.bind(plan, tokens, drivers) {
        Ok(()) => Ok(installed),
        Err(failure) => Err(installed.revert(failure, drivers)),
    }
}

/// The entries by which a plan's workers validate their addresses, by switch.
fn challenges(plan: &TreePlan, tokens: &[PathToken]) -> BTreeMap<usize, Vec<TableEntry>> {
    let mut all = BTreeMap::<usize, Vec<TableEntry>>::new();
    for (&(switch, port), token) in plan.workers().iter().zip(tokens) {
        let place = &plan.switch_plans()[switch];
        let child = place.children.iter().find(|child| child.port == port);
        let entry = child.map(|child| challenge_entry(&place.node, child, token.0));
        all.entry(switch).or_default().extend(entry);
    }
    all
}

/// What every switch of a plan holds once it is installed, in the order in which it is done.
fn holdings(plan: &TreePlan) -> Vec<InstalledEntity> {
    let mut all = Vec::new();
    for &switch in plan.order() {
        let ports = plan.switch_plans()[switch].ports.iter();
        let held = ports.filter_map(|at| {
            let worker = plan.workers().contains(&(switch, at.port));
            let udp_ports = if worker { plan.job().udp_ports } else { 1 };
            Some(HeldEntity::Port { port: at.port, peer: at.peer?, udp_ports, keys: at.keys.clone() })
        });
        all.extend(held.map(|held| InstalledEntity { switch, child: None, held }));
    }
    for &switch in plan.order() {
        let groups = plan.switch_plans()[switch].groups.iter().cloned();
        let held = groups.map(|MulticastGroup { group, replicas }| HeldEntity::Group { group, replicas });
        all.extend(held.map(|held| InstalledEntity { switch, child: None, held }));
    }
    for (switch, _) in plan.shared() {
        let node = &plan.switch_plans()[switch].node;
        let held = HeldEntity::SharedSlots { first: node.base, slots: node.slots, epoch: node.epoch };
        all.push(InstalledEntity { switch, child: None, held });
    }
    for &switch in plan.order() {
        let entries = entries(&plan.switch_plans()[switch]).into_iter();
        all.extend(entries.map(|(child, entries)| InstalledEntity {
            switch,
            child,
            held: HeldEntity::Entries(entries),
        }));
    }
    all
}

/// The entries of a job at a switch: those of the node, then those of each child, with its port.
fn entries(place: &SwitchPlan) -> Vec<(Option<u16>, Vec<TableEntry>)> {
    let node = &place.node;
    let children = place.children.iter();
    match place.slot_use {
        SlotUse::Own => {
            let children = children.map(|child| (Some(child.port), job_entries(node, child)));
            std::iter::once((None, node_entries(node))).chain(children).collect()
        }
        SlotUse::Shared => {
            let children = children.map(|child| (Some(child.port), shared_job_entries(node, child)));
            std::iter::once((None, shared_node_entries(node))).chain(children).collect()
        }
        SlotUse::Aggregator => children.map(|below| (None, aggregator_entries(node, below))).collect(),
    }
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
                        HeldEntity::SharedSlots { .. } => true,
                        HeldEntity::Entries(_) => done.child != Some(gone),
                    }
            });
        }
        Self { first_chunk, done, challenges: Vec::new() }
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
        self.delete_challenges(drivers).map_err(|(_, _, error)| error)?;
        while let Some(InstalledEntity { switch, held, .. }) = self.done.last() {
            let switch = *switch;
            match held {
                HeldEntity::Port { port, .. } => drivers.with(switch, |driver| driver.unbind_port(*port))?,
                HeldEntity::Group { group, .. } => {
                    drivers.with(switch, |driver| driver.delete_group(*group))?
                }
                HeldEntity::SharedSlots { first, slots, epoch } => {
                    let (first, slots, epoch) = (*first, *slots, *epoch);
                    drivers.with(switch, |driver| driver.release(first, slots, epoch))?;
                }
                HeldEntity::Entries(_) => {
                    let (first, entries) = self.last_entries(switch);
                    if !entries.is_empty() {
                        drivers.with(switch, |driver| driver.delete(&entries))?;
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
        let find = |done: &[InstalledEntity], want: &dyn Fn(&InstalledEntity) -> bool| {
            done.iter().position(|done| done.switch == switch && want(done))
        };
        if let Some(index) = find(&self.done, &|done| done.child == Some(gone)) {
            if let HeldEntity::Entries(entries) = &self.done[index].held {
                drivers.with(switch, |driver| driver.delete(entries))?;
            }
            self.done.remove(index);
        }
        let copies = |done: &InstalledEntity| matches!(&done.held, HeldEntity::Group { replicas, .. } if replicas.iter().any(|r| r.port == gone));
        if let Some(index) = find(&self.done, &copies)
            && let HeldEntity::Group { group, replicas } = &mut self.done[index].held
        {
            let rest: Vec<Replica> = replicas.iter().filter(|r| r.port != gone).copied().collect();
            if rest.is_empty() {
                drivers.with(switch, |driver| driver.delete_group(*group))?;
                self.done.remove(index);
            } else {
                drivers.with(switch, |driver| driver.set_group(*group, &rest))?;
                *replicas = rest;
            }
        }
        let bound =
            |done: &InstalledEntity| matches!(done.held, HeldEntity::Port { port, .. } if port == gone);
        if let Some(index) = find(&self.done, &bound) {
            drivers.with(switch, |driver| driver.unbind_port(gone))?;
            self.done.remove(index);
        }
        Ok(())
    }

    /// The second half of an installation: the challenges of [`prepare`] are deleted, multicast groups are set, and the members' packets
    /// are admitted.
    ///
    /// # Errors
    ///
    /// As [`install`].
    ///
    /// # Panics
    ///
    /// As [`install`].
    pub fn complete<D: Drivers + ?Sized>(
        mut self,
        plan: &TreePlan,
        drivers: &mut D,
    ) -> Result<Self, InstallError> {
        match self.delete_challenges(drivers).and_then(|()| self.admit(plan, drivers)) {
            Ok(()) => Ok(self),
            Err(failure) => Err(self.revert(failure, drivers)),
        }
    }

    /// Undoes everything after a failure.
    fn revert<D: Drivers + ?Sized>(
        mut self,
        (switch, step, source): Failure,
        drivers: &mut D,
    ) -> InstallError {
        let clean = self.withdraw(drivers).is_ok();
        InstallError { switch, step, source, left: (!clean).then_some(self) }
    }

    fn delete_challenges<D: Drivers + ?Sized>(&mut self, drivers: &mut D) -> Result<(), Failure> {
        while let Some((switch, entries)) = self.challenges.last() {
            let deleted = drivers.with(*switch, |driver| driver.delete(entries));
            deleted.map_err(|source| (*switch, InstallStep::Challenges, source))?;
            self.challenges.pop();
        }
        Ok(())
    }

    fn bind<D: Drivers + ?Sized>(
        &mut self,
        plan: &TreePlan,
        tokens: &[PathToken],
        drivers: &mut D,
    ) -> Result<(), Failure> {
        for done in holdings(plan) {
            let HeldEntity::Port { port, peer, udp_ports, keys } = &done.held else { break };
            let (switch, port, keys) = (done.switch, *port, keys.clone());
            let bound = drivers.with(switch, |driver| driver.bind_ports(port, *peer, *udp_ports));
            bound.map_err(|source| (switch, InstallStep::Ports, source))?;
            self.done.push(done);
            if let Some(keys) = keys {
                let authenticated = drivers.with(switch, |driver| driver.authenticate(port, &keys));
                authenticated.map_err(|source| (switch, InstallStep::Ports, source))?;
            }
        }
        self.first_chunk = advance(plan, drivers)?;
        for (switch, entries) in challenges(plan, tokens) {
            let inserted = drivers.with(switch, |driver| driver.insert(&entries));
            inserted.map_err(|source| (switch, InstallStep::Challenges, source))?;
            self.challenges.push((switch, entries));
        }
        Ok(())
    }

    fn admit<D: Drivers + ?Sized>(&mut self, plan: &TreePlan, drivers: &mut D) -> Result<(), Failure> {
        let ports = |done: &InstalledEntity| matches!(done.held, HeldEntity::Port { .. });
        let mut steps = holdings(plan).into_iter().skip_while(ports).peekable();
        while let Some(done) = steps.next() {
            let switch = done.switch;
            match &done.held {
                HeldEntity::Port { .. } => unreachable!("ports come before everything else"),
                HeldEntity::Group { group, replicas } => {
                    let set = drivers.with(switch, |driver| driver.set_group(*group, replicas));
                    set.map_err(|source| (switch, InstallStep::Groups, source))?;
                    self.done.push(done);
                }
                HeldEntity::SharedSlots { .. } => self.done.push(done),
                HeldEntity::Entries(entries) => {
                    let mut all = entries.clone();
                    let mut pieces = vec![done];
                    while let Some(next) = steps.next_if(|next| next.switch == switch) {
                        if let HeldEntity::Entries(entries) = &next.held {
                            all.extend_from_slice(entries);
                        }
                        pieces.push(next);
                    }
                    let inserted = drivers.with(switch, |driver| driver.insert(&all));
                    inserted.map_err(|source| (switch, InstallStep::Entries, source))?;
                    self.done.extend(pieces);
                }
            }
        }
        Ok(())
    }
}

/// Moves the job's own slots on at every switch and returns a first chunk number that is newer than all of them.
///
/// After an ADVANCE to 0 the slots hold 0 ..= 2^31. Numbers up to 2^30 are left behind by the one after the greatest; if
/// some slot is further on, one ADVANCE more, to 2^30, brings all within 2^30 of each other.
fn advance<D: Drivers + ?Sized>(plan: &TreePlan, drivers: &mut D) -> Result<u32, Failure> {
    const STEP: u32 = 1 << 30;
    let mut furthest = (0, 0);
    for chunk in [0, STEP] {
        furthest = (0, plan.order()[0]);
        for &switch in plan.order() {
            let SwitchPlan { slot_use, node, .. } = &plan.switch_plans()[switch];
            if *slot_use == SlotUse::Shared {
                continue;
            }
            let stored = drivers.with(switch, |driver| driver.advance(node.base, node.slots, chunk));
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
