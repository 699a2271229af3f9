//! Indented text output for the printers.

use std::fmt::{self, Write};

/// Collects lines; a line that closes a block is written one level out.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    text: String,
    level: usize,
}

impl Writer {
    /// Writes one line at the current level. An empty line has no indentation.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        let line = line.to_string();
        if !line.is_empty() {
            for _ in 0..self.level {
                self.text.push_str("    ");
            }
            self.text.push_str(&line);
        }
        self.text.push('\n');
    }

    /// Writes a line that opens a block.
    pub(crate) fn open(&mut self, line: impl fmt::Display) {
        self.line(line);
        self.level += 1;
    }

    /// Writes a line that closes a block.
    pub(crate) fn close(&mut self, line: impl fmt::Display) {
        self.level = self.level.saturating_sub(1);
        self.line(line);
    }

    /// Writes a line that closes a block and opens the next.
    pub(crate) fn turn(&mut self, line: impl fmt::Display) {
        self.close(line);
        self.level += 1;
    }

    /// Appends a line that is indented already.
    pub(crate) fn raw(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// Joins displayable items.
pub(crate) fn joined<T: fmt::Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut text = String::new();
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            text.push_str(separator);
        }
        write!(text, "{item}").expect("writing to a string does not fail");
    }
    text
}
