//! An empty directory that takes the place of `/`: what is installed in it must be complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::process::{output, run};

/// Mounts what programs expect of a running system, in a mount namespace that ends with the command, and enters the directory.
const ENTER: &str = "mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && user=$2 && root=$1 && shift 2 \
     && exec chroot --userspec=\"$user\" \"$root\" \"$@\"";

/// A root directory.
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    /// A new one.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        for name in ["proc", "dev", "tmp"] {
            fs::create_dir_all(folder.join(name))
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Unpacks a Debian package.
    pub(super) fn unpack(&self, package: &Path) -> Result<()> {
        run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&self.folder))
    }

    /// Copies a program of this machine, in the place of one from the distribution's packages.
    pub(super) fn lend(&self, program: &str) -> Result<()> {
        let installed = self.folder.join(program.trim_start_matches('/'));
        copy(Path::new(program), &installed)?;
        self.lend_libraries(&installed)
    }

    /// Copies the libraries that a program links: those of the packages on which its own depends.
    pub(super) fn lend_libraries(&self, program: &Path) -> Result<()> {
        let listed = String::from_utf8(output(Command::new("ldd").arg(program))?)?;
        for library in listed.lines().filter_map(library_path) {
            copy(Path::new(library), &self.folder.join(library.trim_start_matches('/')))?;
        }
        Ok(())
    }

    /// Runs a program in it as a user, by number, and returns what it prints. Users other than root, who cannot enter a directory, run the
    /// program where it is.
    pub(super) fn run(&self, user: &str, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = if packages::is_root() {
            let mut enter = Command::new("unshare");
            enter.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(&self.folder).args([user, program]);
            enter
        } else {
            Command::new(self.folder.join(program.trim_start_matches('/')))
        };
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/tmp");
        Ok(String::from_utf8(output(&mut command)?)?)
    }

    /// How programs are run in it.
    pub(super) fn how() -> &'static str {
        if packages::is_root() { "an empty root directory (chroot)" } else { "an empty folder" }
    }

    /// Fails if a file is absent or empty.
    pub(super) fn require(&self, paths: &[&str]) -> Result<()> {
        for path in paths {
            let file = self.folder.join(path);
            if fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
                bail!("{path} was not installed, or is empty");
            }
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// The path in a line of ldd's; `None` for the kernel's own library.
fn library_path(line: &str) -> Option<&str> {
    let before = line.rsplit_once(" (")?.0;
    let path = before.rsplit("=> ").next()?.trim();
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_ldd() {
        assert_eq!(library_path("\tlinux-vdso.so.1 (0x0001)"), None);
        assert_eq!(library_path("\tlibm.so.6 => /lib/x/libm.so.6 (0x0001)"), Some("/lib/x/libm.so.6"));
        assert_eq!(
            library_path("\t/lib64/ld-linux-x86-64.so.2 (0x0001)"),
            Some("/lib64/ld-linux-x86-64.so.2")
        );
        assert_eq!(library_path("\tlibm.so.6 => not found"), None);
    }
}
