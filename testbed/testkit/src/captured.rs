//! Processes that are run to their end, within a deadline, with all of their output.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::directory::TemporaryDirectory;
use crate::wait::POLL_INTERVAL;

const OUTPUT: &str = "output";

/// A process whose standard output and standard error go to one file. Dropping it kills it.
#[derive(Debug)]
pub struct CapturedProcess {
    child: Child,
    directory: TemporaryDirectory,
    command: String,
    deadline: Instant,
}

/// How a process ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output and standard error.
    pub text: String,
    command: String,
}

impl CapturedProcess {
    /// Starts a process that may run for `limit`.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command, limit: Duration) -> Self {
        let directory = TemporaryDirectory::new("captured");
        let file = File::create(directory.file(OUTPUT)).expect("a file in a directory of our own");
        let other = file.try_clone().expect("a second handle of a file");
        command.stdin(Stdio::null()).stdout(other).stderr(file);
        let shown = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        Self { child, directory, command: shown, deadline: Instant::now() + limit }
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it runs beyond its limit; shows what it printed.
    pub fn finish(mut self) -> Finished {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap_or_else(|error| panic!("wait: {error}")) {
                break status;
            }
            let expired = Instant::now() > self.deadline;
            assert!(!expired, "{} exceeds its time limit; it printed:\n{}", self.command, self.text());
            thread::sleep(POLL_INTERVAL);
        };
        Finished { status, text: self.text(), command: self.command.clone() }
    }

    fn text(&self) -> String {
        let bytes = std::fs::read(self.directory.path().join(OUTPUT)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for CapturedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// The output of a process that succeeded.
    ///
    /// # Panics
    ///
    /// When it did not.
    pub fn success(self) -> String {
        assert!(self.status.success(), "{}: {}\n{}", self.command, self.status, self.text);
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_captured() {
        let finished =
            CapturedProcess::start(&mut shell("echo out; echo err >&2"), Duration::from_secs(60)).finish();
        assert_eq!(finished.success(), "out\nerr\n");
    }

    #[test]
    #[should_panic(expected = "exceeds its time limit")]
    fn a_process_that_hangs_is_killed() {
        CapturedProcess::start(&mut shell("exec sleep 1000"), Duration::ZERO).finish();
    }
}
