//! `netfold bench host`.

use std::path::PathBuf;

use clap::Args;
use netfold::Builder;
use netfold_measure::host::{self, HostConfig, HostRow};
use netfold_measure::peers::Peers;
use netfold_testkit::plot::{Bars, Groups, Plot, svg};
use serde::Serialize;

use super::{Tagged, check_sizes, try_drawing};
use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::{Bytes, human};

const EXAMPLES: &str = "\
Examples:
  netfold bench host                                   four ranks, 4 KiB to 64 MiB
  netfold bench host --ranks 2 --bytes 1M,16M --svg host.svg
  NETFOLD_TEST_PYTHON=venv/bin/python netfold bench host --bytes 1M,4M,16M --rounds 6

Needs neither root nor a network. Measures gloo if a Python with torch is installed (or NETFOLD_TEST_TORCH names one), Open MPI if mpicc
is, and the package for Python if it is installed (or NETFOLD_TEST_PYTHON names one).
ratio is a row's median over that of the row named beside it: for Python the same in Rust, for others the fastest peer. Less than 1 is faster.";

/// Measure collectives among ranks of one host: shared memory beside Open MPI and gloo, and the Python package beside the library.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Host {
    /// Ranks, each a process.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=32))]
    ranks: u16,
    /// Tensor sizes of a rank, f32.
    #[arg(long, value_delimiter = ',', default_value = "4K,64K,256K,1M,4M,16M,64M")]
    bytes: Vec<Bytes>,
    /// Rounds, in which all systems take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Timed iterations of a turn.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Iterations of a turn before those.
    #[arg(long, default_value_t = 3)]
    warmup: u32,
    /// Slots that jobs at the switch request, a power of two.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Measure Netfold alone.
    #[arg(long)]
    no_peers: bool,
    /// Draw the result into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A row with its spread.
#[derive(Serialize)]
struct Spread<'a> {
    #[serde(flatten)]
    row: &'a HostRow,
    median_s: f64,
    min_s: f64,
    max_s: f64,
}

impl Host {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        check_sizes(&self.bytes)?;
        let program = crate::command::own_program()?;
        try_drawing(self.svg.as_deref())?;
        let peers = Peers::find().map_err(CliError::Peer)?.with_python();
        for absent in &peers.absent {
            output.line(format_args!("# not measured: {absent}"))?;
        }
        let (mut wrong, mut groups): (u64, Groups) = (0, Vec::new());
        for bytes in &self.bytes {
            let config = HostConfig {
                ranks: self.ranks,
                bytes: bytes.0,
                rounds: self.rounds,
                iterations: self.iterations,
                warmup: self.warmup,
                slots: self.slots,
                program: program.clone(),
            };
            let mut systems = host::systems(&peers);
            systems.retain(|system| !(self.no_peers && system.is_peer()));
            let bar = output.bar(1, "{spinner} {msg}");
            let rows = host::measure(&config, &peers, &systems, |turn| {
                bar.set_message(turn.to_owned());
                bar.tick();
            });
            bar.finish_and_clear();
            let rows = rows.map_err(CliError::Peer)?;
            show(output, &config, &rows)?;
            wrong += rows.iter().map(|row| row.wrong).sum::<u64>();
            let rates = rows.iter().map(|row| (row.name.clone(), row.bytes as f64 / row.spread().0 / 1e6));
            groups.push((format!("{} of f32", human(bytes.0)), rates.collect()));
        }
        if let Some(path) = &self.svg {
            let title = format!("{} ranks of one host: tensor bytes over the median, MB/s", self.ranks);
            let drawn = std::fs::write(path, svg(&[Plot::Bars(Bars { title, groups })]));
            drawn.map_err(|source| CliError::File { path: path.clone(), source })?;
        }
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }
}

fn show(output: &Output, config: &HostConfig, rows: &[HostRow]) -> Result<(), CliError> {
    let heading = format!("{} ranks of one host, {} of f32", config.ranks, human(config.bytes));
    output.line(format_args!("\n{}", output.paint(Tone::Strong, &heading)))?;
    output.line(format_args!(
        "{:<32}{:>12}{:>12}{:>12}{:>8}  {:<9}{}",
        "system", "median us", "min us", "max us", "#wrong", "ratio", "of"
    ))?;
    for row in rows {
        let (median, min, max) = row.spread();
        let spread = Spread { row, median_s: median, min_s: min, max_s: max };
        output.event(&Tagged { event: "host", row: &spread })?;
        output.line(format_args!(
            "{:<32}{:>12.1}{:>12.1}{:>12.1}{:>8}  {:<9}{}",
            row.name,
            median * 1e6,
            min * 1e6,
            max * 1e6,
            row.wrong,
            row.of_that.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            row.beside.as_deref().unwrap_or("-")
        ))?;
    }
    Ok(())
}
