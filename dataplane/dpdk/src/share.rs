//! A device that several threads share: whose a packet is, and how it gets there.
//!
//! Each thread has a UDP port. A device puts a datagram into whichever of its queues it likes, and one thread has that queue. What is
//! another's goes on to it by a *lane*: a ring with one writer and one reader, of packets, never of bytes, whose index is published once a
//! burst. No lock is taken, and nothing is read and written in one step. Where the device knows rules, each thread has the
//! datagrams to its port put into a queue of its own, and there is nothing to hand over.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Wake;

use netfold_io::IoError;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::bell::Bell;
use crate::buffers::{BURST, Passing};
use crate::port::{Queue, Rule};
use crate::{Arrivals, Outbox, Steering};

/// Packets that others may have on their way to one thread, over all its lanes.
pub(crate) const PASSING: u32 = 2048;
/// What a lane has room for at least.
const LANE_MIN: usize = 128;
/// Frames on their way to the thread that sends them.
const RELAYED: usize = 256;
/// What of a frame tells whose it is: the headers of Ethernet, IPv4 with all its options, and UDP as far as the port.
const HEAD: usize = 14 + 60 + 4;

/// Which thread has which port at the device's address.
#[derive(Debug)]
pub(crate) struct Roster {
    address: Ipv4Addr,
    /// By port: the thread's number and 1, or 0 for nobody's.
    threads: Box<[AtomicU8]>,
}

/// Whose a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A thread's, by its number.
    Of(usize),
    /// Everybody's: ARP, because each thread keeps neighbours of its own.
    All,
    /// Nobody's. Who finds it may keep it.
    Nobody,
}

impl Roster {
    pub(crate) fn new(address: Ipv4Addr) -> Self {
        Self { address, threads: (0..=u16::MAX).map(|_| AtomicU8::new(0)).collect() }
    }

    fn whose(&self, head: &[u8]) -> Whose {
        let number = |at: usize| head.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        match number(12) {
            Some(0x0806) => return Whose::All,
            Some(0x0800) if head.get(30..34) == Some(&self.address.octets()) => {}
            _ => return Whose::Nobody,
        }
        let first_part = number(20).is_some_and(|fragment| fragment & 0x1fff == 0);
        match head[23] {
            // Of the threads at an address the first answers pings.
            1 => Whose::Of(0),
            17 if first_part => {
                let udp = 14 + usize::from(head[14] & 0xf) * 4;
                let thread = number(udp + 2).map(|port| &self.threads[usize::from(port)]);
                match thread.map_or(0, |thread| thread.load(Ordering::Relaxed)) {
                    0 => Whose::Nobody,
                    thread => Whose::Of(usize::from(thread) - 1),
                }
            }
            _ => Whose::Nobody,
        }
    }
}

/// The end of a lane that is written.
#[derive(Debug)]
pub(crate) struct Giver {
    ring: Producer<Passing>,
    /// Of the burst that is dealt out now.
    staged: Vec<Passing>,
    /// Wakes who reads.
    bell: Arc<Bell>,
    room: usize,
    /// Packets that found no room. One thread writes it.
    dropped: Arc<AtomicU64>,
}

/// The end that is read.
#[derive(Debug)]
pub(crate) struct Taker {
    ring: Consumer<Passing>,
    dropped: Arc<AtomicU64>,
}

/// A lane with room for so many packets, to the thread that the bell wakes.
fn lane(room: usize, bell: &Arc<Bell>) -> (Giver, Taker) {
    let (writer, reader) = RingBuffer::new(room);
    let dropped = Arc::<AtomicU64>::default();
    let (staged, bell) = (Vec::with_capacity(BURST), Arc::clone(bell));
    let taker = Taker { ring: reader, dropped: Arc::clone(&dropped) };
    (Giver { ring: writer, staged, bell, room, dropped }, taker)
}

impl Giver {
    /// Hands over what is staged, all at once. What finds no room is dropped and counted: to hold it back would stop the queue, and with it
    /// all other threads, for one that is late.
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
        self.bell.wake_by_ref();
        if free < self.room / 2 {
            // It was woken before and has not run: it may wait for this core.
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
        self.bell.wake_by_ref();
    }
}

impl Taker {
    fn next(&mut self, count: usize) -> impl Iterator<Item = Passing> + '_ {
        let count = count.min(self.ring.slots());
        self.ring.read_chunk(count).into_iter().flatten()
    }

    /// Takes a burst, if nothing is left in `arrivals`.
    pub(crate) fn take(&mut self, arrivals: &mut Arrivals) {
        arrivals.take(self.next(BURST));
    }
}

/// What one thread has with the others.
#[derive(Debug)]
pub(crate) struct Share {
    me: usize,
    roster: Arc<Roster>,
    /// By thread; `None` for this one.
    givers: Vec<Option<Giver>>,
    /// What others have found for this one.
    pub(crate) takers: Vec<Taker>,
    /// How a thread without a queue sends: by another's.
    through: Option<Giver>,
    /// What threads without a queue send by this one's.
    relayed: Vec<Taker>,
    port: u16,
    rule: Option<Rule>,
}

impl Share {
    /// For threads with these bells, of which the first so many have queues. Thread t without one sends by thread t modulo those.
    pub(crate) fn among(bells: &[Arc<Bell>], with_queues: usize, address: Ipv4Addr) -> Vec<Self> {
        let (roster, threads) = (Arc::new(Roster::new(address)), bells.len());
        let share = |me| Self {
            me,
            roster: Arc::clone(&roster),
            givers: (0..threads).map(|_| None).collect(),
            takers: Vec::new(),
            through: None,
            relayed: Vec::new(),
            port: 0,
            rule: None,
        };
        let mut shares: Vec<Self> = (0..threads).map(share).collect();
        for (to, bell) in bells.iter().enumerate() {
            let finders = (0..with_queues).filter(|from| *from != to);
            let room = (PASSING as usize / finders.clone().count().max(1)).max(LANE_MIN);
            for from in finders {
                let (giver, taker) = lane(room, bell);
                shares[from].givers[to] = Some(giver);
                shares[to].takers.push(taker);
            }
            if to >= with_queues {
                let sender = to % with_queues;
                let (giver, taker) = lane(RELAYED, &bells[sender]);
                shares[to].through = Some(giver);
                shares[sender].relayed.push(taker);
            }
        }
        shares
    }

    /// Makes a port this thread's, whose queue it is then put into where the device has rules.
    pub(crate) fn hear(&mut self, port: u16, queue: Option<&Queue>) -> Result<(), IoError> {
        let mine = self.me as u8 + 1; // there are at most 64
        let place = &self.roster.threads[usize::from(port)];
        let taken = place.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err_and(|whose| whose != mine) {
            let address = SocketAddr::from((self.roster.address, port));
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
            self.roster.threads[usize::from(self.port)].store(0, Ordering::Relaxed);
        }
    }

    /// Hands over what others are to have of a burst from a queue of this thread. Whether that was anything.
    pub(crate) fn deal(&mut self, arrivals: &mut Arrivals) -> bool {
        let Self { me, roster, givers, .. } = self;
        let before = arrivals.len();
        let mut everybodys = false;
        arrivals.sort(|packet| match roster.whose(packet.packet().head(&mut [0; HEAD])) {
            Whose::Of(thread) if thread != *me => {
                match givers.get_mut(thread).and_then(Option::as_mut) {
                    Some(giver) => giver.staged.push(packet),
                    None => return Some(packet),
                }
                None
            }
            Whose::All => {
                everybodys = true;
                for giver in givers.iter_mut().flatten() {
                    giver.staged.push(packet.again());
                }
                Some(packet)
            }
            Whose::Of(_) | Whose::Nobody => Some(packet),
        });
        let handed_over = everybodys || arrivals.len() < before;
        if handed_over {
            givers.iter_mut().flatten().for_each(Giver::publish);
        }
        handed_over
    }

    /// How this thread sends, where it has no queue: what is queued goes to the thread that sends it. False where it has one.
    pub(crate) fn sends_by_another(&mut self, outbox: &mut Outbox) -> bool {
        self.through.as_mut().map(|giver| giver.relay(outbox)).is_some()
    }

    /// How many frames another thread takes to send, where this one has no queue.
    pub(crate) fn passes(&self) -> Option<usize> {
        self.through.as_ref().map(|giver| giver.ring.slots())
    }

    /// Queues what others send by this thread's queue.
    pub(crate) fn collect(&mut self, outbox: &mut Outbox) {
        for taker in &mut self.relayed {
            let places = outbox.places();
            outbox.adopt(taker.next(places));
        }
    }

    /// Packets for this thread that were dropped because it was late.
    pub(crate) fn dropped(&self) -> u64 {
        self.takers.iter().map(|taker| taker.dropped.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.forget();
    }
}
