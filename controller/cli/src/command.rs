//! The commands: one module each.

mod about;
mod bench;
mod check;
mod controller;
mod demo;
mod group_key;
mod job;
mod joining;
mod launched;
mod link;
mod multipath;
mod p4;
mod remote;
mod switch;
mod tenant;
#[cfg(feature = "testbed")]
mod testbed;
#[cfg(not(feature = "testbed"))]
#[path = "command/no_testbed.rs"]
mod testbed;
mod top;
mod worker;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use netfold_control::CongestionAlgorithm;
use netfold_controller::schedule::Schedule;
use netfold_wire::dscp::DSCP_MAX;
use netfold_wire::{CLASSES_MAX, Dscp};

use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold demo                                   train a neural network, gradients summed by a switch
  netfold switch --listen 0.0.0.0:20038          run a switch
  netfold worker --switch HOST:20038 --job test --rank 0 --world 2 --bytes 1MiB
                                                 take part in a job on it
  netfold bench all-reduce --bytes 4KiB..64MiB   measure
  netfold controller --dev                       share a switch among tenants; then `netfold top`";

/// Heading of the options of every command, which help shows after the command's own.
const GLOBAL: &str = "Global options";

/// In-network aggregation for distributed training: all-reduce by a P4 or software switch.
#[derive(Debug, Parser)]
#[command(name = "netfold", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    /// Print one JSON object per line on standard output, and nothing else there.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Log more on standard error: once for what the libraries do, twice for every detail. RUST_LOG selects by module.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = GLOBAL)]
    pub(crate) verbose: u8,

    /// Log errors only.
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,

    /// Format of the log on standard error: text, or json, one object a line.
    #[arg(long, global = true, value_name = "FORMAT", env = "NETFOLD_LOG_FORMAT", default_value = "text", help_heading = GLOBAL)]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How log messages are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Level and message.
    Text,
    /// One JSON object a line.
    Json,
}

/// The commands; each describes itself.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub(crate) enum Command {
    Demo(demo::Demo),
    Switch(Box<switch::SwitchCommand>),
    Worker(worker::Worker),
    Check(check::Check),
    Bench(bench::Bench),
    P4(p4::P4),
    Testbed(testbed::Testbed),
    Controller(controller::ControllerCommand),
    Job(job::JobCommand),
    Link(link::LinkCommand),
    Tenant(tenant::TenantCommand),
    Top(top::TopCommand),
    GroupKey(group_key::CreateGroupKey),
    Completions(about::Completions),
    #[command(name = "man")]
    Manual(about::Manual),
    Version(about::Version),
}

/// A congestion-control algorithm by its name.
/// This program, to start more of its processes.
fn own_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|source| CliError::Spawn { name: "netfold".into(), source })
}

fn congestion(name: &str) -> Result<CongestionAlgorithm, String> {
    let names: Vec<&str> = CongestionAlgorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    CongestionAlgorithm::from_name(name).ok_or_else(|| format!("give one of {}", names.join(", ")))
}

/// What is done about jobs that share links, by its name.
fn schedule(name: &str) -> Result<Schedule, String> {
    let names = Schedule::ALL.map(Schedule::name).join(", ");
    Schedule::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

/// One code point for each class, from a list whose entries each cover the same number of classes.
fn dscp(list: &str) -> Result<Dscp, String> {
    let wrong = || format!("'{list}' is not a list of 1, 2, 4, 8 or 16 code points from 0 to {DSCP_MAX}");
    let points = list.split(',').map(|point| point.trim().parse::<u8>());
    let points: Vec<u8> = points.collect::<Result<_, _>>().map_err(|_| wrong())?;
    let classes = usize::from(CLASSES_MAX);
    if !points.len().is_power_of_two() || points.len() > classes {
        return Err(wrong());
    }
    let per_point = classes / points.len();
    let all: Vec<u8> = points.into_iter().flat_map(|point| std::iter::repeat_n(point, per_point)).collect();
    Dscp::new(&all).map_err(|_| wrong())
}

impl Command {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self {
            Self::Demo(command) => command.run(output),
            Self::Switch(command) => command.run(output),
            Self::Worker(command) => command.run(output),
            Self::Check(command) => command.run(output),
            Self::Bench(command) => command.run(output),
            Self::P4(command) => command.run(output),
            Self::Testbed(command) => command.run(output),
            Self::Controller(command) => command.run(output),
            Self::Job(command) => command.run(output),
            Self::Link(command) => command.run(output),
            Self::Tenant(command) => command.run(output),
            Self::Top(command) => command.run(output),
            Self::GroupKey(command) => command.run(output),
            Self::Completions(command) => command.run(output),
            Self::Manual(command) => command.run(output),
            Self::Version(command) => command.run(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_point_covers_the_same_number_of_classes() {
        assert_eq!(dscp("0").unwrap(), Dscp::NONE);
        let four = dscp("8, 0,10,46").unwrap();
        assert_eq!([0, 3, 4, 8, 11, 12, 15].map(|class| four.of(class)), [8, 8, 0, 10, 10, 46, 46]);
        for wrong in ["", "64", "1,2,3", "a", "0,", "-1", &"0,".repeat(31)] {
            assert!(dscp(wrong).is_err(), "{wrong}");
        }
    }
}
