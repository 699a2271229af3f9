//! The thread that accepts workers for a hub, and detects that they have detached. The hub's own thread reads one word a burst.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

use netfold_listener::{AcceptBackoff, HelloQueue, Source, policy};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use super::handshake::{self, HELLO_LEN, HandshakeOutcome, Terms};
use super::ring::Rings;
use super::{LOCAL_PORTS, WORKERS_MAX};
use crate::IoError;

/// A worker that has arrived.
#[derive(Debug)]
pub(super) struct AttachedWorker {
    /// Its port number.
    pub(super) number: u16,
    pub(super) rings: Rings,
    /// Written by it to wake the hub.
    pub(super) knock: OwnedFd,
    /// Written to wake it.
    pub(super) waker: OwnedFd,
    /// Set when it has detached.
    pub(super) gone: Arc<AtomicBool>,
    /// Shut down to send it away.
    pub(super) line: Arc<UnixStream>,
}

/// The event descriptors with which workers wake the hub. Each has its own: one that reads it, or fills it, delays itself alone.
#[derive(Debug)]
pub(super) struct WakeSet(OwnedFd);

/// Events that are consumed in a call.
const EVENTS: usize = 64;

impl WakeSet {
    pub(super) fn new() -> Result<Self, rustix::io::Errno> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self)
    }

    /// Readable while a worker has woken the hub since the last [`Self::consume`].
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Each write counts (edge-triggered), so nothing has to be read. The set has a descriptor by its number: the same is to be removed.
    fn add(&self, knock: &OwnedFd) -> Result<(), rustix::io::Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.0, knock, epoll::EventData::new_u64(0), flags)
    }

    /// A worker has detached; its process may hold the descriptor still.
    pub(super) fn remove(&self, knock: &OwnedFd) {
        // Fails only if it was not added.
        let _ = epoll::delete(&self.0, knock);
    }

    /// Takes note of all that have woken the hub.
    pub(super) fn consume(&self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while epoll::wait(&self.0, &mut events, Some(&now)).is_ok_and(|count| count == EVENTS) {}
    }
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
    /// Starts the acceptor. `terms` has all but the port; `wake` is written to wake the hub: when workers come and go, and when they wake it
    /// by their descriptors in `wakes`, if it `relays` that because the hub sleeps elsewhere.
    pub(super) fn start(
        listener: UnixListener,
        terms: Terms,
        wake: OwnedFd,
        (wakes, relays): (Arc<WakeSet>, bool),
    ) -> Result<Self, IoError> {
        let os = |call| move |source: rustix::io::Errno| IoError::os(call, source.into());
        let stop = event().map_err(os("eventfd"))?;
        let stopped = stop.try_clone().map_err(|source| IoError::os("dup", source))?;
        // All that can be pending at a time; the hub adds them when it is next called for a port or notified of a change.
        let (arrive, arrived) = mpsc::sync_channel(2 * WORKERS_MAX);
        let changed = Arc::<AtomicBool>::default();
        let acceptor = AcceptorThread {
            listener,
            started: Instant::now(),
            hellos: HelloQueue::new(policy::SHARED_MEMORY),
            stop: stopped,
            wake,
            wakes,
            relays,
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

/// What has happened.
#[derive(Default)]
struct Ready {
    /// Whether something came from each attached worker; none if unknown.
    inside: Vec<bool>,
}

struct AcceptorThread {
    listener: UnixListener,
    started: Instant,
    /// Connections that have not sent their hello.
    hellos: HelloQueue<UnixStream, HELLO_LEN>,
    stop: OwnedFd,
    wake: OwnedFd,
    wakes: Arc<WakeSet>,
    relays: bool,
    terms: Terms,
    arrive: SyncSender<AttachedWorker>,
    changed: Arc<AtomicBool>,
    inside: Vec<Inside>,
    /// The number that was given last. Numbers go around, so that one is not soon another's.
    last: u16,
}

impl AcceptorThread {
    fn keep(mut self) {
        while let Some(ready) = self.wait() {
            self.remove_gone(&ready.inside);
            let now = self.started.elapsed();
            self.hellos.accept(now, || {
                let (line, _) = self.listener.accept()?;
                line.set_nonblocking(true)?;
                let user = handshake::user(&line)?;
                Ok((line, Source::User(user)))
            });
            while let Some((line, hello)) = self.hellos.next(now) {
                // A worker that is not accepted got a reply, or has closed.
                let _ = self.let_in(line, hello);
            }
        }
    }

    /// Waits for something to do; `None` when the thread is to end.
    fn wait(&self) -> Option<Ready> {
        let now = self.started.elapsed();
        let relayed = if self.relays { PollFlags::IN } else { PollFlags::empty() };
        let mut fds =
            vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::from_borrowed_fd(self.wakes.fd(), relayed)];
        fds.extend(self.inside.iter().map(|inside| PollFd::new(&*inside.line, PollFlags::IN)));
        fds.extend(self.hellos.streams().map(|line| PollFd::new(line, PollFlags::IN)));
        if self.hellos.accepts(now) {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let timeout = self.hellos.next_deadline().map(|deadline| {
            let most = deadline.saturating_sub(now);
            Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Some(Ready::default()),
            Err(_) => {
                // No memory: it stays so until something else ends.
                std::thread::sleep(AcceptBackoff::DELAY_MIN);
                return Some(Ready::default());
            }
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let stop = ready.next().unwrap_or(true);
        if ready.next().unwrap_or(false) {
            self.wakes.consume();
            notify(self.wake.as_fd());
        }
        (!stop).then(|| Ready { inside: ready.take(self.inside.len()).collect() })
    }

    /// Removes the workers that have detached. There are no messages after the handshake: a worker that sends any is faulty.
    fn remove_gone(&mut self, ready: &[bool]) {
        let mut gone = ready.iter().copied();
        self.inside.retain(|inside| {
            let stays = !gone.next().unwrap_or(false);
            if !stays {
                let _ = inside.line.shutdown(std::net::Shutdown::Both);
                inside.gone.store(true, Ordering::Release);
            }
            stays
        });
        if ready.contains(&true) {
            self.notify();
        }
    }

    fn notify(&self) {
        self.changed.store(true, Ordering::Release);
        notify(self.wake.as_fd());
    }

    fn let_in(&mut self, line: UnixStream, hello: [u8; HELLO_LEN]) -> io::Result<()> {
        match handshake::check(&hello, &line)? {
            None => Ok(()),
            Some(HandshakeOutcome::Welcome) if self.inside.len() >= WORKERS_MAX => {
                handshake::refuse(&line, HandshakeOutcome::Full)
            }
            Some(HandshakeOutcome::Welcome) => self.welcome(line),
            Some(other) => handshake::refuse(&line, other),
        }
    }

    fn welcome(&mut self, line: UnixStream) -> io::Result<()> {
        let number = self.number();
        let (waker, knock) = (event()?, event()?);
        let own_knock = knock.try_clone()?;
        self.wakes.add(&own_knock)?;
        let terms = Terms { port: number, ..self.terms };
        // It is added before it gets its reply.
        let (rings, message) = handshake::invite(&terms)?;
        let (line, gone) = (Arc::new(line), Arc::<AtomicBool>::default());
        let worker_waker = waker.try_clone()?;
        let worker = AttachedWorker {
            number,
            rings,
            knock: own_knock,
            waker: worker_waker,
            gone: Arc::clone(&gone),
            line: Arc::clone(&line),
        };
        if self.arrive.try_send(worker).is_err() {
            return handshake::refuse(&line, HandshakeOutcome::Full);
        }
        self.changed.store(true, Ordering::Release);
        let sent = message.send(&line, [knock.as_fd(), waker.as_fd()]);
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
