//! A switch's end: a pair of rings for each worker beside it, and an uplink for all others.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use netfold_wire::Dscp;

use super::acceptor::{self, Acceptor, AttachedWorker, WakeSet};
use super::handshake::{self, Terms};
use super::{DATAGRAM_LEN_MAX, LOCAL_PORTS, NAME, Name};
use crate::event_waker::EventWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, check_transmit, sys};

/// Datagrams a call beyond which more gain nothing.
const BURST: usize = 256;

/// Datagrams sent after which workers are notified, so that they read while more are written.
const TOLD_EVERY: usize = 64;

/// Memory of a batch that is worth having: enough for a burst, small enough to stay in the cache.
const BATCH_BYTES: usize = 1 << 20;

/// The end of a switch whose workers are processes of this host ([`Spoke`](super::Spoke)), optionally with an uplink to others.
///
/// Workers may attach and detach at any time. A detached worker leaves its port without a peer; one that writes invalid data into its rings is
/// sent away and counted in [`IoCounters::malformed`].
pub struct Hub {
    /// By seat.
    workers: Vec<Option<Seat>>,
    /// By port.
    ports: Vec<Way>,
    uplink: Option<Box<dyn PacketIo>>,
    /// Where it is without an uplink.
    own: SocketAddr,
    /// Wakes the hub when it sleeps without an uplink.
    waker: Arc<EventWaker>,
    /// By which workers wake it.
    wakes: Arc<WakeSet>,
    acceptor: Acceptor,
    /// Whether the uplink is looked at first, so that neither side starves the other.
    uplink_first: bool,
    /// The seat that is served first.
    first: usize,
    datagram_len_max: usize,
    counters: IoCounters,
}

#[derive(Debug)]
struct Seat {
    worker: AttachedWorker,
    port: Option<PortId>,
    /// Something was written into its ring in this call.
    touched: bool,
}

/// Where a port leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nowhere,
    AttachedWorker(usize),
    /// To a worker that has detached.
    Gone,
    Uplink,
}

impl Hub {
    /// Takes the name, for workers that are processes of this host. `own` is where the switch is for its control plane where there is no
    /// uplink; with one, that is the uplink's address.
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] when another switch has the name; [`IoError::Unsupported`] for an uplink that no other process can wake;
    /// [`IoError::Os`].
    pub fn open(
        name: &Name,
        own: SocketAddr,
        datagram_len_max: usize,
        uplink: Option<Box<dyn PacketIo>>,
    ) -> Result<Self, IoError> {
        let longest = uplink.as_ref().map_or(DATAGRAM_LEN_MAX, |io| io.capabilities().datagram_len_max);
        let datagram_len_max = datagram_len_max.clamp(1, DATAGRAM_LEN_MAX).min(longest);
        let waker = Arc::new(EventWaker::new()?);
        let wake = match &uplink {
            Some(io) => {
                io.wake_fd().ok_or(IoError::Unsupported("being woken by other processes, as an uplink is"))?
            }
            None => waker.fd(),
        };
        let wake = wake.try_clone_to_owned().map_err(|source| IoError::os("dup", source))?;
        let lossless = uplink.as_ref().is_none_or(|io| io.capabilities().lossless);
        let terms = Terms { port: 0, datagram_len_max, lossless };
        let wakes = Arc::new(WakeSet::new().map_err(|source| IoError::os("epoll_create1", source.into()))?);
        // A hub with an uplink sleeps there.
        let relays = uplink.is_some();
        let acceptor = Acceptor::start(handshake::listen(name)?, terms, wake, (Arc::clone(&wakes), relays))?;
        Ok(Self {
            workers: Vec::new(),
            ports: Vec::new(),
            uplink,
            own,
            waker,
            wakes,
            acceptor,
            uplink_first: false,
            first: 0,
            datagram_len_max,
            counters: IoCounters::default(),
        })
    }

    /// Workers that are attached.
    #[must_use]
    pub fn workers(&mut self) -> usize {
        self.look();
        self.workers.iter().flatten().count()
    }

    /// Adds attached workers, and removes detached workers whose rings are empty.
    fn look(&mut self) {
        if !self.acceptor.has_news() {
            return;
        }
        for worker in self.acceptor.arrived() {
            let seat = Some(Seat { worker, port: None, touched: false });
            match self.workers.iter_mut().find(|seat| seat.is_none()) {
                Some(free) => *free = seat,
                None => self.workers.push(seat),
            }
        }
        let is_gone =
            |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| seat.worker.gone.load(Ordering::Acquire));
        for seat in 0..self.workers.len() {
            // Its last datagrams could not be attributed once its port is another's; a worker that has left has its results.
            if is_gone(&self.workers[seat]) {
                self.remove_worker(seat);
            }
        }
    }

    fn remove_worker(&mut self, seat: usize) {
        let Some(Seat { port, worker, .. }) = self.workers[seat].take() else { return };
        self.wakes.remove(&worker.knock);
        if let Some(port) = port {
            self.ports[usize::from(port.0)] = Way::Gone;
        }
    }

    /// Sends a worker away that wrote what it cannot mean.
    fn disconnect_worker(&mut self, seat: usize) {
        self.counters.malformed += 1;
        if let Some(Seat { worker, .. }) = &self.workers[seat] {
            let _ = worker.line.shutdown(std::net::Shutdown::Both);
        }
        self.remove_worker(seat);
    }

    /// Fills the batch with equal parts from all workers: they send the same chunks, whose slots are in the cache then, and whose results are
    /// sent at once. Remaining room goes to workers with more datagrams.
    fn receive_from_workers(&mut self, batch: &mut RxBatch) {
        let attached = self.workers.iter().flatten().count().max(1);
        let share = (batch.packets_left() / attached).max(1);
        if self.hear_each(batch, share) && batch.packets_left() > 0 {
            self.hear_each(batch, usize::MAX);
        }
        self.first = if self.first + 1 < self.workers.len() { self.first + 1 } else { 0 };
    }

    /// Receives up to `most` datagrams of each worker. Returns whether one may have more.
    fn hear_each(&mut self, batch: &mut RxBatch, most: usize) -> bool {
        let count = self.workers.len();
        let first = self.first.min(count);
        let mut more = false;
        for index in (first..count).chain(0..first) {
            let Some(seat) = &mut self.workers[index] else { continue };
            let rings = &mut seat.worker.rings;
            let (port, wanted) = (seat.port.unwrap_or(PortId(0)), seat.port.is_some());
            let before = batch.len();
            let received = rings.receive(port, wanted, batch, most, &mut self.counters);
            more |= batch.len() - before == most;
            if rings.give_back() {
                self.counters.rx_calls += 1;
                acceptor::notify(seat.worker.waker.as_fd());
            }
            if received.is_err() {
                self.disconnect_worker(index);
            }
        }
        more
    }

    /// Sends to a worker; `false` where there is no room.
    fn send(&mut self, index: usize, bytes: &[u8]) -> bool {
        let Some(seat) = &mut self.workers[index] else { return true };
        match seat.worker.rings.push(bytes) {
            Ok(true) => {
                seat.touched = true;
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += bytes.len() as u64;
                true
            }
            Ok(false) => false,
            Err(_) => {
                self.disconnect_worker(index);
                self.counters.unbound_port += 1;
                true
            }
        }
    }

    /// Publishes written datagrams, and wakes sleeping workers.
    fn publish(&mut self) {
        for seat in self.workers.iter_mut().flatten() {
            if std::mem::take(&mut seat.touched) && seat.worker.rings.publish() {
                self.counters.tx_calls += 1;
                acceptor::notify(seat.worker.waker.as_fd());
            }
        }
    }

    fn way(&self, port: PortId) -> Way {
        self.ports.get(usize::from(port.0)).copied().unwrap_or(Way::Nowhere)
    }

    fn transmit_some(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let mut taken = 0;
        while let Some(packet) = packets.get(taken) {
            match (self.way(packet.port), packet.bytes(memory)) {
                (Way::AttachedWorker(seat), Some(bytes)) => {
                    if !self.send(seat, bytes) {
                        self.counters.backpressure += 1;
                        break;
                    }
                    taken += 1;
                    if taken.is_multiple_of(TOLD_EVERY) {
                        self.publish();
                    }
                }
                (Way::Uplink, Some(_)) => {
                    let rest = &packets[taken..];
                    let up = |packet: &&Transmit| self.way(packet.port) == Way::Uplink;
                    let run = rest.iter().take_while(up).count();
                    let Some(uplink) = &mut self.uplink else { break };
                    let sent = uplink.transmit(memory, &rest[..run])?;
                    taken += sent;
                    if sent < run {
                        break;
                    }
                }
                _ => {
                    self.counters.unbound_port += 1;
                    taken += 1;
                }
            }
        }
        Ok(taken)
    }

    fn ready(&self) -> bool {
        self.workers.iter().flatten().any(|seat| seat.worker.rings.ready())
    }

    fn set_sleeping(&mut self, sleeping: bool) {
        for seat in self.workers.iter_mut().flatten() {
            seat.worker.rings.set_sleeping(sleeping);
        }
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if let Some(uplink) = &mut self.uplink {
            return uplink.wait(timeout);
        }
        if !self.waker.announce_sleep() {
            return Ok(true);
        }
        self.counters.sleeps += u64::from(!timeout.is_zero());
        let ready = sys::poll([(self.waker.fd(), libc::POLLIN), (self.wakes.fd(), libc::POLLIN)], timeout);
        self.waker.end_sleep(matches!(ready, Ok([true, _])));
        let [notified, woken] = ready.map_err(|source| IoError::os("ppoll", source))?;
        if woken {
            self.wakes.consume();
        }
        Ok(notified || woken)
    }

    fn bind_worker(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        let seats = self
            .workers
            .iter()
            .position(|seat| seat.as_ref().is_some_and(|seat| seat.worker.number == peer.port()));
        let problem =
            "no worker of this host is attached by that number (any more); have it attach and join again";
        let seat = seats.ok_or(IoError::Address { address: peer, problem })?;
        let worker = self.workers[seat].as_mut();
        match worker.as_ref().and_then(|seat| seat.port) {
            Some(other) if other != port => return Err(IoError::PeerBound { peer, port: other }),
            _ => {}
        }
        if let Some(seat) = worker {
            seat.port = Some(port);
        }
        self.set_way(port, Way::AttachedWorker(seat));
        Ok(())
    }

    fn set_way(&mut self, port: PortId, way: Way) {
        let index = usize::from(port.0);
        if index >= self.ports.len() {
            self.ports.resize(index + 1, Way::Nowhere);
        }
        if let Way::AttachedWorker(seat) = std::mem::replace(&mut self.ports[index], way)
            && way != Way::AttachedWorker(seat)
            && let Some(seat) = &mut self.workers[seat]
        {
            seat.port = None;
        }
    }
}

impl PacketIo for Hub {
    fn capabilities(&self) -> Capabilities {
        let up = self.uplink.as_ref().map(|io| io.capabilities());
        Capabilities {
            name: NAME,
            datagram_len_max: self.datagram_len_max,
            burst_max: up.map_or(BURST, |up| up.burst_max.max(BURST)),
            batch_bytes: up.map_or(BATCH_BYTES, |up| up.batch_bytes.max(BATCH_BYTES)),
            udp_ports_max: 1,
            lossless: up.is_none_or(|up| up.lossless),
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.look();
        batch.clear();
        self.uplink_first = !self.uplink_first;
        if self.uplink_first
            && let Some(uplink) = &mut self.uplink
            && uplink.receive(batch)? > 0
        {
            return Ok(batch.len());
        }
        self.receive_from_workers(batch);
        if batch.is_empty()
            && !self.uplink_first
            && let Some(uplink) = &mut self.uplink
        {
            uplink.receive(batch)?;
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.datagram_len_max)?;
        self.look();
        let taken = self.transmit_some(memory, packets);
        self.publish();
        taken
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.look();
        let mut woken = Ok(true);
        if !self.ready() {
            self.set_sleeping(true);
            fence(Ordering::SeqCst);
            if !self.ready() {
                woken = self.sleep(timeout);
            }
            self.set_sleeping(false);
        }
        for seat in self.workers.iter_mut().flatten() {
            seat.worker.rings.relieved();
        }
        woken
    }

    fn waker(&self) -> Waker {
        match &self.uplink {
            Some(uplink) => uplink.waker(),
            None => Waker::from(Arc::clone(&self.waker)),
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.uplink {
            Some(uplink) => uplink.wake_fd(),
            None => Some(self.waker.fd()),
        }
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.look();
        if peer.port() < LOCAL_PORTS && peer.port() > 0 {
            if self.way(port) == Way::Uplink {
                self.unbind_port(port)?;
            }
            return self.bind_worker(port, peer);
        }
        let problem = "it is no worker of this host, and this switch has no uplink; name one, as in shm:NAME,uplink=udp";
        let uplink = self.uplink.as_mut().ok_or(IoError::Address { address: peer, problem })?;
        uplink.bind_port(port, peer)?;
        self.set_way(port, Way::Uplink);
        Ok(())
    }

    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        if udp_ports <= 1 || (1..LOCAL_PORTS).contains(&peer.port()) {
            return self.bind_port(port, peer);
        }
        self.look();
        let uplink = self.uplink.as_mut().ok_or(IoError::Unsupported("several UDP ports of a peer"))?;
        uplink.bind_ports(port, peer, udp_ports)?;
        self.set_way(port, Way::Uplink);
        Ok(())
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.look();
        match self.way(port) {
            Way::Nowhere => return Err(IoError::UnknownPort(port)),
            Way::Uplink => self.uplink.as_mut().map_or(Ok(()), |uplink| uplink.unbind_port(port))?,
            Way::AttachedWorker(_) | Way::Gone => {}
        }
        self.set_way(port, Way::Nowhere);
        Ok(())
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        let none = IoError::Unsupported("ECN bits");
        self.uplink.as_mut().map_or(Err(none), |uplink| uplink.set_ecn_capable(capable))
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        let none = IoError::Unsupported("DSCP");
        self.uplink.as_mut().map_or(Err(none), |uplink| uplink.set_dscp(dscp))
    }

    fn set_segmentation(&mut self, allowed: bool) {
        if let Some(uplink) = &mut self.uplink {
            uplink.set_segmentation(allowed);
        }
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        match self.way(port) {
            Way::AttachedWorker(seat) => {
                let number = self.workers[seat].as_ref()?.worker.number;
                Some(SocketAddr::new(self.local_addr()?.ip(), number))
            }
            Way::Uplink => self.uplink.as_ref()?.peer(port),
            Way::Nowhere | Way::Gone => None,
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.uplink.as_ref().map_or(Some(self.own), |uplink| uplink.local_addr())
    }

    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        self.uplink.as_ref().filter(|_| peer.port() >= LOCAL_PORTS)?.path_mtu(peer)
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.counters;
        if let Some(uplink) = &self.uplink {
            counters.add(&uplink.counters());
        }
        counters
    }
}
