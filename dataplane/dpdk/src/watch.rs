//! Whether an interface of the kernel is still there: packet sockets of DPDK's do not tell.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// An interface that a device depends on.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Any socket: it belongs to the namespace of the thread that made it.
    socket: OwnedFd,
    index: u32,
}

impl Watch {
    /// Watches the interface of this name in the network namespace of the calling thread; `None` when there is none.
    pub(crate) fn new(interface: &str) -> Option<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        let index = netdevice::name_to_index(&socket, interface).ok()?;
        Some(Self { socket, index })
    }

    /// Whether the interface has been removed.
    pub(crate) fn gone(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index).is_err()
    }
}
