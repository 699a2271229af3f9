//! Hosts at a switch, one of them behind a shaped link; or two of them behind a leaf, with shaped links, and two equal paths from there to the switch.
//!
//! | addresses | of |
//! |---|---|
//! | 10.81.I.1 | host I; the switch's end of its link is .254 |
//! | 10.81.255.1 | the switch and the controller |
//! | 10.81.100.0/30 | both paths, two addresses each: the leaf's and the switch's |
//! | 127.0.0.1 | P4Runtime, in the switch's namespace |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};
use netfold_wire::UDP_PORT;

use crate::shaper;

/// Hosts, one of which is needed for equal paths alone.
pub(super) const HOSTS: usize = 5;

/// The host behind the shaped link.
pub(super) const SHARED: usize = 0;

/// The hosts behind equal paths.
const FAR: [usize; 2] = [SHARED, 4];

/// Equal paths.
const PATHS: u8 = 2;

/// The seed of their hash.
const SEED: u32 = 7;

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
    /// One queue each, of two equal paths; a host of each job is behind them, at a link of the same rate.
    Paths,
}

impl Link {
    fn hosts(self) -> usize {
        if self == Self::Paths { HOSTS } else { HOSTS - 1 }
    }
}

/// The namespaces. Dropping it removes everything.
pub(super) struct Network {
    names: NamespaceSet,
}

/// What routers over equal paths need; the last is the seed.
const SPREADING: &str = "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
    net.ipv4.fib_multipath_hash_policy=1 net.ipv4.fib_multipath_hash_seed";

/// The address of an end of a path: the leaf's, 0, or the switch's, 1.
fn path_address(path: u8, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, 100, 2 * path + end)
}

/// Next hops over all paths, to that end of each.
fn hops(end: u8) -> String {
    let hops: Vec<String> =
        (0..PATHS).map(|path| format!("nexthop via {}", path_address(path, end))).collect();
    hops.join(" ")
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
        let far = if link == Link::Paths { &FAR[..] } else { &[] };
        let leaf = if far.is_empty() { switch.clone() } else { network.add_leaf(&switch, rate_bps)? };
        for at in 0..link.hosts() {
            let host = network.names.add('h', at)?;
            let above = if far.contains(&at) { &leaf } else { &switch };
            let gateway = Ipv4Addr::new(10, 81, at as u8, 254);
            command(&format!("ip link add eth0 netns {host} type veth peer name host{at} netns {above}"))?;
            network.on(&host, "link set lo up")?;
            network.up(&host, "eth0", (host_address(at), 24))?;
            network.up(above, &format!("host{at}"), (gateway, 24))?;
            network.on(&host, &format!("route add default via {gateway}"))?;
            if far.contains(&at) || at == SHARED {
                shape(&host, "eth0", link, rate_bps)?;
                shape(above, &format!("host{at}"), link, rate_bps)?;
            }
            if far.contains(&at) {
                network.on(&switch, &format!("route add 10.81.{at}.0/24 {}", hops(0)))?;
            }
        }
        Ok(network)
    }

    /// A leaf, and equal paths from it to the switch.
    fn add_leaf(&mut self, switch: &str, rate_bps: f64) -> Result<String, CommandError> {
        let leaf = self.names.add('l', 0)?;
        self.on(&leaf, "link set lo up")?;
        for name in [&leaf, switch] {
            command(&format!("ip netns exec {name} sysctl -q -w {SPREADING}={SEED}"))?;
        }
        for path in 0..PATHS {
            let device = format!("path{path}");
            command(&format!(
                "ip link add {device} netns {leaf} type veth peer name {device} netns {switch}"
            ))?;
            for (name, end) in [(leaf.as_str(), 0), (switch, 1)] {
                self.up(name, &device, (path_address(path, end), 31))?;
                shaper::shape(name, &device, rate_bps)?;
            }
        }
        self.on(&leaf, &format!("route add {SWITCH}/32 {}", hops(1)))?;
        Ok(leaf)
    }

    fn up(&self, namespace: &str, device: &str, (address, bits): (Ipv4Addr, u8)) -> Result<(), CommandError> {
        self.on(namespace, &format!("addr add {address}/{bits} dev {device}"))?;
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
        Link::Plain | Link::Paths => shaper::shape(namespace, device, rate_bps),
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
pub(super) fn topology(link: Link) -> String {
    let (p4runtime, data) = (p4runtime_address(), data_address());
    let switch = format!("[[switch]]\nname = \"switch\"\np4runtime = \"{p4runtime}\"\ndata = \"{data}\"\n");
    let host = |at| {
        let address = host_address(at);
        format!("\n[[host]]\nname = \"host{at}\"\naddresses = [\"{address}\"]\nswitch = \"switch\"\n")
    };
    let near: Vec<String> = (0..HOSTS)
        .filter(|host| !FAR.contains(host))
        .map(|host| format!("\"{}\"", host_address(host)))
        .collect();
    let ecmp = format!(
        "ecmp = {{ hash = \"linux\", seed = {SEED}, paths = {PATHS}, direct = [{}] }}\n",
        near.join(", ")
    );
    let whole = if link == Link::Paths { ecmp + &switch } else { switch };
    (0..HOSTS).map(host).fold(whole, |text, host| text + &host)
}
