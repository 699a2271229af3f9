//! What is packed, unpacked and left out, chunk by chunk.

use netfold_proto::{Codec, CodedChunk, Contributors, Descriptor, Importance, OpId, OpSpec, Sharing};
use netfold_wire::{Collective, DType, LaneOp, Mode};

use super::Tensors;
use crate::buffer::OpBuffer;
use crate::coding::Coding;
use crate::lower::Lowered;
use crate::operation::Operation;
use crate::quantize::{EXPONENT_NON_FINITE, Lanes, Quantizer, Rounding};
use crate::slot_positions::{Reconciliation, SlotPositions};

const LANE_BYTES: usize = 64;
const WORLD: u16 = 4;
/// This rank's contribution is the only one in a result.
const ALONE: Contributors = Contributors { count: 1, own: true };

/// A chunk of the first operation.
fn coded(chunk: u32, exp: u8) -> CodedChunk {
    CodedChunk { op: OpId(0), chunk, exp, full_headroom: false }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 37 % 101) as f32 - 50.0) * 0.017 + 0.001).collect()
}

/// A tensor and its residual in the codec's hands, in an operation of this mode.
struct Fed {
    tensors: Tensors,
    tensor: Vec<f32>,
    residual: Vec<f32>,
    class: u8,
}

impl Fed {
    fn new(mode: Mode, rounding: Rounding, len: usize) -> Self {
        let mut fed = Self {
            tensors: Tensors::new(WORLD, LANE_BYTES),
            tensor: numbers(len),
            residual: vec![0.0; len],
            class: 0,
        };
        fed.push(OpId(0), mode, rounding);
        fed
    }

    #[expect(unsafe_code, reason = "lends the vectors of a test to a codec that is dropped before them")]
    fn push(&mut self, op: OpId, mode: Mode, rounding: Rounding) {
        let coding = Coding::of(mode).rounded(rounding, 2);
        let data_chunks = self.tensor.len().div_ceil(coding.chunk_elements(4, LANE_BYTES)) as u32;
        let descriptor = Descriptor {
            collective: Collective::AllReduce,
            dtype: DType::F32,
            mode,
            elements: self.tensor.len() as u64,
            ..Descriptor::BARRIER
        };
        let class = self.class;
        let spec = OpSpec {
            descriptor,
            data_chunks,
            exponents: true,
            class,
            importance: Importance::NONE,
            lane_op: LaneOp::Sum,
            sharing: Sharing::All,
        };
        let memory = (self.tensor.as_mut_ptr().cast::<u8>(), self.tensor.len());
        // SAFETY: the vectors keep their memory while the codec lives, and are read only after the codec has written.
        let buffer = unsafe {
            let mut buffer = OpBuffer::promised(DType::F32, memory, None);
            buffer.keep_residual(self.residual.as_mut_ptr(), self.residual.len());
            buffer
        };
        let operation = Operation::new(Lowered { spec, coding }, buffer);
        self.tensors.push(op, (1000 * op.0, 1000 * op.0 + 1), operation);
    }

    fn packed(&mut self, op: u64, chunk: u32, exp: u8, full_headroom: bool) -> Vec<u8> {
        let mut lanes = vec![0xa5; LANE_BYTES];
        self.tensors.pack(CodedChunk { op: OpId(op), chunk, exp, full_headroom }, &mut lanes);
        lanes
    }
}

/// The result of the lanes of one contribution.
fn delivered(quantizer: &Quantizer, lanes: &[u8], exp: u8, len: usize) -> Vec<f32> {
    let mut block = vec![0.0; len];
    quantizer.unpack(lanes, exp, 1, &mut block);
    block
}

const CHANCE: Rounding = Rounding::Stochastic { seed: 17 };

#[test]
fn what_a_chunk_leaves_out_is_kept_when_its_result_comes() {
    for (mode, lanes) in [(Mode::Bfp32, Lanes::Bfp32), (Mode::Bfp16, Lanes::Bfp16)] {
        for rounding in [Rounding::Nearest, CHANCE] {
            let block = LANE_BYTES / lanes.element_bytes();
            let len = 2 * block + 5;
            let mut fed = Fed::new(mode, rounding, len);
            let given = fed.tensor.clone();
            let quantizer = Quantizer::new(lanes, WORLD);
            for chunk in [2u32, 0, 1] {
                let exp = fed.tensors.exponent(OpId(0), chunk) + 3; // another rank has larger numbers
                let share = fed.packed(0, chunk, exp, false);
                assert_eq!(fed.packed(0, chunk, exp, false), share, "a resend is the same");
                let part = chunk as usize * block..len.min((chunk as usize + 1) * block);
                let sent = delivered(&quantizer, &share, exp, part.len());
                fed.tensors.unpack(coded(chunk, exp), ALONE, &share);
                assert_eq!(fed.tensor[part.clone()], sent);
                for at in part.clone() {
                    assert_eq!(
                        sent[at - part.start] + fed.residual[at],
                        given[at],
                        "{mode} {rounding:?} {at}"
                    );
                }
                if mode == Mode::Bfp16 {
                    assert!(fed.residual[part].iter().any(|left| *left != 0.0));
                }
            }
        }
    }
}

#[test]
fn a_chunk_that_is_packed_again_leaves_out_what_the_second_packing_did() {
    let exp = 150;
    for rounding in [Rounding::Nearest, CHANCE] {
        let mut fed = Fed::new(Mode::Saturating, rounding, 16);
        let given = fed.tensor.clone();
        let quantizer = Quantizer::new(Lanes::Saturating, WORLD);
        let first = fed.packed(0, 0, exp, false);
        let second = fed.packed(0, 0, exp, true);
        assert_ne!(first, second);
        let sent = delivered(&quantizer.full_headroom(), &second, exp, 16);
        fed.tensors.unpack(CodedChunk { full_headroom: true, ..coded(0, exp) }, ALONE, &second);
        for (at, given) in given.iter().enumerate() {
            assert_eq!(sent[at] + fed.residual[at], *given);
        }
        assert!(fed.residual.iter().any(|left| *left != 0.0), "numbers much smaller than the block's");
    }
}

/// A result that another rank passes on holds this rank's share all the same, as it was packed last.
#[test]
fn a_result_that_another_rank_passes_on_leaves_the_same() {
    for again in [false, true] {
        let exp = 150;
        let mut fed = Fed::new(Mode::Saturating, CHANCE, 40);
        let given = fed.tensor.clone();
        fed.packed(0, 1, exp, false);
        if again {
            fed.packed(0, 1, exp, true);
        }
        let memory = fed.tensors.memory_at(2).expect("the second data chunk");
        assert_eq!(memory.len(), 64);
        memory.fill(0);
        let mut quantizer = Quantizer::new(Lanes::Saturating, WORLD)
            .stochastic(crate::quantize::RoundingRng::new(17, 2).operation(0));
        if again {
            quantizer = quantizer.full_headroom();
        }
        let mut left = [0.0; 16];
        quantizer.residual(1, &given[16..32], exp, &mut left);
        assert_eq!(fed.residual[16..32], left);
        assert!(left.iter().any(|left| *left != 0.0));
        assert_eq!((&fed.residual[..16], &fed.residual[32..]), (&[0.0; 16][..], &[0.0; 8][..]));
        // One that was never packed here has none of it.
        fed.tensors.memory_at(1).expect("the first data chunk");
        assert_eq!(fed.residual[..16], [0.0; 16]);
    }
}

#[test]
fn blocks_that_are_not_finite_leave_nothing() {
    let mut fed = Fed::new(Mode::Bfp16, Rounding::Nearest, 32);
    fed.residual.fill(5.0);
    let share = fed.packed(0, 0, EXPONENT_NON_FINITE, false);
    fed.tensors.unpack(coded(0, EXPONENT_NON_FINITE), ALONE, &share);
    assert_eq!(fed.residual, [0.0; 32]);
    assert!(fed.tensor.iter().all(|value| value.is_nan()));
}

#[test]
fn operations_and_classes_draw_for_themselves() {
    let mut fed = Fed::new(Mode::Bfp16, CHANCE, 32);
    fed.push(OpId(1), Mode::Bfp16, CHANCE);
    let mut other = Fed::new(Mode::Bfp16, CHANCE, 32);
    (other.tensors, other.class) = (Tensors::new(WORLD, LANE_BYTES), 3);
    other.push(OpId(0), Mode::Bfp16, CHANCE);
    let exp = fed.tensors.exponent(OpId(0), 0);
    assert_ne!(fed.packed(0, 0, exp, false), fed.packed(1, 0, exp, false));
    assert_ne!(fed.packed(0, 0, exp, false), other.packed(0, 0, exp, false));
    let mut nearest = Fed::new(Mode::Bfp16, Rounding::Nearest, 32);
    assert_ne!(nearest.packed(0, 0, exp, false), fed.packed(0, 0, exp, false));
}

/// Slots move on by themselves: a chunk may be done whose operation's descriptor was lost on the way.
#[test]
fn an_operation_has_begun_when_any_of_its_chunks_is_done() {
    let mut fed = Fed::new(Mode::Bfp32, Rounding::Nearest, 40);
    fed.push(OpId(1), Mode::Bfp32, Rounding::Nearest);
    let begun = |done: &[u64]| {
        // Eight slots, all at the second operation's positions or behind; those that are done are eight further.
        let at = |slot: u64| 1000 + slot;
        let positions = (0..8).map(|slot| if done.contains(&at(slot)) { at(slot) + 8 } else { at(slot) });
        let one = SlotPositions::new(positions);
        fed.tensors.begun(&Reconciliation::of(vec![one.clone(), one], 0).expect("one job"))
    };
    assert_eq!(begun(&[]), 1, "the first alone");
    assert_eq!(begun(&[1000]), 2);
    for data in 1001..=1003 {
        assert_eq!(begun(&[data]), 2, "chunk at {data}");
    }
    assert_eq!(begun(&[1004]), 1, "behind its end");
}
