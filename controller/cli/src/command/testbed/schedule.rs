//! `netfold testbed schedule`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold_control::CongestionAlgorithm;
use netfold_lab::schedule::{JobRow, Jobs, Schedule, ScheduleConfig, ScheduleRig, ScheduleRow};
use netfold_testkit::plot::{Lines, Plot, svg};
use serde::Serialize;

use super::outcome::{PlotFile, conclude};
use crate::error::CliError;
use crate::lifetime;
use crate::output::Output;
use crate::size::{Bits, Bytes};

/// Longest mean iteration with shifts in time, relative to the job alone.
const CASSINI_MAX: f64 = 1.08;

/// The same of the important job with priorities.
const CRUX_MAX: f64 = 1.03;

const EXAMPLES: &str = "\
Examples, as root:
  netfold testbed schedule                       two jobs at a link of 200 Mbit/s: four minutes
  netfold testbed schedule --iterations 500      whether it lasts: half an hour
  netfold testbed schedule --schedules cassini --plot iterations.svg
  netfold testbed schedule --paths --rate 50M    two jobs over two equal paths: two minutes";

/// Run two jobs that share a link, each of which needs it half of the time, under each schedule.
///
/// One host has a rank of each job; its link is shaped by tbf. Jobs first run alone, then together: without a schedule, with iterations delayed by
/// what is measured (cassini), and with priorities by measured GPU intensity (crux), where the link serves the packets of the important job
/// first. The first 20 iterations after both have begun are left out. If iterations take more than 1.08 times those of the job alone
/// with cassini, those of the important job more than 1.03 times with crux, or an element is wrong, the exit code is 1. Needs root and iproute2.
///
/// With --paths the jobs share two equal paths between a leaf and the switch instead (Linux 6.11 or later), each as fast as a host's link. Both use both
/// paths, until crux orders each of them to use one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ScheduleCommand {
    /// Schedules to run, separated by commas: off, cassini, crux. Default: all.
    #[arg(long, value_name = "SCHEDULE", value_delimiter = ',', value_parser = crate::command::schedule)]
    schedules: Vec<Schedule>,
    /// Rate of the shared link, in bits a second.
    #[arg(long, value_name = "RATE", default_value = "200M")]
    rate: Bits,
    /// Milliseconds that ranks compute in each iteration.
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    compute: u64,
    /// Tensor bytes of each all-reduce. Default: what the link carries in the time that ranks compute.
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Slots of each job, a power of two.
    #[arg(long, default_value_t = 16)]
    slots: u32,
    /// Milliseconds by which the second job begins later: without a schedule it keeps that distance, while both take longer.
    #[arg(long, value_name = "MS", default_value_t = 25, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    offset: u64,
    /// The workers' congestion-control algorithm: fixed, aimd, dctcp, swift, dcqcn, or mltcp- and one of these but fixed. With most of them jobs come to
    /// communicate in turns by themselves, more or less quickly.
    #[arg(long, value_name = "ALGORITHM", default_value = "fixed", value_parser = crate::command::congestion)]
    congestion: CongestionAlgorithm,
    /// Iterations of each job that are measured.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    iterations: u32,
    /// Two equal paths, under off and crux.
    #[arg(long, conflicts_with = "schedules")]
    paths: bool,
    /// Write a plot of all iterations (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    event: &'static str,
    right: bool,
    schedule: &'static str,
    jobs: Jobs,
    #[serde(flatten)]
    row: &'a JobRow,
}

impl ScheduleCommand {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let config = self.config()?;
        let failed = |error| CliError::testbed("the network with a shared link", error);
        let plot = self.plot.as_deref().map(PlotFile::create).transpose()?;
        lifetime::before_exit_on_signal(netfold_lab::schedule::abandon)?;
        let mut rig = ScheduleRig::new(config.clone()).map_err(failed)?;
        let bar = output.bar(0, "{spinner} {msg}");
        bar.suspend(|| announce(output, &config))?;
        let (mut problems, mut all) = (Vec::new(), Vec::new());
        for (schedule, jobs) in self.trials() {
            bar.set_message(format!("{}, {}", schedule.name(), name(jobs)));
            let row = rig.run(schedule, jobs).map_err(failed)?;
            problems.extend(row.rows.iter().filter_map(|job| problem(schedule, jobs, job)));
            bar.suspend(|| show(output, schedule, &row))?;
            all.push(row);
        }
        bar.finish_and_clear();
        if let Some(plot) = plot {
            plot.write(&drawn(&all))?;
        }
        conclude(output, &problems)
    }

    /// Jobs alone come first, on each kind of link.
    fn trials(&self) -> Vec<(Schedule, Jobs)> {
        if self.paths {
            let alone = [(Schedule::Off, Jobs::First), (Schedule::Off, Jobs::Second)];
            return alone
                .into_iter()
                .chain([Schedule::Off, Schedule::Crux].map(|both| (both, Jobs::Both)))
                .collect();
        }
        let chosen = if self.schedules.is_empty() {
            &[Schedule::Off, Schedule::Cassini, Schedule::Crux][..]
        } else {
            &self.schedules
        };
        let plain = chosen.iter().any(|schedule| *schedule != Schedule::Crux);
        let classes = chosen.contains(&Schedule::Crux);
        let mut trials = Vec::new();
        for (used, schedule) in [(plain, Schedule::Off), (classes, Schedule::Crux)] {
            if used {
                trials.extend([(schedule, Jobs::First), (schedule, Jobs::Second)]);
            }
            let of_link =
                chosen.iter().filter(|chosen| (**chosen == Schedule::Crux) == (schedule == Schedule::Crux));
            trials.extend(of_link.map(|schedule| (*schedule, Jobs::Both)));
        }
        trials
    }

    fn config(&self) -> Result<ScheduleConfig, CliError> {
        let program = crate::command::own_program()?;
        super::check_link(self.slots, self.rate)?;
        // Of the bytes of a packet 94 % are lanes, and some time is left for iterations to vary.
        let carried = self.rate.0 / 8 * self.compute / 1000 * 88 / 100;
        let bytes = super::whole_elements(self.bytes.map_or(carried, |bytes| bytes.0))?;
        Ok(ScheduleConfig {
            program,
            rate_bps: self.rate.0 as f64,
            slots: self.slots,
            bytes,
            compute: Duration::from_millis(self.compute),
            congestion: self.congestion,
            offset: Duration::from_millis(self.offset),
            paths: self.paths,
            iterations: self.iterations,
        })
    }
}

const fn name(jobs: Jobs) -> &'static str {
    match jobs {
        Jobs::First | Jobs::Second => "alone",
        Jobs::Both => "both",
    }
}

fn announce(output: &Output, config: &ScheduleConfig) -> Result<(), CliError> {
    output.line(format_args!(
        "Two jobs at {} of {:.0} Mbit/s: {} ms of computing, all-reduces of {} bytes of i32, {} slots; {} iterations each.\n",
        if config.paths { "two equal paths" } else { "a link" },
        config.rate_bps / 1e6,
        config.compute.as_millis(),
        config.bytes,
        config.slots,
        config.iterations
    ))?;
    output.line(format_args!(
        "{:<10}{:<8}{:<8}{:>8}{:>12}{:>10}{:>10}{:>10}{:>15}{:>8}{:>8}",
        "schedule",
        "jobs",
        "job",
        "workers",
        "iterations",
        "mean ms",
        "p99 ms",
        "ratio",
        "communicating",
        "delays",
        "#wrong"
    ))
}

fn problem(schedule: Schedule, jobs: Jobs, row: &JobRow) -> Option<String> {
    let JobRow { job, ratio, wrong, .. } = row;
    if *wrong > 0 {
        return Some(format!("{}, job '{job}': {wrong} elements wrong", schedule.name()));
    }
    let most = match (schedule, jobs, *job) {
        (Schedule::Cassini, Jobs::Both, _) => CASSINI_MAX,
        (Schedule::Crux, Jobs::Both, "first") => CRUX_MAX,
        _ => return None,
    };
    let within = *ratio <= most;
    (!within).then(|| {
        format!(
            "{}, job '{job}': iterations take {ratio:.3} times those of the job alone, more than {most}",
            schedule.name()
        )
    })
}

fn show(output: &Output, schedule: Schedule, row: &ScheduleRow) -> Result<(), CliError> {
    for job in &row.rows {
        output.line(format_args!(
            "{:<10}{:<8}{:<8}{:>8}{:>12}{:>10.1}{:>10.1}{:>10.3}{:>15.2}{:>8}{:>8}",
            row.schedule,
            name(row.jobs),
            job.job,
            job.workers,
            job.iterations,
            job.mean_ms,
            job.p99_ms,
            job.ratio,
            job.communicating,
            job.delays,
            job.wrong
        ))?;
        let right = problem(schedule, row.jobs, job).is_none();
        let (schedule, jobs) = (row.schedule, row.jobs);
        output.event(&Event { event: "schedule", right, schedule, jobs, row: job })?;
    }
    Ok(())
}

/// Iterations of both jobs by their number, under each schedule (SVG).
fn drawn(all: &[ScheduleRow]) -> String {
    let together = all.iter().filter(|row| row.jobs == Jobs::Both);
    let series = together.flat_map(|row| {
        row.rows.iter().map(|job| {
            let points = job.all_ms.iter().enumerate().map(|(at, ms)| (at as f64, *ms));
            (format!("{}, {}", row.schedule, job.job), points.collect())
        })
    });
    let lines = Lines {
        title: "Iterations of two jobs that share a link".into(),
        x: "iteration".into(),
        y: "time (ms)".into(),
        series: series.collect(),
    };
    svg(&[Plot::Lines(lines)])
}
