//! `netfold bench tags`.

use clap::Args;
use netfold_measure::tags::{TagsConfig, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold bench tags
  netfold bench tags --payload 256 --json";

/// Measure the tags of authenticated packets, for each packet.
///
/// What the middleware of switches and workers adds to the time of a packet: `send` computes a tag and copies the packet, `multicast` does so once
/// for eight copies, `receive` verifies a tag. The time without it is that of copying the packets in memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tags {
    /// Payload of a packet in bytes, a multiple of 4.
    #[arg(long, default_value_t = 1408, value_parser = clap::value_parser!(u32).range(4..=65_468))]
    payload: u32,
    /// Bursts of 32 packets in a repetition.
    #[arg(long, default_value_t = TagsConfig::default().bursts as u32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    bursts: u32,
    /// Timed pairs of with and without; medians are reported.
    #[arg(long, default_value_t = TagsConfig::default().repetitions as u32, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

impl Tags {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if !self.payload.is_multiple_of(4) {
            return Err(CliError::Usage(format!("--payload {} is not a multiple of 4 bytes", self.payload)));
        }
        let config = TagsConfig {
            payload_bytes: self.payload as usize,
            bursts: self.bursts as usize,
            repetitions: self.repetitions as usize,
        };
        output.line(format_args!(
            "{:>10}{:>16}{:>10}{:>10}{:>10}{:>16}",
            "step", "ns per packet", "min ns", "max ns", "GB/s", "ns without"
        ))?;
        for row in run(&config) {
            output.event(&Tagged { event: "tags", row: &row })?;
            output.line(format_args!(
                "{:>10}{:>16.0}{:>10.0}{:>10.0}{:>10.2}{:>16.0}",
                row.step.name(),
                row.ns_per_packet,
                row.ns_min,
                row.ns_max,
                row.gbps,
                row.plain_ns_per_packet
            ))?;
        }
        Ok(())
    }
}
