//! What the compiler made of programs, on disk: compiling takes up to half a minute, and processes want the same few programs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::COMPILER;
use super::compile::{CompileError, Compiled};

/// The environment variable that names the folder of compiled programs. Without it nothing is kept.
pub const CACHE: &str = "NETFOLD_P4C_CACHE";

/// A file of the folder.
#[derive(Serialize, Deserialize)]
struct Kept {
    json: String,
    p4info: String,
    warnings: String,
}

/// Returns what is kept of a text, or compiles it and keeps that. Processes that want the same text wait for the first.
pub(super) fn find_or(
    folder: &Path,
    text: &str,
    compile: impl FnOnce() -> Result<Compiled, CompileError>,
) -> Result<Compiled, CompileError> {
    let file = folder.join(format!("{}.json", key(text)?));
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CompileError::File { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let lock = file.with_extension("lock");
    let locked = File::create(&lock).map_err(failed(&lock))?;
    locked.lock().map_err(failed(&lock))?;
    let found = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
    if let Some(Kept { json, p4info, warnings }) = found {
        return Ok(Compiled { json: json.into_bytes(), p4info, warnings });
    }
    let compiled = compile()?;
    if let Ok(json) = String::from_utf8(compiled.json.clone()) {
        let kept = Kept { json, p4info: compiled.p4info.clone(), warnings: compiled.warnings.clone() };
        let bytes = serde_json::to_vec(&kept).map_err(std::io::Error::from).map_err(failed(&file))?;
        // As a whole or not at all.
        let new = file.with_extension("new");
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, &file)).map_err(failed(&file))?;
    }
    Ok(compiled)
}

/// Identifies a text and the compiler's version.
fn key(text: &str) -> Result<String, CompileError> {
    let version = Command::new(COMPILER).arg("--version").output().map_err(CompileError::Tool)?.stdout;
    let digest = Sha256::new().chain_update(version).chain_update(text).finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The folder that the environment names.
pub(super) fn folder() -> Option<PathBuf> {
    std::env::var_os(CACHE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::super::missing_tool;
    use super::*;

    #[test]
    fn a_text_is_compiled_once_and_a_damaged_file_again() {
        if let Some(tool) = missing_tool() {
            println!("skipped: {tool} is not on PATH (see p4.org)");
            return;
        }
        let folder = super::super::compile::Folder::create("kept").unwrap();
        let mut compiled = 0;
        let mut find = |text: &str| {
            let compile = || {
                compiled += 1;
                Ok(Compiled { json: text.into(), p4info: "info".into(), warnings: String::new() })
            };
            let found = find_or(folder.path(), text, compile).unwrap();
            assert_eq!((found.json, &*found.p4info), (text.as_bytes().to_vec(), "info"));
        };
        ["a", "a", "b", "a", "b"].into_iter().for_each(&mut find);
        let files = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "json");
        files().filter(kept).for_each(|file| fs::write(file, "{").unwrap());
        find("a");
        assert_eq!((compiled, files().filter(kept).count()), (3, 2));
    }
}
