//! Connections to a switch, and the detection of their TLS errors.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;
use tower::Service;

use super::meaning::Circumstances;
use super::{TlsError, load};
use netfold_controller::topology::Tls;

/// First bytes of a TLS alert: what a switch sends to a client that does not use TLS.
const ALERT: [u8; 2] = [0x15, 0x03];

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting = Pin<Box<dyn Future<Output = Result<TokioIo<Connection>, BoxError>> + Send>>;
pub(in super::super) type Dialing = Pin<Box<dyn Future<Output = Result<Box<dyn Bytes>, BoxError>> + Send>>;

/// How a switch is reached.
pub(in super::super) trait Dial: Send + Sync {
    /// Opens a connection without TLS.
    fn dial(&self, uri: Uri) -> Dialing;
}

/// Connections by the system's network.
#[derive(Debug)]
pub(in super::super) struct SystemDialer {
    address: String,
    http: HttpConnector,
}

impl SystemDialer {
    /// To `host:port`, or `unix:path`.
    pub(in super::super) fn new(address: &str, within: Duration, keepalive: Duration) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(keepalive));
        http.set_connect_timeout(Some(within));
        Self { address: address.to_owned(), http }
    }
}

impl Dial for SystemDialer {
    fn dial(&self, uri: Uri) -> Dialing {
        if let Some(path) = self.address.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path).to_owned();
            return Box::pin(async { Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Bytes>) });
        }
        let mut http = self.http.clone();
        Box::pin(async move {
            std::future::poll_fn(|cx| http.poll_ready(cx)).await?;
            Ok(Box::new(http.call(uri).await?.into_inner()) as Box<dyn Bytes>)
        })
    }
}

/// The TLS error of a switch's connection, if there is one. It is kept until the switch sends data, since the client reconnects
/// before a caller asks why the last connection broke.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Fault(Arc<Mutex<HandshakeState>>);

#[derive(Debug, Default)]
struct HandshakeState {
    fault: Option<TlsError>,
    /// A handshake is under way.
    shaking: bool,
}

impl Fault {
    pub(in super::super) fn get(&self) -> Option<TlsError> {
        let standing = self.lock();
        standing.fault.clone().or(standing.shaking.then_some(TlsError::Unfinished))
    }

    fn set(&self, fault: Option<TlsError>) {
        *self.lock() = HandshakeState { fault, shaking: false };
    }

    fn set_shaking(&self, shaking: bool) {
        self.lock().shaking = shaking;
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to one switch, each time with the certificates as they are then.
#[derive(Clone)]
pub(in super::super) struct Connector {
    address: String,
    tls: Option<Tls>,
    dialer: Arc<dyn Dial>,
    fault: Fault,
}

impl Connector {
    /// To `host:port`, or `unix:path`.
    pub(in super::super) fn new(
        address: &str,
        tls: Option<&Tls>,
        dialer: Arc<dyn Dial>,
        fault: Fault,
    ) -> Self {
        Self { address: address.to_owned(), tls: tls.cloned(), dialer, fault }
    }

    async fn open(self, uri: Uri) -> Result<Connection, BoxError> {
        let fault = self.fault.clone();
        let record = |error: TlsError| {
            fault.set(Some(error.clone()));
            error
        };
        let Some(tls) = self.tls.clone() else {
            let bytes = self.dialer.dial(uri).await?;
            return Ok(Connection { bytes, watch: Watch::Plain(Vec::new()), fault, broken: None });
        };
        let secured = load(&tls, &self.address).map_err(record)?;
        let bytes = self.dialer.dial(uri).await?;
        // Lets a caller whose wait times out report an unfinished handshake.
        fault.set_shaking(true);
        let circumstances = Circumstances::of(&secured);
        let shaken = TlsConnector::from(secured.config).connect(secured.name, bytes).await;
        let bytes = Box::new(shaken.map_err(|error| record(circumstances.of_handshake(error)))?);
        fault.set_shaking(false);
        Ok(Connection { bytes, watch: Watch::Secured(Box::new(circumstances)), fault, broken: None })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = BoxError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let connector = self.clone();
        Box::pin(async move { connector.open(uri).await.map(TokioIo::new) })
    }
}

/// A connection's bytes, whatever they go over.
pub(in super::super) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

/// What a connection is watched for.
enum Watch {
    /// An alert, in the first bytes that came.
    Plain(Vec<u8>),
    /// Errors of TLS.
    Secured(Box<Circumstances>),
    /// Nothing any more.
    Over,
}

/// A connection that records its TLS error before a caller sees the failure.
pub(in super::super) struct Connection {
    bytes: Box<dyn Bytes>,
    watch: Watch,
    fault: Fault,
    /// Why nothing can be written any more.
    broken: Option<io::Error>,
}

impl Connection {
    fn saw(&mut self, read: &[u8]) {
        let fault = match &mut self.watch {
            Watch::Secured(_) if !read.is_empty() => None,
            Watch::Plain(first) => {
                first.extend_from_slice(&read[..read.len().min(ALERT.len() - first.len())]);
                if first.len() < ALERT.len() {
                    return;
                }
                (*first == ALERT).then_some(TlsError::Encrypted)
            }
            Watch::Secured(_) | Watch::Over => return,
        };
        self.fault.set(fault);
        self.watch = Watch::Over;
    }

    /// The connection has failed, or was ended.
    fn failed(&mut self, error: Option<&io::Error>) {
        let Watch::Secured(circumstances) = &self.watch else { return };
        let fault = error.and_then(|error| circumstances.of_established(error));
        if let Some(fault) = fault.or_else(|| circumstances.of_silence()) {
            self.fault.set(Some(fault));
            self.watch = Watch::Over;
        }
    }

    /// Writes. When the write fails, the data that the switch sent before it closed is read first: it contains the reason.
    fn write<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut dyn Bytes>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let error = match self.broken.take() {
            Some(error) => error,
            None => match write(Pin::new(&mut *self.bytes), cx) {
                Poll::Ready(Err(error)) => error,
                other => return other,
            },
        };
        let mut bytes = [0; 256];
        while !matches!(self.watch, Watch::Over) {
            let mut bytes = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *self.bytes).poll_read(cx, &mut bytes) {
                Poll::Ready(Ok(())) if bytes.filled().is_empty() => {
                    self.failed(None);
                    break;
                }
                Poll::Ready(Ok(())) => self.saw(bytes.filled()),
                Poll::Ready(Err(why)) => {
                    self.failed(Some(&why));
                    break;
                }
                Poll::Pending => {
                    // The end of a connection that is broken is there to be read soon.
                    self.broken = Some(error);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Err(error))
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut line.bytes).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) if buf.filled().len() == before => line.failed(None),
            Poll::Ready(Ok(())) => line.saw(&buf.filled()[before..]),
            Poll::Ready(Err(error)) => line.failed(Some(error)),
            Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |bytes, cx| bytes.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(cx, |bytes, cx| bytes.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |bytes, cx| bytes.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }
}
