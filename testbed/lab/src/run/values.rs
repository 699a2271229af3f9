//! Tensors of a run, and what their reduction must be, bit for bit.

use std::sync::OnceLock;

use netfold::quantize::{Lanes, Quantizer, simulate};
use netfold::{AsyncHandle, Collective, Communicator, Element, Error, Mode, ReduceOp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Elements after which the magnitude is halved, 13 times over: a prime, so that blocks of many exponents occur and
/// no two packets hold the same.
const PERIOD: usize = 4099;

/// What a tensor meets on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// How tensors travel.
    pub(super) mode: Mode,
    /// Bytes of lanes a packet.
    pub(super) lane_bytes: usize,
    /// Levels of switches.
    pub(super) levels: usize,
    /// Bits by which sums come down shifted, at all levels together.
    pub(super) shift: u8,
}

/// What a reduction must come to.
#[derive(Debug)]
pub(super) enum Expected<T> {
    /// These bits.
    Exactly(Vec<T>),
    /// Each within so much of the exact sum (docs/numerics.md), and the same bits on every rank: where switches round, the
    /// bits depend on the order in which contributions of children arrive.
    Within(Vec<(f64, f64)>),
}

/// An element type of a run.
pub(super) trait Value: Element + Default {
    /// One element.
    fn random(rng: &mut Xoshiro256PlusPlus, at: usize) -> Self;

    /// The reduction of all ranks' tensors.
    fn expect(inputs: &[Vec<Self>], path: &Path) -> Expected<Self>;

    /// Whether two elements are the same, bit for bit.
    fn same(self, other: Self) -> bool;

    /// Whether it is no further from `sum` than `bound`.
    fn within(self, sum: f64, bound: f64) -> bool;
}

impl Value for f32 {
    fn random(rng: &mut Xoshiro256PlusPlus, at: usize) -> Self {
        rng.random_range(-1.0..1.0) / (1_u32 << (at / PERIOD % 13)) as Self
    }

    fn expect(inputs: &[Vec<Self>], path: &Path) -> Expected<Self> {
        let lanes = match path.mode {
            Mode::Bfp16 => Lanes::Bfp16,
            Mode::Bfp32 | Mode::I32 => Lanes::Bfp32,
            Mode::Wide | Mode::Half => return within(inputs, path, path.lane_bytes / 2),
            _ => return within(inputs, path, path.lane_bytes / 4),
        };
        let quantizer = Quantizer::new(lanes, inputs.len() as u16);
        let block = quantizer.block_elements(path.lane_bytes);
        let len = inputs.first().map_or(0, Vec::len);
        let mut expected = Vec::with_capacity(len);
        for start in (0..len).step_by(block) {
            let blocks: Vec<&[Self]> =
                inputs.iter().map(|input| &input[start..len.min(start + block)]).collect();
            expected.extend(simulate(&quantizer, &blocks));
        }
        Expected::Exactly(expected)
    }

    fn same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }

    fn within(self, sum: f64, bound: f64) -> bool {
        (f64::from(self) - sum).abs() <= bound
    }
}

/// Exact sums and the error bounds of the mode, for packets of `block` elements.
fn within(inputs: &[Vec<f32>], path: &Path, block: usize) -> Expected<f32> {
    let len = inputs.first().map_or(0, Vec::len);
    let mut expected = Vec::with_capacity(len);
    for start in (0..len).step_by(block) {
        let range = start..len.min(start + block);
        let largest =
            inputs.iter().flat_map(|input| &input[range.clone()]).fold(0.0_f32, |b, v| b.max(v.abs()));
        for at in range {
            let (mut sum, mut magnitudes) = (0.0, 0.0);
            for input in inputs {
                sum += f64::from(input[at]);
                magnitudes += f64::from(input[at].abs());
            }
            expected.push((sum, bound(path, inputs.len(), f64::from(largest), sum.abs(), magnitudes)));
        }
    }
    Expected::Within(expected)
}

/// How far a sum of `n` contributions, of magnitude `sum` and of which the magnitudes add up to `magnitudes`, may be off in a block
/// whose largest magnitude is `largest`.
fn bound(path: &Path, n: usize, largest: f64, sum: f64, magnitudes: f64) -> f64 {
    let (levels, workers) = (path.levels as f64, n as f64);
    let e = (largest.max(2f64.powi(-97)).log2().floor() + 1.0) as i32;
    let h = n.next_power_of_two().trailing_zeros() as i32;
    match path.mode {
        Mode::Saturating => {
            let rounding = workers * 2f64.powi(e - 31 + h) / 2.0;
            rounding + (sum + rounding) * 2f64.powi(-24)
        }
        Mode::Wide => {
            let q = 2f64.powi(e - 15);
            workers * q + levels * q * 2f64.powi(i32::from(path.shift)) / 2.0
        }
        Mode::Half => {
            // One more for the contributions' own rounding; and a unit of fixed point for each contribution at each level.
            let rounded = magnitudes * 2f64.powi(-11) * (levels + 1.0) * (1.0 + 2f64.powi(-8));
            rounded + levels * workers * 2f64.powi(e + h - 30)
        }
        _ => levels * 2.5 * workers * 2f64.powi(e - 24),
    }
}

impl Value for i32 {
    fn random(rng: &mut Xoshiro256PlusPlus, _: usize) -> Self {
        rng.random()
    }

    fn expect(inputs: &[Vec<Self>], _: &Path) -> Expected<Self> {
        let len = inputs.first().map_or(0, Vec::len);
        let sum = |at: usize| inputs.iter().fold(0, |sum: Self, input| sum.wrapping_add(input[at]));
        Expected::Exactly((0..len).map(sum).collect())
    }

    fn same(self, other: Self) -> bool {
        self == other
    }

    fn within(self, sum: f64, bound: f64) -> bool {
        (f64::from(self) - sum).abs() <= bound
    }
}

/// All ranks' tensors of one collective, and what their reduction must be.
pub(super) struct Tensors<T> {
    pub(super) inputs: Vec<Vec<T>>,
    expected: Expected<T>,
    /// The first rank's result, where bits are not known beforehand.
    first: OnceLock<Vec<T>>,
}

impl<T: Value> Tensors<T> {
    pub(super) fn random(seed: u64, world: u16, elements: usize, path: &Path) -> Self {
        let tensor = |rank: u16| {
            let mut rng =
                Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank));
            (0..elements).map(|at| T::random(&mut rng, at)).collect()
        };
        let inputs: Vec<Vec<T>> = (0..world).map(tensor).collect();
        let expected = T::expect(&inputs, path);
        Self { inputs, expected, first: OnceLock::new() }
    }

    /// Starts a collective on one rank's tensor, in a class of operations.
    pub(super) fn start(
        &self,
        comm: &Communicator,
        collective: Collective,
        class: u8,
    ) -> Result<AsyncHandle<T>, Error> {
        let ranks = usize::from(comm.world_size());
        let mut tensor = self.inputs[usize::from(comm.rank())].clone();
        let part = tensor.len() / ranks;
        match collective {
            Collective::ReduceScatter => tensor.truncate(part * ranks),
            Collective::AllGather => tensor.truncate(part),
            _ => {}
        }
        comm.run_async(collective, tensor, ReduceOp::Sum, class)
    }

    /// How many elements of a rank's result are compared, and how many of them are not what they must be.
    pub(super) fn check(&self, comm: &Communicator, collective: Collective, result: &[T]) -> (u64, u64) {
        let rank = usize::from(comm.rank());
        let wrong = match collective {
            Collective::Reduce { root } if rank != usize::from(root) => return (0, 0),
            Collective::Reduce { .. } => self.wrong_part(result, 0),
            Collective::ReduceScatter => self.wrong_part(result, rank * result.len()),
            Collective::Broadcast { root } => differing(result, &self.inputs[usize::from(root)]),
            Collective::AllGather => {
                let part = result.len() / usize::from(comm.world_size());
                let parts = result.chunks(part.max(1)).zip(&self.inputs);
                parts.map(|(found, input)| differing(found, &input[..part])).sum()
            }
            _ => self.wrong(result),
        };
        (result.len() as u64, wrong)
    }

    /// Elements of a part of the reduction, from element `first` on, that are not what they must be.
    fn wrong_part(&self, part: &[T], first: usize) -> u64 {
        let wrong = match &self.expected {
            Expected::Exactly(expected) => return differing(part, &expected[first..first + part.len()]),
            Expected::Within(expected) => {
                let wrong = |(is, (sum, bound)): &(&T, &(f64, f64))| !is.within(*sum, *bound);
                part.iter().zip(&expected[first..]).filter(wrong).count()
            }
        };
        wrong as u64
    }

    /// Elements of the whole reduction that are not what they must be, and the same on all ranks.
    fn wrong(&self, tensor: &[T]) -> u64 {
        let wrong = match &self.expected {
            Expected::Exactly(expected) => {
                tensor.iter().zip(expected).filter(|(is, must)| !is.same(**must)).count()
            }
            Expected::Within(expected) => {
                let first = self.first.get_or_init(|| tensor.to_vec());
                let right = |((is, first), (sum, bound)): ((&T, &T), &(f64, f64))| {
                    is.same(*first) && is.within(*sum, *bound)
                };
                tensor.iter().zip(first).zip(expected).filter(|element| !right(*element)).count()
            }
        };
        wrong as u64
    }
}

/// Elements that differ, bit for bit.
fn differing<T: Value>(found: &[T], expected: &[T]) -> u64 {
    found.iter().zip(expected).filter(|(is, must)| !is.same(**must)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BFP16: Path = Path { mode: Mode::Bfp16, lane_bytes: 256, levels: 1, shift: 0 };

    #[test]
    fn expectations_are_sums_within_a_quantum_for_each_worker() {
        let tensors = Tensors::<f32>::random(1, 3, 10_000, &BFP16);
        let Expected::Exactly(expected) = &tensors.expected else { panic!("words are exact") };
        let mut off = 0.0_f64;
        for (at, must) in expected.iter().enumerate() {
            let sum: f64 = tensors.inputs.iter().map(|input| f64::from(input[at])).sum();
            off = off.max((f64::from(*must) - sum).abs());
        }
        assert!(off > 0.0 && off < 3.0 * 2f64.powi(-13), "{off}");
        let tensors = Tensors::<i32>::random(1, 2, 100, &Path { mode: Mode::I32, ..BFP16 });
        let sums = (0..100).map(|at| tensors.inputs[0][at].wrapping_add(tensors.inputs[1][at]));
        assert_eq!(tensors.wrong(&sums.collect::<Vec<_>>()), 0);
        assert_ne!(tensors.inputs[0], tensors.inputs[1]);
    }

    #[test]
    fn where_switches_round_a_result_is_near_the_sum_and_the_same_everywhere() {
        for mode in [Mode::Saturating, Mode::Wide, Mode::Half, Mode::Float] {
            let tensors = Tensors::<f32>::random(1, 4, 1_000, &Path { mode, shift: 2, ..BFP16 });
            let sum = |at: usize| tensors.inputs.iter().map(|input| f64::from(input[at])).sum::<f64>() as f32;
            let mut sums: Vec<f32> = (0..1_000).map(sum).collect();
            assert_eq!(tensors.wrong(&sums), 0, "{mode}");
            sums[7] = f32::from_bits(sums[7].to_bits() ^ 1);
            assert_eq!(tensors.wrong(&sums), 1, "{mode}: not what the first rank has");
            let tensors = Tensors::<f32>::random(1, 4, 1_000, &Path { mode, shift: 2, ..BFP16 });
            sums[9] += 0.1;
            assert_eq!(tensors.wrong(&sums), 1, "{mode}: too far off");
        }
    }
}
