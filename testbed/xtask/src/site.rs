//! The documentation site: the pages of `docs` by mdBook, the help of every command, the Python reference and rustdoc, as files that a
//! browser reads without a network.

mod check;
mod pages;
mod reference;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{self, heading};
use crate::{metadata, packages, summary};

/// Builds the site and checks its links.
///
/// # Errors
///
/// Where mdBook is absent, a step fails, or a link leads nowhere.
pub(crate) fn run() -> Result<()> {
    if !process::works("mdbook", &["--version"]) {
        bail!("mdbook is not on PATH: `cargo install mdbook` installs it");
    }
    let target = metadata::target_folder()?;
    let (book, site) = (target.join("site-source"), target.join("site"));
    for folder in [&book, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    let source = book.join("src");
    heading("references of commands and Python");
    let references = reference::write(&target, &source)?;
    heading("pages");
    pages::copy(&source)?;
    write(&source.join("SUMMARY.md"), &summary::summary(&references)?)?;
    write(&book.join("book.toml"), CONFIGURATION)?;
    process::run(Command::new("mdbook").arg("build").arg(&book).arg("--dest-dir").arg(&site))?;
    heading("rustdoc");
    document(&target.join("doc"), &site.join(reference::API))?;
    heading("links");
    let found = check::check(&site)?;
    for broken in &found.broken {
        println!("{broken}");
    }
    println!(
        "{} pages ({} of them rustdoc), {} internal links, {} broken links: {}",
        found.pages,
        found.api_pages,
        found.links,
        found.broken.len(),
        site.join("index.html").display()
    );
    if found.broken.is_empty() { Ok(()) } else { bail!("{} broken links", found.broken.len()) }
}

/// Documents the workspace's crates in cargo's folder and copies the pages to the site.
fn document(built: &Path, site: &Path) -> Result<()> {
    if built.exists() {
        fs::remove_dir_all(built).with_context(|| format!("cannot remove {}", built.display()))?;
    }
    // What rustdoc needs of the dependencies, by several jobs.
    process::run(process::cargo(&["check"]).args(packages::workspace()))?;
    // A crate links only to crates whose folders exist, and cargo documents them in any order.
    for name in reference::libraries()? {
        fs::create_dir_all(built.join(name))?;
    }
    // Cargo removes the folder of a crate when it begins to document it: no other crate may be documented meanwhile.
    let mut doc = process::cargo(&["doc", "--no-deps", "--jobs", "1"]);
    process::run(doc.args(packages::workspace()))?;
    copy_folder(built, site)?;
    write(&site.join("index.html"), reference::API_INDEX)
}

/// mdBook's configuration: no page that contains all others, and no page for servers.
const CONFIGURATION: &str = r#"[book]
title = "Netfold"
language = "en"

[output.html]
input-404 = ""
no-section-label = true

[output.html.print]
enable = false
"#;

/// Writes a file, and the folders that it is in.
fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_folder(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
