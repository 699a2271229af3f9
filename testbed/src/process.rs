//! Processes of the program under test, killed without warning.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

/// Something that a process printed, or its end.
#[derive(Debug)]
pub(crate) struct Said {
    /// Which process: the number that it was started with.
    pub(crate) who: u64,
    /// One line of its JSON; `None` when it will print no more.
    pub(crate) line: Option<Value>,
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Held open as long as the process is to live.
    stdin: Option<ChildStdin>,
    errors: Arc<Mutex<String>>,
}

impl Process {
    /// Starts `PROGRAM --json ARGUMENTS`; what it prints is sent on, under the number `who`.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        who: u64,
        news: Sender<Said>,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("--json").args(arguments);
        Self::run(&mut command, move |line| news.send(Said { who, line }).is_ok())
    }

    /// Starts a command. `hear` is called with each line of JSON that it prints, and with `None` at the end, as long as it says that
    /// anybody listens.
    pub(crate) fn run(
        command: &mut Command,
        mut hear: impl FnMut(Option<Value>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn()?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Nobody listens any more at the end.
                    let line = serde_json::from_str(&line).ok();
                    if line.is_some() && !hear(line) {
                        return;
                    }
                }
                let _ = hear(None);
            });
        }
        let errors = Arc::new(Mutex::new(String::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                let mut text = [0; 4096];
                while let Ok(count @ 1..) = stderr.read(&mut text) {
                    let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                    errors.push_str(&String::from_utf8_lossy(&text[..count]));
                    let excess = errors.len().saturating_sub(2000);
                    if let Some(cut) = (excess..errors.len()).find(|at| errors.is_char_boundary(*at)) {
                        errors.drain(..cut);
                    }
                }
            });
        }
        Ok(Self { child, stdin, errors })
    }

    /// SIGKILL: it can do nothing about it.
    pub(crate) fn kill(&mut self) {
        // One that has ended already is as dead.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Writes a line to its standard input. One that has ended is told nothing.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// What it wrote on standard error last.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
