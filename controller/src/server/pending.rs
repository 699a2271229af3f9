//! Connections before they are sessions: at a port with TLS, their handshakes.
//!
//! A handshake holds no session, and has a time and a number of its own. When one more begins than there may be, the oldest is
//! aborted: an active peer finishes within a few round trips, so the oldest ones are most likely idle.

use super::session::{self, SessionInput};
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
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection's byte stream, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that may become a session.
pub(super) struct PendingConnection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) peer: SocketAddr,
}

/// Makes pending connections of accepted ones, with TLS or in plain text, until their receiver is dropped.
pub(super) async fn run(
    mut connections: mpsc::Receiver<(TcpStream, SocketAddr)>,
    tls: Option<TlsAcceptor>,
    accepted: mpsc::Sender<PendingConnection>,
) {
    let mut tasks = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, peer) = tokio::select! {
            Some(connection) = connections.recv() => connection,
            () = accepted.closed() => return,
            else => return,
        };
        // Lines are short and wanted at once; a connection that is broken already fails when it is read.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls.clone() else {
            if accepted.send(PendingConnection { stream: Box::new(stream), peer }).await.is_err() {
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
        let accepted = accepted.clone();
        oldest.push_back(tasks.spawn(timeout(HANDSHAKE_TIMEOUT, handshake(tls, stream, peer, accepted))));
    }
}

/// Brings a connection to where it can be a session. One that cannot be is closed.
async fn handshake(
    tls: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    accepted: mpsc::Sender<PendingConnection>,
) {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) | Err(_) => return,
        Ok(_) if first[0] != TLS_HANDSHAKE => return reject(stream).await,
        Ok(_) => {}
    }
    // An error is the peer's fault, and an alert has reported it to the peer.
    if let Ok(stream) = tls.accept(stream).await {
        let _ = accepted.send(PendingConnection { stream: Box::new(stream), peer }).await;
    }
}

/// Refuses a worker that connects in plain text.
async fn reject(stream: TcpStream) {
    let refused = Refused::protocol(
        "this port speaks TLS: give the worker the certificate of the controller's authority (NETFOLD_CA)",
    );
    let (outbox, lines) = mpsc::channel(1);
    // The queue is empty; its sender is dropped behind the line, which closes the connection.
    let _ = outbox.try_send(encode(&refused.into()));
    drop(outbox);
    session::run(stream, lines, SessionInput::<()>(None)).await;
}
