//! The table of contents: `docs/README.md` is the only index of the pages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{links, tree};

const INDEX: &str = "docs/README.md";

/// Pages at the root of the repository, which are not part of the index.
const ROOT: [&str; 3] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];

/// A page in the table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chapter {
    pub(crate) title: String,
    /// Path from the root.
    pub(crate) page: PathBuf,
    /// 0 for a page of a part, 1 for a page below another.
    pub(crate) depth: usize,
}

/// A part with its heading.
type Part = (String, Vec<Chapter>);

/// Pages of `docs` that no row of the index leads to.
pub(crate) fn check() -> Result<Vec<String>> {
    let listed: Vec<PathBuf> =
        parts()?.into_iter().flat_map(|(_, chapters)| chapters).map(|chapter| chapter.page).collect();
    let pages = tree::files()?.into_iter().filter(|path| {
        path.starts_with("docs") && tree::has_extension(path, &["md"]) && path != Path::new(INDEX)
    });
    let missing = pages.filter(|page| !listed.contains(page));
    Ok(missing.map(|page| format!("{INDEX}: no row leads to {}", page.display())).collect())
}

/// mdBook's SUMMARY.md.
pub(crate) fn summary(references: &[Chapter]) -> Result<String> {
    let mut text = String::from("# Summary\n\n");
    for page in ["README.md", INDEX] {
        let _ = writeln!(text, "[{}]({page})", title_of(page.as_ref())?);
    }
    let mut parts = parts()?;
    parts.push(("Generated references".into(), references.to_vec()));
    let mut others = Vec::new();
    for page in &ROOT[1..] {
        others.push(Chapter { title: title_of(page.as_ref())?, page: page.into(), depth: 0 });
    }
    others.extend(linked_elsewhere(&parts)?);
    parts.push(("Project".into(), others));
    for (heading, chapters) in parts {
        let _ = write!(text, "\n# {heading}\n\n");
        for Chapter { title, page, depth } in chapters {
            let _ = writeln!(text, "{}- [{title}]({})", "  ".repeat(depth), page.display());
        }
    }
    Ok(text)
}

/// Pages outside `docs`, but for those of the root, that a page of the site leads to.
fn linked_elsewhere(parts: &[Part]) -> Result<Vec<Chapter>> {
    let mut found: Vec<Chapter> = Vec::new();
    let root = ROOT.iter().map(PathBuf::from);
    let pages = parts.iter().flat_map(|(_, chapters)| chapters).map(|chapter| chapter.page.clone());
    for page in pages.chain(root) {
        for target in targets(&page) {
            let is_new = !ROOT.iter().any(|root| target == Path::new(root))
                && !target.starts_with("docs")
                && !found.iter().any(|chapter| chapter.page == target);
            if is_new && tree::has_extension(&target, &["md"]) {
                found.push(Chapter { title: title_of(&target)?, page: target, depth: 0 });
            }
        }
    }
    Ok(found)
}

/// The parts of the index: a line that begins a table, and the pages of its rows, with the pages below each.
fn parts() -> Result<Vec<Part>> {
    let text = tree::text(INDEX.as_ref()).with_context(|| format!("cannot read {INDEX}"))?;
    let mut parts: Vec<Part> = Vec::new();
    for (heading, pages) in tables(&text) {
        let mut chapters = Vec::new();
        for target in pages {
            let page = links::resolve(INDEX.as_ref(), &target);
            chapters.push(Chapter { title: title_of(&page)?, page: page.clone(), depth: 0 });
            chapters.extend(below(&page)?);
        }
        parts.push((heading, chapters));
    }
    Ok(parts)
}

/// The pages in the folder of an index page.
fn below(page: &Path) -> Result<Vec<Chapter>> {
    if page.file_name().is_none_or(|name| name != "README.md") {
        return Ok(Vec::new());
    }
    let mut pages = targets(page);
    pages.retain(|target| {
        target.parent() == page.parent() && target != page && tree::has_extension(target, &["md"])
    });
    let mut seen = Vec::new();
    pages.retain(|target| {
        !seen.contains(target) && {
            seen.push(target.clone());
            true
        }
    });
    pages.into_iter().map(|page| Ok(Chapter { title: title_of(&page)?, page, depth: 1 })).collect()
}

/// The files that a page's relative links name.
fn targets(page: &Path) -> Vec<PathBuf> {
    let text = tree::text(page).unwrap_or_default();
    let relative = links::links(&text).into_iter().filter(|link| !link.target.contains(':'));
    let paths = relative.map(|link| link.target.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty()).map(|path| links::resolve(page, path)).collect()
}

/// The tables of the index: the words before the first comma, colon or "for" of the line above each, and the first link of each row.
fn tables(text: &str) -> Vec<(String, Vec<String>)> {
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    let mut heading = String::new();
    let mut inside = false;
    for line in text.lines() {
        if !line.starts_with('|') {
            inside = false;
            if !line.is_empty() {
                line.clone_into(&mut heading);
            }
            continue;
        }
        if !inside {
            tables.push((part_title(&heading), Vec::new()));
            inside = true;
        }
        let row = links::links(line).into_iter().next().map(|link| link.target.to_owned());
        if let (Some((_, pages)), Some(page)) = (tables.last_mut(), row) {
            pages.push(page);
        }
    }
    tables
}

fn part_title(line: &str) -> String {
    if let Some(bold) = line.strip_prefix("**") {
        return bold.split("**").next().unwrap_or_default().to_owned();
    }
    line.split([',', '(', ':']).next().unwrap_or_default().trim().to_owned()
}

/// The title of a page of the tree.
fn title_of(page: &Path) -> Result<String> {
    let text = tree::text(page).with_context(|| format!("cannot read {}", page.display()))?;
    title(&text).with_context(|| format!("{} has no title", page.display()))
}

/// The title of a page: its first heading.
pub(crate) fn title(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_parts_and_rows_are_pages() {
        let text = "# Index\n\n**One**, for all:\n\n| page | for |\n|---|---|\n| [a](a.md) | see [b](b.md) |\n\n\
                    Decisions (DRs), a page each:\n\n| DR | x |\n|---|---|\n| [1](adr/1.md) | c |\n| [2](adr/2.md) | d |\n";
        let pages = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            tables(text),
            [
                ("One".to_owned(), pages(&["a.md"])),
                ("Decisions".to_owned(), pages(&["adr/1.md", "adr/2.md"]))
            ]
        );
    }
}
