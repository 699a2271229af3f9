use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use netfold_proto::OpId;
use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
    29, 30, 31,
];

const CHUNK: CodedChunk = CodedChunk { op: OpId(5), chunk: 9, exp: 130, full_headroom: false };

fn masks(rank: u16, world: u16, lane_bytes: usize) -> Masks {
    Masks::new(&KEY, 2, (rank, world), lane_bytes)
}

fn hex(lanes: &[u8]) -> String {
    let words = lanes.as_chunks::<4>().0.iter().map(|word| format!("{:08x}", u32::from_be_bytes(*word)));
    words.collect::<Vec<_>>().join(" ")
}

/// Masked zeros.
fn mask(masks: &mut Masks, chunk: CodedChunk) -> Vec<u8> {
    let mut lanes = vec![0; masks.plain.len()];
    masks.add(chunk, &mut lanes);
    lanes
}

/// The keystream was computed by `openssl enc -aes-256-ecb -nopad` from the positions in the module's table.
#[test]
fn the_keystream_is_aes_256_of_the_position() {
    let only = mask(&mut masks(0, 1, 36), CHUNK);
    assert_eq!(
        hex(&only),
        "146ec868 703803af 9904e44a 61cf5d1e 3ed4446d 516dfcbc d9845375 1f8b7d69 90c56a08"
    );
    let first = mask(&mut masks(0, 2, 36), CHUNK);
    assert_eq!(
        hex(&first),
        "cb10b715 169d9536 c15437f1 26a98437 1384b5de a4d2140a ed158288 423423a7 21096362"
    );
}

#[test]
fn every_field_of_a_position_selects_another_keystream() {
    let longest = 4 * 16_384;
    let mut seen = HashSet::new();
    let mut insert =
        |masks: &Masks, chunk, j| assert!(seen.insert(masks.position(chunk, j) >> 16), "{chunk:?}");
    for class in [0, 1, 127] {
        let masks = Masks::new(&KEY, class, (0, 1), longest);
        for op in [0, 1, OPS_MAX - 1] {
            for chunk in [0, 1, u32::MAX] {
                for exp in [0, 1, 255] {
                    for full_headroom in [false, true] {
                        for j in [0, 1, u16::MAX] {
                            insert(&masks, CodedChunk { op: OpId(op), chunk, exp, full_headroom }, j);
                        }
                    }
                }
            }
        }
    }
    // Blocks are numbered in the bits below.
    let lanes = mask(&mut masks(0, 1, longest), CHUNK);
    let blocks: HashSet<&[u8; 16]> = lanes.as_chunks().0.iter().collect();
    assert_eq!(blocks.len(), longest / 16);
}

#[test]
#[should_panic(expected = "more operations than one attachment can number")]
fn no_keystream_is_used_for_two_operations() {
    masks(0, 1, 16).position(CodedChunk { op: OpId(OPS_MAX), ..CHUNK }, 0);
}

proptest! {
    /// Whatever ranks contribute: their masked lanes sum up to a masked sum, which each rank can unmask, and by any kernel.
    #[test]
    fn masks_cancel_in_sums_of_any_world(
        world in 1u16..40, lanes in proptest::collection::vec(any::<[u8; 4]>(), 1..80), class in 0u8..16, op in 0..OPS_MAX,
        chunk: u32, exp: u8, key: [u8; 32]
    ) {
        let coded = CodedChunk { op: OpId(op), chunk, exp, full_headroom: false };
        let len = 4 * lanes.len();
        let (mut sum, mut masked_sum) = (vec![0u32; lanes.len()], vec![0u32; lanes.len()]);
        for rank in 0..world {
            let plain = lanes.iter().map(|word| u32::from_be_bytes(*word).rotate_left(rank.into()));
            let plain: Vec<u32> = plain.collect();
            let bytes: Vec<u8> = plain.iter().flat_map(|word| word.to_be_bytes()).collect();
            let masked = [Kernel::SCALAR, Kernel::detect()].map(|kernel| {
                let mut bytes = bytes.clone();
                Masks::new(&key, class, (rank, world), len).with_kernel(kernel).add(coded, &mut bytes);
                bytes
            });
            prop_assert_eq!(&masked[0], &masked[1], "one result of all kernels");
            for (at, word) in masked[0].as_chunks::<4>().0.iter().enumerate() {
                sum[at] = sum[at].wrapping_add(plain[at]);
                masked_sum[at] = masked_sum[at].wrapping_add(u32::from_be_bytes(*word));
            }
        }
        let masked_sum: Vec<u8> = masked_sum.iter().flat_map(|word| word.to_be_bytes()).collect();
        let sum: Vec<u8> = sum.iter().flat_map(|word| word.to_be_bytes()).collect();
        for kernel in [Kernel::SCALAR, Kernel::detect()] {
            let mut last = Masks::new(&key, class, (world - 1, world), len).with_kernel(kernel);
            prop_assert_eq!(last.remove(coded, &masked_sum), &sum[..]);
        }
    }
}

#[test]
fn a_retransmission_has_the_same_bytes() {
    let mut all = masks(1, 3, 1408);
    let (first, other) = (mask(&mut all, CHUNK), mask(&mut all, CodedChunk { exp: 131, ..CHUNK }));
    assert_ne!(first, other);
    assert_eq!(mask(&mut all, CHUNK), first);
}

/// Chi-squared of the bytes of `lanes`, for 255 degrees of freedom.
fn chi_squared(counts: &[u64; 256]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / 256.0;
    counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

/// What a switch sees of all-zero tensors, contributions and results, is uniform, and no 32 bytes occur twice in 10^6 packets
/// (10^5 without `NETFOLD_LONG`).
#[test]
fn masked_zeros_are_uniform_and_do_not_repeat() {
    const WORLD: u16 = 4;
    const LANE_BYTES: usize = 64;
    let packets = if std::env::var_os("NETFOLD_LONG").is_some() { 1_000_000 } else { 100_000 };
    let mut ranks: Vec<Masks> = (0..WORLD).map(|rank| masks(rank, WORLD, LANE_BYTES)).collect();
    let (hasher, mut counts) = (RandomState::new(), [0; 256]);
    let mut windows = Vec::with_capacity(packets * (LANE_BYTES - 32) / 4);
    for packet in 0..packets / (usize::from(WORLD) + 1) {
        let chunk = CodedChunk { op: OpId(packet as u64 / 1000), chunk: packet as u32 % 1000, ..CHUNK };
        let mut result = [0u32; LANE_BYTES / 4];
        let mut note = |lanes: &[u8]| {
            lanes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
            windows.extend(lanes.windows(32).step_by(4).map(|window| hasher.hash_one(window)));
        };
        for masks in &mut ranks {
            let lanes = mask(masks, chunk);
            note(&lanes);
            for (sum, word) in result.iter_mut().zip(lanes.as_chunks::<4>().0) {
                *sum = sum.wrapping_add(u32::from_be_bytes(*word));
            }
        }
        note(&result.map(u32::to_be_bytes).concat());
    }
    let chi_squared = chi_squared(&counts);
    // Bounds of probability 10^-6 on either side.
    assert!((158.0..=377.0).contains(&chi_squared), "chi-squared {chi_squared}");
    let all = windows.len();
    windows.sort_unstable();
    windows.dedup();
    assert_eq!(windows.len(), all, "windows of 32 bytes that occur twice");
    println!("{packets} packets, {all} windows, chi-squared {chi_squared:.1}");
}
