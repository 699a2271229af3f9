//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Folders whose contents are not sources.
const LEFT_OUT: &[&str] = &[".git", "target"];

/// Every file of the tree by its path from the root, in order, build outputs left out.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(root(), &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if !LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
                walk(&path, found)?;
            }
        } else if kind.is_file() {
            found.push(path.strip_prefix(root()).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// The text of a file, by its path from the root; `None` when it is not text.
pub(crate) fn text(path: &Path) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Whether a path has one of these extensions.
pub(crate) fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|name| name.to_str()).is_some_and(|name| extensions.contains(&name))
}
