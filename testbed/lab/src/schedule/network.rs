//! Hosts at a switch, one of them behind a shaped link.
//!
//! | addresses | of |
//! |---|---|
//! | 10.81.I.1 | host I; the switch's end of its link is .254 |
//! | 10.81.255.1 | the switch and the controller |
//! | 127.0.0.1 | P4Runtime, in the switch's namespace |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};
use netfold_wire::UDP_PORT;

use crate::shaper;

/// Hosts.
pub(super) const HOSTS: usize = 4;

/// The host behind the shaped link.
pub(super) const SHARED: usize = 0;

/// The code point of packets of the important half of the classes.
pub(super) const IMPORTANT_DSCP: u8 = 46;

/// The address of the switch.
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 81, 255, 1);

/// What shapes the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// One queue.
    Plain,
    /// Two queues, the second of which is served while the first is empty.
    Classes,
}

/// The namespaces. Dropping it removes everything.
pub(super) struct Network {
    names: NamespaceSet,
}

fn host_address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, host as u8, 1)
}

impl Network {
    /// The namespaces, with the first host's link shaped to a rate in both directions.
    pub(super) fn build(link: Link, rate_bps: f64) -> Result<Self, CommandError> {
        let mut network = Self { names: NamespaceSet::new() };
        let switch = network.names.add('s', 0)?;
        network.on(&switch, "link set lo up")?;
        network.on(&switch, &format!("addr add {SWITCH}/32 dev lo"))?;
        for at in 0..HOSTS {
            let host = network.names.add('h', at)?;
            let gateway = Ipv4Addr::new(10, 81, at as u8, 254);
            command(&format!("ip link add eth0 netns {host} type veth peer name host{at} netns {switch}"))?;
            network.on(&host, "link set lo up")?;
            network.up(&host, "eth0", host_address(at))?;
            network.up(&switch, &format!("host{at}"), gateway)?;
            network.on(&host, &format!("route add default via {gateway}"))?;
        }
        shape(&network.host(SHARED), "eth0", link, rate_bps)?;
        shape(&switch, &format!("host{SHARED}"), link, rate_bps)?;
        Ok(network)
    }

    fn up(&self, namespace: &str, device: &str, address: Ipv4Addr) -> Result<(), CommandError> {
        self.on(namespace, &format!("addr add {address}/24 dev {device}"))?;
        self.on(namespace, &format!("link set {device} up"))
    }

    fn on(&self, namespace: &str, words: &str) -> Result<(), CommandError> {
        command(&format!("ip -n {namespace} {words}")).map(drop)
    }

    fn host(&self, host: usize) -> String {
        self.names.name('h', host)
    }

    /// The namespace of the switch and the controller.
    pub(super) fn switch(&self) -> String {
        self.names.name('s', 0)
    }

    /// A command in the namespace of the switch.
    pub(super) fn on_switch(&self, program: &Path) -> Command {
        command_in(&self.switch(), program)
    }

    /// A command on a host.
    pub(super) fn on_host(&self, host: usize, program: &Path) -> Command {
        command_in(&self.host(host), program)
    }
}

/// Shapes what a device sends.
fn shape(namespace: &str, device: &str, link: Link, rate_bps: f64) -> Result<(), CommandError> {
    match link {
        Link::Plain => shaper::shape(namespace, device, rate_bps),
        Link::Classes => shaper::shape_by_class(namespace, device, rate_bps, IMPORTANT_DSCP),
    }
}

/// Where the controller has its workers' port.
pub(super) fn workers_address() -> SocketAddr {
    SocketAddr::new(SWITCH.into(), UDP_PORT + 1)
}

/// Where workers send packets.
pub(super) fn data_address() -> SocketAddr {
    SocketAddr::new(SWITCH.into(), UDP_PORT)
}

/// Where the switch is controlled.
pub(super) fn p4runtime_address() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9559)
}

/// The topology file that the controller is given.
pub(super) fn topology() -> String {
    let (p4runtime, data) = (p4runtime_address(), data_address());
    let switch = format!("[[switch]]\nname = \"switch\"\np4runtime = \"{p4runtime}\"\ndata = \"{data}\"\n");
    let host = |at| {
        let address = host_address(at);
        format!("\n[[host]]\nname = \"host{at}\"\naddresses = [\"{address}\"]\nswitch = \"switch\"\n")
    };
    (0..HOSTS).map(host).fold(switch, |text, host| text + &host)
}
