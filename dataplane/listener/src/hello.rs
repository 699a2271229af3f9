//! Listeners without an asynchronous runtime, whose connections begin with a hello of fixed length.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use crate::{AcceptBackoff, ConnectionAdmission, ConnectionId, ListenerCounters, Policy, Source};

/// Most connections that one call accepts, so that a flood does not prevent reading.
const ACCEPTS_MAX: usize = 256;

/// The connections of a listener whose hellos of `N` bytes are incomplete, which are read concurrently.
///
/// It opens, waits for and closes nothing: its caller polls the listener while [`accepts`](Self::accepts) says so, and the
/// [streams](Self::streams), all in non-blocking mode, until [`next_deadline`](Self::next_deadline) at most; then it calls
/// [`accept`](Self::accept), and [`next`](Self::next) until there is none.
#[derive(Debug)]
pub struct HelloQueue<S, const N: usize> {
    admission: ConnectionAdmission,
    pending: BTreeMap<ConnectionId, Hello<S, N>>,
    /// Connections whose hello is complete.
    complete: VecDeque<(S, [u8; N])>,
    backoff: AcceptBackoff,
    /// The listener is left alone until then.
    resume: Option<Duration>,
}

#[derive(Debug)]
struct Hello<S, const N: usize> {
    stream: S,
    bytes: [u8; N],
    len: usize,
}

/// What a connection has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Complete,
    Incomplete,
    /// It ended before its hello did.
    Closed,
}

impl<S: Read, const N: usize> Hello<S, N> {
    fn read(&mut self) -> Progress {
        while self.len < N {
            match self.stream.read(&mut self.bytes[self.len..]) {
                Ok(0) => return Progress::Closed,
                Ok(len) => self.len += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Incomplete,
                Err(_) => return Progress::Closed,
            }
        }
        Progress::Complete
    }
}

impl<S: Read, const N: usize> HelloQueue<S, N> {
    /// Without connections.
    pub fn new(policy: Policy) -> Self {
        Self {
            admission: ConnectionAdmission::new(policy),
            pending: BTreeMap::new(),
            complete: VecDeque::new(),
            backoff: AcceptBackoff::default(),
            resume: None,
        }
    }

    /// The listener's counters.
    pub fn counters(&self) -> Arc<ListenerCounters> {
        self.admission.counters()
    }

    /// Whether the listener is to be polled at `now`; it is not after a shortage of descriptors or memory.
    pub fn accepts(&self, now: Duration) -> bool {
        self.resume.is_none_or(|resume| resume <= now)
    }

    /// Accepts what waits at the listener, unless it is to be left alone: `accept` returns a stream in non-blocking mode.
    pub fn accept(&mut self, now: Duration, mut accept: impl FnMut() -> io::Result<(S, Source)>) {
        self.resume = self.resume.filter(|resume| *resume > now);
        for _ in 0..ACCEPTS_MAX {
            if !self.accepts(now) {
                return;
            }
            match accept() {
                Ok((stream, source)) => {
                    self.backoff.accepted();
                    self.push(now, stream, source);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if let Some(delay) = self.backoff.failed(&error) {
                        self.resume = Some(now + delay);
                        let evicted = self.admission.evict_for_shortage();
                        self.remove(evicted);
                    }
                }
            }
        }
    }

    /// A hello that is complete already takes no place.
    fn push(&mut self, now: Duration, stream: S, source: Source) {
        let mut hello = Hello { stream, bytes: [0; N], len: 0 };
        match hello.read() {
            Progress::Complete => self.complete.push_back((hello.stream, hello.bytes)),
            Progress::Closed => {}
            Progress::Incomplete => {
                if let Ok(admitted) = self.admission.admit(now, source) {
                    self.remove(admitted.evicted);
                    self.pending.insert(admitted.id, hello);
                }
            }
        }
    }

    /// Removes an evicted connection, unless the rest of its hello has come meanwhile.
    fn remove(&mut self, evicted: Option<ConnectionId>) {
        if let Some(mut hello) = evicted.and_then(|id| self.pending.remove(&id))
            && hello.read() == Progress::Complete
        {
            self.complete.push_back((hello.stream, hello.bytes));
        }
    }

    /// The next connection with a complete hello.
    pub fn next(&mut self, now: Duration) -> Option<(S, [u8; N])> {
        if self.complete.is_empty() {
            self.read(now);
        }
        self.complete.pop_front()
    }

    fn read(&mut self, now: Duration) {
        let read = self.pending.iter_mut().map(|(id, hello)| (*id, hello.read()));
        let ended: Vec<_> = read.filter(|(_, progress)| *progress != Progress::Incomplete).collect();
        for (id, progress) in ended {
            self.admission.close(id);
            let hello = self.pending.remove(&id).filter(|_| progress == Progress::Complete);
            self.complete.extend(hello.map(|hello| (hello.stream, hello.bytes)));
        }
        while let Some(id) = self.admission.expire(now) {
            self.pending.remove(&id);
        }
    }

    /// The connections to poll for input.
    pub fn streams(&self) -> impl Iterator<Item = &S> {
        self.pending.values().map(|hello| &hello.stream)
    }

    /// When to call again at the latest, if there is something to wait for.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.admission.next_deadline().into_iter().chain(self.resume).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Closure, policy};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What a client has sent and the listener has not read; `None` at the end: it has closed.
    #[derive(Debug, Clone, Default)]
    struct Client(Rc<RefCell<VecDeque<Option<u8>>>>);

    impl Client {
        fn send(&self, bytes: &[u8]) {
            self.0.borrow_mut().extend(bytes.iter().copied().map(Some));
        }
    }

    impl Read for Client {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.borrow_mut().pop_front() {
                None => Err(io::ErrorKind::WouldBlock.into()),
                Some(None) => Ok(0),
                Some(Some(byte)) => {
                    buffer[0] = byte;
                    Ok(1)
                }
            }
        }
    }

    const POLICY: Policy = Policy { connections_max: 4, source_max: 2, ..policy::MESH };
    const SECOND: Duration = Duration::from_secs(1);

    fn accept(queue: &mut HelloQueue<Client, 4>, now: Duration, user: u32) -> Client {
        let client = Client::default();
        let mut waiting = Some((client.clone(), Source::User(user)));
        queue.accept(now, || waiting.take().ok_or_else(|| io::ErrorKind::WouldBlock.into()));
        client
    }

    #[test]
    fn a_hello_arrives_in_pieces_and_silent_ones_do_not_delay_it() {
        let mut queue = HelloQueue::new(POLICY);
        let silent = accept(&mut queue, SECOND, 1);
        let client = accept(&mut queue, SECOND, 2);
        client.send(b"he");
        assert!(queue.next(SECOND).is_none());
        client.send(b"llo");
        assert_eq!(queue.next(SECOND).map(|(_, hello)| hello), Some(*b"hell"));
        assert_eq!(client.0.borrow().len(), 1, "what follows is left");
        silent.0.borrow_mut().push_back(None);
        assert!(queue.next(SECOND).is_none());
        assert_eq!((queue.streams().count(), queue.next_deadline()), (0, None));
    }

    #[test]
    fn the_oldest_silent_connection_gives_way_unless_its_hello_is_complete() {
        let mut queue = HelloQueue::new(POLICY);
        let clients: Vec<Client> = (0..2).map(|_| accept(&mut queue, SECOND, 1)).collect();
        clients[0].send(b"helo");
        let _third = accept(&mut queue, SECOND, 1);
        assert_eq!(queue.next(SECOND).map(|(_, hello)| hello), Some(*b"helo"));
        let _fourth = accept(&mut queue, SECOND, 1);
        assert_eq!(queue.streams().count(), 2);
        assert_eq!(queue.counters().closed(Closure::SourceLimit), 2);
        assert!(queue.next(SECOND + POLICY.first_message_timeout).is_none());
        assert_eq!((queue.streams().count(), queue.counters().closed(Closure::Deadline)), (0, 2));
    }

    #[test]
    fn a_shortage_frees_a_descriptor_and_leaves_the_listener_alone_for_a_while() {
        let mut queue: HelloQueue<Client, 4> = HelloQueue::new(POLICY);
        let _silent = accept(&mut queue, SECOND, 1);
        let mut calls = 0;
        queue.accept(SECOND, || {
            calls += 1;
            Err(io::Error::from_raw_os_error(24))
        });
        assert_eq!((calls, queue.streams().count()), (1, 0));
        assert!(!queue.accepts(SECOND));
        let resume = queue.next_deadline().unwrap();
        assert_eq!(resume, SECOND + AcceptBackoff::DELAY_MIN);
        queue.accept(SECOND, || panic!("it is left alone"));
        let client = accept(&mut queue, resume, 1);
        client.send(b"helo");
        assert!(queue.next(resume).is_some());
        assert_eq!(queue.next_deadline(), None);
    }
}
