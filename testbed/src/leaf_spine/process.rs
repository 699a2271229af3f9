//! Processes of the fabric, none of which outlives it, and what they and the controller say, in one queue.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use netfold_controller::JobEvent;
use serde_json::Value;

use super::LeafSpineError;

/// Last words that are kept of a process.
const WORDS: usize = 4;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Switch(usize),
    Worker(u16),
}

/// What there is to hear.
#[derive(Debug)]
pub(super) enum News {
    /// A process has printed an event.
    Said(Who, Instant, Value),
    /// A process prints nothing any more.
    Ended(Who),
    /// Something has happened at the controller.
    Event(Instant, JobEvent),
}

/// A process, killed when this is dropped, with all that it has started.
pub(super) struct Process {
    name: String,
    child: Child,
    /// Ends the process when it is closed, as it is when this process dies.
    stdin: Option<ChildStdin>,
    words: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    pub(super) fn start(
        who: Who,
        name: String,
        command: &mut Command,
        news: &Sender<News>,
    ) -> Result<Self, LeafSpineError> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = piped.process_group(0).spawn();
        let mut child = spawned.map_err(|source| LeafSpineError::Start { name: name.clone(), source })?;
        let stdin = child.stdin.take();
        let words: Arc<Mutex<VecDeque<String>>> = Arc::default();
        hear(who, child.stdout.take(), news.clone());
        keep(child.stderr.take(), Arc::clone(&words));
        Ok(Self { name, child, stdin, words })
    }

    /// Writes a line to its standard input. One that has ended is told nothing: its end is in the queue.
    pub(super) fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Kills it as `kill -9` does.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Whether it has ended otherwise than well.
    pub(super) fn has_failed(&mut self) -> bool {
        !self.child.wait().is_ok_and(|status| status.success())
    }

    /// That it failed, with its last words.
    pub(super) fn failed(&mut self, what: &str) -> LeafSpineError {
        // All that it wrote is there once it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let said = words.iter().cloned().collect::<Vec<_>>().join("; ");
        LeafSpineError::Process { name: self.name.clone(), what: what.into(), said }
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

/// Hands on what a process prints, line by line, until it ends or nobody listens.
fn hear(who: Who, from: Option<impl Read + Send + 'static>, news: Sender<News>) {
    thread::spawn(move || {
        for line in from.into_iter().flat_map(|from| BufReader::new(from).lines().map_while(Result::ok)) {
            let Ok(value) = serde_json::from_str(&line) else { continue };
            if news.send(News::Said(who, Instant::now(), value)).is_err() {
                return;
            }
        }
        let _ = news.send(News::Ended(who));
    });
}

fn keep(from: Option<impl Read + Send + 'static>, words: Arc<Mutex<VecDeque<String>>>) {
    thread::spawn(move || {
        for line in from.into_iter().flat_map(|from| BufReader::new(from).lines().map_while(Result::ok)) {
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            if words.len() == WORDS {
                words.pop_front();
            }
            words.push_back(line);
        }
    });
}
