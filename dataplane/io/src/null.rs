//! The backend that is connected to nothing.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::waker::ThreadWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, RxBatch, Transmit, check_transmit};

/// Receives nothing and swallows everything that is sent, to any port. For tests, and to measure what a caller costs
/// by itself.
#[derive(Debug)]
pub struct Null {
    datagram_len_max: usize,
    counters: IoCounters,
    waker: Arc<ThreadWaker>,
}

impl Null {
    /// A null backend that refuses datagrams longer than `datagram_len_max` bytes, as any backend does.
    #[must_use]
    pub fn new(datagram_len_max: usize) -> Self {
        Self { datagram_len_max, counters: IoCounters::default(), waker: Arc::default() }
    }
}

impl PacketIo for Null {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "null",
            datagram_len_max: self.datagram_len_max,
            burst_max: 256,
            batch_bytes: self.datagram_len_max,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        Ok(0)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.datagram_len_max)?;
        self.counters.tx_packets += packets.len() as u64;
        self.counters.tx_bytes += packets.iter().map(|packet| u64::from(packet.len)).sum::<u64>();
        Ok(packets.len())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        Ok(self.waker.wait(timeout, &mut self.counters.sleeps, || false))
    }

    fn waker(&self) -> Waker {
        self.waker.waker()
    }

    fn counters(&self) -> IoCounters {
        self.counters
    }
}
