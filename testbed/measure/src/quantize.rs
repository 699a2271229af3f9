//! The quantiser against a memory copy of the same tensor bytes.
//!
//! Both work through buffers larger than any cache, chunk by chunk as a worker does: for `quantize`, the exponent scan of
//! each block and then its packing; for `stochastic`, the same with stochastic rounding; for `dequantize`, unpacking; for
//! `residual`, what error feedback computes before it. Each repetition times a copy of the tensor and the
//! kernel back to back, in alternating order, so that both meet the same state of the machine; the ratio is taken
//! within the pair, and medians are over the pairs.
//!
//! The bound: a copy moves 4 bytes in and 4 bytes out per element, and the kernels 4 and 2 (bfp16) or 4 and 4 (bfp32),
//! in the one direction or the other. When memory is the limit, bfp16 may therefore come out above 1.

use std::hint::black_box;
use std::time::{Duration, Instant};

use netfold::quantize::{Lanes, Quantizer, RoundingRng};
use serde::Serialize;

use netfold_testkit::sample::Sample;

/// Which way the kernel works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Tensor to packet lanes, exponent scan included.
    Quantize,
    /// Packet lanes to tensor.
    Dequantize,
    /// As `Quantize`, with stochastic rounding.
    Stochastic,
    /// Tensor to what rounding it to the nearest leaves out.
    Residual,
}

impl Direction {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quantize => "quantize",
            Self::Dequantize => "dequantize",
            Self::Stochastic => "stochastic",
            Self::Residual => "residual",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeConfig {
    /// Bytes of f32 tensor; rounded down to whole blocks, at least one.
    pub tensor_bytes: usize,
    /// Bytes of lanes in a packet, a multiple of 4; 0 counts as 4.
    pub payload_bytes: usize,
    /// Timed pairs of copy and kernel; 0 counts as 1.
    pub repetitions: usize,
}

impl Default for QuantizeConfig {
    /// 128 MiB of tensor, packets of 1408 bytes, 15 pairs.
    fn default() -> Self {
        Self { tensor_bytes: 128 << 20, payload_bytes: 1408, repetitions: 15 }
    }
}

/// One line of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct QuantizeRow {
    /// Which way.
    pub direction: Direction,
    /// Numeric mode: `bfp32` or `bfp16`.
    pub mode: &'static str,
    /// Time of the copy over time of the kernel for the same f32 bytes: median of the pairs.
    pub ratio_to_memcpy: f64,
    /// Smallest ratio of any pair.
    pub ratio_min: f64,
    /// Largest ratio of any pair.
    pub ratio_max: f64,
    /// Tensor bytes per nanosecond of the kernel, median.
    pub kernel_gbps: f64,
    /// Tensor bytes per nanosecond of the copy, median.
    pub memcpy_gbps: f64,
    /// Bytes of the f32 tensor.
    pub tensor_bytes: usize,
    /// Bytes of lanes in a packet.
    pub payload_bytes: usize,
    /// Timed pairs.
    pub repetitions: usize,
    /// Instructions in use: `avx2`, `neon` or `scalar`.
    pub kernel: &'static str,
}

/// Measures every direction in both modes of plain switches: eight rows.
///
/// Takes three buffers of `tensor_bytes` and one of the packed size.
pub fn run(config: &QuantizeConfig) -> Vec<QuantizeRow> {
    let payload = (config.payload_bytes / 4).max(1) * 4;
    let largest_block = payload / 2;
    let elements = (config.tensor_bytes / 4 / largest_block).max(1) * largest_block;
    let mut bench = Bench {
        tensor: tensor(elements),
        copy: vec![0.0; elements],
        lanes: vec![0; elements * 4],
        payload,
        repetitions: config.repetitions.max(1),
    };
    let mut rows = Vec::new();
    for (lanes, mode) in [(Lanes::Bfp32, "bfp32"), (Lanes::Bfp16, "bfp16")] {
        let quantizer = Quantizer::new(lanes, 4);
        rows.push(bench.measure(Direction::Quantize, mode, &quantizer));
        rows.push(bench.measure(Direction::Dequantize, mode, &quantizer));
        rows.push(bench.measure(Direction::Stochastic, mode, &quantizer.stochastic(RoundingRng::new(1, 0))));
        rows.push(bench.measure(Direction::Residual, mode, &quantizer));
    }
    rows
}

struct Bench {
    tensor: Vec<f32>,
    copy: Vec<f32>,
    lanes: Vec<u8>,
    payload: usize,
    repetitions: usize,
}

impl Bench {
    fn measure(&mut self, direction: Direction, mode: &'static str, quantizer: &Quantizer) -> QuantizeRow {
        let bytes = size_of_val(&self.tensor[..]);
        // Untimed: faults the pages in and leaves lanes to unpack.
        self.copy();
        self.quantize(quantizer);
        let mut pairs = Vec::with_capacity(self.repetitions);
        for i in 0..self.repetitions {
            let (copy, kernel) = if i % 2 == 0 {
                let kernel = self.kernel(direction, quantizer);
                (self.copy(), kernel)
            } else {
                (self.copy(), self.kernel(direction, quantizer))
            };
            pairs.push((copy.as_secs_f64(), kernel.as_secs_f64()));
        }
        let ratios: Sample = pairs.iter().map(|(copy, kernel)| copy / kernel).collect();
        let gbps = |seconds: Sample| bytes as f64 / seconds.median() / 1e9;
        QuantizeRow {
            direction,
            mode,
            ratio_to_memcpy: ratios.median(),
            ratio_min: ratios.min(),
            ratio_max: ratios.max(),
            kernel_gbps: gbps(pairs.iter().map(|pair| pair.1).collect()),
            memcpy_gbps: gbps(pairs.iter().map(|pair| pair.0).collect()),
            tensor_bytes: bytes,
            payload_bytes: self.payload,
            repetitions: self.repetitions,
            kernel: quantizer.kernel().name(),
        }
    }

    fn copy(&mut self) -> Duration {
        let start = Instant::now();
        self.copy.copy_from_slice(black_box(&self.tensor));
        black_box(&mut self.copy);
        start.elapsed()
    }

    fn kernel(&mut self, direction: Direction, quantizer: &Quantizer) -> Duration {
        match direction {
            Direction::Quantize | Direction::Stochastic => self.quantize(quantizer),
            Direction::Dequantize => self.dequantize(quantizer),
            Direction::Residual => self.residual(quantizer),
        }
    }

    fn quantize(&mut self, quantizer: &Quantizer) -> Duration {
        let start = Instant::now();
        let blocks = self.tensor.chunks(quantizer.block_elements(self.payload));
        for (number, (block, lanes)) in (0..).zip(blocks.zip(self.lanes.chunks_exact_mut(self.payload))) {
            let exp = quantizer.exponent(block);
            quantizer.pack_block(number, block, exp, lanes);
        }
        black_box(&mut self.lanes);
        start.elapsed()
    }

    fn dequantize(&mut self, quantizer: &Quantizer) -> Duration {
        let start = Instant::now();
        let blocks = self.copy.chunks_mut(quantizer.block_elements(self.payload));
        for (block, lanes) in blocks.zip(self.lanes.chunks_exact(self.payload)) {
            quantizer.unpack(lanes, black_box(127), 4, block);
        }
        black_box(&mut self.copy);
        start.elapsed()
    }

    fn residual(&mut self, quantizer: &Quantizer) -> Duration {
        let start = Instant::now();
        let elements = quantizer.block_elements(self.payload);
        let blocks = self.tensor.chunks(elements).zip(self.copy.chunks_mut(elements));
        for (number, (block, residual)) in (0..).zip(blocks) {
            quantizer.residual(number, block, black_box(127), residual);
        }
        black_box(&mut self.copy);
        start.elapsed()
    }
}

/// Numbers of several magnitudes and both signs, the same in every run.
fn tensor(elements: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..elements).map(|_| next() * next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_cover_every_direction_of_both_modes() {
        let rows = run(&QuantizeConfig { tensor_bytes: 1 << 16, payload_bytes: 256, repetitions: 2 });
        let seen: Vec<_> = rows.iter().map(|row| (row.direction, row.mode)).collect();
        assert_eq!(
            seen,
            [
                (Direction::Quantize, "bfp32"),
                (Direction::Dequantize, "bfp32"),
                (Direction::Stochastic, "bfp32"),
                (Direction::Residual, "bfp32"),
                (Direction::Quantize, "bfp16"),
                (Direction::Dequantize, "bfp16"),
                (Direction::Stochastic, "bfp16"),
                (Direction::Residual, "bfp16")
            ]
        );
        for row in rows {
            assert!(row.ratio_min <= row.ratio_to_memcpy && row.ratio_to_memcpy <= row.ratio_max, "{row:?}");
            assert!(row.kernel_gbps > 0.0 && row.memcpy_gbps > 0.0, "{row:?}");
        }
    }
}
