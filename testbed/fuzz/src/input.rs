//! Fuzz input as a stream of decisions.

/// Bytes that are used up one after the other; zeros follow the end.
pub struct Input<'d> {
    rest: &'d [u8],
}

impl<'d> Input<'d> {
    /// All of the data.
    pub fn new(data: &'d [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether every byte was used.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number below `bound`, which is above 0 and at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Four bytes as a number.
    pub fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Up to `len` bytes as they are.
    pub fn bytes(&mut self, len: usize) -> &'d [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Fewer than `bound` bytes as they are; `bound` as for [`Self::below`].
    pub fn some(&mut self, bound: usize) -> &'d [u8] {
        let len = self.below(bound);
        self.bytes(len)
    }

    /// Overwrites up to three bytes of `target` at places of the input's choice.
    pub fn disturb(&mut self, target: &mut [u8]) {
        for _ in 0..self.below(4) {
            let at = self.below(256);
            if let Some(byte) = target.get_mut(at) {
                *byte = self.byte();
            }
        }
    }
}
