//! What artifacts consist of: licences of all crates as text, and lists of components (SBOM) of the command and of the wheel.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::tools;
use super::versions::VERSION;
use crate::process::{output, run};

/// The licences of the crates of others, as a file of each artifact that has their code.
pub(super) const LICENCES: &str = "THIRD-PARTY.txt";

/// Where cargo-about's settings are, which name the licences that deny.toml accepts.
const SETTINGS: &str = "testbed/xtask/src/release/about.toml";
const TEMPLATE: &str = "testbed/xtask/src/release/about.hbs";

/// An artifact with a list of components.
pub(super) struct Subject {
    /// The manifest of its package.
    pub(super) manifest: &'static str,
    /// What cargo-cyclonedx writes beside the manifest.
    written: &'static str,
    /// The name of the list.
    pub(super) file: &'static str,
}

pub(super) const COMMAND: Subject = Subject {
    manifest: "controller/cli/Cargo.toml",
    written: "netfold_bin.cdx.json",
    file: "netfold.cdx.json",
};

pub(super) const WHEEL: Subject = Subject {
    manifest: "hostlib/python/Cargo.toml",
    written: "_netfold_cdylib-rlib.cdx.json",
    file: "netfold-python.cdx.json",
};

/// Writes the licences of a package's dependencies.
pub(super) fn write_licences(source: &Path, manifest: &str, to: &Path) -> Result<()> {
    let Some(mut about) = tools::find(tools::ABOUT)? else {
        bail!("{} is not installed: run `{}`", tools::ABOUT, tools::INSTALL);
    };
    about.current_dir(source).args(["generate", "--offline", "--locked", "--fail", "--config", SETTINGS]);
    about.args(["--manifest-path", manifest, "--output-file"]).arg(to).arg(TEMPLATE);
    run(&mut about)?;
    let text = fs::read_to_string(to).with_context(|| format!("cannot read {}", to.display()))?;
    if !text.contains("Apache License") || !text.contains("rustls ") && !text.contains("ring ") {
        bail!("{} lacks licences; {} has written what it does not know", to.display(), tools::ABOUT);
    }
    Ok(())
}

/// Writes the lists of all packages of a tree, and moves those of these subjects to a folder, without this machine's paths.
pub(super) fn write_lists(source: &Path, subjects: &[&Subject], to: &Path) -> Result<Vec<PathBuf>> {
    let Some(mut cyclonedx) = tools::find(tools::CYCLONEDX)? else {
        bail!("{} is not installed: run `{}`", tools::CYCLONEDX, tools::INSTALL);
    };
    // It always lists the whole workspace.
    cyclonedx.current_dir(source).args(["cyclonedx", "--format", "json", "--describe", "binaries"]);
    output(cyclonedx.args(["--spec-version", "1.5", "--no-build-deps", "--quiet"]))?;
    let mut lists = Vec::new();
    for subject in subjects {
        let folder = source.join(subject.manifest);
        let written = folder.parent().context("a manifest lies in a folder")?.join(subject.written);
        let text =
            fs::read_to_string(&written).with_context(|| format!("cannot read {}", written.display()))?;
        let list: Value = serde_json::from_str(&without_paths(&text, source))?;
        let problems = wrong_list(&list);
        if !problems.is_empty() {
            bail!("{}: {}", subject.file, problems.join("; "));
        }
        let path = to.join(subject.file);
        fs::write(&path, serde_json::to_vec_pretty(&list)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        lists.push(path);
    }
    Ok(lists)
}

/// References to packages of the tree begin with where it is on this machine.
fn without_paths(text: &str, source: &Path) -> String {
    let folder = format!("path+file://{}/", source.display());
    text.replace(&folder, "netfold:")
}

/// How a list breaks the rules of CycloneDX 1.5 that matter here: its kind, what every component has, and references that lead to something.
fn wrong_list(list: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, value) in
        [("bomFormat", json!("CycloneDX")), ("specVersion", json!("1.5")), ("version", json!(1))]
    {
        if list[key] != value {
            problems.push(format!("{key} is {}, not {value}", list[key]));
        }
    }
    let subject = &list["metadata"]["component"];
    if subject["version"] != VERSION {
        problems.push(format!("it describes version {}, not {VERSION}", subject["version"]));
    }
    let components = list["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    if components.is_empty() {
        problems.push("it lists no components".to_owned());
    }
    let mut known: Vec<&Value> = vec![&subject["bom-ref"]];
    for component in components {
        let name = &component["name"];
        for key in ["type", "name", "version", "purl", "bom-ref"] {
            if component[key].as_str().is_none_or(str::is_empty) {
                problems.push(format!("component {name} has no {key}"));
            }
        }
        if component["licenses"].as_array().is_none_or(Vec::is_empty) {
            problems.push(format!("component {name} has no licence"));
        }
        if known.contains(&&component["bom-ref"]) {
            problems.push(format!("two components have the reference {}", component["bom-ref"]));
        }
        known.push(&component["bom-ref"]);
    }
    for dependency in list["dependencies"].as_array().into_iter().flatten() {
        let others = dependency["dependsOn"].as_array().map(Vec::as_slice).unwrap_or_default();
        for reference in others.iter().chain([&dependency["ref"]]) {
            if !known.contains(&reference) {
                problems.push(format!("{reference} is no component"));
            }
        }
    }
    if list.to_string().contains("path+file:") {
        problems.push("it names folders of this machine".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Value {
        let component = |name: &str| {
            json!({
                "type": "library", "name": name, "version": VERSION, "purl": "pkg:cargo/x", "bom-ref": name,
                "licenses": [{"expression": "MIT"}],
            })
        };
        json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": component("netfold")},
            "components": [component("libc"), component("ring")],
            "dependencies": [{"ref": "netfold", "dependsOn": ["libc", "ring"]}],
        })
    }

    #[test]
    fn lists_are_complete_and_consistent() {
        assert_eq!(wrong_list(&list()), Vec::<String>::new());
        let wrong = |change: fn(&mut Value)| {
            let mut list = list();
            change(&mut list);
            wrong_list(&list).len()
        };
        assert_eq!(wrong(|list| list["specVersion"] = "1.2".into()), 1);
        assert_eq!(wrong(|list| list["metadata"]["component"]["version"] = "0.0.1".into()), 1);
        assert_eq!(wrong(|list| list["components"][0]["licenses"] = json!([])), 1);
        assert_eq!(wrong(|list| list["components"][0]["purl"] = Value::Null), 1);
        assert_eq!(wrong(|list| list["components"][1]["bom-ref"] = "libc".into()), 2);
        assert_eq!(wrong(|list| list["dependencies"][0]["dependsOn"][0] = "libd".into()), 1);
        assert!(wrong(|list| list["components"] = json!([])) > 0);
        assert_eq!(wrong_list(&json!(null)).len(), 5);
    }

    #[test]
    fn references_do_not_name_this_machine() {
        let text = r#"{"bom-ref": "path+file:///tree/p4#netfold-p4@0.1.0"}"#;
        assert_eq!(without_paths(text, Path::new("/tree")), r#"{"bom-ref": "netfold:p4#netfold-p4@0.1.0"}"#);
        let mut list = list();
        list["components"][0]["description"] = "path+file:///tree/p4".into();
        assert_eq!(wrong_list(&list).len(), 1);
    }
}
