//! The tensors of one call.

/// The tensors of a call, as bytes in native order and of any alignment: one that is read and overwritten, or two.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// Input and output are the same memory. As in NCCL, an all-gather's input is part `rank` of the output, and a reduce-scatter's
    /// output is part `rank` of the input, whose other parts are left alone.
    InPlace(&'a mut [u8]),
    /// Two buffers.
    Split {
        /// What this rank contributes. Of a broadcast, only the root's is read.
        input: &'a [u8],
        /// Where this rank's result goes. Of a reduce, only the root's is written.
        output: &'a mut [u8],
    },
}

impl Buffers<'_> {
    /// Whether there is one buffer.
    pub fn is_in_place(&self) -> bool {
        matches!(self, Self::InPlace(_))
    }
}

impl<'a> From<&'a mut [u8]> for Buffers<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self::InPlace(bytes)
    }
}

impl<'a> From<(&'a [u8], &'a mut [u8])> for Buffers<'a> {
    fn from((input, output): (&'a [u8], &'a mut [u8])) -> Self {
        Self::Split { input, output }
    }
}
