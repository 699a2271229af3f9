//! Packet I/O that drops outgoing packets longer than a bound, while a flag is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netfold_io::{IoError, PacketIo, Transmit};

/// Drops outgoing packets longer than that many bytes while the flag is set.
pub(crate) struct DroppingIo(pub(crate) Box<dyn PacketIo>, pub(crate) Arc<AtomicBool>, pub(crate) u32);

impl netfold_io::Middleware for DroppingIo {
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
