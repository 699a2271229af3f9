//! The switch's queues, which send through the I/O backend.

use std::time::{Duration, Instant};

use netfold_io::{IoError, PacketIo, PortId, Transmit};

use super::OUTPUT_TIMEOUT;
use crate::queue::{Departure, PORTS_MAX, QueueConfig, QueueConfigError, Queues, QueuesCounters};

/// How long the loop sleeps at a time while it is paused. It cannot wait for packets then, since some are pending.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How long the loop waits before it retries a port whose packets the backend did not accept.
const FULL_RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// Queues driven by the system's clock.
pub(super) struct Egress {
    queues: Queues,
    start: Instant,
    /// The packets offered to the backend at once, in the queues' form and in the backend's.
    leaving: Vec<Departure>,
    offered: Vec<Transmit>,
    burst_max: usize,
    /// Since when the backend has accepted no packet for a port; `None` where it does.
    full_since: Vec<Option<Duration>>,
    /// Packets dropped because the backend accepted none for their port for [`OUTPUT_TIMEOUT`].
    timed_out: u64,
    /// Priorities that peers were last asked to pause, and when to ask again.
    asked: u8,
    ask_at: Duration,
}

impl Egress {
    pub(super) fn new(config: &QueueConfig, io: &mut dyn PacketIo) -> Result<Self, QueueConfigError> {
        let capabilities = io.capabilities();
        if config.pauses_classes() && io.pause(0).is_err() {
            return Err(QueueConfigError::PauseUnsupported(capabilities.name));
        }
        let burst_max = capabilities.burst_max.max(1);
        Ok(Self {
            queues: Queues::new(config, capabilities.datagram_len_max)?,
            start: Instant::now(),
            leaving: Vec::with_capacity(burst_max),
            offered: Vec::with_capacity(burst_max),
            burst_max,
            full_since: vec![None; PORTS_MAX],
            timed_out: 0,
            asked: 0,
            ask_at: Duration::ZERO,
        })
    }

    /// Copies packets into the queues and sends those that may leave. Each packet may leave before the next one is enqueued, so that
    /// a port that is fast enough has no queue, however long the burst is.
    pub(super) fn enqueue(
        &mut self,
        io: &mut dyn PacketIo,
        memory: &[u8],
        packets: &[Transmit],
    ) -> Result<(), IoError> {
        let now = self.start.elapsed();
        for packet in packets {
            if let Some(bytes) = packet.bytes(memory) {
                self.queues.enqueue(packet.port.0, bytes);
            }
            self.dequeue(now);
            if self.leaving.len() == self.burst_max {
                self.offer(io, now)?;
            }
        }
        self.send_at(io, now)
    }

    /// Sends the packets that may leave. Packets that the backend does not accept stay in their queue; other ports continue.
    pub(super) fn send(&mut self, io: &mut dyn PacketIo) -> Result<(), IoError> {
        self.send_at(io, self.start.elapsed())
    }

    /// Uses one time throughout, so that it terminates: packets that become ready meanwhile are left to the next call.
    fn send_at(&mut self, io: &mut dyn PacketIo, now: Duration) -> Result<(), IoError> {
        loop {
            self.dequeue(now);
            if self.leaving.is_empty() {
                return self.ask(io, now);
            }
            self.offer(io, now)?;
        }
    }

    /// Asks peers to pause and to resume priorities, and renews requests before their time is over.
    fn ask(&mut self, io: &mut dyn PacketIo, now: Duration) -> Result<(), IoError> {
        let paused = self.queues.paused_priorities();
        if paused == self.asked && (paused == 0 || now < self.ask_at) {
            return Ok(());
        }
        let holds = io.pause(paused)?;
        self.asked = paused;
        self.ask_at = now.saturating_add(holds / 2);
        Ok(())
    }

    /// Dequeues packets that may leave, up to a burst.
    fn dequeue(&mut self, now: Duration) {
        while self.leaving.len() < self.burst_max
            && let Some(departure) = self.queues.dequeue(now)
        {
            let Departure { port, offset, len, .. } = departure;
            self.offered.push(Transmit { port: PortId(port), offset, len });
            self.leaving.push(departure);
        }
    }

    fn offer(&mut self, io: &mut dyn PacketIo, now: Duration) -> Result<(), IoError> {
        let taken = io.transmit(self.queues.memory(), &self.offered)?;
        for departure in self.leaving.drain(..taken) {
            self.full_since[usize::from(departure.port)] = None;
            self.queues.release(departure);
        }
        if let Some(PortId(full)) = self.offered.get(taken).map(|packet| packet.port) {
            self.put_back(full, now);
        }
        self.offered.clear();
        Ok(())
    }

    /// Puts packets that the backend did not accept back: port `full` waits, the others are retried at once.
    fn put_back(&mut self, full: u16, now: Duration) {
        for departure in self.leaving.drain(..).rev() {
            let retry_at = if departure.port == full { now + FULL_RETRY_INTERVAL } else { now };
            self.queues.put_back(departure, retry_at);
        }
        let since = *self.full_since[usize::from(full)].get_or_insert(now);
        if now - since > OUTPUT_TIMEOUT {
            self.timed_out += self.queues.flush(full);
            self.full_since[usize::from(full)] = None;
        }
    }

    /// How long no packet may leave, at most `most`.
    pub(super) fn idle_time(&self, most: Duration) -> Duration {
        let ask_at = Some(self.ask_at).filter(|_| self.asked != 0);
        match self.queues.ready_at().into_iter().chain(ask_at).min() {
            None => most,
            Some(at) => at.saturating_sub(self.start.elapsed()).min(most),
        }
    }

    /// Whether the switch must not receive packets now; if so, sleeps until a packet may have left.
    pub(super) fn pause(&self) -> bool {
        let paused = self.queues.is_paused();
        if paused {
            std::thread::sleep(self.idle_time(PAUSE_POLL_INTERVAL));
        }
        paused
    }

    pub(super) fn counters(&self) -> QueuesCounters {
        self.queues.counters()
    }

    pub(super) const fn timed_out(&self) -> u64 {
        self.timed_out
    }
}
