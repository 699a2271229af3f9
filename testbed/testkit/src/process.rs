//! Child processes that are killed when dropped.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::wait::{HANG_TIMEOUT, poll, poll_within};

/// Bytes of standard error that are kept.
const STDERR_BYTES: usize = 2000;

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept open as long as the process is to run.
    stdin: Option<ChildStdin>,
    stderr: Arc<Mutex<String>>,
    /// Locked for nothing but to be shared: every use has the process exclusively.
    lines: Mutex<Receiver<String>>,
}

impl Process {
    /// Starts a command whose standard output is read line by line; its other streams are as the command says.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn spawn(mut command: Command) -> Self {
        let (sender, lines) = mpsc::channel();
        let on_line = move |line: Option<String>| line.is_none_or(|line| sender.send(line).is_ok());
        let started = Self::start_with(command.stdout(Stdio::piped()), on_line, lines);
        started.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Starts a command with pipes for all of its streams. `on_line` is called with each line of its standard output, and with `None` at
    /// the end, until it returns false.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(
        command: &mut Command,
        on_line: impl FnMut(Option<String>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::start_with(piped, on_line, mpsc::channel().1)
    }

    fn start_with(
        command: &mut Command,
        on_line: impl FnMut(Option<String>) -> bool + Send + 'static,
        lines: Receiver<String>,
    ) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || read_lines(stdout, on_line));
        }
        let stderr = Arc::new(Mutex::new(String::new()));
        if let Some(pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || keep_end(pipe, &kept));
        }
        Ok(Self { child, stdin, stderr, lines: Mutex::new(lines) })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn receive(&mut self, timeout: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(timeout)
    }

    /// The next line of standard output of a process started by [`spawn`](Self::spawn); `None` after the last.
    ///
    /// # Panics
    ///
    /// When there is neither a line nor the end within [`HANG_TIMEOUT`].
    pub fn line(&mut self) -> Option<String> {
        match self.receive(HANG_TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("process {}: no line in time", self.id()),
        }
    }

    /// The first value that `pick` returns for a line of standard output; passes over lines for which it returns `None`.
    ///
    /// # Panics
    ///
    /// When the process ends without such a line, or prints none within [`HANG_TIMEOUT`]; names what it printed.
    pub fn expect<T>(&mut self, what: impl Display, mut pick: impl FnMut(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + HANG_TIMEOUT;
        let mut passed = Vec::new();
        loop {
            match self.receive(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match pick(&line) {
                    Some(value) => return value,
                    None => passed.push(line),
                },
                Err(RecvTimeoutError::Timeout) => panic!("no {what} in time, only {passed:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without {what}, only {passed:?}"),
            }
        }
    }

    /// What follows `prefix` in the next line that begins with it.
    ///
    /// # Panics
    ///
    /// As [`expect`](Self::expect).
    pub fn line_after(&mut self, prefix: &str) -> String {
        self.expect(format_args!("line with '{prefix}'"), |line| line.strip_prefix(prefix).map(str::to_owned))
    }

    /// All lines to the end of the process, but for those that were read before.
    ///
    /// # Panics
    ///
    /// As [`line`](Self::line).
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Writes a line to its standard input, where that is a pipe. An error is not reported: it shows as the end of the process.
    pub fn write_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end without a deadline.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn join(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it has not ended within [`HANG_TIMEOUT`].
    pub fn wait(&mut self) -> ExitStatus {
        self.wait_within(HANG_TIMEOUT)
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it has not ended within `timeout`.
    pub fn wait_within(&mut self, timeout: Duration) -> ExitStatus {
        let what = format!("end of process {}", self.id());
        poll_within(timeout, what, || self.child.try_wait().unwrap_or_else(|error| panic!("wait: {error}")))
    }

    /// The status of a process that has ended; `None` while it runs.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Ends it by SIGKILL and waits for that. Has no effect on one that has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGKILL and does not wait for the end: until [`wait`](Self::wait), the process is a zombie.
    pub fn kill_without_reaping(&mut self) {
        let _ = self.child.kill();
    }

    /// Sends a signal by its name, without `SIG`.
    ///
    /// # Panics
    ///
    /// When there is no such signal.
    pub fn signal(&self, name: &str) {
        signal(u64::from(self.id()), name);
    }

    /// The end of what it wrote on standard error, where that is a pipe.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_lines(stdout: impl Read, mut on_line: impl FnMut(Option<String>) -> bool) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if !on_line(Some(line)) {
            return;
        }
    }
    on_line(None);
}

fn keep_end(mut pipe: impl Read, kept: &Mutex<String>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut bytes) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        if let Some(cut) = (excess..kept.len()).find(|at| kept.is_char_boundary(*at)) {
            kept.drain(..cut);
        }
    }
}

/// A shared library that cargo has built along with this test, by the name of its file.
///
/// # Panics
///
/// When there is none: then the test's package does not depend on its package.
pub fn built_library(name: &str) -> PathBuf {
    let Ok(test) = std::env::current_exe() else { panic!("this test has no path") };
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("cargo builds {name} before the tests of packages that depend on it"))
}

/// The calling test executable, to run one of its tests in a process of its own. Without the test harness's capture, so that the lines
/// that the test prints are on standard output.
///
/// # Panics
///
/// When the system does not tell the executable's path.
pub fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this executable"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
}

/// Sends a signal to a process, by the signal's name without `SIG`.
///
/// # Panics
///
/// When there is no such signal or no such process.
pub fn signal(id: u64, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), id.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name} {id}");
}

/// Waits until a process has ended that need not be a child of this one.
///
/// # Panics
///
/// When it still runs after [`HANG_TIMEOUT`].
pub fn wait_until_ended(id: u64) {
    poll(format_args!("end of process {id}"), || (!is_running(id)).then_some(()));
}

/// Whether a process runs; one that has ended but was not waited for does not.
pub fn is_running(id: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Whether a program can be started; reports which test is skipped if not.
pub fn present(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {test}: {program} is absent");
    }
    found
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
    fn lines_are_read_until_the_end() {
        let mut process = Process::spawn(shell("echo one; echo two 2; echo three; exit 3"));
        assert_eq!(process.line_after("two "), "2");
        assert_eq!((process.rest(), process.wait().code()), (vec!["three".to_owned()], Some(3)));
        assert!(process.has_ended());
    }

    #[test]
    fn streams_are_pipes() {
        let (sender, lines) = mpsc::channel();
        let on_line = move |line| sender.send(line).is_ok();
        let mut process =
            Process::start(&mut shell("read word; echo $word; cat; echo bad >&2"), on_line).unwrap();
        process.write_line("hello");
        assert_eq!(lines.recv().unwrap().as_deref(), Some("hello"));
        process.close_stdin();
        assert_eq!(lines.recv().unwrap(), None);
        poll("standard error", || (process.stderr() == "bad").then_some(()));
    }

    #[test]
    fn a_dropped_process_is_killed() {
        let process = Process::spawn(shell("exec sleep 1000"));
        let id = u64::from(process.id());
        assert!(is_running(id));
        drop(process);
        wait_until_ended(id);
    }
}
