//! One version: that of `[workspace.package]`. Everything else that names a version must agree with it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{install, metadata, tree};

/// The release's version, as cargo read it from `[workspace.package]`.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a version is read from, apart from the packages of the workspace.
const CHANGELOG: &str = "CHANGELOG.md";
const PYTHON_PROJECT: &str = "hostlib/python/pyproject.toml";
const FUZZ_PACKAGE: &str = "testbed/fuzz/Cargo.toml";
const VERSION_SCRIPT: &str = "hostlib/c/netfold.map";

/// Every version that differs, one line each.
pub(crate) fn check() -> Result<Vec<String>> {
    let metadata = metadata::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut problems: Vec<String> =
        packages.iter().flat_map(|package| wrong_package(package, VERSION)).collect();
    let read = |path: &str| tree::text(Path::new(path)).with_context(|| format!("cannot read {path}"));
    problems.extend(wrong_changelog(&read(CHANGELOG)?, VERSION));
    problems.extend(wrong_python(&read(PYTHON_PROJECT)?, VERSION));
    problems.extend(wrong_fuzz(&read(FUZZ_PACKAGE)?, VERSION));
    problems.extend(wrong_script(&read(VERSION_SCRIPT)?, install::SONAME_VERSION, VERSION));
    Ok(problems)
}

/// Fails with every version that differs.
pub(super) fn agree() -> Result<()> {
    let problems = check()?;
    anyhow::ensure!(
        problems.is_empty(),
        "versions differ from {VERSION}, which is in [workspace.package] of Cargo.toml:\n{}",
        problems.join("\n")
    );
    println!("{VERSION} in all packages, {CHANGELOG}, {PYTHON_PROJECT}, {FUZZ_PACKAGE} and {VERSION_SCRIPT}");
    Ok(())
}

/// A package of another version, and dependencies within the workspace on another version. Those that only tests have need no version.
fn wrong_package(package: &Value, version: &str) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut problems = Vec::new();
    if package["version"] != version {
        problems.push(format!("{name}: its version is {}; use version.workspace = true", package["version"]));
    }
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    for dependency in dependencies.iter().filter(|dependency| dependency["path"].is_string()) {
        let required = dependency["req"].as_str().unwrap_or_default();
        if required != "*" && required != format!("={version}") {
            let to = dependency["name"].as_str().unwrap_or_default();
            problems.push(format!(
                "{name}: it requires {to} {required}; write ={version} in [workspace.dependencies]"
            ));
        }
    }
    problems
}

/// The newest section of the changelog must be that of the version.
fn wrong_changelog(text: &str, version: &str) -> Option<String> {
    let newest = text.lines().find_map(|line| line.strip_prefix("## [")?.split_once(']'));
    match newest {
        Some((named, _)) if named == version => None,
        Some((named, _)) => {
            Some(format!("{CHANGELOG}: its newest section is {named}; begin one for {version}"))
        }
        None => Some(format!("{CHANGELOG}: it has no section `## [{version}]`")),
    }
}

/// The wheel has cargo's version if the project leaves it to maturin.
fn wrong_python(text: &str, version: &str) -> Option<String> {
    let project = text.split("[project]").nth(1).unwrap_or_default();
    let project = project.split("\n[").next().unwrap_or_default();
    match value(project, "version") {
        Some(named) if named == version => None,
        Some(named) => Some(format!("{PYTHON_PROJECT}: its version is {named}; remove it")),
        None if value(project, "dynamic").is_some_and(|names| names.contains("version")) => None,
        None => Some(format!("{PYTHON_PROJECT}: it has no version; write dynamic = [\"version\"]")),
    }
}

/// The fuzz package is no member of the workspace, from which it would inherit the version.
fn wrong_fuzz(text: &str, version: &str) -> Option<String> {
    let named = value(text, "version").unwrap_or_default();
    (named != version).then(|| format!("{FUZZ_PACKAGE}: its version is {named:?}; write {version}"))
}

/// The shared library's name, its version script and the version have the same first number, which changes with the binary interface.
fn wrong_script(text: &str, soname: &str, version: &str) -> Option<String> {
    let major = version.split('.').next().unwrap_or_default();
    let node = text.split_whitespace().find(|word| word.starts_with("NETFOLD_")).unwrap_or_default();
    let agree = soname == major && node == format!("NETFOLD_{major}");
    (!agree).then(|| {
        format!("{VERSION_SCRIPT}: its node is {node:?} and libnetfold.so's number {soname}; version {version} wants {major}")
    })
}

/// The value of a key at the beginning of a line, without quotes.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
        Some(value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_tree_has_one_version() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_package_of_another_version_is_named() {
        let package = |version: &str, required: &str| {
            let dependency = json!({"name": "netfold-wire", "req": required, "path": "dataplane/wire"});
            json!({"name": "netfold-io", "version": version, "dependencies": [dependency, {"name": "libc", "req": "^0.2"}]})
        };
        assert!(wrong_package(&package("1.2.0", "=1.2.0"), "1.2.0").is_empty());
        assert!(wrong_package(&package("1.2.0", "*"), "1.2.0").is_empty());
        assert_eq!(wrong_package(&package("1.1.0", "=1.2.0"), "1.2.0").len(), 1);
        assert_eq!(wrong_package(&package("1.2.0", "=1.1.0"), "1.2.0").len(), 1);
        assert_eq!(wrong_package(&package("1.2.0", "^1.2.0"), "1.2.0").len(), 1);
    }

    #[test]
    fn the_changelog_begins_with_the_version() {
        let text = "# Changelog\n\n## [1.2.0] - unreleased\n\n## [1.1.0] - 2026-01-01\n";
        assert_eq!(wrong_changelog(text, "1.2.0"), None);
        assert!(wrong_changelog(text, "1.1.0").unwrap().contains("newest section is 1.2.0"));
        assert!(wrong_changelog("# Changelog\n", "1.1.0").is_some());
    }

    #[test]
    fn a_python_project_has_the_version_or_leaves_it_to_cargo() {
        let project = |line: &str| {
            format!("[build-system]\nversion = \"9\"\n[project]\n{line}\n[tool.x]\nversion = \"9\"\n")
        };
        assert_eq!(wrong_python(&project("dynamic = [\"version\"]"), "1.2.0"), None);
        assert_eq!(wrong_python(&project("version = \"1.2.0\""), "1.2.0"), None);
        assert!(wrong_python(&project("version = \"1.1.0\""), "1.2.0").is_some());
        assert!(wrong_python(&project(""), "1.2.0").is_some());
    }

    #[test]
    fn the_librarys_number_is_the_versions_first() {
        let script = "NETFOLD_1 {\n  global: netfold_*;\n};\n";
        assert_eq!(wrong_script(script, "1", "1.2.0"), None);
        assert!(wrong_script(script, "1", "2.0.0").is_some());
        assert!(wrong_script(script, "0", "1.2.0").is_some());
        assert!(wrong_script("{ };", "1", "1.2.0").is_some());
        assert!(wrong_fuzz("version = \"1.1.0\"\n", "1.2.0").is_some());
        assert_eq!(wrong_fuzz("version = \"1.2.0\"\n", "1.2.0"), None);
    }
}
