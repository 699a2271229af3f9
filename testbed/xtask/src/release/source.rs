//! The source archive: the committed files, with the sources of all dependencies, so that it builds without a network.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::versions::VERSION;
use crate::process::{cargo, forget_folders, output, run};
use crate::tree;

/// Where dependencies are in the archive. It is copied along with cargo's configuration, whether it is there or not.
const VENDOR: &str = ".cargo/vendor";

/// Has cargo take crates from that folder.
const CONFIGURATION: &str = "
[source.crates-io]
replace-with = \"vendor\"

[source.vendor]
directory = \".cargo/vendor\"
";

/// The archive's folder, and its name without an ending.
pub(super) fn name() -> String {
    format!("netfold-{VERSION}")
}

/// Fails where files differ from those that are committed, or are not committed.
pub(super) fn require_clean() -> Result<()> {
    let changed = String::from_utf8(output(&mut git(&["status", "--porcelain"]))?)?;
    if !changed.is_empty() {
        bail!(
            "the tree has uncommitted changes: commit them, or add --allow-dirty to rehearse with them\n{changed}"
        );
    }
    Ok(())
}

/// Copies the committed files (with --allow-dirty: as they are now) to a new folder, without dependencies.
pub(super) fn stage(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Also those that were never committed, unless git ignores them; removed files are in neither list.
    let list =
        output(&mut git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]))?;
    let names: Vec<&str> =
        std::str::from_utf8(&list).context("a file's name is not UTF-8")?.split('\0').collect();
    let there = names
        .into_iter()
        .filter(|name| !name.is_empty() && tree::root().join(name).symlink_metadata().is_ok());
    // Links remain links.
    let mut copy = Command::new("cp");
    copy.current_dir(tree::root()).args([
        "--parents",
        "--no-dereference",
        "--preserve=mode,links",
        "--target-directory",
    ]);
    let status =
        copy.arg(folder).arg("--").args(there).stdin(Stdio::null()).status().context("cannot start cp")?;
    if !status.success() {
        bail!("cannot copy the tree to {} ({status})", folder.display());
    }
    Ok(())
}

/// Adds the sources of all dependencies, and has cargo use them.
pub(super) fn vendor(folder: &Path) -> Result<()> {
    let mut vendor = cargo(&["vendor", "--locked", "--quiet", "--versioned-dirs", VENDOR]);
    // What it prints names the registry that this machine uses.
    output(vendor.current_dir(folder))?;
    let configuration = folder.join(".cargo/config.toml");
    let text = fs::read_to_string(&configuration).context("the tree has .cargo/config.toml")?;
    fs::write(&configuration, text + CONFIGURATION)?;
    Ok(())
}

/// Packs a folder of that name: the same files give the same bytes.
pub(super) fn pack(parent: &Path, name: &str, archive: &Path) -> Result<()> {
    let time = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => String::from_utf8(output(&mut git(&["log", "-1", "--format=%ct"]))?)?.trim().to_owned(),
    };
    let mut tar = Command::new("tar");
    tar.current_dir(parent).args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args([&format!("--mtime=@{time}"), "--use-compress-program=xz -3 --threads=2", "--file"])
        .arg(archive);
    run(tar.arg(name))
}

/// Unpacks an archive in a new folder. Files are as old as that: cargo compares their times with those of what it built before.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    run(Command::new("tar")
        .args(["--extract", "--touch", "--directory"])
        .arg(folder)
        .arg("--file")
        .arg(archive))
}

/// Writes the checksums of files in a folder, and has sha256sum compare them.
pub(super) fn write_checksums(folder: &Path, files: &[&str], to: &str) -> Result<()> {
    let mut files = files.to_vec();
    files.sort_unstable();
    let sums = output(Command::new("sha256sum").current_dir(folder).arg("--").args(files))?;
    fs::write(folder.join(to), sums).with_context(|| format!("cannot write {to}"))?;
    output(Command::new("sha256sum").current_dir(folder).args(["--check", "--strict", "--quiet", to]))
        .map(drop)
}

/// A cargo that builds a tree with nothing but what the tree has: no network, and no crates of this machine.
pub(super) struct Offline {
    home: PathBuf,
    target: PathBuf,
    namespace: Vec<&'static str>,
}

impl Offline {
    /// It keeps nothing in `home`, an empty folder, and builds in `target`.
    pub(super) fn new(home: &Path, target: &Path) -> Result<Self> {
        fs::create_dir_all(home)?;
        let ways: [&[&str]; 2] = [&["unshare", "--net"], &["unshare", "--map-root-user", "--net"]];
        let able = |way: &&&[&str]| {
            let mut attempt = Command::new(way[0]);
            attempt.args(&way[1..]).arg("true").stderr(Stdio::null());
            attempt.status().is_ok_and(|status| status.success())
        };
        let namespace = ways.iter().find(able).map_or_else(Vec::new, |way| way.to_vec());
        if namespace.is_empty() {
            println!("this user cannot make network namespaces: cargo is only asked to stay offline");
        }
        Ok(Self { home: home.to_owned(), target: target.to_owned(), namespace })
    }

    /// How the network was taken away.
    pub(super) fn how(&self) -> &'static str {
        if self.namespace.is_empty() { "by cargo --offline" } else { "without a network" }
    }

    /// Runs a shell's command line in a folder of the tree.
    pub(super) fn run(&self, folder: &Path, line: &str) -> Result<()> {
        let toolchain = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let mut path: Vec<PathBuf> = toolchain.parent().map(Path::to_owned).into_iter().collect();
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let words = self.namespace.iter().copied().chain(["sh", "-e", "-c", line]);
        let words: Vec<&OsStr> = words.map(OsStr::new).collect();
        let mut shell = Command::new(words[0]);
        shell.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
        shell.env("PATH", std::env::join_paths(path)?).env("CARGO_HOME", &self.home);
        shell.env("CARGO_TARGET_DIR", &self.target).env("CARGO_NET_OFFLINE", "true");
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["CARGO_BIN_", "CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix)) {
                shell.env_remove(name.as_ref());
            }
        }
        forget_folders(&mut shell, folder, &self.target);
        run(&mut shell)
    }
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(tree::root()).args(arguments);
    git
}
