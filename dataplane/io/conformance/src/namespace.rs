//! A network namespace of one's own, which goes with the last who uses it.
#![expect(unsafe_code, reason = "unshare exists only as a C call")]

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, entered by one thread that does what it is told. The kernel removes it, and the interfaces in it, when
/// the thread and all sockets that were opened in it are gone, however the process ends.
#[derive(Debug)]
pub struct Namespace {
    jobs: Sender<Job>,
}

impl Namespace {
    /// A new namespace with nothing but a loopback interface that is down.
    ///
    /// # Errors
    ///
    /// The system's, usually because the process is not root.
    pub fn new() -> io::Result<Self> {
        let (jobs, to_do) = channel::<Job>();
        let (ready, entered) = channel();
        thread::Builder::new().name("namespace".into()).spawn(move || {
            let result = unshare();
            let failed = result.is_err();
            if ready.send(result).is_err() || failed {
                return;
            }
            for job in to_do {
                job();
            }
        })?;
        entered.recv().map_err(|_| io::Error::other("the thread ended"))??;
        Ok(Self { jobs })
    }

    /// Calls `f` within the namespace and returns what it returns. Sockets that it opens stay in the namespace.
    ///
    /// # Panics
    ///
    /// When `f` does, or an earlier one did.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let job = move || {
            // Nobody waits any more only if the caller has panicked.
            let _ = done.send(f());
        };
        self.jobs.send(Box::new(job)).expect("the namespace's thread has panicked before");
        result.recv().expect("the call within the namespace panicked")
    }

    /// Runs a command within the namespace, words separated by spaces.
    ///
    /// # Errors
    ///
    /// The command, and what it said on its standard error.
    pub fn command(&self, words: &str) -> Result<(), String> {
        self.script(words, "")
    }

    /// Runs a command within the namespace, words separated by spaces, that reads `input`.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub fn script(&self, words: &str, input: &str) -> Result<(), String> {
        let (words, input) = (words.to_owned(), input.to_owned());
        self.run(move || {
            let output = run(&words, &input).map_err(|error| format!("`{words}`: {error}"))?;
            if output.status.success() {
                return Ok(());
            }
            Err(format!("`{words}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
        })
    }
}

fn run(words: &str, input: &str) -> io::Result<Output> {
    let mut parts = words.split_whitespace();
    let mut child = Command::new(parts.next().unwrap_or_default())
        .args(parts)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

/// Puts the calling thread into a new network namespace.
fn unshare() -> io::Result<()> {
    // SAFETY: no pointers are passed; CLONE_NEWNET changes the calling thread alone, and takes no file descriptor away.
    let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
