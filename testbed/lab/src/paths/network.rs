//! The fabric: a namespace for each spine, each leaf, each leaf's host and the host of the switch, with routes over all spines and shaped links.
//!
//! | addresses | of |
//! |---|---|
//! | 10.79.I.0/24 | the host at leaf I: the switch's at leaf 0, worker I - 1's at the others; the leaf is .254 |
//! | 10.79.100.0/24 | links of leaves and spines, two addresses each |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};
use netfold_wire::UDP_PORT;
use serde_json::Value;

use super::SEED;
use crate::shaper;

/// The seed of a namespace's hash; absent before Linux 6.11.
const HASH_SEED: &str = "net.ipv4.fib_multipath_hash_seed";

/// Leaves distinguish flows by their ports, and spines by nothing: they have one way to each leaf.
const FORWARDING: &str = "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
    net.ipv4.fib_multipath_hash_policy=1";

/// The namespaces. Dropping it removes everything.
pub(super) struct Fabric {
    names: NamespaceSet,
    leaves: usize,
    spines: usize,
    rate_bps: f64,
    seeded: bool,
}

fn host_address(leaf: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, leaf as u8, 1)
}

fn leaf_address(leaf: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, leaf as u8, 254)
}

impl Fabric {
    /// A fabric with a leaf for each worker and one for the switch, whose links between leaves and spines have this rate.
    pub(super) fn build(workers: u16, spines: u8, rate_bps: f64) -> Result<Self, CommandError> {
        let leaves = usize::from(workers) + 1;
        let mut fabric =
            Self { names: NamespaceSet::new(), leaves, spines: spines.into(), rate_bps, seeded: true };
        for spine in 0..fabric.spines {
            fabric.add_router('s', spine)?;
        }
        for leaf in 0..leaves {
            let name = fabric.add_router('l', leaf)?;
            let host = fabric.names.add('h', leaf)?;
            command(&format!("ip link add eth0 netns {host} type veth peer name host netns {name}"))?;
            fabric.up(&name, "host", leaf_address(leaf), 24)?;
            fabric.on(&host, "link set lo up")?;
            fabric.up(&host, "eth0", host_address(leaf), 24)?;
            fabric.on(&host, &format!("route add default via {}", leaf_address(leaf)))?;
        }
        for leaf in 0..leaves {
            (0..fabric.spines).try_for_each(|spine| fabric.link(leaf, spine))?;
        }
        (0..leaves).try_for_each(|leaf| fabric.spread(leaf))?;
        fabric.seeded = (0..leaves).all(|leaf| fabric.seed(leaf).is_ok());
        Ok(fabric)
    }

    fn add_router(&mut self, kind: char, number: usize) -> Result<String, CommandError> {
        let name = self.names.add(kind, number)?;
        command(&format!("ip netns exec {name} sysctl -q -w {FORWARDING}"))?;
        self.on(&name, "link set lo up")?;
        Ok(name)
    }

    fn up(&self, namespace: &str, device: &str, address: Ipv4Addr, bits: u8) -> Result<(), CommandError> {
        self.on(namespace, &format!("addr add {address}/{bits} dev {device}"))?;
        self.on(namespace, &format!("link set {device} up"))
    }

    /// A link of a leaf and a spine, and the spine's route to the leaf's host.
    fn link(&self, leaf: usize, spine: usize) -> Result<(), CommandError> {
        let (below, above) = (self.leaf(leaf), self.spine(spine));
        let (lower, upper) = self.link_ends(leaf, spine);
        command(&format!(
            "ip link add up{spine} netns {below} type veth peer name down{leaf} netns {above}"
        ))?;
        self.up(&below, &format!("up{spine}"), lower, 31)?;
        self.up(&above, &format!("down{leaf}"), upper, 31)?;
        for (namespace, device) in [(&below, format!("up{spine}")), (&above, format!("down{leaf}"))] {
            shaper::shape(namespace, &device, self.rate_bps)?;
        }
        self.on(&above, &format!("route add 10.79.{leaf}.0/24 via {lower}"))
    }

    fn link_ends(&self, leaf: usize, spine: usize) -> (Ipv4Addr, Ipv4Addr) {
        let first = 2 * (self.spines * leaf + spine) as u8;
        (Ipv4Addr::new(10, 79, 100, first), Ipv4Addr::new(10, 79, 100, first + 1))
    }

    /// A leaf's routes to the hosts of other leaves, over all spines.
    fn spread(&self, leaf: usize) -> Result<(), CommandError> {
        let hop = |spine| format!("nexthop via {}", self.link_ends(leaf, spine).1);
        let hops = (0..self.spines).map(hop).collect::<Vec<_>>().join(" ");
        for other in (0..self.leaves).filter(|other| *other != leaf && (leaf == 0 || *other == 0)) {
            self.on(&self.leaf(leaf), &format!("route add 10.79.{other}.0/24 {hops}"))?;
        }
        Ok(())
    }

    /// Seeds a leaf's hash.
    fn seed(&self, leaf: usize) -> Result<(), CommandError> {
        let name = self.leaf(leaf);
        command(&format!("ip netns exec {name} sysctl -q -w {HASH_SEED}={SEED}")).map(drop)
    }

    /// Whether the leaves' hash has a known seed.
    pub(super) fn is_seeded(&self) -> bool {
        self.seeded
    }

    fn on(&self, namespace: &str, words: &str) -> Result<(), CommandError> {
        command(&format!("ip -n {namespace} {words}")).map(drop)
    }

    fn leaf(&self, leaf: usize) -> String {
        self.names.name('l', leaf)
    }

    fn spine(&self, spine: usize) -> String {
        self.names.name('s', spine)
    }

    /// Gives all links of a spine this part of their rate, in both directions.
    pub(super) fn slow(&self, spine: usize, part: f64) -> Result<(), CommandError> {
        let rate = self.rate_bps * part;
        let downlinks: Vec<String> = (0..self.leaves).map(|leaf| format!("down{leaf}")).collect();
        shaper::reshape(&self.spine(spine), &downlinks, rate)?;
        for leaf in 0..self.leaves {
            shaper::reshape(&self.leaf(leaf), &[format!("up{spine}")], rate)?;
        }
        Ok(())
    }

    /// Bytes that have passed each spine since it was made, in both directions: what the switch's leaf has sent to it and received from it.
    pub(super) fn bytes(&self) -> Result<Vec<u64>, CommandError> {
        let words = format!("ip -n {} -s -j link show", self.leaf(0));
        let text = command(&words)?;
        let wrong = || CommandError { command: words.clone(), message: format!("unknown output: {text}") };
        let links: Vec<Value> = serde_json::from_str(&text).map_err(|_| wrong())?;
        let of = |spine: usize| {
            let name = format!("up{spine}");
            let link = links.iter().find(|link| link["ifname"] == name.as_str())?;
            let counted = |way: &str| link["stats64"][way]["bytes"].as_u64();
            Some(counted("rx")? + counted("tx")?)
        };
        (0..self.spines).map(|spine| of(spine).ok_or_else(wrong)).collect()
    }

    /// Where the switch listens.
    pub(super) fn switch_address() -> SocketAddr {
        SocketAddr::new(host_address(0).into(), UDP_PORT)
    }

    /// A command on the switch's host.
    pub(super) fn on_switch(&self, program: &Path) -> Command {
        command_in(&self.names.name('h', 0), program)
    }

    /// A command on a worker's host.
    pub(super) fn on_host(&self, rank: u16, program: &Path) -> Command {
        command_in(&self.names.name('h', 1 + usize::from(rank)), program)
    }
}
