//! What is tried of packages where they were installed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::root::Root;
use super::versions::VERSION;
use crate::package::wheel;
use crate::packages;
use crate::process::{output, run, works};
use crate::tree;

/// What the command's package must have, apart from manual pages.
const INSTALLED: &[&str] = &[
    "usr/bin/netfold",
    "usr/share/bash-completion/completions/netfold",
    "usr/share/zsh/vendor-completions/_netfold",
    "usr/share/fish/vendor_completions.d/netfold.fish",
    "lib/systemd/system/netfold-controller.service",
    "lib/systemd/system/netfold-switch.service",
    "usr/share/doc/netfold/copyright",
    "usr/share/doc/netfold/THIRD-PARTY.txt.gz",
];

/// The user that runs what is tried: none that a system knows.
const USER: &str = "65532:65532";

/// Unpacks the command's package in an empty root, and trains there.
pub(super) fn command(package: &Path, folder: &Path) -> Result<String> {
    let root = Root::new(folder)?;
    root.unpack(package)?;
    root.require(INSTALLED)?;
    let pages = count_pages(&folder.join("usr/share/man/man1"))?;
    // What the packages have that it depends on.
    root.lend_libraries(&folder.join("usr/bin/netfold"))?;
    let version = root.run(USER, "/usr/bin/netfold", &["--version"])?;
    if version.trim() != format!("netfold {VERSION}") {
        bail!("the package of version {VERSION} has {}", version.trim());
    }
    root.run(USER, "/usr/bin/netfold", &["demo", "--workers", "2", "--epochs", "2"])?;
    Ok(format!("--version; demo of 2 workers; {pages} manual pages{}", lint(&[package])?))
}

/// The number of manual pages, none of which may be empty.
fn count_pages(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut count = 0;
    for entry in entries {
        let path = entry?.path();
        // There are dozens: they are not shown.
        let text = Command::new("gzip").args(["--decompress", "--stdout"]).arg(&path).output()?;
        if !String::from_utf8_lossy(&text.stdout).contains(".SH ") {
            bail!("{} has no sections", path.display());
        }
        count += 1;
    }
    if count == 0 {
        bail!("there are no manual pages in {}", folder.display());
    }
    Ok(count)
}

/// Unpacks both packages of the library in an empty root, builds the example by what pkg-config says, and runs it at a switch.
pub(super) fn library(packages: &[PathBuf; 2], netfold: &Path, folder: &Path) -> Result<String> {
    let root = Root::new(folder)?;
    packages.iter().try_for_each(|package| root.unpack(package))?;
    let lib = fs::read_dir(folder.join("usr/lib"))?.next().context("usr/lib is empty")??.path();
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "netfold"]).env("PKG_CONFIG_SYSROOT_DIR", folder);
    let pkg_config = lib.join("pkgconfig");
    let flags = String::from_utf8(output(flags.env("PKG_CONFIG_LIBDIR", &pkg_config))?)?;
    let stated = output(
        Command::new("pkg-config").args(["--modversion", "netfold"]).env("PKG_CONFIG_LIBDIR", &pkg_config),
    )?;
    if String::from_utf8_lossy(&stated).trim() != VERSION {
        bail!("netfold.pc has version {}", String::from_utf8_lossy(&stated).trim());
    }
    let example = folder.join("tmp/all_reduce");
    let mut compile = Command::new("cc");
    compile.arg(tree::root().join("hostlib/c/examples/all_reduce.c")).args(flags.split_whitespace());
    run(compile.arg("-o").arg(&example))?;
    let switch = Switch::start(netfold)?;
    let ranks: Vec<Child> = ["0", "1"]
        .iter()
        .map(|rank| {
            let mut one = Command::new(&example);
            one.args([&switch.address, "release", rank, "2"])
                .env("LD_LIBRARY_PATH", &lib)
                .stdin(Stdio::null());
            one.spawn().context("cannot start the example")
        })
        .collect::<Result<_>>()?;
    for mut rank in ranks {
        let status = rank.wait()?;
        if !status.success() {
            bail!("the example in C failed ({status})");
        }
    }
    Ok(format!("example in C by pkg-config, 2 ranks at a switch{}", lint(&[&packages[0], &packages[1]])?))
}

/// A switch of this machine, until it is dropped.
struct Switch {
    process: Child,
    address: String,
    /// Kept open: a switch that cannot print its events ends.
    _events: BufReader<ChildStdout>,
}

impl Switch {
    fn start(netfold: &Path) -> Result<Self> {
        let mut command = Command::new(netfold);
        command
            .args(["switch", "--listen", "127.0.0.1:0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {}", netfold.display()))?;
        let mut events = BufReader::new(process.stdout.take().context("standard output was piped")?);
        let mut line = String::new();
        let read = events.read_line(&mut line);
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        match (read, event["control"].as_str()) {
            (Ok(_), Some(address)) => Ok(Self { address: address.to_owned(), process, _events: events }),
            _ => {
                let _ = process.kill();
                let _ = process.wait();
                bail!("netfold switch names no address: {line}")
            }
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Has lintian look for errors, where it is installed. Returns what to add to a list of what was tried.
fn lint(debian: &[&Path]) -> Result<&'static str> {
    if !works("lintian", &["--version"]) {
        println!("skipped: lintian, which is not installed (`apt-get install lintian`)");
        return Ok("");
    }
    // The packages do not close a report of Debian's; without a maintainer they have an address of this machine.
    let mut accepted = vec!["initial-upload-closes-no-bugs"];
    if !has_maintainer() {
        accepted.extend(["bogus-mail-host", "bogus-mail-host-in-debian-changelog"]);
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--tag-display-limit", "0", "--suppress-tags", &accepted.join(",")]);
    if packages::is_root() {
        lintian.arg("--allow-root");
    }
    run(lintian.args(debian)).context("lintian has found errors, which it prints")?;
    Ok("; lintian")
}

/// Whether Debian's variables name who maintains the packages.
pub(super) fn has_maintainer() -> bool {
    std::env::var_os("DEBEMAIL").is_some()
}

/// Installs the wheel in a new virtual environment, without an index, and reduces there. It is complete with licences and components.
pub(super) fn python(wheel: &Path, folder: &Path, complete: bool) -> Result<String> {
    run(Command::new(wheel::interpreter()?).args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]);
    run(pip.arg(wheel))?;
    let mut files = Command::new(&python);
    files.args(["-c", FILES]);
    let files = String::from_utf8(output(&mut files)?)?;
    for name in ["licenses/LICENSE", "licenses/THIRD-PARTY.txt", "sboms/netfold-python.cdx.json"] {
        if complete && !files.lines().any(|file| file.ends_with(name)) {
            bail!("the wheel has no {name}");
        }
    }
    let version = output(
        Command::new(&python).args(["-c", "import importlib.metadata as m; print(m.version('netfold'))"]),
    )?;
    if String::from_utf8_lossy(&version).trim() != VERSION {
        bail!("the wheel has version {}", String::from_utf8_lossy(&version).trim());
    }
    let demo = ["-m", "netfold.demo", "--workers", "2", "--size", "1", "--iterations", "2"];
    run(Command::new(&python).args(demo).current_dir(folder).stdin(Stdio::null()))?;
    Ok("all-reduce of 2 processes at the embedded switch".to_owned())
}

/// Prints the files of the installed package.
const FILES: &str = "import importlib.metadata as m\nfor f in m.files('netfold'): print(f)";
