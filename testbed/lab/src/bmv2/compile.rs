//! From a program to what bmv2 runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use netfold_p4::check::CheckError;
use netfold_p4::ir::Program;
use netfold_p4::v1model;

use super::{COMPILER, cache};

/// What the compiler made of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// What bmv2 runs: the device configuration of a pipeline.
    pub json: Vec<u8>,
    /// P4Info as the compiler sees it, in protobuf's text format.
    pub p4info: String,
    /// Warnings; empty when there are none.
    pub warnings: String,
}

/// Why there is nothing for bmv2 to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program itself is not valid.
    #[error("the program is not valid, so there is no text to compile")]
    Program(#[source] CheckError),
    /// The compiler cannot be run.
    #[error("{COMPILER} cannot be run: install it (see p4.org) and put it on PATH")]
    Tool(#[source] io::Error),
    /// A temporary file cannot be written or read.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The compiler does not accept the text.
    #[error("{COMPILER} rejects the program{}: {message}\n{diagnostics}", At(*line, construct))]
    Rejected {
        /// Line of the text, from 1, where the first error is; absent when the compiler does not say.
        line: Option<usize>,
        /// That line.
        construct: String,
        /// The first error.
        message: String,
        /// All of the compiler's output.
        diagnostics: String,
    },
}

struct At<'a>(Option<usize>, &'a str);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(line) => write!(f, " at line {line}, `{}`", self.1),
            None => Ok(()),
        }
    }
}

/// Results by text: compiling takes a second or more, and tests want the same few programs.
static COMPILED: Mutex<BTreeMap<String, Arc<Compiled>>> = Mutex::new(BTreeMap::new());

/// Programs kept; the cache starts anew when there are more.
const COMPILED_MAX: usize = 64;

/// Compiles a program for bmv2. The same text is compiled once a run, and once ever where the environment variable [`CACHE`](super::CACHE)
/// names a folder; compilations wait for each other.
///
/// # Errors
///
/// [`CompileError`].
pub fn compile(program: &Program) -> Result<Arc<Compiled>, CompileError> {
    compile_text(&v1model::print(program).map_err(CompileError::Program)?)
}

/// Compiles P4_16 text for v1model; see [`compile()`].
///
/// # Errors
///
/// [`CompileError`].
pub fn compile_text(text: &str) -> Result<Arc<Compiled>, CompileError> {
    let mut cache = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = cache.get(text) {
        return Ok(Arc::clone(compiled));
    }
    let compiled = match cache::folder() {
        Some(folder) => cache::find_or(&folder, text, || run(text))?,
        None => run(text)?,
    };
    let compiled = Arc::new(compiled);
    if cache.len() >= COMPILED_MAX {
        cache.clear();
    }
    cache.insert(text.to_owned(), Arc::clone(&compiled));
    Ok(compiled)
}

fn run(text: &str) -> Result<Compiled, CompileError> {
    let folder = Folder::create("p4c").map_err(|(path, source)| CompileError::File { path, source })?;
    let file = |name: &str| folder.path().join(name);
    let (source, json, info) = (file("program.p4"), file("program.json"), file("program.p4info.txtpb"));
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CompileError::File { path, source }
    };
    std::fs::write(&source, text).map_err(failed(&source))?;
    let output = Command::new(COMPILER)
        .args(["--std", "p4-16"])
        .arg(&source)
        .arg("-o")
        .arg(&json)
        .arg("--p4runtime-files")
        .arg(&info)
        .output()
        .map_err(CompileError::Tool)?;
    let log = String::from_utf8_lossy(&output.stderr).replace(&*source.to_string_lossy(), "program.p4");
    if !output.status.success() {
        return Err(rejected(text, log));
    }
    Ok(Compiled {
        json: std::fs::read(&json).map_err(failed(&json))?,
        p4info: std::fs::read_to_string(&info).map_err(failed(&info))?,
        warnings: log,
    })
}

/// Finds the first error in the compiler's output: `program.p4(12): [--Werror=...] error: ...`.
fn rejected(text: &str, diagnostics: String) -> CompileError {
    let first = diagnostics.lines().find(|line| line.contains("error:")).unwrap_or("no error message");
    let line = first
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .and_then(|(number, _)| number.parse::<usize>().ok());
    let message = first.split_once("error:").map_or(first, |(_, message)| message).trim().to_owned();
    let construct = line.and_then(|line| text.lines().nth(line.checked_sub(1)?)).unwrap_or_default();
    CompileError::Rejected { line, construct: construct.trim().to_owned(), message, diagnostics }
}

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder of its own; an error names the folder.
    pub(super) fn create(purpose: &str) -> Result<Self, (PathBuf, io::Error)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut name = String::from("netfold");
        // Writing to a string does not fail.
        let _ = write!(name, "-{purpose}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // An existing folder is left over from a process that has ended.
        let _ = std::fs::remove_dir_all(&path);
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err((path, source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
