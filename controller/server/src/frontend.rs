//! What people and programs reach of a control plane: gRPC at one address, the page and the metrics at another.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_controller::server::Control;
use netfold_controller::view::Occurrence;
use tokio::runtime::Builder;
use tokio::sync::broadcast::Receiver;
use tokio::sync::oneshot;
use tonic::transport::Server;

use crate::access::Access;
use crate::connection::Acceptor;
use crate::grpc;
use crate::http::HttpServer;
use crate::tls::{Tls, TlsError};

/// Calls that one connection may have open at once, its streams included.
const CALLS_MAX: u32 = 64;

/// How long a call may take, watching aside.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest list of metadata of a call, in bytes.
const METADATA_LEN_MAX: u32 = 16 << 10;

/// How often a client that says nothing is asked whether it is there, and how long it may take to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Time that calls are given to end when the front stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Where to be reached, and by whom.
#[derive(Debug, Clone)]
pub struct FrontendConfig {
    /// Address of gRPC; port 0 takes any free one.
    pub grpc: SocketAddr,
    /// Address of the page and the metrics, if there are to be any.
    pub http: Option<SocketAddr>,
    /// Who is let in.
    pub access: Access,
    /// How both are encrypted; `None`: not at all.
    pub tls: Option<Tls>,
}

/// Why a front does not start, or did not stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontendError {
    /// An address is not to be had.
    #[error("cannot listen on {address}: choose another address or port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate or a key is wrong.
    #[error("TLS cannot be served: check the PEM files")]
    Tls(#[source] TlsError),
    /// The same, as gRPC says it.
    #[error("TLS cannot be served: check the PEM files")]
    GrpcTls(#[source] tonic::transport::Error),
    /// The system refused a thread or a runtime.
    #[error("cannot start the controller's thread; check the process's limits")]
    Thread(#[source] io::Error),
    /// The listener failed for good.
    #[error("the controller's gRPC server failed")]
    Serve(#[source] tonic::transport::Error),
    /// The thread panicked: a bug.
    #[error("the controller's gRPC server failed; its panic message is on standard error; please report it")]
    Panicked,
}

/// A front that serves on a thread of its own. Dropping it stops it; the control plane goes on.
#[derive(Debug)]
pub struct Frontend {
    grpc: SocketAddr,
    http: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), FrontendError>>>,
}

/// Listeners that are open already.
struct Listeners {
    grpc: TcpListener,
    http: Option<TcpListener>,
    /// Everything that happens from the start on.
    events: Receiver<Arc<Occurrence>>,
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
        let events = control.occurrences();
        let listeners = Listeners { grpc, http: http.map(|(listener, _)| listener), events };
        if let Some(tls) = &config.tls {
            // Both would be told from the thread only, when nobody listens.
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
        Ok(Self { grpc: grpc_address, http: http_address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where gRPC is.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Where the page and the metrics are.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Whether it has ended, which unasked means that it failed.
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
        // Whoever wants to know calls `stop`.
        let _ = self.join();
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), FrontendError> {
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
    let acceptor =
        Acceptor::new(tokio::net::TcpListener::from_std(listeners.grpc).map_err(FrontendError::Thread)?);
    let (sender, connections) = tokio::sync::mpsc::channel(1);
    let accepting =
        tokio::spawn(
            async move { while sender.send(Ok::<_, io::Error>(acceptor.next().await)).await.is_ok() {} },
        );
    let mut tasks = vec![accepting];
    if let Some(listener) = listeners.http {
        let acceptor =
            Acceptor::new(tokio::net::TcpListener::from_std(listener).map_err(FrontendError::Thread)?);
        let tls = config.tls.as_ref().map(Tls::for_http).transpose().map_err(FrontendError::Tls)?;
        let (http, observed) = HttpServer::new(control, config.access, listeners.events);
        tasks.push(tokio::spawn(observed));
        tasks.push(tokio::spawn(http.serve(acceptor, tls)));
    }
    let incoming = tokio_stream::wrappers::ReceiverStream::new(connections);
    let serving = server.add_routes(routes).serve_with_incoming(incoming);
    // Watchers would keep an orderly end waiting: a front that is stopped cuts them off.
    let served = tokio::select! {
        served = serving => served.map_err(FrontendError::Serve),
        _ = stopped => Ok(()),
    };
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    served
}
