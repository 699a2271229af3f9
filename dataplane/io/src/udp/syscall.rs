//! The system calls that the standard library does not have, each behind a safe function.
#![expect(unsafe_code, reason = "recvmmsg and sendmmsg exist only as C calls")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, iovec, mmsghdr};

use super::address::RawAddress;
use super::window::Run;
use crate::Transmit;
use crate::sys::checked;
pub(super) use crate::sys::{option, poll, set_option};

/// Messages per call of `sendmmsg` or `recvmmsg`.
pub(super) const MESSAGES_MAX: usize = 64;

/// Room for the control messages of one received message: segment size, ECN (both forms).
const CONTROL_LEN: usize = 96;

/// A control message of a word at most: a `cmsghdr` and its value, laid out as cmsg(3) says.
#[derive(Clone, Copy)]
#[repr(C)]
struct Said {
    len: usize,
    level: c_int,
    kind: c_int,
    value: [u8; size_of::<usize>()],
}

impl Said {
    const HEADER: usize = size_of::<usize>() + 2 * size_of::<c_int>();
    const NONE: Self = Self { len: 0, level: 0, kind: 0, value: [0; size_of::<usize>()] };

    fn new<const LEN: usize>((level, kind): (c_int, c_int), bytes: [u8; LEN]) -> Self {
        let mut value = [0; size_of::<usize>()];
        value[..LEN].copy_from_slice(&bytes);
        Self { len: Self::HEADER + LEN, level, kind, value }
    }
}

// The kernel's `CMSG_SPACE` of a word: the next message follows at once.
const _: () = assert!(size_of::<Said>() == Said::HEADER + size_of::<usize>());

/// Asks for segmentation.
const SEGMENT: (c_int, c_int) = (libc::SOL_UDP, libc::UDP_SEGMENT);

/// The argument tables of `sendmmsg`, kept so that a call need not allocate them.
pub(super) struct Sender {
    messages: Vec<mmsghdr>,
    pieces: Vec<iovec>,
    controls: Vec<[Said; 2]>,
}

// SAFETY: the pointers in the tables are written and used within one call of `send`, which has `&mut self`; between
// calls they are never read, so it does not matter which thread holds them.
unsafe impl Send for Sender {}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            messages: Vec::with_capacity(MESSAGES_MAX),
            pieces: Vec::with_capacity(super::window::PACKETS_MAX),
            controls: Vec::with_capacity(MESSAGES_MAX),
        }
    }

    /// Sends one message per run, up to [`MESSAGES_MAX`] of them, and returns how many were sent. The bytes are
    /// `pieces` of `memory`; `address` tells the destination of a run, `None` for the peer of a connected socket. With `mark`, a level
    /// and a kind, each message says what its IP headers are to have.
    ///
    /// The error is that of the first message; none was sent then.
    pub(super) fn send<'a>(
        &mut self,
        (fd, mark): (BorrowedFd<'_>, Option<(c_int, c_int)>),
        memory: &[u8],
        pieces: &[Transmit],
        runs: &[Run],
        address: impl Fn(&Run) -> Option<&'a RawAddress>,
    ) -> io::Result<usize> {
        let runs = &runs[..runs.len().min(MESSAGES_MAX)];
        let wanted = runs.iter().map(|run| usize::from(run.count)).sum();
        self.messages.clear();
        self.controls.clear();
        self.pieces.clear();
        // Pointers into the tables are taken below, so they must not move while they grow.
        self.controls.resize(runs.len(), [Said::NONE; 2]);
        self.pieces.reserve(wanted);
        for (run, control) in runs.iter().zip(&mut self.controls) {
            let first = self.pieces.len();
            for piece in &pieces[usize::from(run.first)..][..usize::from(run.count)] {
                let bytes = &memory[piece.offset as usize..][..piece.len as usize];
                append(&mut self.pieces, first, bytes);
            }
            // SAFETY: all fields of `mmsghdr` are integers and pointers, for which zero is a value.
            let mut message: mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            if let Some(address) = address(run) {
                message.msg_hdr.msg_name = ptr::from_ref(&address.bytes).cast_mut().cast();
                message.msg_hdr.msg_namelen = address.len;
            }
            message.msg_hdr.msg_iov = self.pieces[first..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = (self.pieces.len() - first) as _;
            let mut said = 0;
            if let Some(mark) = mark {
                control[said] = Said::new(mark, c_int::from(run.mark).to_ne_bytes());
                said += 1;
            }
            if run.segment > 0 {
                control[said] = Said::new(SEGMENT, run.segment.to_ne_bytes());
                said += 1;
            }
            if said > 0 {
                message.msg_hdr.msg_control = control.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = (said * size_of::<Said>()) as _;
            }
            self.messages.push(message);
        }
        // SAFETY: `messages` holds that many headers. Each points to: an address that `address` borrowed for 'a, which
        // outlives the call; `msg_iovlen` entries of `pieces`, which was reserved up front and so has not moved, each a
        // live slice of `memory` that the kernel only reads; a control of `controls`, sized before the loop.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as _,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        checked(sent).map(|sent| sent as usize)
    }
}

/// Adds bytes to the message whose pieces begin at `first`, as part of the last piece when they follow it in memory.
fn append(pieces: &mut Vec<iovec>, first: usize, bytes: &[u8]) {
    let base = bytes.as_ptr().cast_mut();
    if pieces.len() > first
        && let Some(last) = pieces.last_mut()
        && last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == base
    {
        last.iov_len += bytes.len();
        return;
    }
    pieces.push(iovec { iov_base: base.cast(), iov_len: bytes.len() });
}

/// One received message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// Bytes in memory.
    pub(super) len: usize,
    /// The kernel cut it because it did not fit.
    pub(super) truncated: bool,
    /// The ECN bits.
    pub(super) ecn: u8,
    /// Length of every datagram in it but the last, when the kernel put several together (GRO).
    pub(super) segment: Option<usize>,
}

/// Room for control messages, aligned as the kernel writes them.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// Bytes for the rest of a message: what the longest can have.
pub(super) const REST: usize = 65_536;

/// The argument tables of `recvmmsg`.
pub(super) struct Receiver {
    messages: Vec<mmsghdr>,
    pieces: Vec<iovec>,
    addresses: Vec<RawAddress>,
    controls: Vec<Control>,
}

// SAFETY: as for `Sender`: pointers are used within one call of `receive` only.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            messages: Vec::with_capacity(MESSAGES_MAX),
            pieces: Vec::with_capacity(2 * MESSAGES_MAX),
            addresses: vec![RawAddress::EMPTY; MESSAGES_MAX],
            controls: vec![Control([0; CONTROL_LEN]); MESSAGES_MAX],
        }
    }

    /// Receives up to `count` messages (at most [`MESSAGES_MAX`]) into `memory`, message i at byte i * `stride`, each
    /// of at most `stride` bytes, and returns how many came. What of a message is longer goes into `rest`, at byte i * [`REST`], as
    /// far as there is one. Never blocks.
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        (memory, stride): (&mut [u8], usize),
        rest: &mut [u8],
        count: usize,
    ) -> io::Result<usize> {
        self.messages.clear();
        self.pieces.clear();
        let places = memory.chunks_exact_mut(stride.max(1)).take(count.min(MESSAGES_MAX));
        let mut rests = rest.chunks_exact_mut(REST);
        let piece = |bytes: &mut [u8]| iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        for place in places {
            let none: &mut [u8] = &mut [];
            self.pieces.extend([piece(place), piece(rests.next().unwrap_or(none))]);
        }
        let (pieces, _) = self.pieces.as_chunks_mut::<2>();
        let entries = pieces.iter_mut().zip(&mut self.addresses).zip(&mut self.controls);
        for ((pieces, address), control) in entries {
            // SAFETY: all fields of `mmsghdr` are integers and pointers, for which zero is a value.
            let mut message: mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            message.msg_hdr.msg_name = ptr::from_mut(&mut address.bytes).cast();
            message.msg_hdr.msg_namelen = address.bytes.len() as _;
            message.msg_hdr.msg_iov = pieces.as_mut_ptr();
            message.msg_hdr.msg_iovlen = pieces.len() as _;
            message.msg_hdr.msg_control = ptr::from_mut(control).cast();
            message.msg_hdr.msg_controllen = CONTROL_LEN as _;
            self.messages.push(message);
        }
        // SAFETY: `messages` holds that many headers. Each points to its own address (28 bytes), control area and two
        // pieces; the pieces are disjoint parts of `memory` and `rest`, borrowed mutably through the call; none of the tables
        // changes between taking the pointers and the call. A null timeout is allowed.
        let received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let received = checked(received)? as usize;
        self.messages.truncate(received);
        Ok(received)
    }

    /// What is known of message `index` of the last [`receive`](Self::receive).
    pub(super) fn message(&self, index: usize) -> Message {
        let raw = &self.messages[index];
        let mut message = Message {
            len: raw.msg_len as usize,
            truncated: raw.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            ecn: 0,
            segment: None,
        };
        #[expect(clippy::unnecessary_cast, reason = "the type of msg_controllen depends on the C library")]
        let len = (raw.msg_hdr.msg_controllen as usize).min(CONTROL_LEN);
        read_controls(&self.controls[index].0[..len], &mut message);
        message
    }

    /// Where message `index` of the last [`receive`](Self::receive) came from.
    pub(super) fn source(&self, index: usize) -> &RawAddress {
        &self.addresses[index]
    }
}

/// Calls a function with the level, the kind and the data of each control message: each is a length (with its header), a level, a kind, and data, padded
/// to a word.
fn each_control(mut bytes: &[u8], mut call: impl FnMut(c_int, c_int, &[u8])) {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = WORD + 8;
    while bytes.len() >= HEADER {
        let mut word = [0; WORD];
        word.copy_from_slice(&bytes[..WORD]);
        let len = usize::from_ne_bytes(word);
        if len < HEADER || len > bytes.len() {
            return;
        }
        let int = |at: usize| c_int::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        call(int(WORD), int(WORD + 4), &bytes[HEADER..len]);
        bytes = bytes.get(len.next_multiple_of(WORD)..).unwrap_or_default();
    }
}

/// Reads what control messages say of a received message.
fn read_controls(bytes: &[u8], message: &mut Message) {
    each_control(bytes, |level, kind, data| {
        let int = || data.first_chunk().map_or(0, |bytes| c_int::from_ne_bytes(*bytes));
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) if data.len() >= 2 => {
                // The kernel writes an int; a segment is shorter than 64 KiB.
                message.segment = usize::try_from(int()).ok().filter(|segment| *segment > 0);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) if !data.is_empty() => message.ecn = data[0] & 3,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if data.len() >= 4 => message.ecn = (int() & 3) as u8,
            _ => {}
        }
    });
}

/// An ICMP error that a router or a host has sent about a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IcmpError {
    /// Bytes of the datagram that the error quotes.
    pub(super) quoted: usize,
    /// Where it came from.
    pub(super) from: IpAddr,
    /// Whether the datagram has passed as many routers as it may.
    pub(super) expired: bool,
}

/// Takes the next ICMP error of a socket with `IP_RECVERR` (ip(7)), with what it quotes of the datagram in `memory`; `None` where there is none, or
/// one that no ICMP error caused. Never blocks.
pub(super) fn receive_error(fd: BorrowedFd<'_>, memory: &mut [u8]) -> io::Result<Option<IcmpError>> {
    let mut control = Control([0; CONTROL_LEN]);
    let mut piece = iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
    // SAFETY: all fields of `msghdr` are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = ptr::from_mut(&mut piece);
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(&mut control).cast();
    message.msg_controllen = CONTROL_LEN as _;
    // SAFETY: the message points to one piece, which describes `memory`, borrowed mutably, and to a control area of `CONTROL_LEN` bytes, aligned
    // as the kernel writes it; all live through the call. Without a name none is written.
    let received = unsafe {
        libc::recvmsg(fd.as_raw_fd(), ptr::from_mut(&mut message), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    let quoted = match usize::try_from(received) {
        Ok(quoted) => quoted.min(memory.len()),
        Err(_) => {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
    };
    #[expect(clippy::unnecessary_cast, reason = "the type of msg_controllen depends on the C library")]
    let len = (message.msg_controllen as usize).min(CONTROL_LEN);
    Ok(read_error(&control.0[..len]).map(|(from, expired)| IcmpError { quoted, from, expired }))
}

/// Who sent the ICMP error of these control messages, and whether it is that the datagram has expired: a `sock_extended_err` of 16 bytes, and an address.
fn read_error(bytes: &[u8]) -> Option<(IpAddr, bool)> {
    const EXTENDED: usize = 16;
    let (mut found, expired) = (None, (ICMP_TIME_EXCEEDED, ICMP6_TIME_EXCEEDED));
    each_control(bytes, |level, kind, data| {
        let Some((error, address)) = data.split_at_checked(EXTENDED) else { return };
        let (origin, code) = (error[4], error[5]);
        found = match (level, kind, origin) {
            (libc::IPPROTO_IP, libc::IP_RECVERR, libc::SO_EE_ORIGIN_ICMP) => {
                let octets = address.get(4..8).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
                octets.map(|octets| (octets.into(), code == expired.0))
            }
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::SO_EE_ORIGIN_ICMP6) => {
                let octets = address.get(8..24).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
                octets.map(|octets| (octets.into(), code == expired.1))
            }
            _ => return,
        };
    });
    found
}

/// The type of ICMPv6 messages about datagrams that have expired (RFC 4443, section 3.3); and of those of ICMP (RFC 792).
const ICMP6_TIME_EXCEEDED: u8 = 3;
const ICMP_TIME_EXCEEDED: u8 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: c_int, kind: c_int, data: &[u8]) -> Vec<u8> {
        let mut bytes = (size_of::<usize>() + 8 + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    #[test]
    fn control_messages() {
        let mut bytes = control(libc::IPPROTO_IP, libc::IP_TOS, &[0xfe]);
        bytes.extend(control(1, 2, &[1, 2, 3]));
        bytes.extend(control(libc::SOL_UDP, libc::UDP_GRO, &1436_i32.to_ne_bytes()));
        let empty = Message { len: 0, truncated: false, ecn: 0, segment: None };
        let mut message = empty;
        read_controls(&bytes, &mut message);
        assert_eq!((message.ecn, message.segment), (2, Some(1436)));
        for cut in 0..bytes.len() {
            read_controls(&bytes[..cut], &mut empty.clone());
        }
        let mut message = empty;
        read_controls(&control(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &3_i32.to_ne_bytes()), &mut message);
        assert_eq!(message.ecn, 3);
    }

    #[test]
    fn icmp_errors_have_the_router_that_sent_them() {
        // errno, origin, type, code, padding, info and data; then the address of the router.
        let error = |origin, kind, address: &[u8]| {
            [&[113, 0, 0, 0, origin, kind, 0, 0], &[0; 8][..], address].concat()
        };
        let v4 = |origin, kind| error(origin, kind, &[2, 0, 0, 0, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut address = [0; 28];
        address[8..24].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        let v6 = |kind| control(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error(3, kind, &address));
        let ip = |data: &[u8]| control(libc::IPPROTO_IP, libc::IP_RECVERR, data);
        let router: IpAddr = [10, 0, 0, 7].into();
        assert_eq!(read_error(&ip(&v4(2, 11))), Some((router, true)));
        assert_eq!(read_error(&ip(&v4(2, 3))), Some((router, false)), "port unreachable");
        assert_eq!(read_error(&ip(&v4(1, 11))), None, "an error of this host");
        assert_eq!(read_error(&v6(3)), Some(("fd00::7".parse().unwrap(), true)));
        assert_eq!(read_error(&v6(1)), Some(("fd00::7".parse().unwrap(), false)));
        let whole = ip(&v4(2, 11));
        for cut in 0..whole.len() {
            let _ = read_error(&whole[..cut]);
            let _ = read_error(&ip(&v4(2, 11)[..cut.min(32)]));
        }
    }

    #[test]
    fn pieces_that_touch_are_one() {
        let memory = [0_u8; 10];
        let mut pieces = Vec::new();
        append(&mut pieces, 0, &memory[0..4]);
        append(&mut pieces, 0, &memory[4..8]);
        append(&mut pieces, 0, &memory[0..4]);
        append(&mut pieces, 2, &memory[4..8]);
        let lens: Vec<usize> = pieces.iter().map(|piece| piece.iov_len).collect();
        assert_eq!(lens, [8, 4, 4], "the last belongs to another message");
    }
}
