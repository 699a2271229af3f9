//! Switches, hosts and links: the network as an administrator describes it.
//!
//! [`Topology::from_toml`] reads the file that docs/topology.md explains, [`Topology::new`] takes the same as data, and
//! [`Topology::single`] is one software switch that every address is at. All of them check everything, so that who holds a
//! [`Topology`] need not: names are unique, ends exist, a port has one use, an address belongs to one host, and what packets need
//! on the way is there.
//!
//! What is described does not change while it is used: whether a switch answers, what is free there and how loaded a link is
//! are the business of [`crate::route`] and its callers.
//!
//! # Example
//!
//! ```
//! use netfold_controller::topology::Topology;
//! let topology = Topology::from_toml(
//!     r#"
//! [[switch]]
//! name = "leaf1"
//! p4runtime = "10.0.0.1:9559"
//!
//! [[host]]
//! name = "gpu1"
//! addresses = ["10.1.0.0/28"]
//! switch = "leaf1"
//! "#,
//! )?;
//! let member = topology.member("10.1.0.3".parse().expect("an address")).expect("one of gpu1's");
//! assert_eq!(topology.host(member.host).name, "gpu1");
//! # Ok::<(), netfold_controller::topology::TopologyError>(())
//! ```

mod address;
mod aggregator;
mod check;
mod error;
mod file;

pub use address::{Mac, MacError, Prefix, PrefixError};
pub use aggregator::Aggregator;
pub use error::{Element, Problem, TopologyError};

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::equal_paths::EqualPaths;
use netfold_p4::profile::{Encapsulation, Profile, by_name};

/// Most switches of a topology.
pub const SWITCHES_MAX: usize = 4096;
/// Most hosts of a topology.
pub const HOSTS_MAX: usize = 65_536;
/// Most links of a topology.
pub const LINKS_MAX: usize = 65_536;
/// Most planes of a host: switches that it is attached to.
pub const PLANES_MAX: usize = 8;
/// Most address ranges of one attachment of a host.
pub const ADDRESSES_MAX: usize = 64;
/// Longest topology file, in bytes.
pub const FILE_LEN_MAX: usize = 32 << 20;
/// Longest name of a switch or a host, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// Port by which bmv2 and Tofino exchange packets with the controller by default.
pub const CPU_PORT: u16 = 510;
/// Words of lanes in a packet of a software switch whose profile the topology does not name: 1408 bytes.
pub const LANE_WORDS_DEFAULT: u32 = 352;
/// Rate of a link for which the topology gives none, in bits a second.
pub const RATE_DEFAULT: u64 = 100_000_000_000;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The place in the topology's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A switch, by its place in [`Topology::switches`].
    SwitchId, u16
);
number!(
    /// A host, by its place in [`Topology::hosts`].
    HostId, u32
);
number!(
    /// A link, by its place in [`Topology::links`].
    LinkId, u32
);

/// What a switch is in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Hosts are attached to it; it folds only their contributions, and no other switch's results.
    Leaf,
    /// It folds other switches; no host is attached to it. Switches above spines have this role too.
    Spine,
    /// Both, as need be.
    #[default]
    Any,
}

impl Role {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Any => "any",
        }
    }
}

/// What a switch is made of, which decides how it is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Netfold's software switch: workers' UDP datagrams reach its sockets, and ports are attached on demand.
    #[default]
    Software,
    /// bmv2's `simple_switch_grpc`: frames on numbered ports.
    Bmv2,
    /// A Tofino: frames on numbered ports.
    Tofino,
}

impl Kind {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Bmv2 => "bmv2",
            Self::Tofino => "tofino",
        }
    }
}

/// How the connection to a switch is secured. Paths are as in the file; see [`Topology::relative_to`].
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Certificates (PEM) that the switch's must be signed by; the system's when absent.
    pub ca: Option<PathBuf>,
    /// Name that the switch's certificate is for; the host of its address when absent.
    pub server_name: Option<String>,
    /// The controller's own certificate (PEM), for switches that ask for one.
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate (PEM).
    pub key: Option<PathBuf>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Its name: letters, digits, `-`, `_` and `.`; unique among the switches.
    pub name: String,
    /// Where its P4Runtime server (on a Tofino: its BF Runtime server) listens, `host:port`. `None` for a switch in the
    /// controller's own process.
    pub p4runtime: Option<String>,
    /// P4Runtime's device id, not 0.
    pub device_id: u64,
    /// What it is in the fabric.
    pub role: Role,
    /// What it is made of.
    pub kind: Kind,
    /// Name of the program's profile, one of [`netfold_p4::profile::named`]. `None`: a software switch's own program.
    pub profile: Option<String>,
    /// What the target's compiler made of the program. `None` where the switch takes the program itself.
    pub device_config: Option<PathBuf>,
    /// Address and UDP port that packets for it go to. `None` for software switches that are asked.
    pub data: Option<SocketAddr>,
    /// Its Ethernet address; see [`Switch::ethernet_address`].
    pub mac: Option<Mac>,
    /// Port by which the controller's own packets come in, and no others.
    pub cpu_port: u16,
    /// Most slots to use of it; all that its program has when absent.
    pub slots: Option<u32>,
    /// Name of the software switch above it by which jobs can share its slots; see [`Topology::aggregator`].
    pub aggregator: Option<String>,
    /// How the connection to its P4Runtime server is secured; not at all when absent.
    pub tls: Option<Tls>,
}

impl Switch {
    /// A software switch that any host and switch may be attached to, with a P4Runtime server or in the controller's process.
    pub fn software(name: impl Into<String>, p4runtime: Option<String>) -> Self {
        Self {
            name: name.into(),
            p4runtime,
            device_id: 1,
            role: Role::Any,
            kind: Kind::Software,
            profile: None,
            device_config: None,
            data: None,
            mac: None,
            cpu_port: CPU_PORT,
            slots: None,
            aggregator: None,
            tls: None,
        }
    }

    /// The named profile, with the limit of slots left out; `None` where the switch brings its own program.
    pub fn profile(&self) -> Option<Profile> {
        self.profile.as_deref().and_then(by_name)
    }

    /// Whether its ports carry Ethernet frames, so that ports have numbers and peers Ethernet addresses.
    pub fn has_ethernet(&self) -> bool {
        self.profile()
            .map_or(self.kind != Kind::Software, |profile| profile.encapsulation == Encapsulation::Ethernet)
    }

    /// Its Ethernet address: the one described, or the one made of its IPv4 address, [`Mac::of`].
    pub fn ethernet_address(&self) -> Option<Mac> {
        let own = || match self.data?.ip() {
            IpAddr::V4(address) => Some(Mac::of(address)),
            IpAddr::V6(_) => None,
        };
        self.mac.or_else(own)
    }
}

/// A switch that a host is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The switch.
    pub switch: SwitchId,
    /// Its port; `None` where ports are attached on demand.
    pub port: Option<u16>,
    /// The host's Ethernet address there; `None` where there is no Ethernet.
    pub mac: Option<Mac>,
    /// Addresses that the host's workers send from there.
    pub addresses: Vec<Prefix>,
}

/// A host, or several of which it does not matter which is which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name: letters, digits, `-`, `_` and `.`; unique among the hosts.
    pub name: String,
    /// Where it is attached, one for each plane, 1 to [`PLANES_MAX`] of them at different switches.
    pub planes: Vec<Attachment>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The switch.
    pub switch: SwitchId,
    /// Its port; `None` where ports are attached on demand.
    pub port: Option<u16>,
    /// The Ethernet address at this end, where it is not that of the switch.
    pub mac: Option<Mac>,
}

/// A link between two switches. There may be several between the same two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its two ends, at different switches.
    pub ends: [End; 2],
    /// Bits a second, each way, not 0.
    pub rate_bps: u64,
}

impl Link {
    /// The end at a switch, and the other end; `None` when the link does not end there.
    pub fn seen_from(&self, switch: SwitchId) -> Option<(&End, &End)> {
        let [a, b] = &self.ends;
        if a.switch == switch {
            Some((a, b))
        } else if b.switch == switch {
            Some((b, a))
        } else {
            None
        }
    }
}

/// Planes of a host, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Planes(u8);

impl Planes {
    /// The set of one plane.
    ///
    /// # Panics
    ///
    /// When the plane is not below [`PLANES_MAX`].
    pub const fn one(plane: usize) -> Self {
        assert!(plane < PLANES_MAX, "a host has few planes");
        Self(1 << plane)
    }

    /// The first `count` planes.
    pub const fn first(count: usize) -> Self {
        if count >= PLANES_MAX { Self(u8::MAX) } else { Self((1 << count) - 1) }
    }

    /// Whether a plane is one of them.
    pub const fn contains(self, plane: usize) -> bool {
        plane < PLANES_MAX && self.0 >> plane & 1 == 1
    }

    /// How many there are.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The planes, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..PLANES_MAX).filter(move |plane| self.contains(*plane))
    }
}

/// A worker's place in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its host.
    pub host: HostId,
    /// The planes of the host in which the worker's address is.
    pub planes: Planes,
}

/// Where addresses are: by family and length of the prefix, by its bits.
type Addresses = BTreeMap<(bool, u8), BTreeMap<u128, Member>>;

/// A checked description of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    links: Vec<Link>,
    /// For each switch the links that end there and where they lead, in order of the links.
    neighbours: Vec<Vec<(LinkId, SwitchId)>>,
    addresses: Addresses,
    names: BTreeMap<String, SwitchId>,
    aggregators: aggregator::Aggregators,
    ecmp: bool,
    equal_paths: Option<EqualPaths>,
    direct: Vec<Prefix>,
}

impl Topology {
    /// Whether the fabric between hosts and their switches spreads flows over equal paths by a hash of UDP ports.
    pub fn has_ecmp(&self) -> bool {
        self.ecmp
    }

    /// The equal paths of that fabric and its hash, where they are known.
    pub fn equal_paths(&self) -> Option<EqualPaths> {
        self.equal_paths
    }

    /// Addresses of hosts whose packets to their switch, and from it, take none of the equal paths: those at its own leaf.
    pub fn direct(&self) -> &[Prefix] {
        &self.direct
    }

    /// The same network, whose fabric does so or not.
    #[must_use]
    pub fn with_ecmp(self, ecmp: bool) -> Self {
        Self { ecmp, equal_paths: None, ..self }
    }

    /// The same network, whose fabric has these equal paths, but for hosts at the addresses `direct`.
    #[must_use]
    pub fn with_equal_paths(self, equal_paths: EqualPaths, direct: Vec<Prefix>) -> Self {
        Self { ecmp: true, equal_paths: Some(equal_paths), direct, ..self }
    }

    /// One software switch that every IPv4 address is at: all that development needs. `p4runtime` is where its P4Runtime
    /// server listens, `None` when it runs in the controller's process.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] when the name or the address is none.
    pub fn single(name: impl Into<String>, p4runtime: Option<String>) -> Result<Self, TopologyError> {
        let planes = vec![Attachment {
            switch: SwitchId(0),
            port: None,
            mac: None,
            addresses: vec![Prefix::everything(false), Prefix::everything(true)],
        }];
        let hosts = vec![Host { name: "any".into(), planes }];
        Self::new(vec![Switch::software(name, p4runtime)], hosts, Vec::new())
    }

    /// The switches; [`SwitchId`] is a place in this list, which has the order of the file.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The hosts; [`HostId`] is a place in this list.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The links; [`LinkId`] is a place in this list.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A switch.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn switch(&self, id: SwitchId) -> &Switch {
        &self.switches[id.index()]
    }

    /// A host.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.index()]
    }

    /// A link.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// Every switch's number, in order.
    pub fn switch_ids(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(|index| SwitchId(index as u16))
    }

    /// Every link's number, in order.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len()).map(|index| LinkId(index as u32))
    }

    /// The switch of that name.
    pub fn switch_named(&self, name: &str) -> Option<SwitchId> {
        self.names.get(name).copied()
    }

    /// The host that a worker with this address belongs to, by the longest prefix that holds it.
    pub fn host_of(&self, address: IpAddr) -> Option<HostId> {
        self.member(address).map(|member| member.host)
    }

    /// The worker with this address: its host, and the planes of the host where the longest prefix that holds it is.
    pub fn member(&self, address: IpAddr) -> Option<Member> {
        let address = address.to_canonical();
        let family = address.is_ipv6();
        self.addresses
            .range((family, 0)..=(family, 128))
            .rev()
            .find_map(|((_, len), prefixes)| prefixes.get(&Prefix::new(address, *len)?.bits()).copied())
    }

    /// The links of a switch and where they lead, in the order of the file.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn neighbours(&self, switch: SwitchId) -> &[(LinkId, SwitchId)] {
        &self.neighbours[switch.index()]
    }

    /// The links between two switches, in the order of the file.
    ///
    /// # Panics
    ///
    /// When a number is of another topology.
    pub fn links_between(&self, a: SwitchId, b: SwitchId) -> impl Iterator<Item = LinkId> {
        self.neighbours(a).iter().filter(move |(_, to)| *to == b).map(|(link, _)| *link)
    }

    /// The switch that a host is attached to in its first plane.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn leaf_of(&self, host: HostId) -> SwitchId {
        self.host(host).planes[0].switch
    }

    /// The switches that a host is attached to, by plane.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn switches_of(&self, host: HostId) -> impl Iterator<Item = SwitchId> {
        self.host(host).planes.iter().map(|plane| plane.switch)
    }

    /// Where a host is attached to a switch, if it is.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn attachment(&self, host: HostId, switch: SwitchId) -> Option<&Attachment> {
        self.host(host).planes.iter().find(|plane| plane.switch == switch)
    }

    /// Where packets from one switch for another leave, over a link: the port and the Ethernet address to send to. Either is
    /// `None` where the switch has no such thing.
    ///
    /// # Panics
    ///
    /// When the link does not end at the switch.
    pub fn hop(&self, from: SwitchId, over: LinkId) -> (Option<u16>, Option<Mac>) {
        let (own, other) = self.link(over).seen_from(from).expect("the link ends at the switch");
        (own.port, other.mac.or_else(|| self.switch(other.switch).ethernet_address()))
    }

    /// Notes the address that a switch has reported as that of its packets.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn set_data(&mut self, switch: SwitchId, data: SocketAddr) {
        self.switches[switch.index()].data = Some(data);
    }

    /// The topology with all paths that are relative taken from this folder: that of the file.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        for switch in &mut self.switches {
            let tls = switch.tls.iter_mut();
            let tls = tls.flat_map(|tls| [&mut tls.ca, &mut tls.certificate, &mut tls.key]);
            for path in tls.chain([&mut switch.device_config]).flatten() {
                *path = folder.join(&*path);
            }
        }
        self
    }
}
