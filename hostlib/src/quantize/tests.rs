//! Properties of the quantiser: kernels agree, errors stay within the documented bounds, no carry crosses.

use half::{bf16, f16};
use netfold_testkit::binary16::nearest_binary16;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const WORLDS: std::ops::RangeInclusive<u16> = 1..=32;

/// The layouts whose blocks a switch of plain words sums.
const BLOCKS: [Lanes; 2] = [Lanes::Bfp32, Lanes::Bfp16];

fn quantizers() -> impl Iterator<Item = Quantizer> {
    BLOCKS.iter().flat_map(|&lanes| WORLDS.map(move |world| Quantizer::new(lanes, world)))
}

/// Numbers on which rounding, range and conversion are most likely to go wrong, in every exponent and both signs.
fn adversarial() -> Vec<f32> {
    let mut values = vec![];
    for exponent in 0..=254u32 {
        for fraction in
            [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff]
        {
            values.push(f32::from_bits(exponent << 23 | fraction));
        }
    }
    // Ties of the magic addition and of the conversions to 16 bits, at several scales.
    for power in [-20, -1, 0, 1, 14, 15, 30] {
        for odd in 0..40 {
            values.push((odd as f32 + 0.5) * (power as f32).exp2());
        }
    }
    let negative: Vec<f32> = values.iter().map(|v| -v).collect();
    values.extend(negative);
    values
}

fn random(rng: &mut SmallRng, len: usize) -> Vec<f32> {
    let center = rng.random_range(1..254u32);
    let width = rng.random_range(1..40u32);
    (0..len)
        .map(|_| {
            let exponent = (center + rng.random_range(0..width)).min(254);
            f32::from_bits(rng.random::<u32>() & 0x807f_ffff | exponent << 23)
        })
        .collect()
}

/// Both kernels on one block: exponent, lanes and results, at any exponent and not only the agreed one.
fn assert_kernels_agree<T: Float + PartialEq + std::fmt::Debug>(block: &[T], quantizer: &Quantizer, exp: u8) {
    let Some(vector) = Kernel::vector() else { return };
    let fast = Quantizer { kernel: vector, ..*quantizer };
    let slow = Quantizer { kernel: Kernel::SCALAR, ..*quantizer };
    assert_eq!(fast.exponent(block), slow.exponent(block));
    let bytes = (block.len() * quantizer.lanes.element_bytes()).next_multiple_of(4) + 8;
    let (mut a, mut b) = (vec![0xa5; bytes], vec![0x5a; bytes]);
    fast.pack(block, exp, &mut a);
    slow.pack(block, exp, &mut b);
    assert_eq!(a, b, "{quantizer:?} exp {exp}: every byte is written, and written alike");
    for count in [1, 3, 32] {
        let (mut x, mut y) = (vec![T::NAN; block.len()], vec![T::default(); block.len()]);
        fast.unpack(&a, exp, count, &mut x);
        slow.unpack(&a, exp, count, &mut y);
        assert_eq!(bits(&x), bits(&y), "{quantizer:?} exp {exp} count {count}");
    }
}

fn bits<T: Element>(block: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(block)];
    Kernel::SCALAR.pack_words(block, &mut bytes);
    bytes
}

fn kernels_agree_on<T: Float + PartialEq + std::fmt::Debug>() {
    let values: Vec<T> = adversarial()
        .into_iter()
        .map(T::from_f32)
        .filter(|v| v.magnitude_bits() < T::NAN.magnitude_bits() - 1)
        .collect();
    let mut rng = SmallRng::seed_from_u64(7);
    let numbers = [Lanes::Half, Lanes::Float]
        .into_iter()
        .flat_map(|lanes| [1, 5, 32].map(|n| Quantizer::new(lanes, n)));
    for quantizer in quantizers().filter(|q| q.headroom < 6).chain(numbers) {
        for block in values.chunks(701) {
            for exp in [0, 29, 30, 100, 127, 128, 160, 254, 255] {
                assert_kernels_agree(block, &quantizer, exp);
            }
            assert_kernels_agree(block, &quantizer, quantizer.exponent(block));
        }
        for len in 0..70 {
            let block: Vec<T> = random(&mut rng, len).into_iter().map(T::from_f32).collect();
            assert_kernels_agree(&block, &quantizer, quantizer.exponent(&block));
        }
    }
}

#[test]
fn kernels_agree_f32() {
    kernels_agree_on::<f32>();
}

#[test]
fn kernels_agree_f16() {
    kernels_agree_on::<f16>();
}

#[test]
fn kernels_agree_bf16() {
    kernels_agree_on::<bf16>();
}

/// Every 16-bit pattern of packed sums, through both kernels and every exponent's scale.
#[test]
fn kernels_agree_on_every_packed_sum() {
    let Some(vector) = Kernel::vector() else { return };
    let lanes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_be_bytes).collect();
    for exp in 0..=255 {
        for world in [1, 2, 32] {
            let fast = Quantizer::with_kernel(Lanes::Bfp16, world, vector);
            let slow = Quantizer::with_kernel(Lanes::Bfp16, world, Kernel::SCALAR);
            let (mut x, mut y) = (vec![f32::NAN; 1 << 16], vec![0.0f32; 1 << 16]);
            fast.unpack(&lanes, exp, world, &mut x);
            slow.unpack(&lanes, exp, world, &mut y);
            assert_eq!(bits(&x), bits(&y), "f32 exp {exp}");
            let (mut x, mut y) = (vec![bf16::NAN; 1 << 16], vec![bf16::ZERO; 1 << 16]);
            fast.unpack(&lanes, exp, world, &mut x);
            slow.unpack(&lanes, exp, world, &mut y);
            assert_eq!(bits(&x), bits(&y), "bf16 exp {exp}");
            let (mut x, mut y) = (vec![f16::NAN; 1 << 16], vec![f16::ZERO; 1 << 16]);
            fast.unpack(&lanes, exp, world, &mut x);
            slow.unpack(&lanes, exp, world, &mut y);
            assert_eq!(bits(&x), bits(&y), "f16 exp {exp}");
        }
    }
}

/// Lanes of any bits, NaN included, from any address: both kernels unpack the same.
fn kernels_agree_on_lanes<T: Float>(lanes: Lanes, bytes: &[u8], exp: u8) {
    let Some(vector) = Kernel::vector() else { return };
    let fast = Quantizer::with_kernel(lanes, 5, vector);
    let slow = Quantizer::with_kernel(lanes, 5, Kernel::SCALAR);
    let len = fast.block_elements(bytes.len());
    let (mut x, mut y) = (vec![T::NAN; len], vec![T::default(); len]);
    fast.unpack(bytes, exp, 5, &mut x);
    slow.unpack(bytes, exp, 5, &mut y);
    assert_eq!(bits(&x), bits(&y), "{lanes:?} of {} bits, exp {exp}", 8 * size_of::<T>());
}

#[test]
fn kernels_agree_on_every_half_and_on_any_binary32_lane() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_be_bytes).collect();
    let seed = 0x666c_6f61;
    println!("seed {seed:#x}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let special =
        [0, 1, 0x7f_ffff, 0x80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff];
    let words = special.into_iter().flat_map(|word: u32| [word, word | 0x8000_0000]);
    let words: Vec<u32> = words.chain((0..100_000).map(|_| rng.random())).collect();
    let floats: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    for exp in [0, 30, 100, 127, 142, 200, 254] {
        for (lanes, bytes) in [(Lanes::Half, &halves), (Lanes::Float, &floats)] {
            for start in (0..32).filter(|start| start % lanes.element_bytes() == 0 || exp == 127) {
                let bytes = &bytes[start..];
                let bytes = &bytes[..bytes.len() / 4 * 4];
                kernels_agree_on_lanes::<f32>(lanes, bytes, exp);
                kernels_agree_on_lanes::<f16>(lanes, bytes, exp);
                kernels_agree_on_lanes::<bf16>(lanes, bytes, exp);
            }
        }
    }
}

#[test]
fn raw_words_are_big_endian_and_kernels_agree() {
    let mut lanes = [0xa5; 8];
    Kernel::detect().pack_words(&[0x0102_0304], &mut lanes);
    assert_eq!(lanes, [1, 2, 3, 4, 0, 0, 0, 0]);
    let block = [f16::from_bits(0x0102), f16::from_bits(0x7e01), f16::from_bits(0x8000)];
    Kernel::detect().pack_words(&block, &mut lanes);
    assert_eq!(lanes, [1, 2, 0x7e, 1, 0x80, 0, 0, 0]);
    let mut back = [f16::ZERO; 3];
    Kernel::detect().unpack_words(&lanes, &mut back);
    assert_eq!(bits(&back), bits(&block), "NaN payloads and the sign of zero survive");
    for len in 0..100 {
        let block: Vec<i32> = (0..len).map(|i| i * 0x0101_0107 - 5).collect();
        let (mut a, mut b) = (vec![1; len as usize * 4 + 4], vec![2; len as usize * 4 + 4]);
        Kernel::detect().pack_words(&block, &mut a);
        Kernel::SCALAR.pack_words(&block, &mut b);
        assert_eq!(a, b);
        let mut back = vec![0; len as usize];
        Kernel::detect().unpack_words(&a, &mut back);
        assert_eq!(back, block);
    }
}

#[test]
fn exponent_is_that_of_the_largest_magnitude_and_flags_what_is_not_finite() {
    for kernel in [Kernel::SCALAR, Kernel::detect()] {
        let q = Quantizer::with_kernel(Lanes::Bfp16, 4, kernel);
        assert_eq!(q.exponent::<f32>(&[]), 30);
        assert_eq!(q.exponent(&[0.0f32, -0.0]), 30);
        assert_eq!(q.exponent(&[f32::from_bits(1)]), 30);
        assert_eq!(q.exponent(&[1.0f32, -2.5, 0.1]), 128);
        assert_eq!(q.exponent(&[f32::MAX]), 254);
        assert_eq!(q.exponent(&[f16::MIN_POSITIVE_SUBNORMAL]), 103, "subnormal in f16, normal in f32");
        assert_eq!(q.exponent(&[f16::MAX]), 142);
        assert_eq!(q.exponent(&[bf16::MAX]), 254);
        // At every position of a block that has vector groups and a tail.
        for at in 0..150 {
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)] {
                let mut block = vec![1.0f32; 150];
                block[at] = bad;
                assert_eq!(q.exponent(&block), 255);
                let mut block = vec![f16::ONE; 150];
                block[at] = f16::from_f32(bad);
                assert_eq!(q.exponent(&block), 255);
                let mut block = vec![bf16::ONE; 150];
                block[at] = bf16::from_f32(bad);
                assert_eq!(q.exponent(&block), 255);
            }
            let mut block = vec![1.0f32; 150];
            block[at] = -3.0e38;
            assert_eq!(q.exponent(&block), 254);
        }
    }
}

#[test]
fn blocks_that_are_not_finite_are_sent_as_zero_and_delivered_as_nan() {
    for q in quantizers() {
        let mut lanes = [0xa5; 12];
        let mut zeros = [0x5a; 12];
        q.pack(&[f32::NAN, 1.0], 255, &mut lanes);
        q.pack(&[0.0f32, 0.0], 100, &mut zeros);
        assert_eq!(lanes, zeros, "{q:?}");
        let mut result = [1.0f32; 2];
        q.unpack(&lanes, 255, 1, &mut result);
        assert!(result.iter().all(|v| v.is_nan()));
        let result = simulate(&q, &[&[1.0, f32::INFINITY][..]]);
        assert!(result.iter().all(|v| v.is_nan()));
    }
}

#[test]
fn padding_is_the_value_zero() {
    for q in quantizers() {
        let mut sum = vec![0; 64];
        for _ in 0..1u32 << q.headroom {
            let mut lanes = vec![0xa5; 64];
            q.pack(&[1.0f32, -1.0, 0.5], 127, &mut lanes);
            fold_words(&mut sum, &lanes);
        }
        let mut result = vec![9.0f32; q.block_elements(64)];
        q.unpack(&sum, 127, 1 << q.headroom, &mut result);
        assert!(result[3..].iter().all(|v| v.to_bits() == 0), "{q:?} {result:?}");
    }
}

/// 2^h workers at the extremes fill both halves of a word to the brim and no carry leaves either.
#[test]
fn no_carry_crosses_packed_halves() {
    for world in WORLDS {
        let q = Quantizer::new(Lanes::Bfp16, world);
        let top = f32::from_bits(0x3fff_ffff); // just below 2
        for pair in [[top, -2.0 + 2f32.powi(-20)], [-top, top], [top, top], [-top, -top]] {
            let shares: Vec<&[f32]> = vec![&pair[..]; usize::from(world)];
            let mut lanes = [0u8; 4];
            q.pack(&pair, q.exponent(&pair), &mut lanes);
            let halves = [u16::from_be_bytes([lanes[0], lanes[1]]), u16::from_be_bytes([lanes[2], lanes[3]])];
            for half in halves {
                assert!(u32::from(half) * u32::from(world) <= 0xffff, "world {world}: {half:#x}");
            }
            let together = simulate(&q, &shares);
            let apart: Vec<f32> = (0..2)
                .map(|i| simulate(&q, &shares.iter().map(|share| &share[i..=i]).collect::<Vec<_>>())[0])
                .collect();
            assert_eq!(together, apart, "world {world}: a half does not see its neighbour");
        }
    }
}

/// The bounds of docs/numerics.md, in f64: quantisation of every contribution, then one rounding to the type of the tensor.
fn error_bound(q: &Quantizer, inputs: &[Vec<f64>], at: usize, half_ulp: impl Fn(f64) -> f64) -> f64 {
    let magnitude = inputs.iter().flatten().fold(2f64.powi(-97), |max, v| max.max(v.abs()));
    let power = magnitude.log2().floor(); // right in f64 for every binary32 number
    let headroom = f64::from(u32::from(inputs.len() as u16).next_power_of_two().trailing_zeros());
    let quantum = (power + 1.0 - f64::from(q.lanes.bits() - 1) + headroom).exp2();
    // In bfp32 with less than 8 bits of headroom there is no binary32 number so close below 2^e.
    let limit = magnitude.log2().floor().exp2() * 2.0 - quantum / 2.0;
    let clamped = inputs.iter().filter(|input| input[at] >= limit).count() as f64;
    let shares = (inputs.len() as f64 + clamped) * quantum / 2.0;
    let exact: f64 = inputs.iter().map(|input| input[at]).sum();
    let reach = exact.abs() + shares;
    // A bfp32 sum is rounded to binary32 first; a bfp16 sum fits binary32.
    let to_f32 = if q.lanes == Lanes::Bfp32 { reach * 2f64.powi(-24) } else { 0.0 };
    shares + to_f32 + half_ulp(reach + to_f32)
}

fn assert_within_bound<T: Float>(
    q: &Quantizer,
    inputs: &[Vec<T>],
    max: f64,
    half_ulp: impl Fn(f64) -> f64 + Copy,
) {
    let slices: Vec<&[T]> = inputs.iter().map(Vec::as_slice).collect();
    let wide: Vec<Vec<f64>> =
        inputs.iter().map(|i| i.iter().map(|v| f64::from(v.to_f32())).collect()).collect();
    let results = simulate(q, &slices);
    for (at, result) in results.iter().enumerate() {
        let result = f64::from(result.to_f32());
        let exact: f64 = wide.iter().map(|input| input[at]).sum();
        let bound = error_bound(q, &wide, at, half_ulp);
        if result.is_infinite() {
            assert!(
                exact.abs() + bound >= max && (exact > 0.0) == (result > 0.0),
                "{q:?}: {exact} became {result}"
            );
        } else {
            assert!(
                (result - exact).abs() <= bound,
                "{q:?} n={}: |{result} - {exact}| > {bound}",
                inputs.len()
            );
        }
    }
}

fn bounds_hold<T: Float>(seed: u64, max: f64, half_ulp: impl Fn(f64) -> f64 + Copy) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let hard = adversarial();
    for world in WORLDS {
        for lanes in BLOCKS {
            let q = Quantizer::new(lanes, world);
            for _ in 0..40 {
                let len = rng.random_range(1..64);
                let block = random(&mut rng, len * usize::from(world));
                let inputs: Vec<Vec<T>> =
                    block.chunks(len).map(|c| c.iter().map(|&v| T::from_f32(v)).collect()).collect();
                if inputs.iter().flatten().all(|v| v.to_f32().is_finite()) {
                    assert_within_bound(&q, &inputs, max, half_ulp);
                }
            }
            // Equal contributions add their errors up; the difficult numbers are at ties and range ends.
            for block in hard.chunks(12) {
                let share: Vec<T> = block.iter().map(|&v| T::from_f32(v)).collect();
                if share.iter().all(|v| v.to_f32().is_finite()) {
                    assert_within_bound(&q, &vec![share; usize::from(world)], max, half_ulp);
                }
            }
        }
    }
}

#[test]
fn error_within_bound_f32() {
    // bfp16 is exact here and bfp32's rounding is counted before: subnormal results are multiples of q >= 2^-127.
    bounds_hold::<f32>(1, f64::from(f32::MAX), |_| 0.0);
}

#[test]
fn error_within_bound_f16() {
    bounds_hold::<f16>(2, 65504.0, |v| (v * 2f64.powi(-11)).max(2f64.powi(-25)));
}

#[test]
fn error_within_bound_bf16() {
    bounds_hold::<bf16>(3, f64::from(bf16::MAX.to_f32()), |v| (v * 2f64.powi(-8)).max(2f64.powi(-134)));
}

/// Trees of switches: the largest worlds of both modes, and some below them.
#[test]
fn error_within_bound_of_large_worlds() {
    assert_eq!(BLOCKS.iter().map(|lanes| lanes.world_max()).collect::<Vec<_>>(), [32768, 128]);
    let mut rng = SmallRng::seed_from_u64(4);
    for (lanes, worlds) in [(Lanes::Bfp16, [33, 64, 100, 128]), (Lanes::Bfp32, [128, 1000, 4096, 32768])] {
        for world in worlds {
            let q = Quantizer::new(lanes, world);
            let block = random(&mut rng, 8 * usize::from(world));
            let inputs: Vec<Vec<f32>> = block.chunks(8).map(<[f32]>::to_vec).collect();
            assert_within_bound(&q, &inputs, f64::from(f32::MAX), |_| 0.0);
            for value in [1.0, -1.0, 1.999_999_9, 0.3, -f32::MAX / 65536.0] {
                assert_within_bound(
                    &q,
                    &vec![vec![value, 1.0]; usize::from(world)],
                    f64::from(f32::MAX),
                    |_| 0.0,
                );
            }
        }
    }
}

/// The bounds can be met: an error of n quanta (bfp16, clamped) and of n/2 (ties) really happen.
#[test]
fn bounds_are_tight() {
    for world in [1u16, 2, 4, 32] {
        let q = Quantizer::new(Lanes::Bfp16, world);
        let quantum = f64::from(q.quantum(127));
        let n = f64::from(world);
        let error = |v: f32| {
            let shares = vec![[v, 1.0]; usize::from(world)];
            let shares: Vec<&[f32]> = shares.iter().map(|share| &share[..]).collect();
            (f64::from(simulate(&q, &shares)[0]) - f64::from(v) * n).abs() / quantum
        };
        assert!(error(f32::from_bits(0x3fff_ffff)) > 0.99 * n, "world {world}: just below 2 is clamped");
        assert_eq!(error((q.quantum(127)) * 1.5), n / 2.0, "world {world}: a tie");
    }
}

#[test]
fn integers_of_few_bits_are_exact() {
    // Gradients of small whole numbers: nothing is lost while the largest one keeps its bits above the quantum.
    for q in quantizers() {
        let world = 1usize << q.headroom;
        let inputs: Vec<Vec<f32>> =
            (0..world).map(|r| (-100..100).map(|i| ((i * 7 + r as i32) % 128) as f32).collect()).collect();
        let slices: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let exact: Vec<f32> = (0..200).map(|i| inputs.iter().map(|input| input[i]).sum()).collect();
        assert_eq!(simulate(&q, &slices), exact, "{q:?}");
    }
}

proptest! {
    /// Any bit patterns at all, any exponent: no panic, and both kernels give the same bytes.
    #[test]
    fn any_bits_kernels_agree(words in proptest::collection::vec(any::<u32>(), 0..90), exp in any::<u8>(), world in WORLDS) {
        for lanes in BLOCKS {
            let q = Quantizer::new(lanes, world);
            let finite: Vec<f32> = words.iter().map(|&w| f32::from_bits(w)).filter(|v| v.is_finite()).collect();
            assert_kernels_agree(&finite, &q, exp);
            let finite: Vec<f16> = words.iter().map(|&w| f16::from_bits(w as u16)).filter(|v| v.is_finite()).collect();
            assert_kernels_agree(&finite, &q, exp);
            let finite: Vec<bf16> = words.iter().map(|&w| bf16::from_bits(w as u16)).filter(|v| v.is_finite()).collect();
            assert_kernels_agree(&finite, &q, exp);
        }
    }

    /// Every rank unpacks the same bytes to the same bits, whatever order the switch folded in.
    #[test]
    fn order_of_folding_does_not_matter(seed in any::<u64>(), world in 2u16..=32) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let inputs: Vec<Vec<f32>> = (0..world).map(|_| random(&mut rng, 33)).collect();
        for lanes in BLOCKS {
            let q = Quantizer::new(lanes, world);
            let forward: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let backward: Vec<&[f32]> = inputs.iter().rev().map(Vec::as_slice).collect();
            prop_assert_eq!(bits(&simulate(&q, &forward)), bits(&simulate(&q, &backward)));
        }
    }
}

/// The sum that a switch makes in layouts other than plain words, and whether it saturated.
fn switch(lanes: Lanes, shares: &[Vec<u8>]) -> (Vec<u8>, bool) {
    let spread = (shares.len() as u16).next_power_of_two().trailing_zeros();
    let width = lanes.element_bytes();
    let mut saturated = false;
    let mut folded = Vec::new();
    for at in (0..shares[0].len()).step_by(width) {
        let lane = |share: &Vec<u8>| {
            share[at..at + width].iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
        };
        let bits = shares.iter().map(lane);
        match lanes {
            Lanes::Saturating => {
                let at_end = |word: i32| word == i32::MIN || word == i32::MAX;
                let sum = bits.map(u32::cast_signed).reduce(|a, b| match (at_end(a), at_end(b)) {
                    (true, _) => a,
                    (_, true) => b,
                    _ => a.saturating_add(b),
                });
                saturated |= sum.is_some_and(at_end);
                folded.extend(sum.unwrap().to_be_bytes());
            }
            Lanes::Wide => {
                let sum: u32 = bits.sum();
                folded.extend((((sum + (1 << spread >> 1)) >> spread) as u16).to_be_bytes());
            }
            Lanes::Half => {
                let fixed = |bits: u32| (f16::from_bits(bits as u16).to_f64() * 32768.0).round_ties_even();
                folded.extend(nearest_binary16(bits.map(fixed).sum::<f64>() / 32768.0).to_be_bytes());
            }
            _ => {
                let sum: f64 = bits.map(|bits| f64::from(f32::from_bits(bits))).sum();
                folded.extend((sum as f32).to_be_bytes());
            }
        }
    }
    (folded, saturated)
}

/// The bounds of docs/numerics.md for `f32` tensors and one level, and how often a block is redone.
#[test]
fn modes_stay_within_their_bounds() {
    let mut rng = SmallRng::seed_from_u64(11);
    let (mut blocks_seen, mut redone) = (0, 0);
    for world in [1u16, 2, 3, 4, 8, 13, 32] {
        let (n, h) = (f64::from(world), i32::from(world.next_power_of_two().trailing_zeros() as u8));
        for round in 0..40 {
            let block = |rng: &mut SmallRng| -> Vec<f32> {
                // Sums of uniform numbers, near enough to normal ones; every fourth block is of all magnitudes.
                if round % 4 == 0 {
                    return random(rng, 352).iter().map(|v| v.clamp(-1e30, 1e30)).collect();
                }
                (0..352).map(|_| (0..6).map(|_| rng.random_range(-1.0f32..1.0)).sum()).collect()
            };
            let inputs: Vec<Vec<f32>> = (0..world).map(|_| block(&mut rng)).collect();
            for lanes in [Lanes::Saturating, Lanes::Wide, Lanes::Half, Lanes::Float] {
                let first = Quantizer::new(lanes, world);
                let exp = inputs.iter().map(|input| first.exponent(input)).max().unwrap();
                let largest = inputs.iter().flatten().fold(0.0f32, |b, v| b.max(v.abs()));
                let e = i32::from(f32::exponent_of(largest.magnitude_bits()).max(EXPONENT_MIN)) - 126;
                let fold = |q: &Quantizer| {
                    let share = |input: &Vec<f32>| {
                        let mut share = vec![0xa5; 352 * lanes.element_bytes()];
                        q.pack(input, exp, &mut share);
                        share
                    };
                    switch(lanes, &inputs.iter().map(share).collect::<Vec<_>>())
                };
                let (mut q, (mut sum, saturated)) = (first, fold(&first));
                if saturated {
                    q = first.full_headroom();
                    sum = fold(&q).0;
                }
                if lanes == Lanes::Saturating && round % 4 != 0 && world > 1 {
                    (blocks_seen, redone) = (blocks_seen + 1, redone + u32::from(saturated));
                }
                let mut result = vec![0.0f32; 352];
                q.unpack(&sum, exp, world, &mut result);
                for (at, got) in result.iter().enumerate() {
                    let exact: f64 = inputs.iter().map(|input| f64::from(input[at])).sum();
                    let magnitudes: f64 = inputs.iter().map(|input| f64::from(input[at].abs())).sum();
                    let bound = match lanes {
                        Lanes::Saturating => {
                            let shares = n * f64::from(q.quantum(exp)) / 2.0;
                            shares + (exact.abs() + shares) * 2f64.powi(-24)
                        }
                        Lanes::Wide => n * 2f64.powi(e - 15) + 2f64.powi(h - 1 + e - 15),
                        Lanes::Half => {
                            2.0 * (1.0 + 2f64.powi(-8)) * 2f64.powi(-11) * magnitudes
                                + n * 2f64.powi(e + h - 30)
                        }
                        _ => 2.5 * n * 2f64.powi(e - 24),
                    };
                    let off = (f64::from(*got) - exact).abs();
                    assert!(
                        off <= bound,
                        "{lanes:?}, {world} workers, element {at}: off by {off}, bound {bound}"
                    );
                }
            }
        }
    }
    println!("{redone} of {blocks_seen} blocks were redone");
    assert!(redone > 0 && redone * 8 < blocks_seen, "{redone} of {blocks_seen}");
}

#[test]
fn where_all_ranks_agree_a_saturated_block_is_redone_and_right() {
    let q = Quantizer::new(Lanes::Saturating, 4);
    let input = vec![1.5f32; 8];
    let exp = q.exponent(&input);
    let share = |q: &Quantizer| {
        let mut share = vec![0; 32];
        q.pack(&input, exp, &mut share);
        vec![share; 4]
    };
    assert!(switch(Lanes::Saturating, &share(&q)).1);
    let (sum, saturated) = switch(Lanes::Saturating, &share(&q.full_headroom()));
    assert!(!saturated);
    let mut result = [0.0f32; 8];
    q.full_headroom().unpack(&sum, exp, 4, &mut result);
    assert_eq!(result, [6.0; 8]);
}
