//! One queue of a port as a link of whole frames.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_io::link::{Link, LinkProperties};
use netfold_io::{IoCounters, IoError, PortId, RxBatch};

use crate::bell::Bell;
use crate::buffers::BURST;
use crate::eal::Eal;
use crate::port::HEADER_LEN;
use crate::{Arrivals, Device, DpdkError, Outbox, Port, PortConfig, Queue, Spec};

/// Frames that are queued at most before they are sent.
const QUEUED_MAX: usize = 256;
/// How long `wait` looks at the queue again and again before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Calls of `receive` in vain after which somebody who never sleeps is told that the interface is gone.
const IDLE_MAX: u32 = 4096;
/// Sleeps between two looks at a device without interrupts: the first, doubled each time up to the last.
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_micros(500);

/// A queue of a DPDK port. Frames are copied out of DPDK's buffers and into them, once each.
///
/// In [`IoCounters`] the calls of the system are those that the driver is known to make: one each time that frames are sent for
/// `net_af_packet`, one for each frame for `net_tap`, none for all others.
#[derive(Debug)]
pub struct Dpdk {
    queue: Queue,
    arrivals: Arrivals,
    outbox: Outbox,
    bell: Arc<Bell>,
    /// Whether the interface below is gone.
    gone: bool,
    /// Calls of `receive` in a row that found nothing.
    idle: u32,
    /// Whether a frame found no room since the last `wait`.
    refused: bool,
    frame_len_max: usize,
    calls: SystemCalls,
    counters: IoCounters,
}

/// When a driver calls the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemCalls {
    Never,
    PerBurstSent,
    PerFrame,
}

impl Dpdk {
    /// Starts DPDK if it does not run, attaches a device and starts it: one link for each queue.
    ///
    /// # Errors
    ///
    /// [`DpdkError`].
    pub fn open(spec: &Spec) -> Result<Vec<Self>, DpdkError> {
        let eal = Eal::start(&spec.options, !spec.name().starts_with("net_"))?;
        let device = Device::attach(&eal, spec)?;
        let config = PortConfig { mtu: spec.mtu, queues: spec.queues, ..PortConfig::default() };
        let (_, queues) = Port::start(device, &config)?;
        queues.into_iter().map(Self::new).collect()
    }

    /// The link of one queue.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Io`] when there is no event descriptor to be had.
    pub fn new(queue: Queue) -> Result<Self, DpdkError> {
        let frame_len_max = usize::from(queue.port().mtu()) + HEADER_LEN;
        let calls = match queue.port().driver() {
            "net_af_packet" => SystemCalls::PerBurstSent,
            "net_tap" => SystemCalls::PerFrame,
            _ => SystemCalls::Never,
        };
        Ok(Self {
            outbox: queue.outbox(QUEUED_MAX),
            arrivals: Arrivals::default(),
            bell: Arc::new(Bell::new()?),
            gone: false,
            idle: 0,
            refused: false,
            frame_len_max,
            calls,
            counters: IoCounters::default(),
            queue,
        })
    }

    /// The port of the queue.
    #[must_use]
    pub fn port(&self) -> &Arc<Port> {
        self.queue.port()
    }

    /// Whether something has arrived, or there is room that was missed before. What is queued still is offered again.
    fn ready(&mut self) -> bool {
        if !self.outbox.is_empty() {
            self.send();
        }
        if self.arrivals.fill(&mut self.queue) {
            return true;
        }
        let room = self.refused && self.outbox.has_room();
        self.refused &= !room;
        room
    }

    /// An error once the interface below is gone. Nothing else tells.
    fn look(&mut self) -> Result<(), IoError> {
        self.gone = self.gone || self.port().device().gone();
        let source = || std::io::Error::new(std::io::ErrorKind::NotFound, "the interface is gone");
        if self.gone { Err(IoError::Os { call: "dpdk", source: source() }) } else { Ok(()) }
    }

    /// Sleeps once, for `left` at most where the device tells of arrivals and nothing else is waited for, else for `nap`. True
    /// when the waker fired.
    fn sleep(&mut self, left: Duration, nap: Duration) -> Result<bool, IoError> {
        let armed = self.outbox.is_empty() && !self.refused && self.queue.arm();
        // What arrived before that is not told any more.
        if armed && self.arrivals.fill(&mut self.queue) {
            self.queue.disarm();
            return Ok(false);
        }
        self.look()?;
        self.counters.sleeps += 1;
        let rang =
            if armed { self.bell.sleep(left, self.queue.interrupt()) } else { self.bell.sleep(nap, None) };
        if armed {
            self.queue.disarm();
        }
        rang
    }

    fn send(&mut self) {
        let sent = self.outbox.flush(&mut self.queue) as u64;
        self.counters.tx_calls += match self.calls {
            SystemCalls::Never => 0,
            SystemCalls::PerBurstSent => u64::from(sent > 0),
            SystemCalls::PerFrame => sent,
        };
    }
}

impl Link for Dpdk {
    fn properties(&self) -> LinkProperties {
        let (mac, frame_len_max) = (self.port().mac(), self.frame_len_max);
        LinkProperties { name: "dpdk", mac, frame_len_max, burst_max: 2 * BURST }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let len_max = self.frame_len_max.min(batch.bytes_left());
        while self.arrivals.fill(&mut self.queue) {
            while let Some(packet) = self.arrivals.first() {
                let len = packet.len();
                if len > len_max {
                    self.counters.truncated += 1;
                } else {
                    let Some(memory) = batch.spare(len) else { return Ok(batch.len()) };
                    if packet.copy_to(memory) {
                        batch.commit(PortId(0), len, 0);
                    } else {
                        self.counters.truncated += 1;
                    }
                }
                self.counters.rx_calls += u64::from(self.calls == SystemCalls::PerFrame);
                self.arrivals.pop();
            }
            if batch.packets_left() == 0 {
                break;
            }
        }
        self.idle = if batch.is_empty() { self.idle + 1 } else { 0 };
        if self.gone || self.idle == IDLE_MAX {
            self.idle = 0;
            self.look()?;
        }
        Ok(batch.len())
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.frame_len_max {
            return None;
        }
        self.refused |= !self.outbox.has_room();
        self.outbox.frame(len)
    }

    fn push(&mut self) {
        self.outbox.push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        if !self.outbox.is_empty() {
            self.send();
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.bell.take() || self.ready() {
            return Ok(true);
        }
        if timeout.is_zero() {
            return Ok(false);
        }
        let start = Instant::now();
        let mut nap = NAP_MIN;
        loop {
            let waited = start.elapsed();
            if waited >= timeout {
                return Ok(false);
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                let left = timeout - waited;
                if self.sleep(left, left.min(nap))? {
                    return Ok(true);
                }
                nap = (2 * nap).min(NAP_MAX);
            }
            if self.bell.take() || self.ready() {
                return Ok(true);
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.bell))
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.counters;
        let stats = self.port().stats();
        (counters.tx_failed, counters.rx_dropped) = (stats.tx_errors, stats.rx_missed);
        counters
    }
}
