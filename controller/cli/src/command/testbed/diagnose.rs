//! `netfold testbed diagnose`.

use std::time::Duration;

use clap::Args;
use netfold_lab::diagnose::{DiagnoseConfig, DiagnoseRig, Disturbance, Trial};
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::{Bytes, grouped};

const EXAMPLES: &str = "\
Examples:
  netfold testbed diagnose                          5 jobs with each disturbance, 20 without: 7 minutes
  netfold testbed diagnose --trials 20 --healthy 100
  netfold testbed diagnose --trials 1 --healthy 1 --seconds 15 --workers 8";

/// Disturb one rank of a job, and check that the control port finds which, and how.
///
/// The ranks are processes of this machine that compute, reduce and check every element. In each job another rank is disturbed: it begins
/// 5 ms late, loses 1 % of its results or packets, or shares its processor with other processes. If a disturbance is not found in time, or
/// anything else is found, the exit code is 1. The last disturbance needs two processors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diagnose {
    /// Jobs with each disturbance.
    #[arg(long, default_value_t = 5)]
    trials: u32,
    /// Disturbances to try: late-rank, lost-results, lost-packets or busy-processor; several, separated by commas. Default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = disturbance)]
    disturbance: Vec<Disturbance>,
    /// Jobs without any.
    #[arg(long, default_value_t = 20)]
    healthy: u32,
    /// Ranks of each job.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=32))]
    workers: u16,
    /// Seconds within which a disturbance must be found; each job runs for so long.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Milliseconds that ranks compute before each all-reduce.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    compute: u64,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    bytes: Bytes,
}

fn disturbance(name: &str) -> Result<Disturbance, String> {
    let known = Disturbance::ALL.into_iter().filter(|known| *known != Disturbance::None);
    let wanted = name.replace('_', "-");
    let named = known.clone().find(|known| known.name().replace(' ', "-") == wanted);
    let names: Vec<_> = known.map(|known| known.name().replace(' ', "-")).collect();
    named.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// What was found in all jobs with one disturbance.
#[derive(Debug, Default)]
struct Found {
    trials: u32,
    after: Vec<Duration>,
    wrong_findings: Vec<String>,
    operations: u64,
    wrong: u64,
}

impl Found {
    fn add(&mut self, trial: Trial) {
        self.trials += 1;
        self.after.extend(trial.found_after);
        self.wrong_findings.extend(trial.wrong_findings);
        self.operations += trial.operations;
        self.wrong += trial.wrong;
    }

    /// Whether everything was found that was there, and nothing else.
    fn is_right(&self, disturbance: Disturbance) -> bool {
        let all = disturbance == Disturbance::None || self.after.len() == self.trials as usize;
        all && self.wrong_findings.is_empty() && self.wrong == 0
    }
}

impl Diagnose {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let program = crate::command::own_program()?;
        let elements = self.bytes.0 / 4;
        if elements == 0 || elements > 1 << 28 {
            return Err(CliError::Usage("a tensor has 1 to 2^28 elements: change --bytes".into()));
        }
        let config = DiagnoseConfig {
            program,
            world: self.workers,
            bytes: self.bytes.0,
            compute: Duration::from_millis(self.compute),
            observed: Duration::from_secs(self.seconds),
        };
        let failed = |error| CliError::testbed("the observation of jobs", error);
        let mut rig = DiagnoseRig::start(config).map_err(failed)?;
        output.line(format_args!(
            "jobs of {} ranks, {} ms of computing and all-reduces of {} bytes, {} s each\n",
            self.workers, self.compute, self.bytes.0, self.seconds
        ))?;
        output.line(format_args!(
            "{:<16}{:>6}{:>8}{:>10}{:>11}{:>16}{:>13}{:>8}",
            "disturbance",
            "jobs",
            "found",
            "median s",
            "longest s",
            "false findings",
            "all-reduces",
            "#wrong"
        ))?;
        let mut wrong_rows = 0;
        for disturbance in Disturbance::ALL {
            let selected = self.disturbance.is_empty() || self.disturbance.contains(&disturbance);
            let trials = match disturbance {
                Disturbance::None => self.healthy,
                _ if selected => self.trials,
                _ => continue,
            };
            if let Some(reason) = rig.unavailable(disturbance) {
                output.line(format_args!("{:<16}skipped: {reason}", disturbance.name()))?;
                continue;
            }
            let bar = output.bar(u64::from(trials), "{spinner} {msg} {pos}/{len}");
            bar.set_message(disturbance.name());
            let mut found = Found::default();
            for _ in 0..trials {
                found.add(rig.observe(disturbance).map_err(failed)?);
                bar.inc(1);
            }
            bar.finish_and_clear();
            wrong_rows += u32::from(!found.is_right(disturbance));
            show(output, disturbance, &mut found)?;
        }
        match wrong_rows {
            0 => output.line(format_args!(
                "\n{}",
                output.paint(Tone::Good, "Everything was found, and nothing else.")
            )),
            _ => Err(CliError::Diagnosed { rows: wrong_rows }),
        }
    }
}

fn show(output: &Output, disturbance: Disturbance, found: &mut Found) -> Result<(), CliError> {
    found.after.sort();
    let seconds = |time: Option<&Duration>| time.map(Duration::as_secs_f64);
    let (median, longest) = (seconds(found.after.get(found.after.len() / 2)), seconds(found.after.last()));
    let shown = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
    let count = if disturbance == Disturbance::None { "-".to_owned() } else { found.after.len().to_string() };
    output.line(format_args!(
        "{:<16}{:>6}{count:>8}{:>10}{:>11}{:>16}{:>13}{:>8}",
        disturbance.name(),
        found.trials,
        shown(median),
        shown(longest),
        found.wrong_findings.len(),
        grouped(found.operations),
        found.wrong
    ))?;
    for finding in &found.wrong_findings {
        output.line(format_args!("  {finding}"))?;
    }
    output.event(&json!({
        "event": "diagnosed", "disturbance": disturbance.name(), "jobs": found.trials, "found": found.after.len(),
        "median_s": median, "longest_s": longest, "false_findings": found.wrong_findings,
        "all_reduces": found.operations, "wrong": found.wrong,
    }))
}
