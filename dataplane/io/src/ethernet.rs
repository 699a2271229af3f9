//! Datagrams over an Ethernet link: any [`Link`] as a backend.
//!
//! [`Ethernet`] writes and checks the headers that the kernel writes below a UDP socket: Ethernet, IPv4 (no options, "do not
//! fragment") and UDP. Like a socket it is *connected* ([`Ethernet::connect`]: one peer, `PortId(0)`) or *listening*
//! ([`Ethernet::bind`]: peers are made ports by [`bind_port`](PacketIo::bind_port)). Datagrams are found and handed out where the
//! link put their frames; a caller whose batch has less memory than the longest frame gets copies.
//!
//! What is not for our address and port is left alone. What is, but has a wrong checksum or length, options, or is a fragment,
//! counts as [`IoCounters::malformed`]. The UDP checksum may be absent; or be the unfinished one of a sender on the same machine.
//!
//! # The owner of the address
//!
//! The backend's IPv4 address may be one of the machine's or its own.
//!
//! - *Own*: the kernel does not have it. [`Ethernet`] replies to ARP and pings for it (by smoltcp). This is the rule for packet sockets, which
//!   see copies: the kernel ignores what is sent to an address that it does not have.
//! - *The kernel's*: the kernel replies to ARP and pings. A UDP socket that reads nothing holds the port, so that no other program gets
//!   it and the kernel reports no closed port to peers. This is the rule for XDP, which takes datagrams away before
//!   the kernel sees them. On packet sockets it works too, and costs the kernel a look at every datagram.
//!
//! Which of the two it is is found out when it is opened: an address that an interface has is the kernel's.
//!
//! # Flow control
//!
//! [`pause`](PacketIo::pause) sends frames of flow control per priority (IEEE Std 802.1Qbb), and [`paused`](PacketIo::paused) says what
//! such frames have asked for. Links by XDP send them and receive none: the kernel takes them.
//!
//! # Neighbours
//!
//! Peers are found by ARP, from [`bind_port`](PacketIo::bind_port) or [`connect`](Ethernet::connect) on: asked again after 10 ms, and then
//! at growing intervals of up to 1 s. While a new peer has not replied, datagrams for it are back-pressure for up to 500 ms; from then
//! on they are dropped and counted in [`IoCounters::unresolved`]. Entries are refreshed every 30 s, and hold until there is a new reply.
//! Peers outside the prefix are reached by the gateway.

mod checksum;
mod headers;
mod neighbours;
mod pause;
mod peers;
mod responder;
mod role;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_wire::frame::{EthernetAddress, OUTER_LEN};
use netfold_wire::{Dscp, UDP_PORT};

use self::headers::{Frame, Template, classify};
use self::neighbours::{Neighbours, Own, Reach};
use self::pause::Pauses;
use self::peers::{Peer, Peers};
use self::responder::Responder;
pub(crate) use self::role::Claim;
use self::role::Role;
use crate::batch::Part;
use crate::link::{Link, LinkProperties};
use crate::{Capabilities, IoCounters, IoError, PacketIo, Paused, PortId, RxBatch, Transmit, check_transmit};

/// Frames that are taken in while a datagram is held back.
const HELD_MAX: usize = 64;
/// Calls of `receive` between two readings of the clock when no neighbour is unresolved.
const CALLS_A_LOOK: u32 = 64;
/// Bursts without a datagram for us that one `receive` goes through.
const BURSTS_MAX: usize = 16;

/// How datagrams are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetConfig {
    /// Our IPv4 address and UDP port. Port 0: a free one, where the address is the kernel's or no socket uses it.
    pub address: SocketAddrV4,
    /// Bits of the address that name the network: peers within it are neighbours.
    pub prefix_len: u8,
    /// The gateway to peers outside the network; `None`: they are treated as neighbours, and do not reply.
    pub gateway: Option<Ipv4Addr>,
    /// Longest datagram in bytes; the link's frames set another limit.
    pub datagram_len_max: usize,
    /// Whether UDP checksums are written. Received ones are checked wherever there are any.
    pub udp_checksum: bool,
    /// Whether to reply to ARP and pings where the kernel does not have the address. Of several backends at one address one does.
    pub answers: bool,
}

impl EthernetConfig {
    /// The usual configuration for an address: a network of 24 bits, no gateway, datagrams as long as frames carry, checksums, answers.
    #[must_use]
    pub fn new(address: SocketAddrV4) -> Self {
        Self {
            address,
            prefix_len: 24,
            gateway: None,
            datagram_len_max: usize::MAX,
            udp_checksum: true,
            answers: true,
        }
    }

    /// As [`new`](Self::new), on Netfold's own UDP port.
    #[must_use]
    pub fn at(ip: Ipv4Addr) -> Self {
        Self::new(SocketAddrV4::new(ip, UDP_PORT))
    }
}

/// A [`Link`] as a backend.
pub struct Ethernet<L> {
    link: L,
    upper: Upper,
    /// Datagrams that arrived while others were held back, or that the caller's batch is too small to receive directly.
    held: RxBatch,
    /// How many of `held` are handed out.
    delivered: usize,
    /// A datagram was refused because its neighbour has not replied yet.
    blocked: bool,
    calls: u32,
    properties: LinkProperties,
}

/// Everything above the link.
struct Upper {
    own: Own,
    config: EthernetConfig,
    role: Role,
    neighbours: Neighbours,
    /// `None` where the kernel replies, or another backend at this address.
    answers: Option<Responder>,
    counters: IoCounters,
    /// What neighbours ask for.
    pauses: Pauses,
    /// Priorities that were paused by the last request to neighbours.
    pausing: u8,
    bits_per_second: Option<u64>,
    datagram_len_max: usize,
    ecn_capable: bool,
    dscp: Dscp,
    /// Holds the port where the address is the kernel's.
    _claim: Claim,
}

impl<L: Link> Ethernet<L> {
    /// A backend without peers yet, that receives at `config.address`.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] when the port is taken; [`IoError::Address`] when the address is no host's, the prefix has more than 32 bits, the
    /// interface has no Ethernet address, or its frames are too short for a datagram.
    pub fn bind(link: L, config: EthernetConfig) -> Result<Self, IoError> {
        Self::claimed(link, None, config, Claim::new(config.address)?)
    }

    /// A backend whose only peer, `PortId(0)`, is `peer`.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind); [`IoError::Family`] when the peer has no IPv4 address.
    pub fn connect(link: L, peer: SocketAddr, config: EthernetConfig) -> Result<Self, IoError> {
        Self::claimed(link, Some(peer), config, Claim::new(config.address)?)
    }

    /// As [`bind`](Self::bind) or, with a peer, [`connect`](Self::connect), at the address that was claimed.
    pub(crate) fn claimed(
        link: L,
        peer: Option<SocketAddr>,
        config: EthernetConfig,
        claim: Claim,
    ) -> Result<Self, IoError> {
        let Some(peer) = peer else {
            return Self::new(link, Role::Listening(Peers::default()), config, claim);
        };
        let mut io = Self::new(link, Role::Connected(Peers::default()), config, claim)?;
        io.upper.bind(PortId(0), peer, &mut io.link)?;
        io.link.flush()?;
        Ok(io)
    }

    fn new(mut link: L, role: Role, config: EthernetConfig, claim: Claim) -> Result<Self, IoError> {
        let properties = link.properties();
        role::check(&config, &properties)?;
        let config = EthernetConfig { address: claim.address(), ..config };
        link.hear_port(config.address.port())?;
        let own = Own { mac: EthernetAddress(properties.mac), ip: *config.address.ip() };
        let answers = (config.answers && !claim.is_the_kernels()).then(|| {
            let mut answers =
                Responder::new(own, config.prefix_len, properties.frame_len_max, Instant::now());
            if let Some(gateway) = config.gateway {
                answers.set_gateway(gateway);
            }
            answers
        });
        let longest = properties.frame_len_max.min(usize::from(u16::MAX) + 14) - OUTER_LEN;
        let upper = Upper {
            own,
            config,
            role,
            neighbours: Neighbours::default(),
            answers,
            counters: IoCounters::default(),
            pauses: Pauses::default(),
            pausing: 0,
            bits_per_second: properties.bits_per_second,
            datagram_len_max: config.datagram_len_max.clamp(1, longest),
            ecn_capable: false,
            dscp: Dscp::NONE,
            _claim: claim,
        };
        let held = RxBatch::new(HELD_MAX, HELD_MAX * properties.frame_len_max);
        Ok(Self { link, upper, held, delivered: 0, blocked: false, calls: 0, properties })
    }

    /// What the link below is.
    #[must_use]
    pub fn link_properties(&self) -> LinkProperties {
        self.properties
    }

    fn has_held(&self) -> bool {
        self.delivered < self.held.len()
    }

    /// Takes frames in, up to what `held` has room for.
    fn take_in(&mut self) -> Result<usize, IoError> {
        self.delivered = 0;
        let count = self.link.receive(&mut self.held)?;
        self.upper.read(&mut self.held, &mut self.link)?;
        Ok(count)
    }

    /// Copies held datagrams into the batch.
    fn deliver(&mut self, batch: &mut RxBatch) {
        while let Some(packet) = self.held.packets().get(self.delivered) {
            if !batch.push(packet.port, self.held.bytes(packet), packet.ecn) {
                if !batch.is_empty() {
                    break;
                }
                self.upper.counters.truncated += 1;
            }
            self.delivered += 1;
        }
    }

    /// Asks for neighbours that are due.
    fn tend(&mut self, now: Instant) -> Result<(), IoError> {
        if self.upper.neighbours.due().is_some_and(|due| due <= now) {
            self.upper.neighbours.ask(self.upper.own, &mut self.link, now);
            self.link.flush()?;
        }
        Ok(())
    }

    /// How long `wait` may sleep at a time.
    fn nap(&self, left: Duration, now: Instant) -> Duration {
        match self.upper.neighbours.due() {
            Some(due) if self.upper.neighbours.has_unresolved() => {
                left.min(due.saturating_duration_since(now))
            }
            _ => left,
        }
    }
}

impl Upper {
    fn bind(&mut self, port: PortId, peer: SocketAddr, link: &mut impl Link) -> Result<(), IoError> {
        let local = SocketAddr::V4(self.config.address);
        let IpAddr::V4(ip) = peer.ip().to_canonical() else { return Err(IoError::Family { peer, local }) };
        if !headers::is_host(ip) || peer.port() == 0 {
            return Err(IoError::Address { address: peer, problem: "it is no peer's address" });
        }
        let address = SocketAddrV4::new(ip, peer.port());
        let peers = self.role.peers_mut();
        peers.check(port, address)?;
        let next = match self.config.gateway {
            Some(gateway) if !role::same_network(&self.config, ip) => gateway,
            _ => ip,
        };
        let mut template = Template::new(self.own.mac, self.config.address, address);
        template.set_ecn_capable(self.ecn_capable);
        template.set_dscp(&self.dscp);
        let hop = self.neighbours.add(next, self.own, link, Instant::now());
        if let Some(old) = peers.insert(port, Peer { address, hop, template }) {
            self.neighbours.remove(old.hop);
        }
        Ok(())
    }

    /// Turns a batch of frames into one of datagrams; replies to ARP and pings.
    fn read(&mut self, batch: &mut RxBatch, link: &mut impl Link) -> Result<(), IoError> {
        let mut answered = false;
        batch.narrow(|_, frame| match classify(frame, self.own.mac, self.config.address) {
            Frame::Datagram { source, start, len, ecn } => {
                let Some(port) = self.role.peers().port_of(source) else {
                    self.counters.unknown_source += 1;
                    return None;
                };
                if len as usize > self.datagram_len_max {
                    self.counters.truncated += 1;
                    return None;
                }
                Some(Part { port, start, len, ecn })
            }
            Frame::Malformed => {
                self.counters.malformed += 1;
                None
            }
            kind @ (Frame::Arp | Frame::Icmp) => {
                let now = Instant::now();
                if kind == Frame::Arp {
                    self.neighbours.learn(frame, self.own, now);
                }
                if let Some(answers) = &mut self.answers {
                    answered |= answers.read(frame, link, now);
                }
                None
            }
            Frame::MacControl => {
                let read = self.pauses.read(frame, self.bits_per_second, Instant::now());
                self.counters.pause_ignored += u64::from(!read);
                None
            }
            Frame::Foreign => None,
        });
        if answered { link.flush() } else { Ok(()) }
    }

    /// Queues datagrams until one cannot be queued, and returns how many were taken, and whether a neighbour is why there are no more.
    fn write(
        &mut self,
        memory: &[u8],
        packets: &[Transmit],
        link: &mut impl Link,
    ) -> Result<(usize, bool), IoError> {
        // A datagram that goes to many is summed once.
        let mut summed = None;
        for (taken, packet) in packets.iter().enumerate() {
            let (Some(peer), Some(bytes)) = (self.role.peers().get(packet.port), packet.bytes(memory)) else {
                self.counters.unbound_port += 1;
                continue;
            };
            let mac = match self.neighbours.mac(peer.hop) {
                Some(mac) => mac,
                None => match self.neighbours.reach(peer.hop, Instant::now()) {
                    Reach::At(mac) => mac,
                    Reach::Soon => return Ok((taken, true)),
                    Reach::Silent => {
                        self.counters.unresolved += 1;
                        continue;
                    }
                },
            };
            let len = OUTER_LEN + bytes.len();
            let Some(frame) = lend(link, len)? else { return Ok((taken, false)) };
            let place = (packet.offset, packet.len);
            if self.config.udp_checksum && summed.is_none_or(|(at, _)| at != place) {
                summed = Some((place, checksum::sum(bytes)));
            }
            peer.template.write(frame, mac, bytes, summed.map(|(_, sum)| sum));
            link.push();
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += bytes.len() as u64;
        }
        Ok((packets.len(), false))
    }
}

/// Room for a frame; has the queue sent when it is full.
fn lend(link: &mut impl Link, len: usize) -> Result<Option<&mut [u8]>, IoError> {
    // Asked twice because a borrow that is returned in one branch only counts in both.
    if link.frame(len).is_none() {
        link.flush()?;
    }
    Ok(link.frame(len))
}

impl<L: Link> PacketIo for Ethernet<L> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: self.properties.name,
            datagram_len_max: self.upper.datagram_len_max,
            burst_max: self.properties.burst_max,
            batch_bytes: self.properties.burst_max * self.properties.frame_len_max,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        self.calls += 1;
        if self.upper.neighbours.has_unresolved() || self.calls >= CALLS_A_LOOK {
            self.calls = 0;
            self.tend(Instant::now())?;
        }
        let copied = self.has_held() || batch.memory().len() < self.properties.frame_len_max;
        for _ in 0..BURSTS_MAX {
            let frames = if copied {
                let frames = if self.has_held() { 1 } else { self.take_in()? };
                self.deliver(batch);
                frames
            } else {
                let frames = self.link.receive(batch)?;
                self.upper.read(batch, &mut self.link)?;
                frames
            };
            if frames == 0 || !batch.is_empty() {
                break;
            }
        }
        self.blocked &= self.upper.neighbours.has_unresolved();
        self.upper.counters.rx_packets += batch.len() as u64;
        self.upper.counters.rx_bytes +=
            batch.packets().iter().map(|packet| u64::from(packet.len)).sum::<u64>();
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.upper.datagram_len_max)?;
        let (taken, blocked) = self.upper.write(memory, packets, &mut self.link)?;
        self.blocked = blocked;
        self.link.flush()?;
        self.upper.counters.backpressure += u64::from(taken < packets.len());
        Ok(taken)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        let start = Instant::now();
        let mut now = start;
        loop {
            if self.has_held() {
                return Ok(true);
            }
            self.tend(now)?;
            let left = timeout.saturating_sub(now - start);
            if self.link.wait(self.nap(left, now))? {
                if self.blocked {
                    // The caller may try to send again before it receives, so the ARP reply is read here.
                    self.take_in()?;
                }
                return Ok(true);
            }
            now = Instant::now();
            if self.blocked && now - start >= neighbours::RESOLVE_TIMEOUT {
                return Ok(true); // datagrams are dropped instead from now on
            }
            if now - start >= timeout {
                return Ok(false);
            }
        }
    }

    fn waker(&self) -> Waker {
        self.link.waker()
    }

    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.link.wake_fd()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        if matches!(self.upper.role, Role::Connected(_)) {
            return Err(IoError::Unsupported("binding ports of a connected backend"));
        }
        self.upper.bind(port, peer, &mut self.link)?;
        self.link.flush()
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        let Role::Listening(peers) = &mut self.upper.role else {
            return Err(IoError::Unsupported("binding ports of a connected backend"));
        };
        let old = peers.remove(port).ok_or(IoError::UnknownPort(port))?;
        self.upper.neighbours.remove(old.hop);
        Ok(())
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        self.upper.ecn_capable = capable;
        self.upper.role.peers_mut().templates().for_each(|template| template.set_ecn_capable(capable));
        Ok(())
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        self.upper.dscp = *dscp;
        self.upper.role.peers_mut().templates().for_each(|template| template.set_dscp(dscp));
        Ok(())
    }

    /// Sends a frame of flow control per priority, which reaches the next station on the link: the peer, or a bridge that obeys or ignores it.
    fn pause(&mut self, priorities: u8) -> Result<Duration, IoError> {
        let resumed = self.upper.pausing & !priorities;
        let Some(frame) = lend(&mut self.link, pause::FRAME_LEN)? else { return Ok(Duration::ZERO) };
        pause::write(frame, self.properties.mac, priorities, resumed);
        self.link.push();
        self.link.flush()?;
        self.upper.pausing = priorities;
        Ok(pause::longest(self.properties.bits_per_second))
    }

    fn paused(&mut self) -> Paused {
        self.upper.pauses.paused(Instant::now)
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.upper.role.peers().get(port).map(|peer| SocketAddr::V4(peer.address))
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::V4(self.upper.config.address))
    }

    fn counters(&self) -> IoCounters {
        let (own, link) = (self.upper.counters, self.link.counters());
        IoCounters {
            rx_packets: own.rx_packets,
            rx_bytes: own.rx_bytes,
            tx_packets: own.tx_packets,
            tx_bytes: own.tx_bytes,
            unknown_source: own.unknown_source,
            unbound_port: own.unbound_port,
            malformed: own.malformed,
            unresolved: own.unresolved,
            pause_ignored: own.pause_ignored,
            backpressure: own.backpressure,
            truncated: own.truncated + link.truncated,
            ..link
        }
    }
}
