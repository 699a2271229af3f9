//! Measurements between each two ranks: whether packets pass in both directions and at which length, how long they take, how far clocks differ, what
//! a link loses and carries.
//!
//! Every rank has a responder for the time of the check. In each turn a rank has one partner; first the lower rank
//! measures, then the higher one. Turns are separated by exchanges, in which all ranks take part. At the end each rank has the reports of all, and
//! [judges](judge()) them: every rank finds the same.

mod judge;
mod packet;
mod probe;
mod responder;
mod schedule;
mod trace;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use netfold::{Exchange, ExchangeError};
use netfold_wire::header;
use serde::{Deserialize, Serialize};

pub use judge::judge;
use packet::Cookie;
use probe::Probe;
use responder::Responder;
pub use trace::Trace;

/// Longest name of a host, in bytes.
const HOST_LEN_MAX: usize = 256;

/// Most ranks of a check: the reports of one fit what a rank may give to an exchange.
pub const WORLD_MAX: u16 = 256;

/// Version of the packets and of what ranks exchange.
const VERSION: u32 = 3;

/// The time of day, as this rank has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    /// By how much it is ahead of the system's, in nanoseconds: tests have clocks that differ.
    pub ahead_ns: i64,
}

impl Clock {
    fn now_ns(self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_add(self.ahead_ns)
    }
}

/// The number of the path that a fabric is said to give to UDP packets from one address to another, if it is known.
#[derive(Clone, Copy)]
pub struct Prediction<'a>(pub &'a (dyn Fn(SocketAddr, SocketAddr) -> Option<u8> + Sync));

impl std::fmt::Debug for Prediction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prediction")
    }
}

/// What to measure with.
#[derive(Debug, Clone, Copy)]
pub struct PairsConfig<'a> {
    /// This host's address; `None`: the one by which the ranks found each other.
    pub bind: Option<IpAddr>,
    /// Bytes of lanes of a job's packets.
    pub payload_bytes: u32,
    /// The time of day.
    pub clock: Clock,
    /// By what the paths that UDP ports take are predicted: ranks may differ.
    pub prediction: Option<Prediction<'a>>,
}

/// What one rank measured towards another. Also what it says to the others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairReport {
    /// The other rank.
    pub peer: u16,
    /// Whether it replied. All else is zero if not.
    pub reached: bool,
    /// Shortest round-trip time, microseconds.
    pub rtt_us: f64,
    /// By how much its clock is ahead of this rank's, microseconds; wrong by half of the round-trip time at most.
    pub offset_us: f64,
    /// Longest datagram of those tried that passes in one piece, bytes.
    pub datagram: u32,
    /// UDP ports that requests were sent from.
    pub ports: u8,
    /// Those of them that were replied to.
    pub ports_replied: u8,
    /// Packets sent to measure loss and rate.
    pub sent: u32,
    /// Those of them that were not replied to.
    pub lost: u32,
    /// Rate of those that were, bits a second.
    pub rate: f64,
}

impl PairReport {
    /// Whether it can have been measured, as `rank` of `world` towards `peer`.
    fn is_plausible(&self, peer: u16) -> bool {
        let numbers = [self.rtt_us, self.offset_us, self.rate];
        self.peer == peer
            && numbers.iter().all(|number| number.is_finite())
            && self.rtt_us >= 0.0
            && self.rate >= 0.0
            && self.lost <= self.sent
            && self.ports_replied <= self.ports
    }
}

/// What one rank has to say of all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankReport {
    /// Name of its host.
    pub host: String,
    /// The reports of all other ranks, in their order.
    pub pairs: Vec<PairReport>,
    /// Ranks whose packets have arrived, in their order.
    pub heard: Vec<u16>,
    /// The routers towards each other rank, as `pairs`; said for themselves, since a rank may say only so much at once.
    #[serde(skip)]
    pub traces: Vec<Trace>,
}

/// What a rank says first.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    version: u32,
    /// Of rank 0: the cookie of all.
    cookie: Cookie,
    payload_bytes: u32,
}

/// Why ranks cannot check each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairsError {
    /// Too few ranks, or too many.
    #[error("a check of {world} ranks: give 2 to {WORLD_MAX}; for more, check parts of them")]
    World {
        /// Ranks given.
        world: u16,
    },
    /// The ranks do not find each other, or one has left.
    #[error("the ranks cannot exchange what they measure")]
    Exchange(#[source] ExchangeError),
    /// A rank says something else than a rank of this version does.
    #[error(
        "rank {rank} sent no {what} of this version: start `netfold check` of the same version, with the same options, on all hosts"
    )]
    Peer {
        /// Which.
        rank: u16,
        /// What was expected.
        what: &'static str,
    },
    /// This host's address is unknown.
    #[error("no address of this host leads to the other ranks: give one with --address")]
    Address,
    /// The system refuses a socket.
    #[error("packets cannot be sent or received at {local}")]
    Socket {
        /// This host's address.
        local: IpAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Measures between all ranks of the exchange. Each rank calls it; it takes up to some 20 s a turn, of which there are as many as ranks, and less than
/// 2 s where all packets pass.
///
/// # Errors
///
/// [`PairsError`]. Pairs that do not reach each other are no error, but reported.
pub fn measure(exchange: &mut dyn Exchange, config: &PairsConfig<'_>) -> Result<Vec<RankReport>, PairsError> {
    let (rank, world) = (exchange.rank(), exchange.world());
    if !(2..=WORLD_MAX).contains(&world) {
        return Err(PairsError::World { world });
    }
    let cookie = greet(exchange, config)?;
    let local = config.bind.or_else(|| exchange.local_ip()).ok_or(PairsError::Address)?;
    let failed = |source| PairsError::Socket { local, source };
    let responder = Responder::start(local, cookie, (rank, world), config.clock).map_err(failed)?;
    let addresses: Vec<SocketAddr> = tell(exchange, &responder.address(), "address")?;
    let mut measured = Vec::new();
    for turn in 0..schedule::turns(world) {
        let partner = schedule::partner(rank, turn, world);
        for lower_first in [true, false] {
            // All begin together, so that a host takes part in one measurement at a time.
            tell::<u16>(exchange, &turn, "turn")?;
            let Some(peer) = partner.filter(|peer| (rank < *peer) == lower_first) else { continue };
            let probe = Probe {
                cookie: &cookie,
                clock: config.clock,
                rank,
                local,
                peer,
                to: addresses[usize::from(peer)],
                datagram: header::LEN + config.payload_bytes as usize,
                prediction: config.prediction,
            };
            let pair = probe.run().map_err(failed)?;
            let trace = if pair.reached { trace::trace(&probe).map_err(failed)? } else { Trace::default() };
            measured.push((pair, trace));
        }
    }
    // Until the last partner has measured, packets of it arrive.
    tell::<u16>(exchange, &schedule::turns(world), "turn")?;
    measured.sort_by_key(|(pair, _)| pair.peer);
    let (pairs, traces): (Vec<PairReport>, Vec<Trace>) = measured.into_iter().unzip();
    let mine = RankReport { host: host_name(), pairs, heard: responder.heard(), traces: Vec::new() };
    let mut reports: Vec<RankReport> = tell(exchange, &mine, "report")?;
    let traces: Vec<Vec<Trace>> = tell(exchange, &traces, "report")?;
    for (report, traces) in reports.iter_mut().zip(traces) {
        report.traces = traces;
    }
    check_reports(&reports)?;
    Ok(reports)
}

/// Agrees on the cookie of rank 0.
fn greet(exchange: &mut dyn Exchange, config: &PairsConfig<'_>) -> Result<Cookie, PairsError> {
    let mut cookie = Cookie::default();
    // Without randomness packets of another check could be taken for those of this one, and no more.
    let _ = rustix::rand::getrandom(&mut cookie, rustix::rand::GetRandomFlags::empty());
    let hello = Hello { version: VERSION, cookie, payload_bytes: config.payload_bytes };
    let all: Vec<Hello> = tell(exchange, &hello, "greeting")?;
    let alike = |other: &Hello| (other.version, other.payload_bytes) == (VERSION, config.payload_bytes);
    match all.iter().position(|other| !alike(other)) {
        Some(rank) => Err(PairsError::Peer { rank: rank as u16, what: "greeting" }),
        None => Ok(all[0].cookie),
    }
}

/// Says something to all ranks; what each said, in their order.
fn tell<T: Serialize + for<'a> Deserialize<'a>>(
    exchange: &mut dyn Exchange,
    mine: &T,
    what: &'static str,
) -> Result<Vec<T>, PairsError> {
    let mine = serde_json::to_vec(mine).unwrap_or_default();
    let all = exchange.all_gather(&mine).map_err(PairsError::Exchange)?;
    let parse = |(rank, text): (usize, &Vec<u8>)| {
        serde_json::from_slice(text).map_err(|_| PairsError::Peer { rank: rank as u16, what })
    };
    all.iter().enumerate().map(parse).collect()
}

/// Refuses reports that cannot have been measured.
fn check_reports(reports: &[RankReport]) -> Result<(), PairsError> {
    for (rank, report) in reports.iter().enumerate() {
        let peers = (0..reports.len()).filter(|peer| *peer != rank);
        let complete = report.pairs.len() + 1 == reports.len() && report.heard.len() < reports.len();
        let traced = report.traces.len() == report.pairs.len();
        // It is printed.
        let named = report.host.len() <= HOST_LEN_MAX && !report.host.chars().any(char::is_control);
        if !complete
            || !named
            || !traced
            || !report.traces.iter().all(Trace::is_plausible)
            || !report.pairs.iter().zip(peers).all(|(pair, peer)| pair.is_plausible(peer as u16))
        {
            return Err(PairsError::Peer { rank: rank as u16, what: "report" });
        }
    }
    Ok(())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().filter(|letter| !letter.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
