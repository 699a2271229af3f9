//! Experiments whose tables and plots are committed: scenarios that follow from a seed.
//!
//! Each [`Experiment`] of [`ALL`] makes a [`Report`]: text, tables and plots, which [`Report::write`] puts into a folder as one page of
//! Markdown and one drawing. `docs/experiments` holds those of the seeds in [`Experiment::seed`], and a test compares them with what
//! the scenarios say now.
//!
//! To add one, write a function from a seed to a [`Report`] in a module of its own and list it in [`ALL`]. What it reports must
//! follow from the seed alone: no clock, no threads' order. Then write its page with the command that stands in it.

mod bounded;
mod ecmp;
mod importance;
mod incast;
mod interleave;
mod loss;
mod report;
mod sharing;
mod straggler;

use std::path::PathBuf;

use netfold_testkit::sample::Sample;

pub use netfold_testkit::plot::{Bars, Groups, Lines, Plot, Series, svg};
pub use report::{Report, Row, Table};

/// A scenario with its table and its plot.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// As on the command line, and the name of its files.
    pub name: &'static str,
    /// What it asks, in a line.
    pub about: &'static str,
    /// The seed of what is committed.
    pub seed: u64,
    /// From a seed to what came of it.
    pub run: fn(u64) -> Result<Report, ExperimentError>,
    /// Whether that takes long: tests make such a page again only in long runs.
    pub long: bool,
    /// A row of its tables, which tests compare with the page in every run where the whole takes long.
    pub row: Option<fn(u64) -> Result<Row, ExperimentError>>,
}

/// Median, minimum and maximum of as many values as there are seeds.
fn spread(values: Vec<f64>) -> (f64, f64, f64) {
    let values: Sample = values.into_iter().collect();
    (values.median(), values.min(), values.max())
}

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "sharing",
        about: "do jobs at one switch get equal shares, and important ones theirs?",
        seed: 1,
        run: sharing::run,
        long: false,
        row: None,
    },
    Experiment {
        name: "ecmp",
        about: "how long do elephants take over equal paths, by how paths are chosen?",
        seed: 1,
        run: ecmp::run,
        long: false,
        row: None,
    },
    Experiment {
        name: "interleave",
        about: "how long are iterations of jobs that share a link, by who decides when they send?",
        seed: 1,
        run: interleave::run,
        long: false,
        row: None,
    },
    Experiment {
        name: "incast",
        about: "what do exact sums cost where uplinks are narrow, and sums that may lack contributions?",
        seed: 1,
        run: incast::run,
        long: false,
        row: None,
    },
    Experiment {
        name: "loss",
        about: "what does one link that loses packets cost sums by a switch, and a ring?",
        seed: 1,
        run: loss::run,
        long: true,
        row: Some(loss::row),
    },
    Experiment {
        name: "straggler",
        about: "what does a rank cost that delays some chunks, and closing slots without it?",
        seed: 1,
        run: straggler::run,
        long: true,
        row: Some(straggler::row),
    },
    Experiment {
        name: "importance",
        about: "what do importance classes do to the error of sums that lack contributions?",
        seed: 1,
        run: importance::run,
        long: true,
        row: Some(importance::row),
    },
    Experiment {
        name: "bounded",
        about: "how does a model learn from sums that lack contributions? (minutes)",
        seed: 1,
        run: bounded::run,
        long: true,
        row: None,
    },
];

/// The one of that name.
pub fn by_name(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A scenario asks for what there cannot be.
    #[error("the scenario {scenario:?} cannot be set up")]
    Scenario {
        /// Which.
        scenario: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file, or its folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
