//! Ports and multicast groups.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use netfold_bpf::sys::{Map, MapAttributes, MapType, Put};
use netfold_p4::entry::Replica;
use netfold_p4::xdp::{MEMBERS_MAX, MapId, PORTS_MAX};

use crate::{Datapath, XdpError};

/// Bytes of a value in a map of interfaces (`struct bpf_devmap_val`).
pub(crate) const INTERFACE_VALUE: u32 = 8;

/// A multicast group: the map of its members' interfaces, and their replica ids.
pub(crate) struct Group {
    _map: Map,
    members: BTreeMap<u32, u16>,
}

/// An empty map of members.
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

fn member(group: u16, interface: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&u32::from(group).to_ne_bytes());
    key[4..].copy_from_slice(&interface.to_ne_bytes());
    key
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
    /// [`XdpError::Member`], [`XdpError::Group`]; the group is unchanged. [`XdpError::Map`], [`XdpError::Change`].
    pub fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), XdpError> {
        let bad = |problem| Err(XdpError::Group { group, problem });
        if u32::from(group) >= PORTS_MAX {
            return bad("there are 4095 groups, from 1 on");
        }
        if replicas.len() > MEMBERS_MAX as usize {
            return bad("it has more than 32 members");
        }
        let mut wanted = BTreeMap::new();
        for replica in replicas {
            let Some(interface) = self.ports.get(&replica.port) else {
                return bad("a member is at a port without an interface");
            };
            if wanted.insert(*interface, replica.instance).is_some() {
                return Err(XdpError::Member { group, port: replica.port });
            }
        }
        let ids = self.map(MapId::Members, "members")?;
        let write_ids = || {
            wanted.iter().try_for_each(|(interface, instance)| {
                let value = u32::from(*instance).to_ne_bytes();
                ids.write(&member(group, *interface), &value, Put::Any).map_err(refused("members"))
            })
        };
        // Where the interfaces are the same, their map stays.
        if self.groups.get(&group).is_some_and(|old| old.members.keys().eq(wanted.keys())) {
            write_ids()?;
            if let Some(group) = self.groups.get_mut(&group) {
                group.members = wanted;
            }
            return Ok(());
        }
        let map = members().map_err(|source| XdpError::Map { name: "group".into(), source })?;
        for interface in wanted.keys() {
            let value = self.interface_value(*interface);
            map.write(&interface.to_ne_bytes(), &value, Put::Any).map_err(refused("group"))?;
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
        let old = self.groups.get(&group).into_iter().flat_map(|group| group.members.keys());
        for interface in old.filter(|interface| !wanted.contains_key(interface)) {
            ids.remove(&member(group, *interface)).map_err(refused("members"))?;
        }
        self.groups.remove(&group);
        if !wanted.is_empty() {
            self.groups.insert(group, Group { _map: map, members: wanted });
        }
        Ok(())
    }
}
