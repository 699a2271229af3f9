//! How experiments with bounds end: with the plot that was asked for, and with what was out of bounds.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::error::CliError;
use crate::output::{Output, Tone};

/// A file for a plot, opened before minutes of measuring. What it has is kept until there is a plot.
pub(super) struct PlotFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> PlotFile<'a> {
    pub(super) fn create(path: &'a Path) -> Result<Self, CliError> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path).map_err(unwritable(path))?;
        Ok(Self { path, file })
    }

    pub(super) fn write(mut self, svg: &str) -> Result<(), CliError> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(svg.as_bytes()));
        written.map_err(unwritable(self.path))
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

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_testkit::directory::TemporaryDirectory;
    use std::fs;

    #[test]
    fn a_plot_of_before_is_kept_until_there_is_another() {
        let folder = TemporaryDirectory::new("plot");
        let path = folder.path().join("plot.svg");
        fs::write(&path, "a long plot of before").expect("it can be written");
        drop(PlotFile::create(&path).expect("it can be opened"));
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "a long plot of before");
        PlotFile::create(&path).and_then(|file| file.write("another")).expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "another");
    }
}
