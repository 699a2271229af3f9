//! Waiting for the kernel to release what a closed socket or program held.
//!
//! The kernel frees the queue of a closed XDP socket (`xp_release_deferred` of net/xdp/xsk_buff_pool.c) and the hook of a closed program
//! on a work queue of its own, after the close has returned and even after the process has ended. A program that is restarted at once
//! finds them taken, so opening retries for a bounded time.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long to retry before a queue or hook counts as another program's.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Repeats `attempt` while it fails because the queue or hook is taken, for at most [`RELEASE_TIMEOUT`].
pub(super) fn retry_while_taken<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_taken(&error) && begun.elapsed() < RELEASE_TIMEOUT => {
                thread::sleep(POLL_INTERVAL)
            }
            done => return done,
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_taken_is_retried() {
        let mut codes = vec![libc::EBUSY, libc::EEXIST];
        let freed =
            retry_while_taken(|| codes.pop().map_or(Ok(7), |code| Err(io::Error::from_raw_os_error(code))));
        assert_eq!(freed.unwrap(), 7);
        let mut calls = 0;
        let refused = retry_while_taken::<()>(|| {
            calls += 1;
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!((refused.unwrap_err().raw_os_error(), calls), (Some(libc::EPERM), 1));
    }
}
