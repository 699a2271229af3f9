//! Processes of a measurement, none of which outlives it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::PeerError;

/// A process, and all that it started in its process group, killed when this is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// Held open as long as the process is to live.
    _stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The last line of output that nothing was taken from.
    last: String,
    errors: Receiver<String>,
}

impl Process {
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self, PeerError> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = piped.process_group(0).spawn();
        let mut child = spawned.map_err(|source| PeerError::Start { name: name.into(), source })?;
        let stdin = child.stdin.take();
        let lines = reader(child.stdout.take());
        let errors = reader(child.stderr.take());
        Ok(Self { name: name.into(), child, _stdin: stdin, lines, last: String::new(), errors })
    }

    /// The next line of output for which `pick` gives something.
    pub(crate) fn expect<T>(
        &mut self,
        deadline: Instant,
        pick: impl Fn(&str) -> Option<T>,
    ) -> Result<T, PeerError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(picked) = pick(&line) {
                        return Ok(picked);
                    }
                    self.last = line;
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.failed("printed nothing in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed("ended early")),
            }
        }
    }

    fn failed(&mut self, what: &str) -> PeerError {
        // The end of its standard error; it may be writing still.
        let mut stderr = Vec::new();
        while let Ok(line) = self.errors.recv_timeout(Duration::from_millis(200)) {
            stderr.push(line);
        }
        let mut stderr = stderr.split_off(stderr.len().saturating_sub(4)).join("; ");
        if stderr.is_empty() {
            // With --json, errors are lines of standard output.
            stderr.clone_from(&self.last);
        }
        PeerError::Process { name: self.name.clone(), what: what.into(), stderr }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(from) = from {
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}
