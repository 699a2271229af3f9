//! `netfold bench quantize`.

use clap::Args;
use netfold_measure::quantize::{QuantizeConfig, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;
use crate::size::Bytes;

const EXAMPLES: &str = "\
Examples:
  netfold bench quantize
  netfold bench quantize --bytes 512MiB --payload 8192 --json";

/// Measure the quantisation of tensors into packets and back, and compare with memcpy.
///
/// Packs a tensor of f32 into packets in network order, rounded to nearest and stochastically (`stochastic`), unpacks it again,
/// and computes the rounding error (`residual`), on buffers larger than the cache. The ratio is the speed of each over
/// that of a memcpy of the same f32 bytes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Quantize {
    /// Bytes of the f32 tensor.
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    bytes: Bytes,
    /// Payload of a packet in bytes, a multiple of 4.
    #[arg(long, default_value_t = 1408)]
    payload: u32,
    /// Timed pairs of memcpy and kernel; medians are reported.
    #[arg(long, default_value_t = QuantizeConfig::default().repetitions as u32, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

impl Quantize {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if self.payload == 0 || !self.payload.is_multiple_of(4) {
            return Err(CliError::Usage(format!("--payload {} is not a multiple of 4 bytes", self.payload)));
        }
        let config = QuantizeConfig {
            tensor_bytes: usize::try_from(self.bytes.0).unwrap_or(usize::MAX),
            payload_bytes: self.payload as usize,
            repetitions: self.repetitions as usize,
        };
        output.line(format_args!(
            "{:>12}{:>8}{:>10}{:>18}{:>16}{:>14}",
            "direction", "mode", "kernel", "ratio to memcpy", "kernel GB/s", "memcpy GB/s"
        ))?;
        for row in run(&config) {
            output.event(&Tagged { event: "quantize", row: &row })?;
            let direction = row.direction.name();
            output.line(format_args!(
                "{direction:>12}{:>8}{:>10}{:>18.2}{:>16.2}{:>14.2}",
                row.mode, row.kernel, row.ratio_to_memcpy, row.kernel_gbps, row.memcpy_gbps
            ))?;
        }
        Ok(())
    }
}
