//! What can be wrong with a topology.

use crate::equal_paths::EqualPathsError;
use std::fmt;

use netfold_p4::profile::named;

use super::{
    ADDRESSES_MAX, FILE_LEN_MAX, HOSTS_MAX, LINKS_MAX, Mac, NAME_LEN_MAX, PLANES_MAX, Prefix, SWITCHES_MAX,
};

/// A part of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// All of it.
    Whole,
    /// A switch, by its place in the list and its name.
    Switch(usize, String),
    /// A host, by its place in the list and its name.
    Host(usize, String),
    /// A host's attachment: the host's place and name, and the plane.
    Attachment(usize, String, usize),
    /// A link, by its place in the list and what its ends are called.
    Link(usize, String),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the topology"),
            Self::Switch(_, name) => write!(f, "switch {name:?}"),
            Self::Host(_, name) => write!(f, "host {name:?}"),
            Self::Attachment(_, name, 0) => write!(f, "host {name:?}"),
            Self::Attachment(_, name, plane) => write!(f, "host {name:?}, plane {plane}"),
            Self::Link(_, ends) => write!(f, "link {ends}"),
        }
    }
}

/// A topology that cannot be used: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{element}: {problem}", Line(*.line))]
pub struct TopologyError {
    /// Line of the file, from 1 on: that of the part, or of the exact place where that is known. `None` where there is no file.
    pub line: Option<usize>,
    /// The part.
    pub element: Element,
    /// What is wrong with it, and what to do.
    pub problem: Problem,
}

struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, "line {line}: "))
    }
}

/// What is wrong with a part of a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is no TOML, a key is unknown or missing, or a value is of the wrong kind.
    #[error("{0}")]
    Syntax(String),
    /// The equal paths of the fabric are not described.
    #[error("ecmp: {0}")]
    Ecmp(EqualPathsError),
    /// The file is too long.
    #[error("the file is {0} bytes long: at most {FILE_LEN_MAX}")]
    Length(usize),
    /// No switch at all.
    #[error("there is no switch: describe one in a [[switch]] table")]
    NoSwitch,
    /// Too many of something.
    #[error(
        "{count} {what}: at most {SWITCHES_MAX} switches, {HOSTS_MAX} hosts, {LINKS_MAX} links, {PLANES_MAX} planes and {ADDRESSES_MAX} ranges of addresses a host"
    )]
    TooMany {
        /// Of what.
        what: &'static str,
        /// As many as there are.
        count: usize,
    },
    /// The name is empty, too long, or has other characters.
    #[error("a name has 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.'")]
    Name,
    /// Another one has the name.
    #[error("the name is taken by an earlier one: choose another")]
    NameTaken,
    /// A switch of that name does not exist.
    #[error("there is no switch {0:?}: use the name of a [[switch]]")]
    UnknownSwitch(String),
    /// A switch of that number does not exist.
    #[error("there is no switch number {0}")]
    AbsentSwitch(usize),
    /// The text of a value is not valid for the key.
    #[error("{key} = {value:?}: write {want}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is there.
        value: String,
        /// What should be.
        want: &'static str,
    },
    /// A range of addresses with bits behind the prefix.
    #[error("{value:?} has bits behind its prefix: write {range} for the range, or the address alone")]
    LoosePrefix {
        /// What is there.
        value: String,
        /// The range without these bits.
        range: Prefix,
    },
    /// The switch's kind needs the key.
    #[error("{key} is missing: {why}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What it is needed for.
        why: &'static str,
    },
    /// The key does not apply to the switch's kind.
    #[error("{key} is of no use here: {why}; leave it out")]
    Useless {
        /// The key.
        key: &'static str,
        /// Why.
        why: &'static str,
    },
    /// No profile has that name.
    #[error("there is no profile {0:?}: it is one of {list}", list = profiles())]
    Profile(String),
    /// The profile is for another encapsulation than the kind of switch.
    #[error(
        "profile {profile:?} carries {carries}, which a switch of kind {kind:?} does not: choose another"
    )]
    ProfileKind {
        /// The profile.
        profile: String,
        /// What it carries.
        carries: &'static str,
        /// The kind.
        kind: &'static str,
    },
    /// A number is out of range.
    #[error("{key} = {value}: it must be {want}")]
    Range {
        /// The key.
        key: &'static str,
        /// What is there.
        value: u64,
        /// What should be.
        want: &'static str,
    },
    /// A port is the switch's port to the controller.
    #[error("port {port} of switch {switch:?} is its cpu_port: use another, or change cpu_port")]
    CpuPort {
        /// The switch.
        switch: String,
        /// The port.
        port: u16,
    },
    /// A port is used for two things.
    #[error("port {port} of switch {switch:?} is used by {by} already: a port has one use")]
    PortTaken {
        /// The switch.
        switch: String,
        /// The port.
        port: u16,
        /// Who uses it.
        by: Box<Element>,
    },
    /// A switch cannot be the aggregator of this one.
    #[error("aggregator = {name:?}: {why}")]
    Aggregator {
        /// The switch that is named.
        name: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A host at a spine.
    #[error("switch {0:?} is a spine, which no host is attached to: use a leaf, or give it the role \"any\"")]
    Spine(String),
    /// A link between two leaves.
    #[error(
        "switches {0:?} and {1:?} are both leaves, so that no tree can use the link: give one the role \"spine\" or \"any\""
    )]
    Leaves(String, String),
    /// A host is attached to a switch twice.
    #[error("it is attached to switch {0:?} twice: each plane of a host is a switch of its own")]
    SamePlane(String),
    /// A link's ends are one switch.
    #[error("both ends are at switch {0:?}: a link joins two switches")]
    SelfLink(String),
    /// No addresses.
    #[error("it has no addresses: say which its workers send from, e.g. addresses = [\"10.1.0.0/28\"]")]
    NoAddresses,
    /// Another host has the addresses.
    #[error("{range} belongs to host {other:?} already: an address belongs to one host")]
    AddressTaken {
        /// The range.
        range: Prefix,
        /// Whose it is.
        other: String,
    },
    /// An Ethernet address of a group, or none.
    #[error("{0} is no address of a network interface")]
    Mac(Mac),
    /// Another switch has the address for packets.
    #[error(
        "packets for {data} reach switch {other:?} already: give every switch its own address or UDP port"
    )]
    DataTaken {
        /// The address.
        data: std::net::SocketAddr,
        /// Whose it is.
        other: String,
    },
    /// Another switch has the server and the device id.
    #[error(
        "switch {other:?} is device {device_id} of {server} already: give each its own server or device_id"
    )]
    DeviceTaken {
        /// The server.
        server: String,
        /// The device id.
        device_id: u64,
        /// Whose it is.
        other: String,
    },
}

fn profiles() -> String {
    let names: Vec<_> = named().iter().map(|named| named.name).collect();
    names.join(", ")
}
