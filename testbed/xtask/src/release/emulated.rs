//! A wheel for 64-bit Arm, installed beside Debian's Python for that processor, and tried in an emulator of user mode.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::root::Root;
use crate::packages::{self, AARCH64_EMULATOR};
use crate::process::run;

/// Python and what it links, as Debian's packages for this architecture.
const ARCHITECTURE: &str = "arm64";
const PACKAGES: &[&str] = &["python3.11-minimal", "libpython3.11-stdlib"];
const INTERPRETER: &str = "usr/bin/python3.11";

/// What the wheel has to be for.
const PIP: &[&str] =
    &["--platform", "manylinux_2_28_aarch64", "--python-version", "3.11", "--only-binary", ":all:"];

/// Runs the demonstration, whose workers are processes: they are started by the launcher, since the kernel cannot start programs for another processor.
const DEMO: &str = "import runpy, sys; sys.executable = sys.argv.pop(1); runpy.run_module('netfold.demo', run_name='__main__', alter_sys=True)";

/// Why a wheel cannot be tried here, if it cannot.
pub(super) fn missing() -> Option<String> {
    packages::missing_for_aarch64().or_else(|| {
        let apt = crate::process::works("apt-get", &["--version"]);
        (!apt).then(|| "there is no apt-get, to download Python for that processor".to_owned())
    })
}

/// Installs a wheel by the pip of an interpreter of this machine, and runs the demonstration in the emulator.
pub(super) fn python(wheel: &Path, pip: &Path, folder: &Path) -> Result<String> {
    let root = folder.join("root");
    interpreter(folder, &Root::new(&root)?)?;
    let site = folder.join("site");
    let mut install = Command::new(pip);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
    ]);
    run(install.args(PIP).arg("--target").arg(&site).arg(wheel))?;
    let launcher = folder.join("python");
    let text = format!(
        "#!/bin/sh\nPYTHONHOME='{root}/usr' PYTHONPATH='{site}' exec {AARCH64_EMULATOR} -L '{root}' '{root}/{INTERPRETER}' \"$@\"\n",
        root = root.display(),
        site = site.display(),
    );
    fs::write(&launcher, text).with_context(|| format!("cannot write {}", launcher.display()))?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    let mut demo = Command::new(&launcher);
    demo.args(["-c", DEMO]).arg(&launcher);
    demo.args(["--workers", "2", "--size", "1", "--iterations", "2"]);
    run(demo.current_dir(folder).stdin(Stdio::null()))?;
    Ok(format!("all-reduce of 2 processes at the embedded switch, by {AARCH64_EMULATOR}"))
}

/// Downloads the interpreter's packages, with lists and caches of its own so that this machine's stay as they are, and unpacks them.
fn interpreter(folder: &Path, root: &Root) -> Result<()> {
    let state = folder.join("apt");
    let (lists, archives) = (state.join("lists"), state.join("archives"));
    for part in [&lists, &archives] {
        fs::create_dir_all(part.join("partial"))
            .with_context(|| format!("cannot create {}", part.display()))?;
    }
    // No package is installed there.
    let status = state.join("status");
    fs::write(&status, "").with_context(|| format!("cannot write {}", status.display()))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (name, place) in [
            ("Dir::State", &state),
            ("Dir::State::Lists", &lists),
            ("Dir::State::status", &status),
            ("Dir::Cache", &state),
            ("Dir::Cache::Archives", &archives),
        ] {
            command.arg("-o").arg(format!("{name}={}", place.display()));
        }
        command.args(["-o", &format!("APT::Architecture={ARCHITECTURE}")]);
        command.args(["-o", &format!("APT::Architectures={ARCHITECTURE}")]);
        // The folder may be readable by this user alone.
        command.args(["-o", "APT::Sandbox::User=root", "--quiet=2"]).args(arguments);
        run(command.stdin(Stdio::null()))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends", "--download-only"], PACKAGES].concat())?;
    for entry in fs::read_dir(&archives).with_context(|| format!("cannot read {}", archives.display()))? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            root.unpack(&package)?;
        }
    }
    root.require(&[INTERPRETER])
}
