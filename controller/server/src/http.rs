//! The page and the metrics, over HTTP: `/`, `/metrics`, `/snapshot` and the stream `/events`.
//!
//! Everything is read-only, and the page loads nothing from other servers. If the controller requires tokens, so does this server: an
//! administrator's or a reader's, as `Bearer` or as the password of a browser's prompt.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use netfold_controller::server::Control;
use netfold_controller::view::ControllerEvent;
use netfold_controller::view::SnapshotScope;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::Access;
use crate::connection::{Acceptor, PendingConnection};
use crate::metrics::{self, Counts};
use crate::tls::HANDSHAKE_TIMEOUT;

const PAGE: &str = include_str!("http/page.html");
const STYLE: &str = include_str!("http/page.css");
const SCRIPT: &str = include_str!("http/page.js");

/// Timeout of a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between snapshots on the stream.
const REFRESH: Duration = Duration::from_secs(1);

/// Earlier events that a new page receives.
const HISTORY_LEN: usize = 100;

/// Messages buffered for a page that does not read.
const QUEUE: usize = 8;

/// The page may load its own files only; no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Body = BoxBody<Bytes, Infallible>;

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct HttpServer {
    control: Control,
    access: Access,
    history: Arc<Mutex<History>>,
    /// The newest snapshot, as JSON.
    snapshots: watch::Receiver<Arc<str>>,
}

/// Counts and the most recent events.
#[derive(Default)]
struct History {
    counts: Counts,
    last: VecDeque<Arc<ControllerEvent>>,
}

impl HttpServer {
    /// A server of a control plane, and the task that updates it until the control plane ends.
    pub(crate) fn new(
        control: Control,
        access: Access,
        events: Receiver<Arc<ControllerEvent>>,
    ) -> (Self, impl Future<Output = ()>) {
        let history = Arc::new(Mutex::new(History::default()));
        let (sender, snapshots) = watch::channel(Arc::from("{}"));
        let server = Self { control: control.clone(), access, history: history.clone(), snapshots };
        (server, observe(control, events, history, sender))
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self, acceptor: Acceptor, tls: Option<TlsAcceptor>) {
        loop {
            let connection = acceptor.next().await;
            tokio::spawn(self.clone().serve_connection(connection, tls.clone()));
        }
    }

    async fn serve_connection(self, connection: PendingConnection, tls: Option<TlsAcceptor>) {
        // An error of a connection concerns only its client.
        match tls {
            None => self.serve_http(connection).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(connection)).await {
                    self.serve_http(stream).await;
                }
            }
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service);
        let _ = connection.await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let authorization =
            request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if !self.access.sees_everything(authorization) {
            let mut response =
                text(StatusCode::UNAUTHORIZED, "a token is required: an administrator's or a reader's\n");
            let challenge = HeaderValue::from_static("Basic realm=\"netfold: the token is the password\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return response;
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "this server is read-only: use GET\n");
        }
        match request.uri().path() {
            "/" => content("text/html; charset=utf-8", PAGE),
            "/page.css" => content("text/css; charset=utf-8", STYLE),
            "/page.js" => content("text/javascript; charset=utf-8", SCRIPT),
            "/metrics" => self.metrics().await,
            "/snapshot" => self.snapshot().await,
            "/events" => self.events(),
            _ => text(StatusCode::NOT_FOUND, "not found: the paths are /, /metrics, /snapshot and /events\n"),
        }
    }

    async fn metrics(&self) -> Response<Body> {
        let Ok(snapshot) = self.control.snapshot(SnapshotScope::All).await else { return gone() };
        let counts = self.history.lock().unwrap_or_else(PoisonError::into_inner).counts.clone();
        match metrics::scrape(&snapshot, &counts) {
            Ok(scrape) => content(metrics::MEDIA_TYPE, scrape),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n"),
        }
    }

    async fn snapshot(&self) -> Response<Body> {
        let Ok(snapshot) = self.control.snapshot(SnapshotScope::All).await else { return gone() };
        content("application/json", serde_json::to_string(&snapshot).unwrap_or_default())
    }

    /// Server-sent events: `event` for each event, beginning with the last hundred; `snapshot` once a second.
    fn events(&self) -> Response<Body> {
        let (sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(QUEUE);
        tokio::spawn(self.clone().stream_events(sender));
        let mut response = Response::new(StreamBody::new(ReceiverStream::new(receiver)).boxed());
        decorate(&mut response, "text/event-stream");
        response
    }

    async fn stream_events(mut self, sender: mpsc::Sender<Result<Frame<Bytes>, Infallible>>) {
        let mut events = self.control.events();
        let before: Vec<_> =
            self.history.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect();
        let shown = before.last().map_or(0, |event| event.number);
        let mut pending: String =
            before.iter().map(|event| sse_event("controller_event", &json(event))).collect();
        pending += &sse_event("snapshot", &self.snapshots.borrow_and_update().clone());
        loop {
            // If the page does not read, its queue is full and only this task waits.
            if !pending.is_empty() && sender.send(Ok(Frame::data(Bytes::from(pending)))).await.is_err() {
                return;
            }
            pending = tokio::select! {
                () = sender.closed() => return,
                changed = self.snapshots.changed() => match changed {
                    Ok(()) => sse_event("snapshot", &self.snapshots.borrow_and_update().clone()),
                    Err(_) => return,
                },
                received = events.recv() => match received {
                    Ok(event) if event.number <= shown => String::new(),
                    Ok(event) => sse_event("controller_event", &json(&event)),
                    Err(RecvError::Lagged(missed)) => sse_event("missed", &missed.to_string()),
                    Err(RecvError::Closed) => return,
                },
            };
        }
    }
}

/// Records events, and takes a snapshot every second while a page is open.
async fn observe(
    control: Control,
    mut events: Receiver<Arc<ControllerEvent>>,
    history: Arc<Mutex<History>>,
    snapshots: watch::Sender<Arc<str>>,
) {
    let mut ticks = tokio::time::interval(REFRESH);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            received = events.recv() => match received {
                Ok(event) => {
                    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
                    history.counts.count(&event);
                    if history.last.len() == HISTORY_LEN {
                        history.last.pop_front();
                    }
                    history.last.push_back(event);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            _ = ticks.tick() => {
                // The server holds one receiver; each page has another.
                if snapshots.receiver_count() == 0 {
                    return;
                }
                let Ok(snapshot) = control.snapshot(SnapshotScope::Live).await else { return };
                let text: Arc<str> = serde_json::to_string(&snapshot).unwrap_or_default().into();
                let _ = snapshots.send(text);
            }
        }
    }
}

fn json(event: &ControllerEvent) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

/// One server-sent event. JSON has no line breaks in it.
fn sse_event(kind: &str, data: &str) -> String {
    format!("event: {kind}\ndata: {data}\n\n")
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

fn text(status: StatusCode, message: &'static str) -> Response<Body> {
    let mut response = content("text/plain; charset=utf-8", message);
    *response.status_mut() = status;
    response
}

fn gone() -> Response<Body> {
    text(StatusCode::SERVICE_UNAVAILABLE, "the controller is shutting down\n")
}

fn content(media_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    decorate(&mut response, media_type);
    response
}

fn decorate(response: &mut Response<Body>, media_type: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
}
