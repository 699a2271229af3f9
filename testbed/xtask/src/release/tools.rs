//! Tools of others that a release needs: where each is found, and how it is installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::metadata;
use crate::package::wheel;
use crate::process::{cargo, run, works};

/// A cargo command from the registry, found on PATH or in cargo's target folder.
struct CargoTool {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
    /// Arguments with which it succeeds.
    check: &'static [&'static str],
}

/// The licences of crates, with their texts.
pub(super) const ABOUT: &str = "cargo-about";
/// Lists of components (SBOM).
pub(super) const CYCLONEDX: &str = "cargo-cyclonedx";

const CARGO_TOOLS: [CargoTool; 2] = [
    CargoTool { name: ABOUT, version: "0.9.3", features: &["--features", "cli"], check: &["--version"] },
    CargoTool { name: CYCLONEDX, version: "0.5.9", features: &[], check: &["cyclonedx", "--version"] },
];

/// Programs of Debian's that every release needs: one that shows whether a package is there, and the package.
const DEBIAN: &[(&str, &[&str], &str)] = &[
    ("git", &["--version"], "git"),
    ("tar", &["--version"], "tar"),
    ("xz", &["--version"], "xz-utils"),
    ("cc", &["--version"], "gcc"),
    ("strip", &["--version"], "binutils"),
    ("dpkg-deb", &["--version"], "dpkg"),
    ("dpkg-shlibdeps", &["--version"], "dpkg-dev"),
    ("pkg-config", &["--version"], "pkg-config"),
    ("sha256sum", &["--version"], "coreutils"),
    ("unshare", &["--version"], "util-linux"),
];

/// What installs the tools of cargo and of Python.
pub(super) const INSTALL: &str = "cargo xtask release --install-tools";

/// The programs of Debian's that are absent, with the command that installs them.
pub(super) fn debian() -> Result<()> {
    let absent = DEBIAN.iter().filter(|(program, check, _)| !works(program, check));
    let packages: Vec<&str> = absent.map(|(_, _, package)| *package).collect();
    if !packages.is_empty() {
        bail!(
            "a release needs programs that are not here: run `apt-get install {}` as root",
            packages.join(" ")
        );
    }
    Ok(())
}

/// A command that runs a tool of cargo's; `None` where it is not installed.
pub(super) fn find(name: &str) -> Result<Option<Command>> {
    let Some(tool) = CARGO_TOOLS.iter().find(|tool| tool.name == name) else { return Ok(None) };
    let places = [folder()?.join("bin").join(name), PathBuf::from(name)];
    let found = places.iter().find(|place| works(&place.to_string_lossy(), tool.check));
    Ok(found.map(Command::new))
}

/// Installs what is missing, in cargo's target folder.
pub(super) fn install() -> Result<()> {
    for tool in &CARGO_TOOLS {
        if find(tool.name)?.is_some() {
            println!("{} is installed", tool.name);
            continue;
        }
        let mut install = cargo(&["install", "--locked", "--version", tool.version, tool.name]);
        install.args(tool.features).arg("--root").arg(folder()?);
        // The folder would be that of Netfold's own packages.
        run(install.env("CARGO_TARGET_DIR", folder()?.join("build")))?;
    }
    wheel::install_zig()?;
    debian()
}

/// Where tools are installed: `cargo clean` removes them.
fn folder() -> Result<PathBuf> {
    Ok(metadata::target_folder()?.join("release-tools"))
}
