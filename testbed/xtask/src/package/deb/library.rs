//! Debian packages of the library for C: one with what programs load, one with what they are built with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::contents::{Package, debian_version, files};
use crate::install::{self, SONAME_VERSION};
use crate::process::{heading, output, run};

/// Build Debian packages of the library for C; needs a C compiler, dpkg-dev and binutils
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the packages; target/package if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Package this static library (libnetfold_c.a) instead of building one
    #[arg(long = "library", value_name = "FILE")]
    pub(crate) archive: Option<PathBuf>,
    /// dpkg-deb's compression: xz, zstd, gzip or none
    #[arg(long, value_name = "TYPE", default_value = "xz")]
    pub(crate) compression: String,
    /// Also package this file, which has the texts of the licences of all crates
    #[arg(long, value_name = "FILE")]
    pub(crate) licences: Option<PathBuf>,
}

const DESCRIPTION: &str = "\
Description: in-network aggregation of gradients - library
 Netfold sums tensors inside the network: each worker sends its tensor once
 to a switch, which adds the packets of all workers and multicasts the sum.
 .
 This package has the shared library for C and what calls C.
";

const DESCRIPTION_DEVELOPMENT: &str = "\
Description: in-network aggregation of gradients - development files
 Netfold sums tensors inside the network: each worker sends its tensor once
 to a switch, which adds the packets of all workers and multicasts the sum.
 .
 This package has the header, the static library and pkg-config's file.
";

/// Builds both; returns their paths, the library's first.
pub(crate) fn build(arguments: &Arguments) -> Result<[PathBuf; 2]> {
    heading("Debian packages of the library for C");
    let out = super::super::output_folder(arguments.out.as_deref())?;
    let library = Package::new(&out, "libnetfold0", "libs", DESCRIPTION)?;
    let development = Package::new(&out, "libnetfold-dev", "libdevel", DESCRIPTION_DEVELOPMENT)?;
    let triplet =
        String::from_utf8(output(Command::new("dpkg-architecture").args(["-q", "DEB_HOST_MULTIARCH"]))?)?;
    let lib = format!("lib/{}", triplet.trim());
    install::run_install(&install::Arguments {
        prefix: "/usr".into(),
        libdir: lib.clone().into(),
        destdir: Some(development.root.clone()),
        dev: false,
        archive: arguments.archive.clone(),
        mpi: false,
    })?;
    let folder = development.root.join("usr").join(&lib);
    let loaded = library.root.join("usr").join(&lib);
    fs::create_dir_all(&loaded).with_context(|| format!("cannot create {}", loaded.display()))?;
    for file in files(&folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The link without a number is what linkers look for.
        if name.starts_with("libnetfold.so.") {
            fs::rename(&file, loaded.join(&name)).with_context(|| format!("cannot move {name}"))?;
        }
    }
    let shared = loaded.join(format!("libnetfold.so.{}", env!("CARGO_PKG_VERSION")));
    run(Command::new("strip")
        .args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"])
        .arg(&shared))
    .context("strip is in Debian's package binutils")?;
    run(Command::new("strip")
        .args(["--strip-debug", "--enable-deterministic-archives"])
        .arg(folder.join("libnetfold.a")))?;
    // Linkers make it executable, which libraries in Debian's packages are not.
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o644))?;
    library.write_library("libnetfold", SONAME_VERSION)?;
    for package in [&library, &development] {
        package.write_documents("netfold-c", arguments.licences.as_deref())?;
    }
    let depends = library.linked(&shared)?;
    let same = format!("libnetfold0 (= {})", debian_version(env!("CARGO_PKG_VERSION")));
    Ok([library.pack(&depends, &arguments.compression)?, development.pack(&same, &arguments.compression)?])
}
