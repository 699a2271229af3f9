//! Connections of tonic's server, and what their requests tell the admission.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tonic::transport::server::{Connected, TlsConnectInfo};
use tower::{Layer, Service};

use crate::acceptor::{Connection, ConnectionHandle, RequestGuard};

impl Connected for Connection {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.handle().clone()
    }
}

/// Tells the admission of each connection which requests are under way, and whether its client is authenticated: by a certificate, or by
/// its request's headers.
#[derive(Debug, Clone, Copy)]
pub struct TrackRequests<F> {
    is_authenticated: F,
}

impl<F: Fn(&HeaderMap) -> bool> TrackRequests<F> {
    /// A layer; `is_authenticated` says whether a request's headers prove who the client is.
    pub fn new(is_authenticated: F) -> Self {
        Self { is_authenticated }
    }
}

impl<S, F: Clone> Layer<S> for TrackRequests<F> {
    type Service = Tracked<S, F>;

    fn layer(&self, inner: S) -> Tracked<S, F> {
        Tracked { inner, is_authenticated: self.is_authenticated.clone() }
    }
}

/// A service whose requests are tracked.
#[derive(Debug, Clone)]
pub struct Tracked<S, F> {
    inner: S,
    is_authenticated: F,
}

impl<S, F, B, R> Service<Request<B>> for Tracked<S, F>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    F: Fn(&HeaderMap) -> bool,
{
    type Response = Response<TrackedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let handle = request.extensions().get::<ConnectionHandle>();
        let certificate = request
            .extensions()
            .get::<TlsConnectInfo<ConnectionHandle>>()
            .is_some_and(|info| info.peer_certs().is_some());
        let guard = handle.map(|handle| {
            if certificate || (self.is_authenticated)(request.headers()) {
                handle.authenticated();
            }
            handle.request()
        });
        let response = self.inner.call(request);
        Box::pin(async move { Ok(response.await?.map(|body| TrackedBody { body, guard })) })
    }
}

/// A response's body: its request is under way until it is dropped.
#[derive(Debug)]
pub struct TrackedBody<B> {
    body: B,
    #[expect(dead_code, reason = "it is dropped with the body")]
    guard: Option<RequestGuard>,
}

impl<B> TrackedBody<B> {
    /// The body of a request's response.
    pub fn new(body: B, guard: RequestGuard) -> Self {
        Self { body, guard: Some(guard) }
    }
}

impl<B: Default> Default for TrackedBody<B> {
    /// An empty body, of no request.
    fn default() -> Self {
        Self { body: B::default(), guard: None }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
