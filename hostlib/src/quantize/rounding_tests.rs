//! Stochastic rounding, and what rounding leaves out.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// The layouts that have mantissas.
const MANTISSAS: [Lanes; 4] = [Lanes::Bfp32, Lanes::Bfp16, Lanes::Saturating, Lanes::Wide];

/// What one worker's block comes to, times 1 in f64: the value of each lane.
fn values(q: &Quantizer, number: u32, block: &[f32], exp: u8) -> Vec<f64> {
    let mut lanes = vec![0; q.block_elements(4) * block.len().next_multiple_of(2) * 4];
    q.pack_block(number, block, exp, &mut lanes);
    let quantum = f64::from(q.quantum(exp));
    let bias = 1i32 << (15 - q.headroom);
    let mantissa = |at: usize| match q.lanes.element_bytes() {
        2 => i32::from(u16::from_be_bytes([lanes[2 * at], lanes[2 * at + 1]])) - bias,
        _ => i32::from_be_bytes(lanes[4 * at..4 * at + 4].try_into().unwrap()),
    };
    (0..block.len()).map(|at| f64::from(mantissa(at)) * quantum).collect()
}

#[test]
fn draws_are_those_of_every_release() {
    // Written down once: results with a seed must not change unnoticed.
    let rng = RoundingRng::new(42, 3).operation(7).block(1);
    assert_eq!((rng.start, rng.twist), KEYS);
    assert_eq!([0, 1, 2, 703].map(|element| rng.draw(element)), DRAWS);
}

/// By an implementation in another language.
const KEYS: (u32, u32) = (1_377_819_756, 1_195_915_736);
const DRAWS: [f32; 4] = [7_003_635.0, 10_706_736.0, 5_946_395.0, 11_177_895.0];

/// Draws of neighbouring elements, blocks, operations, ranks and seeds are spread evenly and do not follow each other.
#[test]
fn draws_are_even_and_independent() {
    const COUNT: usize = 1 << 16;
    let stream = |seed: u64, rank: u16, op: u64, block: u32, first: u32| -> Vec<f64> {
        let mut drawn = Vec::with_capacity(COUNT);
        for b in 0.. {
            if drawn.len() >= COUNT {
                break;
            }
            let rng = RoundingRng::new(seed, rank).operation(op).block(block + b);
            drawn.extend((0..704).map(|i| f64::from(rng.draw(first + i)) / f64::from(1 << 24) - 0.5));
        }
        drawn.truncate(COUNT);
        drawn
    };
    let base = stream(1, 0, 0, 0, 0);
    let sigma = (1.0 / 12.0f64).sqrt();
    let root = (COUNT as f64).sqrt();
    let mean = base.iter().sum::<f64>() / COUNT as f64;
    assert!(mean.abs() < 4.0 * sigma / root, "mean {mean}");
    let mut bins = [0u32; 256];
    base.iter().for_each(|v| bins[((v + 0.5) * 256.0) as usize] += 1);
    let expected = COUNT as f64 / 256.0;
    let chi: f64 = bins.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    // 255 degrees of freedom: 99.99 % lie below 346 and above 178.
    assert!((178.0..346.0).contains(&chi), "chi square {chi}");
    let others = [
        ("next element", stream(1, 0, 0, 0, 1)),
        ("next block", stream(1, 0, 0, 1, 0)),
        ("next operation", stream(1, 0, 1, 0, 0)),
        ("next rank", stream(1, 1, 0, 0, 0)),
        ("next seed", stream(2, 0, 0, 0, 0)),
    ];
    for (name, other) in others {
        let product: f64 = base.iter().zip(&other).map(|(a, b)| a * b).sum();
        let correlation = product / (COUNT as f64 * sigma * sigma);
        assert!(correlation.abs() < 4.0 / root, "{name}: correlation {correlation}");
    }
}

/// E[Q(x)] = x, against f64: in every layout, for both signs, for numbers far below a quantum, between quanta, and at the
/// highest mantissa.
#[test]
fn the_expected_value_is_the_number() {
    const STEPS: u64 = 20_000;
    for lanes in MANTISSAS {
        for world in [1, 4, 32] {
            let q = Quantizer::new(lanes, world);
            let top = f32::from_bits(0x3fff_ffff); // just below 2: beyond the highest mantissa of 16 bits
            let unit = q.quantum(q.stochastic(RoundingRng::new(0, 0)).exponent(&[top]));
            let block = [
                top,
                -top,
                1.0,
                -1.0,
                0.0,
                unit * 0.5,
                unit * -0.5,
                unit * 0.01,
                unit * -0.01,
                unit * 7.25,
                unit * -3.75,
                unit * 1e-3,
                unit * 100.9,
                0.1,
                -0.3,
                1.1,
            ];
            let exp = q.stochastic(RoundingRng::new(0, 0)).exponent(&block);
            let quantum = f64::from(q.quantum(exp));
            let mut sums = [0.0f64; 16];
            for step in 0..STEPS {
                let q = q.stochastic(RoundingRng::new(99, world).operation(step));
                for ((sum, got), value) in sums.iter_mut().zip(values(&q, 5, &block, exp)).zip(block) {
                    let off = got - f64::from(value);
                    assert!(off.abs() < quantum, "{q:?}: {value} became {got}");
                    *sum += off;
                }
            }
            for (value, sum) in block.iter().zip(sums) {
                // The variance of one rounding is f (1 - f) for the fraction f of a quantum.
                let fraction = (f64::from(*value) / quantum).rem_euclid(1.0);
                let sigma = quantum * (fraction * (1.0 - fraction) * STEPS as f64).sqrt();
                let bias = quantum * STEPS as f64 * 2f64.powi(-24);
                assert!(
                    sum.abs() <= 5.0 * sigma + bias,
                    "{lanes:?} of {world}: {value} is off by {sum}, sigma {sigma}"
                );
            }
        }
    }
}

#[test]
fn what_mantissas_can_say_is_never_changed() {
    for lanes in MANTISSAS {
        let nearest = Quantizer::new(lanes, 4);
        let block: Vec<f32> = (-100..100).map(|i| i as f32).collect();
        let exp = nearest.exponent(&block);
        let (mut a, mut b) = (vec![0; 1024], vec![0; 1024]);
        nearest.pack(&block, exp, &mut a);
        for op in 0..50 {
            nearest.stochastic(RoundingRng::new(1, 1).operation(op)).pack_block(9, &block, exp, &mut b);
            assert_eq!(a, b, "{lanes:?}");
        }
    }
}

/// Both kernels: lanes and residuals, at any exponent and not only the agreed one.
fn assert_kernels_agree<T: Float>(quantizer: &Quantizer, number: u32, block: &[T], exp: u8) {
    let Some(vector) = Kernel::vector() else { return };
    let fast = Quantizer { kernel: vector, ..*quantizer };
    let slow = Quantizer { kernel: Kernel::SCALAR, ..*quantizer };
    assert_eq!(fast.exponent(block), slow.exponent(block));
    let bytes = (block.len() * quantizer.lanes.element_bytes()).next_multiple_of(4) + 8;
    let (mut a, mut b) = (vec![0xa5; bytes], vec![0x5a; bytes]);
    fast.pack_block(number, block, exp, &mut a);
    slow.pack_block(number, block, exp, &mut b);
    assert_eq!(a, b, "{quantizer:?} exp {exp}");
    let wide: Vec<f32> = block.iter().map(|v| v.to_f32()).collect();
    let (mut x, mut y) = (vec![f32::NAN; wide.len()], vec![f32::INFINITY; wide.len()]);
    fast.residual(number, &wide, exp, &mut x);
    slow.residual(number, &wide, exp, &mut y);
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&x), bits(&y), "{quantizer:?} exp {exp}");
}

fn every_kind(world: u16, rng: RoundingRng) -> impl Iterator<Item = Quantizer> {
    Lanes::ALL.iter().filter(move |lanes| world <= lanes.world_max()).flat_map(move |&lanes| {
        let q = Quantizer::new(lanes, world);
        [q, q.full_headroom(), q.stochastic(rng), q.stochastic(rng).full_headroom()]
    })
}

/// No block with such elements is packed by an exponent of numbers, unless its caller writes to it meanwhile. Minima and maxima of processors differ in
/// what they make of NaN.
#[test]
fn kernels_pack_alike_what_is_not_finite() {
    let Some(vector) = Kernel::vector() else { return };
    let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1.0, -0.0];
    let block: Vec<f32> = odd.iter().cycle().take(37).copied().collect();
    for q in every_kind(5, RoundingRng::new(4, 3)).filter(|q| q.lanes.has_mantissas()) {
        for exp in [EXPONENT_MIN, 127, 254] {
            let pack = |kernel| {
                let mut lanes = vec![0; 4 * block.len()];
                Quantizer { kernel, ..q }.pack_block(7, &block, exp, &mut lanes);
                lanes
            };
            assert_eq!(pack(vector), pack(Kernel::SCALAR), "{q:?} exp {exp}");
        }
    }
}

proptest! {
    /// Any numbers at all, any exponent: both kernels give the same bytes, and the same residuals to the bit.
    #[test]
    fn kernels_agree(
        words in proptest::collection::vec(any::<u32>(), 0..90), exp in any::<u8>(), number in any::<u32>(),
        seed in any::<u64>(), world in prop_oneof![1u16..=32, Just(1000), Just(32768)]
    ) {
        for q in every_kind(world, RoundingRng::new(seed, 3)) {
            let finite: Vec<f32> = words.iter().map(|&w| f32::from_bits(w)).filter(|v| v.is_finite()).collect();
            let half: Vec<f16> = words.iter().map(|&w| f16::from_bits(w as u16)).filter(|v| v.is_finite()).collect();
            let brain: Vec<bf16> = words.iter().map(|&w| bf16::from_bits(w as u16)).filter(|v| v.is_finite()).collect();
            for exp in [exp, q.exponent(&finite), 254] {
                assert_kernels_agree(&q, number, &finite, exp);
                assert_kernels_agree(&q, number, &half, exp);
                assert_kernels_agree(&q, number, &brain, exp);
            }
        }
    }

    /// Lane and residual together are the number: exactly where it was rounded to the nearest, within 2^-25 q with stochastic rounding.
    #[test]
    fn nothing_is_lost_between_lane_and_residual(
        seed in any::<u64>(), world in prop_oneof![1u16..=32, Just(128)], at in 1u32..254, width in 1u32..40
    ) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let block: Vec<f32> = (0..50).map(|_| {
            let exponent = (at + rng.random_range(0..width)).min(254);
            f32::from_bits(rng.random::<u32>() & 0x807f_ffff | exponent << 23)
        }).collect();
        for q in every_kind(world, RoundingRng::new(seed, 0)).filter(|q| q.lanes.has_mantissas()) {
            let exp = q.exponent(&block);
            let mut residual = vec![f32::NAN; block.len()];
            q.residual(8, &block, exp, &mut residual);
            let quantum = f64::from(q.quantum(exp));
            for ((value, sent), left) in block.iter().zip(values(&q, 8, &block, exp)).zip(residual) {
                let off = (f64::from(*value) - sent - f64::from(left)).abs();
                let slack = if q.rng.is_some() { quantum * 2f64.powi(-25) } else { 0.0 };
                prop_assert!(off <= slack, "{q:?}: {value} was sent as {sent} and left {left}");
                prop_assert!(f64::from(left.abs()) <= quantum, "{q:?}: {value} left {left}, more than {quantum}");
            }
        }
    }
}

#[test]
fn the_ends_of_the_range_leave_finite_residuals() {
    for q in every_kind(4, RoundingRng::new(5, 0)) {
        let block = [f32::MAX, -f32::MAX, f32::MIN_POSITIVE, -1.0e-45, 0.0, -0.0, 3.0e38, 1.0];
        let mut residual = [f32::NAN; 8];
        q.residual(0, &block, q.exponent(&block), &mut residual);
        assert!(residual.iter().all(|v| v.is_finite()), "{q:?}: {residual:?}");
        q.residual(0, &[f32::NAN, 1.0], EXPONENT_NON_FINITE, &mut residual[..2]);
        assert_eq!(residual[..2], [0.0; 2]);
    }
}

#[test]
fn numbers_of_half_precision_leave_what_their_rounding_dropped() {
    let q = Quantizer::new(Lanes::Half, 4);
    let block = [1.0f32, 0.1, -1.0e-6, 0.33];
    let exp = q.exponent(&block);
    let (mut lanes, mut sum, mut residual) = ([0; 8], [0.0f32; 4], [9.0f32; 4]);
    q.pack(&block, exp, &mut lanes);
    q.unpack(&lanes, exp, 1, &mut sum);
    q.residual(0, &block, exp, &mut residual);
    assert!(residual[1] != 0.0);
    for ((value, sent), left) in block.iter().zip(sum).zip(residual) {
        assert_eq!(*value, sent + left);
    }
    Quantizer::new(Lanes::Float, 4).residual(0, &block, exp, &mut residual);
    assert_eq!(residual, [0.0; 4]);
}

/// Feedback over many steps: what was delivered and what is left add up to what was given, and small numbers beside a large
/// one arrive.
#[test]
fn feedback_delivers_what_rounding_would_drop() {
    for rng in [None, Some(RoundingRng::new(3, 0))] {
        let plain = Quantizer::new(Lanes::Bfp16, 4);
        let given = [1.0f32, 1e-6, -2e-6, 3e-5];
        let (mut residual, mut delivered, mut dropped) = ([0.0f32; 4], [0.0f64; 4], [0.0f64; 4]);
        for step in 0..5000 {
            let q = rng.map_or(plain, |rng: RoundingRng| plain.stochastic(rng.operation(step)));
            let fed: Vec<f32> = given.iter().zip(residual).map(|(v, left)| v + left).collect();
            let exp = q.exponent(&fed);
            let sent = values(&q, 0, &fed, exp);
            q.residual(0, &fed, exp, &mut residual);
            delivered.iter_mut().zip(sent).for_each(|(sum, sent)| *sum += sent);
            let alone = values(&plain, 0, &given, plain.exponent(&given));
            dropped.iter_mut().zip(alone).for_each(|(sum, sent)| *sum += sent);
        }
        for (((given, delivered), left), dropped) in given.iter().zip(delivered).zip(residual).zip(dropped) {
            let all = f64::from(*given) * 5000.0;
            assert!((delivered + f64::from(left) - all).abs() < 1e-3 * all.abs(), "{given}: {delivered}");
            assert!(given.abs() > 5e-5 || dropped == 0.0, "{given} alone would vanish");
        }
    }
}
