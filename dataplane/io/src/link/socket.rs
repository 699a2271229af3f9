//! The system calls of packet and XDP sockets, each behind a safe function.
#![expect(unsafe_code, reason = "raw sockets and what is asked of them exist only as C calls")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_ulong, iovec, mmsghdr};

use crate::sys::checked;

/// Frames a call of [`FrameSender::send`].
pub(super) const MESSAGES_MAX: usize = 64;

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) index: u32,
    pub(super) mac: [u8; 6],
    /// Longest IP packet in bytes.
    pub(super) mtu: usize,
}

/// A new socket, closed on exec, non-blocking.
pub(super) fn socket(domain: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = checked(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: the call above returned this descriptor just now, so there is no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option whose value is a plain structure.
///
/// `T` must be made of integers without padding, as the kernel reads it.
pub(super) fn set_value<T: Copy>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which lives through the call; the kernel only reads it.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    checked(rc).map(drop)
}

/// Reads a socket option of `N` 64-bit words; what the kernel does not write stays 0.
pub(super) fn words<const N: usize>(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<[u64; N]> {
    let mut value = [0_u64; N];
    let mut len = size_of::<[u64; N]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`, and both live through the call.
    let rc =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut len) };
    checked(rc).map(|_| value)
}

/// Binds a packet socket to an interface and an Ethernet protocol.
pub(super) fn bind_packet(fd: BorrowedFd<'_>, index: u32, protocol: c_int) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as c_int;
    bind(fd, &address)
}

/// Binds an XDP socket to a queue of an interface.
pub(super) fn bind_xdp(fd: BorrowedFd<'_>, index: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    bind(fd, &address)
}

/// Binds an XDP socket to a queue that another socket is bound to, with that one's memory, fill and completion rings.
pub(super) fn bind_beside(
    fd: BorrowedFd<'_>,
    index: u32,
    queue: u32,
    other: BorrowedFd<'_>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_SHARED_UMEM,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: other.as_raw_fd() as u32,
    };
    bind(fd, &address)
}

fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `address`, which lives through the call; the kernel only reads it.
    let rc = unsafe {
        libc::bind(fd.as_raw_fd(), ptr::from_ref(address).cast(), size_of::<T>() as libc::socklen_t)
    };
    checked(rc).map(drop)
}

/// Asks for an interface by name, in the network namespace of the socket.
pub(super) fn facts(fd: BorrowedFd<'_>, name: &str) -> io::Result<Facts> {
    let asked = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    let answer = |what| ask(fd, what, asked);
    let index = answer(libc::SIOCGIFINDEX)?;
    let mtu = answer(libc::SIOCGIFMTU)?;
    let hardware = answer(libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel has filled in this member of the union by the request of that name; all are plain integers.
    let (index, mtu, hardware) =
        unsafe { (index.ifr_ifru.ifru_ifindex, mtu.ifr_ifru.ifru_mtu, hardware.ifr_ifru.ifru_hwaddr) };
    if hardware.sa_family != libc::ARPHRD_ETHER {
        return Err(io::Error::from_raw_os_error(libc::EPROTOTYPE));
    }
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
        // A signed byte or an unsigned one, by architecture.
        [*to] = from.to_ne_bytes();
    }
    Ok(Facts { index: index as u32, mac, mtu: usize::try_from(mtu).unwrap_or(0) })
}

/// What has become of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// There is none of that name, or it is another one.
    Gone,
}

/// Looks at an interface, in the network namespace of the socket.
pub(super) fn state(fd: BorrowedFd<'_>, name: &str, index: u32) -> State {
    let Some(asked) = request(name) else { return State::Gone };
    let (Ok(found), Ok(flags)) = (ask(fd, libc::SIOCGIFINDEX, asked), ask(fd, libc::SIOCGIFFLAGS, asked))
    else {
        return State::Gone;
    };
    // SAFETY: the kernel has filled in this member of the union by the request of that name; both are plain integers.
    let (found, flags) = unsafe { (found.ifr_ifru.ifru_ifindex, flags.ifr_ifru.ifru_flags) };
    if found as u32 != index {
        State::Gone
    } else if libc::c_int::from(flags) & libc::IFF_UP != 0 {
        State::Up
    } else {
        State::Down
    }
}

/// How many receive queues an interface has in use, at least 1; 1 where its driver does not say.
/// Source: `struct ethtool_channels` of linux/ethtool.h.
pub(super) fn receive_queues(fd: BorrowedFd<'_>, name: &str) -> u32 {
    const SIOCETHTOOL: c_ulong = 0x8946;
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    const RX_COUNT: usize = 5;
    const COMBINED_COUNT: usize = 8;
    let Some(mut asked) = request(name) else { return 1 };
    let mut channels = [0_u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    asked.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
    match ask(fd, SIOCETHTOOL, asked) {
        Ok(_) => channels[RX_COUNT].saturating_add(channels[COMBINED_COUNT]).max(1),
        Err(_) => 1,
    }
}

fn ask(fd: BorrowedFd<'_>, what: c_ulong, mut request: libc::ifreq) -> io::Result<libc::ifreq> {
    // SAFETY: the pointer is to an `ifreq`, which these requests read and write, and which lives through the call; where it points on, that
    // is to the array in `receive_queues`, which does, too, and has the length of what that request writes.
    let rc = unsafe { libc::ioctl(fd.as_raw_fd(), what as _, ptr::from_mut(&mut request)) };
    checked(rc).map(|_| request)
}

/// A request with the interface's name; `None` when it cannot be one.
fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all fields are integers and a pointer, for which zero is a value.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

/// Sends nothing by a socket: has the kernel look at what is queued in memory that is shared with it.
pub(super) fn kick(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a null buffer of length 0 and a null address are allowed.
    let rc = unsafe { libc::sendto(fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    checked(rc as c_int).map(drop)
}

/// Receives one message, into as much of `memory` as it takes. Returns its whole length.
pub(super) fn receive(fd: BorrowedFd<'_>, memory: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: pointer and length describe `memory`, which the kernel may write.
    let len = unsafe { libc::recv(fd.as_raw_fd(), memory.as_mut_ptr().cast(), memory.len(), flags) };
    if len < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}

/// The argument tables of `sendmmsg`.
pub(super) struct FrameSender {
    messages: Vec<mmsghdr>,
    pieces: Vec<iovec>,
}

// SAFETY: the pointers in the tables are written and used within one call of `send`, which has `&mut self`; between calls they
// are never read, so it does not matter which thread holds them.
unsafe impl Send for FrameSender {}

impl FrameSender {
    pub(super) fn new() -> Self {
        Self { messages: Vec::with_capacity(MESSAGES_MAX), pieces: Vec::with_capacity(MESSAGES_MAX) }
    }

    /// Sends frames, up to [`MESSAGES_MAX`] of them, through a bound packet socket, and returns how many were sent. The error is that
    /// of the first; none was sent then. Never blocks.
    pub(super) fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        self.messages.clear();
        self.pieces.clear();
        self.pieces.extend(
            frames
                .take(MESSAGES_MAX)
                .map(|frame| iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() }),
        );
        for piece in &mut self.pieces {
            // SAFETY: all fields of `mmsghdr` are integers and pointers, for which zero is a value.
            let mut message: mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            self.messages.push(message);
        }
        // SAFETY: `messages` holds that many headers, each with one piece of the table beside it, which does not change between
        // taking the pointers and the call; the pieces are frames that live through it, and sending only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as _,
                libc::MSG_DONTWAIT as _,
            )
        };
        checked(sent).map(|sent| sent as usize)
    }
}
