//! `netfold testbed vopr`.

use std::time::{Duration, Instant};

use clap::Args;
use netfold_simulate::vopr::{self, Summary, Totals};
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::grouped;

const EXAMPLES: &str = "\
Examples:
  netfold testbed vopr --seeds 2000          seeds 1 to 2000
  netfold testbed vopr --minutes 60          as many seeds as there is time for
  netfold testbed vopr --seed 4711 --seeds 1 one seed again; if it breaks an invariant, its last events are printed";

/// Simulate whole systems, each from one seed: workers, switches, controllers, their database, and what goes wrong between them.
///
/// The simulated processes run the product's code in virtual time. A seed decides on the topology, the jobs, the faults of links and
/// processes, and what an adversarial tenant does. Sums must be correct, jobs may end only by what a fault explains, and in the end nothing
/// may be left of them. Without --seeds and --minutes it runs until it is interrupted. If an invariant is broken the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Vopr {
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Time after which no more seeds are begun.
    #[arg(long, conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(1..=525_600))]
    minutes: Option<u64>,
}

impl Vopr {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        // A violation is reported with the history that led to it, and not where it was detected.
        std::panic::set_hook(Box::new(|_| {}));
        // Simulated processes warn of what is done to them. With -v they say so.
        if log::max_level() <= log::LevelFilter::Warn {
            log::set_max_level(log::LevelFilter::Off);
        }
        let start = Instant::now();
        let end = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        let bar = output.bar(self.seeds.unwrap_or(0), "{bar:30} {pos} seeds, {msg}");
        let stop = |begun| {
            self.seeds.is_some_and(|seeds| begun >= seeds) || end.is_some_and(|end| start.elapsed() >= end)
        };
        let progress = |totals: &Totals| {
            bar.set_position(totals.seeds);
            bar.set_message(format!("{:.0} a minute", per_minute(totals.seeds, start.elapsed())));
        };
        let explored = vopr::explore(self.seed, stop, progress);
        bar.finish_and_clear();
        match explored {
            Ok(totals) => self.report(output, &totals, start.elapsed()),
            Err(violation) => {
                output.event(&json!({
                    "event": "vopr_violation", "seed": violation.seed, "message": violation.message,
                    "timeline": violation.timeline,
                }))?;
                for line in &violation.timeline {
                    output.line(format_args!("{line}"))?;
                }
                let again = format!("netfold testbed vopr --seed {} --seeds 1", violation.seed);
                output.line(format_args!("{}", output.paint(Tone::Bad, &format!("again: {again}"))))?;
                let message = format!("seed {} breaks an invariant: {}", violation.seed, violation.message);
                Err(CliError::testbed("the simulation", message))
            }
        }
    }

    fn report(&self, output: &Output, totals: &Totals, took: Duration) -> Result<(), CliError> {
        let Totals { seeds, sums } = *totals;
        let Summary {
            digest,
            events,
            datagrams,
            elapsed,
            faults,
            finished,
            ended,
            stale_writes,
            controller_starts,
            attacked,
            partial,
            slowed,
            spilled,
        } = sums;
        output.event(&json!({
            "event": "vopr", "seed": self.seed, "seeds": seeds, "violations": 0, "digest": format!("{digest:016x}"),
            "events": events, "datagrams": datagrams, "virtual_s": elapsed.as_secs_f64(), "faults": faults,
            "jobs_finished": finished, "jobs_ended_by_faults": ended, "stale_writes": stale_writes,
            "controller_starts": controller_starts, "jobs_attacked": attacked, "partial_chunks": partial, "slowed_max": slowed, "spilled": spilled, "seconds": took.as_secs_f64(),
        }))?;
        let no = output.paint(Tone::Good, "0 violations");
        output.line(format_args!("{} seeds from {}: {no}", grouped(seeds), self.seed))?;
        output.line(format_args!(
            "  {} faults, {} jobs finished and {} ended by faults, {} controllers started, {} writes of superseded controllers refused",
            grouped(faults),
            grouped(finished),
            grouped(ended),
            grouped(controller_starts),
            grouped(stale_writes)
        ))?;
        output.line(format_args!(
            "  {} jobs attacked by another tenant that sent as much as its link carries: at most {slowed:.2} of their time alone",
            grouped(attacked)
        ))?;
        output.line(format_args!(
            "  {} events, {} datagrams, {:.1} hours of virtual time in {:.1} s: {:.0} seeds a minute",
            grouped(events),
            grouped(datagrams),
            elapsed.as_secs_f64() / 3600.0,
            took.as_secs_f64(),
            per_minute(seeds, took)
        ))
    }
}

fn per_minute(seeds: u64, took: Duration) -> f64 {
    seeds as f64 * 60.0 / took.as_secs_f64().max(1e-3)
}
