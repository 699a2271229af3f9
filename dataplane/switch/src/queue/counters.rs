//! Counters of queues.

use std::fmt;

/// A queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueName {
    /// The queue of classes with this number.
    Class(u8),
    /// The queue of control packets and of headers whose lanes were cut off.
    Control,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(queue) => write!(f, "{queue}"),
            Self::Control => f.write_str("control"),
        }
    }
}

/// Counters of one queue. Every packet that arrived for it is in `enqueued`, `trimmed` or `dropped`, and every
/// one in `enqueued` is in `sent` or `flushed`, or still held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets added to it.
    pub enqueued: u64,
    /// Their bytes.
    pub enqueued_bytes: u64,
    /// Packets sent through the port.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets marked when they were enqueued.
    pub marked: u64,
    /// Packets whose header went to the control queue instead.
    pub trimmed: u64,
    /// Packets dropped because it was full.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// How often senders of its classes were to pause because it held too much.
    pub pauses: u64,
    /// Packets dropped from it because the output accepted none for their port for too long.
    pub flushed: u64,
    /// Bytes in it.
    pub held_bytes: u64,
    /// Maximum of `held_bytes` so far.
    pub held_bytes_max: u64,
}

impl QueueCounters {
    pub(super) fn join(&mut self, len: usize) {
        self.enqueued += 1;
        self.enqueued_bytes += len as u64;
        self.held_bytes += len as u64;
        self.held_bytes_max = self.held_bytes_max.max(self.held_bytes);
    }

    pub(super) fn drop(&mut self, len: usize) {
        self.dropped += 1;
        self.dropped_bytes += len as u64;
    }

    /// Counts a packet that was dropped from it.
    pub(super) fn flush(&mut self, len: usize) {
        self.flushed += 1;
        self.held_bytes -= len as u64;
    }

    fn add(&mut self, other: &Self) {
        self.enqueued += other.enqueued;
        self.enqueued_bytes += other.enqueued_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.marked += other.marked;
        self.trimmed += other.trimmed;
        self.dropped += other.dropped;
        self.dropped_bytes += other.dropped_bytes;
        self.pauses += other.pauses;
        self.flushed += other.flushed;
        self.held_bytes += other.held_bytes;
        self.held_bytes_max += other.held_bytes_max;
    }
}

/// Counters of all queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuesCounters {
    /// Every queue that has seen a packet: port, queue, counts; in order.
    pub queues: Vec<(u16, QueueName, QueueCounters)>,
    /// Packets for ports that have no queues, or longer than a cell.
    pub refused: u64,
    /// How often the switch has stopped receiving packets.
    pub pauses: u64,
}

impl QueuesCounters {
    /// The sum over the queues of a port, as [`Self::total`]; `None` when it has seen no packet.
    #[must_use]
    pub fn port(&self, port: u16) -> Option<QueueCounters> {
        let mut total = None;
        for (_, _, counters) in self.queues.iter().filter(|(at, ..)| *at == port) {
            total.get_or_insert_with(QueueCounters::default).add(counters);
        }
        total
    }

    /// The sum over all queues; its `held_bytes_max` is the sum of the queues' maxima.
    #[must_use]
    pub fn total(&self) -> QueueCounters {
        let mut total = QueueCounters::default();
        self.queues.iter().for_each(|(_, _, counters)| total.add(counters));
        total
    }
}
