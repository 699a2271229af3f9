//! Crates for the registry: what each has, and cargo's own rehearsal, which builds every one from what would be uploaded.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::report::Report;
use super::versions::VERSION;
use crate::metadata;
use crate::process::{cargo, run};

/// The registry takes no larger file.
const BYTES_MAX: u64 = 10 << 20;

/// What each crate must have beside its sources: cargo copies the readme, and a link in each package leads to the licence.
const DOCUMENTS: [&str; 2] = ["LICENSE", "README.md"];

/// What the registry, or someone who finds the crate there, would lack.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = metadata::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut problems = wrong_manifests(packages);
    for package in packages.iter().filter(|package| is_published(package)) {
        problems.extend(wrong_contents(package)?);
    }
    Ok(problems)
}

/// Builds each crate from its own archive, without uploading it; enters them in the report.
pub(super) fn rehearse(trial: &Path, report: &mut Report) -> Result<()> {
    // A folder of its own for each run: cargo keeps what it has unpacked and built of a registry by the registry's path, and takes a crate of the
    // same version for the same crate.
    let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let target = &trial.join(format!("crates-{}", begun.as_millis()));
    let metadata = metadata::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let names: Vec<&str> =
        packages.iter().filter(|one| is_published(one)).filter_map(|one| one["name"].as_str()).collect();
    // cargo refuses only what it finds; the working tree was found clean before, or the caller permits changes.
    let mut publish = cargo(&["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]);
    publish.args(["--target-dir"]).arg(target);
    run(&mut publish)?;
    for name in names {
        let file = format!("{name}-{VERSION}.crate");
        // In the first where several are made at once, which depends on one another.
        let places = [target.join("package/tmp-registry").join(&file), target.join("package").join(&file)];
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            bail!("cargo has made no {file} in {}", target.join("package").display());
        };
        let kept = report.out().join(&file);
        fs::copy(path, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        let bytes = fs::metadata(&kept)?.len();
        if bytes > BYTES_MAX {
            bail!(
                "{file} has {bytes} bytes; the registry takes {BYTES_MAX}: shorten `include` in Cargo.toml"
            );
        }
        report.enter(&file, "a local registry, by cargo publish --dry-run", "built from its archive")?;
    }
    Ok(())
}

/// `publish = false` is an empty list of registries.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn wrong_manifests(packages: &[Value]) -> Vec<String> {
    let published = |name: &str| packages.iter().any(|one| one["name"] == name && is_published(one));
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap_or_default();
        for key in ["description", "license", "readme"] {
            if package[key].as_str().is_none_or(str::is_empty) {
                problems.push(format!("{name}: it has no {key}; inherit it, or write publish = false"));
            }
        }
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        for dependency in dependencies.iter().filter(|dependency| dependency["path"].is_string()) {
            let to = dependency["name"].as_str().unwrap_or_default();
            let versioned = dependency["req"] != "*";
            if !versioned && dependency["kind"] != "dev" {
                problems
                    .push(format!("{name}: its dependency {to} has no version, which the registry requires"));
            }
            if (versioned || dependency["kind"] != "dev") && !published(to) {
                problems.push(format!("{name}: it depends on {to}, which is not published"));
            }
        }
    }
    problems
}

/// Files that a crate lacks, and crates that are too large: files are counted before they are compressed.
fn wrong_contents(package: &Value) -> Result<Vec<String>> {
    let name = package["name"].as_str().context("a package has a name")?;
    let manifest = Path::new(package["manifest_path"].as_str().context("a package has a manifest")?);
    let folder = manifest.parent().context("a manifest lies in a folder")?;
    let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "--quiet", "-p", name]).output()?;
    if !list.status.success() {
        bail!("cargo package --list -p {name}: {}", String::from_utf8_lossy(&list.stderr));
    }
    let list = String::from_utf8(list.stdout)?;
    let mut problems = Vec::new();
    for document in DOCUMENTS {
        if !list.lines().any(|file| file == document) {
            problems.push(format!("{name}: its crate has no {document}"));
        }
    }
    // What cargo writes itself is not there.
    let sizes = list.lines().filter_map(|file| fs::metadata(folder.join(file)).ok());
    let bytes: u64 = sizes.map(|file| file.len()).sum();
    if bytes > BYTES_MAX {
        problems
            .push(format!("{name}: its crate has {bytes} bytes of files; shorten `include` in Cargo.toml"));
    }
    Ok(problems)
}

/// Whether the network is there, and cargo can ask the registry what it has.
pub(super) fn registry_answers() -> bool {
    let mut ask = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    ask.args(["info", "--quiet", "libc"]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, publish: Value, dependency: Value) -> Value {
        json!({
            "name": name, "publish": publish, "description": "a", "license": "b", "readme": "c",
            "dependencies": [dependency],
        })
    }

    #[test]
    fn crates_depend_on_versions_of_crates_that_are_published() {
        let to = |req: &str, kind: Value| json!({"name": "low", "req": req, "kind": kind, "path": "low"});
        let problems = |publish: Value, dependency: Value| {
            let other = package("low", publish, json!({"name": "libc", "req": "^0.2"}));
            wrong_manifests(&[other, package("high", Value::Null, dependency)]).len()
        };
        assert_eq!(problems(Value::Null, to("=1.0.0", Value::Null)), 0);
        assert_eq!(problems(Value::Null, to("*", Value::Null)), 1);
        assert_eq!(problems(json!([]), to("=1.0.0", Value::Null)), 1);
        assert_eq!(problems(json!([]), to("*", "dev".into())), 0);
        assert_eq!(problems(json!([]), to("=1.0.0", "dev".into())), 1);
    }

    #[test]
    fn a_crate_describes_itself() {
        let mut one = package("one", Value::Null, json!({"name": "libc", "req": "^0.2"}));
        one["readme"] = Value::Null;
        one["description"] = "".into();
        assert_eq!(wrong_manifests(&[one.clone()]).len(), 2);
        one["publish"] = json!([]);
        assert!(wrong_manifests(&[one]).is_empty());
    }
}
