//! Sending bursts through a socket.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use super::Role;
use super::address::RawAddress;
use super::kept::Unsent;
use super::marks::{Marks, option_of};
use super::syscall::Sender;
use super::window::{Run, Window};
use crate::{IoCounters, IoError, PortId, Transmit};

/// Runs shorter than this are never worth another try with a smaller segment.
const SEGMENT_MAX_LEAST: usize = 256;

/// How often one message is tried again after the peer's host reported a closed port: the report belongs to an
/// earlier message, but each try may bring a new one.
const REFUSED_MAX: u32 = 2;

/// The sending half of a socket.
pub(super) struct Sending {
    sender: Sender,
    window: Window,
    unsent: Unsent,
    /// Longest datagram of a run that the kernel takes; 0: it takes none.
    segment_max: usize,
    /// Whether there are to be such runs.
    segmentation: bool,
    /// The marks passed with each message, and whether the socket is one of IPv6; `None` where they are set on the socket.
    marks: Option<(Marks, bool)>,
}

/// What to do about a message that the kernel did not take.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Retry,
    /// Without segmentation of this length, or of any.
    Shorter {
        segment_max: usize,
    },
    Full,
    Drop,
    Refused,
    Fatal,
}

impl Role {
    /// Whether datagrams for `port` go anywhere.
    fn reaches(&self, port: PortId) -> bool {
        match self {
            Self::Connected(_) => port == PortId(0),
            Self::Listening(peers) => peers.address(port).is_some(),
        }
    }

    /// The address to put on a message; `None` on a connected socket.
    fn destination(&self, port: PortId) -> Option<&RawAddress> {
        match self {
            Self::Connected(_) => None,
            Self::Listening(peers) => peers.address(port),
        }
    }
}

impl Sending {
    pub(super) fn new(segment_max: usize) -> Self {
        let (sender, window, unsent) = (Sender::new(), Window::new(), Unsent::default());
        Self { sender, window, unsent, segment_max, segmentation: true, marks: None }
    }

    pub(super) fn set_marks(&mut self, marks: Option<(Marks, bool)>) {
        self.marks = marks;
    }

    pub(super) fn set_segmentation(&mut self, allowed: bool) {
        self.segmentation = allowed;
    }

    pub(super) fn segment_max(&self) -> usize {
        if self.segmentation { self.segment_max } else { 0 }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends a burst window by window. What of a window the socket has no room for is kept and counts as taken, since
    /// the window's packets leave grouped by port, not in the order of the burst.
    pub(super) fn transmit(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        memory: &[u8],
        packets: &[Transmit],
        counters: &mut IoCounters,
    ) -> Result<usize, IoError> {
        self.flush(socket, role, counters)?;
        let mut taken = 0;
        while taken < packets.len() && self.unsent.is_empty() {
            taken += self.window.group(&packets[taken..], self.segment_max(), mark(self.marks, memory));
            let done = self.send(socket, role, memory, counters)?;
            if let Some(rest) = self.window.pieces().get(done..).filter(|rest| !rest.is_empty()) {
                self.unsent.keep(memory, rest);
            }
        }
        if taken < packets.len() {
            counters.backpressure += 1;
        }
        Ok(taken)
    }

    /// Tries to send what was kept.
    pub(super) fn flush(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        counters: &mut IoCounters,
    ) -> Result<(), IoError> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let mut unsent = std::mem::take(&mut self.unsent);
        // One window, as it was when it was kept.
        self.window.group(&unsent.packets, self.segment_max(), mark(self.marks, &unsent.memory));
        let done = self.send(socket, role, &unsent.memory, counters);
        unsent.packets.clear();
        if let Ok(done) = done {
            unsent.packets.extend_from_slice(&self.window.pieces()[done..]);
        }
        self.unsent = unsent;
        done.map(drop)
    }

    /// Sends the window's messages and returns how many of its pieces are done with, from the first.
    fn send(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        memory: &[u8],
        counters: &mut IoCounters,
    ) -> Result<usize, IoError> {
        let mut at = 0;
        let mut refused = 0;
        while let Some(&run) = self.window.runs().get(at) {
            if !role.reaches(run.port) {
                counters.unbound_port += u64::from(run.count);
                at += 1;
                continue;
            }
            let runs = &self.window.runs()[at..];
            let reached = runs.iter().position(|run| !role.reaches(run.port)).unwrap_or(runs.len());
            counters.tx_calls += 1;
            let kind = self.marks.map(|(_, ipv6)| option_of(ipv6));
            let (pieces, runs) = (self.window.pieces(), &runs[..reached]);
            let address = |run: &Run| role.destination(run.port);
            let sent = self.sender.send((socket.as_fd(), kind), memory, pieces, runs, address);
            match sent {
                Ok(sent) => {
                    refused = 0;
                    count_sent(counters, self.window.pieces(), &runs[..sent]);
                    at += sent;
                }
                Err(error) => match judge(&error, run, refused) {
                    Verdict::Retry => {}
                    Verdict::Shorter { segment_max } => {
                        self.segment_max = segment_max;
                        self.window.regroup(at, segment_max, mark(self.marks, memory));
                    }
                    Verdict::Refused => {
                        counters.refused += 1;
                        refused += 1;
                    }
                    Verdict::Full => return Ok(usize::from(run.first)),
                    Verdict::Drop => {
                        counters.tx_failed += u64::from(run.count);
                        refused = 0;
                        at += 1;
                    }
                    Verdict::Fatal => return Err(IoError::os("sendmmsg", error)),
                },
            }
        }
        Ok(self.window.pieces().len())
    }
}

/// The marks passed with the message of a packet whose bytes lie in `memory`.
fn mark(marks: Option<(Marks, bool)>, memory: &[u8]) -> impl Fn(&Transmit) -> u8 {
    move |packet| match marks {
        None => 0,
        Some((marks, _)) => marks.of_datagram(packet.bytes(memory).unwrap_or_default()),
    }
}

fn count_sent(counters: &mut IoCounters, pieces: &[Transmit], runs: &[Run]) {
    for run in runs {
        let pieces = &pieces[usize::from(run.first)..][..usize::from(run.count)];
        counters.tx_packets += u64::from(run.count);
        counters.tx_bytes += pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
        counters.gso_runs += u64::from(run.segment > 0);
    }
}

/// Decides by the error of a message that was not sent; `refused` is how often this one met ECONNREFUSED.
fn judge(error: &io::Error, run: Run, refused: u32) -> Verdict {
    match error.kind() {
        io::ErrorKind::WouldBlock => return Verdict::Full,
        io::ErrorKind::Interrupted => return Verdict::Retry,
        io::ErrorKind::ConnectionRefused if refused < REFUSED_MAX => return Verdict::Refused,
        _ => {}
    }
    match error.raw_os_error().unwrap_or(0) {
        // The route's device cannot fill in checksums, so it cannot segment either.
        libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT if run.segment > 0 => {
            Verdict::Shorter { segment_max: 0 }
        }
        // A segment must fit into the route's MTU: longer datagrams have to be fragmented instead.
        libc::EINVAL | libc::EMSGSIZE if run.segment > 0 => {
            let shorter = usize::from(run.segment) - 1;
            Verdict::Shorter { segment_max: if shorter < SEGMENT_MAX_LEAST { 0 } else { shorter } }
        }
        libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENOTCONN => Verdict::Fatal,
        _ => Verdict::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn datagrams_refused_by_a_full_socket_are_sent_later_in_order() {
        // Loopback UDP never fills up its sender; a pair of local datagram sockets does, and takes the same calls.
        let (near, far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from(OwnedFd::from(near));
        let role = Role::Connected(SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut sending = Sending::new(0);
        let mut counters = IoCounters::default();
        let memory: Vec<u8> = (0..3000_u32).flat_map(u32::to_be_bytes).collect();
        let packets: Vec<_> =
            (0..3000).map(|index| Transmit { port: PortId(0), offset: index * 4, len: 4 }).collect();
        let (mut taken, mut expected) = (0, 0_u32);
        while expected < 3000 {
            let before = taken;
            taken += sending.transmit(&socket, &role, &memory, &packets[taken..], &mut counters).unwrap();
            assert!(taken == 3000 || sending.has_unsent(), "back-pressure means that something is kept");
            assert!(taken - before <= 2 * super::super::window::PACKETS_MAX, "memory is bounded");
            let mut datagram = [0; 8];
            while let Ok(len) = far.recv(&mut datagram) {
                assert_eq!(datagram[..len], expected.to_be_bytes());
                expected += 1;
            }
        }
        assert!(!sending.has_unsent() && counters.backpressure > 0, "{counters:?}");
        assert_eq!((counters.tx_packets, counters.tx_failed), (3000, 0));
    }

    #[test]
    fn errors_are_classified() {
        let plain = Run { port: PortId(0), first: 0, count: 1, segment: 0, mark: 0 };
        let run = Run { count: 9, segment: 1436, ..plain };
        let short = Run { count: 9, segment: 40, ..plain };
        let judged = |code, run, refused| judge(&io::Error::from_raw_os_error(code), run, refused);
        assert_eq!(judged(libc::EAGAIN, run, 0), Verdict::Full);
        assert_eq!(judged(libc::EINTR, run, 0), Verdict::Retry);
        assert_eq!(judged(libc::EIO, run, 0), Verdict::Shorter { segment_max: 0 });
        assert_eq!(judged(libc::EIO, plain, 0), Verdict::Drop);
        assert_eq!(judged(libc::EINVAL, run, 0), Verdict::Shorter { segment_max: 1435 });
        assert_eq!(judged(libc::EINVAL, short, 0), Verdict::Shorter { segment_max: 0 });
        assert_eq!(judged(libc::EMSGSIZE, plain, 0), Verdict::Drop);
        assert_eq!(judged(libc::ECONNREFUSED, plain, 0), Verdict::Refused);
        assert_eq!(judged(libc::ECONNREFUSED, plain, REFUSED_MAX), Verdict::Drop);
        assert_eq!(judged(libc::EPERM, run, 0), Verdict::Drop);
        assert_eq!(judged(libc::EBADF, run, 0), Verdict::Fatal);
    }
}
