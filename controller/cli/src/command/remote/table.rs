//! Tables for people: columns as wide as their contents, truncated so that a line fits a page.

use crate::error::CliError;
use crate::output::{Output, Tone};

/// Widest line, in characters.
const WIDTH_MAX: usize = 100;

/// Least width to which a column is truncated.
const COLUMN_MIN: usize = 8;

/// A table under construction. Columns whose heading begins with `#` are right-aligned.
pub(in crate::command) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(in crate::command) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(in crate::command) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints it, or `empty` if it has no rows.
    pub(in crate::command) fn print(&self, output: &Output, empty: &str) -> Result<(), CliError> {
        if self.rows.is_empty() {
            return output.line(format_args!("{empty}"));
        }
        let mut lines = self.lines().into_iter();
        if let Some(heading) = lines.next() {
            output.line(format_args!("{}", output.paint(Tone::Strong, &heading)))?;
        }
        lines.try_for_each(|line| output.line(format_args!("{line}")))
    }

    fn lines(&self) -> Vec<String> {
        let headings: Vec<String> =
            self.headings.iter().map(|heading| heading.trim_start_matches('#').to_owned()).collect();
        let widths = self.widths(&headings);
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).zip(&self.headings).map(|((cell, width), heading)| {
                let cell = cut(cell, *width);
                if heading.starts_with('#') { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        std::iter::once(&headings).chain(&self.rows).map(|cells| line(cells)).collect()
    }

    /// The widths of the cells, with the widest columns truncated until a line fits.
    fn widths(&self, headings: &[String]) -> Vec<usize> {
        let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let gaps = 2 * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > WIDTH_MAX {
            match widths.iter_mut().max() {
                Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_a_page_and_numbers_are_right_aligned() {
        let mut table = Table::new(&["name", "#slots", "why"]);
        table.row(["a".into(), "1024".into(), "x".repeat(200)]);
        table.row(["longer".into(), "1".into(), String::new()]);
        let lines = table.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH_MAX), "{lines:?}");
        assert!(lines[1].ends_with('…'), "{lines:?}");
        assert_eq!(lines[2], "longer      1");
    }
}
