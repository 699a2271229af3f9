//! UDP sockets, many datagrams per system call, with the kernel's segmentation (GSO) and coalescing (GRO) where it
//! has them.
//!
//! A socket is either *connected* ([`UdpIo::connect`]: one peer, `PortId(0)`) or *listening* ([`UdpIo::bind`]: peers
//! are made ports by [`bind_port`](PacketIo::bind_port), everybody else's datagrams are dropped and counted).
//!
//! What the kernel cannot do is found out at run time: without `UDP_GRO` every message is one datagram, and when the
//! kernel refuses `UDP_SEGMENT` for a route or a length, datagrams of that length are sent one by one from then on.
//!
//! Linux only: `recvmmsg`, `sendmmsg`, `ppoll` and `eventfd`. Sources: udp(7), ip(7), ipv6(7), cmsg(3), and the
//! kernel's `net/ipv4/udp.c` for the limits of a segmented send.

mod address;
mod hops;
mod kept;
mod marks;
mod paths;
mod receive;
mod syscall;
mod transmit;
mod window;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use netfold_wire::{Dscp, PATHS_MAX};

use self::address::Peers;
pub use self::hops::{HopReport, HopSocket};
use self::marks::Marks;
pub use self::paths::UdpPaths;
use crate::event_waker::EventWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, sys};

/// Longest datagram that IPv4 carries, in bytes: 65535 less its header and UDP's.
pub const DATAGRAM_LEN_MAX: usize = 65_507;

/// How a socket is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpConfig {
    /// Longest datagram in bytes, 1 to [`DATAGRAM_LEN_MAX`] (other values are moved into that range). Longer ones that
    /// arrive are dropped and counted. Datagrams beyond the path's MTU travel as IP fragments.
    pub datagram_len_max: usize,
    /// Let the kernel cut runs of equal datagrams (`UDP_SEGMENT`), where it can.
    pub gso: bool,
    /// Let the kernel hand over several datagrams as one message (`UDP_GRO`), where it can.
    pub gro: bool,
    /// Size in bytes asked for each of the socket's two buffers. The system's limits (`net.core.rmem_max`,
    /// `net.core.wmem_max`) apply unless the process may override them.
    pub socket_buffer: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { datagram_len_max: DATAGRAM_LEN_MAX, gso: true, gro: true, socket_buffer: 8 << 20 }
    }
}

/// A UDP socket as a backend.
pub struct UdpIo {
    socket: UdpSocket,
    local: SocketAddr,
    role: Role,
    datagram_len_max: usize,
    sending: transmit::Sending,
    receiving: receive::Receiving,
    waker: Arc<EventWaker>,
    counters: IoCounters,
    marks: Marks,
}

/// The peers.
#[derive(Debug)]
enum Role {
    Connected(SocketAddr),
    Listening(Peers),
}

impl UdpIo {
    /// A socket that listens on `local` (port 0: any free port) and has no peers yet.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] when the address is taken or not of this machine; [`IoError::Os`].
    pub fn bind(local: SocketAddr, config: UdpConfig) -> Result<Self, IoError> {
        let socket = UdpSocket::bind(local).map_err(|source| IoError::Bind { address: local, source })?;
        Self::new(socket, Role::Listening(Peers::default()), config)
    }

    /// A socket whose only peer, `PortId(0)`, is `peer`. The system chooses the local address.
    ///
    /// # Errors
    ///
    /// [`IoError::Connect`] when there is no route to the peer; [`IoError::Os`].
    pub fn connect(peer: SocketAddr, config: UdpConfig) -> Result<Self, IoError> {
        let any = match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self::connect_from(SocketAddr::new(any, 0), peer, config)
    }

    /// As [`connect`](Self::connect), from the local address `local`.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] when the local address is taken or not of this machine; otherwise as `connect`.
    pub fn connect_from(local: SocketAddr, peer: SocketAddr, config: UdpConfig) -> Result<Self, IoError> {
        let socket = UdpSocket::bind(local).map_err(|source| IoError::Bind { address: local, source })?;
        socket.connect(peer).map_err(|source| IoError::Connect { peer, source })?;
        Self::new(socket, Role::Connected(peer), config)
    }

    fn new(socket: UdpSocket, role: Role, config: UdpConfig) -> Result<Self, IoError> {
        socket.set_nonblocking(true).map_err(|source| IoError::os("set_nonblocking", source))?;
        let local = socket.local_addr().map_err(|source| IoError::os("getsockname", source))?;
        let datagram_len_max = config.datagram_len_max.clamp(1, DATAGRAM_LEN_MAX);
        sys::enlarge_buffers(socket.as_fd(), config.socket_buffer);
        // Best effort: without them the ECN bits read 0.
        let _ = syscall::set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
        if local.is_ipv6() {
            let _ = syscall::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
        }
        let gro = config.gro && syscall::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let gso = config.gso && syscall::option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok();
        Ok(Self {
            local,
            role,
            datagram_len_max,
            sending: transmit::Sending::new(if gso { datagram_len_max } else { 0 }),
            receiving: receive::Receiving::new(datagram_len_max, gro),
            waker: Arc::new(EventWaker::new()?),
            counters: IoCounters::default(),
            marks: Marks::default(),
            socket,
        })
    }

    /// Says in the IP header of all that is sent from now on that marks of long queues are heeded (ECT(0), RFC 3168 section 5), or
    /// that they are not. Not at first.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the system refuses.
    pub fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        self.mark(Marks { ecn_capable: capable, ..self.marks })
    }

    /// Sets the DSCP in the IP headers of all datagrams sent from now on, by class. One code point for all classes is set on the socket;
    /// several are passed with each message, and a GSO packet has one.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the system refuses.
    pub fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        self.mark(Marks { dscp: *dscp, ..self.marks })
    }

    fn as_socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn mark(&mut self, marks: Marks) -> Result<(), IoError> {
        let (level, name) = marks::option(self.local);
        let all = libc::c_int::from(marks.of_class(0));
        syscall::set_option(self.socket.as_fd(), level, name, all)
            .map_err(|source| IoError::os("setsockopt", source))?;
        self.marks = marks;
        self.sending.set_marks(marks.differ().then_some((marks, self.local.is_ipv6())));
        Ok(())
    }

    /// Whether the kernel coalesces datagrams on receive.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.receiving.gro()
    }

    /// Longest datagram in bytes that is sent in GSO packets; 0 when none is.
    #[must_use]
    pub fn gso_len_max(&self) -> usize {
        self.sending.segment_max()
    }
}

impl PacketIo for UdpIo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "udp",
            datagram_len_max: self.datagram_len_max,
            burst_max: window::PACKETS_MAX,
            batch_bytes: self.receiving.batch_bytes(),
            udp_ports_max: PATHS_MAX,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.sending.flush(&self.socket, &self.role, &mut self.counters)?;
        self.receiving.receive(&self.socket, &mut self.role, batch, &mut self.counters)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        crate::check_transmit(memory, packets, self.datagram_len_max)?;
        self.sending.transmit(&self.socket, &self.role, memory, packets, &mut self.counters)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.receiving.has_kept() || !self.waker.announce_sleep() {
            return Ok(true);
        }
        let unsent = if self.sending.has_unsent() { libc::POLLOUT } else { 0 };
        let fds = [(self.socket.as_fd(), libc::POLLIN | unsent), (self.waker.fd(), libc::POLLIN)];
        self.counters.sleeps += u64::from(!timeout.is_zero());
        let ready = syscall::poll(fds, timeout);
        self.waker.end_sleep(matches!(ready, Ok([_, true])));
        let ready = ready.map_err(|source| IoError::os("ppoll", source))?;
        if ready[0] {
            self.sending.flush(&self.socket, &self.role, &mut self.counters)?;
        }
        Ok(ready != [false; 2])
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.fd())
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.bind_ports(port, peer, 1)
    }

    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        match &mut self.role {
            Role::Listening(peers) => peers.bind(port, peer, udp_ports, self.local),
            Role::Connected(_) => Err(IoError::Unsupported("binding ports of a connected socket")),
        }
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        match &mut self.role {
            Role::Listening(peers) => peers.unbind(port),
            Role::Connected(_) => Err(IoError::Unsupported("binding ports of a connected socket")),
        }
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        Self::set_ecn_capable(self, capable)
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        Self::set_dscp(self, dscp)
    }

    fn set_segmentation(&mut self, allowed: bool) {
        self.sending.set_segmentation(allowed);
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        match &self.role {
            Role::Listening(peers) => peers.peer(port),
            Role::Connected(peer) => (port == PortId(0)).then_some(*peer),
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.local)
    }

    /// Asks another socket, since only a connected one has a path. Source: ip(7), `IP_MTU`.
    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        let socket = UdpSocket::bind(SocketAddr::new(self.local.ip(), 0)).ok()?;
        socket.connect(peer).ok()?;
        let (level, name) = match peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        usize::try_from(syscall::option(socket.as_fd(), level, name).ok()?).ok()
    }

    fn counters(&self) -> IoCounters {
        IoCounters { rx_dropped: sys::drops(self.socket.as_fd()), ..self.counters }
    }
}
