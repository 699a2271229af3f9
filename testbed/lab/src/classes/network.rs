//! Hosts at two leaves below a spine. All switches are in one namespace.
//!
//! | addresses | of |
//! |---|---|
//! | 10.84.I.1 | host I; the leaf's end of its link is .254 |
//! | 10.84.255.1, .2, .3 | the leaves and the spine |
//! | 127.0.0.1 | P4Runtime, in the switches' namespace |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};
use netfold_wire::UDP_PORT;

/// Hosts: the first two at the first leaf.
pub(super) const HOSTS: usize = 4;

/// Switches: two leaves and the spine.
pub(super) const SWITCHES: usize = 3;

const SPINE: usize = SWITCHES - 1;

/// The names of the switches.
pub(super) const NAMES: [&str; SWITCHES] = ["leaf0", "leaf1", "spine"];

/// The namespaces. Dropping it removes everything.
pub(super) struct Network {
    names: NamespaceSet,
}

fn host_address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 84, host as u8, 1)
}

fn switch_address(switch: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 84, 255, 1 + switch as u8)
}

impl Network {
    pub(super) fn build() -> Result<Self, CommandError> {
        let mut network = Self { names: NamespaceSet::new() };
        let switches = network.names.add('s', 0)?;
        network.on(&switches, "link set lo up")?;
        for switch in 0..SWITCHES {
            network.on(&switches, &format!("addr add {}/32 dev lo", switch_address(switch)))?;
        }
        for at in 0..HOSTS {
            let host = network.names.add('h', at)?;
            let gateway = Ipv4Addr::new(10, 84, at as u8, 254);
            command(&format!("ip link add eth0 netns {host} type veth peer name host{at} netns {switches}"))?;
            network.on(&host, "link set lo up")?;
            network.up(&host, "eth0", host_address(at))?;
            network.up(&switches, &format!("host{at}"), gateway)?;
            network.on(&host, &format!("route add default via {gateway}"))?;
        }
        Ok(network)
    }

    fn up(&self, namespace: &str, device: &str, address: Ipv4Addr) -> Result<(), CommandError> {
        self.on(namespace, &format!("addr add {address}/24 dev {device}"))?;
        self.on(namespace, &format!("link set {device} up"))
    }

    fn on(&self, namespace: &str, words: &str) -> Result<(), CommandError> {
        command(&format!("ip -n {namespace} {words}")).map(drop)
    }

    /// The namespace of the switches and the controller.
    pub(super) fn switches(&self) -> String {
        self.names.name('s', 0)
    }

    /// A command in the namespace of the switches.
    pub(super) fn on_switch(&self, program: &Path) -> Command {
        command_in(&self.switches(), program)
    }

    /// A command on a host.
    pub(super) fn on_host(&self, host: usize, program: &Path) -> Command {
        command_in(&self.names.name('h', host), program)
    }
}

/// Where the controller has its workers' port.
pub(super) fn workers_address() -> SocketAddr {
    SocketAddr::new(switch_address(0).into(), UDP_PORT + 1)
}

/// Where a switch receives packets.
pub(super) fn data_address(switch: usize) -> SocketAddr {
    SocketAddr::new(switch_address(switch).into(), UDP_PORT)
}

/// Where a switch is controlled.
pub(super) fn p4runtime_address(switch: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9559 + switch as u16)
}

/// The topology file that the controller is given.
pub(super) fn topology() -> String {
    let switch = |at: usize| {
        let (name, p4runtime, data) = (NAMES[at], p4runtime_address(at), data_address(at));
        let role = if at == SPINE { "spine" } else { "leaf" };
        format!(
            "[[switch]]\nname = \"{name}\"\np4runtime = \"{p4runtime}\"\ndata = \"{data}\"\nrole = \"{role}\"\n\n"
        )
    };
    let host = |at: usize| {
        let (address, leaf) = (host_address(at), NAMES[at * SPINE / HOSTS]);
        format!("[[host]]\nname = \"host{at}\"\naddresses = [\"{address}\"]\nswitch = \"{leaf}\"\n\n")
    };
    let link = |leaf: usize| format!("[[link]]\na = \"{}\"\nb = \"{}\"\n\n", NAMES[leaf], NAMES[SPINE]);
    let lines = (0..SWITCHES).map(switch).chain((0..HOSTS).map(host)).chain((0..SPINE).map(link));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_controller::topology::Topology;

    #[test]
    fn the_topology_can_be_read() {
        let topology = Topology::from_toml(&topology()).expect("it is a topology");
        assert!(NAMES.iter().all(|name| topology.switch_named(name).is_some()));
    }
}
