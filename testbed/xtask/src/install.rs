//! The host library for C, where C compilers find it: libraries, header and pkg-config file; and the shim for MPI programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, heading, run};
use crate::tree;

/// Install libnetfold.so, libnetfold.a, netfold.h and netfold.pc, and libnetfold-mpi.so if that is wanted
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder under which lib/ and include/ lie
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    pub(crate) prefix: PathBuf,
    /// Folder of the libraries below the prefix
    #[arg(long, value_name = "DIR", default_value = "lib")]
    pub(crate) libdir: PathBuf,
    /// Folder to put before the prefix, for packagers
    #[arg(long, value_name = "DIR")]
    pub(crate) destdir: Option<PathBuf>,
    /// Build with the development profile, which is faster to build and slower to run
    #[arg(long, conflicts_with = "archive")]
    pub(crate) dev: bool,
    /// Install this static library (libnetfold_c.a) instead of building one
    #[arg(long = "library", value_name = "FILE")]
    pub(crate) archive: Option<PathBuf>,
    /// Also build libnetfold-mpi.so, with mpicc or the compiler that MPICC names, for the MPI that it belongs to
    #[arg(long)]
    pub(crate) mpi: bool,
}

/// Version of the binary interface: the number in the shared library's name.
pub(crate) const SONAME_VERSION: &str = "0";

/// System libraries that Rust's standard library needs.
const SYSTEM_LIBRARIES: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

pub(crate) fn run_install(arguments: &Arguments) -> Result<()> {
    heading("host library for C");
    let built = match &arguments.archive {
        Some(archive) => std::path::absolute(archive)?,
        None => build(arguments.dev)?,
    };
    if !built.is_file() {
        bail!("{} does not exist; was CARGO_BUILD_TARGET set?", built.display());
    }
    let prefix = if arguments.prefix.is_absolute() {
        arguments.prefix.clone()
    } else {
        std::env::current_dir()?.join(&arguments.prefix)
    };
    let root = match &arguments.destdir {
        Some(destdir) => destdir.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix.clone(),
    };
    let (lib, include) = (root.join(&arguments.libdir), root.join("include/netfold"));
    for folder in [&lib.join("pkgconfig"), &include] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    put(&built, &lib.join("libnetfold.a"))?;
    put(&tree::root().join("hostlib/c/include/netfold/netfold.h"), &include.join("netfold.h"))?;
    link_shared(&built, &lib)?;
    let pc = lib.join("pkgconfig/netfold.pc");
    fs::write(&pc, pkg_config(&prefix, &arguments.libdir))
        .with_context(|| format!("cannot write {}", pc.display()))?;
    if arguments.mpi {
        link_mpi(&lib, &root.join("include"))?;
    }
    println!("installed under {}", root.display());
    Ok(())
}

/// Builds the static library, and returns its path.
fn build(dev: bool) -> Result<PathBuf> {
    let profile: &[&str] = if dev { &[] } else { &["--release"] };
    run(&mut cargo(&[&["build", "-p", "netfold-c"], profile].concat()))?;
    Ok(built_folder()?.join(if dev { "debug" } else { "release" }).join("libnetfold_c.a"))
}

/// Where cargo puts what it builds.
fn built_folder() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    metadata["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .context("cargo metadata names no target directory")
}

fn put(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Links the shared library from the static one: rustc has no say over its name and symbol versions.
fn link_shared(archive: &Path, lib: &Path) -> Result<()> {
    let soname = format!("libnetfold.so.{SONAME_VERSION}");
    let file = format!("libnetfold.so.{}", env!("CARGO_PKG_VERSION"));
    let map = tree::root().join("hostlib/c/netfold.map");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler
        .args(["-shared", "-o"])
        .arg(lib.join(&file))
        .arg(format!("-Wl,-soname,{soname}"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        // Threads of the library may live when a program unloads it.
        .args(["-Wl,-z,nodelete", "-Wl,-z,relro,-z,now", "-Wl,--gc-sections", "-Wl,--whole-archive"])
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(SYSTEM_LIBRARIES);
    run(&mut compiler)?;
    for name in [soname.as_str(), "libnetfold.so"] {
        let link = lib.join(name);
        let _ = fs::remove_file(&link);
        symlink(&file, &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    Ok(())
}

/// Builds the shim. MPI's handles differ between implementations, so it belongs to the MPI whose compiler builds it.
fn link_mpi(lib: &Path, include: &Path) -> Result<()> {
    let folder = tree::root().join("hostlib/mpi");
    let sources =
        fs::read_dir(folder.join("src")).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut sources: Vec<PathBuf> =
        sources.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    sources.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
    sources.sort();
    let compiler = std::env::var_os("MPICC").unwrap_or_else(|| "mpicc".into());
    let mut compiler = Command::new(compiler);
    compiler
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-fPIC",
            "-pthread",
            "-shared",
            "-o",
        ])
        .arg(lib.join("libnetfold-mpi.so"))
        .arg("-I")
        .arg(include)
        .args(sources)
        .arg(format!("-Wl,--version-script={}", folder.join("netfold_mpi.map").display()))
        // It finds libnetfold.so beside itself.
        .args([
            "-Wl,-soname,libnetfold-mpi.so",
            "-Wl,-rpath,$ORIGIN",
            "-Wl,-z,nodelete",
            "-Wl,-z,defs",
            "-Wl,-z,now",
        ])
        .arg("-L")
        .arg(lib)
        .args(["-lnetfold", "-ldl"]);
    run(&mut compiler).context("the shim needs an MPI's compiler: install libopenmpi-dev, or set MPICC")
}

fn pkg_config(prefix: &Path, libdir: &Path) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/{}\nincludedir=${{prefix}}/include\n\n\
         Name: netfold\nDescription: Collective operations of distributed training, summed inside the network\n\
         Version: {}\nCflags: -I${{includedir}}\nLibs: -L${{libdir}} -lnetfold\nLibs.private: {}\n",
        prefix.display(),
        libdir.display(),
        env!("CARGO_PKG_VERSION"),
        SYSTEM_LIBRARIES.join(" "),
    )
}
