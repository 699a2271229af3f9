//! Queues between the pipeline and the ports: scheduling, marking, trimming and dropping of packets.
//!
//! A port has up to [`QUEUES_MAX`] queues, to which the header's classes are mapped, and one for control packets that precedes
//! them. In the order in which a packet passes them:
//!
//! 1. *Trimming.* Where a queue holds more than its threshold, data that may be dropped is cut to its header and joins the control
//!    queue, so that the receiver is notified of the loss at once (UEC 1.0, section 3.6; NDP, SIGCOMM 2017).
//! 2. *Tail drop.* A packet that does not fit its queue, or the memory of all queues, is dropped.
//! 3. *Marking* by the bytes in the queue ([`Ecn`]).
//! 4. *Pausing.* A queue that holds more than its threshold has the senders of its classes pause ([`Queues::paused_priorities`]).
//! 5. *Scheduling.* Control, then strict priorities, then weighted round robin, at the port's [`Rate`].
//!
//! No I/O and no clock: packets are copied in, and departures are positions in one memory, which [`Queues::new`] allocates
//! once. The switch's loop drives the queues, or a simulation with its own clock.
//!
//! ```
//! use std::time::Duration;
//! use netfold_switch::queue::{PortConfig, QueueConfig, Queues, Rate};
//!
//! let port = PortConfig { rate: Some(Rate { bits_per_second: 8_000, burst_bytes: 100 }), ..PortConfig::default() };
//! let mut queues = Queues::new(&QueueConfig { port, ..QueueConfig::default() }, 100)?;
//! queues.enqueue(7, &[0; 100]);
//! queues.enqueue(7, &[0; 100]);
//! let first = queues.dequeue(Duration::ZERO).expect("a burst of 100 bytes");
//! assert_eq!((first.port, queues.bytes(&first)), (7, &[0; 100][..]));
//! queues.release(first);
//! assert!(queues.dequeue(Duration::ZERO).is_none());
//! assert_eq!(queues.ready_at(), Some(Duration::from_millis(100)));
//! # Ok::<(), netfold_switch::queue::QueueConfigError>(())
//! ```

mod bucket;
mod config;
mod counters;
mod packet;
mod pool;
mod port;

use std::collections::BTreeMap;
use std::time::Duration;

pub use config::{
    CLASSES, ClassConfig, Ecn, Framing, PORTS_MAX, Pause, PortConfig, QUEUES_MAX, QueueConfig,
    QueueConfigError, Rate,
};
pub use counters::{QueueCounters, QueueName, QueuesCounters};

use netfold_wire::PRIORITIES;
use packet::TrafficClass;
use pool::Pool;
use port::{CONTROL, LISTS, Port, PortSchedule};

/// Words of a set of ports.
const WORDS: usize = PORTS_MAX / 64;

/// What [`Queues::enqueue`] did with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// It is in the queue of its class, or in that of control packets.
    Queued,
    /// The same, with a mark.
    Marked,
    /// Its header is in the queue of control packets.
    Trimmed,
    /// It was dropped.
    Dropped,
}

/// A packet that is to leave. It occupies memory until it is [released](Queues::release).
#[derive(Debug, PartialEq, Eq)]
pub struct Departure {
    /// The port.
    pub port: u16,
    /// Where its bytes begin in [`Queues::memory`].
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
    cell: u32,
    queue: u8,
}

/// A set of ports.
#[derive(Debug, Clone, Copy)]
struct PortSet([u64; WORDS]);

/// The queues of all ports.
#[derive(Debug)]
pub struct Queues {
    framing: Framing,
    pause: Option<Pause>,
    schedules: Vec<PortSchedule>,
    ports: Vec<Port>,
    pool: Pool,
    /// Ports that hold packets.
    busy: PortSet,
    /// Of those, the ones that are not known to wait for credit.
    ready: PortSet,
    /// When each waiting port has its credit.
    credit_at: Vec<Duration>,
    /// The port that [`Self::dequeue`] considers first.
    first: usize,
    held_bytes: usize,
    paused: bool,
    /// Of each priority, the queues that have its senders pause.
    pausing: [u16; PRIORITIES as usize],
    random: u64,
    /// Packets for invalid ports, or longer than a cell.
    refused: u64,
    pauses: u64,
}

impl PortSet {
    const EMPTY: Self = Self([0; WORDS]);

    fn set(&mut self, port: usize, to: bool) {
        let bit = 1 << (port % 64);
        match to {
            true => self.0[port / 64] |= bit,
            false => self.0[port / 64] &= !bit,
        }
    }

    /// The first port of the set from `start` on, around the end.
    fn next(&self, start: usize) -> Option<usize> {
        let from = |word: usize, mask: u64| {
            let bits = self.0[word] & mask;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        };
        let (word, mask) = (start / 64 % WORDS, !0 << (start % 64));
        from(word, mask)
            .or_else(|| (1..WORDS).find_map(|step| from((word + step) % WORDS, !0)))
            .or_else(|| from(word, !mask))
    }
}

impl Queues {
    /// Empty queues for packets of at most `packet_len_max` bytes.
    ///
    /// # Errors
    ///
    /// [`QueueConfigError`] when a number of the configuration is out of range.
    pub fn new(config: &QueueConfig, packet_len_max: usize) -> Result<Self, QueueConfigError> {
        config.check(packet_len_max)?;
        let mut schedules = vec![PortSchedule::new(&config.port, packet_len_max)];
        let mut schedule_of = BTreeMap::new();
        for (port, own) in &config.ports {
            schedule_of.insert(usize::from(*port), schedules.len() as u16);
            schedules.push(PortSchedule::new(own, packet_len_max));
        }
        let port = |number| {
            let schedule = schedule_of.get(&number).copied().unwrap_or(0);
            schedules[usize::from(schedule)].port(schedule)
        };
        Ok(Self {
            framing: config.framing,
            pause: config.pause,
            ports: (0..PORTS_MAX).map(port).collect(),
            schedules,
            pool: Pool::new(config.memory_bytes, packet_len_max),
            busy: PortSet::EMPTY,
            ready: PortSet::EMPTY,
            credit_at: vec![Duration::ZERO; PORTS_MAX],
            first: 0,
            held_bytes: 0,
            paused: false,
            pausing: [0; PRIORITIES as usize],
            random: config.seed,
            refused: 0,
            pauses: 0,
        })
    }

    /// Copies a packet into a queue of a port, or drops it.
    pub fn enqueue(&mut self, port: u16, packet: &[u8]) -> EnqueueOutcome {
        let number = usize::from(port);
        if number >= PORTS_MAX || packet.len() > self.pool.cell_len() {
            self.refused += 1;
            return EnqueueOutcome::Dropped;
        }
        let schedule = &self.schedules[usize::from(self.ports[number].schedule)];
        let queue = match packet::classify(self.framing, packet) {
            TrafficClass::Class(class) => usize::from(schedule.queue_of[class]),
            TrafficClass::Control => CONTROL,
        };
        let (limits, control_max) = (schedule.limits[queue], schedule.limits[CONTROL].bytes_max);
        let queues = &mut self.ports[number].queues;
        let held = queues[queue].counters.held_bytes;
        let after = held + packet.len() as u64;
        let trim = after > u64::from(limits.trim_above) && packet::may_be_trimmed(self.framing, packet);
        let (fits, joins) = match trim {
            true => (queues[CONTROL].counters.held_bytes < u64::from(control_max), CONTROL),
            false => (after <= u64::from(limits.bytes_max), queue),
        };
        let Some(cell) = fits.then(|| self.pool.store(packet)).flatten() else {
            queues[queue].counters.drop(packet.len());
            return EnqueueOutcome::Dropped;
        };
        let mut outcome = EnqueueOutcome::Queued;
        if trim {
            let len = packet::trim(self.framing, self.pool.bytes_mut(cell));
            self.pool.shorten(cell, len);
            queues[queue].counters.trimmed += 1;
            outcome = EnqueueOutcome::Trimmed;
        } else if let Some(marks) = limits.marks
            && random_bool(&mut self.random, marks.probability(after as u32))
            && packet::mark(self.framing, self.pool.bytes_mut(cell))
        {
            queues[queue].counters.marked += 1;
            outcome = EnqueueOutcome::Marked;
        }
        self.join(number, joins, cell);
        outcome
    }

    fn join(&mut self, number: usize, queue: usize, cell: u32) {
        let len = self.pool.bytes_mut(cell).len();
        let port = &mut self.ports[number];
        self.pool.append(&mut port.queues[queue].list, cell);
        port.queues[queue].counters.join(len);
        port.held += 1;
        self.held_bytes += len;
        self.busy.set(number, true);
        if port.held == 1 || queue == CONTROL {
            // The first packet may be a different, shorter one now.
            self.ready.set(number, true);
        }
        self.update_pause();
        self.update_class_pause(number, queue);
    }

    fn update_pause(&mut self) {
        let Some(pause) = self.pause else { return };
        if !self.paused && self.held_bytes > pause.above {
            self.paused = true;
            self.pauses += 1;
        } else if self.paused && self.held_bytes <= pause.resume_at {
            self.paused = false;
        }
    }

    /// Has the senders of a queue's classes pause or resume by what it holds.
    fn update_class_pause(&mut self, number: usize, index: usize) {
        let port = &mut self.ports[number];
        let schedule = &self.schedules[usize::from(port.schedule)];
        let (Some(pause), queue) = (schedule.limits[index].pause, &mut port.queues[index]) else { return };
        let held = queue.counters.held_bytes;
        let pauses = if queue.pausing { held > pause.resume_at as u64 } else { held > pause.above as u64 };
        if pauses == std::mem::replace(&mut queue.pausing, pauses) {
            return;
        }
        queue.counters.pauses += u64::from(pauses);
        for (priority, pausing) in self.pausing.iter_mut().enumerate() {
            if schedule.priorities[index] >> priority & 1 == 1 {
                // There are at most 2^15 queues.
                *pausing = if pauses { *pausing + 1 } else { *pausing - 1 };
            }
        }
    }

    /// The priorities of which senders are to send nothing for now, bit `p` for priority `p`: those of the classes of queues that hold too
    /// much ([`ClassConfig::pause`]).
    pub fn paused_priorities(&self) -> u8 {
        let paused = |(priority, pausing): (usize, &u16)| u8::from(*pausing > 0) << priority;
        self.pausing.iter().enumerate().map(paused).sum()
    }

    /// The next packet that may leave at `now`, if any. Ports take turns, packet by packet. `now` must not decrease.
    pub fn dequeue(&mut self, now: Duration) -> Option<Departure> {
        if self.busy.0 != self.ready.0 {
            self.wake(now);
        }
        while let Some(number) = self.ready.next(self.first) {
            let port = &mut self.ports[number];
            let schedule = &self.schedules[usize::from(port.schedule)];
            let Some((queue, len)) = port.next(schedule, &self.pool) else {
                self.ready.set(number, false);
                continue;
            };
            if let Some(bucket) = &mut port.bucket
                && let Err(at) = bucket.take(now, len)
            {
                self.credit_at[number] = at;
                self.ready.set(number, false);
                continue;
            }
            let (cell, len) = self.pool.take(&mut port.queues[queue].list)?;
            port.sent(queue, len);
            if port.held == 0 {
                self.busy.set(number, false);
                self.ready.set(number, false);
            }
            self.held_bytes -= len as usize;
            self.first = (number + 1) % PORTS_MAX;
            self.update_pause();
            self.update_class_pause(number, queue);
            let offset = self.pool.offset(cell) as u32;
            return Some(Departure { port: number as u16, offset, len, cell, queue: queue as u8 });
        }
        None
    }

    /// Ports whose credit has come are ready.
    fn wake(&mut self, now: Duration) {
        for word in 0..WORDS {
            let mut waiting = self.busy.0[word] & !self.ready.0[word];
            while waiting != 0 {
                let number = word * 64 + waiting.trailing_zeros() as usize;
                waiting &= waiting - 1;
                if self.credit_at[number] <= now {
                    self.ready.set(number, true);
                }
            }
        }
    }

    /// When to call [`Self::dequeue`]: at once (zero) or when a port has credit; `None` when all queues are empty.
    pub fn ready_at(&self) -> Option<Duration> {
        let mut earliest = None;
        for word in 0..WORDS {
            if self.ready.0[word] != 0 {
                return Some(Duration::ZERO);
            }
            let mut waiting = self.busy.0[word];
            while waiting != 0 {
                let at = self.credit_at[word * 64 + waiting.trailing_zeros() as usize];
                waiting &= waiting - 1;
                earliest = Some(earliest.map_or(at, |sooner: Duration| sooner.min(at)));
            }
        }
        earliest
    }

    /// The memory that holds the packets.
    pub fn memory(&self) -> &[u8] {
        self.pool.memory()
    }

    /// The bytes of a departing packet.
    pub fn bytes(&self, departure: &Departure) -> &[u8] {
        &self.pool.memory()[departure.offset as usize..][..departure.len as usize]
    }

    /// Frees the memory of a packet that has left.
    pub fn release(&mut self, departure: Departure) {
        self.pool.free(departure.cell);
    }

    /// Puts a packet that could not leave back to the front of its queue; of several, the last first. Before `retry_at` its port
    /// sends only control packets that are enqueued meanwhile.
    pub fn put_back(&mut self, departure: Departure, retry_at: Duration) {
        let (number, queue) = (usize::from(departure.port), usize::from(departure.queue));
        let port = &mut self.ports[number];
        self.pool.put_back(&mut port.queues[queue].list, departure.cell);
        port.unsent(queue, departure.len);
        self.held_bytes += departure.len as usize;
        self.busy.set(number, true);
        self.hold_until(departure.port, retry_at);
        self.update_pause();
        self.update_class_pause(number, queue);
    }

    /// Lets a port send only newly enqueued control packets before `until`.
    fn hold_until(&mut self, port: u16, until: Duration) {
        self.credit_at[usize::from(port)] = until;
        self.ready.set(usize::from(port), false);
    }

    /// Drops all packets of a port and returns their number.
    pub fn flush(&mut self, port: u16) -> u64 {
        let number = usize::from(port);
        let Some(port) = self.ports.get_mut(number) else { return 0 };
        let mut dropped = 0;
        for queue in &mut port.queues {
            while let Some((cell, len)) = self.pool.take(&mut queue.list) {
                self.pool.free(cell);
                queue.counters.flush(len as usize);
                self.held_bytes -= len as usize;
                dropped += 1;
            }
        }
        port.held = 0;
        self.busy.set(number, false);
        self.ready.set(number, false);
        self.update_pause();
        (0..LISTS).for_each(|queue| self.update_class_pause(number, queue));
        dropped
    }

    /// Whether there is memory for another packet.
    pub fn has_room(&self) -> bool {
        !self.pool.is_full()
    }

    /// Whether no more packets should be received ([`Pause`]).
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Bytes in all queues.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Counters of every queue that has seen a packet, in order of ports.
    pub fn counters(&self) -> QueuesCounters {
        let mut queues = Vec::new();
        for (number, port) in (0u16..).zip(&self.ports) {
            for (index, queue) in port.queues.iter().enumerate().take(LISTS) {
                if queue.counters != QueueCounters::default() {
                    let name = match index {
                        CONTROL => QueueName::Control,
                        class => QueueName::Class(class as u8),
                    };
                    queues.push((number, name, queue.counters));
                }
            }
        }
        QueuesCounters { queues, refused: self.refused, pauses: self.pauses }
    }
}

/// True with a probability of `probability` / 2^32. SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn random_bool(state: &mut u64, probability: u64) -> bool {
    if probability == 0 {
        return false;
    }
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) >> 32 < probability
}

#[cfg(test)]
mod tests;
