//! The control port: TCP sessions of one JSON object a line around an [`admission`](crate::admission) coordinator.
//!
//! Everything runs on one thread with a tokio runtime of its own, apart from the switches' drivers, which may block: each task of the
//! switches has a thread. Three kinds of tasks: one accepts, one a session reads and writes lines, and the hub owns
//! the coordinator and never waits for a session.
//!
//! # Limits
//!
//! Every queue is bounded: what a session may leave unread (`OUTBOX_LINES`), lines on their way to the hub
//! (`INPUTS`; sessions wait in turn), tasks for the switch (by the number of jobs and members). A line has
//! [`LINE_LEN_MAX`](netfold_control::LINE_LEN_MAX) bytes at most. Sessions above the limit receive a refusal and are closed,
//! or only closed when even that would cost too much. A connection is no session before its first line is complete:
//! [`WORKERS`](netfold_listener::policy::WORKERS) bounds the number of such connections, and the time until then, TLS handshake included.

mod control;
mod drivers;
mod event;
mod hub;
mod pending;
mod session;
mod stub;

pub use control::{Control, RecordsError};
pub use stub::ControlStub;

use crate::admission::{Config, Coordinator};
use crate::driver::SwitchDriver;
use crate::fleet::Fleet;
use crate::jobs::JobEvent;
use crate::plane::{KnownSwitch, Plane};
use crate::record::{StoreError, StoredRecords};
use crate::switch_status;
use drivers::DriverThreads;
use netfold_listener::acceptor::Acceptor;
use netfold_listener::{ListenerCounters, policy};
use rand::SeedableRng;
use rand::rngs::{StdRng, SysRng};
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

/// Called on the server's thread for every event; must not block.
type Hook = Box<dyn FnMut(&JobEvent) + Send>;

/// A control port that is bound and does not serve yet.
pub struct Server {
    listener: TcpListener,
    local_addr: SocketAddr,
    config: Config,
    plane: Plane,
    hook: Hook,
    requests: mpsc::Receiver<control::ControlRequest>,
    control: Control,
    tls: Option<TlsAcceptor>,
}

/// Why a control port does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: choose another address or stop the program that holds it")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system gave no random numbers for job keys.
    #[error("the system gives no random numbers, and job keys must not be predictable")]
    Keys(#[source] Box<dyn Error + Send + Sync>),
    /// The system refused a thread or a runtime.
    #[error("the control port cannot start its threads")]
    Thread(#[source] io::Error),
    /// The database fails.
    #[error("the controller cannot go on without its database")]
    Store(#[from] StoreError),
    /// A driver cannot be started.
    #[error("a switch's driver cannot be started")]
    Driver(#[source] Box<dyn Error + Send + Sync>),
    /// The thread of the switch's driver or of the server has ended.
    #[error("a thread of the control port has crashed: its panic message tells where; restart the switch")]
    Crashed,
}

impl Server {
    /// Listens on `address`, a TCP port for which 0 means any, on behalf of a switch that holds nothing of ours.
    /// Workers that connect meanwhile wait.
    ///
    /// # Errors
    /// [`ServerError::Bind`] when the address is taken or is not this host's.
    pub fn bind(
        address: SocketAddr,
        config: Config,
        driver: Box<dyn SwitchDriver>,
    ) -> Result<Self, ServerError> {
        Self::over(address, config, Plane::own(driver))
    }

    /// Listens on `address`, a TCP port for which 0 means any, on behalf of the switches of a plane. Workers that connect meanwhile
    /// wait.
    ///
    /// # Errors
    /// [`ServerError::Bind`] when the address is taken or is not this host's.
    pub fn over(address: SocketAddr, config: Config, plane: Plane) -> Result<Self, ServerError> {
        let bind = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let local_addr = listener.local_addr().map_err(bind)?;
        let (sender, requests) = mpsc::channel(control::REQUESTS_MAX);
        let (events, _) = broadcast::channel(control::EVENTS_MAX);
        let counters = Arc::new(ListenerCounters::new(policy::WORKERS));
        let storing = control::StoringFlag::default();
        let control = Control { requests: sender, events, storing, listener: counters };
        let hook = Box::new(|_: &JobEvent| {});
        Ok(Self { listener, local_addr, config, plane, hook, requests, control, tls: None })
    }

    /// A handle for snapshots, commands and what happens.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Has `hook` called for every event, on the server's thread: it must not block.
    #[must_use]
    pub fn on_event(mut self, hook: impl FnMut(&JobEvent) + Send + 'static) -> Self {
        self.hook = Box::new(hook);
        self
    }

    /// Has sessions begin with a TLS handshake. Workers that connect in plain text receive a refusal and are closed.
    #[must_use]
    pub fn encrypted(mut self, acceptor: TlsAcceptor) -> Self {
        self.tls = Some(acceptor);
        self.config.encrypted = true;
        self
    }

    /// The address that workers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is ready. Then jobs that outlive this control plane are left as they are, others are ended and
    /// their switches emptied. Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`ServerError`] when it cannot start, when a driver panics, or when the database fails.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let keys = StdRng::try_from_rng(&mut SysRng).map_err(|error| ServerError::Keys(Box::new(error)))?;
        let Plane { switches, links, route, mut store, start } = self.plane;
        let storing = self.control.storing.clone();
        storing.set(true);
        let kept: StoredRecords = store.load()?;
        storing.set(false);
        let count = switches.len();
        let fleet = Fleet::new(switches, route, self.config.epoch_floor, keys).linked(links).unreached();
        let coordinator = Coordinator::new(self.config.clone(), fleet, kept);
        let (notices, statuses) = switch_status::channel();
        let known = coordinator.holdings().into_iter().zip(coordinator.boots());
        let known: Vec<KnownSwitch> = known.map(|(held, boot)| KnownSwitch { held, boot }).collect();
        let drivers = tokio::task::spawn_blocking(move || start(known, notices)).await;
        let drivers = drivers.map_err(|_| ServerError::Crashed)?.map_err(ServerError::Driver)?;
        assert_eq!(drivers.len(), count, "a plane has a driver for each switch");
        let (threads, outcomes) = DriverThreads::new(drivers);
        let acceptor = Acceptor::counting(self.listener, policy::WORKERS, self.control.listener())
            .map_err(ServerError::Thread)?;
        let parts = hub::HubParts {
            hook: self.hook,
            threads,
            store,
            storing,
            requests: self.requests,
            events: self.control.events,
            switches: count,
            tls: self.tls,
        };
        drop(self.control.requests);
        hub::Hub::new(coordinator, &self.config, parts).run(acceptor, outcomes, statuses, shutdown).await
    }

    /// Serves on a thread of its own until the handle is shut down or dropped.
    ///
    /// # Errors
    /// [`ServerError::Thread`] when the system refuses the thread or its runtime.
    pub fn spawn(self) -> Result<ServerHandle, ServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(4)
            .build()
            .map_err(ServerError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let (local_addr, control) = (self.local_addr, self.control());
        let shutdown = async {
            // A dropped handle means the same.
            let _ = stopped.await;
        };
        let thread = std::thread::Builder::new()
            .name("netfold-control".into())
            .spawn(move || runtime.block_on(self.run(shutdown)))
            .map_err(ServerError::Thread)?;
        Ok(ServerHandle { control, local_addr, stop: Some(stop), thread: Some(thread) })
    }
}

/// A control port that serves on a thread of its own. Dropping it shuts it down.
pub struct ServerHandle {
    control: Control,
    local_addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl ServerHandle {
    /// A handle for snapshots, commands and what happens.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The address that workers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether the server serves no more, which without a shutdown means that it failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends every job, empties the switch and waits for the server's end.
    ///
    /// # Errors
    /// [`ServerError`] when the server failed before.
    pub fn shutdown(mut self) -> Result<(), ServerError> {
        self.stop_and_join()
    }

    fn stop_and_join(&mut self) -> Result<(), ServerError> {
        drop(self.stop.take());
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(Err(ServerError::Crashed)),
            None => Ok(()),
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        // A caller that needs the result calls `shutdown`.
        let _ = self.stop_and_join();
    }
}
