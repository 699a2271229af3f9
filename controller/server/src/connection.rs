//! Accepting connections: their number is limited, and a client must send its first bytes within a timeout.

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

/// Most connections of an acceptor at one time. Further ones wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// Timeout of a client's first bytes.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of first bytes: the length of HTTP/2's preface; a TLS ClientHello is longer.
const FIRST_BYTES_LEN: usize = 24;

/// Delay before the next accept when the system lacks resources for another connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections while there are fewer than [`CONNECTIONS_MAX`].
pub(crate) struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }

    /// The next connection.
    pub(crate) async fn next(&self) -> PendingConnection {
        // Never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small responses must not wait for more data; a connection without this option works too.
                    let _ = stream.set_nodelay(true);
                    let deadline = Some(Box::pin(sleep(FIRST_BYTES_TIMEOUT)));
                    return PendingConnection { stream, peer, received: 0, deadline, _permit: permit };
                }
                // The failure of one connection, or a shortage: both are temporary.
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }
}

/// An accepted connection with its permit, which fails if the first bytes do not arrive in time.
pub(crate) struct PendingConnection {
    stream: TcpStream,
    peer: SocketAddr,
    received: usize,
    deadline: Option<Pin<Box<Sleep>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connected for PendingConnection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo { local_addr: self.stream.local_addr().ok(), remote_addr: Some(self.peer) }
    }
}

impl AsyncRead for PendingConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut connection.stream).poll_read(cx, buffer);
        connection.received = connection.received.saturating_add(buffer.filled().len() - before);
        if connection.received >= FIRST_BYTES_LEN {
            connection.deadline = None;
        }
        match &mut connection.deadline {
            Some(deadline) if polled.is_pending() => match deadline.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            _ => polled,
        }
    }
}

impl AsyncWrite for PendingConnection {
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
