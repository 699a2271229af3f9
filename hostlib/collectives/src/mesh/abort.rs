//! Ending a blocked call from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Makes the calls of one rank's [`Mesh`](crate::mesh::Mesh) fail: the one that is blocked, promptly, and all later ones. The other
/// ranks see this rank lost. May be used from any thread, any number of times.
#[derive(Debug, Clone)]
pub struct MeshAborter(Arc<AbortSignal>);

impl MeshAborter {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(AbortSignal { aborted: AtomicBool::new(false), wake_fd })))
    }

    /// Aborts.
    pub fn abort(&self) {
        self.0.aborted.store(true, Ordering::Release);
        // The write fails only when the counter is at its limit, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0.wake_fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn signal(&self) -> &AbortSignal {
        &self.0
    }
}

/// What a blocked call polls.
#[derive(Debug)]
pub(crate) struct AbortSignal {
    aborted: AtomicBool,
    /// Readable from the first abort on; never read.
    wake_fd: OwnedFd,
}

impl AbortSignal {
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }
}

impl AsFd for AbortSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}
