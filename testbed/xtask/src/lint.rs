//! Formatting, clippy, documentation, and what is checked of dependencies.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::process::{self, cargo, heading};

/// Runs all, also after one has failed.
pub(crate) fn run() -> Result<()> {
    heading("format, clippy, documentation, dependencies");
    components()?;
    let workspace = packages::workspace();
    let (mut clippy, mut doc) = (cargo(&["clippy", "--all-targets"]), cargo(&["doc", "--no-deps"]));
    clippy.args(&workspace).args(["--", "-D", "warnings"]);
    doc.args(&workspace).env("RUSTDOCFLAGS", "-D warnings").envs(denying()?);
    let mut steps = formatting();
    steps.extend([clippy, doc]);
    steps.extend(dependencies());
    run_steps(steps)
}

/// Runs what needs no build. `cargo xtask test --lint` does the rest.
pub(crate) fn run_without_build() -> Result<()> {
    heading("format, dependencies");
    components()?;
    let mut steps = formatting();
    steps.extend(dependencies());
    run_steps(steps)
}

fn run_steps(steps: Vec<Command>) -> Result<()> {
    let problems: Vec<_> = steps.into_iter().filter_map(|mut step| process::run(&mut step).err()).collect();
    for problem in &problems {
        println!("{problem:#}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} lint steps failed", problems.len()) }
}

fn formatting() -> Vec<Command> {
    vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["fmt", "--manifest-path", "testbed/fuzz/Cargo.toml", "--check"]),
    ]
}

/// What cargo-clippy sets for cargo. With it cargo has clippy's driver compile the crates of the workspace: what is built is linted in the same pass.
///
/// # Errors
///
/// If the toolchain has no clippy.
pub(crate) fn as_clippy() -> Result<[(&'static str, OsString); 2]> {
    as_clippy_with("")
}

/// The same with warnings denied, as `run` has clippy do: rustdoc takes what that has made.
fn denying() -> Result<[(&'static str, OsString); 2]> {
    as_clippy_with("-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

fn as_clippy_with(arguments: &str) -> Result<[(&'static str, OsString); 2]> {
    let driver = of_toolchain("clippy-driver")
        .context("the toolchain has no clippy: run `rustup component add clippy`")?;
    Ok([("RUSTC_WORKSPACE_WRAPPER", driver.into()), ("CLIPPY_ARGS", arguments.into())])
}

/// A program of the toolchain, if there is one.
pub(crate) fn of_toolchain(program: &str) -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()).join("bin").join(program);
    path.is_file().then_some(path)
}

/// The checks of deny.toml, without the network: advisories only where their database was fetched before.
fn dependencies() -> Option<Command> {
    if !process::works("cargo", &["deny", "--version"]) {
        println!(
            "skipped the check of dependencies: there is no cargo-deny (`cargo install cargo-deny --locked`)"
        );
        return None;
    }
    let mut deny = cargo(&["deny", "--offline", "--all-features", "check", "licenses", "bans", "sources"]);
    if has_advisories() {
        deny.arg("advisories");
    } else {
        println!("skipped advisories: their database is not here (`cargo deny fetch db`)");
    }
    Some(deny)
}

/// Whether cargo-deny has a database of advisories.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    // A fetch that failed leaves files, but no folder.
    let entries = home.and_then(|home| home.join("advisory-dbs").read_dir().ok());
    entries.is_some_and(|entries| entries.flatten().any(|entry| entry.path().is_dir()))
}

/// A toolchain of rustup's minimal profile lacks both; rustup can add them.
fn components() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let present = || process::works("cargo", &[subcommand, "--version"]);
        if present() {
            continue;
        }
        process::works("rustup", &["component", "add", component]);
        if !present() {
            bail!("{component} is missing: run `rustup component add {component}`");
        }
    }
    Ok(())
}
