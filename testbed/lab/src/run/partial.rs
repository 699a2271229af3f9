//! Tensors of operations that may leave contributions out, and whether a result is the sum of exactly the contributions that it names.
//!
//! Reports name how many chunks lack a rank's contribution. Which these are follows from the numbers: every number is in [0.5, 1), so the exponents of all blocks are
//! the same, and a sum without some contributions has other bits than any other. A result is right if each block is the rescaled sum of some set
//! of contributions, bit for bit, and if each rank is missing in as many blocks as it was told.

use netfold::quantize::{Lanes, Quantizer, simulate};
use netfold::{AsyncHandle, Collective, Communicator, Error, Mode, OpReport, ReduceOp, Tolerance};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::values::Path;

/// Ranks at most: every set of them is tried.
pub(super) const WORLD_MAX: usize = 16;

/// Elements of a block by which sets of contributors are told apart before all bits are compared.
const SAMPLE: usize = 8;

/// All ranks' tensors of one operation.
pub(super) struct PartialTensors {
    pub(super) inputs: Vec<Vec<f32>>,
}

impl PartialTensors {
    pub(super) fn random(seed: u64, world: u16, elements: usize) -> Self {
        let tensor = |rank: u16| {
            let mut rng =
                Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank));
            (0..elements).map(|_| rng.random_range(0.5f32..1.0)).collect()
        };
        Self { inputs: (0..world).map(tensor).collect() }
    }

    /// Starts an all-reduce or a reduce-scatter on one rank's tensor.
    pub(super) fn start(
        &self,
        comm: &Communicator,
        collective: Collective,
        class: u8,
    ) -> Result<AsyncHandle<f32>, Error> {
        comm.run_async(collective, self.inputs[usize::from(comm.rank())].clone(), ReduceOp::Sum, class)
    }

    /// Elements that are not what they must be, and chunks that are missing beyond what was reported or is tolerated. `outcomes`: of all ranks.
    pub(super) fn wrong(
        &self,
        collective: Collective,
        path: &Path,
        tolerance: Tolerance,
        outcomes: &[(Vec<f32>, OpReport)],
    ) -> u64 {
        let mut wrong = 0;
        let result: Vec<f32> = if collective == Collective::ReduceScatter {
            outcomes.iter().flat_map(|(part, _)| part.iter().copied()).collect()
        } else {
            let Some((first, _)) = outcomes.first() else { return 0 };
            for (tensor, _) in outcomes {
                let differs = |(is, first): &(&f32, &f32)| is.to_bits() != first.to_bits();
                wrong += tensor.iter().zip(first).filter(differs).count() as u64;
            }
            first.clone()
        };
        let lanes = if path.mode == Mode::Bfp16 { Lanes::Bfp16 } else { Lanes::Bfp32 };
        let quantizer = Quantizer::new(lanes, self.inputs.len() as u16);
        let block = quantizer.block_elements(path.lane_bytes);
        let (mut missing, mut partial) = (vec![0u64; self.inputs.len()], 0u64);
        for (index, result) in result.chunks(block).enumerate() {
            let at = index * block;
            let inputs: Vec<&[f32]> = self.inputs.iter().map(|input| &input[at..at + result.len()]).collect();
            let Some(contributors) = contributors(&quantizer, &inputs, result) else {
                wrong += result.len() as u64;
                continue;
            };
            let left_out = |rank: usize| contributors >> rank & 1 == 0;
            partial += u64::from((0..inputs.len()).any(left_out));
            for (rank, missing) in missing.iter_mut().enumerate() {
                *missing += u64::from(left_out(rank));
            }
        }
        for ((_, report), missing) in outcomes.iter().zip(missing) {
            let (left_out, chunks) = (u64::from(report.left_out), u64::from(report.chunks));
            let tolerated = chunks * u64::from(tolerance.parts) / u64::from(Tolerance::PARTS);
            wrong += left_out.abs_diff(missing) + u64::from(report.partial).abs_diff(partial);
            wrong += left_out.saturating_sub(tolerated);
        }
        wrong
    }
}

/// The set of ranks, as bits, whose contributions a block is the rescaled sum of; `None` if there is none.
fn contributors(quantizer: &Quantizer, inputs: &[&[f32]], result: &[f32]) -> Option<u32> {
    let all = u32::MAX >> (32 - inputs.len() as u32);
    // That of all ranks first.
    let mut sets = (0..=all).rev();
    sets.find(|set| is_near(inputs, *set, result) && is_sum(quantizer, inputs, *set, result))
}

/// Whether the first elements are about the rescaled sum of a set.
fn is_near(inputs: &[&[f32]], set: u32, result: &[f32]) -> bool {
    let world = inputs.len() as f64;
    let factor = if set == 0 { 0.0 } else { world / f64::from(set.count_ones()) };
    result.iter().take(SAMPLE).enumerate().all(|(at, is)| {
        let chosen = inputs.iter().enumerate().filter(|(rank, _)| set >> rank & 1 == 1);
        let sum: f64 = chosen.map(|(_, input)| f64::from(input[at])).sum();
        // A quantum of bfp16 with the headroom of so many ranks, for each.
        (f64::from(*is) - factor * sum).abs()
            < factor * world * world.log2().ceil().exp2() * 2f64.powi(-14) + 1e-6
    })
}

fn is_sum(quantizer: &Quantizer, inputs: &[&[f32]], set: u32, result: &[f32]) -> bool {
    let chosen: Vec<&[f32]> =
        inputs.iter().enumerate().filter(|(rank, _)| set >> rank & 1 == 1).map(|(_, input)| *input).collect();
    if chosen.is_empty() {
        return result.iter().all(|is| is.to_bits() == 0);
    }
    let (world, count) = (inputs.len(), chosen.len());
    let factor = world as f32 / count as f32;
    let rescaled = |sum: f32| if count < world { sum * factor } else { sum };
    let sums = simulate(quantizer, &chosen);
    result.iter().zip(sums).all(|(is, sum)| is.to_bits() == rescaled(sum).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path = Path { mode: Mode::Bfp16, lane_bytes: 256, levels: 1, shift: 0 };

    /// What ranks get if the last one is missing in the first block.
    fn outcomes(tensors: &PartialTensors, mode: Mode) -> Vec<(Vec<f32>, OpReport)> {
        let lanes = if mode == Mode::Bfp16 { Lanes::Bfp16 } else { Lanes::Bfp32 };
        let quantizer = Quantizer::new(lanes, 4);
        let block = quantizer.block_elements(256);
        let mut result = Vec::new();
        for at in (0..1000).step_by(block) {
            let inputs: Vec<&[f32]> =
                tensors.inputs.iter().map(|input| &input[at..1000.min(at + block)]).collect();
            if at == 0 {
                result.extend(simulate(&quantizer, &inputs[..3]).iter().map(|sum| sum * (4.0f32 / 3.0)));
            } else {
                result.extend(simulate(&quantizer, &inputs));
            }
        }
        let report = |left_out| OpReport { chunks: 10, partial: 1, left_out, ..OpReport::default() };
        (0..4).map(|rank| (result.clone(), report(u32::from(rank == 3)))).collect()
    }

    #[test]
    fn a_result_is_the_sum_of_what_it_names_or_wrong() {
        let tolerance = Tolerance::fraction(0.1).unwrap();
        for mode in [Mode::Bfp16, Mode::Bfp32] {
            let tensors = PartialTensors::random(1, 4, 1000);
            let path = Path { mode, ..PATH };
            let wrong = |outcomes: &[(Vec<f32>, OpReport)], tolerance| {
                tensors.wrong(Collective::AllReduce, &path, tolerance, outcomes)
            };
            let right = outcomes(&tensors, mode);
            assert_eq!(wrong(&right, tolerance), 0, "{mode}");
            assert_eq!(wrong(&right, Tolerance::NONE), 1, "{mode}: more than tolerated");
            let mut unnamed = right.clone();
            (unnamed[3].1.left_out, unnamed[0].1.left_out) = (0, 1);
            assert_eq!(wrong(&unnamed, tolerance), 2, "{mode}: another rank is named");
            let mut other = right.clone();
            other.iter_mut().for_each(|(result, _)| result[500] = f32::from_bits(result[500].to_bits() ^ 1));
            assert!(wrong(&other, tolerance) >= 64, "{mode}: a block that is no such sum");
            let mut differs = right;
            differs[1].0[999] = 0.0;
            assert_eq!(wrong(&differs, tolerance), 1, "{mode}: ranks differ");
        }
    }
}
