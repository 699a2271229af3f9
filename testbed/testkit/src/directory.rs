//! Directories of a test.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory, removed with its contents when dropped.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes an empty directory that no other test has; its name contains `label`.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn new(label: &str) -> Self {
        Self::create(label).unwrap_or_else(|error| panic!("a temporary directory: {error}"))
    }

    /// The same for programs other than tests.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn create(label: &str) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netfold-{}-{number}-{label}", std::process::id()));
        // One is left where an earlier process with this id was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file in it; returns the file's path as text.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{path}: {error}"));
        path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_differ_and_go_with_their_contents() {
        let (one, other) = (TemporaryDirectory::new("kit"), TemporaryDirectory::new("kit"));
        assert_ne!(one.path(), other.path());
        let file = one.write("file", "content");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");
        drop(one);
        assert!(!Path::new(&file).exists() && other.path().exists());
    }
}
