//! `netfold testbed spill`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold_lab::spill::{self, JobRow, SlotSharing, SpillConfig, SpillRow, Workload};
use netfold_testkit::plot::{Lines, Plot, svg};
use serde::Serialize;

use super::outcome::{PlotFile, conclude};
use crate::error::CliError;
use crate::lifetime;
use crate::output::Output;
use crate::size::{Bits, Bytes, human};

/// Least total throughput of best-effort sharing, relative to a half for each job: where links limit it they are equal, and two runs differ by up to 2 %.
const RATIO_MIN: f64 = 0.98;

const EXAMPLES: &str = "\
Examples, as root:
  netfold testbed spill                          two jobs that each want all of 8 slots: two minutes
  netfold testbed spill --delay 0 --slots 32     links limit both, not slots: what sharing costs
  netfold testbed spill --plot spill.svg";

/// Run two jobs that each want all slots of a switch: best-effort sharing, compared with half the slots for each.
///
/// All links are shaped by tbf, and packets of ranks are delayed, so that slots limit throughput. Each workload runs with half the slots for each job, and with all slots for both below an aggregator: jobs that compute
/// half of the time, and jobs that communicate all the time. In the last trial the aggregator is killed while both jobs run. If both jobs together are
/// slower than with half the slots each (below 0.98 of their throughput), nothing is spilled, a job does not continue, or an element is wrong, the exit code is 1. Needs root and iproute2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Spill {
    /// Slots of the switch, a power of two.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=4096))]
    slots: u32,
    /// Rate of the links of hosts, in bits a second.
    #[arg(long, value_name = "RATE", default_value = "200M")]
    rate: Bits,
    /// Rate of the link between switch and aggregator. Default: four times that of a host.
    #[arg(long, value_name = "RATE")]
    up_rate: Option<Bits>,
    /// Microseconds by which each packet of a rank is delayed, in each direction.
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    delay: u64,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    bytes: Bytes,
    /// Milliseconds that ranks of jobs that compute do so in each iteration.
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    compute: u64,
    /// Iterations of each job that are measured.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    iterations: u32,
    /// Write a plot of all iterations (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    event: &'static str,
    right: bool,
    sharing: SlotSharing,
    workload: Workload,
    /// Total throughput relative to static sharing's of the same workload; none in other trials.
    ratio: Option<f64>,
    #[serde(flatten)]
    row: &'a JobRow,
}

/// The trials. Those with static sharing come first: the others are compared with them.
const TRIALS: [(SlotSharing, Workload); 5] = [
    (SlotSharing::Static, Workload::Computing),
    (SlotSharing::BestEffort, Workload::Computing),
    (SlotSharing::Static, Workload::Communicating),
    (SlotSharing::BestEffort, Workload::Communicating),
    (SlotSharing::AggregatorKilled, Workload::Computing),
];

impl Spill {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let config = self.config()?;
        let failed = |error| CliError::testbed("the network with an aggregator", error);
        let plot = self.plot.as_deref().map(PlotFile::create).transpose()?;
        lifetime::before_exit_on_signal(spill::abandon)?;
        let bar = output.bar(0, "{spinner} {msg}");
        bar.suspend(|| announce(output, &config))?;
        let (mut problems, mut all) = (Vec::new(), Vec::<SpillRow>::new());
        for (sharing, workload) in TRIALS {
            bar.set_message(format!("{}, {}", sharing_name(sharing), workload_name(workload)));
            let row = spill::run(&config, sharing, workload).map_err(failed)?;
            let ratio = ratio(&all, &row);
            let found = problem(&row, ratio);
            bar.suspend(|| show(output, &row, ratio, found.is_none()))?;
            problems.extend(found);
            all.push(row);
        }
        bar.finish_and_clear();
        if let Some(plot) = plot {
            plot.write(&drawn(&all))?;
        }
        conclude(output, &problems)
    }

    fn config(&self) -> Result<SpillConfig, CliError> {
        let program = crate::command::own_program()?;
        super::check_link(self.slots, self.rate)?;
        let rate_bps = self.rate.0 as f64;
        Ok(SpillConfig {
            program,
            rate_bps,
            up_bps: self.up_rate.map_or(4.0 * rate_bps, |rate| rate.0 as f64),
            delay: Duration::from_micros(self.delay),
            slots: self.slots,
            bytes: super::whole_elements(self.bytes.0)?,
            compute: Duration::from_millis(self.compute),
            iterations: self.iterations,
        })
    }
}

const fn sharing_name(sharing: SlotSharing) -> &'static str {
    match sharing {
        SlotSharing::Static => "static",
        SlotSharing::BestEffort => "best-effort",
        SlotSharing::AggregatorKilled => "killed",
    }
}

const fn workload_name(workload: Workload) -> &'static str {
    match workload {
        Workload::Computing => "computing",
        Workload::Communicating => "communicating",
    }
}

/// Total throughput relative to static sharing's of the same workload, while the aggregator lives.
fn ratio(all: &[SpillRow], row: &SpillRow) -> Option<f64> {
    let compared = |other: &&SpillRow| other.sharing == SlotSharing::Static && other.workload == row.workload;
    let fixed = all.iter().find(compared).filter(|_| row.sharing == SlotSharing::BestEffort)?;
    Some(row.total() / fixed.total())
}

fn announce(output: &Output, config: &SpillConfig) -> Result<(), CliError> {
    output.line(format_args!(
        "Two jobs at a switch of {} slots, links of {:.0} Mbit/s, {:.0} Mbit/s to the aggregator, packets of ranks {} us later: all-reduces of {} bytes of i32, {} ms of computing or none; {} iterations each.\n",
        config.slots,
        config.rate_bps / 1e6,
        config.up_bps / 1e6,
        config.delay.as_micros(),
        config.bytes,
        config.compute.as_millis(),
        config.iterations
    ))?;
    output.line(format_args!(
        "{:<13}{:<15}{:<8}{:>6}{:>12}{:>14}{:>12}{:>9}{:>8}{:>7}",
        "sharing",
        "workload",
        "job",
        "slots",
        "iterations",
        "throughput",
        "longest ms",
        "spilled",
        "#wrong",
        "ratio"
    ))
}

fn problem(row: &SpillRow, ratio: Option<f64>) -> Option<String> {
    let trial = format!("{}, {}", sharing_name(row.sharing), workload_name(row.workload));
    if let Some(job) = row.jobs.iter().find(|job| job.wrong > 0) {
        return Some(format!("{trial}, job '{}': {} elements wrong", job.job, job.wrong));
    }
    let spills = row.jobs.iter().any(|job| job.spilled.is_some_and(|spilled| spilled > 0.0));
    if row.sharing != SlotSharing::Static && row.jobs.iter().any(|job| job.spilled.is_none()) {
        return Some(format!("{trial}: a job has slots of its own"));
    }
    if row.sharing == SlotSharing::BestEffort && row.workload == Workload::Communicating && !spills {
        return Some(format!("{trial}: nothing was spilled"));
    }
    let ratio = ratio.filter(|ratio| *ratio < RATIO_MIN)?;
    Some(format!(
        "{trial}: both jobs have {ratio:.3} of the throughput of static sharing, less than {RATIO_MIN}"
    ))
}

fn show(output: &Output, row: &SpillRow, ratio: Option<f64>, right: bool) -> Result<(), CliError> {
    let (sharing, workload) = (row.sharing, row.workload);
    let line = |job: &str, slots: String, iterations: String, cells: [String; 5]| {
        let [throughput, longest, spilled, wrong, ratio] = cells;
        output.line(format_args!(
            "{:<13}{:<15}{job:<8}{slots:>6}{iterations:>12}{throughput:>14}{longest:>12}{spilled:>9}{wrong:>8}{ratio:>7}",
            sharing_name(sharing),
            workload_name(workload),
        ))
    };
    let throughput = |rate: f64| format!("{}/s", human(rate as u64));
    for job in &row.jobs {
        let spilled = job.spilled.map_or_else(String::new, |spilled| format!("{:.1} %", spilled * 100.0));
        let cells = [
            throughput(job.bytes_per_second),
            format!("{:.1}", job.longest_ms),
            spilled,
            job.wrong.to_string(),
            String::new(),
        ];
        line(job.job, job.slots.to_string(), job.iterations.to_string(), cells)?;
        output.event(&Event { event: "spill", right, sharing, workload, ratio, row: job })?;
    }
    let wrong: u64 = row.jobs.iter().map(|job| job.wrong).sum();
    let shown = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let cells = [throughput(row.total()), String::new(), String::new(), wrong.to_string(), shown];
    line("both", String::new(), String::new(), cells)
}

/// The throughput of each iteration over time, in each trial (SVG).
fn drawn(all: &[SpillRow]) -> String {
    let plot = |row: &SpillRow| {
        let series = row.jobs.iter().map(|job| {
            let points = job.all.iter().map(|(at, rate)| (*at, rate / 1e6));
            (format!("{}, {}", sharing_name(row.sharing), job.job), points.collect())
        });
        Plot::Lines(Lines {
            title: format!("{}, {}", sharing_name(row.sharing), workload_name(row.workload)),
            x: "time (s)".into(),
            y: "throughput (MB/s)".into(),
            series: series.collect(),
        })
    };
    svg(&all.iter().map(plot).collect::<Vec<_>>())
}
