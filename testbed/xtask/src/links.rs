//! Links between pages, and from pages to code.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::tree;

/// A link of a page.
pub(crate) struct Link<'p> {
    pub(crate) line: usize,
    pub(crate) text: &'p str,
    pub(crate) target: &'p str,
}

/// Relative links that lead nowhere, and pages without exactly one title.
///
/// A link to a Rust file whose text is an identifier in backquotes promises that the file defines that name.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for page in tree::files()?.into_iter().filter(|path| tree::has_extension(path, &["md"])) {
        let text = tree::text(&page).unwrap_or_default();
        let titles = prose(&text).filter(|(_, line)| line.starts_with("# ")).count();
        if titles != 1 {
            problems.push(format!("{}: {titles} titles; a page has one", page.display()));
        }
        for link in links(&text) {
            if let Some(problem) = broken(&page, &link) {
                problems.push(format!("{}:{}: {}: {problem}", page.display(), link.line, link.target));
            }
        }
    }
    Ok(problems)
}

/// The lines of a page outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// The links of a page outside code blocks.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let mut rest = content;
        while let Some(middle) = rest.find("](") {
            let text = rest[..middle].rsplit('[').next().unwrap_or_default();
            let after = &rest[middle + 2..];
            let Some(end) = after.find(')') else { break };
            found.push(Link { line, text, target: &after[..end] });
            rest = &after[end..];
        }
    }
    found
}

fn broken(page: &Path, link: &Link<'_>) -> Option<String> {
    if link.target.contains("://") || link.target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.target.split_once('#').unwrap_or((link.target, ""));
    let target = if path.is_empty() { page.to_path_buf() } else { resolve(page, path) };
    if !tree::root().join(&target).exists() {
        return Some("leads nowhere".into());
    }
    let text = tree::text(&target).unwrap_or_default();
    if !anchor.is_empty() && !prose(&text).any(|(_, line)| heading_anchor(line).as_deref() == Some(anchor)) {
        return Some("no such heading".into());
    }
    let name = link.text.strip_prefix('`').and_then(|text| text.strip_suffix('`')).unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if tree::has_extension(&target, &["rs"]) && is_name && !defines(&text, name) {
        return Some(format!("defines no {name}"));
    }
    None
}

fn defines(text: &str, name: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];
    keywords.iter().any(|keyword| {
        let wanted = format!("{keyword} {name}");
        text.match_indices(&wanted).any(|(at, _)| {
            let next = text[at + wanted.len()..].chars().next();
            next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
        })
    })
}

/// The file that a relative link of a page names, by its path from the root.
pub(crate) fn resolve(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// The anchor that a page renderer gives a heading; `None` for other lines.
fn heading_anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_outside_code_are_found() {
        let text = "a [b](c.md) and [`d`](e.rs#f)\n```\n[x](y)\n```\n";
        let found: Vec<_> = links(text).iter().map(|link| (link.line, link.text, link.target)).collect();
        assert_eq!(found, [(1, "b", "c.md"), (1, "`d`", "e.rs#f")]);
    }

    #[test]
    fn paths_anchors_and_names() {
        assert_eq!(resolve(Path::new("docs/adr/a.md"), "../b.md"), Path::new("docs/b.md"));
        assert_eq!(
            heading_anchor("## The slot machine, in full").as_deref(),
            Some("the-slot-machine-in-full")
        );
        assert_eq!(heading_anchor("#[cfg]"), None);
        assert!(defines("pub(crate) fn exactly_once(", "exactly_once"));
        assert!(!defines("fn exactly_once_more(", "exactly_once"));
    }
}
