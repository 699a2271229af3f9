//! Child processes that never outlive their parent, and the events they print.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::event::Event;
use crate::lifetime::Stop;

/// How often a wait looks at the request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Events of all children that nobody has looked at yet. Children that print more wait.
const EVENTS_MAX: usize = 1024;

/// Time that a child has to end after its output did.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Children started from this program's own file. Dropping the group kills them all; should this process be killed, they
/// see their standard input end and exit by themselves.
pub(crate) struct Children {
    members: Vec<Member>,
    events: Receiver<(usize, Option<Event>)>,
    sender: mpsc::SyncSender<(usize, Option<Event>)>,
}

struct Member {
    name: String,
    process: Child,
    /// Held open as long as the child is to live.
    stdin: Option<ChildStdin>,
    /// The error it reported, if it did.
    error: Option<(String, String)>,
}

/// What a child had to say.
#[derive(Debug)]
pub(crate) enum ChildEvent {
    /// It printed an event.
    Event(Event),
    /// It has ended well.
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
                .spawn()
        };
        let mut process = spawn().map_err(|source| CliError::Spawn { name: name.clone(), source })?;
        let index = self.members.len();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take();
        // A member from here on, so that it is killed whatever comes.
        self.members.push(Member { name, process, stdin, error: None });
        if let Some(stdout) = stdout {
            let sender = self.sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // A line of an unknown kind is not for this program.
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

    /// Waits for the next event or orderly end of a child.
    ///
    /// # Errors
    ///
    /// When a child ended otherwise, which names it and what it said last; when nothing came for `timeout`; when a stop
    /// was asked for.
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
                        Err(self.died(index, status))
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

    /// Asks a child to end in order, by ending its standard input.
    pub(crate) fn close_stdin(&mut self, index: usize) {
        self.members[index].stdin = None;
    }

    /// Process id of a child.
    pub(crate) fn id(&self, index: usize) -> u32 {
        self.members[index].process.id()
    }

    fn died(&mut self, index: usize, status: ExitStatus) -> CliError {
        let member = &mut self.members[index];
        CliError::ChildDied { name: member.name.clone(), status, reported: member.error.take() }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for member in &mut self.members {
            // An error means that it has ended by itself.
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
