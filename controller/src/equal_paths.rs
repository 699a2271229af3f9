//! Hash functions by which fabrics choose one of several equal paths, and UDP ports that spread exactly over the paths.
//!
//! # Sources
//!
//! [`PathHash::Linux`] is what a Linux router computes with `net.ipv4.fib_multipath_hash_policy=1`, for IPv6 `net.ipv6.fib_multipath_hash_policy=1`, and the
//! seed of both, `net.ipv4.fib_multipath_hash_seed`, read from
//! `net/core/flow_dissector.c`, `include/net/ip_fib.h`, `net/ipv4/fib_semantics.c` and `net/ipv6/route.c` of Linux 6.18: SipHash-2-4, with the seed as each half of both
//! words of the key, of the flow's protocol, ports and addresses, of which the lower come first: ports and IPv4 addresses as a little-endian machine compares them,
//! IPv6 addresses byte by byte. So both directions of a flow have the same value. Of its upper 31 bits each next hop has an equal interval, in the order of the
//! route. The flow label does not count. [`PathHash::Crc32`] is the `crc32` of P4's v1model over source,
//! destination, protocol and ports, modulo the paths. Equal shares of all paths: Ethereal (arXiv 2407.00550).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use netfold_control::{PATHS_MAX, PortSet};

/// The protocol number of UDP.
const UDP: u8 = 17;

/// Ports of a worker that are used together at most, unless there are more paths: each is probed.
const PORTS_USED_MAX: usize = 16;

/// UDP ports of a worker for each path, so that there are ports for every path: with 8 times as many ports as paths one of 4 has none once in 2,000 workers, and one
/// of 8 once in 600.
const PORTS_FOR_PATH: u8 = 8;

/// What a router computes of a packet's addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathHash {
    /// A Linux router's of the fourth layer, with a seed.
    Linux {
        /// `net.ipv4.fib_multipath_hash_seed`, of IPv6, too; not 0, which stands for a random one.
        seed: u32,
    },
    /// A switch's: CRC-32 of source, destination, protocol and ports, modulo the paths.
    Crc32,
}

/// Equal paths between any two ends, of which every router chooses one by the same hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EqualPaths {
    /// The hash.
    pub hash: PathHash,
    /// How many there are, 2 to [`PATHS_MAX`], in the same order at every router.
    pub paths: u8,
    /// Bits a second of a path, not 0; `None`: as many as of a host's link.
    pub rate_bps: Option<u64>,
}

/// Equal paths as a set: bit *i* stands for path *i*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathSet(pub u64);

impl PathSet {
    /// The first so many paths.
    pub const fn first(paths: u8) -> Self {
        Self(PortSet::first(paths).0)
    }

    /// One path, below 64.
    pub const fn one(path: u8) -> Self {
        Self(1 << (path & 63))
    }

    /// Whether a path is one of them.
    pub const fn contains(self, path: u8) -> bool {
        PortSet(self.0).contains(path)
    }

    /// The paths.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |path| self.contains(*path))
    }

    /// How many there are.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// Why a text names no equal paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EqualPathsError {
    /// A hash of no known kind.
    #[error("hash '{0}' is not known: give linux or crc32")]
    Hash(String),
    /// Linux without a seed.
    #[error("give the seed of hash linux (net.ipv4.fib_multipath_hash_seed), from 1 on")]
    Seed,
    /// A seed of a hash that has none.
    #[error("hash crc32 has no seed")]
    NoSeed,
    /// No such number of paths.
    #[error("give the number of equal paths, 2 to {PATHS_MAX}")]
    Paths,
    /// A rate of 0.
    #[error("the rate of a path is above 0")]
    Rate,
    /// A key of no meaning.
    #[error("'{0}' is not known: give HASH,paths=NUMBER and, for linux, seed=NUMBER")]
    Key(String),
}

impl EqualPaths {
    /// Paths of a hash by its name.
    ///
    /// # Errors
    ///
    /// [`EqualPathsError`].
    pub fn new(
        hash: &str,
        seed: Option<u32>,
        paths: u8,
        rate_bps: Option<u64>,
    ) -> Result<Self, EqualPathsError> {
        let hash = match (hash, seed) {
            ("linux", Some(seed)) if seed > 0 => PathHash::Linux { seed },
            ("linux", _) => return Err(EqualPathsError::Seed),
            ("crc32", None) => PathHash::Crc32,
            ("crc32", Some(_)) => return Err(EqualPathsError::NoSeed),
            (other, _) => return Err(EqualPathsError::Hash(other.to_owned())),
        };
        if !(2..=PATHS_MAX).contains(&paths) {
            return Err(EqualPathsError::Paths);
        }
        if rate_bps == Some(0) {
            return Err(EqualPathsError::Rate);
        }
        Ok(Self { hash, paths, rate_bps })
    }

    /// UDP ports of each worker, so that with few exceptions some of them spread exactly.
    pub fn udp_ports(&self) -> u8 {
        self.paths.saturating_mul(PORTS_FOR_PATH).clamp(16, PATHS_MAX).next_power_of_two()
    }

    /// The path of UDP packets from one address to another; `None` if only one of them is of IPv6.
    pub fn path(&self, source: SocketAddr, destination: SocketAddr) -> Option<u8> {
        let addresses = Addresses::new(source.ip(), destination.ip())?;
        let ports = (source.port(), destination.port());
        let paths = u64::from(self.paths);
        Some(match self.hash {
            PathHash::Linux { seed } => {
                let value = u64::from(linux(addresses, ports, seed) >> 1);
                let end = |path: u64| (((path + 1) << 31) + paths / 2) / paths;
                (0..paths).find(|path| value < end(*path)).unwrap_or(paths - 1) as u8
            }
            PathHash::Crc32 => {
                let (bytes, len) = addresses.bytes();
                let end = [UDP].into_iter().chain(ports.0.to_be_bytes()).chain(ports.1.to_be_bytes());
                (u64::from(crc32(bytes[..len].iter().copied().chain(end))) % paths) as u8
            }
        })
    }

    /// The paths to `switch` and back of each of so many consecutive UDP ports from `first` on.
    pub fn ways(&self, first: SocketAddr, udp_ports: u8, switch: SocketAddr) -> Option<Vec<Way>> {
        let way = |index: u8| {
            let port = first.port().checked_add(index.into())?;
            let worker = SocketAddr::new(first.ip(), port);
            Some(Way { up: self.path(worker, switch)?, down: self.path(switch, worker)? })
        };
        (0..udp_ports).map(way).collect()
    }
}

impl FromStr for EqualPaths {
    type Err = EqualPathsError;

    /// `linux,seed=7,paths=4` or `crc32,paths=4`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let hash = parts.next().unwrap_or_default();
        let (mut seed, mut paths) = (None, None);
        for part in parts {
            match part.split_once('=') {
                Some(("seed", value)) => seed = Some(value.parse().map_err(|_| EqualPathsError::Seed)?),
                Some(("paths", value)) => paths = Some(value.parse().map_err(|_| EqualPathsError::Paths)?),
                _ => return Err(EqualPathsError::Key(part.to_owned())),
            }
        }
        Self::new(hash, seed, paths.unwrap_or(0), None)
    }
}

impl fmt::Display for EqualPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hash {
            PathHash::Linux { seed } => write!(f, "linux,seed={seed},paths={}", self.paths),
            PathHash::Crc32 => write!(f, "crc32,paths={}", self.paths),
        }
    }
}

/// The paths of packets from a UDP port and to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// To the switch.
    pub up: u8,
    /// From it.
    pub down: u8,
}

/// Of ports with these ways, up to 64, as many of each of the paths `allowed`, in both directions, and none of others: then equal shares of ports are equal shares of
/// paths. The most that there are, up to 16 ports in all or one for each path. `None` where there are no such ports.
pub fn exact_ports(ways: &[Way], allowed: PathSet) -> Option<PortSet> {
    let paths = allowed.count() as usize;
    let most = (PORTS_USED_MAX / paths.max(1)).max(1).min(ways.len() / paths.max(1));
    (1..=most).rev().find_map(|each| Matching::new(ways, allowed).solve(each))
}

/// Finds ports such that each path has equally many upwards and downwards: a flow from the paths up over ports to the paths down.
struct Matching<'a> {
    ways: &'a [Way],
    allowed: PathSet,
    /// By path down, the ports that are taken.
    taken: Vec<Vec<u8>>,
}

impl<'a> Matching<'a> {
    fn new(ways: &'a [Way], allowed: PathSet) -> Self {
        Self { ways, allowed, taken: vec![Vec::new(); 64] }
    }

    fn solve(mut self, each: usize) -> Option<PortSet> {
        for path in self.allowed.iter() {
            for _ in 0..each {
                self.augment(path, each, &mut 0).then_some(())?;
            }
        }
        Some(PortSet(self.taken.iter().flatten().fold(0, |ports, port| ports | 1 << port)))
    }

    /// Takes one more port of the path `up`; `visited` are paths down that need not be tried again.
    fn augment(&mut self, up: u8, each: usize, visited: &mut u64) -> bool {
        for port in 0..self.ways.len().min(64) as u8 {
            let way = self.ways[usize::from(port)];
            let down = usize::from(way.down);
            let is_free = way.up == up
                && self.allowed.contains(way.down)
                && *visited >> down & 1 == 0
                && !self.taken[down].contains(&port);
            if !is_free {
                continue;
            }
            *visited |= 1 << down;
            if self.taken[down].len() < each {
                self.taken[down].push(port);
                return true;
            }
            for place in 0..each {
                let other = self.ways[usize::from(self.taken[down][place])].up;
                if self.augment(other, each, visited) {
                    self.taken[down][place] = port;
                    return true;
                }
            }
        }
        false
    }
}

/// Source and destination, in network byte order.
#[derive(Debug, Clone, Copy)]
enum Addresses {
    V4([u8; 4], [u8; 4]),
    V6([u8; 16], [u8; 16]),
}

impl Addresses {
    fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source.to_canonical(), destination.to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Some(Self::V4(source.octets(), destination.octets()))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(Self::V6(source.octets(), destination.octets()))
            }
            _ => None,
        }
    }

    /// The lower one first, as Linux compares them: those of IPv4 as numbers whose lowest byte is the first one of the packet.
    fn ordered(self) -> Self {
        match self {
            Self::V4(a, b) if u32::from_le_bytes(b) < u32::from_le_bytes(a) => Self::V4(b, a),
            Self::V6(a, b) if b < a => Self::V6(b, a),
            ordered => ordered,
        }
    }

    /// Both, one after the other, and their length.
    fn bytes(self) -> ([u8; 32], usize) {
        let mut bytes = [0; 32];
        match self {
            Self::V4(a, b) => {
                bytes[..4].copy_from_slice(&a);
                bytes[4..8].copy_from_slice(&b);
                (bytes, 8)
            }
            Self::V6(a, b) => {
                bytes[..16].copy_from_slice(&a);
                bytes[16..].copy_from_slice(&b);
                (bytes, 32)
            }
        }
    }
}

/// The hash of a flow of UDP.
fn linux(addresses: Addresses, ports: (u16, u16), seed: u32) -> u32 {
    let ends = [ports.0.to_be_bytes(), ports.1.to_be_bytes()];
    let swapped = u16::from_le_bytes(ends[1]) < u16::from_le_bytes(ends[0]);
    let (lower, upper) = if swapped { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
    // Network protocol 0, transport protocol, labels and VLANs 0, ports, ICMP 0, addresses, padding.
    let mut keys = [0; 72];
    keys[2] = UDP;
    keys[28..30].copy_from_slice(&lower);
    keys[30..32].copy_from_slice(&upper);
    let (bytes, len) = addresses.ordered().bytes();
    keys[36..36 + len].copy_from_slice(&bytes[..len]);
    let keys = &keys[..(36 + len).next_multiple_of(8)];
    let half = u64::from(seed) << 32 | u64::from(seed);
    match siphash_2_4([half, half], keys) as u32 {
        0 => 1,
        hash => hash,
    }
}

/// SipHash-2-4 of words of eight bytes.
fn siphash_2_4(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let words = bytes
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    for word in words.chain([(bytes.len() as u64) << 56]) {
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state.iter().fold(0, |hash, word| hash ^ word)
}

fn sip_round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

/// CRC-32 of IEEE 802.3, lowest bit first.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(text: &str) -> EqualPaths {
        text.parse().unwrap()
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// What `ip route get ADDRESS from ADDRESS ipproto udp sport PORT dport PORT` of Linux 6.18 says in a namespace with
    /// `fib_multipath_hash_policy=1` and the seed.
    #[test]
    fn linux_takes_these_paths() {
        let (up, down) = ([1, 0, 3, 1, 0, 0, 0, 2], [3, 0, 0, 3, 3, 2, 2, 3]);
        for (text, to_switch, from_switch) in [
            ("linux,seed=7,paths=4", up, down),
            ("linux,seed=1,paths=2", [1, 0, 0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 1, 1, 1]),
            ("linux,seed=3735928559,paths=3", [2, 2, 2, 0, 0, 2, 0, 2], [0, 2, 0, 0, 0, 1, 1, 1]),
            ("linux,seed=42,paths=8", [2, 4, 5, 7, 3, 2, 2, 6], [6, 0, 7, 2, 7, 2, 3, 7]),
        ] {
            let paths = paths(text);
            assert_eq!(paths.to_string(), text);
            for port in 0..8_u16 {
                let worker = SocketAddr::new(address("10.50.0.1:1").ip(), 40_000 + port);
                let path = paths.path(worker, address("10.77.1.2:20038"));
                assert_eq!(path, Some(to_switch[usize::from(port)]), "{text} {port}");
                assert_eq!(paths.path(address("10.77.1.2:20038"), worker), path, "both directions");
                let worker = SocketAddr::new(address("10.77.200.1:1").ip(), 33_000 + port);
                let path = paths.path(address("10.250.7.9:20038"), worker);
                assert_eq!(path, Some(from_switch[usize::from(port)]), "{text} {port}");
            }
        }
        let mapped = address("[::ffff:10.50.0.1]:40000");
        let path = paths("linux,seed=7,paths=4").path(mapped, address("10.77.1.2:20038"));
        assert_eq!(path, Some(1), "a mapped address is that of an IPv4 packet");
        assert_eq!(paths("crc32,paths=2").path(address("10.50.0.1:1"), address("[::2]:2")), None);
    }

    /// The same of `ip -6 route get`, with `net.ipv6.fib_multipath_hash_policy=1`.
    #[test]
    fn linux_takes_these_paths_of_ipv6() {
        for (text, to_switch, from_switch) in [
            ("linux,seed=7,paths=4", [2, 1, 2, 3, 2, 3, 0, 3], [1, 0, 3, 2, 1, 3, 3, 3]),
            ("linux,seed=1,paths=2", [1, 0, 1, 1, 1, 1, 0, 1], [1, 0, 0, 1, 1, 0, 1, 1]),
            ("linux,seed=3735928559,paths=3", [2, 0, 0, 2, 0, 2, 2, 1], [1, 2, 1, 0, 0, 2, 2, 1]),
            ("linux,seed=42,paths=8", [3, 4, 0, 2, 0, 3, 0, 5], [3, 7, 6, 0, 4, 5, 7, 7]),
        ] {
            let paths = paths(text);
            for (first, ip, switch, expected) in [
                (40_000, "[fd00:50::1]:1", "[fd00:77::1:2]:20038", to_switch),
                (33_000, "[fd00:50::9]:1", "[fd00:77::200:1]:20038", from_switch),
            ] {
                let found = (first..).take(8).map(|port| {
                    let worker = SocketAddr::new(address(ip).ip(), port);
                    let path = paths.path(worker, address(switch));
                    assert_eq!(paths.path(address(switch), worker), path, "both directions");
                    path
                });
                assert!(found.eq(expected.map(Some)), "{text} {switch}");
            }
        }
    }

    #[test]
    fn switches_take_these_paths() {
        // By Python's binascii.
        let crcs = [0xc53b_ffdc_u32, 0xc4f9_95eb, 0xc6bf_2bb2, 0xc77d_4185];
        let paths = paths("crc32,paths=7");
        for (port, crc) in (40_000..).zip(crcs) {
            let worker = SocketAddr::new(address("10.50.0.1:1").ip(), port);
            assert_eq!(paths.path(worker, address("10.77.1.2:20038")), Some((crc % 7) as u8));
        }
        for (port, crc) in (40_000..).zip([0xd014_4d01_u32, 0xd1d6_2736, 0xd390_996f, 0xd252_f358]) {
            let worker = SocketAddr::new(address("[fd00:50::1]:1").ip(), port);
            assert_eq!(paths.path(worker, address("[fd00:77::1:2]:20038")), Some((crc % 7) as u8));
        }
    }

    #[test]
    fn texts_that_name_no_paths() {
        for (text, error) in [
            ("linux,paths=4", EqualPathsError::Seed),
            ("linux,seed=0,paths=4", EqualPathsError::Seed),
            ("linux,seed=x,paths=4", EqualPathsError::Seed),
            ("crc32,seed=1,paths=4", EqualPathsError::NoSeed),
            ("crc32", EqualPathsError::Paths),
            ("crc32,paths=1", EqualPathsError::Paths),
            ("crc32,paths=65", EqualPathsError::Paths),
            ("crc16,paths=4", EqualPathsError::Hash("crc16".into())),
            ("crc32,ports=4", EqualPathsError::Key("ports=4".into())),
        ] {
            assert_eq!(text.parse::<EqualPaths>(), Err(error), "{text}");
        }
        assert_eq!(EqualPaths::new("crc32", None, 2, Some(0)), Err(EqualPathsError::Rate));
        let wanted =
            ["2", "4", "5", "8", "64"].map(|count| paths(&format!("crc32,paths={count}")).udp_ports());
        assert_eq!(wanted, [16, 32, 64, 64, 64]);
    }

    proptest! {
        #[test]
        fn exact_ports_are_equally_many_of_each_path(
            cells in prop::collection::vec((0_u8..5, 0_u8..5), 1..=64),
            allowed in 1_u64..32,
        ) {
            let ways: Vec<Way> = cells.iter().map(|(up, down)| Way { up: *up, down: *down }).collect();
            let allowed = PathSet(allowed);
            let Some(ports) = exact_ports(&ways, allowed) else {
                // A perfect matching exists only if every set of paths has as many neighbours.
                let neighbours = |set: u64| {
                    let up = |way: &&Way| set >> way.up & 1 == 1 && allowed.contains(way.down);
                    ways.iter().filter(up).fold(0_u64, |all, way| all | 1 << way.down).count_ones()
                };
                let violates = |set: u64| set & !allowed.0 == 0 && neighbours(set) < set.count_ones();
                prop_assert!((1_u64..32).any(violates), "there is a choice");
                return Ok(());
            };
            let within = |way: &Way| allowed.contains(way.up) && allowed.contains(way.down);
            prop_assert!((0..).zip(&ways).all(|(port, way)| !ports.contains(port) || within(way)));
            let each = ports.count() / allowed.count();
            for path in allowed.iter() {
                let count = |of: fn(&Way) -> u8| {
                    (0..).zip(&ways).filter(|(port, way)| ports.contains(*port) && of(way) == path).count() as u32
                };
                prop_assert_eq!((count(|way| way.up), count(|way| way.down)), (each, each));
            }
        }
    }
}
