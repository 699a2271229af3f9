//! The commands: one module each.

mod bench;
mod controller;
mod demo;
mod job;
mod joining;
mod p4;
mod remote;
mod stf;
mod switch;
mod tenant;
mod testbed;
mod top;
mod worker;

use clap::{Parser, Subcommand};
use netfold_wire::control::Congestion;

use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold demo                                   see a network train, gradients summed by a switch
  netfold switch --listen 0.0.0.0:20038          run a switch
  netfold worker --switch HOST:20038 --job test --rank 0 --world 2 --bytes 1MiB
                                                 take part in a job on it
  netfold bench all-reduce --bytes 4KiB..64MiB   measure
  netfold controller --dev                       share a switch among tenants; then `netfold top`
  netfold testbed run --levels 2 --workers 8     a job through a tree of switches, every element checked";

/// Gradients of distributed training, summed inside the network.
#[derive(Debug, Parser)]
#[command(name = "netfold", version, about, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    /// Print one JSON object a line on standard output, and nothing else there.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do. The commands describe themselves.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub(crate) enum Command {
    Demo(demo::Demo),
    Switch(Box<switch::SwitchCommand>),
    Worker(worker::Worker),
    Bench(bench::Bench),
    P4(p4::P4),
    Testbed(testbed::Testbed),
    Controller(controller::ControllerCommand),
    Job(job::JobCommand),
    Tenant(tenant::TenantCommand),
    Top(top::TopCommand),
}

/// A law of congestion control by its name.
fn congestion(name: &str) -> Result<Congestion, String> {
    let names: Vec<&str> = Congestion::ALL.iter().map(|law| law.name()).collect();
    Congestion::from_name(name).ok_or_else(|| format!("give one of {}", names.join(", ")))
}

impl Command {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self {
            Self::Demo(command) => command.run(output),
            Self::Switch(command) => command.run(output),
            Self::Worker(command) => command.run(output),
            Self::Bench(command) => command.run(output),
            Self::P4(command) => command.run(output),
            Self::Testbed(command) => command.run(output),
            Self::Controller(command) => command.run(output),
            Self::Job(command) => command.run(output),
            Self::Tenant(command) => command.run(output),
            Self::Top(command) => command.run(output),
        }
    }
}
