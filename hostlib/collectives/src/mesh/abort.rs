//! Ending a blocked call from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Makes the calls of one rank's [`Mesh`](crate::mesh::Mesh) fail: the one that is blocked, promptly, and all later ones. The other
/// ranks see this rank lost. May be used from any thread, any number of times.
#[derive(Debug, Clone)]
pub struct Aborter(Arc<AbortSignal>);

impl Aborter {
    pub(crate) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(AbortSignal { pulled: AtomicBool::new(false), bell })))
    }

    /// Aborts.
    pub fn abort(&self) {
        self.0.pulled.store(true, Ordering::Release);
        // Only a counter at its limit refuses, and then the bell rings already.
        let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn signal(&self) -> &AbortSignal {
        &self.0
    }
}

/// What a blocked call looks at.
#[derive(Debug)]
pub(crate) struct AbortSignal {
    pulled: AtomicBool,
    /// Readable from the first abort on; nobody reads it.
    bell: OwnedFd,
}

impl AbortSignal {
    pub(crate) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::Acquire)
    }
}

impl AsFd for AbortSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
