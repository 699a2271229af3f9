//! The switch's queues, and the backend behind them.

use std::time::{Duration, Instant};

use netfold_io::{IoError, PacketIo, PortId, Transmit};

use super::OUTPUT_PATIENCE;
use crate::queue::{Departure, PORTS_MAX, QueueConfig, QueueConfigError, Queues, QueuesCounters};

/// How long the loop sleeps at a time while it takes no packets in: it cannot be woken then, since packets wait at its door.
const PAUSE_NAP: Duration = Duration::from_millis(1);

/// How long the loop leaves a port alone for which the backend has taken nothing.
const FULL_NAP: Duration = Duration::from_micros(100);

/// Queues that send by the clock.
pub(super) struct Egress {
    queues: Queues,
    start: Instant,
    /// What is offered to the backend at once, twice: for the queues and for the backend.
    leaving: Vec<Departure>,
    offered: Vec<Transmit>,
    burst_max: usize,
    /// Since when the backend takes nothing for a port; `None` where it does.
    full_since: Vec<Option<Duration>>,
    /// Packets given up because the backend took none for their port for too long.
    given_up: u64,
}

impl Egress {
    pub(super) fn new(config: &QueueConfig, io: &dyn PacketIo) -> Result<Self, QueueConfigError> {
        let capabilities = io.capabilities();
        let burst_max = capabilities.burst_max.max(1);
        Ok(Self {
            queues: Queues::new(config, capabilities.datagram_len_max)?,
            start: Instant::now(),
            leaving: Vec::with_capacity(burst_max),
            offered: Vec::with_capacity(burst_max),
            burst_max,
            full_since: vec![None; PORTS_MAX],
            given_up: 0,
        })
    }

    /// Copies packets into the queues, and sends what may leave. Each packet may leave before the next one joins, so that a port that
    /// is not slow has no queue, however long the burst is.
    pub(super) fn take(
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
            self.let_go(now);
            if self.leaving.len() == self.burst_max {
                self.offer(io, now)?;
            }
        }
        self.send_at(io, now)
    }

    /// Sends what may leave, as far as the backend takes it. What it does not take stays in its queue, and other ports go on.
    pub(super) fn send(&mut self, io: &mut dyn PacketIo) -> Result<(), IoError> {
        self.send_at(io, self.start.elapsed())
    }

    /// All with one time, so that it ends: what becomes ready meanwhile is for the next call.
    fn send_at(&mut self, io: &mut dyn PacketIo, now: Duration) -> Result<(), IoError> {
        loop {
            self.let_go(now);
            if self.leaving.is_empty() {
                return Ok(());
            }
            self.offer(io, now)?;
        }
    }

    /// Takes out of the queues what may leave, up to a burst.
    fn let_go(&mut self, now: Duration) {
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
            self.back(full, now);
        }
        self.offered.clear();
        Ok(())
    }

    /// What the backend has not taken goes back: port `full` waits a while, the others are tried again at once.
    fn back(&mut self, full: u16, now: Duration) {
        for departure in self.leaving.drain(..).rev() {
            let retry_at = if departure.port == full { now + FULL_NAP } else { now };
            self.queues.put_back(departure, retry_at);
        }
        let since = *self.full_since[usize::from(full)].get_or_insert(now);
        if now - since > OUTPUT_PATIENCE {
            self.given_up += self.queues.flush(full);
            self.full_since[usize::from(full)] = None;
        }
    }

    /// How long nothing may leave, `most` at most.
    pub(super) fn nap(&self, most: Duration) -> Duration {
        match self.queues.ready_at() {
            None => most,
            Some(at) => at.saturating_sub(self.start.elapsed()).min(most),
        }
    }

    /// Whether no packets are to be taken in now; then it has slept until some more may have left.
    pub(super) fn holds_back(&self) -> bool {
        let paused = self.queues.is_paused();
        if paused {
            std::thread::sleep(self.nap(PAUSE_NAP));
        }
        paused
    }

    pub(super) fn counters(&self) -> QueuesCounters {
        self.queues.counters()
    }

    pub(super) const fn given_up(&self) -> u64 {
        self.given_up
    }
}
