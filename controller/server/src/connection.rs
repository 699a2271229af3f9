//! Connections, of which there is a limited number, and whose first words must come soon.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Connections of each kind at one time. Others wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// How long a client may take for its first words.
const FIRST_WORDS: Duration = Duration::from_secs(10);

/// Bytes of the first words: HTTP/2 opens with so many, and a TLS greeting is longer.
const FIRST_WORDS_LEN: usize = 24;

/// How long to wait when the system has no means for another connection.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Accepts connections while there are fewer than [`CONNECTIONS_MAX`].
pub(crate) struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }

    /// The next connection.
    pub(crate) async fn next(&self) -> Guest {
        // Never closed.
        let place = self.places.clone().acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers must not wait for more to send; a connection that cannot say so works all the same.
                    let _ = stream.set_nodelay(true);
                    let deadline = Some(Box::pin(sleep(FIRST_WORDS)));
                    return Guest { stream, peer, heard: 0, deadline, _place: place };
                }
                // Of one connection, or of all: either passes.
                Err(_) => sleep(EXHAUSTED).await,
            }
        }
    }
}

/// A connection that holds a place.
pub(crate) struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    heard: usize,
    deadline: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connected for Guest {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo { local_addr: self.stream.local_addr().ok(), remote_addr: Some(self.peer) }
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let guest = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut guest.stream).poll_read(cx, buffer);
        guest.heard = guest.heard.saturating_add(buffer.filled().len() - before);
        if guest.heard >= FIRST_WORDS_LEN {
            guest.deadline = None;
        }
        match &mut guest.deadline {
            Some(deadline) if polled.is_pending() => match deadline.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            _ => polled,
        }
    }
}

impl AsyncWrite for Guest {
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
