//! Operations whose slots may be closed without stragglers.

use super::rig;
use super::*;

/// Zeros, whatever the ranks contribute.
struct Zeros;

impl Codec for Zeros {
    fn exponent(&mut self, _: OpId, _: u32) -> u8 {
        100
    }

    fn pack(&mut self, _: CodedChunk, lanes: &mut [u8]) {
        lanes.fill(0);
    }

    fn unpack(&mut self, _: CodedChunk, _: Contributors, _: &[u8]) {}
}

/// Rank 0 of four ranks, and what it has sent whose results are outstanding.
struct Closed {
    worker: Worker,
    sent: Vec<Vec<u8>>,
    first_chunk: Option<u32>,
}

impl Closed {
    fn new(slots: u32) -> Self {
        let mut config = rig::config(slots, 0, 0, 4);
        config.admission.own_bit = 1;
        let mut worker = Worker::new(config).unwrap();
        let mut spec = blocks(100);
        spec.descriptor.tolerance = Tolerance::fraction(1.0).unwrap().with_stragglers();
        worker.submit(spec).unwrap();
        Self { worker, sent: Vec::new(), first_chunk: None }
    }

    /// Sends what may be sent; the positions that are outstanding then, from the stream's start.
    fn outstanding(&mut self) -> Vec<u32> {
        let mut buffer = [0; 288];
        while let Some(len) = self.worker.poll_transmit(Instant::ZERO, &mut buffer, &mut Zeros) {
            self.sent.push(buffer[..len].to_vec());
        }
        let chunks = self.sent.iter().map(|bytes| Packet::new_unchecked(&bytes[..]).chunk());
        let chunks: Vec<u32> = chunks.collect();
        let first = *self.first_chunk.get_or_insert(chunks[0]);
        chunks.into_iter().map(|chunk| chunk - first).collect()
    }

    /// Delivers the result of the first outstanding packet: of all ranks, or closed without the last.
    fn result(&mut self, closed: bool) {
        let mut bytes = self.sent.remove(0);
        let mut repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
        repr.kind = Kind::Result;
        (repr.bitmap, repr.count) = if closed { (0b0111, 3) } else { (0b1111, 4) };
        repr.flags = if closed { repr.flags.with(Flags::PARTIAL) } else { repr.flags };
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        // Where lanes are not zero they are the table of descriptors: all ranks describe the same operation.
        if let Some(lanes) = bytes.get_mut(header::LEN..header::LEN + 32) {
            let row: [u8; 8] = lanes[..8].try_into().unwrap();
            lanes.chunks_exact_mut(8).for_each(|other| other.copy_from_slice(&row));
        }
        let handled = self.worker.handle_packet(Instant::ZERO, &bytes, &mut Zeros);
        assert_eq!(handled, Handled::Result);
    }

    /// Whether the slot of the first outstanding packet may be closed: it has lanes, and they are not descriptors.
    fn is_closable(&self) -> bool {
        let lanes = &self.sent[0][header::LEN..];
        !lanes.is_empty() && lanes.iter().all(|byte| *byte == 0)
    }
}

/// Rule 2: a position that replaces one two windows before it waits for a result of all ranks in between, which alone shows that they have the result
/// that is replaced. Here such a result is on its way.
#[test]
fn a_position_waits_for_a_result_of_all_ranks_within_a_window() {
    const SLOTS: u32 = 8;
    let mut rank = Closed::new(SLOTS);
    rank.outstanding();
    while !rank.is_closable() {
        rank.result(false);
        rank.outstanding();
    }
    let whole = rank.outstanding()[0];
    rank.result(false);
    for closed in whole + 1..whole + SLOTS {
        assert_eq!(rank.outstanding()[0], closed);
        rank.result(true);
    }
    assert_eq!(rank.outstanding(), [whole + SLOTS], "the next one has to wait");
    rank.result(false);
    assert_eq!(rank.outstanding(), [whole + SLOTS + 1, whole + SLOTS + 2], "a quarter of the slots");
}
