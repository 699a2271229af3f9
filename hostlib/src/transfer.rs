//! Operations that begin before all of their input is there, and whose results are taken away before they are over.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// How often a thread looks for input that it waits for.
pub(crate) const INPUT_POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Copying the memory of an operation, or of several, in and out in slices, from the first byte to the last.
pub(crate) trait Transfer: Debug + Send + Sync {
    /// Bytes that were copied in, from the first on. It never becomes less.
    fn arrived(&self) -> usize;

    /// Why no more arrives.
    fn failure(&self) -> Option<Error>;

    /// The results of these bytes are there, and stay as they are. Said once of each byte.
    fn finish(&self, bytes: Range<usize>);

    /// The memory is that of so many more operations.
    fn divide(&self, more: usize);

    /// Every rank has submitted one of the operations. Nothing is copied out before that is known of all.
    fn verify(&self);
}

/// The transfer of an operation's memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryTransfer {
    transfer: Arc<dyn Transfer>,
    /// The memory's first byte in what is transferred.
    first: usize,
}

impl MemoryTransfer {
    pub(crate) fn new(transfer: Arc<dyn Transfer>) -> Self {
        Self { transfer, first: 0 }
    }

    /// The transfer of what begins so many bytes later.
    pub(crate) fn starting_at(&self, byte: usize) -> Self {
        Self { transfer: Arc::clone(&self.transfer), first: self.first + byte }
    }

    /// As [`Transfer::divide`].
    pub(crate) fn divide(&self, more: usize) {
        self.transfer.divide(more);
    }

    /// Bytes of the memory that hold the input, from the first on; perhaps more than it has.
    pub(crate) fn arrived(&self) -> usize {
        self.transfer.arrived().saturating_sub(self.first)
    }

    /// As [`Transfer::finish`], of bytes of the memory.
    pub(crate) fn finish(&self, bytes: &Range<usize>) {
        self.transfer.finish(self.first + bytes.start..self.first + bytes.end);
    }

    /// As [`Transfer::verify`].
    pub(crate) fn verify(&self) {
        self.transfer.verify();
    }

    /// Blocks until the first `bytes` bytes of the memory hold the input.
    ///
    /// # Errors
    ///
    /// Why they never will.
    pub(crate) fn wait(&self, bytes: usize) -> Result<(), Error> {
        while self.arrived() < bytes {
            if let Some(failure) = self.transfer.failure() {
                return Err(failure);
            }
            std::thread::sleep(INPUT_POLL_INTERVAL);
        }
        Ok(())
    }
}
