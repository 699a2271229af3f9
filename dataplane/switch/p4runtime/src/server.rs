//! The server's thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_listener::acceptor::Acceptor;
use netfold_listener::grpc::TrackRequests;
use netfold_listener::{ListenerCounters, policy};
use netfold_p4::ir::Program;
use netfold_switch::Handle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::codegen::http::HeaderMap;
use tonic::transport::server::Connected;
use tower::service_fn;

use crate::config::Engine;
use crate::device::Device;
use crate::packets::{self, PacketCount, PacketCounters};
use crate::ports::Ports;
use crate::service::Service;
use crate::tls::Tls;

/// Calls that one connection may have open at once, including streams.
const CALLS_MAX: u32 = 64;

/// Threads for calls that wait for the switch.
const BLOCKING_MAX: usize = 8;

/// Time that calls have to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Default device number, which is also the default of the usual shells.
pub const DEVICE_ID: u64 = 1;

/// Default port of the packets to and from the controller, which is usual with bmv2.
pub const CPU_PORT: u16 = 510;

/// Configuration of a [`Server`].
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Device number; 0 for [`DEVICE_ID`].
    pub device_id: u64,
    /// The program that the switch runs already; `None` when the controller sets one.
    pub program: Option<Program>,
    /// Port of the packets to and from the controller; never assigned to a peer.
    pub cpu_port: u16,
    /// How pipelines are made of the programs that controllers set.
    pub engine: Engine,
    /// Certificates; without them, connections are not encrypted and every client is accepted.
    pub tls: Option<Tls>,
}

impl Default for ServerConfig {
    /// Device 1, no program, the CPU port 510, generated code or the interpreter, no encryption.
    fn default() -> Self {
        Self { device_id: DEVICE_ID, program: None, cpu_port: CPU_PORT, engine: Engine::default(), tls: None }
    }
}

/// Error of a [`Server`] that could not start or has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot serve P4Runtime at {address}: {source}; choose another address or port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The switch has stopped, or does not run the configured program.
    #[error("the switch cannot be served over P4Runtime: {0}")]
    Switch(String),
    /// The certificates are invalid.
    #[error("the P4Runtime server's certificate or key is invalid: give PEM files that match")]
    Tls(#[source] tonic::transport::Error),
    /// The system refused a thread or the runtime's resources.
    #[error("cannot start the P4Runtime server; check the process's limits")]
    Thread(#[source] io::Error),
    /// The listener failed.
    #[error("the P4Runtime server failed")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server's thread panicked: a bug.
    #[error("the P4Runtime server failed; its panic message is on standard error; please report it")]
    Panicked,
}

/// A server that runs on its own thread. Dropping it stops it; the switch continues with its state.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    packets: Arc<PacketCount>,
    listener: Arc<ListenerCounters>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Server {
    /// Serves the switch behind `handle` at `address`; port 0 selects a free one.
    ///
    /// The server owns the switch's tables, groups and pipeline from now on: its responses are wrong if they are changed
    /// through a handle.
    ///
    /// # Errors
    ///
    /// [`ServerError`]; nothing is left running.
    pub fn start(address: SocketAddr, config: ServerConfig, handle: Handle) -> Result<Self, ServerError> {
        let device_id = if config.device_id == 0 { DEVICE_ID } else { config.device_id };
        let refused = |fault: crate::fault::Fault| ServerError::Switch(fault.message);
        let ports = Ports::new(handle.clone(), config.cpu_port).map_err(refused)?;
        let device = Device::new(device_id, handle.clone(), config.engine).map_err(refused)?;
        if let Some(program) = &config.program {
            device.adopt(program).map_err(refused)?;
        }
        let transport = transport(config.tls.as_ref())?;
        let counters = Arc::new(ListenerCounters::new(policy::P4RUNTIME));
        let bind = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_MAX)
            .build()
            .map_err(ServerError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let packets = Arc::new(PacketCount::default());
        let service = Service::new(Arc::new(device), Arc::new(ports), Arc::clone(&packets));
        let from_pipeline = packets::open(&handle, config.cpu_port, &packets).map_err(refused)?;
        let accepted = Arc::clone(&counters);
        let thread = std::thread::Builder::new()
            .name("p4runtime".into())
            .spawn(move || {
                let served =
                    runtime.block_on(serve(transport, (listener, accepted), service, from_pipeline, stopped));
                runtime.shutdown_timeout(STOP_TIMEOUT);
                served
            })
            .map_err(ServerError::Thread)?;
        Ok(Self { address, packets, listener: counters, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Counters of its connections.
    pub fn listener(&self) -> Arc<ListenerCounters> {
        Arc::clone(&self.listener)
    }

    /// Counters of the packets to and from controllers.
    pub fn packets(&self) -> PacketCounters {
        self.packets.counters()
    }

    /// Whether it has ended; before [`Self::stop`] this means that it failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends all streams and stops.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it had failed before.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), ServerError> {
        drop(self.stop.take());
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(Err(ServerError::Panicked)),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The error is returned by `stop`.
        let _ = self.join();
    }
}

/// HTTP/2, encrypted if configured.
pub(crate) fn transport(tls: Option<&Tls>) -> Result<tonic::transport::Server, ServerError> {
    let server = tonic::transport::Server::builder()
        .max_concurrent_streams(CALLS_MAX)
        .http2_keepalive_interval(Some(Duration::from_secs(30)));
    match tls {
        Some(tls) => server.tls_config(tls.config()).map_err(ServerError::Tls),
        None => Ok(server),
    }
}

async fn serve(
    transport: tonic::transport::Server,
    (listener, counters): (TcpListener, Arc<ListenerCounters>),
    service: Service,
    from_pipeline: mpsc::Receiver<Vec<u8>>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), ServerError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| ServerError::Serve(error);
    let mut acceptor =
        Acceptor::counting(listener, policy::P4RUNTIME, counters).map_err(|error| failed(error.into()))?;
    let (sender, connections) = mpsc::channel(1);
    // Ends with the runtime, or when nothing serves its connections any more.
    tokio::spawn(
        async move { while sender.send(Ok::<_, io::Error>(acceptor.next().await)).await.is_ok() {} },
    );
    let incoming = tokio_stream::wrappers::ReceiverStream::new(connections);
    tokio::select! {
        served = serve_incoming(transport, incoming, service, from_pipeline) => {
            served.map_err(|error| failed(error.into()))
        }
        // Open streams end with the runtime.
        _ = stopped => Ok(()),
    }
}

/// Serves connections, and delivers what the pipeline sends to controllers.
pub(crate) async fn serve_incoming<C>(
    transport: tonic::transport::Server,
    incoming: impl Stream<Item = io::Result<C>>,
    service: Service,
    from_pipeline: mpsc::Receiver<Vec<u8>>,
) -> Result<(), tonic::transport::Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    C::ConnectInfo: Clone + Send + Sync + 'static,
{
    let delivery = service.clone();
    // Clients authenticate by certificates, if at all.
    let transport = transport.layer(TrackRequests::new(|_: &HeaderMap| false));
    let server =
        transport.serve_with_incoming(service_fn(move |request| service.clone().answer(request)), incoming);
    tokio::select! {
        served = server => served,
        // The switch has ended, or its CPU port has another server: calls return that error.
        () = async { delivery.deliver(from_pipeline).await; std::future::pending().await } => Ok(()),
    }
}
