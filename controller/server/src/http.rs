//! The page and the metrics, over HTTP: `/`, `/metrics`, `/snapshot`, the stream `/events`, and [probes](crate::health).
//!
//! Everything is read-only, and the page loads nothing from other servers. If the controller requires tokens, so does this server, but for
//! probes: an administrator's or a reader's, as `Bearer` or as the password of a browser's prompt.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use netfold_controller::server::Control;
use netfold_controller::view::ControllerEvent;
use netfold_controller::view::SnapshotScope;
use netfold_listener::ListenerCounters;
use netfold_listener::acceptor::{Acceptor, ConnectionHandle};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::Access;
use crate::health::{HEALTHZ, LeaderProbes, READYZ};
use crate::host;
use crate::listener;
use crate::metrics::{self, Counts};
use crate::response::{Body, content, decorate, gone, is_authorized, read_only, text, unauthorized};

const PAGE: &str = include_str!("http/page.html");
const STYLE: &str = include_str!("http/page.css");
const SCRIPT: &str = include_str!("http/page.js");

/// Interval between snapshots on the stream.
const REFRESH: Duration = Duration::from_secs(1);

/// Earlier events that a new page receives.
const HISTORY_LEN: usize = 100;

/// Messages buffered for a page that does not read.
const QUEUE: usize = 8;

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct HttpServer {
    control: Control,
    probes: LeaderProbes,
    access: Access,
    hosts: Arc<[String]>,
    listeners: Arc<[Arc<ListenerCounters>]>,
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
    /// A server of a control plane, and the task that updates it until the control plane ends. It answers for the names `hosts`, and
    /// its metrics have the counters of `listeners`.
    pub(crate) fn new(
        control: Control,
        access: Access,
        hosts: Vec<String>,
        listeners: Vec<Arc<ListenerCounters>>,
        events: Receiver<Arc<ControllerEvent>>,
    ) -> (Self, impl Future<Output = ()>) {
        let history = Arc::new(Mutex::new(History::default()));
        let (sender, snapshots) = watch::channel(Arc::from("{}"));
        let probes = LeaderProbes::new(control.clone());
        let (hosts, listeners) = (hosts.into(), listeners.into());
        let server = Self {
            control: control.clone(),
            probes,
            access,
            hosts,
            listeners,
            history: history.clone(),
            snapshots,
        };
        (server, observe(control, events, history, sender))
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self, acceptor: Acceptor, tls: Option<TlsAcceptor>) {
        let answer = move |request, connection| {
            let server = self.clone();
            async move { server.answer(request, connection).await }
        };
        listener::serve(acceptor, tls, answer).await;
    }

    async fn answer(&self, request: Request<Incoming>, connection: ConnectionHandle) -> Response<Body> {
        let authorized = is_authorized(&self.access, &request);
        if authorized && matches!(self.access, Access::Tokens { .. }) {
            connection.authenticated();
        }
        let refused = host::refusal(&request, &self.hosts);
        let authorized = authorized && refused.is_none();
        if request.method() != Method::GET {
            return match refused {
                Some(refused) => refused,
                None if authorized => read_only(),
                None => unauthorized(),
            };
        }
        // Probes have no token, and any name in `Host`; without the right ones they do not receive the names of switches.
        match request.uri().path() {
            HEALTHZ => return self.probes.liveness().await.response(),
            READYZ => return self.probes.readiness(authorized).await.response(),
            _ => {}
        }
        if let Some(refused) = refused {
            return refused;
        }
        if !authorized {
            return unauthorized();
        }
        match request.uri().path() {
            "/" => content("text/html; charset=utf-8", PAGE),
            "/page.css" => content("text/css; charset=utf-8", STYLE),
            "/page.js" => content("text/javascript; charset=utf-8", SCRIPT),
            "/metrics" => self.metrics().await,
            "/snapshot" => self.snapshot().await,
            "/events" => self.events(),
            _ => text(
                StatusCode::NOT_FOUND,
                "not found: the paths are /, /metrics, /snapshot, /events, /healthz and /readyz\n",
            ),
        }
    }

    async fn metrics(&self) -> Response<Body> {
        let Ok(snapshot) = self.control.snapshot(SnapshotScope::All).await else { return gone() };
        let counts = self.history.lock().unwrap_or_else(PoisonError::into_inner).counts.clone();
        match metrics::scrape(&snapshot, &counts, &self.listeners) {
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
