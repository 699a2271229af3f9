//! Exact reductions: what ranks send, folded as a switch does, against the hosts' reduction of the same tensors, bit for bit.

use netfold_collectives::reduce::{reduce, supports};
use netfold_wire::{DType, LaneOp, ReduceOp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{ElementCoding, Kernel};
use crate::coding::{Coding, exact};
use crate::tensors::in_binary32;
use crate::{bf16, f16};

/// Bytes of lanes: not a multiple of what a vector holds.
const LANE_BYTES: usize = 356;

/// Every type and operation that a switch of words does exactly.
fn reductions() -> impl Iterator<Item = (DType, ReduceOp)> {
    let all = DType::ALL.iter().flat_map(|dtype| ReduceOp::ALL.iter().map(move |op| (*dtype, *op)));
    all.filter(|(dtype, op)| exact(*dtype, *op, 2).is_some())
}

fn pack(kernel: Kernel, coding: Coding, dtype: DType, elements: &[u8], lanes: &mut [u8]) {
    match (coding, dtype.size()) {
        (Coding::Elements(coding), _) => kernel.pack_elements(coding, elements, lanes),
        // As the buffers of `i32` and `u32` tensors are viewed.
        (Coding::Words, 4) => {
            let words: Vec<i32> =
                elements.as_chunks::<4>().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect();
            kernel.pack_words(&words, lanes);
        }
        _ => kernel.pack_words(elements, lanes),
    }
}

fn unpack(kernel: Kernel, coding: Coding, dtype: DType, lanes: &[u8], elements: &mut [u8]) {
    match (coding, dtype.size()) {
        (Coding::Elements(coding), _) => kernel.unpack_elements(coding, lanes, elements),
        (Coding::Words, 4) => {
            let mut words = vec![0_i32; elements.len() / 4];
            kernel.unpack_words(lanes, &mut words);
            elements.copy_from_slice(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
        }
        _ => kernel.unpack_words(lanes, elements),
    }
}

/// What a switch of plain words makes of the ranks' lanes.
fn folded(op: LaneOp, contributions: &[Vec<u8>]) -> Vec<u8> {
    let words = |lanes: &Vec<u8>| -> Vec<u32> {
        lanes.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect()
    };
    let fold = |all: Vec<u32>, one: Vec<u32>| all.iter().zip(one).map(|(a, b)| op.fold(*a, b)).collect();
    let all = contributions.iter().map(words).reduce(fold).unwrap();
    all.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// What hosts make of the same tensors: 16-bit floating-point numbers are reduced in binary32.
fn by_hosts(dtype: DType, op: ReduceOp, tensors: &[Vec<u8>]) -> Vec<u8> {
    let (mut all, rest) = (tensors[0].clone(), &tensors[1..]);
    for tensor in rest {
        let (mut other, mut done) = (tensor.clone(), Ok(()));
        let mut fold = |wide: &mut [u8], other: &[u8]| {
            done = reduce(op, DType::F32, wide, other);
            Ok(())
        };
        match dtype {
            DType::F16 => {
                in_binary32::<f16>(&mut all, |all| in_binary32::<f16>(&mut other, |other| fold(all, other)))
            }
            DType::Bf16 => {
                in_binary32::<bf16>(&mut all, |all| in_binary32::<bf16>(&mut other, |other| fold(all, other)))
            }
            dtype => {
                done = reduce(op, dtype, &mut all, &other);
                Ok(())
            }
        }
        .unwrap();
        done.unwrap();
    }
    all
}

/// A tensor of any bits, with many zeros of both signs, infinities, NaN, and ends of ranges among them.
fn tensor(rng: &mut Xoshiro256PlusPlus, dtype: DType, elements: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..elements * dtype.size()).map(|_| rng.random()).collect();
    let special: &[u64] = match dtype {
        DType::F32 => &[0, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0xff80_0001, 1, 0x8000_0001],
        DType::F16 => &[0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0xfc01, 1, 0x8001],
        DType::Bf16 => &[0, 0x8000, 0x7f80, 0xff80, 0x7fc1, 0xff81, 1, 0x8001],
        _ => &[0, u64::MAX, 0x7f, 0x80, 0x7fff, 0x8000, 0x7fff_ffff, 0x8000_0000, u64::MAX >> 1, 1 << 63],
    };
    for element in bytes.chunks_exact_mut(dtype.size()) {
        if rng.random_bool(0.3) {
            let bits = special[rng.random_range(0..special.len())].to_le_bytes();
            element.copy_from_slice(&bits[..element.len()]);
            if cfg!(target_endian = "big") {
                element.reverse();
            }
        }
    }
    bytes
}

#[test]
fn a_switch_gives_the_bits_that_hosts_give() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(31);
    for (dtype, op) in reductions() {
        assert!(supports(op, dtype), "hosts do what a switch does");
        for world in [2_u16, 3, 4, 7, 8, 16, 31, 32] {
            let (lane_op, coding) = exact(dtype, op, world).unwrap();
            let most = coding.chunk_elements(dtype.size(), LANE_BYTES);
            for elements in [0, 1, most / 2, most] {
                let tensors: Vec<_> = (0..world).map(|_| tensor(&mut rng, dtype, elements)).collect();
                let send = |kernel, tensor: &Vec<u8>| {
                    let mut lanes = vec![0xa5; LANE_BYTES];
                    pack(kernel, coding, dtype, tensor, &mut lanes);
                    lanes
                };
                let contributions: Vec<_> =
                    tensors.iter().map(|tensor| send(Kernel::detect(), tensor)).collect();
                assert_eq!(contributions[0], send(Kernel::SCALAR, &tensors[0]), "{dtype} {op}");
                let (fold, expected) = (folded(lane_op, &contributions), by_hosts(dtype, op, &tensors));
                for kernel in [Kernel::detect(), Kernel::SCALAR] {
                    let mut result = vec![0x5a; expected.len()];
                    unpack(kernel, coding, dtype, &fold, &mut result);
                    assert_eq!(result, expected, "{dtype} {op} of {elements} by {world} ranks");
                }
            }
        }
    }
}

/// All limbs of all ranks are as large as can be, in the largest worlds.
#[test]
fn limbs_have_room_for_every_carry() {
    for world in [1_u16, 2, 255, 256, 257, 1 << 14, (1 << 14) + 1, 1 << 15] {
        let (lane_op, coding) = exact(DType::U64, ReduceOp::Sum, world).unwrap();
        let Coding::Elements(coding) = coding else { panic!("limbs") };
        let elements = coding.chunk_elements(LANE_BYTES);
        let mut lanes = vec![0; LANE_BYTES];
        Kernel::detect().pack_elements(coding, &vec![0xff; 8 * elements], &mut lanes);
        let words = lanes.as_chunks::<4>().0;
        // The fold of as many times the same word is a multiple of it.
        let fold: Vec<u8> = words
            .iter()
            .flat_map(|word| u32::from_be_bytes(*word).wrapping_mul(world.into()).to_be_bytes())
            .collect();
        let mut sums = vec![0; 8 * elements];
        Kernel::detect().unpack_elements(coding, &fold, &mut sums);
        let expected = u64::MAX.wrapping_mul(world.into());
        assert!(sums.as_chunks::<8>().0.iter().all(|sum| u64::from_ne_bytes(*sum) == expected), "{world}");
        assert_eq!(lane_op, LaneOp::Sum);
    }
}

#[test]
fn limbs_fill_a_packet() {
    let elements = |spread| ElementCoding::Limbs { spread }.chunk_elements(1408);
    let counts = [0, 1, 2, 3, 4, 5, 8, 9, 15].map(elements);
    assert_eq!(counts, [176, 170, 165, 160, 156, 150, 140, 117, 117]);
}
