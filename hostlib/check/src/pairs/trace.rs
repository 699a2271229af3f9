//! How many paths the packets of a rank take to another, by the routers that they pass.
//!
//! From each of several UDP ports a request is sent that ends at the first router, at the second, and so on: each reports it by ICMP. A router chooses among
//! equal paths by the ports, so that the routers of different ports show the paths; so many there are at least. Routers that report nothing, bridges, and
//! parallel links to the same address are not seen. Linux sends a host 6 reports at once and then one a second (`net.ipv4.icmp_ratelimit`): as many ports
//! are asked for first, and the others after them, for one router of two is that of 6 ports in one of 32 cases.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use netfold_io::IoError;
use netfold_io::udp::HopSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::packet::{LEN, Reply, Request};
use super::probe::{PORTS, Probe};

/// Routers that are looked for on a path, at most.
const HOPS_MAX: u8 = 8;

/// UDP ports that are asked for first at each hop: as many as Linux reports at once.
const FIRST: usize = 6;

/// A report is awaited for so long.
const REPORT_TIMEOUT: Duration = Duration::from_millis(100);

/// The routers that packets of a rank pass on their way to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Paths that the UDP ports take, at least: the most routers at the same distance. 0: no router has reported.
    pub paths: u8,
    /// UDP ports whose router there is known.
    pub ports_traced: u8,
    /// The first router, if there is one and all ports that are known pass it.
    pub first_router: Option<IpAddr>,
    /// The second, if all ports pass it, and the same routers everywhere else as far as they are known: the path is the same for all.
    pub only_router: Option<IpAddr>,
    /// UDP ports whose router is known where there are several, and whose path is [predicted](super::Prediction).
    pub ports_predicted: u8,
    /// Those of them that pass another router than most ports of the same predicted path.
    pub ports_elsewhere: u8,
}

impl Trace {
    /// Whether it can have been found.
    pub(super) fn is_plausible(&self) -> bool {
        let one_path = self.paths == 1 || self.only_router.is_none();
        self.paths <= self.ports_traced
            && self.ports_traced <= PORTS
            && self.ports_predicted <= self.ports_traced
            && self.ports_elsewhere <= self.ports_predicted
            && one_path
    }
}

/// The routers at each distance, and the UDP ports that pass them: by hop, then by port.
#[derive(Debug, Default)]
struct Hops(Vec<BTreeMap<usize, IpAddr>>);

impl Hops {
    /// How many different routers there are at a hop.
    fn routers(&self, hop: usize) -> usize {
        let Some(ports) = self.0.get(hop) else { return 0 };
        let mut routers: Vec<&IpAddr> = ports.values().collect();
        routers.sort();
        routers.dedup();
        routers.len()
    }

    /// The router of the ports that are known, if it is the same for all.
    fn only(&self, hop: usize) -> Option<IpAddr> {
        let first = self.0.get(hop)?.values().next()?;
        (self.routers(hop) == 1).then_some(*first)
    }

    /// Whether the ports that are asked for first pass the same router.
    fn is_single(&self, hop: usize) -> bool {
        self.routers(hop) == 1 && (0..FIRST).all(|port| self.0[hop].contains_key(&port))
    }

    /// What is known, with the predicted path of each port, if that is known, too.
    fn summary(&self, predicted: &[Option<u8>]) -> Trace {
        // Of hops with as many routers the one where most ports are known, and of these the last.
        let known = |hop: usize| (self.routers(hop), self.0[hop].len(), hop);
        let (paths, traced, hop) = (0..self.0.len()).map(known).max().unwrap_or_default();
        let (ports_predicted, ports_elsewhere) = match paths {
            0 | 1 => (0, 0),
            _ => self.elsewhere(hop, predicted),
        };
        Trace {
            paths: paths as u8,
            ports_traced: traced as u8,
            first_router: self.only(0),
            only_router: self.only(1).filter(|_| paths == 1 && self.is_single(1)),
            ports_predicted,
            ports_elsewhere,
        }
    }

    /// Ports with a predicted path whose router at a hop is known, and those of them that pass another than most ports of the same path. Several paths may lead
    /// by one router, over parallel links.
    fn elsewhere(&self, hop: usize, predicted: &[Option<u8>]) -> (u8, u8) {
        let mut routers = BTreeMap::<u8, BTreeMap<IpAddr, u8>>::new();
        for (port, router) in &self.0[hop] {
            if let Some(path) = predicted.get(*port).copied().flatten() {
                *routers.entry(path).or_default().entry(*router).or_default() += 1;
            }
        }
        let all: u8 = routers.values().flat_map(BTreeMap::values).sum();
        let most: u8 = routers.values().filter_map(|ports| ports.values().max()).sum();
        (all, all - most)
    }
}

/// A socket for each UDP port, and what they have learnt.
struct Tracing<'a> {
    probe: &'a Probe<'a>,
    sockets: Vec<HopSocket>,
    hops: Hops,
    /// The fewest routers that a request may pass and arrive, less than which end before.
    arrived: Option<u8>,
}

/// Finds the routers between a rank and another.
pub(super) fn trace(probe: &Probe<'_>) -> io::Result<Trace> {
    let sockets =
        (0..PORTS).map(|_| HopSocket::bind(probe.local)).collect::<Result<_, _>>().map_err(system)?;
    let mut tracing = Tracing { probe, sockets, hops: Hops::default(), arrived: None };
    for hop in 1..=HOPS_MAX {
        tracing.hops.0.push(BTreeMap::new());
        tracing.ask(hop, 0..FIRST)?;
        let at = usize::from(hop) - 1;
        if tracing.arrived.is_none() && !tracing.hops.0[at].is_empty() {
            tracing.ask(hop, FIRST..usize::from(PORTS))?;
        }
        if let Some(arrived) = tracing.arrived {
            // Where paths have different lengths, the shortest counts.
            tracing.hops.0.truncate(usize::from(arrived) - 1);
            break;
        }
    }
    let predict = |socket: &HopSocket| {
        let from = rustix::net::getsockname(socket).ok().and_then(|from| SocketAddr::try_from(from).ok());
        from.and_then(|from| probe.predict(from))
    };
    let predicted: Vec<Option<u8>> = tracing.sockets.iter().map(predict).collect();
    Ok(tracing.hops.summary(&predicted))
}

/// The system's reason why a socket cannot be opened.
fn system(error: IoError) -> io::Error {
    match error {
        IoError::Bind { source, .. } | IoError::Os { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl Tracing<'_> {
    /// Sends a request that ends at router number `hop` from each of these ports, and takes what comes.
    fn ask(&mut self, hop: u8, ports: std::ops::Range<usize>) -> io::Result<()> {
        let request = Request { rank: self.probe.rank, number: hop.into() }.emit(self.probe.cookie);
        for port in ports.clone() {
            // A request that is not sent is not reported.
            let _ = self.sockets[port].send(&request, self.probe.to, hop);
        }
        let deadline = Instant::now() + REPORT_TIMEOUT;
        loop {
            for port in 0..self.sockets.len() {
                self.take(hop, port)?;
            }
            let known = &self.hops.0[usize::from(hop) - 1];
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.arrived.is_some() || ports.clone().all(|port| known.contains_key(&port))
            {
                return Ok(());
            }
            let mut waiting: Vec<PollFd<'_>> =
                self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            let left = Timespec::try_from(left).ok();
            match poll(&mut waiting, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes what has come to a port; `hop` is the one that is asked for.
    fn take(&mut self, hop: u8, port: usize) -> io::Result<()> {
        let (socket, mut memory) = (&self.sockets[port], [0; LEN + 1]);
        while let Some(report) = socket.report(&mut memory)? {
            let quoted = Request::parse(&memory[..report.quoted], self.probe.cookie);
            // A router need not quote so much.
            let of = quoted.map_or(u32::from(hop), |request| request.number);
            if let Some(ports) = (of as usize).checked_sub(1).and_then(|at| self.hops.0.get_mut(at)) {
                ports.entry(port).or_insert(report.router);
            }
        }
        while let Some((len, from)) = socket.receive(&mut memory)? {
            let reply = Reply::parse(&memory[..len], self.probe.cookie).filter(|_| from == self.probe.to);
            if let Some(reply) = reply.filter(|reply| (1..=u32::from(hop)).contains(&reply.number)) {
                let arrived = reply.number as u8;
                self.arrived = Some(self.arrived.map_or(arrived, |fewest| fewest.min(arrived)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(of: &[&[(usize, u8)]]) -> Hops {
        let at = |ports: &&[(usize, u8)]| {
            ports.iter().map(|(port, router)| (*port, IpAddr::from([10, 0, 0, *router]))).collect()
        };
        Hops(of.iter().map(at).collect())
    }

    #[test]
    fn paths_are_routers_at_the_same_distance() {
        let router = |number| Some(IpAddr::from([10, 0, 0, number]));
        let all = |router: u8| (0..FIRST).map(|port| (port, router)).collect::<Vec<_>>();
        let summary = |of: &[&[(usize, u8)]]| hops(of).summary(&[]);
        assert_eq!(summary(&[]), Trace::default());
        assert_eq!(summary(&[&[], &[]]), Trace::default(), "routers that report nothing");
        let one = summary(&[&[(2, 1)], &all(2), &[(0, 3)]]);
        let want = Trace {
            paths: 1,
            ports_traced: 6,
            first_router: router(1),
            only_router: router(2),
            ..Trace::default()
        };
        assert_eq!(one, want);
        let two = summary(&[&all(1), &[(0, 2), (1, 4), (9, 2)], &[(0, 3)]]);
        let want = Trace { paths: 2, ports_traced: 3, first_router: router(1), ..Trace::default() };
        assert_eq!(two, want);
        // Not all ports are known: those that are not may pass another router.
        let partial = summary(&[&all(1), &all(2)[1..], &[(0, 3)]]);
        assert_eq!((partial.paths, partial.only_router), (1, None));
        // The same router, and then different ones.
        let later = summary(&[&all(1), &all(2), &[(0, 3), (1, 5)]]);
        assert_eq!((later.paths, later.only_router), (2, None));
        for trace in [one, two, partial, later] {
            assert!(trace.is_plausible(), "{trace:?}");
        }
        assert!(!Trace { paths: 2, ..one }.is_plausible());
        assert!(!Trace { ports_traced: PORTS + 1, ..one }.is_plausible());
    }

    #[test]
    fn ports_of_one_predicted_path_pass_one_router() {
        let all = |router: u8| (0..FIRST).map(|port| (port, router)).collect::<Vec<_>>();
        let split = [(0, 2), (1, 3), (2, 2), (3, 3), (4, 3), (9, 2)];
        let of = |predicted: &[Option<u8>]| {
            let trace = hops(&[&all(1), &split, &all(4)]).summary(predicted);
            assert!(trace.is_plausible(), "{trace:?}");
            (trace.ports_predicted, trace.ports_elsewhere)
        };
        let paths = |paths: [u8; 10]| paths.map(Some);
        assert_eq!(of(&paths([0, 1, 0, 1, 1, 9, 9, 9, 9, 0])), (6, 0), "as predicted");
        assert_eq!(of(&paths([0, 1, 2, 1, 3, 9, 9, 9, 9, 0])), (6, 0), "paths over parallel links");
        assert_eq!(of(&paths([0, 0, 0, 1, 1, 9, 9, 9, 9, 1])), (6, 2), "two of three each");
        assert_eq!(of(&[None, Some(0), Some(0)]), (2, 1), "what is not predicted does not count");
        let one = hops(&[&all(1), &all(2)]).summary(&paths([0, 1, 0, 1, 0, 1, 0, 0, 0, 0]));
        assert_eq!((one.ports_predicted, one.ports_elsewhere), (0, 0), "perhaps there is no other router");
    }
}
