//! What the masks of confidential jobs cost for each packet, against a memory copy of its lanes.
//!
//! Both work through a buffer of packets that is larger than the second-level cache, packet by packet as a worker does: `mask` adds two
//! keystreams to what is sent, `unmask` subtracts one from a result. Each repetition times the copy and the kernel back to back, in
//! alternating order, and the ratio is taken within the pair.

use std::hint::black_box;
use std::time::{Duration, Instant};

use netfold::confidential::{CodedChunk, Masks, OpId};
use netfold::quantize::Kernel;
use serde::Serialize;

use netfold_testkit::sample::Sample;

/// Which way the kernel works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Two keystreams are added to the lanes that are sent.
    Mask,
    /// One is subtracted from those of a result.
    Unmask,
}

impl Direction {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Unmask => "unmask",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct MasksConfig {
    /// Packets in the buffer; 0 counts as 1.
    pub packets: usize,
    /// Bytes of lanes in a packet, a multiple of 4 up to 65,476.
    pub payload_bytes: usize,
    /// Timed pairs of copy and kernel; 0 counts as 1.
    pub repetitions: usize,
}

impl Default for MasksConfig {
    /// 8192 packets of 1408 bytes, 15 pairs.
    fn default() -> Self {
        Self { packets: 8192, payload_bytes: 1408, repetitions: 15 }
    }
}

/// One line of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct MasksRow {
    /// Which way.
    pub direction: Direction,
    /// Nanoseconds for each packet, median of the repetitions.
    pub ns_per_packet: f64,
    /// Shortest repetition.
    pub ns_min: f64,
    /// Longest repetition.
    pub ns_max: f64,
    /// Bytes of lanes per nanosecond, median.
    pub gbps: f64,
    /// Time of the copy over that of the kernel for the same bytes: median of the pairs.
    pub ratio_to_memcpy: f64,
    /// Bytes of lanes in a packet.
    pub payload_bytes: usize,
    /// Timed pairs.
    pub repetitions: usize,
    /// Instructions in use beside those of AES: `avx2`, `neon` or `scalar`.
    pub kernel: &'static str,
}

/// Measures both directions: two rows.
pub fn run(config: &MasksConfig) -> Vec<MasksRow> {
    let payload = (config.payload_bytes / 4).clamp(1, 16_369) * 4;
    let packets = config.packets.max(1);
    let mut bench = Bench {
        // A rank in the middle: two keystreams.
        masks: Masks::new(&[7; 32], 0, (1, 4), payload),
        lanes: (0..packets * payload).map(|at| at as u8).collect(),
        copy: vec![0; packets * payload],
        payload,
        operation: 0,
    };
    [Direction::Mask, Direction::Unmask]
        .map(|direction| bench.measure(direction, config.repetitions.max(1)))
        .into()
}

struct Bench {
    masks: Masks,
    lanes: Vec<u8>,
    copy: Vec<u8>,
    payload: usize,
    /// Every pass is another operation, as in a job.
    operation: u64,
}

impl Bench {
    fn measure(&mut self, direction: Direction, repetitions: usize) -> MasksRow {
        // Untimed: faults the pages in.
        self.memcpy();
        self.kernel(direction);
        let pairs: Vec<(Duration, Duration)> = (0..repetitions)
            .map(|at| {
                if at % 2 == 0 {
                    let kernel = self.kernel(direction);
                    (self.memcpy(), kernel)
                } else {
                    (self.memcpy(), self.kernel(direction))
                }
            })
            .collect();
        let packets = (self.lanes.len() / self.payload) as f64;
        let ratios: Sample =
            pairs.iter().map(|(copy, kernel)| copy.as_secs_f64() / kernel.as_secs_f64()).collect();
        let times: Sample = pairs.iter().map(|(_, kernel)| kernel.as_secs_f64() * 1e9 / packets).collect();
        MasksRow {
            direction,
            ns_per_packet: times.median(),
            ns_min: times.min(),
            ns_max: times.max(),
            gbps: self.payload as f64 / times.median(),
            ratio_to_memcpy: ratios.median(),
            payload_bytes: self.payload,
            repetitions,
            kernel: Kernel::detect().name(),
        }
    }

    fn memcpy(&mut self) -> Duration {
        let start = Instant::now();
        for (to, from) in self.copy.chunks_exact_mut(self.payload).zip(self.lanes.chunks_exact(self.payload))
        {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut self.copy);
        start.elapsed()
    }

    fn kernel(&mut self, direction: Direction) -> Duration {
        self.operation += 1;
        let Self { masks, lanes, payload, operation, .. } = self;
        let position = |chunk| CodedChunk { op: OpId(*operation), chunk, exp: 130, full_headroom: false };
        let start = Instant::now();
        for (chunk, lanes) in (0..).zip(lanes.chunks_exact_mut(*payload)) {
            match direction {
                Direction::Mask => masks.add(position(chunk), lanes),
                Direction::Unmask => {
                    black_box(masks.remove(position(chunk), lanes));
                }
            }
        }
        black_box(lanes);
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_measured() {
        let rows = run(&MasksConfig { packets: 16, payload_bytes: 256, repetitions: 3 });
        assert_eq!(
            rows.iter().map(|row| row.direction).collect::<Vec<_>>(),
            [Direction::Mask, Direction::Unmask]
        );
        for row in rows {
            assert!(row.ns_min <= row.ns_per_packet && row.ns_per_packet <= row.ns_max, "{row:?}");
            assert!(row.gbps > 0.0 && row.ratio_to_memcpy > 0.0 && row.payload_bytes == 256, "{row:?}");
        }
    }
}
