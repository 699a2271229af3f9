//! Words that must not be committed.

use std::path::Path;

use anyhow::{Result, bail};

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

const EXTENSIONS: &[&str] = &["rs", "md", "toml", "p4", "txtpb", "svg", "yml", "sh", "csv", "lua"];

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

/// Where terms are fixed; its last table has the words that are refused.
const GLOSSARY: &str = "docs/glossary.md";
const REFUSED_HEADING: &str = "## Refused words";

/// Files with words for people.
const PROSE: &[&str] = &["rs", "md", "py", "c", "h", "sh", "toml", "proto", "html", "lua"];

/// Every line with a word that the glossary refuses.
pub(super) fn glossary() -> Result<Vec<String>> {
    let Some(text) = tree::text(Path::new(GLOSSARY)) else { bail!("{GLOSSARY} is missing") };
    let refused = refused(&text);
    if refused.is_empty() {
        bail!("{GLOSSARY} has no table of refused words");
    }
    let mut problems = Vec::new();
    for path in tree::files()? {
        if !tree::has_extension(&path, PROSE) || path == Path::new(GLOSSARY) {
            continue;
        }
        let Some(text) = tree::text(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let line = line.to_ascii_lowercase();
            for (word, instead) in refused.iter().filter(|(word, _)| holds_word(&line, word)) {
                problems.push(format!("{}:{}: {word}: use {instead}", path.display(), number + 1));
            }
        }
    }
    Ok(problems)
}

/// The words of the table under [`REFUSED_HEADING`], each with what to use instead.
fn refused(glossary: &str) -> Vec<(String, String)> {
    let table = glossary.split_once(REFUSED_HEADING).map_or("", |(_, after)| after);
    let rows =
        table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.filter(|(words, _)| *words != "refused")
        .flat_map(|(words, instead)| {
            words.split(", ").map(|word| (word.to_ascii_lowercase(), instead.to_owned()))
        })
        .collect()
}

/// Whether a line has a word, or several, that are not part of a longer one.
fn holds_word(line: &str, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        let bytes = line.as_bytes();
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glossary_says_what_is_refused_and_what_to_use() {
        let text = "| a | b |\n|---|---|\n| c | d |\n\n## Refused words\n\n| refused | use |\n|---|---|\n| One, two three | four |\n";
        let pair = |word: &str| (word.to_owned(), "four".to_owned());
        assert_eq!(refused(text), [pair("one"), pair("two three")]);
        assert!(refused("# Glossary\n").is_empty());
    }

    #[test]
    fn words_are_found_whole() {
        for line in ["a one.", "one_more", "x_one", "(one)"] {
            assert!(holds_word(line, "one"), "{line}");
        }
        for line in ["none", "ones", "1one", ""] {
            assert!(!holds_word(line, "one"), "{line}");
        }
    }
}
