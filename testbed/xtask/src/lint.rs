//! Formatting, clippy and documentation.

use anyhow::{Result, bail};

use crate::packages;
use crate::process::{self, cargo, heading};
use crate::test::DPDK_PACKAGES;

/// Runs all three, also after one has failed.
pub(crate) fn run() -> Result<()> {
    heading("format, clippy, documentation");
    components()?;
    let mut doc = cargo(&["doc", "--no-deps", "--workspace"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let mut steps = vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["fmt", "--manifest-path", "testbed/fuzz/Cargo.toml", "--check"]),
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        doc,
    ];
    if packages::has_dpdk() {
        let mut clippy = cargo(&["clippy", "--all-targets"]);
        clippy.args(DPDK_PACKAGES).args(["--", "-D", "warnings"]);
        let mut doc = cargo(&["doc", "--no-deps"]);
        doc.args(DPDK_PACKAGES).env("RUSTDOCFLAGS", "-D warnings");
        steps.extend([clippy, doc]);
    } else {
        println!("left out: the feature `dpdk`, which needs DPDK and libclang");
    }
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
