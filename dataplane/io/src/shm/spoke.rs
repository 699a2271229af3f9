//! A worker's end.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use super::handshake::Attached;
use super::ring::{Broken, Rings};
use super::{DATAGRAM_LEN_MAX, NAME, Name, acceptor, handshake};
use crate::event_waker::EventWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, check_transmit, sys};

/// Datagrams a call beyond which more gain nothing.
const BURST: usize = 256;

/// A worker beside a switch: its only peer is the switch, `PortId(0)`.
///
/// A switch that ends, however it ends, is [`IoError::PeerClosed`] once what it had sent is received.
#[derive(Debug)]
pub struct Spoke {
    rings: Rings,
    /// Where it is for the switch's control plane: its port there.
    own: SocketAddr,
    /// Where the switch is.
    peer: Option<SocketAddr>,
    /// Written to wake the switch.
    pub(super) hub: OwnedFd,
    line: UnixStream,
    gone: bool,
    waker: Arc<EventWaker>,
    datagram_len_max: usize,
    lossless: bool,
    counters: IoCounters,
}

impl Spoke {
    /// Attaches to the switch that has this name on this host. `own` is our address for its control plane; the port is the switch's to give.
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] with the reason: no such switch, of another version or user, or full.
    pub fn attach(name: &Name, own: IpAddr, datagram_len_max: usize) -> Result<Self, IoError> {
        Ok(Self::over(handshake::attach(name)?, own, datagram_len_max))
    }

    /// After the handshake.
    pub(super) fn over(attached: Attached, own: IpAddr, datagram_len_max: usize) -> Self {
        let terms = attached.terms;
        Self {
            rings: attached.rings,
            own: SocketAddr::new(own, terms.port),
            peer: None,
            hub: attached.hub,
            line: attached.line,
            gone: false,
            waker: Arc::new(EventWaker::over(attached.own.into())),
            datagram_len_max: datagram_len_max.clamp(1, DATAGRAM_LEN_MAX).min(terms.datagram_len_max),
            lossless: terms.lossless,
            counters: IoCounters::default(),
        }
    }

    fn wake_hub(&mut self) {
        self.counters.tx_calls += 1;
        acceptor::notify(self.hub.as_fd());
    }

    /// The switch wrote what it cannot mean: there is no trusting it any more.
    fn give_up(&mut self, _: Broken) -> IoError {
        self.counters.malformed += 1;
        self.gone = true;
        IoError::PeerClosed
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool, IoError> {
        let fds = [(self.waker.fd(), libc::POLLIN), (self.line.as_fd(), libc::POLLIN)];
        self.counters.sleeps += u64::from(!timeout.is_zero());
        let ready = sys::poll(fds, timeout);
        self.waker.end_sleep(matches!(ready, Ok([true, _])));
        let ready = ready.map_err(|source| IoError::os("ppoll", source))?;
        // The switch says nothing there but that it ends.
        self.gone |= ready[1];
        Ok(ready != [false; 2])
    }
}

impl PacketIo for Spoke {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: NAME,
            datagram_len_max: self.datagram_len_max,
            burst_max: BURST,
            batch_bytes: BURST * self.datagram_len_max,
            udp_ports_max: 1,
            lossless: self.lossless,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let received = self.rings.receive(PortId(0), true, batch, usize::MAX, &mut self.counters);
        if self.rings.give_back() {
            self.wake_hub();
        }
        match received {
            Err(broken) => Err(self.give_up(broken)),
            Ok(()) if batch.is_empty() && self.gone => Err(IoError::PeerClosed),
            Ok(()) => Ok(batch.len()),
        }
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.datagram_len_max)?;
        if self.gone {
            return Err(IoError::PeerClosed);
        }
        let mut taken = 0;
        for packet in packets {
            let Some(bytes) = packet.bytes(memory) else { break };
            if packet.port != PortId(0) {
                self.counters.unbound_port += 1;
            } else if !self.rings.push(bytes).map_err(|broken| self.give_up(broken))? {
                self.counters.backpressure += 1;
                break;
            } else {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += bytes.len() as u64;
            }
            taken += 1;
        }
        if self.rings.publish() {
            self.wake_hub();
        }
        Ok(taken)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.gone || self.rings.ready() {
            self.rings.relieved();
            return Ok(true);
        }
        self.rings.set_sleeping(true);
        fence(Ordering::SeqCst);
        let woken = self.rings.ready() || !self.waker.announce_sleep() || {
            let slept = self.sleep(timeout);
            self.rings.set_sleeping(false);
            slept?
        };
        self.rings.set_sleeping(false);
        self.rings.relieved();
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.fd())
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        if port != PortId(0) {
            return Err(IoError::Unsupported("binding other ports than a worker's only one"));
        }
        self.peer = Some(peer);
        Ok(())
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.peer.filter(|_| port == PortId(0))
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.own)
    }

    fn counters(&self) -> IoCounters {
        self.counters
    }
}
