//! `netfold bench masks`.

use clap::Args;
use netfold_measure::masks::{MasksConfig, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold bench masks
  netfold bench masks --payload 256 --json";

/// Measure the masks of confidential jobs, for each packet, and compare with memcpy.
///
/// `mask` is what a rank adds to a packet that it sends, two keystreams; `unmask` is what it subtracts from a result, one. The ratio is the
/// speed of each over that of a memcpy of the same lanes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Masks {
    /// Payload of a packet in bytes, a multiple of 4.
    #[arg(long, default_value_t = 1408, value_parser = clap::value_parser!(u32).range(4..=65_476))]
    payload: u32,
    /// Packets in the buffer.
    #[arg(long, default_value_t = MasksConfig::default().packets as u32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    packets: u32,
    /// Timed pairs of memcpy and kernel; medians are reported.
    #[arg(long, default_value_t = MasksConfig::default().repetitions as u32, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

impl Masks {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if !self.payload.is_multiple_of(4) {
            return Err(CliError::Usage(format!("--payload {} is not a multiple of 4 bytes", self.payload)));
        }
        let config = MasksConfig {
            packets: self.packets as usize,
            payload_bytes: self.payload as usize,
            repetitions: self.repetitions as usize,
        };
        output.line(format_args!(
            "{:>10}{:>10}{:>16}{:>12}{:>12}{:>10}{:>18}",
            "direction", "kernel", "ns per packet", "min ns", "max ns", "GB/s", "ratio to memcpy"
        ))?;
        for row in run(&config) {
            output.event(&Tagged { event: "masks", row: &row })?;
            output.line(format_args!(
                "{:>10}{:>10}{:>16.0}{:>12.0}{:>12.0}{:>10.2}{:>18.2}",
                row.direction.name(),
                row.kernel,
                row.ns_per_packet,
                row.ns_min,
                row.ns_max,
                row.gbps,
                row.ratio_to_memcpy
            ))?;
        }
        Ok(())
    }
}
