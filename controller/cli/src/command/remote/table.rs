//! Tables for people: columns as wide as their contents. Where a line would not fit the terminal, columns of prose are truncated; keys,
//! such as names, which other commands take as arguments, never are, and nothing is truncated in a pipe or a file.

use crate::error::CliError;
use crate::output::{Output, Tone};

/// Least width to which a column is truncated.
const COLUMN_MIN: usize = 8;

/// A table under construction. Columns whose heading begins with `#` are right-aligned; those whose heading begins with `~`
/// are prose, and may be truncated.
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
        let mut lines = self.lines(output.columns()).into_iter();
        if let Some(heading) = lines.next() {
            output.line(format_args!("{}", output.paint(Tone::Strong, &heading)))?;
        }
        lines.try_for_each(|line| output.line(format_args!("{line}")))
    }

    fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let headings: Vec<String> =
            self.headings.iter().map(|heading| heading.trim_start_matches(['#', '~']).to_owned()).collect();
        let widths = self.widths(&headings, columns);
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).zip(&self.headings).map(|((cell, width), heading)| {
                let cell = cut(cell, *width);
                if heading.starts_with('#') { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        std::iter::once(&headings).chain(&self.rows).map(|cells| line(cells)).collect()
    }

    /// The widths of the cells, with the widest columns of prose truncated until a line has `columns` characters.
    fn widths(&self, headings: &[String], columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let Some(columns) = columns else { return widths };
        let gaps = 2 * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > columns {
            let prose = widths.iter_mut().zip(&self.headings).filter(|(_, heading)| heading.starts_with('~'));
            match prose.map(|(width, _)| width).max() {
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

    fn table() -> Table {
        let mut table = Table::new(&["name", "#slots", "~why"]);
        table.row(["a".repeat(120), "1024".into(), "x".repeat(200)]);
        table.row(["longer".into(), "1".into(), String::new()]);
        table
    }

    #[test]
    fn nothing_is_truncated_off_a_terminal() {
        let lines = table().lines(None);
        assert!(lines[1].contains(&"a".repeat(120)) && lines[1].ends_with(&"x".repeat(200)), "{lines:?}");
    }

    #[test]
    fn prose_is_truncated_to_the_terminal_and_keys_are_not() {
        let lines = table().lines(Some(150));
        assert!(lines.iter().all(|line| line.chars().count() <= 150), "{lines:?}");
        assert!(lines[1].starts_with(&"a".repeat(120)) && lines[1].ends_with('…'), "{lines:?}");
        // A terminal that is too narrow for the keys wraps lines.
        assert!(table().lines(Some(80))[1].starts_with(&"a".repeat(120)));
    }

    #[test]
    fn numbers_are_right_aligned() {
        let mut table = Table::new(&["name", "#slots"]);
        table.row(["tor".into(), "1024".into()]);
        table.row(["longer".into(), "1".into()]);
        assert_eq!(table.lines(None), ["name    slots", "tor      1024", "longer      1"]);
    }
}
