//! A [`SwitchDriver`] over BF Runtime.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;

use netfold_p4::allreduce::{self, Address, controller_entry};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_p4_runtime::google::Code;
use netfold_wire::{Kind, UDP_PORT};

use super::BfrtError;
use super::client::{Bfrt, BfrtConfig};
use super::info::{Info, update};
use crate::p4runtime::{Bound, ControlPort, Desired, PeerPorts, PortError, advance, port_error, read_slots};
use netfold_controller::driver::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_p4_runtime::bfrt::{
    ForwardingPipelineConfig, PipelineAction, PipelineProfile, Update, UpdateType,
};
use netfold_p4_runtime::state::Key;

/// A program as the SDE's compiler has made it for the chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BfrtProgram {
    /// The profile that it was made for.
    pub profile: Profile,
    /// Its name on the device.
    pub p4_name: String,
    /// `bf-rt.json`.
    pub bfrt_info: Vec<u8>,
    /// `context.json`.
    pub context: Vec<u8>,
    /// `tofino.bin`.
    pub binary: Vec<u8>,
    /// Name of the pipeline in the program; `pipe` unless set otherwise.
    pub pipeline: String,
    /// The pipes that it runs in.
    pub pipes: Vec<u32>,
}

/// Control of a Tofino over BF Runtime, for programs of [`netfold_p4::allreduce`]. A copy of a group is a node of the
/// replication engine by the number of its instance.
///
/// A call that fails takes back what it had done; what could not be taken back is removed before the next change.
pub struct BfrtDriver {
    client: Bfrt,
    info: Info,
    profile: Profile,
    places: Box<dyn PeerPorts>,
    control: Box<dyn ControlPort>,
    desired: Desired,
    /// Removals that are still to be made.
    debris: Vec<Update>,
    nonce: u32,
}

impl BfrtDriver {
    /// Takes a device over: pushes the program unless the very one runs, binds to it, empties its tables and the replication
    /// engine, and admits the control port.
    ///
    /// # Errors
    ///
    /// [`BfrtError`].
    pub fn start(
        config: BfrtConfig,
        program: BfrtProgram,
        switch: Address,
        control_port: u16,
        places: Box<dyn PeerPorts>,
        control: Box<dyn ControlPort>,
    ) -> Result<Self, BfrtError> {
        let ir = allreduce::program(&program.profile)?;
        let client = Bfrt::connect(config, &program.p4_name)?;
        let there = client.pipelines()?;
        let runs = |config: &ForwardingPipelineConfig| {
            config.p4_name == program.p4_name && config.bfruntime_info == program.bfrt_info
        };
        if !there.config.iter().any(runs) {
            client.set_pipeline(PipelineAction::VerifyAndWarmInitBeginAndEnd, program.message())?;
        }
        let name = ForwardingPipelineConfig { p4_name: program.p4_name.clone(), ..Default::default() };
        client.set_pipeline(PipelineAction::Bind, name)?;
        let device = client.pipelines()?.non_p4_config.unwrap_or_default();
        let info = Info::new(&ir, &program.bfrt_info, &device.bfruntime_info)?;
        for table in info.table_ids() {
            let there = client.read(table)?.into_iter().filter(|entry| !entry.is_default_entry);
            let gone = there.map(|mut entry| {
                entry.data = None;
                update(UpdateType::Delete, entry)
            });
            client.write(gone.collect(), Some(Code::NotFound))?;
        }
        let admit = [Kind::Advance, Kind::Probe].map(|kind| controller_entry(control_port, kind));
        let admit = admit.iter().map(|entry| info.entry(UpdateType::Insert, entry));
        client.write(admit.collect::<Result<_, _>>()?, None)?;
        let from = (program.profile.encapsulation == Encapsulation::Ethernet).then_some(switch);
        let desired = Desired::new(from, control_port, Vec::new());
        let nonce = RandomState::new().build_hasher().finish() as u32;
        let profile = program.profile;
        Ok(Self { client, info, profile, places, control, desired, debris: Vec::new(), nonce })
    }

    fn entries(&self, kind: UpdateType, entries: &[TableEntry]) -> Result<Vec<Update>, BfrtError> {
        entries.iter().map(|entry| self.info.entry(kind, entry)).collect()
    }

    fn placed(&self, entries: &[TableEntry]) -> Result<Vec<TableEntry>, DriverError> {
        entries.iter().map(|entry| self.desired.placed(entry)).collect()
    }

    fn clear_debris(&mut self) -> Result<(), DriverError> {
        self.client.write(self.debris.clone(), Some(Code::NotFound)).map_err(refused)?;
        self.debris.clear();
        Ok(())
    }

    /// Makes changes; if one fails, those that take them back, as far as they can be made.
    fn change(&mut self, change: Vec<Update>, back: Vec<Update>) -> Result<(), DriverError> {
        self.clear_debris()?;
        // Deleting an entry that does not exist is no error.
        let Err(error) = self.client.write(change, Some(Code::NotFound)) else { return Ok(()) };
        let removals = |update: &Update| update.r#type == UpdateType::Delete as i32;
        let (removals, restored): (Vec<_>, Vec<_>) = back.into_iter().partition(removals);
        self.debris = removals;
        // If the roll-back fails too, the caller still receives the first error.
        let _ = self.clear_debris();
        let _ = self.client.write(restored, None);
        Err(refused(error))
    }

    /// The updates that bring a group, its nodes and addresses from their present state to the desired one.
    fn group_updates(
        &self,
        group: u16,
        old: &[Replica],
        new: &[Replica],
    ) -> Result<Vec<Update>, DriverError> {
        let (old_placed, old_addresses) = self.desired.placed_group(old)?;
        let (placed, addresses) = self.desired.placed_group(new)?;
        let kind = UpdateType::InsertOrModify;
        let mut updates = self.entries(kind, &addresses).map_err(refused)?;
        updates.extend(placed.iter().map(|replica| self.info.node(kind, replica)));
        updates.push(self.info.group(kind, group, &placed));
        let stays = |replica: &Replica| placed.iter().any(|other| other.instance == replica.instance);
        let stale = old_placed.iter().filter(|replica| !stays(replica));
        updates.extend(stale.map(|replica| self.info.node(UpdateType::Delete, replica)));
        let kept = |entry: &TableEntry| addresses.iter().any(|other| other.matches == entry.matches);
        let stale: Vec<TableEntry> = old_addresses.into_iter().filter(|entry| !kept(entry)).collect();
        updates.extend(self.entries(UpdateType::Delete, &stale).map_err(refused)?);
        Ok(updates)
    }

    /// The updates that remove a group with its nodes and addresses.
    fn group_removal(&self, group: u16, held: &[Replica]) -> Result<Vec<Update>, DriverError> {
        let (placed, addresses) = self.desired.placed_group(held)?;
        let mut updates = vec![self.info.group(UpdateType::Delete, group, &placed)];
        updates.extend(placed.iter().map(|replica| self.info.node(UpdateType::Delete, replica)));
        updates.extend(self.entries(UpdateType::Delete, &addresses).map_err(refused)?);
        Ok(updates)
    }
}

impl BfrtProgram {
    fn message(&self) -> ForwardingPipelineConfig {
        ForwardingPipelineConfig {
            p4_name: self.p4_name.clone(),
            bfruntime_info: self.bfrt_info.clone(),
            profiles: vec![PipelineProfile {
                profile_name: self.pipeline.clone(),
                context: self.context.clone(),
                binary: self.binary.clone(),
                pipe_scope: self.pipes.clone(),
            }],
        }
    }
}

impl SwitchDriver for BfrtDriver {
    fn limits(&self) -> Limits {
        Limits::of(&self.profile, UDP_PORT)
    }

    fn numerics(&self) -> Numerics {
        self.profile.numerics
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        let SocketAddr::V4(at) = peer else {
            return Err(port_error(port, PortError::NotIpv4(peer)));
        };
        if port >= self.limits().ports_max {
            return Err(port_error(port, PortError::Number));
        }
        let at = self.places.find(at).ok_or_else(|| port_error(port, PortError::Unknown(at)))?;
        if at.port == self.desired.cpu_port {
            return Err(port_error(port, PortError::Reserved(at.port)));
        }
        self.desired.ports.insert(port, Bound { peer, udp_ports: 1, at: Some(at), keys: None });
        Ok(())
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.desired.ports.remove(&port);
        Ok(())
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        if entries.iter().any(|entry| self.desired.entries.contains_key(&Key::of(entry))) {
            return Err(EntryError::Exists.into());
        }
        let placed = self.placed(entries)?;
        let change = self.entries(UpdateType::Insert, &placed).map_err(refused)?;
        let back = self.entries(UpdateType::Delete, &placed).map_err(refused)?;
        self.change(change, back)?;
        self.desired.entries.extend(entries.iter().map(|entry| (Key::of(entry), entry.clone())));
        Ok(())
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let held: Vec<TableEntry> =
            entries.iter().filter_map(|entry| self.desired.entries.get(&Key::of(entry)).cloned()).collect();
        let placed = self.placed(&held)?;
        let change = self.entries(UpdateType::Delete, &placed).map_err(refused)?;
        let back = self.entries(UpdateType::InsertOrModify, &placed).map_err(refused)?;
        self.change(change, back)?;
        for entry in &held {
            self.desired.entries.remove(&Key::of(entry));
        }
        Ok(())
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        if group == 0 || group > self.limits().groups_max {
            return Err(EntryError::Group(group).into());
        }
        self.desired.check_group(group, replicas)?;
        let held = self.desired.groups.get(&group).cloned();
        let old = held.clone().unwrap_or_default();
        let change = self.group_updates(group, &old, replicas)?;
        let back = match held {
            Some(_) => self.group_updates(group, replicas, &old)?,
            None => self.group_removal(group, replicas)?,
        };
        self.change(change, back)?;
        self.desired.groups.insert(group, replicas.to_vec());
        Ok(())
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        let Some(held) = self.desired.groups.get(&group).cloned() else { return Ok(()) };
        let change = self.group_removal(group, &held)?;
        let back = self.group_updates(group, &[], &held)?;
        self.change(change, back)?;
        self.desired.groups.remove(&group);
        Ok(())
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.profile.slots && slots > 0);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        advance(self.control.as_mut(), self.nonce, first_slot, slots, chunk)
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.profile.slots);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        read_slots(self.control.as_mut(), self.nonce, first_slot, slots)
    }
}

fn refused(error: BfrtError) -> DriverError {
    match error {
        BfrtError::Unreachable { .. } => DriverError::Unreachable(Box::new(error)),
        error => DriverError::Refused(Box::new(error)),
    }
}
