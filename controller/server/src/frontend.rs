//! The northbound server of a control plane: gRPC at one address, the page and the metrics at another.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_controller::server::Control;
use netfold_controller::view::ControllerEvent;
use netfold_listener::acceptor::Acceptor;
use netfold_listener::grpc::TrackRequests;
use netfold_listener::{ListenerCounters, policy};
use tokio::runtime::Builder;
use tokio::sync::broadcast::Receiver;
use tokio::sync::oneshot;
use tonic::codegen::http::HeaderMap;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

use crate::access::Access;
use crate::grpc;
use crate::http::HttpServer;
use crate::tls::{Tls, TlsError};

/// Concurrent calls of one connection, streams included.
const CALLS_MAX: u32 = 64;

/// Timeout of a call, except streams.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest list of metadata of a call, in bytes.
const METADATA_LEN_MAX: u32 = 16 << 10;

/// HTTP/2 keepalive: interval between the pings of a silent client, and timeout of its response.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Time that calls have to end when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The addresses to serve at, and who has access.
#[derive(Debug, Clone)]
pub struct FrontendConfig {
    /// Address of gRPC; port 0 takes any free one.
    pub grpc: SocketAddr,
    /// Address of the page and the metrics, if they are wanted.
    pub http: Option<SocketAddr>,
    /// Names under which the page answers, besides `localhost` and IP addresses.
    pub page_hosts: Vec<String>,
    /// Who has access.
    pub access: Access,
    /// How both are encrypted; `None`: not at all.
    pub tls: Option<Tls>,
}

/// Why the server cannot start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontendError {
    /// An address cannot be bound.
    #[error("cannot listen on {address}: choose another address or port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A certificate or a key is invalid.
    #[error("cannot serve TLS: check the PEM files")]
    Tls(#[source] TlsError),
    /// The same, reported by gRPC.
    #[error("cannot serve TLS: check the PEM files")]
    GrpcTls(#[source] tonic::transport::Error),
    /// The system cannot create a thread or a runtime.
    #[error("cannot start the controller's thread; check the process's limits")]
    Thread(#[source] io::Error),
    /// The listener failed permanently.
    #[error("the controller's gRPC server failed")]
    Serve(#[source] tonic::transport::Error),
    /// The thread panicked: a bug.
    #[error("the controller's gRPC server failed; its panic message is on standard error; please report it")]
    Panicked,
}

/// The running server, on its own thread. Dropping it stops it; the control plane continues.
#[derive(Debug)]
pub struct Frontend {
    grpc: SocketAddr,
    http: Option<SocketAddr>,
    counters: Vec<Arc<ListenerCounters>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), FrontendError>>>,
}

/// Open listeners.
struct Listeners {
    grpc: TcpListener,
    http: Option<TcpListener>,
    /// Of gRPC, the page and the workers' port, in this order.
    counters: Vec<Arc<ListenerCounters>>,
    /// All events from the start on.
    events: Receiver<Arc<ControllerEvent>>,
}

impl Frontend {
    /// Serves a control plane.
    ///
    /// # Errors
    /// [`FrontendError`], with nothing left running.
    pub fn start(config: FrontendConfig, control: Control) -> Result<Self, FrontendError> {
        let (grpc, grpc_address) = listen(config.grpc)?;
        let http = config.http.map(listen).transpose()?;
        let http_address = http.as_ref().map(|(_, address)| *address);
        let events = control.events();
        let own = [policy::GRPC, policy::PAGE].map(|policy| Arc::new(ListenerCounters::new(policy)));
        let counters: Vec<_> = own.into_iter().chain([control.listener()]).collect();
        let listeners =
            Listeners { grpc, http: http.map(|(listener, _)| listener), counters: counters.clone(), events };
        if let Some(tls) = &config.tls {
            // Check both here: an error in the thread could not be returned to the caller.
            tls.for_http().map_err(FrontendError::Tls)?;
            Server::builder().tls_config(tls.for_grpc()).map_err(FrontendError::GrpcTls)?;
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(FrontendError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("netfold-front".into())
            .spawn(move || {
                let served = runtime.block_on(serve(listeners, config, control, stopped));
                runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
                served
            })
            .map_err(FrontendError::Thread)?;
        Ok(Self { grpc: grpc_address, http: http_address, counters, stop: Some(stop), thread: Some(thread) })
    }

    /// Address of gRPC.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Address of the page and the metrics.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Counters of gRPC's listener, the page's and the workers' port.
    pub fn listeners(&self) -> &[Arc<ListenerCounters>] {
        &self.counters
    }

    /// Whether it has ended; without a call of [`stop`](Self::stop) this means that it failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends all calls and stops.
    ///
    /// # Errors
    /// [`FrontendError`] when it had failed before.
    pub fn stop(mut self) -> Result<(), FrontendError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), FrontendError> {
        drop(self.stop.take());
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(Err(FrontendError::Panicked)),
            None => Ok(()),
        }
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        // A caller that needs the result calls `stop`.
        let _ = self.join();
    }
}

/// A listener for tokio, and its address.
pub(crate) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), FrontendError> {
    let bind = |source| FrontendError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind)?;
    listener.set_nonblocking(true).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    Ok((listener, address))
}

async fn serve(
    listeners: Listeners,
    config: FrontendConfig,
    control: Control,
    stopped: oneshot::Receiver<()>,
) -> Result<(), FrontendError> {
    let mut server = Server::builder()
        .max_concurrent_streams(CALLS_MAX)
        .http2_max_header_list_size(METADATA_LEN_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .timeout(CALL_TIMEOUT);
    if let Some(tls) = &config.tls {
        server = server.tls_config(tls.for_grpc()).map_err(FrontendError::GrpcTls)?;
    }
    let routes = grpc::routes(&control, &config.access);
    let access = Arc::new(config.access.clone());
    let tracking = TrackRequests::new(move |headers: &HeaderMap| access.is_proven_by(headers));
    let counters = listeners.counters;
    let mut acceptor = Acceptor::counting(listeners.grpc, policy::GRPC, Arc::clone(&counters[0]))
        .map_err(FrontendError::Thread)?;
    let (sender, connections) = tokio::sync::mpsc::channel(1);
    let accepting =
        tokio::spawn(
            async move { while sender.send(Ok::<_, io::Error>(acceptor.next().await)).await.is_ok() {} },
        );
    let mut tasks = vec![accepting];
    if let Some(listener) = listeners.http {
        let acceptor = Acceptor::counting(listener, policy::PAGE, Arc::clone(&counters[1]))
            .map_err(FrontendError::Thread)?;
        let tls = config.tls.as_ref().map(Tls::for_http).transpose().map_err(FrontendError::Tls)?;
        let (http, observed) =
            HttpServer::new(control, config.access, config.page_hosts, counters, listeners.events);
        tasks.push(tokio::spawn(observed));
        tasks.push(tokio::spawn(http.serve(acceptor, tls)));
    }
    let incoming = tokio_stream::wrappers::ReceiverStream::new(connections);
    let mut server = server.layer(tracking).layer(MapResponseLayer::new(grpc::with_version));
    let serving = server.add_routes(routes).serve_with_incoming(incoming);
    // Watchers would delay a graceful shutdown without bound, so their streams are cut.
    let served = tokio::select! {
        served = serving => served.map_err(FrontendError::Serve),
        _ = stopped => Ok(()),
    };
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    served
}
