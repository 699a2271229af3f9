//! Hosts at a switch, and an aggregator behind it.
//!
//! | addresses | of |
//! |---|---|
//! | 10.83.I.1 | host I; the switch's end of its link is .254 |
//! | 10.83.200.1 | the aggregator; the switch's end of its link is .254 |
//! | 10.83.255.1 | the switch and the controller |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};
use netfold_wire::UDP_PORT;

use super::SpillConfig;
use crate::shaper;

/// Hosts: two of each job.
pub(super) const HOSTS: usize = 4;

const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 1);
const AGGREGATOR: Ipv4Addr = Ipv4Addr::new(10, 83, 200, 1);

/// The namespaces. Dropping it removes everything.
pub(super) struct Network {
    names: NamespaceSet,
}

fn host_address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 83, host as u8, 1)
}

impl Network {
    /// The namespaces, with all links shaped in both directions.
    pub(super) fn build(config: &SpillConfig) -> Result<Self, CommandError> {
        let mut network = Self { names: NamespaceSet::new() };
        let switch = network.names.add('s', 0)?;
        network.on(&switch, "link set lo up")?;
        network.on(&switch, &format!("addr add {SWITCH}/32 dev lo"))?;
        // Ranks that continue without a switch talk to each other.
        command(&format!("ip netns exec {switch} sysctl -qw net.ipv4.ip_forward=1"))?;
        for at in 0..HOSTS {
            let host = network.names.add('h', at)?;
            let near = format!("host{at}");
            network.attach((&switch, &near), &host, host_address(at), config.rate_bps)?;
        }
        let aggregator = network.names.add('a', 0)?;
        network.attach((&switch, "above"), &aggregator, AGGREGATOR, config.up_bps)?;
        Ok(network)
    }

    /// A link from the switch to a namespace, whose default route it is.
    fn attach(
        &self,
        (switch, near): (&str, &str),
        far: &str,
        address: Ipv4Addr,
        rate_bps: f64,
    ) -> Result<(), CommandError> {
        let [a, b, c, _] = address.octets();
        let gateway = Ipv4Addr::new(a, b, c, 254);
        command(&format!("ip link add eth0 netns {far} type veth peer name {near} netns {switch}"))?;
        self.on(far, "link set lo up")?;
        self.up(far, "eth0", address)?;
        self.up(switch, near, gateway)?;
        self.on(far, &format!("route add default via {gateway}"))?;
        shaper::shape(far, "eth0", rate_bps)?;
        shaper::shape(switch, near, rate_bps)
    }

    fn up(&self, namespace: &str, device: &str, address: Ipv4Addr) -> Result<(), CommandError> {
        self.on(namespace, &format!("addr add {address}/24 dev {device}"))?;
        self.on(namespace, &format!("link set {device} up"))
    }

    fn on(&self, namespace: &str, words: &str) -> Result<(), CommandError> {
        command(&format!("ip -n {namespace} {words}")).map(drop)
    }

    /// The namespace of the switch and the controller.
    pub(super) fn switch(&self) -> String {
        self.names.name('s', 0)
    }

    /// A command beside the switch, or beside the aggregator.
    pub(super) fn on_switch(&self, node: Node, program: &Path) -> Command {
        let namespace = if node == Node::Switch { self.switch() } else { self.names.name('a', 0) };
        command_in(&namespace, program)
    }

    /// A command on a host.
    pub(super) fn on_host(&self, host: usize, program: &Path) -> Command {
        command_in(&self.names.name('h', host), program)
    }
}

/// The two switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Switch,
    Aggregator,
}

impl Node {
    pub(super) const ALL: [Self; 2] = [Self::Switch, Self::Aggregator];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Aggregator => "aggregator",
        }
    }

    const fn address(self) -> Ipv4Addr {
        match self {
            Self::Switch => SWITCH,
            Self::Aggregator => AGGREGATOR,
        }
    }

    /// Where its packets go.
    pub(super) fn data(self) -> SocketAddr {
        SocketAddr::new(self.address().into(), UDP_PORT)
    }

    /// Where it is controlled.
    pub(super) fn p4runtime(self) -> SocketAddr {
        SocketAddr::new(self.address().into(), 9559)
    }
}

/// Where the controller has its workers' port.
pub(super) fn workers_address() -> SocketAddr {
    SocketAddr::new(SWITCH.into(), UDP_PORT + 1)
}

/// Where ranks meet whose first is on this host.
pub(super) fn rendezvous(host: usize) -> SocketAddr {
    SocketAddr::new(host_address(host).into(), 29_500)
}

/// The topology file that the controller is given, of a switch with so many slots.
pub(super) fn topology(slots: u32) -> String {
    let switch = |node: Node, more: &str| {
        let (name, p4runtime, data) = (node.name(), node.p4runtime(), node.data());
        format!("[[switch]]\nname = \"{name}\"\np4runtime = \"{p4runtime}\"\ndata = \"{data}\"\n{more}\n")
    };
    let shared = switch(Node::Switch, &format!("slots = {slots}\naggregator = \"aggregator\"\n"));
    let above = switch(Node::Aggregator, "") + "[[link]]\na = \"switch\"\nb = \"aggregator\"\n";
    let host = |at| {
        let address = host_address(at);
        format!("\n[[host]]\nname = \"host{at}\"\naddresses = [\"{address}\"]\nswitch = \"switch\"\n")
    };
    (0..HOSTS).map(host).fold(shared + &above, |text, host| text + &host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_controller::topology::Topology;

    #[test]
    fn the_topology_has_an_aggregator() {
        let topology = Topology::from_toml(&topology(8)).expect("it is a topology");
        let switch = topology.switch_named("switch").expect("it is there");
        let aggregator = topology.aggregator(switch).map(|aggregator| aggregator.switch);
        assert_eq!(aggregator, topology.switch_named("aggregator"));
    }
}
