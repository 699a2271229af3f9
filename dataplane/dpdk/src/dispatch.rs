//! A device that several threads share: which thread owns a packet, and how the packet gets there.
//!
//! Each thread has a UDP port. A device puts a datagram into any of its queues, and one thread has that queue. A packet of
//! another thread is transferred by a *lane*: a ring with one writer and one reader, of packets, never of bytes, whose index is published once a
//! burst. There is no lock and no atomic read-modify-write. Where the device supports rules, each thread gets the
//! datagrams to its port in a queue of its own, and nothing is transferred.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Wake;

use netfold_io::IoError;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::buffers::{BURST, TransferredPacket};
use crate::event_waker::EventWaker;
use crate::port::{Queue, Rule};
use crate::{Arrivals, Outbox, Steering};

/// Packets in transfer to one thread, over all its lanes.
pub(crate) const TRANSFERS_MAX: u32 = 2048;
/// Smallest capacity of a lane.
const LANE_MIN: usize = 128;
/// Capacity of the lane to the thread that sends another's frames.
const RELAY_LANE_LEN: usize = 256;
/// The bytes of a frame that determine its owner: the headers of Ethernet, IPv4 with all its options, and UDP as far as the port.
const HEAD: usize = 14 + 60 + 4;

/// The threads' ports at the device's address.
#[derive(Debug)]
pub(crate) struct PortTable {
    address: Ipv4Addr,
    /// By port: the thread's number plus 1, or 0 for none.
    threads: Box<[AtomicU8]>,
}

/// The owner of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A thread's, by its number.
    Of(usize),
    /// All threads: ARP, because each thread has a neighbour table of its own.
    All,
    /// None. The thread that receives it may keep it.
    None,
}

impl PortTable {
    pub(crate) fn new(address: Ipv4Addr) -> Self {
        Self { address, threads: (0..=u16::MAX).map(|_| AtomicU8::new(0)).collect() }
    }

    fn owner_of(&self, head: &[u8]) -> Owner {
        let number = |at: usize| head.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        match number(12) {
            Some(0x0806) => return Owner::All,
            Some(0x0800) if head.get(30..34) == Some(&self.address.octets()) => {}
            _ => return Owner::None,
        }
        let first_part = number(20).is_some_and(|fragment| fragment & 0x1fff == 0);
        match head[23] {
            // The first thread at an address answers pings.
            1 => Owner::Of(0),
            17 if first_part => {
                let udp = 14 + usize::from(head[14] & 0xf) * 4;
                let thread = number(udp + 2).map(|port| &self.threads[usize::from(port)]);
                match thread.map_or(0, |thread| thread.load(Ordering::Relaxed)) {
                    0 => Owner::None,
                    thread => Owner::Of(usize::from(thread) - 1),
                }
            }
            _ => Owner::None,
        }
    }
}

/// The writing end of a lane.
#[derive(Debug)]
pub(crate) struct LaneProducer {
    ring: Producer<TransferredPacket>,
    /// Packets of the current burst.
    staged: Vec<TransferredPacket>,
    /// Wakes the reader.
    waker: Arc<EventWaker>,
    room: usize,
    /// Packets dropped because the lane was full. One thread writes it.
    dropped: Arc<AtomicU64>,
}

/// The reading end of a lane.
#[derive(Debug)]
pub(crate) struct LaneConsumer {
    ring: Consumer<TransferredPacket>,
    dropped: Arc<AtomicU64>,
}

/// A lane of capacity `room`, to the thread that the waker wakes.
fn lane(room: usize, waker: &Arc<EventWaker>) -> (LaneProducer, LaneConsumer) {
    let (writer, reader) = RingBuffer::new(room);
    let dropped = Arc::<AtomicU64>::default();
    let (staged, waker) = (Vec::with_capacity(BURST), Arc::clone(waker));
    let consumer = LaneConsumer { ring: reader, dropped: Arc::clone(&dropped) };
    (LaneProducer { ring: writer, staged, waker, room, dropped }, consumer)
}

impl LaneProducer {
    /// Transfers the staged packets, all at once. Packets without room are dropped and counted: holding them back would block the queue, and with it
    /// all other threads, for a slow one.
    fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let free = self.ring.slots();
        let count = free.min(self.staged.len());
        if let Ok(places) = self.ring.write_chunk_uninit(count) {
            places.fill_from_iter(self.staged.drain(..count));
        }
        if !self.staged.is_empty() {
            let dropped = self.dropped.load(Ordering::Relaxed) + self.staged.len() as u64;
            self.dropped.store(dropped, Ordering::Relaxed);
            self.staged.clear();
        }
        self.waker.wake_by_ref();
        if free < self.room / 2 {
            // It was woken before and has not run: it may need this core.
            std::thread::yield_now();
        }
    }

    /// Takes what is queued there as far as there is room.
    fn relay(&mut self, outbox: &mut Outbox) {
        let count = self.ring.slots().min(outbox.len());
        if count == 0 {
            return;
        }
        if let Ok(places) = self.ring.write_chunk_uninit(count) {
            places.fill_from_iter(outbox.pass_on(count));
        }
        self.waker.wake_by_ref();
    }
}

impl LaneConsumer {
    fn next(&mut self, count: usize) -> impl Iterator<Item = TransferredPacket> + '_ {
        let count = count.min(self.ring.slots());
        self.ring.read_chunk(count).into_iter().flatten()
    }

    /// Takes a burst, if nothing is left in `arrivals`.
    pub(crate) fn take(&mut self, arrivals: &mut Arrivals) {
        arrivals.take(self.next(BURST));
    }
}

/// The lanes of one thread.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    me: usize,
    ports: Arc<PortTable>,
    /// By thread; `None` for this one.
    producers: Vec<Option<LaneProducer>>,
    /// Packets that other threads received for this one.
    pub(crate) consumers: Vec<LaneConsumer>,
    /// The lane to the thread that sends for a thread without a queue.
    through: Option<LaneProducer>,
    /// Frames of threads without a queue, to be sent through this thread's.
    relayed: Vec<LaneConsumer>,
    port: u16,
    rule: Option<Rule>,
}

impl Dispatcher {
    /// For threads with these wakers, of which the first `with_queues` have queues. A thread t without one sends through thread t modulo `with_queues`.
    pub(crate) fn among(wakers: &[Arc<EventWaker>], with_queues: usize, address: Ipv4Addr) -> Vec<Self> {
        let (ports, threads) = (Arc::new(PortTable::new(address)), wakers.len());
        let share = |me| Self {
            me,
            ports: Arc::clone(&ports),
            producers: (0..threads).map(|_| None).collect(),
            consumers: Vec::new(),
            through: None,
            relayed: Vec::new(),
            port: 0,
            rule: None,
        };
        let mut shares: Vec<Self> = (0..threads).map(share).collect();
        for (to, waker) in wakers.iter().enumerate() {
            let finders = (0..with_queues).filter(|from| *from != to);
            let room = (TRANSFERS_MAX as usize / finders.clone().count().max(1)).max(LANE_MIN);
            for from in finders {
                let (producer, consumer) = lane(room, waker);
                shares[from].producers[to] = Some(producer);
                shares[to].consumers.push(consumer);
            }
            if to >= with_queues {
                let sender = to % with_queues;
                let (producer, consumer) = lane(RELAY_LANE_LEN, &wakers[sender]);
                shares[to].through = Some(producer);
                shares[sender].relayed.push(consumer);
            }
        }
        shares
    }

    /// Assigns a port to this thread, and directs it to `queue` where the device supports rules.
    pub(crate) fn claim_port(&mut self, port: u16, queue: Option<&Queue>) -> Result<(), IoError> {
        let mine = self.me as u8 + 1; // there are at most 64
        let place = &self.ports.threads[usize::from(port)];
        let taken = place.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err_and(|whose| whose != mine) {
            let address = SocketAddr::from((self.ports.address, port));
            return Err(IoError::Address { address, problem: "another packet thread has this port" });
        }
        if self.port != port {
            self.forget();
            self.port = port;
            let choice = queue.filter(|queue| queue.port().steering() != Steering::One);
            self.rule = choice.and_then(|queue| Rule::new(queue, port));
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.rule = None;
        if self.port != 0 {
            self.ports.threads[usize::from(self.port)].store(0, Ordering::Relaxed);
        }
    }

    /// Transfers other threads' packets of a burst from a queue of this thread. Returns whether there were any.
    pub(crate) fn dispatch(&mut self, arrivals: &mut Arrivals) -> bool {
        let Self { me, ports, producers, .. } = self;
        let before = arrivals.len();
        let mut everybodys = false;
        arrivals.sort(|packet| match ports.owner_of(packet.packet().head(&mut [0; HEAD])) {
            Owner::Of(thread) if thread != *me => {
                match producers.get_mut(thread).and_then(Option::as_mut) {
                    Some(producer) => producer.staged.push(packet),
                    None => return Some(packet),
                }
                None
            }
            Owner::All => {
                everybodys = true;
                for producer in producers.iter_mut().flatten() {
                    producer.staged.push(packet.again());
                }
                Some(packet)
            }
            Owner::Of(_) | Owner::None => Some(packet),
        });
        let handed_over = everybodys || arrivals.len() < before;
        if handed_over {
            producers.iter_mut().flatten().for_each(LaneProducer::publish);
        }
        handed_over
    }

    /// For a thread without a queue: transfers its queued frames to the thread that sends them. False for a thread with a queue.
    pub(crate) fn sends_by_another(&mut self, outbox: &mut Outbox) -> bool {
        self.through.as_mut().map(|producer| producer.relay(outbox)).is_some()
    }

    /// For a thread without a queue: how many frames the sending thread has room for.
    pub(crate) fn passes(&self) -> Option<usize> {
        self.through.as_ref().map(|producer| producer.ring.slots())
    }

    /// Queues frames that other threads send through this thread's queue.
    pub(crate) fn collect(&mut self, outbox: &mut Outbox) {
        for consumer in &mut self.relayed {
            let places = outbox.places();
            outbox.adopt(consumer.next(places));
        }
    }

    /// Packets for this thread that were dropped because its lanes were full.
    pub(crate) fn dropped(&self) -> u64 {
        self.consumers.iter().map(|consumer| consumer.dropped.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.forget();
    }
}
