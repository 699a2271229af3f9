//! `netfold testbed classes`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold_lab::classes::{self, ClassesConfig, JobRow, Service, WEIGHTS};
use netfold_testkit::plot::{Lines, Plot, svg};
use serde::Serialize;

use super::outcome::{PlotFile, conclude};
use crate::error::CliError;
use crate::lifetime;
use crate::output::Output;
use crate::size::{Bits, Bytes, human};

/// Least throughput of the important job beside another one, relative to it alone, where its queue is served first.
const STRICT_MIN: f64 = 0.95;

/// How far the ratio of throughputs may be from that of the weights, relatively.
const WEIGHTED_OFF_MAX: f64 = 0.1;

const EXAMPLES: &str = "\
Examples, as root:
  netfold testbed classes                        two jobs on links of 40 Mbit/s: two minutes
  netfold testbed classes --rate 200M --bytes 8MiB --plot classes.svg";

/// Run two jobs whose packets share links, each in a class of its own: strict priority, and weights of 3 to 1.
///
/// Two leaves below a spine, software switches whose egress queues limit the rate of every port; each job has a rank at each leaf, so that both share the links up
/// and down. The important job runs alone first. If it has less than 0.95 of that throughput beside the other one where its queue is served first, if throughputs
/// are not within 10 % of 3 to 1 where queues have those weights, or an element is wrong, the exit code is 1. Needs root and iproute2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Classes {
    /// Rate of every port of the switches, in bits a second.
    #[arg(long, value_name = "RATE", default_value = "40M")]
    rate: Bits,
    /// Slots of each job, a power of two.
    #[arg(long, default_value_t = 64)]
    slots: u32,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    bytes: Bytes,
    /// Seconds that each trial is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Write a plot of all all-reduces (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    event: &'static str,
    right: bool,
    service: Service,
    /// Of the important job, its throughput relative to it alone, where its queue is served first; of weights, the throughput of the first job
    /// over that of the second; none in other rows.
    ratio: Option<f64>,
    #[serde(flatten)]
    row: &'a JobRow,
}

const TRIALS: [Service; 3] = [Service::Alone, Service::Strict, Service::Weighted];

impl Classes {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let config = self.config()?;
        let failed = |error| CliError::testbed("the network of two leaves", error);
        let plot = self.plot.as_deref().map(PlotFile::create).transpose()?;
        lifetime::before_exit_on_signal(classes::abandon)?;
        let bar = output.bar(0, "{spinner} {msg}");
        bar.suspend(|| announce(output, &config))?;
        let (mut problems, mut all, mut alone) = (Vec::new(), Vec::new(), f64::NAN);
        for service in TRIALS {
            bar.set_message(name(service));
            let rows = classes::run(&config, service).map_err(failed)?;
            if service == Service::Alone {
                alone = rows.first().map_or(f64::NAN, |row| row.bytes_per_second);
            }
            let ratio = ratio(service, &rows, alone);
            let found = problem(service, &rows, ratio);
            bar.suspend(|| show(output, service, &rows, ratio, found.is_none()))?;
            problems.extend(found);
            all.push((service, rows));
        }
        bar.finish_and_clear();
        if let Some(plot) = plot {
            plot.write(&drawn(&all))?;
        }
        conclude(output, &problems)
    }

    fn config(&self) -> Result<ClassesConfig, CliError> {
        let program = crate::command::own_program()?;
        super::check_link(self.slots, self.rate)?;
        Ok(ClassesConfig {
            program,
            rate_bps: self.rate.0,
            slots: self.slots,
            bytes: super::whole_elements(self.bytes.0)?,
            duration: Duration::from_secs(self.seconds),
        })
    }
}

const fn name(service: Service) -> &'static str {
    match service {
        Service::Alone => "alone",
        Service::Strict => "strict",
        Service::Weighted => "weighted",
    }
}

/// What is bounded in a trial, if anything is.
fn ratio(service: Service, rows: &[JobRow], alone: f64) -> Option<f64> {
    let of = |job: usize| rows.get(job).map(|row| row.bytes_per_second);
    match service {
        Service::Alone => None,
        Service::Strict => Some(of(0)? / alone),
        Service::Weighted => Some(of(0)? / of(1)?),
    }
}

fn problem(service: Service, rows: &[JobRow], ratio: Option<f64>) -> Option<String> {
    let trial = name(service);
    if let Some(row) = rows.iter().find(|row| row.wrong > 0) {
        return Some(format!("{trial}, job '{}': {} elements wrong", row.job, row.wrong));
    }
    let ratio = ratio?;
    let wanted = f64::from(WEIGHTS[0]) / f64::from(WEIGHTS[1]);
    // False where it is no number.
    let within = match service {
        Service::Alone => true,
        Service::Strict => ratio >= STRICT_MIN,
        Service::Weighted => (ratio / wanted - 1.0).abs() <= WEIGHTED_OFF_MAX,
    };
    let bound = match service {
        Service::Weighted => {
            format!("throughputs are as {ratio:.2} to 1, not as {wanted:.0} to 1 within 10 %")
        }
        _ => format!("the important job has {ratio:.3} of its throughput alone, less than {STRICT_MIN}"),
    };
    (!within).then(|| format!("{trial}: {bound}"))
}

fn announce(output: &Output, config: &ClassesConfig) -> Result<(), CliError> {
    output.line(format_args!(
        "Two jobs over two leaves and a spine, ports of {:.0} Mbit/s with two queues: all-reduces of {} bytes of i32, {} slots; {} s each.\n",
        config.rate_bps as f64 / 1e6,
        config.bytes,
        config.slots,
        config.duration.as_secs()
    ))?;
    output.line(format_args!(
        "{:<10}{:<8}{:>12}{:>14}{:>8}{:>8}{:>8}",
        "queues", "job", "iterations", "throughput", "share", "#wrong", "ratio"
    ))
}

fn show(
    output: &Output,
    service: Service,
    rows: &[JobRow],
    ratio: Option<f64>,
    right: bool,
) -> Result<(), CliError> {
    for (place, row) in rows.iter().enumerate() {
        let ratio = ratio.filter(|_| place == 0);
        let throughput = format!("{}/s", human(row.bytes_per_second as u64));
        let share = format!("{:.1} %", row.share * 100.0);
        let shown = ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        output.line(format_args!(
            "{:<10}{:<8}{:>12}{throughput:>14}{share:>8}{:>8}{shown:>8}",
            name(service),
            row.job,
            row.iterations,
            row.wrong
        ))?;
        output.event(&Event { event: "classes", right, service, ratio, row })?;
    }
    Ok(())
}

/// The throughput of each all-reduce over time, in each trial (SVG).
fn drawn(all: &[(Service, Vec<JobRow>)]) -> String {
    let plot = |(service, rows): &(Service, Vec<JobRow>)| {
        let series = rows.iter().map(|row| {
            let points = row.all.iter().map(|(at, rate)| (*at, rate / 1e6));
            (row.job.to_owned(), points.collect())
        });
        Plot::Lines(Lines {
            title: name(*service).into(),
            x: "time (s)".into(),
            y: "throughput (MB/s)".into(),
            series: series.collect(),
        })
    };
    svg(&all.iter().map(plot).collect::<Vec<_>>())
}
