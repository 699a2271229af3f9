//! Connections of HTTP clients.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Acceptor, PendingConnection};
use crate::response::Body;
use crate::tls::HANDSHAKE_TIMEOUT;

/// Timeout of a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the task is dropped; `answer` receives every request.
pub(crate) async fn serve<A, F>(acceptor: Acceptor, tls: Option<TlsAcceptor>, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    loop {
        let connection = acceptor.next().await;
        tokio::spawn(serve_connection(connection, tls.clone(), answer.clone()));
    }
}

async fn serve_connection<A, F>(connection: PendingConnection, tls: Option<TlsAcceptor>, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // An error of a connection concerns only its client.
    match tls {
        None => serve_http(connection, answer).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(connection)).await {
                serve_http(stream, answer).await;
            }
        }
    }
}

async fn serve_http<A, F>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}
