//! A [`SwitchDriver`] over P4Runtime.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::net::{SocketAddr, SocketAddrV4};

use netfold_p4::allreduce::{Address, child_entry, controller_entry, id};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::ir::Program;
use netfold_p4::p4info::{counter_id, table_id};
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::UpdateType;
use netfold_p4_runtime::{p4info, v1};
use netfold_wire::{Kind, UDP_PORT};
use serde_json::Value;

use super::client::Client;
use super::control::ControlPort;
use super::error::{P4RuntimeError, Rpc};
use super::peers::PortError;
use super::slot_packets::{advance, read_slots, release};
use super::tables::{Tables, group_update, groups};
use netfold_controller::driver::{DriverError, Limits, SlotState, SwitchDriver};

/// Where a peer is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerPort {
    /// Port of the switch that the peer's packets come in on, 1 or more: P4Runtime has no port 0.
    pub port: u16,
    /// Ethernet address of the peer, or of the next hop to it, in the low 48 bits.
    pub mac: u64,
}

/// Finds out where a peer is attached; `None` when it is not known.
pub type PeerLookup = Box<dyn Fn(SocketAddrV4) -> Option<PeerPort> + Send>;

/// What a driver must know beside the program.
pub struct DriverConfig {
    /// The profile that the program was made for.
    pub profile: Profile,
    /// Port of the switch where the controller's ADVANCE packets come in; no peer may be there.
    pub control_port: u16,
    /// Where peers are.
    pub peers: PeerLookup,
    /// What the switch calls itself in the packets that it multicasts; matters where the pipeline sees outer headers.
    pub switch: Address,
    /// Multicast groups to use, 1 to this number.
    pub groups_max: u16,
    /// What the device configuration is.
    pub device_format: DeviceFormat,
}

/// Forms of device configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFormat {
    /// The JSON that p4c writes for bmv2. It is checked here, since bmv2 takes any JSON object, and refuses all further
    /// pipelines after one that is no JSON.
    Bmv2,
    /// Anything else, which the switch checks itself.
    Opaque,
}

impl DriverConfig {
    /// As many groups as the tables hold jobs, and a bmv2 at 10.0.0.254 with a locally administered
    /// Ethernet address.
    pub fn new(profile: Profile, control_port: u16, peers: PeerLookup) -> Self {
        let groups_max = profile.groups();
        let switch = Address { mac: 0x0200_0000_00fe, ip: 0x0a00_00fe, port: UDP_PORT };
        Self { profile, control_port, peers, switch, groups_max, device_format: DeviceFormat::Bmv2 }
    }
}

/// A peer that is bound to a port of the control plane.
#[derive(Debug, Clone, Copy)]
struct Bound {
    peer: SocketAddrV4,
    at: PeerPort,
}

/// A multicast group as it was set.
struct Group {
    replicas: Vec<Replica>,
    /// Whether the switch surely has exactly that.
    sure: bool,
}

/// Control of a switch over P4Runtime, for programs of [`netfold_p4::allreduce`].
///
/// The control plane's ports are numbers of its own. This driver looks up where a peer is when it is bound, and writes
/// the switch's port in its place into job-table entries and multicast groups. Where the pipeline sees outer headers,
/// setting a group also writes the entries that address its copies.
///
/// Entries and groups that a call could not take back, because the switch stopped answering, are removed before the
/// next change.
///
/// A deleted entry may have admitted a packet that is still in the pipeline. Pipelines keep the order of packets, and no
/// slot is reused without an ADVANCE, so that packet has come to rest before the slot's new first chunk is chosen.
pub struct P4RuntimeDriver {
    tables: Tables,
    control: Box<dyn ControlPort>,
    config: DriverConfig,
    bound: BTreeMap<u16, Bound>,
    groups: BTreeMap<u16, Group>,
    /// Entries of table `child` by replica instance, with the group they are for.
    children: BTreeMap<u16, (u16, TableEntry)>,
    /// Number of the last question to slots. Starts anywhere, so that answers to an earlier driver are not taken for ours.
    nonce: u32,
}

impl P4RuntimeDriver {
    /// Takes a switch over: removes its multicast groups, pushes the program with the device configuration that the
    /// target's compiler made of it, and admits the control port.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`]. The pipeline and the groups that were there are put back as far as the switch lets us; the
    /// entries that were in its tables are lost if it has accepted the new pipeline.
    pub fn start(
        client: Client,
        program: &Program,
        device_config: Vec<u8>,
        config: DriverConfig,
        control: Box<dyn ControlPort>,
    ) -> Result<Self, P4RuntimeError> {
        if config.control_port == 0 {
            let what = "the control port is 0, which P4Runtime does not have: use another".into();
            return Err(P4RuntimeError::Config { switch: client.name().into(), what });
        }
        let info = p4info(program).map_err(P4RuntimeError::P4Info)?;
        if config.device_format == DeviceFormat::Bmv2 && !device_config.is_empty() {
            let misfit = check_bmv2(&info, &device_config).err();
            if let Some(what) = misfit {
                return Err(P4RuntimeError::DeviceConfig { switch: client.name().into(), what });
            }
        }
        let before = Before::take(&client)?;
        if let Err(error) = client.set_pipeline(info, device_config) {
            before.restore(&client);
            return Err(error);
        }
        let schema = client.schema().ok_or_else(|| P4RuntimeError::NoPipeline {
            switch: client.name().into(),
            rpc: Rpc::SetPipeline,
        })?;
        let mut tables = Tables::new(client, schema);
        let entries = [Kind::Advance, Kind::Probe].map(|kind| controller_entry(config.control_port, kind));
        if let Err(error) = tables.insert(&entries) {
            before.restore(&tables.client);
            return Err(misfit(error));
        }
        Ok(Self {
            tables,
            control,
            config,
            bound: BTreeMap::new(),
            groups: BTreeMap::new(),
            children: BTreeMap::new(),
            nonce: RandomState::new().build_hasher().finish() as u32,
        })
    }

    /// The connection, for reading counters and entries.
    pub fn client(&self) -> &Client {
        &self.tables.client
    }

    /// What a counter has counted, by cell.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`], also when the program has no such counter.
    pub fn counters(&self, counter_id: u32) -> Result<Vec<u64>, P4RuntimeError> {
        self.tables.client.counters(counter_id)
    }

    fn ethernet(&self) -> bool {
        self.config.profile.encapsulation == Encapsulation::Ethernet
    }

    fn at(&self, port: u16) -> Result<&Bound, DriverError> {
        let unbound = || port_error(port, PortError::Unbound);
        self.bound.get(&port).ok_or_else(unbound)
    }

    /// Entries with the switch's port numbers in place of the control plane's.
    fn placed(&self, entries: &[TableEntry]) -> Result<Vec<TableEntry>, DriverError> {
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter(|entry| entry.table == table_id(id::JOB)) {
            for field in entry.matches.iter_mut().filter(|field| field.field == id::key::PORT) {
                let port = u16::try_from(field.value).map_err(|_| EntryError::Field(field.field))?;
                field.value = u64::from(self.at(port)?.at.port);
            }
        }
        Ok(entries)
    }

    /// Checks a group and returns its copies with the switch's port numbers, and the entries that address them.
    fn resolve(
        &self,
        group: u16,
        replicas: &[Replica],
    ) -> Result<(Vec<Replica>, BTreeMap<u16, TableEntry>), DriverError> {
        if group == 0 || group > self.config.groups_max {
            return Err(EntryError::Group(group).into());
        }
        let mut placed = Vec::with_capacity(replicas.len());
        let mut children = BTreeMap::new();
        for replica in replicas {
            let Bound { peer, at } = *self.at(replica.port)?;
            placed.push(Replica { port: at.port, instance: replica.instance });
            let taken = self.children.get(&replica.instance).is_some_and(|(other, _)| *other != group);
            if replica.instance == 0 || taken {
                return Err(EntryError::Group(group).into());
            }
            let to = Address { mac: at.mac, ip: peer.ip().to_bits(), port: peer.port() };
            let entry = child_entry(replica.instance, to, self.config.switch);
            if children.insert(replica.instance, entry).is_some() {
                return Err(EntryError::Group(group).into());
            }
        }
        if !self.ethernet() {
            children.clear();
        }
        Ok((placed, children))
    }

    /// Writes the entries that address a group's copies. What they replace is returned, to be put back.
    fn write_children(
        &mut self,
        group: u16,
        wanted: &BTreeMap<u16, TableEntry>,
    ) -> Result<Vec<TableEntry>, DriverError> {
        let mut new = Vec::new();
        let (mut changed, mut old) = (Vec::new(), Vec::new());
        for (instance, entry) in wanted {
            match self.children.get(instance) {
                None => new.push(entry.clone()),
                Some((_, held)) if held != entry => {
                    changed.push(entry.clone());
                    old.push(held.clone());
                }
                Some(_) => {}
            }
        }
        self.tables.insert(&new).map_err(refused)?;
        if let Err(error) = self.tables.modify(&changed) {
            let _ = self.tables.modify(&old);
            let _ = self.tables.delete(&new);
            return Err(refused(error));
        }
        for (instance, entry) in wanted {
            self.children.insert(*instance, (group, entry.clone()));
        }
        Ok(old)
    }

    /// Removes the entries that address copies of `group` whose instance is not in `keep`.
    fn drop_children(&mut self, group: u16, keep: &BTreeSet<u16>) -> Result<(), DriverError> {
        let stale =
            self.children.iter().filter(|(instance, (of, _))| *of == group && !keep.contains(instance));
        let (stale, entries): (Vec<u16>, Vec<_>) = stale.map(|(i, (_, entry))| (*i, entry.clone())).unzip();
        self.tables.delete(&entries).map_err(refused)?;
        self.children.retain(|instance, _| !stale.contains(instance));
        Ok(())
    }

    /// Brings a group to `replicas`, or back to what it was.
    fn write_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<(), DriverError> {
        let held = self.groups.get(&group);
        if held.is_some_and(|held| held.sure && held.replicas == replicas) {
            return Ok(());
        }
        let before = held.map(|held| held.replicas.clone());
        if held.is_some_and(|held| !held.sure) {
            self.tables.delete_group(group).map_err(refused)?;
            self.groups.remove(&group);
        }
        let exists = self.groups.contains_key(&group);
        let Err(error) = self.tables.set_group(group, &replicas, exists) else {
            self.groups.insert(group, Group { replicas, sure: true });
            return Ok(());
        };
        // Some switches forget half of a group when a change fails, so it is created again.
        let restored = self.tables.delete_group(group).is_ok();
        self.groups.remove(&group);
        if let Some(replicas) = before {
            let sure = restored && self.tables.set_group(group, &replicas, false).is_ok();
            self.groups.insert(group, Group { replicas, sure });
        } else if !restored {
            self.groups.insert(group, Group { replicas: Vec::new(), sure: false });
        }
        Err(refused(error))
    }
}

impl SwitchDriver for P4RuntimeDriver {
    fn limits(&self) -> Limits {
        Limits { groups_max: self.config.groups_max, ..Limits::of(&self.config.profile, UDP_PORT) }
    }

    fn numerics(&self) -> Numerics {
        self.config.profile.numerics
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        let SocketAddr::V4(peer) = peer else {
            return Err(port_error(port, PortError::NotIpv4(peer)));
        };
        if port >= self.limits().ports_max {
            return Err(port_error(port, PortError::Number));
        }
        let at = (self.config.peers)(peer).ok_or_else(|| port_error(port, PortError::Unknown(peer)))?;
        if at.port == 0 || at.port == self.config.control_port {
            return Err(port_error(port, PortError::Reserved(at.port)));
        }
        self.bound.insert(port, Bound { peer, at });
        Ok(())
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.bound.remove(&port);
        Ok(())
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let entries = self.placed(entries)?;
        self.tables.insert(&entries).map_err(refused)
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        let entries = self.placed(entries)?;
        self.tables.delete(&entries).map_err(refused)
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        let (placed, children) = self.resolve(group, replicas)?;
        let before: BTreeSet<u16> = self.children.keys().copied().collect();
        let replaced = self.write_children(group, &children)?;
        if let Err(error) = self.write_group(group, placed) {
            let _ = self.tables.modify(&replaced);
            for entry in replaced {
                let instance = entry.matches.first().map_or(0, |field| field.value as u16);
                self.children.insert(instance, (group, entry));
            }
            let _ = self.drop_children(group, &before);
            return Err(error);
        }
        // The group has its copies now; an address too many does no harm and goes with the group at the latest.
        let _ = self.drop_children(group, &children.keys().copied().collect());
        Ok(())
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.tables.delete_group(group).map_err(refused)?;
        self.groups.remove(&group);
        self.drop_children(group, &BTreeSet::new())
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.config.profile.slots && slots > 0);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        advance(self.control.as_mut(), self.nonce, first_slot, slots, chunk)
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.config.profile.slots);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        release(self.control.as_mut(), self.nonce, (first_slot, slots), epoch)
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        let counted = self.counters(counter_id(id::SPILLED)).map_err(refused)?;
        Ok(counted.get(usize::from(group)).copied().unwrap_or(0))
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.config.profile.slots);
        end.ok_or(EntryError::Param(0))?;
        self.nonce = self.nonce.wrapping_add(1);
        read_slots(self.control.as_mut(), self.nonce, first_slot, slots)
    }
}

/// What a switch had before it was taken over.
struct Before {
    pipeline: Option<v1::ForwardingPipelineConfig>,
    groups: Vec<v1::MulticastGroupEntry>,
}

impl Before {
    /// Notes what a switch has and removes its groups: a new pipeline does not empty bmv2's replication engine, and a
    /// group of the same number would get the old copies beside its own.
    fn take(client: &Client) -> Result<Self, P4RuntimeError> {
        let pipeline = client.pipeline()?;
        // bmv2 crashes when groups are read after it has refused its first pipeline.
        let groups = if pipeline.is_some() { groups(client)? } else { Vec::new() };
        let before = Self { pipeline, groups };
        client.write(before.group_updates(UpdateType::Delete))?;
        Ok(before)
    }

    /// Puts back what can be put back. The caller has an error to report that matters more than those here.
    fn restore(self, client: &Client) {
        let groups = self.group_updates(UpdateType::Insert);
        let Some(pipeline) = self.pipeline else { return };
        let unchanged = client.pipeline().is_ok_and(|now| now.as_ref() == Some(&pipeline));
        if unchanged
            || pipeline
                .p4info
                .is_some_and(|info| client.set_pipeline(info, pipeline.p4_device_config).is_ok())
        {
            let _ = client.write(groups);
        }
    }

    fn group_updates(&self, kind: UpdateType) -> Vec<v1::Update> {
        self.groups.iter().map(|group| group_update(kind, group.clone())).collect()
    }
}

/// Checks that bmv2's JSON has every table and action of a P4Info.
pub(super) fn check_bmv2(info: &P4Info, json: &[u8]) -> Result<(), String> {
    let json: Value = serde_json::from_slice(json).map_err(|error| format!("it is no JSON: {error}"))?;
    let names = |list: &Value| -> BTreeSet<String> {
        let objects = list.as_array().into_iter().flatten();
        objects.filter_map(|object| object["name"].as_str().map(str::to_owned)).collect()
    };
    let pipelines = json["pipelines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tables: BTreeSet<String> = pipelines.iter().flat_map(|pipeline| names(&pipeline["tables"])).collect();
    let actions = names(&json["actions"]);
    let wanted = info.tables.iter().map(|table| ("table", &table.preamble, &tables));
    let wanted = wanted.chain(info.actions.iter().map(|action| ("action", &action.preamble, &actions)));
    for (what, preamble, there) in wanted {
        let name = preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
        if !there.contains(name) {
            return Err(format!("it has no {what} {name}"));
        }
    }
    Ok(())
}

/// The error for a switch that takes a pipeline but none of its entries. bmv2 does that with any JSON object.
fn misfit(error: P4RuntimeError) -> P4RuntimeError {
    match error {
        P4RuntimeError::Write { switch, failed, .. } => {
            let code = failed.first().map_or(Code::Unknown, |failure| failure.code);
            let first = failed.first().map(ToString::to_string).unwrap_or_default();
            let message = format!("the device configuration is not that of the program: {first}");
            P4RuntimeError::Pipeline { switch, code, message }
        }
        error => error,
    }
}

fn port_error(port: u16, problem: PortError) -> DriverError {
    DriverError::Port { port, source: Box::new(problem) }
}

pub(super) fn refused(error: P4RuntimeError) -> DriverError {
    match error {
        P4RuntimeError::Timeout { .. }
        | P4RuntimeError::Broken { .. }
        | P4RuntimeError::Connect { .. }
        | P4RuntimeError::Down { .. }
        | P4RuntimeError::Thread { .. } => DriverError::Unreachable(Box::new(error)),
        error => DriverError::Refused(Box::new(error)),
    }
}
