//! `netfold bench admission`.

use clap::Args;
use netfold::Builder;
use netfold_measure::admission::{AdmissionConfig, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold bench admission                            32 workers, a spine and two leaves
  netfold bench admission --workers 8 --switches 1";

/// Measure how long a controller takes to admit a job.
///
/// A controller with a database admits a job to a tree of software switches that it drives over P4Runtime, each a process of this
/// machine; the time runs from the first worker's request until the last is admitted, when all slots are cleared and all tables written.
/// The ratio is to the same job at a software switch's own control port.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admission {
    /// Number of workers.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=32))]
    workers: u16,
    /// Switches of the job's tree: 1, or a spine and leaves below it, 3 or more.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    switches: u16,
    /// Slots of the job, a power of two.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Admissions to time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

impl Admission {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if self.switches == 2 || self.switches > self.workers + 1 {
            return Err(CliError::Usage(format!(
                "--switches {}: 1, or a spine and 2 leaves or more, each with a worker",
                self.switches
            )));
        }
        let program = crate::command::own_program()?;
        let folder = std::env::temp_dir().join(format!("netfold-admission-{}", std::process::id()));
        let config = AdmissionConfig {
            program,
            folder: folder.clone(),
            workers: self.workers,
            switches: self.switches,
            slots: self.slots,
            rounds: self.rounds,
        };
        let bar = output.bar(u64::from(self.rounds), "{spinner} admissions {pos}/{len}");
        let row = run(&config, |round| bar.set_position(u64::from(round)));
        bar.finish_and_clear();
        // Remaining files would only fill the disk.
        let _ = std::fs::remove_dir_all(folder);
        let row = row.map_err(|error| CliError::Admission(Box::new(error)))?;
        output.line(format_args!(
            "{:>8}{:>10}{:>7}{:>8}{:>12}{:>9}{:>12}{:>18}{:>14}",
            "workers",
            "switches",
            "slots",
            "rounds",
            "median ms",
            "p90 ms",
            "longest ms",
            "switch's own ms",
            "ratio to own"
        ))?;
        output.event(&Tagged { event: "admission", row: &row })?;
        output.line(format_args!(
            "{:>8}{:>10}{:>7}{:>8}{:>12.1}{:>9.1}{:>12.1}{:>18.1}{:>14.1}",
            row.workers,
            row.switches,
            row.slots,
            row.rounds,
            row.median_ms,
            row.p90_ms,
            row.longest_ms,
            row.own_median_ms,
            row.ratio_to_own
        ))
    }
}
