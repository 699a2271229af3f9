//! Words that must not be committed.

use anyhow::Result;

use crate::tree;

/// Marks of unfinished work, and paths of one machine. Written in halves, so that this file passes its own check.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or open an issue"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "implement it, or return an error"),
    (concat!("dbg", "!("), "remove it"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
];

const EXTENSIONS: &[&str] = &["rs", "md", "toml", "p4", "txtpb", "svg", "yml", "sh", "csv"];

/// Every line with such a word.
pub(super) fn check() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in tree::files()? {
        if !tree::has_extension(&path, EXTENSIONS) && !path.starts_with(".ci") {
            continue;
        }
        let Some(text) = tree::text(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (word, why) in BANNED {
                if line.contains(word) {
                    problems.push(format!("{}:{}: {word}: {why}", path.display(), number + 1));
                }
            }
        }
    }
    Ok(problems)
}
