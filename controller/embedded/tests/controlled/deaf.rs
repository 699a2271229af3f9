//! A transport that passes nothing on, or nothing long, once it is told so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};

/// What is longer than so many bytes does not get through while it is silenced.
pub(crate) struct Deaf(pub(crate) Box<dyn PacketIo>, pub(crate) Arc<AtomicBool>, pub(crate) u32);

impl PacketIo for Deaf {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.0.receive(batch)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        if !self.1.load(Ordering::Relaxed) {
            return self.0.transmit(memory, packets);
        }
        let short: Vec<_> = packets.iter().filter(|packet| packet.len <= self.2).copied().collect();
        self.0.transmit(memory, &short).map(|_| packets.len())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.0.wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.0.bind_port(port, peer)
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.0.unbind_port(port)
    }

    fn counters(&self) -> IoCounters {
        self.0.counters()
    }
}
