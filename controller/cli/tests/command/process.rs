//! A running `netfold --json` and what it has printed so far.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long any single thing may take. Generous: tests share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// `netfold` with these arguments, words separated by spaces.
pub(crate) fn netfold(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netfold"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// The same in a network namespace.
pub(crate) fn netfold_within(namespace: &str, arguments: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_netfold")]).stdin(Stdio::null());
    command.args(arguments.split_whitespace());
    command
}

/// Whether this is root, who alone makes network namespaces; says that the test is skipped if not.
pub(crate) fn is_root() -> bool {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        println!("skipped: no root, which network namespaces need");
    }
    root
}

/// Runs `netfold --json` to its end; returns its exit code and its lines.
pub(crate) fn run(arguments: &str) -> (Option<i32>, Vec<Value>) {
    let mut process = Process::start(arguments);
    let status = process.wait();
    (status.code(), process.rest())
}

/// A child that is killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Receiver<Value>,
}

impl Process {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::spawn(netfold(arguments))
    }

    /// A command of netfold's, to which `--json` is added.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap();
                let value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// A switch on any free port, and the address that workers need.
    pub(crate) fn switch(more: &str) -> (Self, String) {
        let mut switch = Self::start(&format!("switch --listen 127.0.0.1:0 {more}"));
        let control = text(&switch.event("listening"), "control").to_owned();
        (switch, control)
    }

    /// Waits for the next event of a kind and passes over others.
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line["event"] == kind => return line,
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("no '{kind}' in time, only {seen:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without '{kind}', only {seen:?}"),
            }
        }
    }

    /// All lines to the end of the process, but for those that were waited for or passed over.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "still running"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(u64::from(self.child.id()), name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(pid: u64, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits until a process is gone.
pub(crate) fn gone(pid: u64) {
    let deadline = Instant::now() + PATIENCE;
    while alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; one that has ended but was not waited for does not.
fn alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// A key that must hold text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("'{key}' is no text in {value}"))
}

/// A key that must hold a number.
pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("'{key}' is no number in {value}"))
}
