//! Processes of the program under test, which print JSON.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Sender;

use netfold_testkit::process::Process;
use serde_json::Value;

/// What a process printed, or the end of its output.
#[derive(Debug)]
pub struct Output {
    /// The number that the process was started with.
    pub process: u64,
    /// One line of its JSON; `None` when it will print no more.
    pub line: Option<Value>,
}

/// Starts `PROGRAM --json ARGUMENTS`; its output is sent on under the number `process`.
///
/// # Errors
///
/// When it cannot be started.
pub fn start(
    program: &Path,
    arguments: &[String],
    process: u64,
    output: Sender<Output>,
) -> io::Result<Process> {
    let mut command = Command::new(program);
    command.arg("--json").args(arguments);
    run(&mut command, move |line| output.send(Output { process, line }).is_ok())
}

/// Starts a command. `on_line` is called with each line of JSON that it prints, and with `None` at the end, until it returns false.
///
/// # Errors
///
/// When it cannot be started.
pub fn run(
    command: &mut Command,
    mut on_line: impl FnMut(Option<Value>) -> bool + Send + 'static,
) -> io::Result<Process> {
    Process::start(command, move |line| match line.map(|line| serde_json::from_str(&line)) {
        None => on_line(None),
        Some(Ok(value)) => on_line(Some(value)),
        Some(Err(_)) => true,
    })
}
