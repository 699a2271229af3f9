//! Connections of HTTP clients.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use netfold_listener::acceptor::{Acceptor, Connection, ConnectionHandle};
use netfold_listener::grpc::TrackedBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::response::Body;

/// Timeout of a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the task is dropped; `answer` receives every request, with its connection.
pub(crate) async fn serve<A, F>(mut acceptor: Acceptor, tls: Option<TlsAcceptor>, answer: A)
where
    A: Fn(Request<Incoming>, ConnectionHandle) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    loop {
        let connection = acceptor.next().await;
        tokio::spawn(serve_connection(connection, tls.clone(), answer.clone()));
    }
}

async fn serve_connection<A, F>(connection: Connection, tls: Option<TlsAcceptor>, answer: A)
where
    A: Fn(Request<Incoming>, ConnectionHandle) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let handle = connection.handle().clone();
    // An error of a connection concerns only its client. The deadline of the first request bounds the handshake.
    match tls {
        None => serve_http(connection, handle, answer).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(connection).await {
                if stream.get_ref().1.peer_certificates().is_some() {
                    handle.authenticated();
                }
                serve_http(stream, handle, answer).await;
            }
        }
    }
}

async fn serve_http<A, F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    handle: ConnectionHandle,
    answer: A,
) where
    A: Fn(Request<Incoming>, ConnectionHandle) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(|request| {
        let under_way = handle.request();
        let answered = answer(request, handle.clone());
        async move {
            let response = answered.await;
            Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, under_way).boxed()))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}
