//! Packets between the pipeline and the primary: the way from the switch's thread, and what is counted of both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netfold_switch::Handle;
use tokio::sync::mpsc;

use crate::fault::Fault;

/// Packets on the way from the switch's thread to the streams. More are dropped and counted.
const WAITING_MAX: usize = 1024;

/// What was counted of the CPU port's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounters {
    /// Packets of controllers that entered the pipeline.
    pub packets_out: u64,
    /// Packets of the pipeline that a controller was sent.
    pub packets_in: u64,
    /// Packets of the pipeline that nobody was sent: there was no primary, or it did not read.
    pub packets_in_dropped: u64,
}

/// The counters as they count.
#[derive(Debug, Default)]
pub(crate) struct PacketCount {
    packets_out: AtomicU64,
    packets_in: AtomicU64,
    dropped: AtomicU64,
}

impl PacketCount {
    pub(crate) fn count_out(&self, packets: usize) {
        self.packets_out.fetch_add(packets as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_in(&self, taken: bool) {
        let counter = if taken { &self.packets_in } else { &self.dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> PacketCounters {
        PacketCounters {
            packets_out: self.packets_out.load(Ordering::Relaxed),
            packets_in: self.packets_in.load(Ordering::Relaxed),
            packets_in_dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// Opens the CPU port: what the pipeline sends there comes out of the receiver.
pub(crate) fn open(
    handle: &Handle,
    cpu_port: u16,
    count: &Arc<PacketCount>,
) -> Result<mpsc::Receiver<Vec<u8>>, Fault> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let count = Arc::clone(count);
    let take = move |packet: &[u8]| {
        // A place is taken before the copy is made: a flood costs no memory.
        match sender.try_reserve() {
            Ok(place) => place.send(packet.to_vec()),
            Err(_) => count.count_in(false),
        }
    };
    handle.call(move |core| core.set_cpu_port(cpu_port, take)).map_err(|_| Fault::gone())?;
    Ok(receiver)
}
