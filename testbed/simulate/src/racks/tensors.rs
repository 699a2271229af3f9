//! One step's tensors, and the codec that hands them to a worker.

use netfold::quantize::{Lanes, Quantizer};
use netfold_control::Mode;
use netfold_proto::{
    Codec, CodedChunk, Collective, Contributors, DType, Descriptor, Importance, OpId, OpSpec, Sharing,
    Tolerance,
};
use netfold_wire::{LaneOp, ReduceOp};

use super::LANE_WORDS;

/// One rank's tensors.
pub type Tensors32 = Vec<Vec<f32>>;

/// What every rank puts in and gets out in one step.
#[derive(Debug)]
pub struct Step {
    /// Of each rank, its tensors.
    inputs: Vec<Vec<Vec<f32>>>,
    /// Of each rank, what was left out of its tensors, if that is kept.
    residuals: Option<Vec<Vec<Vec<f32>>>>,
    /// The sums, as rank 0 has them.
    sums: Vec<Vec<f32>>,
}

impl Step {
    /// A step with these tensors of each rank. Shares that are left out are kept if `feedback`.
    pub fn new(inputs: Vec<Vec<Vec<f32>>>, feedback: bool) -> Self {
        let zeros = |tensors: &Vec<Vec<f32>>| tensors.iter().map(|tensor| vec![0.0; tensor.len()]).collect();
        let residuals = feedback.then(|| inputs.iter().map(zeros).collect());
        Self { inputs, residuals, sums: Vec::new() }
    }

    /// Tensors of a rank.
    pub fn tensors(&self) -> usize {
        self.inputs.first().map_or(0, Vec::len)
    }

    /// What ranks put in.
    pub fn inputs(&self) -> &[Vec<Vec<f32>>] {
        &self.inputs
    }

    /// The sums.
    pub fn sums(&self) -> &[Vec<f32>] {
        &self.sums
    }

    /// Sums, and what was left out, if it was kept.
    pub fn into_parts(self) -> (Tensors32, Option<Vec<Tensors32>>) {
        (self.sums, self.residuals)
    }
}

/// One rank's tensors of a step, in place.
#[derive(Debug)]
pub(super) struct Tensors {
    quantizer: Quantizer,
    world: u16,
    block: usize,
    tensors: Vec<Vec<f32>>,
    residuals: Option<Vec<Vec<f32>>>,
    tolerance: Tolerance,
    importance: Importance,
    /// Number of the step's first operation.
    first: u64,
    chunks: u64,
    /// Recent block exponents, for values that are small.
    exponents: [u32; 256],
}

impl Tensors {
    pub(super) fn new(lanes: Lanes, world: u16, importance: Importance) -> Self {
        let quantizer = Quantizer::new(lanes, world);
        Self {
            block: quantizer.block_elements(4 * LANE_WORDS as usize),
            quantizer,
            world,
            tensors: Vec::new(),
            residuals: None,
            tolerance: Tolerance::NONE,
            importance,
            first: 0,
            chunks: 0,
            exponents: [0; 256],
        }
    }

    /// Takes a rank's tensors out of a step; what to submit for them.
    pub(super) fn begin(&mut self, rank: usize, step: &mut Step, tolerance: Tolerance) -> Vec<OpSpec> {
        self.tensors = std::mem::take(&mut step.inputs[rank]);
        self.residuals = step.residuals.as_mut().map(|all| std::mem::take(&mut all[rank]));
        (self.tolerance, self.chunks) = (tolerance, 0);
        let importance = self.importance;
        let spec = |tensor: &Vec<f32>| OpSpec {
            descriptor: Descriptor {
                collective: Collective::AllReduce,
                dtype: DType::F32,
                mode: Mode::Bfp16,
                op: ReduceOp::Sum,
                tolerance,
                elements: tensor.len() as u64,
            },
            data_chunks: tensor.len().div_ceil(self.block) as u32,
            exponents: true,
            class: 0,
            importance,
            lane_op: LaneOp::Sum,
            sharing: Sharing::All,
        };
        self.tensors.iter().map(spec).collect()
    }

    /// Puts what a rank has back into the step: the sums, the same on all, and what was left out. Chunks that came.
    pub(super) fn end(&mut self, rank: usize, step: &mut Step) -> u64 {
        self.first += self.tensors.len() as u64;
        let sums = std::mem::take(&mut self.tensors);
        if rank == 0 {
            step.sums = sums;
        } else {
            assert_eq!(step.sums, sums, "rank {rank} has what rank 0 has");
        }
        if let (Some(all), Some(own)) = (&mut step.residuals, self.residuals.take()) {
            all[rank] = own;
        }
        self.chunks
    }

    fn place(&self, op: OpId, chunk: u32) -> (usize, std::ops::Range<usize>) {
        let tensor = (op.0 - self.first) as usize;
        let start = chunk as usize * self.block;
        (tensor, start..(start + self.block).min(self.tensors[tensor].len()))
    }
}

impl Codec for Tensors {
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8 {
        let (tensor, block) = self.place(op, chunk);
        self.quantizer.exponent(&self.tensors[tensor][block])
    }

    fn pack(&mut self, CodedChunk { op, chunk, exp, .. }: CodedChunk, lanes: &mut [u8]) {
        let (tensor, block) = self.place(op, chunk);
        self.quantizer.pack(&self.tensors[tensor][block], exp, lanes);
    }

    /// Not above the median of all blocks so far.
    fn is_expendable(&mut self, op: OpId, chunk: u32) -> bool {
        let exponent = usize::from(self.exponent(op, chunk));
        self.exponents[exponent] += 1;
        let below: u32 = self.exponents[..exponent].iter().sum();
        2 * below <= self.exponents.iter().sum()
    }

    fn unpack(&mut self, coded: CodedChunk, Contributors { count, own }: Contributors, lanes: &[u8]) {
        let CodedChunk { op, chunk, exp, .. } = coded;
        let (tensor, block) = self.place(op, chunk);
        self.chunks += 1;
        if let Some(residuals) = self.residuals.as_mut().filter(|_| !own) {
            residuals[tensor][block.clone()].copy_from_slice(&self.tensors[tensor][block.clone()]);
        }
        let block = &mut self.tensors[tensor][block];
        self.quantizer.unpack(lanes, exp, count, block);
        if self.tolerance.rescale && count > 0 && count < self.world {
            let factor = f32::from(self.world) / f32::from(count);
            block.iter_mut().for_each(|element| *element *= factor);
        }
    }
}
