//! `netfold bench congestion`.

use clap::Args;
use netfold::Builder;
use netfold_control::CongestionAlgorithm;
use netfold_measure::all_reduce::Transport;
use netfold_measure::congestion::{CongestionConfig, CongestionRow, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;
use crate::size::{Bytes, human};

const EXAMPLES: &str = "\
Examples:
  netfold bench congestion
  netfold bench congestion --algorithms dctcp --transport udp --bytes 16MiB --rounds 30
  netfold bench congestion --algorithms aimd,dctcp,dcqcn,swift --json

What congestion control saves where links are congested: `netfold testbed experiment incast`.";

/// Measure what congestion-control algorithms cost an all-reduce without congestion.
///
/// Four workers and the software switch are threads of this process. All algorithms take turns with `fixed`, whose windows are the
/// slots, and the ratio of a turn's time to that of `fixed` is computed in each round. Every element is checked; a wrong one is exit
/// code 1.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Congestion {
    /// Algorithms to compare with `fixed`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "dctcp,swift", value_parser = crate::command::congestion)]
    algorithms: Vec<CongestionAlgorithm>,
    /// Number of workers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    workers: u16,
    /// Tensor sizes of a rank, f32.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "256KiB,16MiB")]
    bytes: Vec<Bytes>,
    /// Packet I/O: loopback or udp.
    #[arg(long, value_delimiter = ',', default_value = "loopback,udp")]
    transport: Vec<Transport>,
    /// Slots of each job, a power of two.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Turns of each algorithm; medians are reported.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// All-reduces of a turn; 3 to 20 by size if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
}

impl Congestion {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        output.line(format_args!(
            "{:<14}{:<10}{:>9}{:>12}{:>10}{:>19}{:>8}{:>8}{:>9}",
            "algorithm", "over", "bytes", "time us", "of fixed", "min to max", "bound", "#wrong", "retransm."
        ))?;
        let mut wrong = 0;
        for transport in &self.transport {
            for bytes in &self.bytes {
                let config = CongestionConfig {
                    workers: self.workers,
                    transport: *transport,
                    slots: self.slots,
                    algorithms: self.algorithms.clone(),
                    rounds: self.rounds,
                    iterations: self.iterations,
                };
                let bar = output.bar(u64::from(self.rounds), "{spinner} rounds {pos}/{len}");
                let rows = run(&config, bytes.0, |round| bar.set_position(u64::from(round)))?;
                bar.finish_and_clear();
                rows.iter().try_for_each(|row| show(output, row))?;
                wrong += rows.iter().map(|row| row.wrong).sum::<u64>();
            }
        }
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }
}

fn show(output: &Output, row: &CongestionRow) -> Result<(), CliError> {
    output.event(&Tagged { event: "congestion", row })?;
    output.line(format_args!(
        "{:<14}{:<10}{:>9}{:>12.1}{:>10.3}{:>19}{:>6.0} %{:>8}{:>9}",
        row.algorithm,
        row.transport,
        human(row.bytes),
        row.time_us,
        row.ratio_to_fixed,
        format!("{:.3} to {:.3}", row.ratio_min, row.ratio_max),
        row.bound_ratio * 100.0,
        row.wrong,
        row.retransmits
    ))
}
