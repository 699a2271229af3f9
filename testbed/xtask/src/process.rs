//! Running other programs: what is run is shown first, and a failure names it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::tree;

/// The cargo that runs this program, in the repository's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(tree::root()).stdin(Stdio::null());
    forget_package(&mut command);
    command
}

/// Removes what `cargo run` sets for this program about its own package. Build scripts of some packages are run again when it changes, and
/// would be run again whenever cargo is called from here and from a shell in turn.
fn forget_package(command: &mut Command) {
    const PREFIXES: [&str; 4] = ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
}

/// The same at the least priority: it takes what others leave of the processors.
pub(crate) fn cargo_behind(arguments: &[&str]) -> Command {
    let cargo = cargo(arguments);
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(cargo.get_program()).args(cargo.get_args());
    command.current_dir(tree::root()).stdin(Stdio::null());
    forget_package(&mut command);
    command
}

/// Has cargo build a tree so that programs name no folder of this machine, as in the messages of panics.
pub(crate) fn forget_folders(command: &mut Command, tree: &Path, target: &Path) {
    // Of several that match, rustc takes the last.
    let remapped = [(tree, "/source"), (target, "/source/target")];
    let flags = remapped.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
}

/// Runs a program to its end, with its output passed on.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    start(command)?.wait()
}

/// The program by which another is started so that SIGINT ends it. A shell without job control has its background processes ignore SIGINT, and their
/// descendants inherit that, so that tests that interrupt a process would wait for its end in vain.
pub(crate) fn interruptible(program: &OsStr) -> Command {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !ignores_sigint(&status) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(program);
    command
}

/// Whether a process ignores SIGINT, by its `/proc/PID/status` (proc(5): the mask `SigIgn`, signal 1 in the lowest bit).
fn ignores_sigint(status: &str) -> bool {
    const SIGINT: u32 = 2;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGINT - 1) & 1 == 1)
}

/// What a program prints on standard output; its other output is passed on.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let line = show(command);
    let ended = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let ended = ended.with_context(|| format!("cannot start `{line}`"))?;
    if !ended.status.success() {
        bail!("`{line}` failed ({})", ended.status);
    }
    Ok(ended.stdout)
}

/// A program that runs beside what else is done.
pub(crate) struct Running {
    line: String,
    child: Child,
    started: Instant,
}

/// Starts a program, with its output passed on.
pub(crate) fn start(command: &mut Command) -> Result<Running> {
    let (line, started) = (show(command), Instant::now());
    let child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    Ok(Running { line, child, started })
}

impl Running {
    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        finish(&self.line, status, self.started)
    }
}

/// Whether a program of that name can be started and succeeds; its output is thrown away.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    let quiet = Command::new(program)
        .args(arguments)
        .current_dir(tree::root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

impl Drop for Running {
    /// Ends a program that still runs.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A heading before a step, with the time since the first one.
pub(crate) fn heading(text: &str) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    match FIRST.get_or_init(Instant::now).elapsed().as_secs() {
        0 => println!("\n== {text}"),
        seconds => println!("\n== {text} (after {seconds} s)"),
    }
}

/// Shows what is run; returns it as a line.
pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or_default();
    let words = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let line = std::iter::once(name.to_string()).chain(words).collect::<Vec<_>>().join(" ");
    println!("$ {line}");
    line
}

/// Shows how long a program took, or fails with its status.
pub(crate) fn finish(line: &str, status: ExitStatus, started: Instant) -> Result<()> {
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    println!("  done in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_sigint_is_found_in_the_mask() {
        assert!(ignores_sigint("Name:\tsh\nSigIgn:\t0000000000001006\nSigCgt:\t0000000000000000\n"));
        assert!(!ignores_sigint("Name:\tsh\nSigIgn:\t0000000000001004\nSigCgt:\t0000000000000002\n"));
        assert!(!ignores_sigint(""));
    }
}
