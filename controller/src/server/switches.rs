//! What drivers tell the hub of their switches.

use crate::admission::Up;
use tokio::sync::mpsc;

/// What became of a switch, by its place in the fleet.
#[derive(Debug)]
pub(super) enum Notice {
    Up { switch: usize, up: Up },
    Down { switch: usize, reason: String },
    Repaired { switch: usize, message: String },
    Packets { switch: usize, packets: Vec<(String, u64)> },
}

/// Tells a control plane what becomes of its switches; clones are the same. Calls never wait: a driver has little to tell, as often as
/// it compares what its switch holds at most.
#[derive(Debug, Clone)]
pub struct Notices(mpsc::UnboundedSender<Notice>);

pub(super) fn channel() -> (Notices, mpsc::UnboundedReceiver<Notice>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Notices(sender), receiver)
}

impl Notices {
    /// The switch can be used.
    pub fn up(&self, switch: usize, up: Up) {
        self.tell(Notice::Up { switch, up });
    }

    /// The switch cannot be used.
    pub fn down(&self, switch: usize, reason: impl Into<String>) {
        self.tell(Notice::Down { switch, reason: reason.into() });
    }

    /// The switch held something else than it was given, and was put right.
    pub fn repaired(&self, switch: usize, message: impl Into<String>) {
        self.tell(Notice::Repaired { switch, message: message.into() });
    }

    /// Packets by what became of them, by name.
    pub fn packets(&self, switch: usize, packets: Vec<(String, u64)>) {
        self.tell(Notice::Packets { switch, packets });
    }

    fn tell(&self, notice: Notice) {
        // A control plane that is gone wants to know nothing.
        let _ = self.0.send(notice);
    }
}
