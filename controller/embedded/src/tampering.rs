//! A network that does something to packets before the switch gets them.
//!
//! For tests and demonstrations, as a [middleware](crate::Builder::middleware) of a switch: of [bounded
//! loss](netfold_wire::Flags::DROPPABLE), say, where there is no queue that trims.

use std::fmt;

use netfold_io::{IoError, PacketIo, RxBatch};
use netfold_wire::{Flags, Packet, header};

/// What becomes of a packet that has come in, and may be changed: so many of its bytes, or nothing.
type Tamper = Box<dyn FnMut(&mut [u8]) -> Option<usize> + Send>;

/// A way on which something happens to packets that come in.
pub struct Tampering {
    inner: Box<dyn PacketIo>,
    batch: RxBatch,
    tamper: Tamper,
}

impl Tampering {
    /// Hands each packet to `tamper`, which may change it, and says how many of its bytes go on; `None` for none.
    pub fn new(
        inner: Box<dyn PacketIo>,
        tamper: impl FnMut(&mut [u8]) -> Option<usize> + Send + 'static,
    ) -> Self {
        let batch = inner.capabilities().batch();
        Self { inner, batch, tamper: Box::new(tamper) }
    }

    /// Trims this part, from 0 to 1, of the packets that may be trimmed, by chance from a seed.
    pub fn trimming(inner: Box<dyn PacketIo>, part: f64, seed: u32) -> Self {
        let (below, mut state) = ((part.clamp(0.0, 1.0) * 65_536.0) as u32, seed);
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
            // As long as the batch that it came in, at most.
            if !batch.push(packet.port, &bytes[..len.min(bytes.len())], packet.ecn) {
                break;
            }
        }
        Ok(received)
    }
}
