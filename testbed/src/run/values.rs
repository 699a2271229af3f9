//! Tensors of a run, and what their reduction must be, bit for bit.

use netfold::quantize::{Lanes, Quantizer, simulate};
use netfold::{Communicator, Element, Mode, OpReport, ReduceOp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Elements after which the magnitude is halved, 13 times over: a prime, so that blocks of many exponents come about and
/// no two packets hold the same.
const PERIOD: usize = 4099;

/// An element type of a run.
pub(super) trait Value: Element + Default {
    /// One element.
    fn draw(rng: &mut Xoshiro256PlusPlus, at: usize) -> Self;

    /// The reduction of all ranks' tensors, for packets of `lane_bytes` bytes of lanes.
    fn expect(inputs: &[Vec<Self>], mode: Mode, lane_bytes: usize) -> Vec<Self>;

    /// Whether two elements are the same, bit for bit.
    fn same(self, other: Self) -> bool;
}

impl Value for f32 {
    fn draw(rng: &mut Xoshiro256PlusPlus, at: usize) -> Self {
        rng.random_range(-1.0..1.0) / (1_u32 << (at / PERIOD % 13)) as Self
    }

    fn expect(inputs: &[Vec<Self>], mode: Mode, lane_bytes: usize) -> Vec<Self> {
        let lanes = if mode == Mode::Bfp16 { Lanes::Bfp16 } else { Lanes::Bfp32 };
        let quantizer = Quantizer::new(lanes, inputs.len() as u16);
        let block = quantizer.block_elements(lane_bytes);
        let len = inputs.first().map_or(0, Vec::len);
        let mut expected = Vec::with_capacity(len);
        for start in (0..len).step_by(block) {
            let blocks: Vec<&[Self]> =
                inputs.iter().map(|input| &input[start..len.min(start + block)]).collect();
            expected.extend(simulate(&quantizer, &blocks));
        }
        expected
    }

    fn same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Value for i32 {
    fn draw(rng: &mut Xoshiro256PlusPlus, _: usize) -> Self {
        rng.random()
    }

    fn expect(inputs: &[Vec<Self>], _: Mode, _: usize) -> Vec<Self> {
        let len = inputs.first().map_or(0, Vec::len);
        (0..len).map(|at| inputs.iter().fold(0, |sum: Self, input| sum.wrapping_add(input[at]))).collect()
    }

    fn same(self, other: Self) -> bool {
        self == other
    }
}

/// All ranks' tensors of one all-reduce and what each must become.
pub(super) struct Tensors<T> {
    pub(super) inputs: Vec<Vec<T>>,
    expected: Vec<T>,
}

impl<T: Value> Tensors<T> {
    pub(super) fn draw(seed: u64, world: u16, elements: usize, mode: Mode, lane_bytes: usize) -> Self {
        let tensor = |rank: u16| {
            let mut rng =
                Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank));
            (0..elements).map(|at| T::draw(&mut rng, at)).collect()
        };
        let inputs: Vec<Vec<T>> = (0..world).map(tensor).collect();
        let expected = T::expect(&inputs, mode, lane_bytes);
        Self { inputs, expected }
    }

    /// Reduces one rank's tensor in place; how many elements are not what they must be, and how it went.
    pub(super) fn reduce(
        &self,
        comm: &mut Communicator,
        tensor: &mut [T],
    ) -> Result<(u64, OpReport), netfold::Error> {
        let report = comm.all_reduce(tensor, ReduceOp::Sum)?;
        let wrong = tensor.iter().zip(&self.expected).filter(|(is, must)| !is.same(**must)).count() as u64;
        Ok((wrong, report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_sums_within_a_quantum_for_each_worker() {
        let tensors = Tensors::<f32>::draw(1, 3, 10_000, Mode::Bfp16, 256);
        let mut off = 0.0_f64;
        for (at, must) in tensors.expected.iter().enumerate() {
            let sum: f64 = tensors.inputs.iter().map(|input| f64::from(input[at])).sum();
            off = off.max((f64::from(*must) - sum).abs());
        }
        assert!(off > 0.0 && off < 3.0 * 2f64.powi(-13), "{off}");
        let tensors = Tensors::<i32>::draw(1, 2, 100, Mode::I32, 256);
        assert_eq!(tensors.expected[7], tensors.inputs[0][7].wrapping_add(tensors.inputs[1][7]));
        assert_ne!(tensors.inputs[0], tensors.inputs[1]);
    }
}
