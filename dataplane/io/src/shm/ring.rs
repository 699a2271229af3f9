//! The rings between two processes: one to write into, one to read from, in an area that both have mapped.
//!
//! A ring has one writer and one reader. Its control words lie on cache lines of their own: how many bytes were ever written (the
//! writer's word), how many were ever read, that the reader sleeps (the reader's words), and that the writer waits for room. Datagrams
//! follow each other, each behind its length (4 bytes, native order), and begin at multiples of 8 bytes.
//!
//! The other side is another process, which may be broken or mean. So nothing that it can write decides what is touched: each side keeps
//! its own count to itself, the other's is believed only where it is possible, and a length only where it fits what has arrived. What is
//! not possible ends the link ([`Broken`]); beyond that the other side can spoil its own datagrams alone.

use std::sync::atomic::Ordering;

use crate::link::mapping::Mapping;
use crate::sync::fence;
use crate::{IoCounters, PortId, RxBatch};

/// Bytes between control words: no two are on one cache line, nor on two that are fetched together.
const LINE: usize = 128;
const WRITTEN: usize = 0;
const READ: usize = LINE;
const SLEEPING: usize = 2 * LINE;
const STARVED: usize = 3 * LINE;
const CONTROL: usize = 4 * LINE;

/// Where datagrams begin, and bytes of the length in front of each.
const ALIGN: usize = 8;
const PREFIX: usize = size_of::<u32>();

/// The bytes of a ring, a power of two.
pub(super) const BYTES_MIN: usize = 1 << 16;
pub(super) const BYTES_MAX: usize = 1 << 22;

/// The other side has written what it cannot mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Which end of the area this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The switch's.
    Hub,
    /// A worker's.
    Spoke,
}

/// Bytes of an area with two rings of `bytes` bytes.
pub(super) const fn area_len(bytes: usize) -> usize {
    2 * CONTROL + 2 * bytes
}

/// Bytes of a ring for datagrams of up to this length: a window of them, its results, and as much for retransmissions.
pub(super) fn bytes_for(datagram_len_max: usize) -> usize {
    datagram_len_max.saturating_mul(512).clamp(BYTES_MIN, BYTES_MAX).next_power_of_two().min(BYTES_MAX)
}

/// Longest datagram that a ring of `bytes` bytes is for: several fit at a time.
pub(super) const fn longest(bytes: usize) -> usize {
    bytes / 8
}

/// Bytes that a datagram takes.
const fn taken(len: usize) -> usize {
    (PREFIX + len).next_multiple_of(ALIGN)
}

/// The memory of rings: bytes that belong to one side, and control words by which they pass from one to the other.
pub(super) trait Area {
    fn len(&self) -> usize;
    /// Reads a control word: what the other side did before it wrote the word is visible after.
    fn acquire(&self, offset: usize) -> u32;
    /// Writes a control word: what was done before is visible to the other side when it reads the word.
    fn release(&self, offset: usize, value: u32);
    fn copy_in(&mut self, offset: usize, from: &[u8]) -> bool;
    fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool;
}

impl Area for Mapping {
    fn len(&self) -> usize {
        Self::len(self)
    }

    #[inline]
    fn acquire(&self, offset: usize) -> u32 {
        Self::acquire(self, offset)
    }

    #[inline]
    fn release(&self, offset: usize, value: u32) {
        Self::release(self, offset, value);
    }

    #[inline]
    fn copy_in(&mut self, offset: usize, from: &[u8]) -> bool {
        Self::copy_in(self, offset, from)
    }

    #[inline]
    fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
        Self::copy_out(self, offset, to)
    }
}

/// The two rings as one end sees them.
#[derive(Debug)]
pub(super) struct Rings<A = Mapping> {
    area: A,
    outgoing: Outgoing,
    incoming: Incoming,
    datagram_len_max: usize,
}

/// Where a ring lies in the area.
#[derive(Debug, Clone, Copy)]
struct Place {
    control: usize,
    data: usize,
    bytes: u32,
}

#[derive(Debug)]
struct Outgoing {
    place: Place,
    /// Bytes ever written, and how many of them were published to the reader.
    written: u32,
    published: u32,
    /// Bytes ever read, as far as is known.
    read: u32,
    /// There was no room for a datagram.
    starved: bool,
}

#[derive(Debug)]
struct Incoming {
    place: Place,
    /// Bytes ever read, and how many of them were published to the writer.
    read: u32,
    published: u32,
    /// Bytes ever written, as far as is known.
    written: u32,
}

impl Place {
    /// Bytes from a place on, without going around.
    fn until_end(self, at: u32) -> usize {
        (self.bytes - (at & (self.bytes - 1))) as usize
    }

    fn offset(self, at: u32) -> usize {
        self.data + (at & (self.bytes - 1)) as usize
    }

    fn copy_in(self, area: &mut impl Area, at: u32, from: &[u8]) {
        let (first, rest) = from.split_at(from.len().min(self.until_end(at)));
        // Both lie within the area, by how it was made; were it shorter, nothing would be copied.
        area.copy_in(self.offset(at), first);
        area.copy_in(self.data, rest);
    }

    fn copy_out(self, area: &impl Area, at: u32, to: &mut [u8]) {
        let until_end = to.len().min(self.until_end(at));
        let (first, rest) = to.split_at_mut(until_end);
        area.copy_out(self.offset(at), first);
        area.copy_out(self.data, rest);
    }
}

impl<A: Area> Rings<A> {
    /// The rings of `bytes` bytes in an unused area; `None` when the area is shorter than that, or these are no rings for
    /// datagrams of this length.
    pub(super) fn new(area: A, end: End, bytes: usize, datagram_len_max: usize) -> Option<Self> {
        let fits = bytes.is_power_of_two()
            && (BYTES_MIN..=BYTES_MAX).contains(&bytes)
            && area.len() >= area_len(bytes)
            && (1..=longest(bytes)).contains(&datagram_len_max);
        if !fits {
            return None;
        }
        let place = |index| Place {
            control: index * CONTROL,
            data: 2 * CONTROL + index * bytes,
            bytes: bytes as u32,
        };
        let (up, down) = (place(0), place(1));
        let (outgoing, incoming) = if end == End::Hub { (down, up) } else { (up, down) };
        Some(Self {
            area,
            outgoing: Outgoing { place: outgoing, written: 0, published: 0, read: 0, starved: false },
            incoming: Incoming { place: incoming, read: 0, published: 0, written: 0 },
            datagram_len_max,
        })
    }

    /// Writes a datagram of up to the agreed length, which [`publish`](Self::publish) publishes to the reader; `false` where there is no room.
    pub(super) fn push(&mut self, datagram: &[u8]) -> Result<bool, Broken> {
        let need = taken(datagram.len());
        if self.room()? < need && self.refreshed_room()? < need {
            self.outgoing.starved = true;
            self.area.release(self.outgoing.place.control + STARVED, 1);
            return Ok(false);
        }
        let Outgoing { place, written, .. } = self.outgoing;
        place.copy_in(&mut self.area, written, &(datagram.len() as u32).to_ne_bytes());
        place.copy_in(&mut self.area, written.wrapping_add(PREFIX as u32), datagram);
        self.outgoing.written = written.wrapping_add(need as u32);
        Ok(true)
    }

    /// Makes what was written the reader's. `true` when it sleeps, and has to be woken.
    pub(super) fn publish(&mut self) -> bool {
        let out = &mut self.outgoing;
        if out.published == out.written {
            return false;
        }
        out.published = out.written;
        self.area.release(out.place.control + WRITTEN, out.written);
        // The reader says that it sleeps, and then looks once more.
        fence(Ordering::SeqCst);
        self.area.acquire(out.place.control + SLEEPING) != 0
    }

    /// Length of the next datagram; `None` where nothing more has arrived.
    pub(super) fn next_len(&mut self) -> Result<Option<usize>, Broken> {
        if self.incoming.written == self.incoming.read {
            self.incoming.written = self.area.acquire(self.incoming.place.control + WRITTEN);
        }
        let Incoming { place, read, written, .. } = self.incoming;
        let arrived = written.wrapping_sub(read);
        if arrived == 0 {
            return Ok(None);
        }
        if arrived > place.bytes || !arrived.is_multiple_of(ALIGN as u32) {
            return Err(Broken);
        }
        let mut prefix = [0; PREFIX];
        place.copy_out(&self.area, read, &mut prefix);
        let len = u32::from_ne_bytes(prefix) as usize;
        if len > self.datagram_len_max || taken(len) > arrived as usize {
            return Err(Broken);
        }
        Ok(Some(len))
    }

    /// Reads the datagram that [`next_len`](Self::next_len) announced, as long as `to`.
    pub(super) fn take(&mut self, to: &mut [u8]) {
        let Incoming { place, read, .. } = self.incoming;
        place.copy_out(&self.area, read.wrapping_add(PREFIX as u32), to);
        self.skip(to.len());
    }

    /// Leaves the datagram that was announced, of this length, unread.
    pub(super) fn skip(&mut self, len: usize) {
        self.incoming.read = self.incoming.read.wrapping_add(taken(len) as u32);
    }

    /// Gives the room of what was read back. `true` when the writer waits for room, there is some now, and it has to be woken.
    pub(super) fn give_back(&mut self) -> bool {
        let Incoming { place, read, published, written } = self.incoming;
        if published == read {
            return false;
        }
        self.incoming.published = read;
        self.area.release(place.control + READ, read);
        // The writer says that it waits, and then looks once more before it sleeps.
        fence(Ordering::SeqCst);
        let starved = self.area.acquire(place.control + STARVED) != 0;
        let eased = starved && written.wrapping_sub(read) <= place.bytes / 2;
        if eased {
            self.area.release(place.control + STARVED, 0);
        }
        eased
    }

    /// Publishes that this end is about to sleep, or is awake again. A side that sleeps checks [`ready`](Self::ready) in between.
    pub(super) fn set_sleeping(&mut self, sleeping: bool) {
        self.area.release(self.incoming.place.control + SLEEPING, sleeping.into());
    }

    /// Whether something has arrived, or there is room that there was not; also when the other side is broken, which the next call reports.
    pub(super) fn ready(&self) -> bool {
        let Incoming { place, read, .. } = self.incoming;
        if self.area.acquire(place.control + WRITTEN) != read {
            return true;
        }
        let Outgoing { place, written, starved, .. } = self.outgoing;
        let unread = || written.wrapping_sub(self.area.acquire(place.control + READ));
        starved && !(place.bytes / 2 + 1..=place.bytes).contains(&unread())
    }

    /// Forgets that there was no room, once there is.
    pub(super) fn relieved(&mut self) {
        self.outgoing.starved &=
            !self.refreshed_room().is_ok_and(|room| room >= self.outgoing.place.bytes as usize / 2);
    }

    fn room(&self) -> Result<usize, Broken> {
        let Outgoing { place, written, read, .. } = self.outgoing;
        let unread = written.wrapping_sub(read);
        place.bytes.checked_sub(unread).map(|room| room as usize).ok_or(Broken)
    }

    fn refreshed_room(&mut self) -> Result<usize, Broken> {
        self.outgoing.read = self.area.acquire(self.outgoing.place.control + READ);
        self.room()
    }
}

impl<A: Area> Rings<A> {
    /// Moves datagrams into the batch until the ring is empty, the batch is full, or there are `most` more of them in it. Where they are
    /// not `wanted` they are counted and dropped.
    pub(super) fn receive(
        &mut self,
        port: PortId,
        wanted: bool,
        batch: &mut RxBatch,
        most: usize,
        counters: &mut IoCounters,
    ) -> Result<(), Broken> {
        let end = batch.len().saturating_add(most);
        while batch.len() < end
            && let Some(len) = self.next_len()?
        {
            if !wanted {
                self.skip(len);
                counters.unknown_source += 1;
            } else if let Some(spare) = batch.spare(len) {
                self.take(spare);
                batch.commit(port, len, 0);
                counters.rx_packets += 1;
                counters.rx_bytes += len as u64;
            } else if batch.is_empty() {
                self.skip(len);
                counters.truncated += 1;
            } else {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const LEN_MAX: usize = 1500;

    /// Both ends of an area, and a third look at it.
    fn pair() -> (Rings, Rings, Mapping) {
        let memory = memfd_create("netfold-test", MemfdFlags::CLOEXEC).unwrap();
        let len = area_len(BYTES_MIN);
        ftruncate(&memory, len as u64).unwrap();
        let area = || Mapping::of(memory.as_fd(), len, 0).unwrap();
        let end = |end| Rings::new(area(), end, BYTES_MIN, LEN_MAX).unwrap();
        (end(End::Hub), end(End::Spoke), area())
    }

    #[test]
    fn a_short_area_is_refused() {
        let fresh = |len| Mapping::fresh(len).unwrap();
        let rings = |len, bytes, longest| Rings::new(fresh(len), End::Hub, bytes, longest).is_some();
        let whole = area_len(BYTES_MIN);
        assert!(rings(whole, BYTES_MIN, longest(BYTES_MIN)));
        assert!(!rings(whole - 1, BYTES_MIN, LEN_MAX), "short");
        assert!(!rings(4 * whole, BYTES_MIN + 8, LEN_MAX), "no power of two");
        assert!(
            !rings(4 * whole, BYTES_MIN / 2, LEN_MAX)
                && !rings(whole, 0, LEN_MAX)
                && !rings(whole, BYTES_MIN, 0)
        );
        assert!(!rings(whole, BYTES_MIN, longest(BYTES_MIN) + 1), "longer than a ring is for");
        for len in [1, 1436, 8220, 16_384, usize::MAX] {
            let bytes = bytes_for(len);
            assert!(bytes.is_power_of_two() && (BYTES_MIN..=BYTES_MAX).contains(&bytes), "{len}: {bytes}");
        }
        assert!(longest(bytes_for(super::super::DATAGRAM_LEN_MAX)) >= super::super::DATAGRAM_LEN_MAX);
    }

    #[test]
    fn a_full_ring_is_reported_and_relieved() {
        let (mut hub, mut spoke, _) = pair();
        let datagram = [7; LEN_MAX];
        let mut count = 0;
        while hub.push(&datagram).unwrap() {
            count += 1;
        }
        assert_eq!(count, BYTES_MIN / taken(LEN_MAX));
        assert!(!hub.publish(), "no side sleeps");
        assert!(!hub.ready(), "there is no room yet");
        let mut bytes = [0; LEN_MAX];
        for left in (0..count).rev() {
            assert_eq!(spoke.next_len(), Ok(Some(LEN_MAX)));
            spoke.take(&mut bytes);
            // The writer is woken once, when half of it is free.
            let eased = spoke.give_back();
            let half = left * taken(LEN_MAX) <= BYTES_MIN / 2;
            assert_eq!(eased, half && (left + 1) * taken(LEN_MAX) > BYTES_MIN / 2, "{left} left");
            assert_eq!(hub.ready(), half);
        }
        assert_eq!((spoke.next_len(), bytes), (Ok(None), datagram));
        hub.relieved();
        assert!(!hub.ready() && hub.push(&datagram).unwrap());
    }

    #[test]
    fn a_sleeping_side_is_woken() {
        let (mut hub, mut spoke, _) = pair();
        spoke.set_sleeping(true);
        assert!(!hub.publish(), "there is nothing to publish");
        assert!(hub.push(b"word").unwrap() && !spoke.ready());
        assert!(hub.publish() && spoke.ready());
        spoke.set_sleeping(false);
        assert!(hub.push(b"more").unwrap() && !hub.publish());
    }

    /// Two threads, each with its own mapping: nothing is lost, torn or out of order at any fill level.
    #[test]
    fn a_stream_between_threads_is_complete() {
        const COUNT: u32 = 400_000;
        let (mut hub, mut spoke, _) = pair();
        let len = |number: u32| (number.wrapping_mul(2_654_435_761) >> 16) as usize % LEN_MAX;
        let writing = std::thread::spawn(move || {
            let mut datagram = [0; LEN_MAX];
            for number in 0..COUNT {
                datagram.fill(number as u8);
                while !hub.push(&datagram[..len(number)]).unwrap() {
                    hub.publish();
                    std::thread::yield_now();
                }
                if number % 3 == 0 {
                    hub.publish();
                }
            }
            hub.publish();
        });
        let (mut number, mut bytes) = (0, [0; LEN_MAX]);
        while number < COUNT {
            let Some(arrived) = spoke.next_len().unwrap() else {
                spoke.give_back();
                std::thread::yield_now();
                continue;
            };
            assert_eq!(arrived, len(number));
            spoke.take(&mut bytes[..arrived]);
            assert!(bytes[..arrived].iter().all(|byte| *byte == number as u8), "datagram {number}");
            number += 1;
            if number % 5 == 0 {
                spoke.give_back();
            }
        }
        writing.join().unwrap();
    }

    /// What the other side may do to an area.
    #[derive(Debug, Clone)]
    enum Deed {
        Word(usize, u32),
        Bytes(usize, Vec<u8>),
        Push(usize),
        Receive,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let control = (
            0..2 * CONTROL / 4,
            prop_oneof![any::<u32>(), 0..200_u32, (0..9000_u32).prop_map(|words| words * 8)],
        );
        prop_oneof![
            control.prop_map(|(word, value)| Deed::Word(word * 4, value)),
            (0..area_len(BYTES_MIN), prop::collection::vec(any::<u8>(), 0..64))
                .prop_map(|(at, bytes)| Deed::Bytes(at, bytes)),
            (0..=LEN_MAX).prop_map(Deed::Push),
            Just(Deed::Receive),
        ]
    }

    proptest! {
        /// Nothing that is written into an area has its user touch anything else, or take a datagram that is longer than agreed.
        #[test]
        fn any_memory_is_datagrams_or_broken(deeds in prop::collection::vec(deed(), 0..60)) {
            let (mut hub, _, mut area) = pair();
            let mut batch = RxBatch::new(8, 2 * LEN_MAX);
            let mut counters = IoCounters::default();
            for deed in deeds {
                match deed {
                    Deed::Word(at, value) => area.release(at, value),
                    Deed::Bytes(at, bytes) => {
                        let len = bytes.len().min(area.len() - at);
                        prop_assert!(area.copy_in(at, &bytes[..len]));
                    }
                    Deed::Push(len) => {
                        let _ = hub.push(&[1; LEN_MAX][..len]);
                        hub.publish();
                    }
                    Deed::Receive => {
                        batch.clear();
                        let received = hub.receive(PortId(0), true, &mut batch, usize::MAX, &mut counters);
                        prop_assert!(batch.packets().iter().all(|packet| packet.len as usize <= LEN_MAX));
                        if received.is_err() {
                            // Once broken it stays so, or means what it says again; either way it ends.
                            let _ = hub.receive(PortId(0), true, &mut batch, usize::MAX, &mut counters);
                        }
                        hub.give_back();
                    }
                }
                let _ = hub.ready();
                hub.relieved();
            }
        }
    }
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// Words of four bytes of the switch's ring that are used: two datagrams of a word, each behind its length.
    const WORDS: usize = 4;

    /// An area of which the first bytes of one ring exist. Its bytes are read and written without any order, so that loom lets a reader see old
    /// ones wherever no control word forbids that.
    #[derive(Clone)]
    struct Model {
        control: Arc<Vec<AtomicU32>>,
        data: Arc<Vec<AtomicU32>>,
    }

    impl Model {
        fn new() -> Self {
            let words = |count| Arc::new((0..count).map(|_| AtomicU32::new(0)).collect());
            Self { control: words(2 * CONTROL / LINE), data: words(WORDS) }
        }

        /// The words from an offset of the switch's ring on.
        fn words(&self, offset: usize, len: usize) -> &[AtomicU32] {
            let first = offset - (2 * CONTROL + BYTES_MIN);
            &self.data[first / 4..(first + len) / 4]
        }
    }

    impl Area for Model {
        fn len(&self) -> usize {
            area_len(BYTES_MIN)
        }

        fn acquire(&self, offset: usize) -> u32 {
            self.control[offset / LINE].load(Ordering::Acquire)
        }

        fn release(&self, offset: usize, value: u32) {
            self.control[offset / LINE].store(value, Ordering::Release);
        }

        fn copy_in(&mut self, offset: usize, from: &[u8]) -> bool {
            for (word, bytes) in self.words(offset, from.len()).iter().zip(from.chunks(4)) {
                word.store(u32::from_ne_bytes(bytes.try_into().unwrap()), Ordering::Relaxed);
            }
            true
        }

        fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
            for (word, bytes) in self.words(offset, to.len()).iter().zip(to.chunks_mut(4)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            true
        }
    }

    /// What a worker sleeps on.
    #[derive(Default)]
    struct Event(Mutex<bool>, Condvar);

    impl Event {
        fn set(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }

        fn wait(&self) {
            let mut set = self.0.lock().unwrap();
            while !std::mem::take(&mut *set) {
                set = self.1.wait(set).unwrap();
            }
        }
    }

    /// Two datagrams of the switch arrive, whole and in order, at a worker that sleeps when there is nothing. A wake-up that is lost is a
    /// deadlock for loom.
    #[test]
    fn datagrams_arrive_and_no_wake_up_is_lost() {
        loom::model(|| {
            let (area, event) = (Model::new(), Arc::new(Event::default()));
            let mut hub = Rings::new(area.clone(), End::Hub, BYTES_MIN, 4).unwrap();
            let notifier = Arc::clone(&event);
            let writer = thread::spawn(move || {
                for datagram in [[1; 4], [2; 4]] {
                    assert_eq!(hub.push(&datagram), Ok(true));
                    if hub.publish() {
                        notifier.set();
                    }
                }
            });
            let mut spoke = Rings::new(area, End::Spoke, BYTES_MIN, 4).unwrap();
            for expected in [[1; 4], [2; 4]] {
                while spoke.next_len() == Ok(None) {
                    spoke.set_sleeping(true);
                    fence(Ordering::SeqCst);
                    if !spoke.ready() {
                        event.wait();
                    }
                    spoke.set_sleeping(false);
                }
                let mut datagram = [0; 4];
                spoke.take(&mut datagram);
                spoke.give_back();
                assert_eq!(datagram, expected);
            }
            writer.join().unwrap();
        });
    }
}
