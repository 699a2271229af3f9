//! Packets between the pipeline and the primary: the channel from the switch's thread, and counters of both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netfold_switch::Handle;
use tokio::sync::mpsc;

use crate::fault::Fault;

/// Capacity of the channel from the switch's thread to the streams. Further packets are dropped and counted.
const WAITING_MAX: usize = 1024;

/// Counters of the CPU port's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounters {
    /// Packets from controllers that entered the pipeline.
    pub packets_out: u64,
    /// Packets from the pipeline sent to a controller.
    pub packets_in: u64,
    /// Packets from the pipeline that were dropped: there was no primary, or it did not read.
    pub packets_in_dropped: u64,
}

/// The counters, shared between threads.
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

/// Opens the CPU port: the receiver returns the packets that the pipeline sends there.
pub(crate) fn open(
    handle: &Handle,
    cpu_port: u16,
    count: &Arc<PacketCount>,
) -> Result<mpsc::Receiver<Vec<u8>>, Fault> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let count = Arc::clone(count);
    let take = move |packet: &[u8]| {
        // A permit is taken before the copy is made: a flood costs no memory.
        match sender.try_reserve() {
            Ok(place) => place.send(packet.to_vec()),
            Err(_) => count.count_in(false),
        }
    };
    handle.call(move |core| core.set_cpu_port(cpu_port, take)).map_err(|_| Fault::stopped())?;
    Ok(receiver)
}
