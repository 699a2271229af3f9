//! How experiments with bounds end: with the plot that was asked for, and with what was out of bounds.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::error::CliError;
use crate::output::{Output, Tone};

/// A file for a plot, created before minutes of measuring.
pub(super) struct PlotFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> PlotFile<'a> {
    pub(super) fn create(path: &'a Path) -> Result<Self, CliError> {
        let file = File::create(path).map_err(unwritable(path))?;
        Ok(Self { path, file })
    }

    pub(super) fn write(mut self, svg: &str) -> Result<(), CliError> {
        self.file.write_all(svg.as_bytes()).map_err(unwritable(self.path))
    }
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    let path = path.to_owned();
    move |source| CliError::File { path, source }
}

/// Says that everything was within the bounds, or fails with what was not.
pub(super) fn conclude(output: &Output, problems: &[String]) -> Result<(), CliError> {
    if !problems.is_empty() {
        return Err(CliError::OutOfBounds { problems: problems.join("; ") });
    }
    output.line(format_args!("\n{}", output.paint(Tone::Good, "Within the bounds, and no element wrong.")))
}
