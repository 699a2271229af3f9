//! What the links over packet sockets have in common.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::ARRIVALS;
use crate::event_waker::EventWaker;
use crate::{IoCounters, IoError, sys};

/// Bytes asked for each of a socket's two buffers.
pub(super) const SOCKET_BUFFER: usize = ARRIVALS << 11;

/// `SOL_PACKET` of linux/socket.h.
pub(super) const SOL_PACKET: libc::c_int = 263;
/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h, since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Where the accessible part of a packet's metadata begins, and whether there was a VLAN tag. Source: linux/filter.h.
const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;

/// Keeps all but ARP, IPv4 and MAC control out of a packet socket, and all of other VLANs: their frames come by without the tag, which the kernel
/// keeps beside the frame. Keeps out frames that this machine sends, too; older kernels do not know how, and what is not addressed
/// to us is dropped above in any case.
pub(super) fn hear_arrivals_only(fd: BorrowedFd<'_>) -> io::Result<()> {
    use libc::{BPF_ABS, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let program = [
        sys::instruction(BPF_LD | BPF_W | BPF_ABS, VLAN_TAG_PRESENT, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4),
        sys::instruction(BPF_LD | BPF_H | BPF_ABS, 12, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x0800, 3, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x0806, 2, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x8808, 1, 0),
        sys::instruction(BPF_RET | BPF_K, 0, 0, 0),
        sys::instruction(BPF_RET | BPF_K, 0x4_0000, 0, 0),
    ];
    sys::attach_filter(fd, &program)?;
    match sys::set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) {
        Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
        _ => Ok(()),
    }
}

/// From now on keeps UDP to other ports out of a packet socket, too, before it is copied. What is no UDP, and fragments, whose headers
/// say no port, come through.
pub(super) fn hear_port_only(fd: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
        BPF_W,
    };
    let program = [
        sys::instruction(BPF_LD | BPF_W | BPF_ABS, VLAN_TAG_PRESENT, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 11),
        sys::instruction(BPF_LD | BPF_H | BPF_ABS, 12, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x0806, 10, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x8808, 9, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 0x0800, 0, 7),
        // The protocol, whether it is a fragment that does not begin the datagram, and the port behind the IP header.
        sys::instruction(BPF_LD | BPF_B | BPF_ABS, 14 + 9, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 6),
        sys::instruction(BPF_LD | BPF_H | BPF_ABS, 14 + 6, 0, 0),
        sys::instruction(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
        sys::instruction(BPF_LDX | BPF_B | BPF_MSH, 14, 0, 0),
        sys::instruction(BPF_LD | BPF_H | BPF_IND, 14 + 2, 0, 0),
        sys::instruction(BPF_JMP | BPF_JEQ | BPF_K, port.into(), 1, 0),
        sys::instruction(BPF_RET | BPF_K, 0, 0, 0),
        sys::instruction(BPF_RET | BPF_K, 0x4_0000, 0, 0),
    ];
    sys::attach_filter(fd, &program)
}

/// Frames that a packet socket had no room for. The kernel forgets its count when it is read.
#[derive(Debug, Default)]
pub(super) struct Lost(Cell<u64>);

impl Lost {
    /// Since the socket was opened. Source: packet(7), `PACKET_STATISTICS`: packets, drops, and freezes of version 3.
    pub(super) fn count(&self, fd: BorrowedFd<'_>) -> u64 {
        const PACKET_STATISTICS: libc::c_int = 6;
        let lost =
            sys::numbers::<3>(fd, SOL_PACKET, PACKET_STATISTICS).map_or(0, |numbers| numbers[1].into());
        self.0.set(self.0.get() + lost);
        self.0.get()
    }
}

/// Sleeps until the socket has something (or room, when `unsent`), the waker rings, or time is over.
pub(super) fn sleep(
    fd: BorrowedFd<'_>,
    unsent: bool,
    waker: &EventWaker,
    timeout: Duration,
    counters: &mut IoCounters,
) -> Result<bool, IoError> {
    let events = libc::POLLIN | if unsent { libc::POLLOUT } else { 0 };
    counters.sleeps += u64::from(!timeout.is_zero());
    let ready = sys::poll([(fd, events), (waker.fd().as_fd(), libc::POLLIN)], timeout);
    waker.end_sleep(matches!(ready, Ok([_, true])));
    let ready = ready.map_err(|source| IoError::os("ppoll", source))?;
    Ok(ready != [false; 2])
}
