//! What every Debian package has: its files before they are packed, its documents, and its control files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, run};
use crate::tree;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who maintains the package, unless Debian's variables DEBFULLNAME and DEBEMAIL name them.
const MAINTAINER: [&str; 2] = ["Netfold contributors", "netfold@localhost"];

/// systemd has to read new units. They are neither enabled nor started: they need addresses and certificates first.
const RELOAD: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then\n    systemctl --system daemon-reload >/dev/null || true\nfi\n";

/// Linkers read again which libraries there are.
const LIBRARY_TRIGGER: &str = "activate-noawait ldconfig\n";

/// A package, in a folder that is removed when it is packed.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) section: &'static str,
    /// The field `Description`, with its name.
    pub(super) description: &'static str,
    /// What is installed, by its path from the root.
    pub(super) root: PathBuf,
}

impl Package {
    /// A package without files, below a folder.
    pub(super) fn new(
        out: &Path,
        name: &'static str,
        section: &'static str,
        description: &'static str,
    ) -> Result<Self> {
        let root = out.join(format!("{name}-deb"));
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
        }
        Ok(Self { name, section, description, root })
    }

    /// Writes a file of the package.
    pub(super) fn put(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        put(&self.root.join(path), content, mode)
    }

    /// Writes changes, licences of crates that a package of cargo's has, and the texts of these licences if a file has them.
    pub(super) fn write_documents(&self, crates_of: &str, licences: Option<&Path>) -> Result<()> {
        let folder = self.root.join("usr/share/doc").join(self.name);
        let source =
            |name: &str| fs::read(tree::root().join(name)).with_context(|| format!("cannot read {name}"));
        put(&folder.join("README.md"), &source("README.md")?, 0o644)?;
        let mut compressed = ["changelog", "changelog.Debian"].map(|name| folder.join(name)).to_vec();
        put(&compressed[0], &source("CHANGELOG.md")?, 0o644)?;
        put(&compressed[1], debian_changes(self.name)?.as_bytes(), 0o644)?;
        if let Some(licences) = licences {
            let text = fs::read(licences).with_context(|| format!("cannot read {}", licences.display()))?;
            compressed.push(folder.join("THIRD-PARTY.txt"));
            put(&compressed[2], &text, 0o644)?;
        }
        compress(&compressed)?;
        put(&folder.join("copyright"), copyright(crates_of)?.as_bytes(), 0o644)
    }

    /// What a program or library links, as Debian's packages with their versions: dpkg-shlibdeps reads its symbols.
    pub(super) fn linked(&self, program: &Path) -> Result<String> {
        // It wants a source package.
        let source = self.root.with_extension("source");
        let control = format!("Source: {0}\n\nPackage: {0}\nArchitecture: any\n", self.name);
        put(&source.join("debian/control"), control.as_bytes(), 0o644)?;
        let mut search = Command::new("dpkg-shlibdeps");
        let found = output(search.current_dir(&source).args(["-O", "-e"]).arg(program));
        fs::remove_dir_all(&source)?;
        let found = String::from_utf8(found.context("dpkg-shlibdeps is in Debian's package dpkg-dev")?)?;
        match found.trim().strip_prefix("shlibs:Depends=") {
            Some(packages) => Ok(packages.to_owned()),
            None => bail!("dpkg-shlibdeps found no dependencies: {found}"),
        }
    }

    /// Packs it beside its folder, and removes that.
    pub(super) fn pack(&self, depends: &str, compression: &str) -> Result<PathBuf> {
        let architecture = architecture()?;
        self.write_control(&architecture, depends)?;
        let file = format!("{}_{}_{architecture}.deb", self.name, debian_version(VERSION));
        let package = self.root.with_file_name(file);
        let mut pack = Command::new("dpkg-deb");
        pack.arg("--root-owner-group").arg(format!("-Z{compression}")).arg("--build");
        run(pack.arg(&self.root).arg(&package))?;
        fs::remove_dir_all(&self.root)?;
        println!("{}", package.display());
        Ok(package)
    }

    fn write_control(&self, architecture: &str, depends: &str) -> Result<()> {
        let control = format!(
            "Package: {}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\n\
             Installed-Size: {}\nDepends: {depends}\nSection: {}\nPriority: optional\n{}",
            self.name,
            debian_version(VERSION),
            maintainer(),
            installed_kib(&self.root)?,
            self.section,
            self.description
        );
        let folder = self.root.join("DEBIAN");
        let sums = output(Command::new("sh").current_dir(&self.root).args([
            "-c",
            "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort --zero-terminated | xargs -0 md5sum",
        ]))?;
        put(&folder.join("md5sums"), &sums, 0o644)?;
        put(&folder.join("control"), control.as_bytes(), 0o644)?;
        if self.root.join("lib/systemd/system").is_dir() {
            put(&folder.join("postinst"), RELOAD.as_bytes(), 0o755)?;
            put(&folder.join("postrm"), RELOAD.as_bytes(), 0o755)?;
        }
        Ok(())
    }

    /// Says which version of the package programs need that link a library of it.
    pub(super) fn write_library(&self, library: &str, soname: &str) -> Result<()> {
        let version = VERSION.replace('-', "~");
        let needed = format!("{library} {soname} {} (>= {version})\n", self.name);
        self.put("DEBIAN/shlibs", needed.as_bytes(), 0o644)?;
        self.put("DEBIAN/triggers", LIBRARY_TRIGGER.as_bytes(), 0o644)
    }
}

/// Debian's name of this machine's processor.
fn architecture() -> Result<String> {
    let name = output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(String::from_utf8(name)?.trim().to_owned())
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
pub(super) fn compress(paths: &[PathBuf]) -> Result<()> {
    output(Command::new("gzip").args(["-9", "--no-name"]).args(paths)).map(drop)
}

/// The one entry of the package's own changelog, at the time that SOURCE_DATE_EPOCH gives, or now.
fn debian_changes(package: &str) -> Result<String> {
    let mut date = Command::new("date");
    date.arg("--rfc-email").env("LC_ALL", "C").env("TZ", "UTC");
    if let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") {
        date.arg(format!("--date=@{seconds}"));
    }
    let date = String::from_utf8(output(&mut date)?)?;
    let (version, maintainer) = (debian_version(VERSION), maintainer());
    Ok(format!(
        "{package} ({version}) unstable; urgency=medium\n\n  * Build of Netfold {VERSION}; changes are in changelog.gz.\n\n -- {maintainer}  {date}"
    ))
}

/// Cargo's version as Debian's: `1.0.0-rc.1` precedes `1.0.0`, which Debian writes with a tilde; and the number of the package's own revision.
pub(super) fn debian_version(version: &str) -> String {
    format!("{}-1", version.replace('-', "~"))
}

/// The licence of Netfold, and those of the crates that are linked into a package of cargo's.
fn copyright(package: &str) -> Result<String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Netfold\n\n\
         Files: *\nCopyright: 2026 the Netfold contributors\nLicense: Apache-2.0\n\
         Comment:\n The program contains these crates of others, each under its own licence:\n",
    );
    let tree =
        ["tree", "--locked", "-p", package, "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}"];
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

/// The files of a folder, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
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
