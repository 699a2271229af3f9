//! The thread at which workers arrive at a hub, and which notices that they have gone. The hub's own thread looks at one word a burst.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::meet::{self, Terms, Verdict};
use super::ring::Rings;
use super::{LOCAL_PORTS, WORKERS_MAX};
use crate::IoError;

/// A worker that has arrived.
#[derive(Debug)]
pub(super) struct Guest {
    /// Its port number.
    pub(super) number: u16,
    pub(super) rings: Rings,
    /// Written to wake it.
    pub(super) waker: OwnedFd,
    /// Set when it has gone.
    pub(super) gone: Arc<AtomicBool>,
    /// Shut down to send it away.
    pub(super) line: Arc<UnixStream>,
}

/// Where workers arrive. Dropping it sends all away.
#[derive(Debug)]
pub(super) struct Meeting {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    arrived: Receiver<Guest>,
    news: Arc<AtomicBool>,
}

impl Meeting {
    /// Opens the door. `terms` says all but the port; `wake` is written to wake the hub.
    pub(super) fn start(listener: UnixListener, terms: Terms, wake: OwnedFd) -> Result<Self, IoError> {
        let os = |call| move |source: rustix::io::Errno| IoError::os(call, source.into());
        let stop = event().map_err(os("eventfd"))?;
        let told = stop.try_clone().map_err(|source| IoError::os("dup", source))?;
        // All that can be on their way at a time; the hub takes them in when it is next told of a port or of news.
        let (arrive, arrived) = mpsc::sync_channel(2 * WORKERS_MAX);
        let news = Arc::<AtomicBool>::default();
        let door = Door {
            listener,
            stop: told,
            wake,
            terms,
            arrive,
            news: Arc::clone(&news),
            inside: Vec::with_capacity(WORKERS_MAX),
            last: 0,
        };
        let thread = std::thread::Builder::new().name("netfold-shm".into()).spawn(move || door.keep());
        let thread = thread.map_err(|source| IoError::os("clone", source))?;
        Ok(Self { stop, thread: Some(thread), arrived, news })
    }

    /// Whether somebody has come or gone since this was last asked.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// Who has come.
    pub(super) fn arrived(&self) -> impl Iterator<Item = Guest> + '_ {
        self.arrived.try_iter()
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        ring(self.stop.as_fd());
        // A panic there was printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(super) fn event() -> Result<OwnedFd, rustix::io::Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Wakes whoever sleeps on an event descriptor.
pub(super) fn ring(event: BorrowedFd<'_>) {
    // Fails only when the counter is full, and then the sleeper wakes anyway.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Somebody inside.
struct Inside {
    number: u16,
    line: Arc<UnixStream>,
    gone: Arc<AtomicBool>,
}

struct Door {
    listener: UnixListener,
    stop: OwnedFd,
    wake: OwnedFd,
    terms: Terms,
    arrive: SyncSender<Guest>,
    news: Arc<AtomicBool>,
    inside: Vec<Inside>,
    /// The number that was given last. Numbers go around, so that one is not soon another's.
    last: u16,
}

impl Door {
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
            // Nobody has anything to say: who says something has gone wrong.
            self.inside.retain(|inside| {
                let stays = !gone.next().unwrap_or(false);
                if !stays {
                    let _ = inside.line.shutdown(std::net::Shutdown::Both);
                    inside.gone.store(true, Ordering::Release);
                }
                stays
            });
            if ready[2..].contains(&true) {
                self.tell();
            }
            if ready[1]
                && let Ok((line, _)) = self.listener.accept()
            {
                // A worker that does not get through has been told, or has gone.
                let _ = self.let_in(line);
            }
        }
    }

    fn tell(&self) {
        self.news.store(true, Ordering::Release);
        ring(self.wake.as_fd());
    }

    fn let_in(&mut self, line: UnixStream) -> io::Result<()> {
        match meet::hear(&line)? {
            Verdict::Welcome if self.inside.len() >= WORKERS_MAX => meet::refuse(&line, Verdict::Full),
            Verdict::Welcome => self.welcome(line),
            other => meet::refuse(&line, other),
        }
    }

    fn welcome(&mut self, line: UnixStream) -> io::Result<()> {
        let number = self.number();
        let waker = event()?;
        let terms = Terms { port: number, ..self.terms };
        // It is there before it is told so.
        let (rings, message) = meet::invite(&terms)?;
        let (line, gone) = (Arc::new(line), Arc::<AtomicBool>::default());
        let guest_bell = waker.try_clone()?;
        let guest =
            Guest { number, rings, waker: guest_bell, gone: Arc::clone(&gone), line: Arc::clone(&line) };
        if self.arrive.try_send(guest).is_err() {
            return meet::refuse(&line, Verdict::Full);
        }
        self.news.store(true, Ordering::Release);
        let sent = message.send(&line, [self.wake.as_fd(), waker.as_fd()]);
        if sent.is_err() {
            gone.store(true, Ordering::Release);
            self.tell();
        } else {
            self.inside.push(Inside { number, line, gone });
        }
        sent
    }

    /// The next number that nobody inside has.
    fn number(&mut self) -> u16 {
        loop {
            self.last = self.last % (LOCAL_PORTS - 1) + 1;
            if self.inside.iter().all(|inside| inside.number != self.last) {
                return self.last;
            }
        }
    }
}
