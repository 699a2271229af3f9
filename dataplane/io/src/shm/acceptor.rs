//! The thread that accepts workers for a hub, and detects that they have detached. The hub's own thread reads one word a burst.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::handshake::{self, HandshakeOutcome, Terms};
use super::ring::Rings;
use super::{LOCAL_PORTS, WORKERS_MAX};
use crate::IoError;

/// A worker that has arrived.
#[derive(Debug)]
pub(super) struct AttachedWorker {
    /// Its port number.
    pub(super) number: u16,
    pub(super) rings: Rings,
    /// Written to wake it.
    pub(super) waker: OwnedFd,
    /// Set when it has detached.
    pub(super) gone: Arc<AtomicBool>,
    /// Shut down to send it away.
    pub(super) line: Arc<UnixStream>,
}

/// Where workers arrive. Dropping it sends all away.
#[derive(Debug)]
pub(super) struct Acceptor {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    arrived: Receiver<AttachedWorker>,
    changed: Arc<AtomicBool>,
}

impl Acceptor {
    /// Starts the acceptor. `terms` has all but the port; `wake` is written to wake the hub.
    pub(super) fn start(listener: UnixListener, terms: Terms, wake: OwnedFd) -> Result<Self, IoError> {
        let os = |call| move |source: rustix::io::Errno| IoError::os(call, source.into());
        let stop = event().map_err(os("eventfd"))?;
        let stopped = stop.try_clone().map_err(|source| IoError::os("dup", source))?;
        // All that can be pending at a time; the hub adds them when it is next called for a port or notified of a change.
        let (arrive, arrived) = mpsc::sync_channel(2 * WORKERS_MAX);
        let changed = Arc::<AtomicBool>::default();
        let acceptor = AcceptorThread {
            listener,
            stop: stopped,
            wake,
            terms,
            arrive,
            changed: Arc::clone(&changed),
            inside: Vec::with_capacity(WORKERS_MAX),
            last: 0,
        };
        let thread = std::thread::Builder::new().name("netfold-shm".into()).spawn(move || acceptor.keep());
        let thread = thread.map_err(|source| IoError::os("clone", source))?;
        Ok(Self { stop, thread: Some(thread), arrived, changed })
    }

    /// Whether a worker has attached or detached since the last call.
    pub(super) fn has_news(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Acquire)
    }

    /// The newly attached workers.
    pub(super) fn arrived(&self) -> impl Iterator<Item = AttachedWorker> + '_ {
        self.arrived.try_iter()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        notify(self.stop.as_fd());
        // A panic there was printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(super) fn event() -> Result<OwnedFd, rustix::io::Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Wakes the thread that sleeps on an event descriptor.
pub(super) fn notify(event: BorrowedFd<'_>) {
    // Fails only when the counter is full, and then the sleeper wakes anyway.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// An attached worker.
struct Inside {
    number: u16,
    line: Arc<UnixStream>,
    gone: Arc<AtomicBool>,
}

struct AcceptorThread {
    listener: UnixListener,
    stop: OwnedFd,
    wake: OwnedFd,
    terms: Terms,
    arrive: SyncSender<AttachedWorker>,
    changed: Arc<AtomicBool>,
    inside: Vec<Inside>,
    /// The number that was given last. Numbers go around, so that one is not soon another's.
    last: u16,
}

impl AcceptorThread {
    fn keep(mut self) {
        loop {
            let mut fds =
                vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(self.inside.iter().map(|inside| PollFd::new(&*inside.line, PollFlags::IN)));
            if poll(&mut fds, None).is_err() {
                continue; // a signal
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return;
            }
            let mut gone = ready[2..].iter().copied();
            // There are no messages after the handshake: a worker that sends any is faulty.
            self.inside.retain(|inside| {
                let stays = !gone.next().unwrap_or(false);
                if !stays {
                    let _ = inside.line.shutdown(std::net::Shutdown::Both);
                    inside.gone.store(true, Ordering::Release);
                }
                stays
            });
            if ready[2..].contains(&true) {
                self.notify();
            }
            if ready[1]
                && let Ok((line, _)) = self.listener.accept()
            {
                // A worker that is not accepted got a reply, or has closed.
                let _ = self.let_in(line);
            }
        }
    }

    fn notify(&self) {
        self.changed.store(true, Ordering::Release);
        notify(self.wake.as_fd());
    }

    fn let_in(&mut self, line: UnixStream) -> io::Result<()> {
        match handshake::read_request(&line)? {
            HandshakeOutcome::Welcome if self.inside.len() >= WORKERS_MAX => {
                handshake::refuse(&line, HandshakeOutcome::Full)
            }
            HandshakeOutcome::Welcome => self.welcome(line),
            other => handshake::refuse(&line, other),
        }
    }

    fn welcome(&mut self, line: UnixStream) -> io::Result<()> {
        let number = self.number();
        let waker = event()?;
        let terms = Terms { port: number, ..self.terms };
        // It is added before it gets its reply.
        let (rings, message) = handshake::invite(&terms)?;
        let (line, gone) = (Arc::new(line), Arc::<AtomicBool>::default());
        let worker_waker = waker.try_clone()?;
        let worker = AttachedWorker {
            number,
            rings,
            waker: worker_waker,
            gone: Arc::clone(&gone),
            line: Arc::clone(&line),
        };
        if self.arrive.try_send(worker).is_err() {
            return handshake::refuse(&line, HandshakeOutcome::Full);
        }
        self.changed.store(true, Ordering::Release);
        let sent = message.send(&line, [self.wake.as_fd(), waker.as_fd()]);
        if sent.is_err() {
            gone.store(true, Ordering::Release);
            self.notify();
        } else {
            self.inside.push(Inside { number, line, gone });
        }
        sent
    }

    /// The next number that no attached worker has.
    fn number(&mut self) -> u16 {
        loop {
            self.last = self.last % (LOCAL_PORTS - 1) + 1;
            if self.inside.iter().all(|inside| inside.number != self.last) {
                return self.last;
            }
        }
    }
}
