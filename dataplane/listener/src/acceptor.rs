//! Accepting TCP connections by tokio.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{AcceptBackoff, ConnectionAdmission, ConnectionId, ListenerCounters, Policy, Source};

/// A TCP listener with its connection admission.
///
/// Deadlines are kept while [`next`](Self::next) is awaited; a caller hands a connection on at once and calls it again.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    shared: Arc<Shared>,
    backoff: AcceptBackoff,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    admission: ConnectionAdmission,
    evictions: BTreeMap<ConnectionId, Arc<Eviction>>,
}

/// Tells a connection's reader that it is to be closed.
#[derive(Debug, Default)]
struct Eviction {
    /// One of the three below.
    request: AtomicU8,
    reader: Mutex<Option<Waker>>,
}

/// It is kept.
const KEPT: u8 = 0;
/// It is closed for another one.
const FOR_ANOTHER: u8 = 1;
/// Its first message is overdue.
const OVERDUE: u8 = 2;

impl Eviction {
    fn request(&self, request: u8) {
        self.request.store(request, Ordering::Release);
        if let Some(reader) = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reader.wake();
        }
    }

    /// Whether it was requested; otherwise the reader is woken when it is.
    fn poll(&self, cx: &Context<'_>) -> bool {
        {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            if reader.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                *reader = Some(cx.waker().clone());
            }
        }
        // After the waker is stored, so that no request is missed.
        self.request.load(Ordering::Acquire) != KEPT
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl State {
    fn evict(&mut self, id: Option<ConnectionId>, request: u8) {
        if let Some(eviction) = id.and_then(|id| self.evictions.remove(&id)) {
            eviction.request(request);
        }
    }

    fn expire(&mut self, now: Duration) {
        while let Some(id) = self.admission.expire(now) {
            self.evict(Some(id), OVERDUE);
        }
    }
}

impl Acceptor {
    /// Accepts from `listener`, which becomes non-blocking, with counters of its own. To be called within a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(listener: std::net::TcpListener, policy: Policy) -> io::Result<Self> {
        Self::counting(listener, policy, Arc::new(ListenerCounters::new(policy)))
    }

    /// The same, with counters that were made before the listener serves.
    ///
    /// # Errors
    /// The system's error.
    pub fn counting(
        listener: std::net::TcpListener,
        policy: Policy,
        counters: Arc<ListenerCounters>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let state =
            State { admission: ConnectionAdmission::counting(policy, counters), evictions: BTreeMap::new() };
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
            shared: Arc::new(Shared { started: Instant::now(), state: Mutex::new(state) }),
            backoff: AcceptBackoff::default(),
        })
    }

    /// The listener's counters.
    pub fn counters(&self) -> Arc<ListenerCounters> {
        self.shared.lock().admission.counters()
    }

    /// The next connection that is admitted. Cancelling it loses none.
    pub async fn next(&mut self) -> Connection {
        loop {
            let deadline = self.shared.lock().admission.next_deadline();
            let due = self.shared.started + deadline.unwrap_or_default();
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = sleep_until(due), if deadline.is_some() => {
                    self.shared.lock().expire(self.shared.now());
                    continue;
                }
            };
            match accepted {
                Ok((stream, peer)) => {
                    self.backoff.accepted();
                    if let Some(connection) = self.admit(stream, peer) {
                        return connection;
                    }
                }
                Err(error) => self.recover(&error).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let now = self.shared.now();
        let eviction = Arc::new(Eviction::default());
        let mut state = self.shared.lock();
        // A listener that always has a connection to accept keeps its deadlines, too.
        state.expire(now);
        let admitted = state.admission.admit(now, Source::from(peer.ip())).ok()?;
        state.evict(admitted.evicted, FOR_ANOTHER);
        state.evictions.insert(admitted.id, Arc::clone(&eviction));
        drop(state);
        // Small messages must not wait for more data; a connection without this option works too.
        let _ = stream.set_nodelay(true);
        Some(Connection {
            stream,
            handle: ConnectionHandle { id: admitted.id, peer, shared: Arc::clone(&self.shared), eviction },
        })
    }

    /// Waits until accepting may succeed again.
    async fn recover(&mut self, error: &io::Error) {
        if let Some(delay) = self.backoff.failed(error) {
            {
                let mut state = self.shared.lock();
                let evicted = state.admission.evict_for_shortage();
                state.evict(evicted, FOR_ANOTHER);
                state.expire(self.shared.now());
            }
            sleep(delay).await;
        }
    }
}

/// An accepted connection. Reading fails once it is evicted; dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    handle: ConnectionHandle,
}

/// A connection as its requests know it. Clones are the same.
#[derive(Debug, Clone)]
pub struct ConnectionHandle {
    id: ConnectionId,
    peer: SocketAddr,
    shared: Arc<Shared>,
    eviction: Arc<Eviction>,
}

/// A request that is under way: its connection is not evicted before this is dropped.
#[derive(Debug)]
pub struct RequestGuard(ConnectionHandle);

impl ConnectionHandle {
    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it is to be closed because its first message is overdue.
    pub fn is_overdue(&self) -> bool {
        self.eviction.request.load(Ordering::Acquire) == OVERDUE
    }

    /// A complete request was received.
    pub fn request(&self) -> RequestGuard {
        self.shared.lock().admission.request_began(self.id);
        RequestGuard(self.clone())
    }

    /// The client has proved who it is.
    pub fn authenticated(&self) {
        self.shared.lock().admission.authenticated(self.id);
    }

    /// Other limits hold for this connection from now on: it counts no more among those of its listener, and is not evicted.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        state.admission.close(self.id);
        state.evictions.remove(&self.id);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        let now = shared.now();
        shared.lock().admission.request_ended(now, self.0.id);
    }
}

impl Connection {
    /// The handle of its requests.
    pub fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether it is to be closed, because it was evicted or had a deadline.
    pub fn is_evicted(&self) -> bool {
        self.handle.eviction.request.load(Ordering::Acquire) != KEPT
    }

    /// Completes when it is evicted.
    pub async fn evicted(&self) {
        std::future::poll_fn(
            |cx| if self.handle.eviction.poll(cx) { Poll::Ready(()) } else { Poll::Pending },
        )
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.handle.release();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        if connection.handle.eviction.poll(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut connection.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Closure, policy};
    use std::io::{Read, Write};
    use tokio::io::AsyncReadExt;

    const SOURCE_MAX: usize = 4;

    fn acceptor() -> (Acceptor, SocketAddr) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let policy = Policy { connections_max: 8, source_max: SOURCE_MAX, ..policy::GRPC };
        (Acceptor::new(listener, policy).unwrap(), address)
    }

    fn run(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(future);
    }

    #[test]
    fn an_evicted_connection_fails_to_read_and_is_closed() {
        run(async {
            let (mut acceptor, address) = acceptor();
            let mut clients = Vec::new();
            let mut connections = Vec::new();
            for _ in 0..=SOURCE_MAX {
                clients.push(std::net::TcpStream::connect(address).unwrap());
                connections.push(acceptor.next().await);
            }
            assert_eq!(acceptor.counters().open(), SOURCE_MAX as u64);
            assert!(connections[0].is_evicted() && !connections[1].is_evicted());
            let error = connections[0].read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            connections.remove(0);
            assert_eq!(clients[0].read(&mut [0]).unwrap(), 0, "the client sees the end");
            clients[1].write_all(b"x").unwrap();
            assert_eq!(connections[0].read_u8().await.unwrap(), b'x');
        });
    }

    #[test]
    fn a_silent_connection_is_evicted_at_its_deadline_and_one_with_a_request_is_not() {
        run(async {
            let (mut acceptor, address) = acceptor();
            let _clients: Vec<_> = (0..2).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            let mut silent = acceptor.next().await;
            let talking = acceptor.next().await;
            let request = talking.handle().request();
            // No other client comes: virtual time goes on to the deadline.
            tokio::select! {
                _ = acceptor.next() => panic!("there is no other client"),
                read = silent.read_u8() => assert!(read.is_err()),
            }
            assert!(!talking.is_evicted() && silent.handle().is_overdue());
            drop(request);
            assert_eq!(acceptor.counters().closed(Closure::Deadline), 1);
            talking.handle().release();
            assert_eq!(acceptor.counters().open(), 0);
            assert!(!talking.is_evicted(), "it is none of the listener's any more");
        });
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_its_eviction() {
        run(async {
            let (mut acceptor, address) = acceptor();
            let _client = std::net::TcpStream::connect(address).unwrap();
            let mut connection = acceptor.next().await;
            let shared = Arc::clone(&acceptor.shared);
            let reader = tokio::spawn(async move { connection.read_u8().await.is_err() });
            tokio::task::yield_now().await;
            {
                let mut state = shared.lock();
                let evicted = state.admission.evict_for_shortage();
                state.evict(evicted, FOR_ANOTHER);
            }
            assert!(reader.await.unwrap());
        });
    }
}
