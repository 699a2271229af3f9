//! Status of switches that drivers report to the hub.

use std::net::SocketAddr;
use tokio::sync::mpsc;

/// How a switch has come up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchUp {
    /// It has lost all that its slots held, so jobs there lose their place.
    pub fresh: bool,
    /// Where its packets go, if it reports that.
    pub data: Option<SocketAddr>,
    /// Which start of it this is, if it reports that.
    pub boot: Option<String>,
}

/// The status of a switch, by its index in the fleet.
#[derive(Debug)]
pub(crate) enum SwitchStatus {
    Up { switch: usize, up: SwitchUp },
    Down { switch: usize, reason: String },
    Repaired { switch: usize, message: String },
    Packets { switch: usize, packets: Vec<(String, u64)> },
}

/// Reports the status of switches to a control plane; clones are the same. Calls never wait: a driver reports at most as often as
/// it compares what its switch holds.
#[derive(Debug, Clone)]
pub struct SwitchStatusSender(mpsc::UnboundedSender<SwitchStatus>);

pub(crate) fn channel() -> (SwitchStatusSender, mpsc::UnboundedReceiver<SwitchStatus>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (SwitchStatusSender(sender), receiver)
}

impl SwitchStatusSender {
    /// The switch can be used.
    pub fn up(&self, switch: usize, up: SwitchUp) {
        self.report(SwitchStatus::Up { switch, up });
    }

    /// The switch cannot be used.
    pub fn down(&self, switch: usize, reason: impl Into<String>) {
        self.report(SwitchStatus::Down { switch, reason: reason.into() });
    }

    /// The switch differed from its desired state, and was repaired.
    pub fn repaired(&self, switch: usize, message: impl Into<String>) {
        self.report(SwitchStatus::Repaired { switch, message: message.into() });
    }

    /// Packet counters, by name.
    pub fn packets(&self, switch: usize, packets: Vec<(String, u64)>) {
        self.report(SwitchStatus::Packets { switch, packets });
    }

    fn report(&self, notice: SwitchStatus) {
        // The send fails if the control plane has ended, which is harmless.
        let _ = self.0.send(notice);
    }
}
