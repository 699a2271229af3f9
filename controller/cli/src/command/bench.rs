//! `netfold bench`: measurements, each against a bound taken in the same run.

mod admission;
mod all_reduce;
mod congestion;
mod fold;
mod groups;
mod host;
mod io;
mod jobs;
mod masks;
mod perf;
mod quantize;
mod star;
mod tags;

use std::path::Path;

use clap::{Args, CommandFactory as _, Subcommand};
use serde::Serialize;

use super::Cli;
use crate::error::CliError;
use crate::output::Output;
use crate::settings::Settings;
use crate::size::Bytes;

/// Measure collectives, their kernels, packet I/O and admission.
///
/// Every figure is printed with the machine's bound, measured in the same run: absolute times alone mean little on a shared
/// machine. Version, kernel, processor and parameters are printed first, as lines that begin with #.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Admission(admission::Admission),
    AllReduce(all_reduce::AllReduce),
    Congestion(congestion::Congestion),
    Fold(fold::Fold),
    Groups(groups::Groups),
    Host(host::Host),
    Io(io::Io),
    Jobs(jobs::Jobs),
    Masks(masks::Masks),
    Perf(perf::Perf),
    Quantize(quantize::Quantize),
    Star(star::Star),
    Tags(tags::Tags),
}

/// Checks that a drawing can be written, before minutes of measuring.
fn try_drawing(path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|source| CliError::File { path: path.to_owned(), source })
}

/// Refuses tensors that hold no element.
fn check_sizes(sizes: &[Bytes]) -> Result<(), CliError> {
    let all = sizes.iter().all(|bytes| bytes.0 >= 4);
    let why = "--bytes is less than one f32: give sizes of 4 bytes or more";
    all.then_some(()).ok_or_else(|| CliError::Usage(why.into()))
}

/// A row with the event's name.
#[derive(Serialize)]
struct Tagged<'a, T> {
    event: &'static str,
    #[serde(flatten)]
    row: &'a T,
}

/// The settings of this process.
fn settings() -> Option<Settings> {
    // These arguments have been parsed before.
    let matches = Cli::command().try_get_matches_from(std::env::args_os()).ok()?;
    Some(Settings::new(&Cli::command(), &matches))
}

impl Bench {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        // The command that started a child prints its own.
        let child = match &self.what {
            What::Perf(bench) => bench.is_child(),
            What::Groups(bench) => bench.is_child(),
            What::Jobs(bench) => bench.is_child(),
            _ => false,
        };
        if let Some(settings) = settings().filter(|_| !child) {
            output.precede_by(settings);
        }
        match self.what {
            What::Admission(bench) => bench.run(output),
            What::AllReduce(bench) => bench.run(output),
            What::Congestion(bench) => bench.run(output),
            What::Fold(bench) => bench.run(output),
            What::Groups(bench) => bench.run(output),
            What::Host(bench) => bench.run(output),
            What::Io(bench) => bench.run(output),
            What::Jobs(bench) => bench.run(output),
            What::Masks(bench) => bench.run(output),
            What::Perf(bench) => bench.run(output),
            What::Quantize(bench) => bench.run(output),
            What::Star(bench) => bench.run(output),
            What::Tags(bench) => bench.run(output),
        }
    }
}
