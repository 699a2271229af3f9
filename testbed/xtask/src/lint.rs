//! Formatting, clippy and documentation.

use anyhow::{Result, bail};

use crate::process::{self, cargo, heading};

/// Runs all three.
pub(crate) fn run() -> Result<()> {
    heading("format, clippy, documentation");
    components()?;
    process::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    process::run(&mut cargo(&["fmt", "--manifest-path", "testbed/fuzz/Cargo.toml", "--check"]))?;
    process::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    process::run(cargo(&["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))
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
