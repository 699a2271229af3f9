//! Rust source with comments and literals blanked out, so that a scanner sees code only.

use std::path::PathBuf;

use anyhow::Result;

use crate::tree;

/// A Rust file.
pub(super) struct Source {
    /// Path from the root.
    pub(super) path: PathBuf,
    /// The text as it is.
    pub(super) text: String,
    /// The text with comments, strings and characters turned into spaces; lines stay lines.
    pub(super) code: String,
}

/// Every hand-written Rust file.
pub(super) fn all() -> Result<Vec<Source>> {
    let files = tree::files()?.into_iter();
    let is_generated =
        |path: &PathBuf| path.starts_with("p4/snapshots") || path.iter().any(|part| part == "generated");
    let rust = files.filter(|path| tree::has_extension(path, &["rs"]) && !is_generated(path));
    Ok(rust
        .filter_map(|path| {
            let text = tree::text(&path)?;
            Some(Source { code: blank(&text), path, text })
        })
        .collect())
}

impl Source {
    /// The 1-based number of the line that holds byte `at`.
    pub(super) fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Every function with a body: its name, its first and its last line.
    pub(super) fn functions(&self) -> Vec<(&str, usize, usize)> {
        let code = self.code.as_bytes();
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            if at > 0 && is_word(code[at - 1]) {
                continue;
            }
            let name_at = at + 3;
            let name_len = code[name_at..].iter().take_while(|byte| is_word(**byte)).count();
            let Some(end) = (name_len > 0).then(|| body_end(code, name_at)).flatten() else { continue };
            found.push((&self.code[name_at..name_at + name_len], self.line(at), self.line(end)));
        }
        found
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where the body of the function whose signature starts at `from` ends; `None` when it has none.
fn body_end(code: &[u8], from: usize) -> Option<usize> {
    let (mut parens, mut braces) = (0i32, 0i32);
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => parens += 1,
            b')' | b']' => parens -= 1,
            b';' if parens == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces == 0 && parens == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Turns everything but code into spaces.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Where the comment, string or character that starts at `at` ends; `at` when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment_len(rest),
        [b'"', ..] => at + quoted_len(rest, b'"'),
        [b'r', b'"' | b'#', ..] if !after_word => at + raw_string_len(rest).unwrap_or(0),
        [b'b', b'r', b'"' | b'#', ..] if !after_word => {
            at + raw_string_len(&rest[1..]).map_or(0, |len| len + 1)
        }
        // A character, and not a lifetime: closed after one character or an escape.
        [b'\'', b'\\', ..] => at + quoted_len(rest, b'\''),
        [b'\'', first, ..] if *first != b'\'' => {
            let len = 1 + std::str::from_utf8(&rest[1..rest.len().min(5)])
                .map_or_else(|error| error.valid_up_to().max(1), str::len)
                .min(utf8_len(*first));
            if rest.get(len) == Some(&b'\'') { at + len + 1 } else { at }
        }
        _ => at,
    }
}

fn utf8_len(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string_len(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &rest[2 + hashes..];
    let len = body.windows(closing.len()).position(|window| window == closing).unwrap_or(body.len());
    Some((2 + hashes + len + closing.len()).min(rest.len()))
}

fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: PathBuf::new(), text: text.into(), code: blank(text) }
    }

    #[test]
    fn literals_and_comments_are_blank() {
        let text = r##"let a = "fn x {"; // } fn y
let b = 'x'; let c: &'static str = r#"}"}"#; /* { /* } */ { */ let d = '\''; let e = '{'; b"\"{""##;
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), 2);
        let words: Vec<_> = code.split_whitespace().collect();
        let want = "let a = ; let b = ; let c: &'static str = ; let d = ; let e = ; b";
        assert_eq!(words.join(" "), want);
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let text = "fn a() {\n    b(|x| { x });\n}\ntrait T {\n    fn c(&self);\n    fn d(&self, e: [u8; 2]) -> u8 { 1 }\n}\n";
        assert_eq!(source(text).functions(), [("a", 1, 3), ("d", 6, 6)]);
    }
}
