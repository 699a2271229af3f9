//! The fabric: a network namespace for each switch, each host and the controller, with links and routes as a data centre has them.
//!
//! | addresses | of |
//! |---|---|
//! | 10.78.0.1 up | switches: leaves, then spines; on their loopback interfaces, so that they do not depend on one link |
//! | 10.78.1.0/24, 10.78.2.0/24 | hosts of the first leaf and of the second; the leaf is .254 |
//! | 10.78.100.0/24 | links of leaves and spines, two addresses each |
//! | 10.78.200.0/24 | management: switches as above, the controller is .254 |
//!
//! Hosts have one route, to their leaf. Leaves spread other traffic over both spines and leave out those whose links are down.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use netfold_wire::UDP_PORT;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};

use super::SLOTS;

/// Number of leaves, and of spines.
pub(super) const LEAVES: usize = 2;
pub(super) const SPINES: usize = 2;

/// Number of switches, leaves first.
pub(super) const SWITCHES: usize = LEAVES + SPINES;

/// TCP port of the switches' P4Runtime servers.
const P4RUNTIME_PORT: u16 = 9559;

/// Switches forward between their links, along routes whose links are up, and distinguish flows by their ports.
const FORWARDING: &str = "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
    net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv4.conf.default.ignore_routes_with_linkdown=1 \
    net.ipv4.fib_multipath_hash_policy=1";

/// The namespaces. Dropping it removes everything.
pub(super) struct Fabric {
    names: NamespaceSet,
    workers: u16,
}

fn address(third: u8, fourth: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, third, fourth as u8)
}

/// A switch's name: `leaf1`, `spine2`.
pub(super) fn switch_name(switch: usize) -> String {
    match switch.checked_sub(LEAVES) {
        None => format!("leaf{}", switch + 1),
        Some(spine) => format!("spine{}", spine + 1),
    }
}

/// Where a switch takes packets.
pub(super) fn data_address(switch: usize) -> SocketAddr {
    SocketAddr::new(address(0, 1 + switch).into(), UDP_PORT)
}

/// Where a switch is controlled.
pub(super) fn p4runtime_address(switch: usize) -> SocketAddr {
    SocketAddr::new(address(200, 1 + switch).into(), P4RUNTIME_PORT)
}

/// Where workers reach the controller.
pub(super) fn controller_address() -> SocketAddr {
    SocketAddr::new(address(200, 254).into(), UDP_PORT)
}

/// The ends of the link of a leaf and a spine.
fn link_ends(leaf: usize, spine: usize) -> (Ipv4Addr, Ipv4Addr) {
    let first = 2 * (SPINES * leaf + spine);
    (address(100, first), address(100, first + 1))
}

impl Fabric {
    /// The fabric, with as many hosts as workers, dealt evenly to the leaves: the first half at the first.
    pub(super) fn build(workers: u16) -> Result<Self, CommandError> {
        let mut fabric = Self { names: NamespaceSet::new(), workers };
        fabric.names.add('t', 0)?;
        let controller = fabric.controller();
        fabric.on(&controller, "link set lo up")?;
        fabric.on(&controller, "link add br0 type bridge")?;
        fabric.on(&controller, &format!("addr add {}/24 dev br0", address(200, 254)))?;
        fabric.on(&controller, "link set br0 up")?;
        for switch in 0..SWITCHES {
            fabric.add_switch(switch)?;
        }
        for leaf in 0..LEAVES {
            fabric.add_leaf(leaf)?;
        }
        for leaf in 0..LEAVES {
            for spine in 0..SPINES {
                fabric.link(leaf, spine)?;
            }
        }
        for leaf in 0..LEAVES {
            fabric.spread(leaf)?;
        }
        for rank in 0..workers {
            fabric.add_host(rank)?;
        }
        Ok(fabric)
    }

    /// A switch on its own, but for its management link.
    fn add_switch(&mut self, switch: usize) -> Result<(), CommandError> {
        self.names.add('s', switch)?;
        let (name, controller) = (self.switch(switch), self.controller());
        command(&format!("ip netns exec {name} sysctl -q -w {FORWARDING}"))?;
        self.on(&name, "link set lo up")?;
        self.on(&name, &format!("addr add {}/32 dev lo", data_address(switch).ip()))?;
        command(&format!("ip link add mgmt0 netns {name} type veth peer name m{switch} netns {controller}"))?;
        self.on(&controller, &format!("link set m{switch} master br0 up"))?;
        self.on(&name, &format!("addr add {}/24 dev mgmt0", p4runtime_address(switch).ip()))?;
        self.on(&name, "link set mgmt0 up")
    }

    /// What a leaf has and a spine has not: hosts, which reach the controller over it.
    fn add_leaf(&self, leaf: usize) -> Result<(), CommandError> {
        let name = self.switch(leaf);
        self.on(&name, "link add br0 type bridge")?;
        self.on(&name, &format!("addr add {}/24 dev br0", address(1 + leaf as u8, 254)))?;
        self.on(&name, "link set br0 up")?;
        let (hosts, via) = (address(1 + leaf as u8, 0), p4runtime_address(leaf).ip());
        self.on(&self.controller(), &format!("route add {hosts}/24 via {via}"))
    }

    /// A link between a leaf and a spine, and the spine's routes over it.
    fn link(&self, leaf: usize, spine: usize) -> Result<(), CommandError> {
        let (below, above) = (self.switch(leaf), self.switch(LEAVES + spine));
        let (lower, upper) = link_ends(leaf, spine);
        command(&format!(
            "ip link add up{spine} netns {below} type veth peer name down{leaf} netns {above}"
        ))?;
        self.on(&below, &format!("addr add {lower}/31 dev up{spine}"))?;
        self.on(&above, &format!("addr add {upper}/31 dev down{leaf}"))?;
        self.on(&below, &format!("link set up{spine} up"))?;
        self.on(&above, &format!("link set down{leaf} up"))?;
        let (leaf_address, spine_address) = (data_address(leaf).ip(), data_address(LEAVES + spine).ip());
        self.on(&below, &format!("route add {spine_address} via {upper} src {leaf_address}"))?;
        self.on(&above, &format!("route add {leaf_address} via {lower} src {spine_address}"))?;
        self.on(&above, &format!("route add {}/24 via {lower}", address(1 + leaf as u8, 0)))
    }

    /// A leaf's routes to the other leaves and their hosts: over all spines.
    fn spread(&self, leaf: usize) -> Result<(), CommandError> {
        let hops: Vec<String> =
            (0..SPINES).map(|spine| format!("nexthop via {}", link_ends(leaf, spine).1)).collect();
        for other in (0..LEAVES).filter(|other| *other != leaf) {
            for prefix in
                [format!("{}/24", address(1 + other as u8, 0)), data_address(other).ip().to_string()]
            {
                self.on(&self.switch(leaf), &format!("route add {prefix} {}", hops.join(" ")))?;
            }
        }
        Ok(())
    }

    fn add_host(&mut self, rank: u16) -> Result<(), CommandError> {
        self.names.add('h', usize::from(rank))?;
        let (name, leaf) = (self.host(rank), self.leaf_of(rank));
        let switch = self.switch(leaf);
        command(&format!("ip link add eth0 netns {name} type veth peer name h{rank} netns {switch}"))?;
        self.on(&switch, &format!("link set h{rank} master br0 up"))?;
        self.on(&name, "link set lo up")?;
        self.on(&name, &format!("addr add {}/24 dev eth0", self.host_address(rank)))?;
        self.on(&name, "link set eth0 up")?;
        self.on(&name, &format!("route add default via {}", address(1 + leaf as u8, 254)))
    }

    fn on(&self, namespace: &str, words: &str) -> Result<(), CommandError> {
        command(&format!("ip -n {namespace} {words}")).map(drop)
    }

    /// Takes all links of a spine down, as a loss of power does.
    pub(super) fn cut_off(&self, spine: usize) -> Result<(), CommandError> {
        let name = self.switch(spine);
        for link in (0..LEAVES).map(|leaf| format!("down{leaf}")).chain(["mgmt0".to_owned()]) {
            self.on(&name, &format!("link set {link} down"))?;
        }
        Ok(())
    }

    /// The leaf that a rank's host hangs at.
    pub(super) fn leaf_of(&self, rank: u16) -> usize {
        usize::from(rank) * LEAVES / usize::from(self.workers)
    }

    /// The ranks of a leaf's hosts.
    pub(super) fn ranks_of(&self, leaf: usize) -> Vec<u16> {
        (0..self.workers).filter(|rank| self.leaf_of(*rank) == leaf).collect()
    }

    /// The address of a rank's host.
    pub(super) fn host_address(&self, rank: u16) -> IpAddr {
        address(1 + self.leaf_of(rank) as u8, 1 + usize::from(rank)).into()
    }

    /// The controller's namespace.
    pub(super) fn controller(&self) -> String {
        self.names.name('t', 0)
    }

    fn switch(&self, switch: usize) -> String {
        self.names.name('s', switch)
    }

    fn host(&self, rank: u16) -> String {
        self.names.name('h', usize::from(rank))
    }

    /// A command in a switch's namespace.
    pub(super) fn on_switch(&self, switch: usize, program: &std::path::Path) -> Command {
        command_in(&self.switch(switch), program)
    }

    /// A command in a host's namespace.
    pub(super) fn on_host(&self, rank: u16, program: &std::path::Path) -> Command {
        command_in(&self.host(rank), program)
    }

    /// The topology file that the controller is given.
    pub(super) fn topology(&self) -> String {
        let mut text = String::new();
        for switch in 0..SWITCHES {
            let role = if switch < LEAVES { "leaf" } else { "spine" };
            let _ = writeln!(
                text,
                "[[switch]]\nname = \"{}\"\np4runtime = \"{}\"\ndata = \"{}\"\nrole = \"{role}\"\nslots = {SLOTS}\n",
                switch_name(switch),
                p4runtime_address(switch),
                data_address(switch)
            );
        }
        for rank in 0..self.workers {
            let (address, leaf) = (self.host_address(rank), switch_name(self.leaf_of(rank)));
            let _ = writeln!(
                text,
                "[[host]]\nname = \"host{rank}\"\naddresses = [\"{address}\"]\nswitch = \"{leaf}\"\n"
            );
        }
        for leaf in 0..LEAVES {
            for spine in 0..SPINES {
                let (a, b) = (switch_name(leaf), switch_name(LEAVES + spine));
                let _ = writeln!(text, "[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
            }
        }
        text
    }
}
