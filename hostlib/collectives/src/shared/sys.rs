//! System calls that the standard library does not have, each behind a safe function.
#![expect(unsafe_code, reason = "futexes, record locks, pidfds and file allocation exist only as C calls")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, at most `timeout`. May return early for any reason.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs().min(365 * 86_400) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as _,
    };
    // SAFETY: `word` and `time` live through the call; the kernel reads both and keeps neither. Without the private flag,
    // the word is found by page, so that processes meet.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const time) };
}

/// Wakes all threads that sleep on `word`, in any process.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: only the address of `word` matters; nothing is read or written.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Allocates the full length of `file`, so that no later access can fail for lack of memory.
pub(crate) fn allocate(file: &File, len: usize) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        // SAFETY: no pointers are passed.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Gives an unnamed file (`O_TMPFILE`) a name; fails if there is such a name.
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both strings end in NUL and live through the call.
    let rc = unsafe {
        libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
    };
    checked(rc).map(drop)
}

fn lock(kind: i32, at: u64, len: u64) -> libc::flock {
    // SAFETY: a plain C structure of integers, for which zero is valid; l_pid must be zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = len as libc::off_t;
    lock
}

/// Takes the lock on byte `at` for the open file description of `file`; `false` when another one has it.
pub(crate) fn lock_byte(file: &File, at: u64) -> io::Result<bool> {
    let request = lock(libc::F_WRLCK, at, 1);
    // SAFETY: `request` lives through the call; the kernel only reads it.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) };
    match checked(rc) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Drops the lock on byte `at`, for every process that inherited the open file description.
pub(crate) fn unlock_byte(file: &File, at: u64) {
    let request = lock(libc::F_UNLCK, at, 1);
    // SAFETY: as in `lock_byte`.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) };
}

/// Whether another open file description holds a lock within `len` bytes from `at` (0: to the end).
pub(crate) fn is_locked(file: &File, at: u64, len: u64) -> io::Result<bool> {
    let mut request = lock(libc::F_WRLCK, at, len);
    // SAFETY: `request` lives through the call; the kernel reads and overwrites it.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
    checked(rc).map(|_| i32::from(request.l_type) != libc::F_UNLCK)
}

/// A descriptor of the process `pid`; `None` on kernels without them or when there is no such process.
pub(crate) fn process(pid: u32) -> Option<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call above returned this descriptor just now, so nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the process of a [`process`] descriptor has ended, reaped or not.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut entry = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call; a timeout of zero only looks.
    let rc = unsafe { libc::poll(&raw mut entry, 1, 0) };
    rc == 1 && entry.revents & libc::POLLIN != 0
}

/// The effective user id.
pub(crate) fn user() -> u32 {
    // SAFETY: has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// 16 random bytes.
pub(crate) fn token() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: the pointer and the length describe `bytes`, which lives through the call.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Requests of up to 256 bytes are served whole.
    if count == bytes.len() as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Maps `len` bytes of `file` for reading and writing, shared, all pages present.
pub(crate) fn map(file: &File, len: usize) -> io::Result<ptr::NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was mapped just now. A child of fork must not see it: it is not a member.
    unsafe { libc::madvise(base, len, libc::MADV_DONTFORK) };
    ptr::NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
}

/// Ends a mapping.
///
/// # Safety
///
/// `base` and `len` are those of a [`map`] by this very process, and nothing refers into it any more.
pub(crate) unsafe fn unmap(base: ptr::NonNull<u8>, len: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

fn checked(rc: i32) -> io::Result<i32> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}
