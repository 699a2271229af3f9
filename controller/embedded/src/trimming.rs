//! A congested network in one place: packets that say that they may be trimmed are, before the switch gets them.
//!
//! For tests and demonstrations of [bounded loss](netfold_wire::Flags::DROPPABLE) where there is no queue that would do it: a
//! [middleware](crate::Builder::middleware) of a switch.

use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::{Flags, Packet, header};

/// A way on which some of the packets that may be trimmed are, by chance from a seed.
pub struct Trimming {
    inner: Box<dyn PacketIo>,
    batch: RxBatch,
    below: u32,
    state: u32,
}

impl Trimming {
    /// Trims this part, from 0 to 1, of the packets that come in and may be trimmed.
    pub fn new(inner: Box<dyn PacketIo>, part: f64, seed: u32) -> Self {
        let batch = inner.capabilities().batch();
        Self { inner, batch, below: (part.clamp(0.0, 1.0) * 65_536.0) as u32, state: seed }
    }

    fn strikes(&mut self) -> bool {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.state >> 16 < self.below
    }
}

impl PacketIo for Trimming {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = self.inner.receive(&mut self.batch)?;
        batch.clear();
        for at in 0..self.batch.len() {
            let packet = self.batch.packets()[at];
            let strikes = self.strikes();
            let bytes = self.batch.bytes_mut(&packet);
            let mut len = bytes.len();
            if let Ok(mut view) = Packet::new_checked(&mut *bytes)
                && strikes
                && view.flags().contains(Flags::DROPPABLE)
            {
                view.set_flags(view.flags().with(Flags::TRIMMED).with(Flags::BARE));
                view.set_count(0);
                len = header::LEN;
            }
            // As long as the batch that it came in, at most.
            if !batch.push(packet.port, &bytes[..len], packet.ecn) {
                break;
            }
        }
        Ok(received)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        self.inner.transmit(memory, packets)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.inner.wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.inner.bind_port(port, peer)
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.inner.unbind_port(port)
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.local_addr()
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.inner.peer(port)
    }

    fn counters(&self) -> IoCounters {
        self.inner.counters()
    }
}
