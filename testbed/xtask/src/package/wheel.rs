//! A wheel of the Python package, which installs without a Rust toolchain.
//!
//! The build is that of `pip install ./hostlib/python`, by maturin, which strips the library and reads from its symbols the oldest glibc
//! that it runs with. The wheel's name says that (`manylinux_2_34`), so pip refuses it where it cannot run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::metadata;
use crate::process::{forget_folders, heading, run, works};
use crate::tree;

/// Build a wheel of the Python package; needs Python 3.11 or later
#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the wheel; target/package if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Interpreter that has pip and maturin; one of a virtual environment in target/ if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) python: Option<PathBuf>,
    /// Package this lib_netfold.so instead of building one
    #[arg(long = "library", value_name = "FILE")]
    pub(crate) built: Option<PathBuf>,
    /// Link for glibc 2.28 with zig from PyPI, whatever this machine's glibc is
    #[arg(long, conflicts_with = "built")]
    pub(crate) zig: bool,
    /// Tree to build, if it is not this one
    #[arg(long, value_name = "DIR", conflicts_with = "built")]
    pub(crate) source: Option<PathBuf>,
    /// Also package this list of components (CycloneDX)
    #[arg(long, value_name = "FILE")]
    pub(crate) sbom: Option<PathBuf>,
    /// What to build for, if not for this machine; only with zig
    #[arg(long, value_name = "TARGET", requires = "zig")]
    pub(crate) platform: Option<String>,
    /// Folder for what cargo builds; the wheel then names no folder of this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) target: Option<PathBuf>,
}

const MATURIN: &str = "maturin>=1.8,<2";

/// The linker that knows the symbols of each glibc. Debian 10, Ubuntu 20.04 and RHEL 8 have 2.28 or later.
const ZIG: &str = "ziglang>=0.13";
const ZIG_PLATFORM: &str = "manylinux_2_28";

/// Interpreters to try. The second is Debian's, for when the first cannot make virtual environments.
const PYTHONS: &[&str] = &["python3", "/usr/bin/python3"];

const NEEDED: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// Builds the wheel; returns its path.
pub(crate) fn build(arguments: &Arguments) -> Result<PathBuf> {
    heading("wheel");
    let python = match &arguments.python {
        Some(python) => std::path::absolute(python)?,
        None => environment()?,
    };
    let out = super::output_folder(arguments.out.as_deref())?;
    let mut path = vec![python.parent().context("an interpreter lies in a folder")?.to_owned()];
    if let Some(built) = &arguments.built {
        let tools = out.join("tools");
        write_cargo(&tools, &std::path::absolute(built)?)?;
        path.insert(0, tools);
    }
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let source = arguments.source.as_deref().unwrap_or(tree::root());
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-build-isolation",
        "--no-deps",
    ]);
    pip.arg("--wheel-dir").arg(&out).arg(source.join("hostlib/python"));
    // maturin takes cargo from PATH. Without this it names wheels of `pip wheel` after this machine.
    pip.env("PATH", std::env::join_paths(path)?).env_remove("CARGO");
    pip.env("MATURIN_PEP517_ARGS", maturin_arguments(arguments)?).current_dir(source);
    if let Some(target) = &arguments.target {
        let target = std::path::absolute(target)?;
        forget_folders(&mut pip, &std::path::absolute(source)?, &target);
        pip.env("CARGO_TARGET_DIR", target);
    }
    run(&mut pip)?;
    let name = format!("netfold-{}-cp311-abi3-manylinux", env!("CARGO_PKG_VERSION"));
    let is_wheel =
        |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name));
    let built = fs::read_dir(&out)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let processor = arguments.platform.as_deref().unwrap_or(std::env::consts::ARCH).split('-').next();
    let is_for_it = |path: &PathBuf| {
        is_wheel(path) && path.to_string_lossy().ends_with(&format!("{}.whl", processor.unwrap_or_default()))
    };
    let Some(wheel) = built.into_iter().find(is_for_it) else {
        bail!("maturin has made no wheel whose name begins with {name} in {}", out.display());
    };
    println!("{}", wheel.display());
    Ok(wheel)
}

/// What maturin is asked for beside what pip asks.
fn maturin_arguments(arguments: &Arguments) -> Result<String> {
    let platform = if arguments.zig { format!("{ZIG_PLATFORM} --zig") } else { "pypi".to_owned() };
    let mut text = format!("--compatibility {platform} --locked");
    if let Some(platform) = &arguments.platform {
        text += &format!(" --target {platform}");
    }
    if let Some(sbom) = &arguments.sbom {
        text += &format!(" --sbom-include {}", std::path::absolute(sbom)?.display());
    }
    Ok(text)
}

/// Whether the environment for wheels has zig.
pub(crate) fn has_zig() -> Result<bool> {
    let python = metadata::target_folder()?.join("maturin/bin/python");
    Ok(works(&python.to_string_lossy(), &["-m", "ziglang", "version"]))
}

/// Installs maturin and zig where wheels are built.
pub(crate) fn install_zig() -> Result<()> {
    let python = environment()?;
    if has_zig()? {
        println!("maturin and zig are installed");
        return Ok(());
    }
    run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ZIG]))
}

/// An interpreter that makes virtual environments.
pub(crate) fn interpreter() -> Result<&'static str> {
    match PYTHONS.iter().find(|python| works(python, &["-c", NEEDED])) {
        Some(python) => Ok(python),
        None => bail!(
            "there is no Python of version 3.11 or later that makes virtual environments: install python3-venv"
        ),
    }
}

/// The interpreter of an environment with maturin, which is made once.
fn environment() -> Result<PathBuf> {
    let folder = metadata::target_folder()?.join("maturin");
    let python = folder.join("bin/python");
    let has_maturin = || works(&python.to_string_lossy(), &["-m", "maturin", "--version"]);
    if has_maturin() {
        return Ok(python);
    }
    let base = interpreter()?;
    run(Command::new(base).args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        MATURIN,
    ]))?;
    Ok(python)
}

/// Writes a program `cargo` that answers maturin's `cargo rustc` with a library that has been built. Everything else goes to the real cargo.
fn write_cargo(folder: &Path, library: &Path) -> Result<()> {
    let metadata = metadata::metadata()?;
    let packages = metadata["packages"].as_array().context("a workspace has packages")?;
    let package = packages.iter().find(|one| one["name"] == "netfold-python");
    let package = package.context("the workspace has a package netfold-python")?;
    let targets = package["targets"].as_array().context("a package has targets")?;
    let target = targets.iter().find(|one| one["name"] == "_netfold").context("it has a library")?;
    let artifact = serde_json::json!({
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": target,
        "profile": {"opt_level": "3", "debuginfo": 0, "debug_assertions": false, "overflow_checks": false, "test": false},
        "features": [],
        "filenames": [library],
        "executable": null,
        "fresh": true,
    });
    fs::create_dir_all(folder)?;
    let messages = folder.join("messages.json");
    fs::write(&messages, format!("{artifact}\n{{\"reason\":\"build-finished\",\"success\":true}}\n"))?;
    let quoted = |path: &str| path.replace('\'', "'\\''");
    let real = quoted(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let messages = quoted(&messages.to_string_lossy());
    let program = folder.join("cargo");
    fs::write(
        &program,
        format!("#!/bin/sh\nif [ \"$1\" = rustc ]; then exec cat '{messages}'; fi\nexec '{real}' \"$@\"\n"),
    )?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
