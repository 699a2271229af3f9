//! Files that are generated from others and committed, so that a build needs no generator.

use std::collections::BTreeSet;
use std::path::Path;

/// Compares a committed directory with what its generator writes now; with `UPDATE_SNAPSHOTS` in the environment, replaces its
/// contents first.
///
/// # Panics
///
/// When the two differ: the message names the files and `command`, which rewrites them. When a file cannot be read or written.
pub fn assert_equal(committed: &Path, generated: &Path, command: &str) {
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        replace(committed, generated);
    }
    let names: BTreeSet<String> = names(committed).union(&names(generated)).cloned().collect();
    let is_equal =
        |name: &String| match (std::fs::read(committed.join(name)), std::fs::read(generated.join(name))) {
            (Ok(old), Ok(new)) => old == new,
            _ => false,
        };
    let changed: Vec<String> = names.into_iter().filter(|name| !is_equal(name)).collect();
    assert!(
        changed.is_empty(),
        "{} in {} differ from what is generated; `{command}` rewrites them",
        changed.join(", "),
        committed.display()
    );
}

fn replace(committed: &Path, generated: &Path) {
    let _ = std::fs::remove_dir_all(committed);
    std::fs::create_dir_all(committed).unwrap_or_else(|error| panic!("{}: {error}", committed.display()));
    for name in names(generated) {
        let to = committed.join(&name);
        std::fs::copy(generated.join(&name), &to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    }
}

/// The files of a directory; none when there is no such directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::assert_equal;
    use crate::directory::TemporaryDirectory;

    #[test]
    fn equal_directories_pass() {
        let (committed, generated) = (TemporaryDirectory::new("old"), TemporaryDirectory::new("new"));
        for directory in [&committed, &generated] {
            directory.write("a.rs", "a");
        }
        assert_equal(committed.path(), generated.path(), "make");
    }

    #[test]
    #[should_panic(expected = "a.rs, b.rs in")]
    fn changed_and_missing_files_are_named() {
        let (committed, generated) = (TemporaryDirectory::new("old"), TemporaryDirectory::new("new"));
        committed.write("a.rs", "a");
        generated.write("a.rs", "other");
        generated.write("b.rs", "b");
        assert_equal(committed.path(), generated.path(), "make");
    }
}
