//! The book's source: the tree's pages at the same paths, and the files that they lead to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{links, tree};

/// What browsers show as it is.
const SHOWN: [&str; 3] = ["svg", "png", "md"];

/// Copies every page and the pictures of `docs` into the book's source. A file that a page links to, such as a program, becomes a page
/// with its text.
pub(super) fn copy(source: &Path) -> Result<()> {
    let mut listed = BTreeSet::new();
    for path in tree::files()? {
        let is_page = tree::has_extension(&path, &["md"]);
        if is_page {
            let text = tree::text(&path).with_context(|| format!("cannot read {}", path.display()))?;
            super::write(&source.join(&path), page(&path, &text, &mut listed))?;
        } else if path.starts_with("docs") && tree::has_extension(&path, &SHOWN) {
            let bytes = std::fs::read(tree::root().join(&path))?;
            super::write(&source.join(&path), bytes)?;
        }
    }
    for path in listed {
        let text = tree::text(&path).with_context(|| format!("{} is no text", path.display()))?;
        super::write(&source.join(shown_as(&path)), listing(&path, &text))?;
    }
    Ok(())
}

/// A page, with two kinds of links changed: to files that are neither pages nor pictures, to those of their listings, which are added to
/// `listed`; and to a README.md, which mdBook writes as index.html.
fn page(path: &Path, text: &str, listed: &mut BTreeSet<PathBuf>) -> String {
    let mut page = text.to_owned();
    for link in links::links(text) {
        let (target, place) = match link.target.split_once('#') {
            Some((target, place)) => (target, format!("#{place}")),
            None => (link.target, String::new()),
        };
        if target.is_empty() || link.target.contains(':') {
            continue;
        }
        let file = links::resolve(path, target);
        let changed = if let Some(folder) = target.strip_suffix("README.md") {
            format!("{folder}index.html{place}")
        } else if tree::root().join(&file).is_file() && !tree::has_extension(&file, &SHOWN) {
            listed.insert(file);
            format!("{target}.html")
        } else {
            continue;
        };
        page = page.replace(&format!("]({})", link.target), &format!("]({changed})"));
    }
    page
}

/// Where the listing of a file is.
fn shown_as(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// A file's text as a page.
fn listing(path: &Path, text: &str) -> String {
    let title = path.display();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<pre>{text}</pre>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_programs_and_indices_are_changed() {
        let mut listed = BTreeSet::new();
        let text =
            "[`x`](../testbed/xtask/src/main.rs), [c](c.md#d), [e](https://f/g.rs), [h](i/README.md#j)\n";
        let page = page(Path::new("docs/a.md"), text, &mut listed);
        assert_eq!(
            page,
            "[`x`](../testbed/xtask/src/main.rs.html), [c](c.md#d), [e](https://f/g.rs), [h](i/index.html#j)\n"
        );
        assert_eq!(listed, BTreeSet::from(["testbed/xtask/src/main.rs".into()]));
        assert!(listing(Path::new("a"), "<&>").contains("<pre>&lt;&amp;&gt;</pre>"));
    }
}
