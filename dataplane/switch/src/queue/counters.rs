//! What queues count.

use std::fmt;

/// Which queue of a port.
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

/// What one queue has counted. Every packet that was meant for it is in `enqueued`, `trimmed` or `dropped`, and every
/// one in `enqueued` is in `sent` or `flushed`, or still held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that joined it.
    pub enqueued: u64,
    /// Their bytes.
    pub enqueued_bytes: u64,
    /// Packets that left by the port.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that were marked as they joined.
    pub marked: u64,
    /// Packets whose header went to the control queue instead.
    pub trimmed: u64,
    /// Packets dropped for want of room.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets that had joined it and were dropped because their port took nothing for too long.
    pub flushed: u64,
    /// Bytes in it now.
    pub held_bytes: u64,
    /// Most bytes that were ever in it.
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

    /// A packet in it is dropped.
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
        self.flushed += other.flushed;
        self.held_bytes += other.held_bytes;
        self.held_bytes_max += other.held_bytes_max;
    }
}

/// What all queues have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuesCounters {
    /// Every queue that has seen a packet: port, queue, counts; in order.
    pub queues: Vec<(u16, QueueName, QueueCounters)>,
    /// Packets for ports that have no queues, or longer than those hold.
    pub refused: u64,
    /// How often the switch has stopped taking packets in.
    pub pauses: u64,
}

impl QueuesCounters {
    /// The sum over all queues; its `held_bytes_max` is the sum of the queues' own.
    #[must_use]
    pub fn total(&self) -> QueueCounters {
        let mut total = QueueCounters::default();
        self.queues.iter().for_each(|(_, _, counters)| total.add(counters));
        total
    }
}
