//! Bursts of packets: what a backend fills and what it sends.

use crate::IoError;

/// One peer of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

/// One received datagram; its bytes lie in the batch's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The port that it was received from.
    pub port: PortId,
    /// Where its bytes begin in the batch's memory.
    pub offset: u32,
    /// Its length in bytes; may be 0.
    pub len: u32,
    /// The two ECN bits of the IP header, in bits 0 and 1 (RFC 3168); 0 where the backend has no IP header.
    pub ecn: u8,
}

impl Received {
    /// The datagram as a packet to send from the same memory to `port`.
    #[must_use]
    pub const fn to(self, port: PortId) -> Transmit {
        Transmit { port, offset: self.offset, len: self.len }
    }
}

/// One datagram to send; its bytes lie in the memory that is passed with it. Several may share their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The port that it is sent to.
    pub port: PortId,
    /// Where its bytes begin in the memory.
    pub offset: u32,
    /// Its length in bytes; may be 0.
    pub len: u32,
}

impl Transmit {
    /// The datagram's bytes in `memory`, or `None` when it lies outside.
    #[must_use]
    pub fn bytes(self, memory: &[u8]) -> Option<&[u8]> {
        memory.get(self.offset as usize..)?.get(..self.len as usize)
    }
}

/// Checks a burst before any of it is sent; backends call it first, so that an error means that nothing was taken.
///
/// # Errors
///
/// [`IoError::Range`] for the first packet outside `memory`, [`IoError::Oversize`] for the first longer than
/// `datagram_len_max`.
pub fn check_transmit(memory: &[u8], packets: &[Transmit], datagram_len_max: usize) -> Result<(), IoError> {
    for packet in packets {
        let (offset, len) = (packet.offset as usize, packet.len as usize);
        if len > datagram_len_max {
            return Err(IoError::Oversize { port: packet.port, len, max: datagram_len_max });
        }
        if offset > memory.len() || len > memory.len() - offset {
            return Err(IoError::Range { offset, len, memory: memory.len() });
        }
    }
    Ok(())
}

/// A datagram within what a link received: where it begins there, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) port: PortId,
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) ecn: u8,
}

/// A burst of received datagrams in one area of memory. The caller owns it and lends it to a backend.
///
/// Bounded in datagrams and in bytes by the arguments of [`RxBatch::new`], and never allocates after it.
#[derive(Debug)]
pub struct RxBatch {
    packets: Vec<Received>,
    packets_max: usize,
    memory: Vec<u8>,
    used: usize,
}

impl RxBatch {
    /// A batch of at most `packets_max` datagrams (at least 1) in `bytes` bytes of memory (at most 4 GiB - 1).
    #[must_use]
    pub fn new(packets_max: usize, bytes: usize) -> Self {
        let packets_max = packets_max.max(1);
        Self {
            packets: Vec::with_capacity(packets_max),
            packets_max,
            memory: vec![0; bytes.min(u32::MAX as usize)],
            used: 0,
        }
    }

    /// Forgets all datagrams. The bytes stay as they are.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.used = 0;
    }

    /// The datagrams, in order of arrival per port.
    #[must_use]
    pub fn packets(&self) -> &[Received] {
        &self.packets
    }

    /// Number of datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The bytes of a datagram of this batch.
    ///
    /// # Panics
    ///
    /// When `packet` is none of this batch and lies outside its memory.
    #[must_use]
    pub fn bytes(&self, packet: &Received) -> &[u8] {
        &self.memory[packet.offset as usize..][..packet.len as usize]
    }

    /// The bytes of a datagram of this batch, to rewrite in place.
    ///
    /// # Panics
    ///
    /// When `packet` is none of this batch and lies outside its memory.
    #[must_use]
    pub fn bytes_mut(&mut self, packet: &Received) -> &mut [u8] {
        &mut self.memory[packet.offset as usize..][..packet.len as usize]
    }

    /// The whole memory, as [`PacketIo::transmit`](crate::PacketIo::transmit) wants it to send datagrams on.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// The whole memory, writable.
    #[must_use]
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// The datagrams and the memory at once, to rewrite datagrams while going through them.
    #[must_use]
    pub fn split(&mut self) -> (&[Received], &mut [u8]) {
        (&self.packets, &mut self.memory)
    }
}

/// For backends: appending datagrams.
impl RxBatch {
    /// How many more datagrams fit.
    #[must_use]
    pub fn packets_left(&self) -> usize {
        self.packets_max - self.packets.len()
    }

    /// How many more bytes fit.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.memory.len() - self.used
    }

    /// The next `len` bytes of free memory, for a datagram of up to that length, or `None` when the batch is full.
    /// The bytes are stale, not zero. [`commit`](Self::commit) makes (the front of) them a datagram.
    #[must_use]
    pub fn spare(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.packets_left() == 0 || self.bytes_left() < len {
            return None;
        }
        Some(&mut self.memory[self.used..][..len])
    }

    /// All free memory, for backends that place several datagrams before they commit any.
    #[must_use]
    pub fn free_memory(&mut self) -> &mut [u8] {
        &mut self.memory[self.used..]
    }

    /// Makes the first `len` bytes of the free memory a datagram.
    ///
    /// # Panics
    ///
    /// When the batch is full, that is, when [`spare(len)`](Self::spare) would return `None`.
    pub fn commit(&mut self, port: PortId, len: usize, ecn: u8) {
        self.commit_at(0, port, len, ecn);
    }

    /// Makes `len` bytes a datagram that begin `gap` bytes into the free memory; the gap is lost until the batch is
    /// cleared.
    ///
    /// # Panics
    ///
    /// When the batch is full or the datagram lies outside its memory.
    pub fn commit_at(&mut self, gap: usize, port: PortId, len: usize, ecn: u8) {
        assert!(self.packets_left() > 0, "no datagram fits any more; ask packets_left() first");
        assert!(
            gap <= self.bytes_left() && len <= self.bytes_left() - gap,
            "datagram lies outside the batch"
        );
        let offset = self.used + gap;
        self.packets.push(Received { port, offset: offset as u32, len: len as u32, ecn });
        self.used = offset + len;
    }

    /// Copies a datagram to the end of the batch; `false` when it is full.
    #[must_use]
    pub fn push(&mut self, port: PortId, datagram: &[u8], ecn: u8) -> bool {
        let Some(spare) = self.spare(datagram.len()) else { return false };
        spare.copy_from_slice(datagram);
        self.commit(port, datagram.len(), ecn);
        true
    }

    /// Goes through what the batch holds and replaces each by the part of it that `judge` names, or removes it. Nothing is
    /// moved. For backends that receive more than the datagram.
    ///
    /// # Panics
    ///
    /// When a part lies outside its whole.
    pub(crate) fn narrow(&mut self, mut judge: impl FnMut(Received, &[u8]) -> Option<Part>) {
        let memory = &self.memory;
        self.packets.retain_mut(|packet| {
            let whole = &memory[packet.offset as usize..][..packet.len as usize];
            let Some(part) = judge(*packet, whole) else { return false };
            assert!(
                part.start <= packet.len && part.len <= packet.len - part.start,
                "the part lies outside its whole"
            );
            let offset = packet.offset + part.start;
            *packet = Received { port: part.port, offset, len: part.len, ecn: part.ecn };
            true
        });
    }

    /// Removes the datagrams for which `keep` returns `false`; `keep` may rewrite them. Their memory is not reused
    /// before the batch is cleared. For middleware.
    pub fn retain(&mut self, mut keep: impl FnMut(Received, &mut [u8]) -> bool) {
        let memory = &mut self.memory;
        self.packets
            .retain(|packet| keep(*packet, &mut memory[packet.offset as usize..][..packet.len as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_in_packets_and_bytes() {
        let mut batch = RxBatch::new(3, 10);
        assert!(batch.push(PortId(1), b"abcd", 2));
        assert!(!batch.push(PortId(1), b"1234567", 0), "7 bytes do not fit into 6");
        assert!(batch.push(PortId(2), b"", 0));
        assert!(batch.push(PortId(3), b"123456", 0));
        assert!(batch.spare(0).is_none(), "3 packets are all");
        let ports: Vec<u16> = batch.packets().iter().map(|packet| packet.port.0).collect();
        assert_eq!(ports, [1, 2, 3]);
        assert_eq!(batch.bytes(&batch.packets()[2]), b"123456");
        assert_eq!(batch.packets()[0].ecn, 2);
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!((batch.packets_left(), batch.bytes_left()), (3, 10));
    }

    #[test]
    fn segments_of_one_super_buffer() {
        let mut batch = RxBatch::new(4, 10);
        batch.free_memory()[..7].copy_from_slice(b"aabbccd");
        for (at, len) in [(0, 2), (2, 2), (4, 2), (6, 1)] {
            let _ = at;
            batch.commit(PortId(0), len, 1);
        }
        let parts: Vec<&[u8]> = batch.packets().iter().map(|packet| batch.bytes(packet)).collect();
        assert_eq!(parts, [&b"aa"[..], b"bb", b"cc", b"d"]);
        let mut odd = false;
        batch.retain(|_, bytes| {
            bytes[0] = b'x';
            odd = !odd;
            odd
        });
        let parts: Vec<&[u8]> = batch.packets().iter().map(|packet| batch.bytes(packet)).collect();
        assert_eq!(parts, [b"xa", b"xc"]);
    }

    #[test]
    #[should_panic(expected = "outside the batch")]
    fn commit_beyond_the_memory_panics() {
        RxBatch::new(1, 4).commit(PortId(0), 5, 0);
    }

    #[test]
    fn bursts_are_checked_before_sending() {
        let memory = [0; 8];
        let packet = |offset, len| Transmit { port: PortId(7), offset, len };
        assert!(check_transmit(&memory, &[packet(0, 8), packet(8, 0)], 8).is_ok());
        let range = check_transmit(&memory, &[packet(4, 5)], 8);
        assert!(matches!(range, Err(IoError::Range { offset: 4, len: 5, memory: 8 })), "{range:?}");
        let range = check_transmit(&memory, &[packet(u32::MAX, 1)], 8);
        assert!(matches!(range, Err(IoError::Range { .. })), "{range:?}");
        let oversize = check_transmit(&memory, &[packet(0, 4)], 3);
        assert!(
            matches!(oversize, Err(IoError::Oversize { port: PortId(7), len: 4, max: 3 })),
            "{oversize:?}"
        );
    }
}
