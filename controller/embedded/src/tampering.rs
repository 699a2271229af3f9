//! Middleware that changes or drops packets before the switch receives them.
//!
//! For tests and demonstrations, as a [middleware](crate::Builder::middleware) of a switch: for example of [bounded
//! loss](netfold_wire::Flags::DROPPABLE) without a queue that trims.

use std::fmt;

use netfold_io::{IoError, PacketIo, RxBatch};
use netfold_wire::{Flags, Packet, header};

/// May change a received packet, and returns how many of its bytes remain, or `None` to drop it.
type Tamper = Box<dyn FnMut(&mut [u8]) -> Option<usize> + Send>;

/// Packet I/O whose received packets are changed or dropped.
pub struct Tampering {
    inner: Box<dyn PacketIo>,
    batch: RxBatch,
    tamper: Tamper,
}

impl Tampering {
    /// Passes each received packet to `tamper`, which may change it, and returns how many of its bytes remain; `None` drops it.
    pub fn new(
        inner: Box<dyn PacketIo>,
        tamper: impl FnMut(&mut [u8]) -> Option<usize> + Send + 'static,
    ) -> Self {
        let batch = inner.capabilities().batch();
        Self { inner, batch, tamper: Box::new(tamper) }
    }

    /// Trims this fraction, 0 to 1, of the droppable packets, at random from a seed.
    pub fn trimming(inner: Box<dyn PacketIo>, fraction: f64, seed: u32) -> Self {
        let (below, mut state) = ((fraction.clamp(0.0, 1.0) * 65_536.0) as u32, seed);
        Self::new(inner, move |bytes| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if let Ok(mut view) = Packet::new_checked(&mut *bytes)
                && state >> 16 < below
                && view.flags().contains(Flags::DROPPABLE)
            {
                view.set_flags(view.flags().with(Flags::TRIMMED).with(Flags::BARE));
                view.set_count(0);
                return Some(header::LEN);
            }
            Some(bytes.len())
        })
    }
}

impl fmt::Debug for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tampering").field("capabilities", &self.inner.capabilities()).finish_non_exhaustive()
    }
}

impl netfold_io::Middleware for Tampering {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.inner
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = PacketIo::receive(&mut self.inner, &mut self.batch)?;
        batch.clear();
        for at in 0..self.batch.len() {
            let packet = self.batch.packets()[at];
            let bytes = self.batch.bytes_mut(&packet);
            let Some(len) = (self.tamper)(bytes) else { continue };
            // Never longer than in the batch in which it was received.
            if !batch.push(packet.port, &bytes[..len.min(bytes.len())], packet.ecn) {
                break;
            }
        }
        Ok(received)
    }
}
