//! Debian packages: of the `netfold` command with its manual pages, completions and systemd's units, and of the library for C.

mod contents;
mod library;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use self::contents::{Package, compress, files};
use crate::process::{heading, output, run};
use crate::tree;

pub(crate) use self::library::{Arguments as LibraryArguments, build as build_library};

/// Build a Debian package of the netfold command; needs dpkg-dev and binutils
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the package; target/package if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Package this netfold instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// dpkg-deb's compression: xz, zstd, gzip or none
    #[arg(long, value_name = "TYPE", default_value = "xz")]
    pub(crate) compression: String,
    /// Also package this file, which has the texts of the licences of all crates
    #[arg(long, value_name = "FILE")]
    pub(crate) licences: Option<PathBuf>,
}

const DESCRIPTION: &str = "\
Description: in-network aggregation of the gradients of distributed training
 Netfold sums tensors inside the network: each worker sends its tensor once
 to a switch, which adds the packets of all workers and multicasts the sum.
 .
 This package has the netfold command: the software switch, the controller
 that shares switches among tenants, a worker, benchmarks, a demonstration,
 and the P4 programs for hardware switches.
";

/// Where the units for systemd are in the repository.
const UNITS: &str = "controller/cli/packaging/systemd";

/// What the package has of systemd's files: those that are started by their name, and examples of configuration.
const UNIT_KINDS: &[&str] = &["service", "socket", "target", "timer"];

/// Completions: the shell, and where its packages put them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/netfold"),
    ("zsh", "usr/share/zsh/vendor-completions/_netfold"),
    ("fish", "usr/share/fish/vendor_completions.d/netfold.fish"),
];

pub(crate) fn build(arguments: &Arguments) -> Result<PathBuf> {
    heading("Debian package");
    let binary = match &arguments.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => super::release("netfold-cli", "netfold")?,
    };
    let out = super::output_folder(arguments.out.as_deref())?;
    let package = Package::new(&out, "netfold", "net", DESCRIPTION)?;
    package.put(
        "usr/bin/netfold",
        &fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?,
        0o755,
    )?;
    let installed = package.root.join("usr/bin/netfold");
    // As Debian's own tools strip programs.
    run(Command::new("strip").args(["--remove-section=.comment", "--remove-section=.note"]).arg(&installed))
        .context("strip is in Debian's package binutils")?;
    write_pages(&package.root, &installed)?;
    for (shell, path) in COMPLETIONS {
        package.put(path, &output(Command::new(&installed).args(["completions", shell]))?, 0o644)?;
    }
    package.write_documents("netfold-cli", arguments.licences.as_deref())?;
    write_units(&package)?;
    package.pack(&package.linked(&installed)?, &arguments.compression)
}

fn write_pages(root: &Path, netfold: &Path) -> Result<()> {
    let folder = root.join("usr/share/man/man1");
    output(Command::new(netfold).args(["man", "--output"]).arg(&folder))?;
    compress(&files(&folder)?)
}

/// Puts systemd's units where it finds them. The files beside them, drop-ins and environments, are examples to copy to /etc.
fn write_units(package: &Package) -> Result<()> {
    let folder = tree::root().join(UNITS);
    if !folder.is_dir() {
        return Ok(());
    }
    for source in files(&folder)? {
        let name = source.file_name().unwrap_or_default();
        let kind = source.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let place = if UNIT_KINDS.contains(&kind) {
            "lib/systemd/system"
        } else {
            "usr/share/doc/netfold/examples/systemd"
        };
        package.put(&format!("{place}/{}", name.to_string_lossy()), &fs::read(&source)?, 0o644)?;
    }
    Ok(())
}
