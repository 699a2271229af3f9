//! Rings within the process: a hub and its spokes, without loss and without system calls while both sides are busy.
//!
//! Each direction of each link is one single-producer single-consumer ring of bytes, in which every datagram follows
//! its length (4 bytes, native order). Memory is allocated once. A sender that finds a ring full is notified
//! (back-pressure) and is woken when the ring is half empty again. A side that sleeps in `wait` is woken by the other
//! side; a side that does not sleep costs the other nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::waker::ThreadWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, Paused, PortId, RxBatch, Transmit, check_transmit};

/// How long a paused sender sleeps before it looks again, if nothing wakes it.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Bytes of the length in front of each datagram in a ring.
const PREFIX: usize = size_of::<u32>();

/// Memory of a batch that is worth having: enough for a burst, small enough to stay in the cache.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Makes a hub and `ports` spokes. The hub sees spoke i as `PortId(i)`; every spoke sees the hub as `PortId(0)`.
///
/// Each ring holds at least `ring_len` datagrams (at least 2) of `datagram_len_max` bytes, and more when they are
/// shorter.
///
/// When one end is dropped, the other still receives what is in the ring. After that a spoke gets
/// [`IoError::PeerClosed`]; the hub goes on with the other spokes, counts what it sends to the missing one in
/// [`IoCounters::unbound_port`], and gets [`IoError::PeerClosed`] when no spoke is left.
///
/// # Panics
///
/// When the memory of a ring exceeds the address space, or `ports` exceeds 65536.
#[must_use]
pub fn star(ports: usize, ring_len: usize, datagram_len_max: usize) -> (Loopback, Vec<Loopback>) {
    let edges: Vec<_> = (1..=ports).map(|spoke| (0, spoke)).collect();
    let mut nodes = mesh(ports + 1, &edges, ring_len, datagram_len_max).into_iter();
    let hub =
        nodes.next().unwrap_or_else(|| Loopback::new(vec![], Default::default(), ring_len, datagram_len_max));
    (hub, nodes.collect())
}

/// Makes nodes joined by links, each between two of them by number, and each as in a [`star`]. A node's links are its ports
/// in the order of `edges`, from `PortId(0)`.
///
/// # Panics
///
/// When an edge names no node, the memory of a ring exceeds the address space, or a node has more than 65536 links.
#[must_use]
pub fn mesh(
    nodes: usize,
    edges: &[(usize, usize)],
    ring_len: usize,
    datagram_len_max: usize,
) -> Vec<Loopback> {
    let wakers: Vec<Arc<ThreadWaker>> = (0..nodes).map(|_| Arc::default()).collect();
    let pausing: Vec<Arc<AtomicU8>> = (0..nodes).map(|_| Arc::default()).collect();
    let mut links: Vec<Vec<Link>> = (0..nodes).map(|_| Vec::new()).collect();
    for &(a, b) in edges {
        let (up_tx, up_rx) = ring(ring_len, datagram_len_max);
        let (down_tx, down_rx) = ring(ring_len, datagram_len_max);
        let peer = |node: usize| (Arc::clone(&wakers[node]), Arc::clone(&pausing[node]));
        links[a].push(Link::new(down_tx, up_rx, peer(b)));
        links[b].push(Link::new(up_tx, down_rx, peer(a)));
        assert!(links[a].len().max(links[b].len()) <= 1 << 16, "a port number has 16 bits");
    }
    let node = |(links, own)| Loopback::new(links, own, ring_len, datagram_len_max);
    links.into_iter().zip(wakers.into_iter().zip(pausing)).map(node).collect()
}

/// One end of a [`star`], the hub or a spoke, or one node of a [`mesh`].
#[derive(Debug)]
pub struct Loopback {
    links: Vec<Link>,
    waker: Arc<ThreadWaker>,
    /// Priorities of which peers are to send nothing.
    pausing: Arc<AtomicU8>,
    /// The link that the next `receive` serves first, so that a busy peer cannot starve the others.
    first: usize,
    datagram_len_max: usize,
    burst_max: usize,
    counters: IoCounters,
}

/// The two rings to one peer.
#[derive(Debug)]
struct Link {
    outgoing: Outgoing,
    incoming: Incoming,
    peer_waker: Arc<ThreadWaker>,
    /// Priorities of which the peer is to be sent nothing.
    paused: Arc<AtomicU8>,
    /// The peer's end was dropped, and this side knows.
    gone: bool,
    /// Something was sent in this call.
    touched: bool,
}

#[derive(Debug)]
struct Outgoing {
    ring: Producer<u8>,
    /// The sender found the ring full and wants to be woken.
    starved: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Incoming {
    ring: Consumer<u8>,
    starved: Arc<AtomicBool>,
}

fn ring(ring_len: usize, datagram_len_max: usize) -> (Outgoing, Incoming) {
    let bytes =
        ring_len.max(2).checked_mul(datagram_len_max + PREFIX).expect("a ring fits into the address space");
    let (producer, consumer) = RingBuffer::new(bytes);
    let starved = Arc::<AtomicBool>::default();
    (Outgoing { ring: producer, starved: Arc::clone(&starved) }, Incoming { ring: consumer, starved })
}

impl Outgoing {
    /// Whether it is worth trying again after the ring was full.
    fn eased(&self) -> bool {
        self.ring.slots() >= self.ring.buffer().capacity() / 2
    }

    /// Appends a datagram; `false` when the ring is full.
    fn push(&mut self, datagram: &[u8]) -> bool {
        let need = PREFIX + datagram.len();
        if self.ring.cached_slots() < need && self.ring.slots() < need {
            return false;
        }
        // The reader takes a prefix only together with all the bytes it announces.
        let prefix = (datagram.len() as u32).to_ne_bytes();
        self.ring.push_entire_slice(&prefix).is_ok() && self.ring.push_entire_slice(datagram).is_ok()
    }
}

impl Incoming {
    /// Length of the next datagram, when all of it has arrived.
    fn next_len(&mut self) -> Option<usize> {
        let prefix = self.ring.read_chunk(PREFIX).ok()?;
        let (head, tail) = prefix.as_slices();
        let mut bytes = [0; PREFIX];
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(tail);
        let len = u32::from_ne_bytes(bytes) as usize;
        let whole = PREFIX + len;
        (self.ring.cached_slots() >= whole || self.ring.slots() >= whole).then_some(len)
    }

    /// Removes `len` bytes unread.
    fn skip(&mut self, len: usize) {
        if let Ok(chunk) = self.ring.read_chunk(len) {
            chunk.commit_all();
        }
    }
}

impl Link {
    fn new(
        outgoing: Outgoing,
        incoming: Incoming,
        (peer_waker, paused): (Arc<ThreadWaker>, Arc<AtomicU8>),
    ) -> Self {
        Self { outgoing, incoming, peer_waker, paused, gone: false, touched: false }
    }

    /// Moves datagrams into the batch until the ring is empty or the batch is full.
    fn receive(&mut self, port: PortId, batch: &mut RxBatch, counters: &mut IoCounters) {
        // Read before the ring, so that all datagrams that the peer sent before it closed are received.
        let abandoned = !self.gone && self.incoming.ring.is_abandoned();
        let mut moved = false;
        while let Some(len) = self.incoming.next_len() {
            if let Some(spare) = batch.spare(len) {
                self.incoming.skip(PREFIX);
                if self.incoming.ring.pop_entire_slice(spare).is_err() {
                    break; // not reached: next_len saw all of it
                }
                batch.commit(port, len, 0);
                counters.rx_packets += 1;
                counters.rx_bytes += len as u64;
            } else if batch.is_empty() {
                self.incoming.skip(PREFIX + len);
                counters.truncated += 1;
            } else {
                break;
            }
            moved = true;
        }
        if abandoned && self.incoming.ring.is_empty() {
            self.gone = true;
        }
        if moved {
            self.ease_peer();
        }
    }

    /// Wakes the peer if it waits for room and there is some.
    fn ease_peer(&self) {
        fence(Ordering::SeqCst);
        let ring = &self.incoming.ring;
        if self.incoming.starved.load(Ordering::Relaxed) && ring.slots() <= ring.buffer().capacity() / 2 {
            self.incoming.starved.store(false, Ordering::Relaxed);
            self.peer_waker.notify();
        }
    }

    /// Whether `receive` or `transmit` would get on.
    fn ready(&self) -> bool {
        if self.gone {
            return false;
        }
        !self.incoming.ring.is_empty()
            || self.incoming.ring.is_abandoned()
            || (self.outgoing.starved.load(Ordering::Relaxed) && self.outgoing.eased())
    }
}

impl Loopback {
    fn new(
        links: Vec<Link>,
        (waker, pausing): (Arc<ThreadWaker>, Arc<AtomicU8>),
        ring_len: usize,
        datagram_len_max: usize,
    ) -> Self {
        let burst_max = (ring_len.max(2) * links.len().max(1)).min(1024);
        let counters = IoCounters::default();
        Self { links, waker, pausing, first: 0, datagram_len_max, burst_max, counters }
    }

    fn all_gone(&self) -> bool {
        self.links.iter().all(|link| link.gone)
    }
}

impl PacketIo for Loopback {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "loopback",
            datagram_len_max: self.datagram_len_max,
            burst_max: self.burst_max,
            batch_bytes: (self.burst_max * self.datagram_len_max)
                .clamp(self.datagram_len_max, BATCH_BYTES_MAX),
            udp_ports_max: 1,
            lossless: true,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let count = self.links.len();
        let first = self.first;
        self.first = if first + 1 < count { first + 1 } else { 0 };
        for index in (first..count).chain(0..first) {
            self.links[index].receive(PortId(index as u16), batch, &mut self.counters);
        }
        if batch.is_empty() && self.all_gone() {
            return Err(IoError::PeerClosed);
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.datagram_len_max)?;
        // A spoke reports at once that the hub has closed; datagrams in its own ring are left to `receive`.
        if self.all_gone() || (self.links.len() == 1 && self.links[0].outgoing.ring.is_abandoned()) {
            return Err(IoError::PeerClosed);
        }
        let mut taken = 0;
        for packet in packets {
            let link = self.links.get_mut(usize::from(packet.port.0));
            let Some(link) = link.filter(|link| !link.outgoing.ring.is_abandoned()) else {
                self.counters.unbound_port += 1;
                taken += 1;
                continue;
            };
            let Some(bytes) = packet.bytes(memory) else { break };
            if !link.outgoing.push(bytes) {
                link.outgoing.starved.store(true, Ordering::Relaxed);
                self.counters.backpressure += 1;
                break;
            }
            link.touched = true;
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += bytes.len() as u64;
            taken += 1;
        }
        for link in &mut self.links {
            if std::mem::take(&mut link.touched) {
                link.peer_waker.notify_if_sleeping();
            }
        }
        Ok(taken)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.all_gone() {
            return Ok(true);
        }
        let links = &self.links;
        let woken = self.waker.wait(timeout, &mut self.counters.sleeps, || links.iter().any(Link::ready));
        for outgoing in links.iter().map(|link| &link.outgoing) {
            // Notified once; a sender that finds the ring full again sets the flag again.
            if outgoing.starved.load(Ordering::Relaxed) && outgoing.eased() {
                outgoing.starved.store(false, Ordering::Relaxed);
            }
        }
        Ok(woken)
    }

    /// Holds until it is changed. Peers that sleep see it when they next look.
    fn pause(&mut self, priorities: u8) -> Result<Duration, IoError> {
        let before = self.pausing.swap(priorities, Ordering::Relaxed);
        if before & !priorities != 0 {
            self.links.iter().for_each(|link| link.peer_waker.notify());
        }
        Ok(Duration::MAX)
    }

    fn paused(&mut self) -> Paused {
        let priorities = self.links.iter().fold(0, |all, link| all | link.paused.load(Ordering::Relaxed));
        let left = if priorities == 0 { Duration::ZERO } else { PAUSE_POLL_INTERVAL };
        Paused { priorities, left }
    }

    fn waker(&self) -> Waker {
        self.waker.waker()
    }

    fn counters(&self) -> IoCounters {
        self.counters
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for link in self.links.drain(..) {
            let waker = Arc::clone(&link.peer_waker);
            drop(link); // first, so that the peer finds the rings abandoned when it wakes
            waker.notify();
        }
    }
}
