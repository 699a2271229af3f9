//! The queues of one port and the order in which they send.
//!
//! Control packets first; then queues by priority, strictly; queues of one priority by deficit round robin (Shreedhar and
//! Varghese, SIGCOMM 1995). The quantum of the largest weight is the longest packet, those of the others are in proportion, so
//! that each queue's share is accurate within a packet and not only over long rounds.

use super::QueueCounters;
use super::bucket::Bucket;
use netfold_wire::priority_of;

use super::config::{CLASSES, ClassConfig, Pause, PortConfig, QUEUES_MAX};
use super::pool::{List, Pool};

/// Index of the queue of control packets, after the queues of classes.
pub(super) const CONTROL: usize = QUEUES_MAX;

/// Queues of a port, including that of control packets.
pub(super) const LISTS: usize = QUEUES_MAX + 1;

/// A probability of 1 as a fixed-point number.
const TWO_TO_32: f64 = 4_294_967_296.0;

/// Limits of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) bytes_max: u32,
    pub(super) trim_above: u32,
    pub(super) marks: Option<Marks>,
    pub(super) pause: Option<Pause>,
}

/// Marking: nothing up to `k_min`, with a probability of `p_max` / 2^32 at `k_max`, everything above.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) k_min: u32,
    pub(super) k_max: u32,
    pub(super) p_max: u64,
}

impl Marks {
    /// Probability of a mark, of 2^32, in a queue of so many bytes.
    pub(super) fn probability(&self, bytes: u32) -> u64 {
        if bytes <= self.k_min {
            0
        } else if bytes > self.k_max {
            1 << 32
        } else {
            let (above, span) = (u64::from(bytes - self.k_min), u64::from(self.k_max - self.k_min));
            (u128::from(self.p_max) * u128::from(above) / u128::from(span)) as u64
        }
    }
}

/// The schedule of all ports with one configuration.
#[derive(Debug)]
pub(super) struct PortSchedule {
    pub(super) queue_of: [u8; CLASSES],
    pub(super) limits: [Limits; LISTS],
    /// Of each queue, the priorities of its classes.
    pub(super) priorities: [u8; LISTS],
    quanta: [u32; QUEUES_MAX],
    /// Queues by priority, greatest first; a group is `order[begin..end]`.
    order: [u8; QUEUES_MAX],
    groups: Vec<(u8, u8)>,
    rate: Option<super::config::Rate>,
}

/// One queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    pub(super) list: List,
    pub(super) counters: QueueCounters,
    deficit: u32,
    /// Its senders are to pause.
    pub(super) pausing: bool,
}

/// The queues of a port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) schedule: u16,
    pub(super) bucket: Option<Bucket>,
    pub(super) queues: [Queue; LISTS],
    /// Of each group: whose turn it is, and whether that queue has had its quantum for this turn.
    turns: [(u8, bool); QUEUES_MAX],
    /// Packets in all queues.
    pub(super) held: u32,
}

impl PortSchedule {
    /// For packets of at most `packet_len_max` bytes; the configuration has been checked.
    pub(super) fn new(config: &PortConfig, packet_len_max: usize) -> Self {
        let mut limits =
            [Limits { bytes_max: config.control_bytes_max, trim_above: u32::MAX, marks: None, pause: None };
                LISTS];
        let mut quanta = [0; QUEUES_MAX];
        let mut order: Vec<u8> = (0..config.queues.len() as u8).collect();
        let priority = |queue: u8| config.queues[usize::from(queue)].priority;
        order.sort_by_key(|queue| std::cmp::Reverse(priority(*queue)));
        let mut groups: Vec<(u8, u8)> = Vec::new();
        for (at, queue) in (0u8..).zip(&order) {
            match groups.last_mut() {
                Some((begin, end)) if priority(order[usize::from(*begin)]) == priority(*queue) => {
                    *end = at + 1;
                }
                _ => groups.push((at, at + 1)),
            }
        }
        for (begin, end) in &groups {
            let members = &order[usize::from(*begin)..usize::from(*end)];
            let weight = |queue: &u8| u64::from(config.queues[usize::from(*queue)].weight);
            let greatest = members.iter().map(weight).max().unwrap_or(1);
            for queue in members {
                let quantum = (packet_len_max as u64 * weight(queue)).div_ceil(greatest);
                quanta[usize::from(*queue)] = quantum.max(1) as u32;
            }
        }
        for (limits, class) in limits.iter_mut().zip(&config.queues) {
            *limits = Limits::of(class);
        }
        let mut priorities = [0; LISTS];
        for (class, queue) in (0u8..).zip(&config.queue_of) {
            priorities[usize::from(*queue)] |= 1 << priority_of(class);
        }
        let mut places = [0; QUEUES_MAX];
        places[..order.len()].copy_from_slice(&order);
        let queue_of = config.queue_of;
        Self { queue_of, limits, priorities, quanta, order: places, groups, rate: config.rate }
    }

    pub(super) fn port(&self, schedule: u16) -> Port {
        let queue =
            Queue { list: List::EMPTY, counters: QueueCounters::default(), deficit: 0, pausing: false };
        let mut turns = [(0, false); QUEUES_MAX];
        for (turn, (begin, _)) in turns.iter_mut().zip(&self.groups) {
            turn.0 = *begin;
        }
        Port { schedule, bucket: self.rate.map(Bucket::new), queues: [queue; LISTS], turns, held: 0 }
    }
}

impl Limits {
    fn of(class: &ClassConfig) -> Self {
        Self {
            bytes_max: class.bytes_max,
            trim_above: class.trim_above.unwrap_or(u32::MAX),
            marks: class.ecn.map(|ecn| Marks {
                k_min: ecn.k_min,
                k_max: ecn.k_max,
                p_max: (ecn.p_max * TWO_TO_32) as u64,
            }),
            pause: class.pause,
        }
    }
}

impl Port {
    /// The queue whose first packet is next, and that packet's length. Unchanged until [`Self::sent`], unless a packet is added to
    /// a queue of higher priority.
    pub(super) fn next(&mut self, schedule: &PortSchedule, pool: &Pool) -> Option<(usize, u32)> {
        if let Some(len) = pool.head_len(&self.queues[CONTROL].list) {
            return Some((CONTROL, len));
        }
        for (group, (begin, end)) in schedule.groups.iter().enumerate() {
            let members = &schedule.order[usize::from(*begin)..usize::from(*end)];
            let waiting = |queue: &&u8| !self.queues[usize::from(**queue)].list.is_empty();
            let mut waiting = members.iter().filter(waiting);
            let Some(first) = waiting.next() else { continue };
            if waiting.next().is_none() {
                // A single queue needs no credit.
                let queue = usize::from(*first);
                return pool.head_len(&self.queues[queue].list).map(|len| (queue, len));
            }
            return self.turn(group, (*begin, *end), schedule, pool);
        }
        None
    }

    /// Deficit round robin in a group of which some queue is not empty.
    fn turn(
        &mut self,
        group: usize,
        (begin, end): (u8, u8),
        schedule: &PortSchedule,
        pool: &Pool,
    ) -> Option<(usize, u32)> {
        let (mut at, mut topped) = self.turns[group];
        let mut visits = 0;
        loop {
            let index = usize::from(schedule.order[usize::from(at)]);
            if let Some(len) = pool.head_len(&self.queues[index].list) {
                let queue = &mut self.queues[index];
                if !topped {
                    queue.deficit += schedule.quanta[index];
                }
                if queue.deficit >= len {
                    self.turns[group] = (at, true);
                    return Some((index, len));
                }
            }
            (at, topped) = (if at + 1 == end { begin } else { at + 1 }, false);
            visits += 1;
            if visits == end - begin {
                self.skip_rounds(&schedule.order[usize::from(begin)..usize::from(end)], schedule, pool);
            }
        }
    }

    /// Skips rounds in which no queue could send: weights may differ widely.
    fn skip_rounds(&mut self, members: &[u8], schedule: &PortSchedule, pool: &Pool) {
        let rounds = |queue: &u8| {
            let index = usize::from(*queue);
            let len = pool.head_len(&self.queues[index].list)?;
            Some(len.saturating_sub(self.queues[index].deficit).div_ceil(schedule.quanta[index]))
        };
        let idle = members.iter().filter_map(rounds).min().unwrap_or(0).saturating_sub(1);
        for queue in members {
            let index = usize::from(*queue);
            if !self.queues[index].list.is_empty() {
                self.queues[index].deficit += idle * schedule.quanta[index];
            }
        }
    }

    /// Accounts for the packet of [`Self::next`], of `len` bytes, which was taken out of its queue.
    pub(super) fn sent(&mut self, queue: usize, len: u32) {
        let queue = &mut self.queues[queue];
        queue.deficit = if queue.list.is_empty() { 0 } else { queue.deficit.saturating_sub(len) };
        queue.counters.sent += 1;
        queue.counters.sent_bytes += u64::from(len);
        queue.counters.held_bytes -= u64::from(len);
        self.held -= 1;
    }

    /// Reverts [`Self::sent`] for a packet of `len` bytes that did not leave and is first in its queue again.
    pub(super) fn unsent(&mut self, queue: usize, len: u32) {
        let queue = &mut self.queues[queue];
        queue.deficit += len;
        queue.counters.sent -= 1;
        queue.counters.sent_bytes -= u64::from(len);
        queue.counters.held_bytes += u64::from(len);
        self.held += 1;
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(len);
        }
    }
}
