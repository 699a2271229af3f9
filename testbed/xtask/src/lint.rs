//! Formatting, clippy and documentation.

use anyhow::{Result, bail};

use crate::packages;
use crate::process::{self, cargo, heading};

/// Runs all three, also after one has failed.
pub(crate) fn run() -> Result<()> {
    heading("format, clippy, documentation");
    components()?;
    let workspace = packages::workspace();
    let (mut clippy, mut doc) = (cargo(&["clippy", "--all-targets"]), cargo(&["doc", "--no-deps"]));
    clippy.args(&workspace).args(["--", "-D", "warnings"]);
    doc.args(&workspace).env("RUSTDOCFLAGS", "-D warnings");
    let steps = vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["fmt", "--manifest-path", "testbed/fuzz/Cargo.toml", "--check"]),
        clippy,
        doc,
    ];
    let problems: Vec<_> = steps.into_iter().filter_map(|mut step| process::run(&mut step).err()).collect();
    for problem in &problems {
        println!("{problem:#}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} lint steps failed", problems.len()) }
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
