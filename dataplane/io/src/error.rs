//! What can go wrong in packet I/O.

use std::io;
use std::net::SocketAddr;

use crate::PortId;

/// Why packet I/O failed. Nothing that a peer or the network can do to single packets appears here: such packets are
/// counted in [`IoCounters`](crate::IoCounters).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// A datagram is longer than the backend carries. Cut the payload to `max` bytes or raise the backend's limit.
    #[error("datagram of {len} bytes for port {} is longer than the {max} bytes this backend carries", port.0)]
    Oversize {
        /// Port of the datagram.
        port: PortId,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes: [`Capabilities::datagram_len_max`](crate::Capabilities::datagram_len_max).
        max: usize,
    },
    /// A packet to send lies outside the memory that was passed with it: a bug of the caller.
    #[error("packet at {offset}+{len} lies outside the {memory} bytes of memory passed with it")]
    Range {
        /// Offset in bytes.
        offset: usize,
        /// Length in bytes.
        len: usize,
        /// Bytes of memory.
        memory: usize,
    },
    /// The backend cannot do this at all; choose another backend.
    #[error("this backend does not support {0}")]
    Unsupported(&'static str),
    /// The peer is the peer of another port already; unbind that port first.
    #[error("{peer} is bound to port {} already", port.0)]
    PeerBound {
        /// The peer's address.
        peer: SocketAddr,
        /// The port that has it.
        port: PortId,
    },
    /// Consecutive UDP ports from the peer's on do not exist: give it a lower first port, or fewer ports.
    #[error("{udp_ports} UDP ports from {peer} on: the last port is 65535")]
    PortRange {
        /// The peer's address with its first UDP port.
        peer: SocketAddr,
        /// How many.
        udp_ports: u8,
    },
    /// The peer's address family does not fit the socket; bind the socket to an address of the peer's family.
    #[error("{peer} cannot be reached from a socket bound to {local}")]
    Family {
        /// The peer's address.
        peer: SocketAddr,
        /// The socket's own address.
        local: SocketAddr,
    },
    /// A link cannot be opened on an interface.
    #[error("cannot open {link} on {interface}: {problem}")]
    Link {
        /// The kind of link: `"af-packet"`.
        link: &'static str,
        /// The interface.
        interface: String,
        /// What is wrong, and what to do.
        problem: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The kind of packet I/O is known, and not part of this program.
    #[error("{spec} is not part of this program; {remedy}")]
    NotIncluded {
        /// What was asked for.
        spec: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An address cannot be used as it was asked for.
    #[error("cannot use {address}: {problem}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What is wrong, and what would be right.
        problem: &'static str,
    },
    /// No such port is bound.
    #[error("port {} is not bound", .0.0)]
    UnknownPort(PortId),
    /// The only peer has closed its end for good; close this end.
    #[error("the peer has closed its end")]
    PeerClosed,
    /// The address to listen on is taken or is none of this machine. Choose another, or end the process that uses it.
    #[error("cannot listen on {address}; choose another address or port, or end the process that uses it")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The peer cannot be reached at all. Check the address and the routes.
    #[error("cannot reach {peer}; check the address and the routes to it")]
    Connect {
        /// The peer's address.
        peer: SocketAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The operating system refused a call for a reason that retrying will not change.
    #[error("{call} failed")]
    Os {
        /// The call.
        call: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl IoError {
    /// The system's last error, for the call named.
    pub(crate) fn os(call: &'static str, source: io::Error) -> Self {
        Self::Os { call, source }
    }
}
