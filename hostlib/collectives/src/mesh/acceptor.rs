//! A listener that no connection can block: each sends a hello of fixed size, all pending ones are read concurrently, and those that
//! send nothing are dropped.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use netfold_listener::{HelloQueue, Source, policy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The listener, for hellos of `N` bytes.
pub(crate) struct Acceptor<const N: usize> {
    listener: TcpListener,
    started: Instant,
    hellos: HelloQueue<TcpStream, N>,
}

impl<const N: usize> Acceptor<N> {
    pub(crate) fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, started: Instant::now(), hellos: HelloQueue::new(policy::MESH) })
    }

    /// The next connection with a complete hello, in blocking mode; `None` when `until` comes first.
    pub(crate) fn next(&mut self, until: Instant) -> io::Result<Option<(TcpStream, [u8; N])>> {
        loop {
            let now = self.started.elapsed();
            self.hellos.accept(now, || {
                let (stream, peer) = self.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream, Source::from(peer.ip())))
            });
            if let Some((stream, hello)) = self.hellos.next(now) {
                stream.set_nonblocking(false)?;
                return Ok(Some((stream, hello)));
            }
            if self.started + now >= until {
                return Ok(None);
            }
            self.wait(until)?;
        }
    }

    fn wait(&self, until: Instant) -> io::Result<()> {
        let now = self.started.elapsed();
        let deadline =
            self.hellos.next_deadline().map_or(until, |deadline| until.min(self.started + deadline));
        let most = deadline.saturating_duration_since(self.started + now);
        let mut fds = Vec::new();
        if self.hellos.accepts(now) {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        fds.extend(self.hellos.streams().map(|stream| PollFd::new(stream, PollFlags::IN)));
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
