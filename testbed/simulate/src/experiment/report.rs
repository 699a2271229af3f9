//! What came of an experiment, as a page.

use std::fmt::Write;
use std::path::Path;

use super::{Experiment, ExperimentError, Plot, svg};

/// The cells of a table's row.
pub type Row = Vec<String>;

/// A table: every row has as many cells as the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows, as a heading.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|name| (*name).into()).collect(), rows: Vec::new() }
    }

    /// In Markdown, without its title.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.head);
        text += &line(&vec!["---".into(); self.head.len()]);
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }
}

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The title of the page.
    pub title: String,
    /// The scenario, and what is not in it: paragraphs of Markdown.
    pub setting: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// How to read them: paragraphs of Markdown.
    pub reading: Vec<String>,
    /// The plots, drawn one below the other.
    pub plots: Vec<Plot>,
}

impl Report {
    /// The page, which names the command and seed that made it.
    pub fn markdown(&self, experiment: &Experiment, seed: u64) -> String {
        let name = experiment.name;
        // Without the remark on its duration.
        let question = experiment.about.split(" (").next().unwrap_or_default();
        let (first, rest) = question.split_at(question.chars().next().map_or(0, char::len_utf8));
        let question = first.to_uppercase() + rest;
        let mut text = format!("# {}\n\nA simulation of in-network aggregation. {question}\n\n", self.title);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "Made by `netfold testbed experiment {name} --seed {seed} --out docs/experiments`, not by hand.\n"
        );
        self.setting.iter().for_each(|paragraph| text += &format!("{paragraph}\n\n"));
        for table in &self.tables {
            let _ = writeln!(text, "## {}\n\n{}", table.title, table.markdown());
        }
        let _ = writeln!(text, "![{}]({name}.svg)", self.title);
        self.reading.iter().for_each(|paragraph| text += &format!("\n{paragraph}\n"));
        text
    }

    /// The drawing.
    pub fn svg(&self) -> String {
        svg(&self.plots)
    }

    /// Makes the folder if it is not there and finds out whether [`Report::write`] will be able to write there, so that no user
    /// computes for minutes first.
    ///
    /// # Errors
    ///
    /// [`ExperimentError::Write`] names the folder or the file.
    pub fn prepare(experiment: &Experiment, folder: &Path) -> Result<(), ExperimentError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| ExperimentError::Write { path, source }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        for ending in ["md", "svg"] {
            let path = folder.join(format!("{}.{ending}", experiment.name));
            let existed = path.exists();
            let mut open = std::fs::OpenOptions::new();
            open.append(true).create(true).open(&path).map_err(failed(&path))?;
            if !existed {
                std::fs::remove_file(&path).map_err(failed(&path))?;
            }
        }
        Ok(())
    }

    /// Writes the page and the drawing, `NAME.md` and `NAME.svg`, into a folder that is [prepared](Report::prepare).
    ///
    /// # Errors
    ///
    /// [`ExperimentError::Write`] names the file.
    pub fn write(&self, experiment: &Experiment, seed: u64, folder: &Path) -> Result<(), ExperimentError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| ExperimentError::Write { path, source }
        };
        let page = folder.join(format!("{}.md", experiment.name));
        std::fs::write(&page, self.markdown(experiment, seed)).map_err(failed(&page))?;
        let drawing = folder.join(format!("{}.svg", experiment.name));
        std::fs::write(&drawing, self.svg()).map_err(failed(&drawing))
    }
}
