//! Replies to the requests of other ranks, on a thread of its own.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Clock;
use super::packet::{Cookie, Reply, Request};

/// Longest wait before it is looked whether to end.
const TURN: Duration = Duration::from_millis(50);

/// Longest datagram that is received whole: jumbo frames.
pub(super) const DATAGRAM_MAX: usize = 9216;

/// A socket at which requests are replied to until it is dropped.
#[derive(Debug)]
pub(super) struct Responder {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Ranks of which a request has arrived.
    heard: Mutex<BTreeSet<u16>>,
}

impl Responder {
    /// Replies, as `rank` of `world`, to requests with this cookie.
    pub(super) fn start(
        local: IpAddr,
        cookie: Cookie,
        (rank, world): (u16, u16),
        clock: Clock,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((local, 0))?;
        socket.set_read_timeout(Some(TURN))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("check-reply".into())
            .spawn(move || serve(&socket, &cookie, (rank, world), clock, &of_thread))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it receives.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ranks of which a request has arrived.
    pub(super) fn heard(&self) -> Vec<u16> {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to return; a panic was printed.
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, cookie: &Cookie, (rank, world): (u16, u16), clock: Clock, shared: &Shared) {
    let mut memory = vec![0; DATAGRAM_MAX];
    while !shared.stop.load(Ordering::Relaxed) {
        // An error is that of an earlier reply, or that nothing came.
        let Ok((len, from)) = socket.recv_from(&mut memory) else { continue };
        let received_ns = clock.now_ns();
        let Some(request) = Request::parse(&memory[..len], cookie).filter(|request| request.rank < world)
        else {
            continue;
        };
        shared.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(request.rank);
        let reply = Reply { rank, number: request.number, received_ns, sent_ns: clock.now_ns() };
        // A reply that is not sent is lost like any other.
        let _ = socket.send_to(&reply.emit(cookie), from);
    }
}
