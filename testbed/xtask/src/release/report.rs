//! What a release consists of: each artifact, where it was installed, and what was tried there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The artifacts so far, in the folder that has them.
pub(super) struct Report {
    out: PathBuf,
    rows: Vec<Row>,
    /// What was left out, with the reason.
    skipped: Vec<String>,
}

struct Row {
    file: String,
    bytes: u64,
    installed: String,
    tried: String,
}

impl Report {
    pub(super) fn new(out: PathBuf) -> Self {
        Self { out, rows: Vec::new(), skipped: Vec::new() }
    }

    /// The folder of the artifacts.
    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// Enters a file of the folder.
    pub(super) fn enter(&mut self, file: &str, installed: &str, tried: &str) -> Result<()> {
        let path = self.out.join(file);
        let bytes = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
        let [file, installed, tried] = [file, installed, tried].map(str::to_owned);
        self.rows.push(Row { file, bytes, installed, tried });
        Ok(())
    }

    /// Notes what is not part of this release.
    pub(super) fn skip(&mut self, what: String) {
        println!("skipped: {what}");
        self.skipped.push(what);
    }

    /// The names of the artifacts.
    pub(super) fn files(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.file.as_str()).collect()
    }

    /// The table that ends a run.
    pub(super) fn table(&self) -> String {
        let heading = ["artifact", "KiB", "installed in", "tried"].map(str::to_owned);
        let rows = self.rows.iter().map(|row| {
            let kib = row.bytes.div_ceil(1024).to_string();
            [row.file.clone(), kib, row.installed.clone(), row.tried.clone()]
        });
        let lines: Vec<[String; 4]> = std::iter::once(heading).chain(rows).collect();
        let width =
            |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
        let (file, kib, installed) = (width(0), width(1), width(2));
        let mut text = String::new();
        for [one, two, three, four] in &lines {
            text += &format!("{one:file$}  {two:>kib$}  {three:installed$}  {four}\n");
        }
        for skipped in &self.skipped {
            text += &format!("skipped: {skipped}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_artifact_and_for_what_is_left_out() {
        let mut report = Report::new(Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf());
        report.enter("Cargo.toml", "an empty folder", "read").unwrap();
        report.skip("a wheel: no maturin".to_owned());
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("artifact    KiB  installed in")
                && lines[1].ends_with("an empty folder  read")
        );
        assert_eq!(lines[2], "skipped: a wheel: no maturin");
        assert!(report.enter("missing", "", "").is_err());
        assert_eq!(report.files(), ["Cargo.toml"]);
    }
}
