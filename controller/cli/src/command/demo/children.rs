//! Child processes that never outlive their parent, and the events they print.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::event::Event;
use crate::lifetime::Stop;

/// Interval between checks for a request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Events of all children that are buffered. Children that print more block.
const EVENTS_MAX: usize = 1024;

/// Timeout of a child's exit after its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Children started from this program's own file. Dropping the group kills them all; if this process is killed, their
/// standard input ends and they exit by themselves.
pub(crate) struct Children {
    members: Vec<Member>,
    events: Receiver<(usize, Option<Event>)>,
    sender: mpsc::SyncSender<(usize, Option<Event>)>,
}

struct Member {
    name: String,
    process: Child,
    /// Held open while the child shall run.
    stdin: Option<ChildStdin>,
    /// The error that it reported, if any.
    error: Option<(String, String)>,
}

/// An event of a child process.
#[derive(Debug)]
pub(crate) enum ChildEvent {
    /// It printed an event.
    Event(Event),
    /// It exited successfully.
    Ended(usize),
}

impl Children {
    pub(crate) fn new() -> Self {
        let (sender, events) = mpsc::sync_channel(EVENTS_MAX);
        Self { members: Vec::new(), events, sender }
    }

    /// Starts `netfold --json ARGUMENTS...` under a name for messages. Its index counts from 0 in the order of starting.
    pub(crate) fn start(&mut self, name: String, arguments: &[String]) -> Result<usize, CliError> {
        let spawn = || {
            Command::new(std::env::current_exe()?)
                .arg("--json")
                .args(arguments)
                .arg("--exit-with-stdin")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // The terminal sends Ctrl-C to this process alone, which then ends its children.
                .process_group(0)
                .spawn()
        };
        let mut process = spawn().map_err(|source| CliError::Spawn { name: name.clone(), source })?;
        let index = self.members.len();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take();
        // Added to the group before anything can fail, so that it is always killed.
        self.members.push(Member { name, process, stdin, error: None });
        if let Some(stdout) = stdout {
            let sender = self.sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Lines of an unknown kind are ignored.
                    let Ok(event) = serde_json::from_str(&line) else { continue };
                    if sender.send((index, Some(event))).is_err() {
                        return;
                    }
                }
                let _ = sender.send((index, None));
            });
        }
        Ok(index)
    }

    /// Waits for the next event or successful exit of a child.
    ///
    /// # Errors
    ///
    /// If a child ended otherwise (with its name and last reported error); if there was no event within `timeout`; if a stop
    /// was requested.
    pub(crate) fn next(&mut self, timeout: Duration, stop: &Stop) -> Result<ChildEvent, CliError> {
        let deadline = Instant::now() + timeout;
        loop {
            if stop.requested() {
                return Err(CliError::Interrupted);
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok((index, Some(Event::Error { kind, message }))) => {
                    self.members[index].error = Some((kind, message));
                }
                Ok((_, Some(event))) => return Ok(ChildEvent::Event(event)),
                Ok((index, None)) => {
                    let status = self.members[index].wait()?;
                    return if status.success() {
                        Ok(ChildEvent::Ended(index))
                    } else {
                        Err(self.unexpected_end(index, status))
                    };
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("this group holds a sender itself"),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(CliError::Silent { seconds: timeout.as_secs() });
                }
            }
        }
    }

    /// Asks a child to end gracefully, by closing its standard input.
    pub(crate) fn close_stdin(&mut self, index: usize) {
        self.members[index].stdin = None;
    }

    /// Process id of a child.
    pub(crate) fn id(&self, index: usize) -> u32 {
        self.members[index].process.id()
    }

    fn unexpected_end(&mut self, index: usize, status: ExitStatus) -> CliError {
        let member = &mut self.members[index];
        CliError::ChildDied { name: member.name.clone(), status, reported: member.error.take() }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for member in &mut self.members {
            // An error means that it has already ended.
            let _ = member.process.kill();
        }
        for member in &mut self.members {
            let _ = member.process.wait();
        }
    }
}

impl Member {
    /// Waits for the end of a child whose output has ended.
    fn wait(&mut self) -> Result<ExitStatus, CliError> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let status = self.process.try_wait();
            match status.map_err(|source| CliError::Spawn { name: self.name.clone(), source })? {
                Some(status) => return Ok(status),
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                None => return Err(CliError::Silent { seconds: EXIT_TIMEOUT.as_secs() }),
            }
        }
    }
}
