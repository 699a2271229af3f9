//! UDP source ports such that a fabric's hashing spreads flows over its equal paths.
//!
//! A switch with several equal next hops takes the one that a hash of a packet's addresses and ports names. The source port is the
//! sender's to choose. [`ports`] chooses it for each pair of hosts, by one of the policies of [`Spreading`]. What comes out is
//! measured by [`imbalance`]: the most loaded path relative to the mean.
//!
//! # Sources
//!
//! The hash of [`Hasher`] is that of HPCC's simulator: Murmur3 of 32 bits over the addresses and ports, seeded with the switch's
//! number. Many flows a pair: Meta (SIGCOMM 2024). Source ports picked by a known hash: HPN (SIGCOMM 2024). A fabric whose
//! hash is not known takes [`Spreading::Hash`], [`Spreading::Flows`] and [`Spreading::Spray`], which do not look at it.

use std::net::Ipv4Addr;

/// First source port to choose from: those below belong to services.
pub const PORT_FIRST: u16 = 49_152;
/// Source ports tried for a flow that is to take the least loaded path.
pub const PORTS_TRIED: u16 = 256;
/// Source ports that a sprayed pair uses in turn.
pub const PORTS_SPRAYED: u16 = 64;

/// Murmur3 of 32 bits.
pub fn murmur3_32(bytes: &[u8], seed: u32) -> u32 {
    let scramble = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut hash = seed;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ scramble(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= scramble(rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// A switch that spreads flows over equal paths by a known hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hasher {
    /// Equal next hops, not 0.
    pub paths: u32,
    /// What it seeds its hash with. Switches in a row with the same seed send all that one gives them the same way.
    pub seed: u32,
}

/// Two ends between which there are flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The source.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
    /// The destination's UDP port.
    pub destination_port: u16,
}

impl Hasher {
    /// The path of a flow, from 0 on.
    ///
    /// # Panics
    ///
    /// When there is no path.
    pub fn path(&self, pair: &Pair, source_port: u16) -> u32 {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&pair.source.to_bits().to_le_bytes());
        bytes[4..8].copy_from_slice(&pair.destination.to_bits().to_le_bytes());
        let ports = u32::from(source_port) | u32::from(pair.destination_port) << 16;
        bytes[8..].copy_from_slice(&ports.to_le_bytes());
        murmur3_32(&bytes, self.seed) % self.paths
    }
}

/// How the flows of a pair are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spreading {
    /// One flow a pair, wherever the hash takes it.
    Hash,
    /// So many flows a pair, each with an equal share of it.
    Flows(u16),
    /// Every packet with the next of [`PORTS_SPRAYED`] ports.
    Spray,
    /// One flow a pair, with a port whose path bears the least so far.
    LeastLoaded,
    /// One flow a pair in every plane, each with a port whose path there bears the least so far.
    Planes,
}

/// A flow of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The plane that it is in: the place of the first switch that hashes it.
    pub plane: usize,
    /// Its source port.
    pub port: u16,
    /// Its path there.
    pub path: u32,
}

/// Flows for each pair, and adds their shares to the loads: `loads[plane][path]`, in pairs.
///
/// `planes` are the switches at which the pairs' packets are hashed, one for each plane of the hosts; all policies but
/// [`Spreading::Planes`] use pair by pair one after the other. `port` gives arbitrary ports, such as a random one.
///
/// # Panics
///
/// When there is no plane, or one without paths, or fewer loads than paths.
pub fn ports(
    spreading: Spreading,
    pairs: &[Pair],
    planes: &[Hasher],
    loads: &mut [Vec<f64>],
    mut port: impl FnMut() -> u16,
) -> Vec<Vec<Flow>> {
    let mut all = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let turn = index % planes.len();
        let hashed = |plane: usize, port: u16| Flow { plane, port, path: planes[plane].path(pair, port) };
        let flows: Vec<Flow> = match spreading {
            Spreading::Hash => vec![hashed(turn, port())],
            Spreading::Flows(count) => (0..count.max(1)).map(|_| hashed(turn, port())).collect(),
            Spreading::Spray => {
                let first = port();
                (0..PORTS_SPRAYED).map(|step| hashed(turn, first.wrapping_add(step))).collect()
            }
            Spreading::LeastLoaded => vec![least_loaded(pair, &planes[turn], &loads[turn], turn)],
            Spreading::Planes => {
                let each = planes.iter().zip(loads.iter()).enumerate();
                each.map(|(plane, (hasher, loads))| least_loaded(pair, hasher, loads, plane)).collect()
            }
        };
        for flow in &flows {
            loads[flow.plane][flow.path as usize] += 1.0 / flows.len() as f64;
        }
        all.push(flows);
    }
    all
}

fn least_loaded(pair: &Pair, hasher: &Hasher, loads: &[f64], plane: usize) -> Flow {
    let tried = (0..PORTS_TRIED).map(|step| {
        let port = PORT_FIRST + step;
        Flow { plane, port, path: hasher.path(pair, port) }
    });
    let load = |flow: &Flow| loads[flow.path as usize];
    let first = Flow { plane, port: PORT_FIRST, path: hasher.path(pair, PORT_FIRST) };
    tried.min_by(|one, other| load(one).total_cmp(&load(other))).unwrap_or(first)
}

/// The highest load relative to the mean; 1 when all are equal or there is none.
pub fn imbalance(loads: &[f64]) -> f64 {
    let sum: f64 = loads.iter().sum();
    let max = loads.iter().copied().fold(0.0, f64::max);
    if sum > 0.0 { max * loads.len() as f64 / sum } else { 1.0 }
}
