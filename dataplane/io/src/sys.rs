//! System calls that several backends make and the standard library does not have, each behind a safe function.
#![expect(unsafe_code, reason = "ppoll, eventfd and socket options exist only as C calls")]

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_short};

/// Sets an integer socket option.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives through the call; the kernel only reads it.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    checked(rc).map(drop)
}

/// Reads an integer socket option.
pub(crate) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`, and both live through the call.
    let rc =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut len) };
    checked(rc).map(|_| value)
}

/// Reads a socket option of `N` 32-bit words; what the kernel does not write stays 0.
pub(crate) fn numbers<const N: usize>(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<[u32; N]> {
    let mut value = [0_u32; N];
    let mut len = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`, and both live through the call.
    let rc =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut len) };
    checked(rc).map(|_| value)
}

/// Packets that the kernel has dropped at a socket since it was opened, most of them because its buffer was full; 0 where it does not
/// say. Source: `SO_MEMINFO` of asm/socket.h and `SK_MEMINFO_DROPS` of linux/sock_diag.h, since Linux 4.12.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> u64 {
    const SO_MEMINFO: c_int = 55;
    const DROPS: usize = 8;
    numbers::<9>(fd, libc::SOL_SOCKET, SO_MEMINFO).map_or(0, |numbers| numbers[DROPS].into())
}

/// A new event counter, non-blocking, as a file of which 8 bytes are read and written.
pub(crate) fn eventfd() -> io::Result<File> {
    // SAFETY: no pointers are passed.
    let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the call above returned this descriptor just now, so there is no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// As [`poll_events`], without the events of each.
pub(crate) fn poll<const N: usize>(
    fds: [(BorrowedFd<'_>, c_short); N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    poll_events(fds, timeout).map(|events| events.map(|events| events != 0))
}

/// Sleeps until one of the descriptors has one of its events (or an error) or `timeout` is over; returns the events of each. A
/// signal looks like an arrival at the first.
pub(crate) fn poll_events<const N: usize>(
    fds: [(BorrowedFd<'_>, c_short); N],
    timeout: Duration,
) -> io::Result<[c_short; N]> {
    let mut list = fds.map(|(fd, events)| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
    poll_list(&mut list, timeout)?;
    Ok(list.map(|entry| entry.revents))
}

/// As [`poll_events`], of a list that the caller keeps.
pub(crate) fn poll_list(list: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    let time = libc::timespec {
        // A year is as good as for ever, and fits into every time_t.
        tv_sec: timeout.as_secs().min(365 * 86_400) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as _,
    };
    // SAFETY: pointer and length are those of `list`, and `time` is a valid timespec, both live through the call; a null signal mask
    // means "leave it".
    let rc = unsafe { libc::ppoll(list.as_mut_ptr(), list.len() as libc::nfds_t, &time, ptr::null()) };
    match checked(rc) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            list.iter_mut()
                .enumerate()
                .for_each(|(index, entry)| entry.revents = if index == 0 { libc::POLLIN } else { 0 });
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Has the kernel run a classic BPF program over what arrives at a socket, before it is queued: it returns how many bytes are kept.
/// Source: socket(7), SO_ATTACH_FILTER.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = program.len().try_into().map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: pointer and length describe `filter`, whose own pointer and length describe `program`; both live through
    // the call, and the kernel copies them.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            ptr::from_ref(&filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    checked(rc).map(drop)
}

/// One instruction of classic BPF.
pub(crate) const fn instruction(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// Makes the kernel drop everything that arrives at a socket.
pub(crate) fn take_nothing(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach_filter(socket, &[instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)])
}

/// Asks for two buffers of this size. Best effort: a smaller buffer only means more loss under load.
pub(crate) fn enlarge_buffers(socket: BorrowedFd<'_>, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        if set_option(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = set_option(socket, libc::SOL_SOCKET, plain, bytes);
        }
    }
}

/// The result of a call that returns -1 when it fails.
pub(crate) fn checked(rc: c_int) -> io::Result<c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}
