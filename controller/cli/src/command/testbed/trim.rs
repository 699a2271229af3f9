//! `netfold testbed trim`.

use clap::Args;
use netfold::Tolerance;
use netfold_lab::run::trim::{RACKS_MAX, RANKS_MAX, Trial, TrimConfig, TrimOutcome, TrimRig};
use serde_json::json;

use crate::error::CliError;
use crate::lifetime;
use crate::output::{Output, Tone};
use crate::size::{Bits, Bytes, grouped};

const EXAMPLES: &str = "\
Examples:
  sudo netfold testbed trim                                two racks of two ranks, up to 10 % of contributions left out
  sudo netfold testbed trim --tolerance 0.02 --racks 1 --ranks 4 --load 3";

/// Load the links below bmv2 switches and have them trim the ranks' droppable packets.
///
/// Every rack has a bmv2 with eight priority queues that forwards, over a slow link, to the bmv2 that aggregates; all run the same
/// program. Another host in each rack sends more than the link carries, in the lowest class. Meanwhile ranks run all-reduces, exact
/// and tolerant, in the load's class and above it. Every rank must have the same bits, each element must be the sum of exactly the
/// contributions that the ranks were notified of, no rank may exceed its tolerance, and under load packets must have been trimmed;
/// otherwise the exit code is 1. Needs root, `ip`, `tc` and bmv2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Trim {
    /// Racks, each with a bmv2 of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=RACKS_MAX as i64))]
    racks: u8,
    /// Ranks in each rack.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=RANKS_MAX as i64))]
    ranks: u8,
    /// Fraction of each rank's contributions that may be left out, above 0 and up to 1.
    #[arg(long, default_value_t = 0.1, value_parser = part)]
    tolerance: f64,
    /// Load of the other host of each rack, as a multiple of the link's rate.
    #[arg(long, default_value_t = 1.5, value_parser = load)]
    load: f64,
    /// Rate of the link from each rack, in bits a second.
    #[arg(long, value_name = "RATE", default_value = "4M")]
    rate: Bits,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    bytes: Bytes,
    /// Window of a class in packets, a power of two.
    #[arg(long, default_value_t = 32)]
    slots: u32,
    /// All-reduces for each line.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seed of the tensors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A tolerance above 0.
pub(super) fn part(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| Tolerance::fraction(*part).is_some_and(Tolerance::any));
    part.ok_or_else(|| "expected a fraction above 0 and up to 1, as in 0.1".into())
}

fn load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok().filter(|load| (1.0..=10.0).contains(load));
    load.ok_or_else(|| "expected a number from 1 (the link is just full) to 10".into())
}

impl Trim {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let elements = usize::try_from(self.bytes.0 / 4).unwrap_or(usize::MAX);
        if elements == 0 || elements > 1 << 24 {
            return Err(CliError::Usage("a tensor here has 4 bytes to 64 MiB: change --bytes".into()));
        }
        lifetime::before_exit_on_signal(netfold_lab::run::abandon)?;
        let (racks, ranks) = (self.racks.into(), self.ranks.into());
        let config =
            TrimConfig { racks, ranks, elements, slots: self.slots, rate: self.rate.0, seed: self.seed };
        let mut rig = TrimRig::start(config)?;
        output.line(format_args!(
            "{racks} racks of {ranks} ranks at bmv2 switches with 8 priority queues, {} Mbit/s up, tensors of {elements} numbers\n",
            self.rate.0 as f64 / 1e6
        ))?;
        output.line(format_args!(
            "{:<8}{:<22}{:>10}{:>9}{:>10}{:>10}{:>10}{:>9}{:>8}",
            "load", "sums", "mean ms", "chunks", "trimmed", "partial", "left out", "at most", "wrong"
        ))?;
        let tolerance =
            Tolerance { rescale: false, ..Tolerance::fraction(self.tolerance).unwrap_or(Tolerance::NONE) };
        let trials = [
            (0.0, tolerance, 0),
            (self.load, Tolerance::NONE, 0),
            (self.load, tolerance, 0),
            (self.load, Tolerance::NONE, 1),
            (self.load, tolerance, 1),
        ];
        let mut broken = 0;
        for (load, tolerance, class) in trials {
            let trial = Trial { load, tolerance, class, rounds: self.rounds };
            let outcome = rig.trial(&trial)?;
            show(output, &trial, &outcome)?;
            broken += outcome.wrong + u64::from(!as_expected(&trial, &outcome));
        }
        if broken > 0 {
            return Err(CliError::Wrong { wrong: broken });
        }
        output.line(format_args!(
            "\n{}",
            output.paint(
                Tone::Good,
                "The same bits on all ranks, and every missing contribution was reported."
            )
        ))
    }
}

/// Whether droppable packets were trimmed under load, and no others.
fn as_expected(trial: &Trial, outcome: &TrimOutcome) -> bool {
    if !trial.tolerance.any() {
        return outcome.partial == 0 && outcome.left_out == 0 && outcome.seen.trimmed == 0;
    }
    // In classes above the load the queues are short.
    trial.load == 0.0
        || trial.class > 0
        || (outcome.partial > 0 && outcome.left_out > 0 && outcome.seen.trimmed > 0)
}

fn show(output: &Output, trial: &Trial, outcome: &TrimOutcome) -> Result<(), CliError> {
    let sums = if trial.tolerance.any() {
        format!("{} % may be missing", 100.0 * trial.tolerance.as_fraction())
    } else {
        "exact".into()
    };
    let sums = if trial.class > 0 { format!("{sums}, above") } else { sums };
    let mean_ms = outcome.mean.as_secs_f64() * 1e3;
    output.event(&json!({
        "event": "trimmed", "load": trial.load, "tolerance": trial.tolerance.as_fraction(), "class": trial.class,
        "mean_ms": mean_ms, "chunks": outcome.chunks, "partial": outcome.partial, "left_out": outcome.left_out,
        "left_out_max": outcome.left_out_max, "checked": outcome.checked, "wrong": outcome.wrong,
        "trimmed": outcome.seen.trimmed, "whole": outcome.seen.whole, "spared": outcome.seen.spared, "load_frames": outcome.seen.load,
    }))?;
    output.line(format_args!(
        "{:<8}{sums:<22}{mean_ms:>10.0}{:>9}{:>10}{:>10}{:>10}{:>9}{:>8}",
        trial.load,
        grouped(outcome.chunks),
        grouped(outcome.seen.trimmed),
        grouped(outcome.partial),
        grouped(outcome.left_out),
        outcome.left_out_max,
        grouped(outcome.wrong),
    ))
}
