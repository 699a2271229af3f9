//! Processes of the fabric, and what they and the controller say, in one queue.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::time::Instant;

use netfold_controller::JobEvent;
use serde_json::Value;

use super::LeafSpineError;
use netfold_measure::process;

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessId {
    Switch(usize),
    Worker(u16),
}

/// An event of the run.
#[derive(Debug)]
pub(super) enum FabricEvent {
    /// A process has printed an event.
    Output(ProcessId, Instant, Value),
    /// A process prints nothing any more.
    Ended(ProcessId),
    /// Something has happened at the controller.
    Event(Instant, JobEvent),
}

/// A process with a name, killed when this is dropped.
pub(super) struct Process {
    name: String,
    running: netfold_testkit::process::Process,
}

impl Process {
    pub(super) fn start(
        who: ProcessId,
        name: String,
        command: &mut Command,
        events: &Sender<FabricEvent>,
    ) -> Result<Self, LeafSpineError> {
        let events = events.clone();
        let receive = move |line| {
            let event = match line {
                Some(value) => FabricEvent::Output(who, Instant::now(), value),
                None => FabricEvent::Ended(who),
            };
            events.send(event).is_ok()
        };
        // Ctrl-C is for this process, which ends the others.
        match process::run(command.process_group(0), receive) {
            Ok(running) => Ok(Self { name, running }),
            Err(source) => Err(LeafSpineError::Start { name, source }),
        }
    }

    /// Writes a line to its standard input. Has no effect on one that has ended: its end is in the queue.
    pub(super) fn send_line(&mut self, line: &str) {
        self.running.write_line(line);
    }

    /// Kills it as `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.running.kill();
    }

    /// Whether it has ended otherwise than well.
    pub(super) fn has_failed(&mut self) -> bool {
        !self.running.join().is_ok_and(|status| status.success())
    }

    /// The error that it failed, with the end of its standard error.
    pub(super) fn failed(&mut self, what: &str) -> LeafSpineError {
        self.running.kill();
        let stderr = self.running.stderr().lines().collect::<Vec<_>>().join("; ");
        LeafSpineError::Process { name: self.name.clone(), what: what.into(), stderr }
    }
}
