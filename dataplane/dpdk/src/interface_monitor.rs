//! Detects the removal of a kernel interface, which DPDK's packet sockets do not report.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// An interface that a device depends on.
#[derive(Debug)]
pub(crate) struct InterfaceMonitor {
    /// Any socket: it belongs to the namespace of the thread that made it.
    socket: OwnedFd,
    index: u32,
}

impl InterfaceMonitor {
    /// Monitors the interface of this name in the network namespace of the calling thread; `None` when there is none.
    pub(crate) fn new(interface: &str) -> Option<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        let index = netdevice::name_to_index(&socket, interface).ok()?;
        Some(Self { socket, index })
    }

    /// Whether the interface has been removed.
    pub(crate) fn is_removed(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index).is_err()
    }
}
