//! The whole process: switches of a topology, the workers' port, the database, and the front.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use netfold_controller::admission::Config;
use netfold_controller::p4runtime::ConnectError;
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::{Plane, Server, ServerError, ServerHandle};

use crate::front::{Front, FrontConfig, FrontError};
use crate::store::{Database, OpenError};
use crate::tls::Tls;

/// What a controller controls, and where it is reached.
#[derive(Debug)]
pub struct ControllerConfig {
    /// The switches and how they are linked.
    pub topology: Topology,
    /// The database's file; made if it is not there.
    pub state: PathBuf,
    /// Address of the workers' port; port 0 takes any free one.
    pub workers: SocketAddr,
    /// gRPC, page and metrics, and how they and the workers' port are encrypted.
    pub front: FrontConfig,
    /// How long a job waits for its workers, from the first.
    pub join_timeout: Duration,
}

/// Why a controller does not start, or did not stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The database cannot be used.
    #[error(transparent)]
    State(#[from] OpenError),
    /// A switch of the topology cannot be managed as it is described.
    #[error("the topology asks for something that cannot be managed")]
    Topology(#[source] ConnectError),
    /// The workers' port failed.
    #[error("the workers' port failed")]
    Workers(#[source] ServerError),
    /// The front failed.
    #[error(transparent)]
    Front(#[from] FrontError),
}

/// A controller that runs on threads of its own. Dropping it stops it; jobs go on without it for their grace.
pub struct Controller {
    /// Before the server, so that nobody asks while it ends.
    front: Front,
    server: ServerHandle,
}

impl Controller {
    /// Opens the database and all ports, and begins to manage the switches. Which of them are there shows later.
    ///
    /// # Errors
    /// [`ControllerError`], with nothing left running.
    pub fn start(config: ControllerConfig) -> Result<Self, ControllerError> {
        let database = Database::open(config.state)?;
        let plane = Plane::of(config.topology, Box::new(database)).map_err(ControllerError::Topology)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let admission = Config {
            join_timeout: config.join_timeout,
            // The database has the next epoch; its floor is what a lost one would begin at.
            ..Config::controller(u32::try_from(now).unwrap_or(u32::MAX), now)
        };
        let tls = config.front.tls.as_ref().map(Tls::for_workers).transpose();
        let tls = tls.map_err(|error| ControllerError::Front(FrontError::Tls(error)))?;
        let mut server = Server::over(config.workers, admission, plane).map_err(ControllerError::Workers)?;
        if let Some(tls) = tls {
            server = server.encrypted(tls);
        }
        let control = server.control();
        // Before the workers' port serves: an address that is taken must not cost anybody a session.
        let front = Front::start(config.front, control)?;
        let server = server.spawn().map_err(ControllerError::Workers)?;
        Ok(Self { front, server })
    }

    /// Where workers join.
    pub fn workers(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Where gRPC, the page and the metrics are.
    pub fn front(&self) -> &Front {
        &self.front
    }

    /// Snapshots, commands and what happens, for this process.
    pub fn control(&self) -> Control {
        self.server.control()
    }

    /// Whether a part of it has ended, which unasked means that it failed.
    pub fn is_finished(&self) -> bool {
        self.server.is_finished() || self.front.is_finished()
    }

    /// Stops. Jobs that run are left to their switches and workers, who wait for a controller to come back for their grace.
    ///
    /// # Errors
    /// [`ControllerError`] when a part of it had failed before.
    pub fn stop(self) -> Result<(), ControllerError> {
        let fronted = self.front.stop();
        self.server.shutdown().map_err(ControllerError::Workers)?;
        Ok(fronted?)
    }
}
