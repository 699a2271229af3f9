//! Connections before they are sessions: at a port with TLS, their handshakes.
//!
//! A handshake holds no session, and has a time and a number of its own. When one more begins than there may be, the oldest is
//! cut off: whoever means it is through within a few round trips, so those that are oldest say nothing.

use super::session::{self, Ear};
use crate::message::{Refused, TLS_HANDSHAKE, encode};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Handshakes that may be under way at once.
pub(super) const HANDSHAKES_MAX: usize = 256;

/// How long a handshake may take.
pub(super) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// A connection's bytes, whatever they go over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that may become a session.
pub(super) struct Guest {
    pub(super) stream: Box<dyn Stream>,
    pub(super) peer: SocketAddr,
}

/// Makes guests of connections, by TLS or as they are, until nobody takes them any more.
pub(super) async fn run(
    mut connections: mpsc::Receiver<(TcpStream, SocketAddr)>,
    tls: Option<TlsAcceptor>,
    guests: mpsc::Sender<Guest>,
) {
    let mut tasks = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, peer) = tokio::select! {
            Some(connection) = connections.recv() => connection,
            () = guests.closed() => return,
            else => return,
        };
        // Lines are short and wanted at once; a connection that is broken already says so when it is read.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls.clone() else {
            if guests.send(Guest { stream: Box::new(stream), peer }).await.is_err() {
                return;
            }
            continue;
        };
        while tasks.try_join_next().is_some() {}
        oldest.retain(|handshake| !handshake.is_finished());
        if oldest.len() >= HANDSHAKES_MAX
            && let Some(handshake) = oldest.pop_front()
        {
            handshake.abort();
        }
        let guests = guests.clone();
        oldest.push_back(tasks.spawn(timeout(HANDSHAKE_WITHIN, shake_hands(tls, stream, peer, guests))));
    }
}

/// Brings a connection to where it can be a session. One that cannot be is closed.
async fn shake_hands(tls: TlsAcceptor, stream: TcpStream, peer: SocketAddr, guests: mpsc::Sender<Guest>) {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) | Err(_) => return,
        Ok(_) if first[0] != TLS_HANDSHAKE => return turn_away(stream).await,
        Ok(_) => {}
    }
    // An error is of the peer's making, and it was told by an alert.
    if let Ok(stream) = tls.accept(stream).await {
        let _ = guests.send(Guest { stream: Box::new(stream), peer }).await;
    }
}

/// Tells a worker that speaks in plain text that this port does not.
async fn turn_away(stream: TcpStream) {
    let refused = Refused::protocol(
        "this port speaks TLS: give the worker the certificate of the controller's authority (NETFOLD_CA)",
    );
    let (outbox, lines) = mpsc::channel(1);
    // The queue is empty; its sender is dropped behind the line, which closes the connection.
    let _ = outbox.try_send(encode(&refused.into()));
    drop(outbox);
    session::run(stream, lines, Ear::<()>(None)).await;
}
