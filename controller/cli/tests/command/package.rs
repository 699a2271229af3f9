//! The Debian package: `cargo xtask package deb` on the program that is tested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process::present;

use crate::process::netfold;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program prints; it must succeed.
fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn text(command: &mut Command) -> String {
    String::from_utf8(output(command)).unwrap()
}

/// Makes the package. It is not compressed, which takes longer than all else.
fn build(folder: &Path) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["xtask", "package", "deb", "--compression", "none", "--out"]).arg(folder);
    build.args(["--binary", env!("CARGO_BIN_EXE_netfold")]);
    let printed = text(build.env("DEBFULLNAME", "A Maintainer").env("DEBEMAIL", "a@netfold.dev"));
    PathBuf::from(printed.lines().last().unwrap())
}

/// The fields of the package's control file that are on one line.
fn fields(package: &Path) -> BTreeMap<String, String> {
    let control = text(Command::new("dpkg-deb").arg("--field").arg(package));
    let fields = control.lines().filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A version as numbers, to compare.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap()).collect()
}

/// The newest version of glibc's symbols that a program needs.
fn glibc_of(program: &Path) -> Vec<u32> {
    let symbols = text(Command::new("objdump").arg("-T").arg(program));
    let versions = symbols
        .split("GLIBC_")
        .skip(1)
        .map(|rest| numbers(rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap()));
    versions.max().unwrap()
}

fn check_control(package: &Path, program: &Path) {
    let fields = fields(package);
    assert_eq!(fields["Package"], "netfold");
    assert_eq!(fields["Version"], format!("{}-1", env!("CARGO_PKG_VERSION").replace('-', "~")));
    assert_eq!(fields["Maintainer"], "A Maintainer <a@netfold.dev>");
    let architecture = text(Command::new("dpkg").arg("--print-architecture"));
    assert_eq!(fields["Architecture"], architecture.trim());
    let name = format!("netfold_{}_{}.deb", fields["Version"], architecture.trim());
    assert!(package.ends_with(&name), "{}", package.display());
    let kib = std::fs::metadata(program).unwrap().len() / 1024;
    assert!(fields["Installed-Size"].parse::<u64>().unwrap() > kib, "{fields:?}");
    let depends: BTreeMap<&str, &str> =
        fields["Depends"].split(", ").map(|one| one.split_once(" (>= ").unwrap_or((one, ""))).collect();
    // Debian may require a later version than the symbols' for changes of behaviour, never an earlier one.
    assert!(numbers(depends["libc6"].trim_end_matches(')')) >= glibc_of(program), "{depends:?}");
    assert!(depends.contains_key("libgcc-s1"), "{depends:?}");
}

/// Every file of a folder, by its name.
fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

fn check_pages(unpacked: &Path) {
    let expected = TemporaryDirectory::new("pages");
    output(netfold("man --output").arg(expected.path()));
    let (packaged, expected) = (files(&unpacked.join("usr/share/man/man1")), files(expected.path()));
    assert!(packaged.keys().eq(expected.keys().map(|name| format!("{name}.gz")).collect::<Vec<_>>().iter()));
    for (name, page) in packaged {
        let page = output(Command::new("gzip").arg("-dc").arg(page));
        assert!(page == std::fs::read(&expected[name.trim_end_matches(".gz")]).unwrap(), "{name}");
    }
    for (shell, path) in [
        ("bash", "bash-completion/completions/netfold"),
        ("zsh", "zsh/vendor-completions/_netfold"),
        ("fish", "fish/vendor_completions.d/netfold.fish"),
    ] {
        let packaged = std::fs::read(unpacked.join("usr/share").join(path)).unwrap();
        assert!(packaged == output(&mut netfold(&format!("completions {shell}"))), "{shell}");
    }
}

fn check_documents(unpacked: &Path) {
    let folder = unpacked.join("usr/share/doc/netfold");
    let copyright = std::fs::read_to_string(folder.join("copyright")).unwrap();
    assert!(copyright.contains("License: Apache-2.0\n") && copyright.contains("\n  tokio 1."), "{copyright}");
    assert!(!copyright.contains("netfold-wire"), "{copyright}");
    let changes = text(Command::new("gzip").arg("-dc").arg(folder.join("changelog.Debian.gz")));
    assert!(changes.starts_with("netfold (") && changes.contains("\n -- A Maintainer <"), "{changes}");
    let readme = std::fs::read(folder.join("README.md")).unwrap();
    assert!(readme == std::fs::read(root().join("README.md")).unwrap());
    let units = root().join("controller/cli/packaging/systemd");
    let units = if units.is_dir() { files(&units) } else { BTreeMap::new() };
    for (name, unit) in units {
        let folder = if name.ends_with(".service") {
            "lib/systemd/system"
        } else {
            "usr/share/doc/netfold/examples/systemd"
        };
        assert!(
            std::fs::read(unit).unwrap() == std::fs::read(unpacked.join(folder).join(&name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn the_debian_package_has_the_program_its_pages_and_its_dependencies() {
    for tool in ["dpkg-deb", "dpkg-shlibdeps", "objdump"] {
        if !present(tool, "the Debian package") {
            return;
        }
    }
    let folder = TemporaryDirectory::new("package");
    let package = build(folder.path());
    let listing = text(Command::new("dpkg-deb").arg("--contents").arg(&package));
    assert!(listing.lines().all(|line| line.contains(" root/root ")), "{listing}");

    let unpacked = folder.path().join("unpacked");
    output(Command::new("dpkg-deb").arg("--raw-extract").arg(&package).arg(&unpacked));
    output(Command::new("md5sum").args(["--check", "--strict", "DEBIAN/md5sums"]).current_dir(&unpacked));
    let program = unpacked.join("usr/bin/netfold");
    let version = text(Command::new(&program).arg("--version"));
    assert_eq!(version, format!("netfold {}\n", env!("CARGO_PKG_VERSION")));
    check_control(&package, &program);
    check_pages(&unpacked);
    check_documents(&unpacked);
    if std::env::var_os("NETFOLD_LONG").is_some() && present("lintian", "lintian on the Debian package") {
        let accepted = "uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball,initial-upload-closes-no-bugs";
        let mut lintian = Command::new("lintian");
        output(lintian.args(["--fail-on", "error,warning", "--suppress-tags", accepted]).arg(&package));
    }
}
