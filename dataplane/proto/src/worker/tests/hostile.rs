//! Packets that no honest switch sends: nothing may change, nothing may panic.

use proptest::prelude::*;

use super::rig::{LANE_WORDS, Switch, Tensors, blocks, integers};
use super::*;

/// A worker of rank 0 in a world of 2 in mid-operation, the results it waits for, and some it has already taken.
struct Scene {
    worker: Worker,
    tensors: Tensors,
    waiting: Vec<Vec<u8>>,
    taken: Vec<Vec<u8>>,
}

/// First chunk of the scene's stream.
const FIRST: u32 = u32::MAX - 5;

/// Positions of the descriptors of its operations: one of 4 + 9 positions with exponents, one of 1 + 9 without, and a barrier.
const DESCRIPTORS: [u32; 3] = [0, 13, 23];

fn scene(rounds: u32) -> Scene {
    let mut workers: Vec<_> =
        (0..2).map(|rank| Worker::new(rig::config(4, FIRST, rank, 2)).unwrap()).collect();
    let mut tensors: Vec<_> = (0..2).map(|rank| Tensors::new(rank, 2)).collect();
    for worker in &mut workers {
        worker.submit(blocks(9)).unwrap();
        worker.submit(integers(9)).unwrap();
        worker.submit(OpSpec::BARRIER).unwrap();
    }
    let mut switch = Switch::default();
    let mut taken = Vec::new();
    for round in 0.. {
        let mut waiting = Vec::new();
        let mut buffer = [0; header::LEN + 4 * LANE_WORDS];
        for rank in 0..2 {
            while let Some(len) = workers[rank].poll_transmit(Instant::ZERO, &mut buffer, &mut tensors[rank])
            {
                let answer = switch.process(2, rank as u16, &buffer[..len]);
                waiting.extend(answer.map(|(_, bytes)| bytes));
            }
        }
        if round == rounds {
            return Scene { worker: workers.remove(0), tensors: tensors.remove(0), waiting, taken };
        }
        for bytes in &waiting {
            for (worker, tensors) in workers.iter_mut().zip(&mut tensors) {
                assert_eq!(worker.handle_packet(Instant::ZERO, bytes, tensors), Handled::Result);
            }
        }
        taken.append(&mut waiting);
    }
    unreachable!()
}

impl Scene {
    /// Hands the bytes over and asserts that only a counter changed.
    fn ignored(&mut self, bytes: &[u8]) -> Result<Ignored, TestCaseError> {
        let before = (self.worker.stats().results, self.worker.outstanding(), self.worker.next_deadline());
        let done = self.tensors.done.len();
        let count = self.worker.stats().ignored_total();
        let handled = self.worker.handle_packet(Instant::ZERO, bytes, &mut self.tensors);
        let Handled::Ignored(cause) = handled else {
            return Err(TestCaseError::fail(format!("{handled:?} for {bytes:02x?}")));
        };
        let after = (self.worker.stats().results, self.worker.outstanding(), self.worker.next_deadline());
        prop_assert_eq!(before, after);
        prop_assert_eq!(done, self.tensors.done.len());
        prop_assert_eq!(self.worker.stats().ignored_total(), count + 1);
        Ok(cause)
    }

    /// Asserts that it continues undisturbed.
    fn continues(mut self) -> Result<(), TestCaseError> {
        for bytes in &self.waiting {
            let handled = self.worker.handle_packet(Instant::ZERO, bytes, &mut self.tensors);
            prop_assert_eq!(handled, Handled::Result);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn any_bytes_are_ignored(
        rounds in 0u32..6,
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..20),
    ) {
        let mut scene = scene(rounds);
        for bytes in &packets {
            scene.ignored(bytes)?;
        }
        scene.continues()?;
    }

    #[test]
    fn results_with_any_header_bit_wrong_are_ignored(
        rounds in 0u32..6, which: prop::sample::Index, bits in proptest::collection::btree_set(0usize..header::LEN * 8, 1..4),
    ) {
        let mut scene = scene(rounds);
        let original = scene.waiting[which.index(scene.waiting.len())].clone();
        let mut bytes = original.clone();
        for bit in &bits {
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
        let repr = |bytes: &[u8]| Repr::parse(&Packet::new_checked(bytes).unwrap());
        let (was, is) = (repr(&original).unwrap(), repr(&bytes));
        // Three fields are the network's and the switch's to change: flags on the way, class, a larger exponent. A rank that submitted another
        // operation may propose an exponent beside its descriptor.
        let descriptor = DESCRIPTORS.contains(&was.chunk.wrapping_sub(FIRST));
        let passing = Flags::RESEND.with(Flags::CONGESTION).with(Flags::DROPPABLE).with(Flags::SATURATED);
        let harmless = is.is_ok_and(|is| {
            let masked = Repr { flags: is.flags.without(passing), class: was.class, exp_next: was.exp_next, ..is };
            masked == was && (is.exp_next == was.exp_next || was.exp_next != 0 || descriptor)
        });
        // One bit pattern turns a RESULT into the STALE or REJECT of the same chunk, which is a valid reply too.
        let answer = is.is_ok_and(|is| matches!(is.kind, Kind::Stale | Kind::Reject));
        // Bits of slot and chunk that are wrong together can name another chunk under way. Where that header is right in every field that is
        // not the network's to change, only the UDP checksum, which the transport verifies, shows that the lanes belong to another chunk.
        let fixed = |of: Repr| Repr { flags: of.flags.without(passing), class: 0, exp_next: 0, ..of };
        let another = is.is_ok_and(|is| {
            let others = scene.waiting.iter().filter_map(|other| repr(other).ok());
            fixed(is) != fixed(was) && others.map(fixed).any(|other| other == fixed(is))
        });
        prop_assume!(!harmless && !answer && !another);
        scene.ignored(&bytes)?;
        scene.continues()?;
    }

    #[test]
    fn results_of_another_length_are_ignored(rounds in 0u32..6, which: prop::sample::Index, len in 0usize..400) {
        let mut scene = scene(rounds);
        let mut bytes = scene.waiting[which.index(scene.waiting.len())].clone();
        prop_assume!(len != bytes.len());
        bytes.resize(len, 0);
        scene.ignored(&bytes)?;
        scene.continues()?;
    }

    #[test]
    fn results_of_finished_chunks_are_ignored(rounds in 1u32..6, which: prop::sample::Index) {
        let mut scene = scene(rounds);
        let bytes = scene.taken[which.index(scene.taken.len())].clone();
        prop_assert_eq!(scene.ignored(&bytes)?, Ignored::Late);
        scene.continues()?;
    }
}

#[test]
fn causes_are_distinguished() {
    let cause = |edit: fn(&mut Repr)| {
        let mut scene = scene(0);
        let mut bytes = scene.waiting[0].clone();
        let mut repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
        edit(&mut repr);
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        scene.ignored(&bytes).unwrap()
    };
    assert_eq!(cause(|repr| repr.kind = Kind::Data), Ignored::Kind);
    assert_eq!(cause(|repr| repr.job ^= 1), Ignored::Job);
    assert_eq!(cause(|repr| repr.epoch ^= 1), Ignored::Epoch);
    assert_eq!(cause(|repr| repr.key ^= 1), Ignored::Key);
    assert_eq!(cause(|repr| repr.slot ^= 1), Ignored::Slot);
    assert_eq!(cause(|repr| repr.set ^= 1), Ignored::Slot);
    assert_eq!(cause(|repr| repr.chunk = repr.chunk.wrapping_add(8)), Ignored::Unsent);
    assert_eq!(cause(|repr| repr.chunk = repr.chunk.wrapping_sub(8)), Ignored::Late);
    assert_eq!(cause(|repr| repr.bitmap = 1), Ignored::Incomplete);
    assert_eq!(cause(|repr| repr.count = 1), Ignored::Incomplete);
    assert_eq!(cause(|repr| repr.flags = Flags::PARTIAL), Ignored::Incomplete);
    assert_eq!(cause(|repr| repr.op = LaneOp::Max), Ignored::Shape);
    assert_eq!(cause(|repr| repr.exp = 1), Ignored::Shape);
    assert_eq!(cause(|repr| repr.exp_next = 0), Ignored::Shape);
    assert_eq!(cause(|repr| repr.flags = Flags::BARE), Ignored::Shape);
}

#[test]
fn packets_after_the_end_are_ignored() {
    let mut scene = scene(1);
    scene.worker.abort(AbortReason::Closed);
    let bytes = scene.waiting[0].clone();
    let handled = scene.worker.handle_packet(Instant::ZERO, &bytes, &mut scene.tensors);
    assert_eq!(handled, Handled::Ignored(Ignored::Closed));
}
