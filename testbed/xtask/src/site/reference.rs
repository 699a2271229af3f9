//! References that are generated: the help of every command, the Python package, the list of crates.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{self, cargo};
use crate::summary::{self, Chapter};
use crate::{metadata, packages, tree};

/// The folder of rustdoc's pages in the site.
pub(super) const API: &str = "api";

/// The page at the top of rustdoc's, which several of them lead to.
pub(super) const API_INDEX: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
    <meta http-equiv=\"refresh\" content=\"0; url=../docs/reference/rust.html\"><title>Rust reference</title></head>\n\
    <body><a href=\"../docs/reference/rust.html\">Rust reference</a></body>\n</html>\n";

/// The folder of generated pages in the book.
const FOLDER: &str = "docs/reference";

/// Writes the pages into the book's source; returns their chapters.
pub(super) fn write(target: &Path, source: &Path) -> Result<Vec<Chapter>> {
    let mut chapters = commands(target, source)?;
    let python = format!("{FOLDER}/python.md");
    super::write(&source.join(&python), python_reference()?)?;
    chapters.push(Chapter { title: "Python reference".into(), page: python.into(), depth: 0 });
    let rust = format!("{FOLDER}/rust.md");
    super::write(&source.join(&rust), crates()?)?;
    chapters.push(Chapter { title: "Rust reference".into(), page: rust.into(), depth: 0 });
    Ok(chapters)
}

/// A page for each command, by the command itself.
fn commands(target: &Path, source: &Path) -> Result<Vec<Chapter>> {
    // As the tests build it, so that it is not built twice.
    let mut build = cargo(&["build", "--profile", "test", "--bin", "netfold"]);
    process::run(build.args(packages::workspace()))?;
    let folder = source.join(FOLDER).join("commands");
    let mut manual = Command::new(target.join("debug/netfold"));
    process::run(manual.args(["man", "--format", "markdown", "--output"]).arg(&folder))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable_by_key(|name| name.trim_end_matches(".md").to_owned());
    let chapter = |name: &String| -> Result<Chapter> {
        let title = summary_title(&folder.join(name))?;
        let page = format!("{FOLDER}/commands/{name}").into();
        Ok(Chapter { title, page, depth: usize::from(name != "netfold.md") })
    };
    names.iter().map(chapter).collect()
}

fn summary_title(page: &Path) -> Result<String> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    summary::title(&text).with_context(|| format!("{} has no title", page.display()))
}

fn python_reference() -> Result<Vec<u8>> {
    let script = tree::root().join("testbed/xtask/src/site/python_reference.py");
    let package = tree::root().join("hostlib/python/python/netfold");
    let output = Command::new("python3").arg(script).arg(package).output();
    let output = output.context("cannot start python3, which reads the docstrings")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// The names of the workspace's libraries, as in rustdoc's folders.
pub(super) fn libraries() -> Result<Vec<String>> {
    let metadata = metadata::metadata()?;
    Ok(metadata["packages"].as_array().into_iter().flatten().filter_map(library).collect())
}

fn library(package: &Value) -> Option<String> {
    let mut targets = package["targets"].as_array()?.iter();
    let is_library = |kind: &Value| kind == "lib" || kind == "cdylib" || kind == "staticlib";
    let library = targets.find(|target| target["doc"] == true && is_library(&target["kind"][0]))?;
    Some(library["name"].as_str()?.replace('-', "_"))
}

/// The page that leads to rustdoc's: the crates for others to use.
fn crates() -> Result<String> {
    let metadata = metadata::metadata()?;
    let mut rows = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let is_public = package["publish"].is_null();
        if let Some(name) = library(package).filter(|_| is_public) {
            let description = package["description"].as_str().unwrap_or_default();
            rows.push(format!("| [`{name}`](../../{API}/{name}/index.html) | {description} |\n"));
        }
    }
    rows.sort_unstable();
    Ok(format!(
        "# Rust reference\n\nThe public items of the crates, by rustdoc. Applications use `netfold`; the others are its parts.\n\n\
         | crate | purpose |\n|---|---|\n{}",
        rows.concat()
    ))
}
