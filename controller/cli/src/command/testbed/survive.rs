//! `netfold testbed survive`.

use std::time::Duration;

use clap::Args;
use netfold_lab::survive::{SurviveConfig, SurviveRig, SurviveRow, Victim};
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::{Bytes, grouped};

const EXAMPLES: &str = "\
Examples:
  netfold testbed survive                        50 controllers, 10 switches and 10 workers
  netfold testbed survive --controllers 5 --switches 2 --workers 2 --bytes 64KiB";

/// Kill a controller, a switch and workers with SIGKILL while two jobs of two tenants run.
///
/// Switch, controller and workers are processes of this machine. The controller is killed while it writes its database. Every
/// element of every all-reduce is checked; acknowledged changes must be stored after each kill, and every job must recover. If
/// anything is wrong the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Survive {
    /// Kills of the controller.
    #[arg(long, default_value_t = 50)]
    controllers: u32,
    /// Kills of the switch.
    #[arg(long, default_value_t = 10)]
    switches: u32,
    /// Kills of a worker.
    #[arg(long, default_value_t = 10)]
    workers: u32,
    /// Workers of each of the two jobs. A job continues with one less after a kill, and a single worker needs no switch.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=8))]
    world: u16,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    bytes: Bytes,
    /// Seed of the times of the kills and of the killed workers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Survive {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let program = crate::command::own_program()?;
        let folder = std::env::temp_dir().join(format!("netfold-survive-{}", std::process::id()));
        let config = SurviveConfig {
            program,
            folder: folder.clone(),
            kills: [self.controllers, self.switches, self.workers],
            workers: self.world,
            bytes: self.bytes.0,
            seed: self.seed,
        };
        let outcome = self.kill_all(output, config);
        // Remaining files would only fill the disk.
        let _ = std::fs::remove_dir_all(folder);
        outcome
    }

    fn kill_all(&self, output: &Output, config: SurviveConfig) -> Result<(), CliError> {
        output.line(format_args!(
            "two jobs of {} workers, {} bytes each all-reduce, seed {}\n",
            self.world, self.bytes.0, self.seed
        ))?;
        let failed = |error| CliError::testbed("the recovery", error);
        let kills = config.kills;
        let mut rig = SurviveRig::start(config).map_err(failed)?;
        output.line(format_args!(
            "{:<12}{:>7}{:>13}{:>13}{:>14}{:>9}{:>9}{:>7}",
            "killed", "times", "median ms", "longest ms", "all-reduces", "#wrong", "#failed", "#lost"
        ))?;
        let mut broken = 0;
        for victim in Victim::ALL {
            let bar = output.bar(u64::from(kills[victim as usize]), "{spinner} {msg} {pos}/{len}");
            bar.set_message(victim.name());
            let row = rig.kill(victim, |number| bar.set_position(u64::from(number)));
            bar.finish_and_clear();
            let row = row.map_err(failed)?;
            broken += row.wrong + row.failures.len() as u64 + u64::from(row.lost);
            show(output, &row)?;
        }
        if broken > 0 {
            return Err(CliError::Survived { broken });
        }
        output.line(format_args!("\n{}", output.paint(Tone::Good, "Nothing was wrong or lost.")))
    }
}

fn show(output: &Output, row: &SurviveRow) -> Result<(), CliError> {
    let mut times = row.recovered.clone();
    times.sort();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let (median, longest) = (ms(times.get(times.len() / 2)), ms(times.last()));
    output.line(format_args!(
        "{:<12}{:>7}{:>13.0}{:>13.0}{:>14}{:>9}{:>9}{:>7}",
        row.victim.name(),
        row.kills,
        median,
        longest,
        grouped(row.operations),
        row.wrong,
        row.failures.len(),
        row.lost
    ))?;
    for failure in &row.failures {
        output.line(format_args!("  {failure}"))?;
    }
    output.event(&json!({
        "event": "killed", "what": row.victim.name(), "times": row.kills, "median_ms": median, "longest_ms": longest,
        "all_reduces": row.operations, "wrong": row.wrong, "failures": row.failures, "lost": row.lost,
    }))
}
