//! A listener that no connection can block: each sends a hello of fixed size, all pending ones are read concurrently, and those that
//! send nothing are dropped.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a connection may take to send its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections whose hello is incomplete. When there are more, the oldest is dropped.
const PENDING_MAX: usize = 256;

/// A connection whose hello is incomplete.
struct PendingConnection<const N: usize> {
    stream: TcpStream,
    since: Instant,
    hello: [u8; N],
    len: usize,
}

/// The listener, for hellos of `N` bytes.
pub(crate) struct Acceptor<const N: usize> {
    listener: TcpListener,
    pending: VecDeque<PendingConnection<N>>,
}

impl<const N: usize> Acceptor<N> {
    pub(crate) fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, pending: VecDeque::new() })
    }

    /// The next connection with a complete hello, in blocking mode; `None` when `until` comes first.
    pub(crate) fn next(&mut self, until: Instant) -> io::Result<Option<(TcpStream, [u8; N])>> {
        loop {
            let now = Instant::now();
            self.accept(now)?;
            if let Some(complete) = self.read(now) {
                complete.0.set_nonblocking(false)?;
                return Ok(Some(complete));
            }
            if now >= until {
                return Ok(None);
            }
            self.wait(until - now)?;
        }
    }

    fn accept(&mut self, now: Instant) -> io::Result<()> {
        // Bounded, so that a flood of connections does not prevent reading.
        for _ in 0..PENDING_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.pending.len() == PENDING_MAX {
                        self.pending.pop_front();
                    }
                    self.pending.push_back(PendingConnection { stream, since: now, hello: [0; N], len: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A connection that was reset before it was accepted does not concern the others.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, now: Instant) -> Option<(TcpStream, [u8; N])> {
        let mut at = 0;
        while at < self.pending.len() {
            let one = &mut self.pending[at];
            let keep = match (&one.stream).read(&mut one.hello[one.len..]) {
                Ok(0) => false,
                Ok(len) => {
                    one.len += len;
                    true
                }
                Err(error) => {
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
                        && now.duration_since(one.since) < HELLO_TIMEOUT
                }
            };
            let complete = one.len == N;
            if complete {
                return self.pending.remove(at).map(|one| (one.stream, one.hello));
            }
            if keep {
                at += 1;
            } else {
                self.pending.remove(at);
            }
        }
        None
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        let most = if self.pending.is_empty() { most } else { most.min(HELLO_TIMEOUT) };
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.pending.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
