//! Programs that tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use netfold_testkit::captured::CapturedProcess;

/// A path in the folder for what tests write.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a command that must succeed, at most ten minutes: for compilers.
pub(crate) fn run(command: &mut Command) -> String {
    CapturedProcess::start(command, Duration::from_secs(600)).finish().success()
}
