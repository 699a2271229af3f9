//! The links of built pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// A link in rustdoc's pages that comes from the documentation of another crate, tracing, whose pages are not part of the site.
const FOREIGN: &str = "dispatcher#setting-the-default-subscriber";

/// The folder of rustdoc's lists of a trait's implementations in other crates. A page tries to load one, whether there is one or not.
const OPTIONAL: &str = "trait.impl/";

/// What was found in a site.
pub(super) struct Found {
    pub(super) pages: usize,
    /// Pages of rustdoc.
    pub(super) api_pages: usize,
    /// Links to a file of the site, or to a place in one.
    pub(super) links: usize,
    /// One line for each that leads nowhere.
    pub(super) broken: Vec<String>,
}

/// A page's links and the places that links can lead to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    links: BTreeSet<String>,
    places: BTreeSet<String>,
    /// The page to which this one forwards its visitors, with the place that they asked for.
    redirect: Option<String>,
}

/// Checks every link of every page below a folder.
pub(super) fn check(site: &Path) -> Result<Found> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    walk(site, site, &mut |path| {
        if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read(site.join(&path))?;
            pages.insert(path.clone(), parse(&String::from_utf8_lossy(&text)));
        }
        files.insert(path);
        Ok(())
    })?;
    let mut found = Found { pages: pages.len(), api_pages: 0, links: 0, broken: Vec::new() };
    for (path, page) in &pages {
        let is_api = path.starts_with(super::reference::API);
        found.api_pages += usize::from(is_api);
        let is_checked =
            |link: &&String| is_internal(link) && !(is_api && (*link == FOREIGN || link.contains(OPTIONAL)));
        for link in page.links.iter().filter(is_checked) {
            found.links += 1;
            if let Some(problem) = broken(path, link, &pages, &files) {
                found.broken.push(format!("{}: {link}: {problem}", path.display()));
            }
        }
    }
    Ok(found)
}

fn walk(site: &Path, folder: &Path, each: &mut impl FnMut(PathBuf) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            walk(site, &path, each)?;
        } else {
            each(path.strip_prefix(site).unwrap_or(&path).to_path_buf())?;
        }
    }
    Ok(())
}

fn is_internal(link: &str) -> bool {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    !link.is_empty()
        && !link.starts_with("//")
        && !scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn broken(
    page: &Path,
    link: &str,
    pages: &BTreeMap<PathBuf, Page>,
    files: &BTreeSet<PathBuf>,
) -> Option<String> {
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let mut target = if path.is_empty() { page.to_path_buf() } else { resolve(page, &decode(path)) };
    if path.ends_with('/') {
        target.push("index.html");
    }
    if !files.contains(&target) {
        return Some("leads nowhere".into());
    }
    // In rustdoc's listings, places are ranges of lines, which a script finds.
    let is_listing = target.starts_with(Path::new(super::reference::API).join("src"));
    let place = decode(place);
    if let Some(redirect) = pages.get(&target).and_then(|page| page.redirect.as_ref()) {
        target = resolve(&target, redirect);
    }
    let known = pages.get(&target).is_none_or(|page| page.places.contains(&place));
    (!place.is_empty() && !is_listing && !known).then(|| "no such place on that page".into())
}

fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Undoes the escapes of HTML and of addresses.
fn decode(text: &str) -> String {
    let text = text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'");
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(code);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The attributes of a page's tags that are links or places; what scripts contain is left out.
fn parse(text: &str) -> Page {
    let mut page = Page::default();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[..end];
        for (attribute, value) in attributes(tag) {
            match attribute {
                "href" | "src" => drop(page.links.insert(value.to_owned())),
                "id" | "name" => drop(page.places.insert(decode(value))),
                "content" => {
                    page.redirect = value.strip_prefix("0;URL=").map(str::to_owned).or(page.redirect)
                }
                _ => {}
            }
        }
        rest = &rest[end + 1..];
        if tag.starts_with("script") {
            rest = rest.find("</script").map_or("", |end| &rest[end..]);
        }
    }
    page
}

/// The attributes of a tag with their values.
fn attributes(tag: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = tag;
    while let Some(at) = rest.find('=') {
        let name = rest[..at].trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
        let after = rest[at + 1..].trim_start();
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            rest = after;
            continue;
        };
        let value = &after[1..];
        let Some(end) = value.find(quote) else { break };
        found.push((name, &value[..end]));
        rest = &value[end + 1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_in(page: &str, link: &str) -> Option<String> {
        let mut pages = BTreeMap::from([(PathBuf::from("a/index.html"), parse("<h2 id=\"here\">x</h2>"))]);
        pages.insert(page.into(), Page::default());
        pages.insert("d.html".into(), parse("<meta http-equiv=\"refresh\" content=\"0;URL=a/index.html\">"));
        let files = pages.keys().cloned().collect();
        broken(page.as_ref(), link, &pages, &files)
    }

    #[test]
    fn links_to_absent_files_and_places_are_broken() {
        for link in ["../a/index.html", "../a/#here", "../a/index.html?x=1#here", "../d.html#here", "c.html"]
        {
            assert_eq!(broken_in("b/c.html", link), None, "{link}");
        }
        for link in ["../a/other.html", "../a/#there", "../d.html#there", "#here", "../b/"] {
            assert!(broken_in("b/c.html", link).is_some(), "{link}");
        }
    }

    #[test]
    fn attributes_of_tags_are_read_and_scripts_are_not() {
        let page = parse(
            "<a class=\"x\" href='b.html#c'>t</a><script>'<a href=\"no\">'</script><img alt=1 src=\"d.svg\"><i id=\"e\">",
        );
        assert_eq!(page.links, BTreeSet::from(["b.html#c".into(), "d.svg".into()]));
        assert_eq!(page.places, BTreeSet::from(["e".into()]));
        assert!(
            is_internal("a.html")
                && !is_internal("https://a")
                && !is_internal("mailto:a")
                && !is_internal("")
        );
        assert_eq!(decode("a%20b&amp;%7B"), "a b&{");
    }
}
