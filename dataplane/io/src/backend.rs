//! The trait of packet I/O.

use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

use netfold_wire::Dscp;

use crate::{IoCounters, IoError, PortId, RxBatch, Transmit};

/// What a backend can do. Constant for the life of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Name of the backend, for messages.
    pub name: &'static str,
    /// Longest datagram in bytes (Netfold header and lanes, no outer headers).
    pub datagram_len_max: usize,
    /// Packets per `transmit` or `receive` beyond which a larger burst gains nothing.
    pub burst_max: usize,
    /// Bytes of [`RxBatch`] memory beyond which more gains nothing. Any size of at least one datagram works.
    pub batch_bytes: usize,
    /// UDP ports that the peer of a port may have at most ([`PacketIo::bind_ports`]).
    pub udp_ports_max: u8,
    /// Whether every datagram taken arrives, once and in order, while both ends exist.
    pub lossless: bool,
}

impl Capabilities {
    /// A batch of the size that suits the backend best.
    #[must_use]
    pub fn batch(&self) -> RxBatch {
        RxBatch::new(self.burst_max, self.batch_bytes)
    }
}

/// What is paused by peers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paused {
    /// Bit `p` for each priority `p` of which nothing is to be sent.
    pub priorities: u8,
    /// After this time to look again, where anything is paused: the first pause ends unless it is renewed.
    pub left: Duration,
}

impl Paused {
    /// Whether packets of a class are to be held back.
    #[must_use]
    pub const fn holds(self, class: u8) -> bool {
        self.priorities >> netfold_wire::priority_of(class) & 1 == 1
    }
}

/// One queue of packet I/O: bursts in, bursts out, and a way to sleep between them.
///
/// Object-safe; dynamic dispatch is paid once a burst. All calls but `wait` return at once.
pub trait PacketIo: Send {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Clears `batch`, fills it with what has arrived, and returns how many datagrams that is; 0 when there is nothing.
    ///
    /// A call may return fewer than have arrived: call again until it returns 0 before calling [`wait`](Self::wait)
    /// (or just wait: it returns at once then).
    ///
    /// # Errors
    ///
    /// [`IoError::PeerClosed`] when nothing is left and nothing can ever arrive; [`IoError::Os`] when the backend is
    /// broken for good.
    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError>;

    /// Sends `packets`, whose bytes lie in `memory`, and returns how many of them, counted from the first, were taken.
    ///
    /// Fewer than offered means back-pressure: offer the rest again later; [`wait`](Self::wait) returns when it is
    /// worth trying. The memory may be reused as soon as the call returns. Packets for one port leave in the order
    /// given; packets for different ports may overtake each other. Packets for a port without a peer are taken and
    /// counted in [`IoCounters::unbound_port`].
    ///
    /// # Errors
    ///
    /// [`IoError::Oversize`], [`IoError::Range`] and [`IoError::PeerClosed`]: none of the packets was taken.
    /// [`IoError::Os`] when the backend is broken for good; some may have left.
    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError>;

    /// Sleeps until something can be received, back-pressure has eased, or the waker fires (all `Ok(true)`), or until
    /// `timeout` is over (`Ok(false)`). May return `Ok(true)` without cause.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the backend is broken for good. A closed peer is no error here: `wait` returns
    /// `Ok(true)` and `receive` returns the error.
    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError>;

    /// A handle that ends the current or the next [`wait`](Self::wait), from any thread.
    fn waker(&self) -> Waker;

    /// An event descriptor (eventfd(2)) that ends the current or the next [`wait`](Self::wait) when it is written, to be passed to other
    /// processes. `None` where there is none.
    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes `peer` the peer of `port`, instead of the one it had. There is no wildcard:
    /// datagrams from unbound sources are dropped and counted.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] when the backend's ports are fixed; [`IoError::PeerBound`]; [`IoError::Family`].
    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        let _ = (port, peer);
        Err(IoError::Unsupported("binding ports"))
    }

    /// As [`bind_port`](Self::bind_port), of a peer that sends from several consecutive UDP ports, of which `peer` has the first. What is sent to
    /// `port` goes to the UDP port that its last datagram came from: the peer chooses the paths of both directions.
    ///
    /// # Errors
    ///
    /// As `bind_port`; [`IoError::PortRange`]; [`IoError::Unsupported`] for more than one where the backend knows a peer by one UDP port.
    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        if udp_ports > 1 {
            return Err(IoError::Unsupported("several UDP ports of a peer; sockets (--io udp) do"));
        }
        self.bind_port(port, peer)
    }

    /// From how many consecutive UDP ports this end sends, if it is a worker's with several paths: datagrams of `PortId(i)` leave from the
    /// i-th and arrive there, and each of these ports is bound to the same switch. Otherwise 1.
    fn paths(&self) -> u8 {
        1
    }

    /// Removes the peer of `port`: its datagrams count as from an unknown source from now on.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] when the backend's ports are fixed; [`IoError::UnknownPort`].
    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        let _ = port;
        Err(IoError::Unsupported("binding ports"))
    }

    /// Sets whether the IP headers of all datagrams sent from now on are ECN-capable (ECT(0), RFC 3168 section 5). Initially not.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] where there is no IP header; [`IoError::Os`] when the system refuses.
    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        let _ = capable;
        Err(IoError::Unsupported("ECN bits"))
    }

    /// Sets the DSCP in the IP headers of all datagrams sent from now on, by the class in the Netfold header (RFC 2474). Initially 0.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] where there is no IP header; [`IoError::Os`] when the system refuses.
    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        let _ = dscp;
        Err(IoError::Unsupported("DSCP"))
    }

    /// Asks all peers to send nothing of some priorities ([`priority_of`](netfold_wire::priority_of) their class), bit `p` for priority `p`, and
    /// to resume the others. How long the request holds unless it is made again: zero when it could not be sent now.
    ///
    /// # Errors
    ///
    /// [`IoError::Unsupported`] where peers cannot be asked; [`IoError::Os`] when the backend is broken for good.
    fn pause(&mut self, priorities: u8) -> Result<Duration, IoError> {
        let _ = priorities;
        Err(IoError::Unsupported("pausing by priority; links of Ethernet frames and rings in memory do it"))
    }

    /// The priorities of which peers ask to be sent nothing, as received so far. The backend sends what it is given all the same: its
    /// caller obeys.
    fn paused(&mut self) -> Paused {
        Paused::default()
    }

    /// Sets whether datagrams may be sent as GSO packets, which the kernel or a device segments. Initially allowed. Not every receiver gets them
    /// segmented: a packet socket behind a virtual interface receives the whole GSO packet. No effect on backends without GSO.
    fn set_segmentation(&mut self, allowed: bool) {
        let _ = allowed;
    }

    /// The address of the peer of `port`, where the backend knows addresses.
    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        let _ = port;
        None
    }

    /// The backend's own address, where it has one.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Longest IP packet in bytes, header included, that goes to `peer` in one piece as far as the system knows: the MTU of the interface
    /// that leads there, or a smaller one that a router on the path has reported. `None` where it is unknown, or where
    /// [`Capabilities::datagram_len_max`] includes it already.
    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        let _ = peer;
        None
    }

    /// The counters since the backend was opened.
    fn counters(&self) -> IoCounters;
}
