//! The stage of an all-reduce beyond this host.

/// A segment of this host's sum, to be replaced by the sum of all hosts. The memory is the leader's own.
#[derive(Debug)]
pub struct Segment {
    bytes: Vec<u8>,
    offset_bytes: usize,
}

impl Segment {
    pub(crate) fn new(bytes: Vec<u8>, offset_bytes: usize) -> Self {
        Self { bytes, offset_bytes }
    }

    /// Where in the tensor this segment begins, in bytes: a multiple of the element's size.
    pub fn offset_bytes(&self) -> usize {
        self.offset_bytes
    }

    /// Length in bytes: whole elements, more than none.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes, to read and to replace, in native byte order, at no particular alignment. They keep their address when the
    /// segment moves.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// What the leader's network does with the segments of one
/// [`hierarchical_all_reduce`](crate::shared::SharedGroup::hierarchical_all_reduce). Called on the leader's thread alone.
///
/// Segments come in order: `start(0)`, `start(1)`, ... and `finish(0)`, `finish(1)`, ... with up to 5 started and not finished.
pub trait Network {
    /// Takes a reduced segment. Should return without waiting for the network.
    ///
    /// # Errors
    ///
    /// Any message; all local ranks then fail with [`SharedError::Network`](crate::shared::SharedError::Network).
    fn start(&mut self, index: usize, segment: Segment) -> Result<(), Vec<u8>>;

    /// Waits until segment `index` holds the global result, and gives it back. Must return in less than the
    /// [stall timeout](crate::shared::SharedConfig::stall_timeout) of the other ranks.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    fn finish(&mut self, index: usize) -> Result<Segment, Vec<u8>>;

    /// The operation has failed, on this rank or another: no segment will be asked for any more.
    fn abandon(&mut self);
}
