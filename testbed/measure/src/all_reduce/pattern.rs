//! Tensors whose reduction is known: filled by rank, checked element by element.

use std::ops::Range;

use netfold::quantize::{Lanes, Quantizer};
use netfold::{Element, Mode, ReduceOp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Length of the tables: prime, so that no chunk size divides it and a chunk in the wrong place does not go unnoticed.
const PERIOD: usize = 4099;

/// Every further period is half as large, down to 2^-12, and then from the start: blocks of many exponents.
const SCALES: usize = 13;

/// What a tensor went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduction {
    /// Number of workers.
    pub workers: u16,
    /// How tensors travelled.
    pub mode: Mode,
    /// The reduction.
    pub op: ReduceOp,
    /// Lanes of a packet in bytes, which decides which elements share an exponent.
    pub payload_bytes: u32,
    /// Whether hosts may have folded some of it, whose sums of `f32` are rounded with every contribution that is added.
    pub by_hosts: bool,
}

/// One period of every rank's values, and what becomes of them. The same seed and number of workers give the same on
/// every rank.
#[derive(Debug)]
pub struct Pattern {
    floats: Vec<Vec<f32>>,
    /// Sum, sum of magnitudes and largest magnitude over the ranks, exact in `f64`.
    float_sum: Vec<f64>,
    float_size: Vec<f64>,
    float_max: Vec<f32>,
    ints: Vec<Vec<i32>>,
    int_sum: Vec<i32>,
    int_min: Vec<i32>,
    int_max: Vec<i32>,
}

impl Pattern {
    /// The values of `workers` ranks.
    pub fn new(seed: u64, workers: u16) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let floats: Vec<Vec<f32>> =
            (0..workers).map(|_| (0..PERIOD).map(|_| rng.random_range(-1.0..1.0)).collect()).collect();
        let ints: Vec<Vec<i32>> = (0..workers).map(|_| (0..PERIOD).map(|_| rng.random()).collect()).collect();
        let column = |at: usize| floats.iter().map(move |row| row[at]);
        let int_column = |at: usize| ints.iter().map(move |row| row[at]);
        Self {
            float_sum: (0..PERIOD).map(|at| column(at).map(f64::from).sum()).collect(),
            float_size: (0..PERIOD).map(|at| column(at).map(|value| f64::from(value.abs())).sum()).collect(),
            float_max: (0..PERIOD).map(|at| column(at).fold(0.0, |max: f32, v| max.max(v.abs()))).collect(),
            int_sum: (0..PERIOD).map(|at| int_column(at).fold(0, i32::wrapping_add)).collect(),
            int_min: (0..PERIOD).map(|at| int_column(at).fold(i32::MAX, i32::min)).collect(),
            int_max: (0..PERIOD).map(|at| int_column(at).fold(i32::MIN, i32::max)).collect(),
            floats,
            ints,
        }
    }

    fn scale(period: usize) -> f32 {
        1.0 / (1_u32 << (period % SCALES)) as f32
    }
}

/// Elements of a block that lie in one period.
struct Run {
    /// First element, counted from the block's first.
    from: usize,
    len: usize,
    /// Column of the first element in the tables.
    column: usize,
    scale: f32,
}

impl Run {
    fn columns(&self) -> Range<usize> {
        self.column..self.column + self.len
    }
}

/// The runs of `len` elements from element `at` of a tensor.
fn runs(at: usize, len: usize) -> impl Iterator<Item = Run> {
    let first = at / PERIOD;
    (first..(at + len).div_ceil(PERIOD)).map(move |period| {
        let begin = at.max(period * PERIOD);
        let end = (at + len).min((period + 1) * PERIOD);
        Run { from: begin - at, len: end - begin, column: begin % PERIOD, scale: Pattern::scale(period) }
    })
}

/// An element type that the benchmark measures.
pub trait Number: Element + Default {
    /// Name in the type column.
    const NAME: &'static str;

    /// Fills a tensor with a rank's values.
    ///
    /// # Panics
    ///
    /// If the pattern has no such rank.
    fn fill(pattern: &Pattern, rank: u16, tensor: &mut [Self]);

    /// Counts the elements that are not the reduction of all ranks' values within the mode's bound.
    fn wrong(pattern: &Pattern, reduction: &Reduction, tensor: &[Self]) -> u64;

    /// A digest of all bits.
    fn digest(tensor: &[Self]) -> u64;
}

impl Number for f32 {
    const NAME: &'static str = "f32";

    fn fill(pattern: &Pattern, rank: u16, tensor: &mut [Self]) {
        let row = &pattern.floats[usize::from(rank)];
        for (period, values) in tensor.chunks_mut(PERIOD).enumerate() {
            let scale = Pattern::scale(period);
            values.iter_mut().zip(row).for_each(|(value, &base)| *value = base * scale);
        }
    }

    /// The bound of a block: one quantum for each worker, by the exponent of the block's largest magnitude over all
    /// workers, and the rounding of the sum to `f32`; where hosts fold, of every partial sum, none of which is larger than the sum of
    /// magnitudes.
    fn wrong(pattern: &Pattern, reduction: &Reduction, tensor: &[Self]) -> u64 {
        let lanes = if reduction.mode == Mode::Bfp16 { Lanes::Bfp16 } else { Lanes::Bfp32 };
        let quantizer = Quantizer::new(lanes, reduction.workers);
        let block_len = quantizer.block_elements(reduction.payload_bytes as usize);
        let mut wrong = 0;
        for (index, block) in tensor.chunks(block_len).enumerate() {
            let runs = || runs(index * block_len, block.len());
            let max = |run: &Run| {
                pattern.float_max[run.columns()].iter().fold(0.0_f32, |a, &b| a.max(b)) * run.scale
            };
            let largest = runs().fold(0.0_f32, |largest, run| largest.max(max(&run)));
            let quantum = f64::from(quantizer.quantum(quantizer.exponent(&[largest])));
            let allowed = quantum * f64::from(reduction.workers);
            let roundings = if reduction.by_hosts { f64::from(reduction.workers) / 2.0 } else { 0.0 };
            for run in runs() {
                let (values, sums) = (&block[run.from..][..run.len], &pattern.float_sum[run.columns()]);
                let sizes = &pattern.float_size[run.columns()];
                let scale = f64::from(run.scale);
                for ((&value, sum), size) in values.iter().zip(sums).zip(sizes) {
                    let want = sum * scale;
                    let off = (f64::from(value) - want).abs();
                    let rounded = want.abs() + roundings * size * scale;
                    // A NaN is not within anything.
                    let within = off <= allowed + rounded * f64::from(f32::EPSILON);
                    wrong += u64::from(!within);
                }
            }
        }
        wrong
    }

    fn digest(tensor: &[Self]) -> u64 {
        digest(tensor.iter().map(|value| value.to_bits()))
    }
}

impl Number for i32 {
    const NAME: &'static str = "i32";

    fn fill(pattern: &Pattern, rank: u16, tensor: &mut [Self]) {
        let row = &pattern.ints[usize::from(rank)];
        tensor.chunks_mut(PERIOD).for_each(|values| values.copy_from_slice(&row[..values.len()]));
    }

    fn wrong(pattern: &Pattern, reduction: &Reduction, tensor: &[Self]) -> u64 {
        let want = match reduction.op {
            ReduceOp::Min => &pattern.int_min,
            ReduceOp::Max => &pattern.int_max,
            _ => &pattern.int_sum,
        };
        let differ = |values: &[Self]| values.iter().zip(want).filter(|(value, want)| value != want).count();
        tensor.chunks(PERIOD).map(|values| differ(values) as u64).sum()
    }

    fn digest(tensor: &[Self]) -> u64 {
        digest(tensor.iter().map(|value| value.cast_unsigned()))
    }
}

/// A polynomial over the words modulo 2^64: any single difference shows.
fn digest(words: impl Iterator<Item = u32>) -> u64 {
    words.fold(0, |sum: u64, word| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BFP16: Reduction =
        Reduction { workers: 1, mode: Mode::Bfp16, op: ReduceOp::Sum, payload_bytes: 1408, by_hosts: false };

    fn reduced(pattern: &Pattern, workers: u16, count: usize) -> Vec<f32> {
        let mut sum = vec![0.0_f64; count];
        let mut contribution = vec![0.0_f32; count];
        for rank in 0..workers {
            f32::fill(pattern, rank, &mut contribution);
            sum.iter_mut()
                .zip(&contribution)
                .for_each(|(sum, &contribution)| *sum += f64::from(contribution));
        }
        sum.into_iter().map(|sum| sum as f32).collect()
    }

    #[test]
    fn right_sums_pass_and_each_kind_of_wrong_one_is_counted() {
        let config = Reduction { workers: 3, ..BFP16 };
        let pattern = Pattern::new(1, 3);
        let right = reduced(&pattern, 3, 20_000);
        assert_eq!(f32::wrong(&pattern, &config, &right), 0);

        let mut one = right.clone();
        one[4_321] += 0.01;
        assert_eq!(f32::wrong(&pattern, &config, &one), 1);
        assert_ne!(f32::digest(&one), f32::digest(&right));
        let mut one = right.clone();
        one[0] = f32::NAN;
        assert_eq!(f32::wrong(&pattern, &config, &one), 1);
        let mut swapped = right;
        swapped[..1408].rotate_left(704);
        assert!(f32::wrong(&pattern, &config, &swapped) > 1300, "two packets exchanged");
        let mut contribution = vec![0.0; 20_000];
        f32::fill(&pattern, 0, &mut contribution);
        assert!(f32::wrong(&pattern, &config, &contribution) > 19_000, "not reduced at all");
    }

    #[test]
    fn sums_of_hosts_may_be_rounded_with_every_contribution() {
        let pattern = Pattern::new(3, 32);
        let (mut sum, mut contribution) = (vec![0.0_f32; 20_000], vec![0.0_f32; 20_000]);
        for rank in 0..32 {
            f32::fill(&pattern, rank, &mut contribution);
            sum.iter_mut().zip(&contribution).for_each(|(sum, contribution)| *sum += contribution);
        }
        let switch = Reduction { workers: 32, mode: Mode::Bfp32, ..BFP16 };
        let hosts = Reduction { by_hosts: true, ..switch };
        assert!(f32::wrong(&pattern, &switch, &sum) > 0, "a switch adds exactly");
        assert_eq!(f32::wrong(&pattern, &hosts, &sum), 0);
        sum[7_777] += 1e-3;
        assert_eq!(f32::wrong(&pattern, &hosts, &sum), 1);
    }

    #[test]
    fn integers_are_exact() {
        let pattern = Pattern::new(2, 2);
        let config = |op| Reduction { workers: 2, mode: Mode::I32, op, ..BFP16 };
        let (mut a, mut b) = (vec![0; 9_000], vec![0; 9_000]);
        i32::fill(&pattern, 0, &mut a);
        i32::fill(&pattern, 1, &mut b);
        let zip = |f: fn(i32, i32) -> i32| a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>();
        assert_eq!(i32::wrong(&pattern, &config(ReduceOp::Sum), &zip(i32::wrapping_add)), 0);
        assert_eq!(i32::wrong(&pattern, &config(ReduceOp::Min), &zip(i32::min)), 0);
        assert_eq!(i32::wrong(&pattern, &config(ReduceOp::Max), &zip(i32::max)), 0);
        assert!(i32::wrong(&pattern, &config(ReduceOp::Max), &zip(i32::min)) > 8_000);
    }
}
