//! Parts of files that are generated: the lines between two markers.

use anyhow::{Context, Result};

use crate::tree;

/// A generated part of a file.
pub(super) struct Part {
    /// The file, by its path from the root.
    pub(super) file: &'static str,
    /// The line before the part, and the line behind it.
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
    /// What belongs there: whole lines.
    pub(super) text: fn() -> String,
}

impl Part {
    /// The problem that the committed part differs from what is generated now.
    pub(super) fn check(&self) -> Result<Option<String>> {
        let text = self.read()?;
        let is_same = self.replaced(&text)? == text;
        let problem = || {
            let Self { file, begin, .. } = self;
            format!("{file}: what follows `{begin}` differs from the code: run `cargo xtask tidy --fix`")
        };
        Ok((!is_same).then(problem))
    }

    /// Rewrites the file.
    pub(super) fn fix(&self) -> Result<()> {
        let text = self.replaced(&self.read()?)?;
        std::fs::write(tree::root().join(self.file), text)
            .with_context(|| format!("cannot write {}", self.file))
    }

    fn read(&self) -> Result<String> {
        tree::text(self.file.as_ref()).with_context(|| format!("cannot read {}", self.file))
    }

    /// The file with the part as it should be.
    fn replaced(&self, text: &str) -> Result<String> {
        let Self { file, begin, end, .. } = self;
        let (before, rest) =
            text.split_once(begin).with_context(|| format!("{file} lacks the line {begin}"))?;
        let (_, after) = rest.split_once(end).with_context(|| format!("{file} lacks the line {end}"))?;
        Ok(format!("{before}{begin}\n{}{end}{after}", (self.text)()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_replaced_and_the_rest_kept() {
        let part = Part { file: "f", begin: "<begin>", end: "<end>", text: || "new\n".to_owned() };
        let text = part.replaced("a\n<begin>\nold\n<end>\nb\n").unwrap();
        assert_eq!(text, "a\n<begin>\nnew\n<end>\nb\n");
        assert_eq!(part.replaced(&text).unwrap(), text, "twice is as once");
        assert!(part.replaced("a\n<begin>\nb").is_err() && part.replaced("a\n<end>\n").is_err());
    }
}
