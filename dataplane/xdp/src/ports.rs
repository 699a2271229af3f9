//! Ports and multicast groups.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use netfold_bpf::sys::{Map, MapAttributes, MapType, Put};
use netfold_p4::entry::Replica;
use netfold_p4::xdp::{MEMBERS_MAX, MapId, PORTS_MAX};

use crate::{Datapath, XdpError};

/// Bytes of a value in a map of interfaces (`struct bpf_devmap_val`).
pub(crate) const INTERFACE_VALUE: u32 = 8;

/// A multicast group: the map of its members' interfaces, and each one's interface and replica id, in ascending order.
pub(crate) struct Group {
    _map: Map,
    members: Vec<(u32, u16)>,
}

impl Group {
    fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|(interface, _)| *interface)
    }
}

/// An empty map of members: their interfaces, by number.
pub(crate) fn members() -> io::Result<Map> {
    Map::create(&MapAttributes {
        kind: MapType::DeviceHash,
        name: "group",
        key_bytes: 4,
        value_bytes: INTERFACE_VALUE,
        entries: MEMBERS_MAX,
        inner: None,
        types: None,
    })
}

/// The keys of a group's members, in their order: group, interface, and how many members before it are on that interface.
fn keys(group: u16, members: &[(u32, u16)]) -> impl Iterator<Item = [u8; 12]> {
    let mut before = (0, 0);
    members.iter().map(move |(interface, _)| {
        before = if before.0 == *interface { (*interface, before.1 + 1) } else { (*interface, 0u32) };
        let words = [u32::from(group), *interface, before.1].map(u32::to_ne_bytes);
        let mut key = [0; 12];
        key.copy_from_slice(words.as_flattened());
        key
    })
}

fn refused(name: &'static str) -> impl Fn(io::Error) -> XdpError {
    move |source| XdpError::Change { name, source }
}

impl Datapath {
    /// Gives an interface a port: frames that arrive by it have that port, and copies to the port leave by it. An interface has one port for what arrives, that of
    /// the last call.
    ///
    /// # Errors
    ///
    /// [`XdpError::Change`], as when there is no such interface.
    pub fn set_port(&mut self, port: u16, interface: u32) -> Result<(), XdpError> {
        let value = self.interface_value(interface);
        let ports = self.map(MapId::Ports, "ports")?;
        ports.write(&u32::from(port).to_ne_bytes(), &value, Put::Any).map_err(refused("ports"))?;
        let interfaces = self.map(MapId::Interfaces, "interfaces")?;
        let (key, value) = (interface.to_ne_bytes(), u32::from(port).to_ne_bytes());
        interfaces.write(&key, &value, Put::Any).map_err(refused("interfaces"))?;
        self.ports.insert(port, interface);
        Ok(())
    }

    /// Sets the members of a multicast group, 0 members to remove it. The group's packets see the old or the new members.
    ///
    /// # Errors
    ///
    /// [`XdpError::Group`]; the group is unchanged. [`XdpError::Map`], [`XdpError::Change`].
    pub fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), XdpError> {
        let bad = |problem| Err(XdpError::Group { group, problem });
        if group == 0 || u32::from(group) >= PORTS_MAX {
            return bad("there are 4095 groups, from 1 on");
        }
        if replicas.len() > MEMBERS_MAX as usize {
            return bad("it has more than 32 members");
        }
        let mut wanted = Vec::with_capacity(replicas.len());
        for replica in replicas {
            let Some(interface) = self.ports.get(&replica.port) else {
                return bad("a member is at a port without an interface");
            };
            wanted.push((*interface, replica.instance));
        }
        wanted.sort_unstable();
        let ids = self.map(MapId::Members, "members")?;
        let write_ids = || {
            keys(group, &wanted).zip(&wanted).try_for_each(|(key, (_, instance))| {
                ids.write(&key, &u32::from(*instance).to_ne_bytes(), Put::Any).map_err(refused("members"))
            })
        };
        let old = self.groups.get(&group);
        // Where the interfaces are the same, their map stays.
        if old.is_some_and(|old| old.interfaces().eq(wanted.iter().map(|(interface, _)| *interface))) {
            write_ids()?;
            if let Some(group) = self.groups.get_mut(&group) {
                group.members = wanted;
            }
            return Ok(());
        }
        let map = members().map_err(|source| XdpError::Map { name: "group".into(), source })?;
        for (number, (interface, _)) in (0u32..).zip(&wanted) {
            let value = self.interface_value(*interface);
            map.write(&number.to_ne_bytes(), &value, Put::Any).map_err(refused("group"))?;
        }
        write_ids()?;
        let groups = self.map(MapId::Groups, "groups")?;
        let key = u32::from(group).to_ne_bytes();
        if wanted.is_empty() {
            groups.remove(&key).map_err(refused("groups"))?;
        } else {
            let value = map.as_fd().as_raw_fd().to_ne_bytes();
            groups.write(&key, &value, Put::Any).map_err(refused("groups"))?;
        }
        let kept: BTreeSet<_> = keys(group, &wanted).collect();
        let stale = old.into_iter().flat_map(|old| keys(group, &old.members));
        for key in stale.filter(|key| !kept.contains(key)) {
            ids.remove(&key).map_err(refused("members"))?;
        }
        self.groups.remove(&group);
        if !wanted.is_empty() {
            self.groups.insert(group, Group { _map: map, members: wanted });
        }
        Ok(())
    }

    /// Waits until every packet that is being processed has been: those that come to rest later have seen all changes made before the call.
    ///
    /// # Errors
    ///
    /// [`XdpError::Map`], [`XdpError::Change`].
    pub fn wait_for_packets(&self) -> Result<(), XdpError> {
        // The kernel returns from a change of a map of maps when no program can use the map that was replaced (`maybe_wait_bpf_programs`).
        // Group 0 does not exist.
        let map = members().map_err(|source| XdpError::Map { name: "group".into(), source })?;
        let groups = self.map(MapId::Groups, "groups")?;
        let value = map.as_fd().as_raw_fd().to_ne_bytes();
        groups.write(&0u32.to_ne_bytes(), &value, Put::Any).map_err(refused("groups"))
    }
}
