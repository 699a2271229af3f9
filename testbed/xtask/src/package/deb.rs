//! A Debian package of the `netfold` command: the program, its manual pages, completions, and systemd's units.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, heading, output, run};
use crate::tree;

/// Build a Debian package of the netfold command; needs dpkg-dev and binutils
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the package; target/package if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package this netfold instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// dpkg-deb's compression: xz, zstd, gzip or none
    #[arg(long, value_name = "TYPE", default_value = "xz")]
    compression: String,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

const DESCRIPTION: &str = "\
Description: in-network aggregation of the gradients of distributed training
 Netfold sums tensors inside the network: each worker sends its tensor once
 to a switch, which adds the packets of all workers and multicasts the sum.
 .
 This package has the netfold command: the software switch, the controller
 that shares switches among tenants, a worker, benchmarks, a demonstration,
 and the P4 programs for hardware switches.
";

/// Who maintains the package, unless Debian's variables DEBFULLNAME and DEBEMAIL name them.
const MAINTAINER: [&str; 2] = ["Netfold contributors", "netfold@localhost"];

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

/// systemd has to read new units. They are neither enabled nor started: they need addresses and certificates first.
const RELOAD: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then\n    systemctl --system daemon-reload >/dev/null || true\nfi\n";

pub(super) fn build(arguments: &Arguments) -> Result<()> {
    heading("Debian package");
    let binary = match &arguments.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => super::release("netfold-cli", "netfold")?,
    };
    let out = super::output_folder(arguments.out.as_deref())?;
    let root = out.join("netfold-deb");
    // It does not exist the first time.
    let _ = fs::remove_dir_all(&root);
    let installed = root.join("usr/bin/netfold");
    put(&installed, &fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?, 0o755)?;
    // As Debian's own tools strip programs.
    run(Command::new("strip").args(["--remove-section=.comment", "--remove-section=.note"]).arg(&installed))
        .context("strip is in Debian's package binutils")?;
    write_pages(&root, &installed)?;
    for (shell, path) in COMPLETIONS {
        put(&root.join(path), &output(Command::new(&installed).args(["completions", shell]))?, 0o644)?;
    }
    write_documents(&root)?;
    write_units(&root)?;
    let architecture = String::from_utf8(output(Command::new("dpkg").arg("--print-architecture"))?)?;
    let control = control(architecture.trim(), &dependencies(&out, &installed)?, installed_kib(&root)?);
    write_control(&root, &control)?;
    let package = out.join(format!("netfold_{}_{}.deb", debian_version(VERSION), architecture.trim()));
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group").arg(format!("-Z{}", arguments.compression)).arg("--build");
    run(pack.arg(&root).arg(&package))?;
    fs::remove_dir_all(&root)?;
    println!("{}", package.display());
    Ok(())
}

/// Writes a file of the package, with the folders above it.
fn put(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(failed)?;
    fs::write(path, content).with_context(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(failed)
}

/// Compresses files as Debian wants its documents: without names and times, so that every build gives the same bytes.
fn compress(paths: &[PathBuf]) -> Result<()> {
    output(Command::new("gzip").args(["-9", "--no-name"]).args(paths)).map(drop)
}

fn write_pages(root: &Path, netfold: &Path) -> Result<()> {
    let folder = root.join("usr/share/man/man1");
    output(Command::new(netfold).args(["man", "--output"]).arg(&folder))?;
    compress(&files(&folder)?)
}

fn write_documents(root: &Path) -> Result<()> {
    let folder = root.join("usr/share/doc/netfold");
    let source =
        |name: &str| fs::read(tree::root().join(name)).with_context(|| format!("cannot read {name}"));
    put(&folder.join("README.md"), &source("README.md")?, 0o644)?;
    let changes = ["changelog", "changelog.Debian"].map(|name| folder.join(name));
    put(&changes[0], &source("CHANGELOG.md")?, 0o644)?;
    put(&changes[1], debian_changes()?.as_bytes(), 0o644)?;
    compress(&changes)?;
    put(&folder.join("copyright"), copyright()?.as_bytes(), 0o644)
}

/// The one entry of the package's own changelog, at the time that SOURCE_DATE_EPOCH gives, or now.
fn debian_changes() -> Result<String> {
    let mut date = Command::new("date");
    date.arg("--rfc-email").env("LC_ALL", "C").env("TZ", "UTC");
    if let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") {
        date.arg(format!("--date=@{seconds}"));
    }
    let date = String::from_utf8(output(&mut date)?)?;
    let (version, maintainer) = (debian_version(VERSION), maintainer());
    Ok(format!(
        "netfold ({version}) unstable; urgency=medium\n\n  * Build of Netfold {VERSION}; changes are in changelog.gz.\n\n -- {maintainer}  {date}"
    ))
}

/// Cargo's version as Debian's: `1.0.0-rc.1` precedes `1.0.0`, which Debian writes with a tilde; and the number of the package's own revision.
fn debian_version(version: &str) -> String {
    format!("{}-1", version.replace('-', "~"))
}

/// The licence of Netfold, and those of the crates that are linked into the program.
fn copyright() -> Result<String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Netfold\n\n\
         Files: *\nCopyright: 2026 the Netfold contributors\nLicense: Apache-2.0\n\
         Comment:\n The program contains these crates of others, each under its own licence:\n",
    );
    let tree = [
        "tree",
        "--locked",
        "-p",
        "netfold-cli",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ];
    let crates = String::from_utf8(output(&mut cargo(&tree))?)?;
    let mut lines: Vec<String> = crates.lines().filter_map(crate_licence).collect();
    lines.sort();
    lines.dedup();
    lines.iter().for_each(|line| text += line);
    text +=
        "\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n";
    Ok(text)
}

/// A line about a crate of others; `None` for those of this workspace, which are named by their folder.
fn crate_licence(line: &str) -> Option<String> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split(' ').filter(|word| *word != "(proc-macro)");
    let (name, version) = (words.next()?, words.next()?);
    let own = words.next().is_some_and(|word| word.starts_with("(/"));
    (!own).then(|| {
        format!("  {name} {}: {}\n", version.trim_start_matches('v'), licence.trim_end_matches(" (*)"))
    })
}

/// Puts systemd's units where it finds them. The files beside them, drop-ins and environments, are examples to copy to /etc.
fn write_units(root: &Path) -> Result<()> {
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
        put(&root.join(place).join(name), &fs::read(&source)?, 0o644)?;
    }
    Ok(())
}

/// What the program links, as Debian's packages with their versions: dpkg-shlibdeps reads the program's symbols.
fn dependencies(out: &Path, netfold: &Path) -> Result<String> {
    // It wants a source package.
    let source = out.join("netfold-source");
    put(&source.join("debian/control"), b"Source: netfold\n\nPackage: netfold\nArchitecture: any\n", 0o644)?;
    let mut search = Command::new("dpkg-shlibdeps");
    let found = output(search.current_dir(&source).args(["-O", "-e"]).arg(netfold));
    fs::remove_dir_all(&source)?;
    let found = String::from_utf8(found.context("dpkg-shlibdeps is in Debian's package dpkg-dev")?)?;
    match found.trim().strip_prefix("shlibs:Depends=") {
        Some(packages) => Ok(packages.to_owned()),
        None => bail!("dpkg-shlibdeps found no dependencies: {found}"),
    }
}

/// Size of the installed files, each rounded up.
fn installed_kib(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { 1 + installed_kib(&entry.path())? } else { data.len().div_ceil(1024) };
    }
    Ok(sum)
}

fn maintainer() -> String {
    let [name, address] = MAINTAINER;
    let named =
        |variable: &str, default: &str| std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    format!("{} <{}>", named("DEBFULLNAME", name), named("DEBEMAIL", address))
}

fn control(architecture: &str, dependencies: &str, installed_kib: u64) -> String {
    format!(
        "Package: netfold\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\n\
         Installed-Size: {installed_kib}\nDepends: {dependencies}\nSection: net\nPriority: optional\n{DESCRIPTION}",
        debian_version(VERSION),
        maintainer()
    )
}

fn write_control(root: &Path, control: &str) -> Result<()> {
    let folder = root.join("DEBIAN");
    let sums =
        output(Command::new("sh").current_dir(root).args([
            "-c",
            "find . -type f -printf '%P\\0' | LC_ALL=C sort --zero-terminated | xargs -0 md5sum",
        ]))?;
    put(&folder.join("md5sums"), &sums, 0o644)?;
    put(&folder.join("control"), control.as_bytes(), 0o644)?;
    if root.join("lib/systemd/system").is_dir() {
        put(&folder.join("postinst"), RELOAD.as_bytes(), 0o755)?;
        put(&folder.join("postrm"), RELOAD.as_bytes(), 0o755)?;
    }
    Ok(())
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_named_with_their_licence() {
        assert_eq!(
            crate_licence("serde v1.0.229|MIT OR Apache-2.0").as_deref(),
            Some("  serde 1.0.229: MIT OR Apache-2.0\n")
        );
        assert_eq!(
            crate_licence("serde_derive v1.0.229 (proc-macro)|MIT OR Apache-2.0 (*)").as_deref(),
            Some("  serde_derive 1.0.229: MIT OR Apache-2.0\n")
        );
        assert_eq!(crate_licence("netfold-wire v0.1.0 (/a/dataplane/wire)|Apache-2.0"), None);
        assert_eq!(crate_licence(""), None);
    }

    #[test]
    fn versions_before_a_release_precede_it() {
        assert_eq!(["0.1.0", "1.0.0-rc.1"].map(debian_version), ["0.1.0-1", "1.0.0~rc.1-1"]);
    }
}
