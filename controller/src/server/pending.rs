//! Connections before they are sessions: until their first line is complete, and at a port with TLS their handshake before it.
//!
//! They hold no session, and the listener's [admission](netfold_listener) bounds their number and time: a silent connection costs no
//! worker its place.

use super::session::{self, SessionInput};
use crate::message::{Lines, Refused, TLS_HANDSHAKE, encode};
use netfold_control::Refusal;
use netfold_listener::acceptor::{Acceptor, Connection, ConnectionHandle, RequestGuard};
use netfold_listener::policy::WORKERS;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Bytes read at once.
const READ_BYTES: usize = 1024;

/// A connection's byte stream, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that may become a session.
pub(super) struct PendingConnection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) peer: SocketAddr,
    /// Its first line, complete or too long, and what came with it.
    pub(super) lines: Lines,
    /// Its place among the pending connections.
    pub(super) place: PendingPlace,
}

/// A place among the pending connections. It is not evicted, and must be left when the connection becomes a session.
pub(super) struct PendingPlace {
    handle: ConnectionHandle,
    _guard: RequestGuard,
}

impl PendingPlace {
    /// The connection counts as a session from now on.
    pub(super) fn leave(self) {
        self.handle.release();
    }
}

/// Makes pending connections of accepted ones, with TLS or in plain text, until their receiver is dropped.
pub(super) async fn run(
    mut acceptor: Acceptor,
    tls: Option<TlsAcceptor>,
    accepted: mpsc::Sender<PendingConnection>,
) {
    let mut tasks = JoinSet::new();
    loop {
        let connection = tokio::select! {
            connection = acceptor.next() => connection,
            () = accepted.closed() => return,
        };
        while tasks.try_join_next().is_some() {}
        tasks.spawn(identify(connection, tls.clone(), accepted.clone()));
    }
}

/// Brings a connection to where it can be a session. One that cannot be is closed.
async fn identify(
    connection: Connection,
    tls: Option<TlsAcceptor>,
    accepted: mpsc::Sender<PendingConnection>,
) {
    let handle = connection.handle().clone();
    let mut stream: Box<dyn Stream> = match tls {
        None => Box::new(connection),
        Some(tls) => match handshake(tls, connection).await {
            Some(stream) => stream,
            None => return,
        },
    };
    match first_line(&mut stream).await {
        Ok(None) => {}
        Ok(Some(lines)) => {
            let place = PendingPlace { _guard: handle.request(), handle: handle.clone() };
            let _ = accepted.send(PendingConnection { stream, peer: handle.peer(), lines, place }).await;
        }
        // The peer is gone, or the connection was evicted and the peer can be told why.
        Err(_) => reject(stream, evicted(&handle)).await,
    }
}

/// Why a connection that sent no line is closed.
fn evicted(handle: &ConnectionHandle) -> Refused {
    if !handle.is_overdue() {
        let message = "too many connections have sent no join yet: send one at once, or try again later";
        return Refused::new(Refusal::Busy, message);
    }
    Refused::protocol(format!("no join within {:?}: send one first", WORKERS.first_message_timeout))
}

/// Reads until there is a first line, or what is none; `None` if the peer closes before.
async fn first_line(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Lines>> {
    let mut lines = Lines::default();
    let mut bytes = [0; READ_BYTES];
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(None);
        }
        lines.push(&bytes[..count]);
        if lines.has_line() {
            return Ok(Some(lines));
        }
    }
}

/// The encrypted stream, if the peer completes a TLS handshake.
async fn handshake(tls: TlsAcceptor, connection: Connection) -> Option<Box<dyn Stream>> {
    let mut first = [0];
    let peeked = tokio::select! {
        peeked = connection.stream().peek(&mut first) => peeked,
        () = connection.evicted() => return None,
    };
    match peeked {
        Ok(0) | Err(_) => None,
        Ok(_) if first[0] != TLS_HANDSHAKE => {
            let message = "this port speaks TLS: give the worker the certificate of the controller's authority (NETFOLD_CA)";
            reject(connection, Refused::protocol(message)).await;
            None
        }
        // An error is the peer's fault, and an alert has reported it to the peer.
        Ok(_) => Some(Box::new(tls.accept(connection).await.ok()?)),
    }
}

/// Refuses a worker, and closes its connection.
async fn reject(stream: impl AsyncRead + AsyncWrite, refused: Refused) {
    let (outbox, lines) = mpsc::channel(1);
    // The queue is empty; its sender is dropped behind the line, which closes the connection.
    let _ = outbox.try_send(encode(&refused.into()));
    drop(outbox);
    session::run(stream, Lines::default(), lines, SessionInput::<()>(None)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_ends_at_its_newline_at_the_limit_or_with_the_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = |mut bytes: &[u8]| runtime.block_on(first_line(&mut bytes)).unwrap();
        let mut lines = read(b"{}\n[]\n{").unwrap();
        assert_eq!(lines.next_line(), Ok(Some(b"{}".to_vec())));
        assert_eq!(lines.next_line(), Ok(Some(b"[]".to_vec())), "what came with it is kept");
        assert_eq!(lines.next_line(), Ok(None));
        assert!(read(b"{").is_none() && read(b"").is_none());
        assert!(read(&[TLS_HANDSHAKE]).unwrap().next_line().is_err(), "a TLS client waits for an answer");
        let mut endless = tokio::io::repeat(b'x');
        let mut long = runtime.block_on(first_line(&mut endless)).unwrap().unwrap();
        assert!(long.next_line().is_err(), "memory is bounded");
    }
}
