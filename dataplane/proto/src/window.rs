//! How much may be in flight. The seam for congestion control: it sees every result and loss and says when to hold
//! back.

/// A fixed window: all slots of the job. A worker never has more than one chunk a slot outstanding, so this never holds
/// back; the switch's buffering of one chunk a slot is what bounds the load.
#[derive(Debug)]
pub(crate) struct FixedWindow {
    limit: u32,
}

impl FixedWindow {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit }
    }

    /// Whether a new chunk may be sent while `flying` chunks are neither answered nor known lost.
    pub(crate) fn allows(&self, flying: u32) -> bool {
        flying < self.limit
    }
}
