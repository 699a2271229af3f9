//! What drivers tell the hub of their switches.

use std::net::SocketAddr;
use tokio::sync::mpsc;

/// How a switch has come up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchUp {
    /// It has lost all that its slots held, so jobs there lose their place.
    pub fresh: bool,
    /// Where its packets go, if it says so.
    pub data: Option<SocketAddr>,
    /// Which start of it this is, if it says so.
    pub boot: Option<String>,
}

/// What became of a switch, by its place in the fleet.
#[derive(Debug)]
pub(crate) enum SwitchStatus {
    Up { switch: usize, up: SwitchUp },
    Down { switch: usize, reason: String },
    Repaired { switch: usize, message: String },
    Packets { switch: usize, packets: Vec<(String, u64)> },
}

/// Tells a control plane what becomes of its switches; clones are the same. Calls never wait: a driver has little to tell, as often as
/// it compares what its switch holds at most.
#[derive(Debug, Clone)]
pub struct SwitchStatusSender(mpsc::UnboundedSender<SwitchStatus>);

pub(crate) fn channel() -> (SwitchStatusSender, mpsc::UnboundedReceiver<SwitchStatus>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (SwitchStatusSender(sender), receiver)
}

impl SwitchStatusSender {
    /// The switch can be used.
    pub fn up(&self, switch: usize, up: SwitchUp) {
        self.tell(SwitchStatus::Up { switch, up });
    }

    /// The switch cannot be used.
    pub fn down(&self, switch: usize, reason: impl Into<String>) {
        self.tell(SwitchStatus::Down { switch, reason: reason.into() });
    }

    /// The switch held something else than it was given, and was put right.
    pub fn repaired(&self, switch: usize, message: impl Into<String>) {
        self.tell(SwitchStatus::Repaired { switch, message: message.into() });
    }

    /// Packets by what became of them, by name.
    pub fn packets(&self, switch: usize, packets: Vec<(String, u64)>) {
        self.tell(SwitchStatus::Packets { switch, packets });
    }

    fn tell(&self, notice: SwitchStatus) {
        // A control plane that is gone wants to know nothing.
        let _ = self.0.send(notice);
    }
}
