//! Fault lines around a backend.

use std::time::{Duration, Instant};

use super::{FaultConfig, FaultCounters, FaultLine, Offered};
use crate::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, check_transmit};

/// Default bound of the packets that each direction holds.
const HELD_MAX: usize = 8192;

/// Packets that are put together before they are passed on.
const STAGED_MAX: usize = 512;

/// Bursts of the inner backend that one `receive` looks at when all of them get lost.
const FETCHES_MAX: usize = 64;

/// These bits distinguish the sending direction's seed from the receiving direction's.
const TX_SEED: u64 = 0x7478_7478_7478_7478;

/// Middleware that applies [`FaultConfig`] to what a backend receives and sends.
///
/// Packets on their way when it is dropped are lost, and delayed ones leave only during its calls, `wait` above all.
///
/// Time is the machine's clock; which packets are hit follows from the seed and their order. Memory is bounded: when a
/// direction holds as many packets as it may, `transmit` takes no more (back-pressure) and `receive` leaves packets
/// with the inner backend. A direction without faults costs nothing.
///
/// [`IoCounters`] are those of the inner backend, which sees sent packets behind the faults and received ones before
/// them, with [`IoCounters::fault_dropped`] added; [`rx_faults`](Self::rx_faults) and [`tx_faults`](Self::tx_faults)
/// have the rest.
#[derive(Debug)]
pub struct Faulty<B> {
    inner: B,
    start: Instant,
    rx: FaultLine<(PortId, u8)>,
    tx: FaultLine<PortId>,
    /// What the inner backend delivered; the packets from `examined` on have not been processed yet.
    arrived: RxBatch,
    examined: usize,
    staged: Staged,
    /// `transmit` took fewer packets than offered, and `wait` has not yet reported that there is room again.
    backpressured: bool,
    backpressure: u64,
    truncated: u64,
}

/// Packets on their way to the inner backend, in order.
#[derive(Debug, Default)]
struct Staged {
    memory: Vec<u8>,
    packets: Vec<Transmit>,
    /// How many of them the inner backend took.
    taken: usize,
}

impl Staged {
    fn push(&mut self, port: PortId, bytes: &[u8]) {
        let offset = self.memory.len() as u32; // STAGED_MAX datagrams, plus what one line holds
        self.memory.extend_from_slice(bytes);
        self.packets.push(Transmit { port, offset, len: bytes.len() as u32 });
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= STAGED_MAX
    }
}

impl<B: PacketIo> Faulty<B> {
    /// Applies `config` to `inner`.
    #[must_use]
    pub fn new(inner: B, config: FaultConfig) -> Self {
        Self::with_held_max(inner, config, HELD_MAX)
    }

    /// As [`new`](Self::new), holding at most `held_max` packets (at least 2) in each direction.
    #[must_use]
    pub fn with_held_max(inner: B, config: FaultConfig, held_max: usize) -> Self {
        let passive = config.rx.is_none();
        Self {
            start: Instant::now(),
            rx: FaultLine::new(config.seed, config.rx, held_max),
            tx: FaultLine::new(config.seed ^ TX_SEED, config.tx, held_max),
            arrived: if passive { RxBatch::new(1, 0) } else { inner.capabilities().batch() },
            examined: 0,
            staged: Staged::default(),
            backpressured: false,
            backpressure: 0,
            truncated: 0,
            inner,
        }
    }

    /// Faults applied to what was received.
    #[must_use]
    pub fn rx_faults(&self) -> FaultCounters {
        self.rx.counters()
    }

    /// Faults applied to what was sent.
    #[must_use]
    pub fn tx_faults(&self) -> FaultCounters {
        self.tx.counters()
    }

    /// The backend within.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The backend within, to change it.
    pub fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// As [`flush`](Self::flush), for callers that learn from `receive` that the peer has closed.
    fn flush_aside(&mut self, now: Duration) -> Result<bool, IoError> {
        match self.flush(now) {
            Err(IoError::PeerClosed) => Ok(false),
            result => result,
        }
    }

    /// Passes on what is staged and what is due; whether all of it was taken.
    fn flush(&mut self, now: Duration) -> Result<bool, IoError> {
        loop {
            let staged = &mut self.staged;
            if staged.taken < staged.packets.len() {
                staged.taken += self.inner.transmit(&staged.memory, &staged.packets[staged.taken..])?;
                if staged.taken < staged.packets.len() {
                    return Ok(false);
                }
            }
            staged.memory.clear();
            staged.packets.clear();
            staged.taken = 0;
            while !staged.is_full()
                && let Some((port, bytes)) = self.tx.pop(now)
            {
                staged.push(port, bytes);
            }
            if staged.packets.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Moves what is due into the batch; whether it had room for all.
    fn deliver(&mut self, now: Duration, batch: &mut RxBatch) -> bool {
        while let Some(len) = self.rx.peek_len(now) {
            if batch.spare(len).is_none() && !batch.is_empty() {
                return false;
            }
            if let Some(((port, ecn), bytes)) = self.rx.pop(now)
                && !batch.push(port, bytes, ecn)
            {
                self.truncated += 1; // longer than the whole batch
            }
        }
        true
    }

    /// Applies faults to the packets that have arrived; returns whether there was room for all.
    fn apply_faults(&mut self, now: Duration, batch: &mut RxBatch) -> bool {
        while let Some(packet) = self.arrived.packets().get(self.examined) {
            let room = batch.spare(packet.len as usize).is_some() || batch.is_empty();
            if !room || !self.rx.has_room() {
                return false;
            }
            self.examined += 1;
            let (port, ecn, bytes) = (packet.port, packet.ecn, self.arrived.bytes(packet));
            if self.rx.offer(now, (port, ecn), bytes) == Offered::Passes && !batch.push(port, bytes, ecn) {
                self.truncated += 1;
            }
            if !self.deliver(now, batch) {
                return false;
            }
        }
        true
    }

    fn receive_faulty(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let now = self.now();
        batch.clear();
        if !self.deliver(now, batch) {
            return Ok(batch.len());
        }
        for _ in 0..FETCHES_MAX {
            if !self.apply_faults(now, batch) {
                break;
            }
            self.examined = 0;
            match self.inner.receive(&mut self.arrived) {
                Ok(0) => break,
                Ok(_) => {}
                // What the line still holds comes first; the error will be there again.
                Err(_) if !batch.is_empty() || self.rx.held() > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(batch.len())
    }

    fn transmit_faulty(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let now = self.now();
        let mut taken = 0;
        while self.flush(now)? && taken < packets.len() {
            let before = taken;
            for packet in &packets[taken..] {
                let Some(bytes) = packet.bytes(memory) else { break };
                if self.staged.is_full() || !self.tx.has_room() {
                    break;
                }
                if self.tx.offer(now, packet.port, bytes) == Offered::Passes {
                    self.staged.push(packet.port, bytes);
                }
                while let Some((port, bytes)) = self.tx.pop(now) {
                    self.staged.push(port, bytes);
                }
                taken += 1;
            }
            if taken == before {
                break;
            }
        }
        if taken < packets.len() {
            self.backpressured = true;
            self.backpressure += 1;
        }
        Ok(taken)
    }
}

impl<B: PacketIo> crate::Middleware for Faulty<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { lossless: inner.lossless && self.rx.is_clear() && self.tx.is_clear(), ..inner }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if !self.tx.is_clear() {
            self.flush_aside(self.now())?;
        }
        if self.rx.is_clear() {
            return self.inner.receive(batch);
        }
        self.receive_faulty(batch)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        if self.tx.is_clear() {
            return self.inner.transmit(memory, packets);
        }
        check_transmit(memory, packets, self.inner.capabilities().datagram_len_max)?;
        self.transmit_faulty(memory, packets)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        let deadline = self.now().saturating_add(timeout);
        loop {
            let now = self.now();
            let flushed = self.tx.is_clear() || self.flush_aside(now)?;
            if self.backpressured && flushed && self.tx.has_room() {
                self.backpressured = false;
                return Ok(true);
            }
            let waiting = self.examined < self.arrived.len() && self.rx.has_room();
            if waiting || self.rx.next_release().is_some_and(|at| at <= now) {
                return Ok(true);
            }
            // What is staged waits for the inner backend, not for its time.
            let tx_release = if flushed { self.tx.next_release() } else { None };
            let wake =
                [self.rx.next_release(), tx_release].into_iter().flatten().fold(deadline, Duration::min);
            if self.inner.wait(wake.saturating_sub(now))? {
                return Ok(true);
            }
            if self.now() >= deadline {
                return Ok(false);
            }
        }
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.inner.counters();
        counters.fault_dropped += self.rx.counters().dropped() + self.tx.counters().dropped();
        counters.backpressure += self.backpressure;
        counters.truncated += self.truncated;
        counters
    }
}

#[cfg(test)]
mod tests;
