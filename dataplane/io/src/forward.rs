//! A plain forwarder: what a switch on the same I/O would do if folding cost nothing. Benchmarks use it as the bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{IoError, PacketIo, RxBatch, Transmit};

/// Sends every datagram back to where it came from, unread.
#[derive(Debug)]
pub struct Forwarder<B> {
    io: B,
    batch: RxBatch,
    outgoing: Vec<Transmit>,
    /// How many of `outgoing` were taken.
    taken: usize,
}

impl<B: PacketIo> Forwarder<B> {
    /// A forwarder on `io`, with a batch of the size that suits it.
    #[must_use]
    pub fn new(io: B) -> Self {
        let capabilities = io.capabilities();
        let outgoing = Vec::with_capacity(capabilities.burst_max);
        Self { io, batch: capabilities.batch(), outgoing, taken: 0 }
    }

    /// Receives a burst (unless one is still to be sent) and sends it back as far as the backend takes it. Returns how
    /// many datagrams moved: 0 means that there is nothing to do.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub fn poll(&mut self) -> Result<usize, IoError> {
        let mut moved = 0;
        if self.taken == self.outgoing.len() {
            moved = self.io.receive(&mut self.batch)?;
            self.taken = 0;
            self.outgoing.clear();
            self.outgoing.extend(self.batch.packets().iter().map(|packet| packet.to(packet.port)));
        }
        if self.taken < self.outgoing.len() {
            let count = self.io.transmit(self.batch.memory(), &self.outgoing[self.taken..])?;
            self.taken += count;
            moved = moved.max(count);
        }
        Ok(moved)
    }

    /// Forwards until `stop` is set (wake the backend then) or its peers have closed.
    ///
    /// # Errors
    ///
    /// Those of the backend, other than [`IoError::PeerClosed`].
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), IoError> {
        while !stop.load(Ordering::Acquire) {
            match self.poll() {
                Ok(0) => {
                    self.io.wait(Duration::from_secs(1))?;
                }
                Ok(_) => {}
                Err(IoError::PeerClosed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The backend.
    pub fn io(&self) -> &B {
        &self.io
    }

    /// The backend, to bind ports.
    pub fn io_mut(&mut self) -> &mut B {
        &mut self.io
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PortId, loopback};

    #[test]
    fn every_datagram_is_returned_through_small_rings() {
        let (hub, mut spokes) = loopback::star(2, 4, 16);
        let forwarding = std::thread::spawn(move || Forwarder::new(hub).run(&AtomicBool::new(false)));
        let mut echoed = 0_u32;
        let mut sent = 0_u32;
        let mut batch = RxBatch::new(8, 128);
        let spoke = &mut spokes[1];
        while echoed < 1000 {
            if sent < 1000 {
                let bytes = sent.to_be_bytes();
                sent += spoke.transmit(&bytes, &[Transmit { port: PortId(0), offset: 0, len: 4 }]).unwrap()
                    as u32;
            }
            if spoke.receive(&mut batch).unwrap() == 0 && sent == 1000 {
                assert!(spoke.wait(Duration::from_secs(10)).unwrap(), "nothing came back");
            }
            for packet in batch.packets() {
                assert_eq!(batch.bytes(packet), echoed.to_be_bytes());
                echoed += 1;
            }
        }
        drop(spokes);
        forwarding.join().unwrap().expect("ends when the spokes have closed");
    }
}
