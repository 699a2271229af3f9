//! A transport that passes nothing on, or nothing long, once it is told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netfold_io::{IoError, PacketIo, Transmit};

/// What is longer than so many bytes does not get through while it is silenced.
pub(crate) struct Deaf(pub(crate) Box<dyn PacketIo>, pub(crate) Arc<AtomicBool>, pub(crate) u32);

impl netfold_io::Middleware for Deaf {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.0
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        if !self.1.load(Ordering::Relaxed) {
            return self.inner_mut().transmit(memory, packets);
        }
        let short: Vec<_> = packets.iter().filter(|packet| packet.len <= self.2).copied().collect();
        self.inner_mut().transmit(memory, &short).map(|_| packets.len())
    }
}
