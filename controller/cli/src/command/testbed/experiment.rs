//! `netfold testbed experiment`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use netfold_simulate::experiment::{self, ALL, ExperimentError, Report};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{Output, Tone};

const EXAMPLES: &str = "\
Examples:
  netfold testbed experiment --list
  netfold testbed experiment ecmp                           print the tables
  netfold testbed experiment ecmp --out docs/experiments    write the page and the drawing that are committed";

/// Simulate a scenario of jobs, links and switches from a seed, and print its tables.
///
/// The pages in `docs/experiments` were written by this command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Experiment {
    /// Name of the experiment.
    #[arg(required_unless_present = "list", value_parser = PossibleValuesParser::new(ALL.iter().map(|one| one.name)))]
    name: Option<String>,
    /// List the experiments.
    #[arg(long, conflicts_with_all = ["name", "seed", "out"])]
    list: bool,
    /// Seed of the simulation; by default that of the committed page.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder to write NAME.md and NAME.svg to.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Listed {
    event: &'static str,
    name: &'static str,
    about: &'static str,
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Done<'a> {
    event: &'static str,
    name: &'static str,
    seed: u64,
    tables: Vec<TableEvent<'a>>,
}

#[derive(Debug, Serialize)]
struct TableEvent<'a> {
    title: &'a str,
    head: &'a [String],
    rows: &'a [Vec<String>],
}

impl<'a> From<&'a experiment::Table> for TableEvent<'a> {
    fn from(table: &'a experiment::Table) -> Self {
        let experiment::Table { title, head, rows } = table;
        Self { title, head, rows }
    }
}

impl Experiment {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let Some(experiment) = self.name.as_deref().and_then(experiment::by_name) else {
            return list(output);
        };
        let seed = self.seed.unwrap_or(experiment.seed);
        if let Some(folder) = &self.out {
            Report::prepare(experiment, folder)?;
        }
        let report = (experiment.run)(seed)?;
        if let Some(folder) = &self.out {
            report.write(experiment, seed, folder)?;
        }
        let tables = report.tables.iter().map(TableEvent::from).collect();
        output.event(&Done { event: "experiment", name: experiment.name, seed, tables })?;
        show(output, &report, seed)
    }
}

fn list(output: &Output) -> Result<(), CliError> {
    for experiment in ALL {
        let experiment::Experiment { name, about, seed, .. } = *experiment;
        output.event(&Listed { event: "experiment_listed", name, about, seed })?;
        output.line(format_args!("{name:<12} {about}"))?;
    }
    Ok(())
}

fn show(output: &Output, report: &Report, seed: u64) -> Result<(), CliError> {
    output.line(format_args!("{} (seed {seed})", report.title))?;
    for table in &report.tables {
        output.line(format_args!("\n{}\n", output.paint(Tone::Good, &table.title)))?;
        let rows = || std::iter::once(&table.head).chain(&table.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
        for row in rows() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            output.line(format_args!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end()))?;
        }
    }
    Ok(())
}

impl From<ExperimentError> for CliError {
    fn from(error: ExperimentError) -> Self {
        Self::testbed("the experiment", error)
    }
}
