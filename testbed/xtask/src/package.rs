//! Packages for people who have no Rust toolchain.

pub(crate) mod deb;
pub(crate) mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::metadata;
use crate::process::{cargo, run};

/// Build packages: Debian packages of the command or of the library for C, or a wheel for Python
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Deb(deb::Arguments),
    DebLibrary(deb::LibraryArguments),
    Wheel(wheel::Arguments),
}

pub(crate) fn run_package(arguments: &Arguments) -> Result<()> {
    match &arguments.kind {
        Kind::Deb(arguments) => deb::build(arguments).map(drop),
        Kind::DebLibrary(arguments) => deb::build_library(arguments).map(drop),
        Kind::Wheel(arguments) => wheel::build(arguments).map(drop),
    }
}

/// The folder for packages, which exists then: the one given, or one in cargo's target folder.
fn output_folder(given: Option<&Path>) -> Result<PathBuf> {
    let folder = match given {
        Some(folder) => std::path::absolute(folder)?,
        None => metadata::target_folder()?.join("package"),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// The release build of a package's target, by the name of its file.
fn release(package: &str, file: &str) -> Result<PathBuf> {
    run(&mut cargo(&["build", "--release", "--locked", "-p", package]))?;
    Ok(metadata::target_folder()?.join("release").join(file))
}
