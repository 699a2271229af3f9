//! What one rank measures towards another, within bounds of time and bytes.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use netfold_io::PacketIo as _;
use netfold_io::udp::{UdpConfig, UdpIo};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use super::packet::{Cookie, LEN, Reply, Request};
use super::responder::DATAGRAM_MAX;
use super::{Clock, PairReport, Prediction};

/// A reply is awaited for so long.
const REPLY_TIMEOUT: Duration = Duration::from_millis(200);

/// Requests of a kind that is given up when none of them is replied to.
const TRIES: u32 = 4;

/// Requests that measure time, and for how long they are sent at most.
const ECHOES: u32 = 24;
const ECHO_TIME_MAX: Duration = Duration::from_secs(1);

/// UDP ports from which requests are sent: fabrics choose paths by them.
pub(super) const PORTS: u8 = 16;

/// Packets in flight when the rate is measured: fewer bytes than the smallest queues and socket buffers hold.
const WINDOW: usize = 32;

/// A packet is lost when one that was sent so many later has been replied to.
const REORDERED_MAX: u32 = 16;

/// Bounds of the measurement of the rate: it ends with the first of the bytes and the time, but not before so many packets, and in any case
/// after the longest time.
const BYTES_MAX: usize = 4 << 20;
const TIME: Duration = Duration::from_millis(300);
const PACKETS_MIN: u32 = 400;
const TIME_MAX: Duration = Duration::from_secs(2);

/// How one rank probes another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) cookie: &'a Cookie,
    pub(super) clock: Clock,
    /// This rank, and its address.
    pub(super) rank: u16,
    pub(super) local: IpAddr,
    /// The other one, and where it replies.
    pub(super) peer: u16,
    pub(super) to: SocketAddr,
    /// Bytes of a job's datagrams.
    pub(super) datagram: usize,
    /// The paths of UDP ports, where they are predicted.
    pub(super) prediction: Option<Prediction<'a>>,
}

/// A socket from which requests are sent, unfragmented.
struct Asking<'a> {
    probe: &'a Probe<'a>,
    socket: UdpSocket,
    next: u32,
    request: Vec<u8>,
}

impl Probe<'_> {
    /// The path of packets from an address of this rank to the other one, if it is predicted.
    pub(super) fn predict(&self, from: SocketAddr) -> Option<u8> {
        (self.prediction?.0)(from, self.to)
    }

    /// Measures everything. What cannot be measured because nothing returns stays zero.
    pub(super) fn run(&self) -> io::Result<PairReport> {
        let mut report = PairReport { peer: self.peer, ports: PORTS, ..PairReport::default() };
        let mut asking = Asking::open(self)?;
        report.reached = asking.is_replied_to(LEN)?;
        if !report.reached {
            return Ok(report);
        }
        (report.rtt_us, report.offset_us) = asking.times()?;
        for len in self.lengths() {
            if asking.is_replied_to(len)? {
                report.datagram = len as u32;
                break;
            }
        }
        report.ports_replied = self.ports()?;
        // Packets of a length that does not pass would measure nothing.
        let len = self.datagram.min(report.datagram as usize).max(LEN);
        (report.sent, report.lost, report.rate) = asking.rate(len)?;
        Ok(report)
    }

    /// Lengths of datagrams to try, the longest first.
    fn lengths(&self) -> Vec<usize> {
        let outer = if self.to.is_ipv4() { 28 } else { 48 };
        let mtu = UdpIo::connect(self.to, UdpConfig::default()).ok().and_then(|io| io.path_mtu(self.to));
        let longest = mtu.map_or(self.datagram, |mtu| mtu.saturating_sub(outer)).min(DATAGRAM_MAX);
        let mut lengths = vec![longest, self.datagram, 1024, 512, LEN];
        lengths.retain(|len| (LEN..=longest).contains(len));
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        lengths
    }

    /// From how many of [`PORTS`] UDP ports a request is replied to.
    fn ports(&self) -> io::Result<u8> {
        let mut silent = (0..PORTS).map(|_| Asking::open(self)).collect::<io::Result<Vec<_>>>()?;
        for _ in 0..TRIES {
            let deadline = Instant::now() + REPLY_TIMEOUT;
            for asking in &mut silent {
                asking.send(LEN);
            }
            let mut left = Vec::new();
            for mut asking in silent {
                // What has arrived at a socket is read even if others were waited for until now.
                let deadline = deadline.max(Instant::now() + Duration::from_millis(1));
                if asking.receive(deadline)?.is_none() {
                    left.push(asking);
                }
            }
            silent = left;
        }
        Ok(PORTS - silent.len() as u8)
    }
}

impl<'a> Asking<'a> {
    fn open(probe: &'a Probe<'a>) -> io::Result<Self> {
        let socket = UdpSocket::bind((probe.local, 0))?;
        // IP_PMTUDISC_PROBE: with DF, and whatever the kernel takes the path's MTU for.
        match probe.to {
            SocketAddr::V4(_) => {
                rustix::net::sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
            }
            SocketAddr::V6(_) => {
                rustix::net::sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
            }
        }
        Ok(Self { probe, socket, next: 0, request: vec![0; DATAGRAM_MAX] })
    }

    /// Sends a request of so many bytes; its number.
    fn send(&mut self, len: usize) -> u32 {
        let number = self.next;
        self.next += 1;
        let begin = Request { rank: self.probe.rank, number }.emit(self.probe.cookie);
        self.request[..LEN].copy_from_slice(&begin);
        // A request that is not sent (too long for the interface, no route) is lost like any other.
        let _ = self.socket.send_to(&self.request[..len], self.probe.to);
        number
    }

    /// The next reply of the peer until `deadline`.
    fn receive(&mut self, deadline: Instant) -> io::Result<Option<Reply>> {
        let mut memory = [0; LEN + 1];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv_from(&mut memory) {
                Ok((len, from)) if from == self.probe.to => {
                    let reply = Reply::parse(&memory[..len], self.probe.cookie);
                    // What was never asked is not from the peer.
                    let known = |reply: &Reply| reply.rank == self.probe.peer && reply.number < self.next;
                    if let Some(reply) = reply.filter(known) {
                        return Ok(Some(reply));
                    }
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // ICMP errors of earlier requests.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether one of a few requests of this length is replied to.
    fn is_replied_to(&mut self, len: usize) -> io::Result<bool> {
        let first = self.next;
        for _ in 0..TRIES {
            self.send(len);
            let deadline = Instant::now() + REPLY_TIMEOUT;
            while let Some(reply) = self.receive(deadline)? {
                if reply.number >= first {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The shortest round-trip time, and by how much the peer's clock was ahead in it, both in microseconds.
    ///
    /// The offset is NTP's (RFC 5905, section 8) of the exchange with the least delay: it is wrong by half of that at most.
    fn times(&mut self) -> io::Result<(f64, f64)> {
        let mut best: Option<(i64, i64)> = None;
        let begin = Instant::now();
        for _ in 0..ECHOES {
            if begin.elapsed() >= ECHO_TIME_MAX {
                break;
            }
            let (start, sent_ns) = (Instant::now(), self.probe.clock.now_ns());
            let number = self.send(LEN);
            let deadline = start + REPLY_TIMEOUT;
            while let Some(reply) = self.receive(deadline)? {
                if reply.number != number {
                    continue;
                }
                let back_ns = self.probe.clock.now_ns();
                // The times of the peer are claims: sums of wrong ones must not overflow.
                let there = reply.sent_ns.saturating_sub(reply.received_ns).max(0);
                let rtt = i64::try_from(start.elapsed().as_nanos())
                    .unwrap_or(i64::MAX)
                    .saturating_sub(there)
                    .max(0);
                let ahead = i128::from(reply.received_ns) - i128::from(sent_ns) + i128::from(reply.sent_ns)
                    - i128::from(back_ns);
                let offset = i64::try_from(ahead / 2).unwrap_or(i64::MAX);
                if best.is_none_or(|(least, _)| rtt < least) {
                    best = Some((rtt, offset));
                }
                break;
            }
        }
        let (rtt, offset) = best.unwrap_or_default();
        Ok((rtt as f64 / 1e3, offset as f64 / 1e3))
    }

    /// Packets sent and lost, and bits a second, with a window of [`WINDOW`] packets of `len` bytes.
    fn rate(&mut self, len: usize) -> io::Result<(u32, u32, f64)> {
        let (first, start) = (self.next, Instant::now());
        let mut replied: Vec<bool> = Vec::new();
        let mut in_flight: VecDeque<(u32, Instant)> = VecDeque::new();
        let (mut count, mut last, mut newest) = (0_u32, start, first);
        let take = |replied: &mut Vec<bool>, (count, last): (&mut u32, &mut Instant), number: u32| {
            let at = number.checked_sub(first).map(|at| at as usize);
            if let Some(at) = at.filter(|at| replied.get(*at) == Some(&false)) {
                replied[at] = true;
                (*count, *last) = (*count + 1, Instant::now());
            }
        };
        loop {
            let elapsed = start.elapsed();
            let sent = self.next - first;
            let enough = elapsed >= TIME || sent as usize * len >= BYTES_MAX;
            if elapsed >= TIME_MAX || enough && sent >= PACKETS_MIN {
                break;
            }
            while in_flight.len() < WINDOW {
                replied.push(false);
                in_flight.push_back((self.send(len), Instant::now()));
            }
            let oldest = in_flight.front().map_or(start, |(_, sent)| *sent) + REPLY_TIMEOUT;
            if let Some(reply) = self.receive(oldest)? {
                newest = newest.max(reply.number);
                take(&mut replied, (&mut count, &mut last), reply.number);
            }
            // A packet that is taken for lost leaves the window; its reply still counts.
            let is_over = |(number, sent): &(u32, Instant)| {
                let overtaken = newest.saturating_sub(*number) > REORDERED_MAX;
                replied[(number - first) as usize] || overtaken || sent.elapsed() >= REPLY_TIMEOUT
            };
            while in_flight.front().is_some_and(is_over) {
                in_flight.pop_front();
            }
        }
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while replied.contains(&false)
            && let Some(reply) = self.receive(deadline)?
        {
            take(&mut replied, (&mut count, &mut last), reply.number);
        }
        let sent = self.next - first;
        let time = last.duration_since(start).as_secs_f64();
        let rate = if count > 0 { f64::from(count) * len as f64 * 8.0 / time.max(1e-9) } else { 0.0 };
        Ok((sent, sent - count, rate))
    }
}
