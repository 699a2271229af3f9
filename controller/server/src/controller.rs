//! The whole process: switches of a topology, the workers' port, the database, and the front.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use netfold_control::CongestionAlgorithm;
use netfold_controller::admission::Config;
use netfold_controller::bands::Banding;
use netfold_controller::policy::Sharing;
use netfold_controller::record::Store;
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::{Server, ServerError, ServerHandle};
use netfold_southbound::p4runtime::{ConnectError, ELECTION_ID};

use crate::etcd::Leadership;
use crate::frontend::{Frontend, FrontendConfig, FrontendError};
use crate::store::{Database, OpenError};
use crate::tls::Tls;

/// What a controller controls, and where it is reached.
#[derive(Debug)]
pub struct ControllerConfig {
    /// The switches and how they are linked.
    pub topology: Topology,
    /// Where its records are.
    pub state: RecordLocation,
    /// Address of the workers' port; port 0 takes any free one.
    pub workers: SocketAddr,
    /// gRPC, page and metrics, and how they and the workers' port are encrypted.
    pub front: FrontendConfig,
    /// How jobs are treated.
    pub jobs: JobConfig,
}

/// Where a controller's records are.
#[derive(Debug)]
pub enum RecordLocation {
    /// In a file of this controller alone; made if it is not there.
    File(PathBuf),
    /// In etcd, where this controller is in charge for the time being.
    Etcd(Leadership),
}

/// How a controller treats jobs.
#[derive(Debug, Clone)]
pub struct JobConfig {
    /// How long a job waits for its workers, from the first.
    pub join_timeout: Duration,
    /// By what workers decide how much to have in flight.
    pub congestion: CongestionAlgorithm,
    /// Which classes of packets jobs have.
    pub banding: Banding,
    /// How jobs share slots that there are too few of.
    pub sharing: Sharing,
    /// How long a job is left in peace before slots are taken from it again, or it is moved to have more.
    pub settle: Duration,
}

impl Default for JobConfig {
    /// What `netfold controller` does if not told otherwise.
    fn default() -> Self {
        Self {
            join_timeout: Duration::from_secs(30),
            congestion: CongestionAlgorithm::Dctcp,
            banding: Banding::default(),
            sharing: Sharing::Static,
            settle: Duration::from_secs(10),
        }
    }
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
    Frontend(#[from] FrontendError),
}

/// A controller that runs on threads of its own. Dropping it stops it; jobs go on without it for their grace.
pub struct Controller {
    /// Before the server, so that nobody asks while it ends.
    front: Frontend,
    server: ServerHandle,
    /// Given up last, when nothing is changed any more.
    leadership: Option<Leadership>,
}

impl Controller {
    /// Opens the database and all ports, and begins to manage the switches. Which of them are there shows later.
    ///
    /// # Errors
    /// [`ControllerError`], with nothing left running.
    pub fn start(config: ControllerConfig) -> Result<Self, ControllerError> {
        let (store, leadership): (Box<dyn Store>, _) = match config.state {
            RecordLocation::File(path) => (Box::new(Database::open(path)?), None),
            RecordLocation::Etcd(leadership) => (Box::new(leadership.store()), Some(leadership)),
        };
        // Switches take writes from the leader of the latest term alone.
        let term = leadership.as_ref().map_or(0, Leadership::term);
        let plane = netfold_southbound::elected_plane(config.topology, store, ELECTION_ID + u128::from(term));
        let plane = plane.map_err(ControllerError::Topology)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let admission = Config {
            join_timeout: config.jobs.join_timeout,
            congestion: config.jobs.congestion,
            banding: config.jobs.banding,
            sharing: config.jobs.sharing,
            settle: config.jobs.settle,
            // The database has the next epoch; its floor is what a lost one would begin at.
            ..Config::controller(u32::try_from(now).unwrap_or(u32::MAX), now)
        };
        let tls = config.front.tls.as_ref().map(Tls::for_workers).transpose();
        let tls = tls.map_err(|error| ControllerError::Frontend(FrontendError::Tls(error)))?;
        let mut server = Server::over(config.workers, admission, plane).map_err(ControllerError::Workers)?;
        if let Some(tls) = tls {
            server = server.encrypted(tls);
        }
        let control = server.control();
        // Before the workers' port serves: an address that is taken must not cost anybody a session.
        let front = Frontend::start(config.front, control)?;
        let server = server.spawn().map_err(ControllerError::Workers)?;
        Ok(Self { front, server, leadership })
    }

    /// Where workers join.
    pub fn workers(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Where gRPC, the page and the metrics are.
    pub fn front(&self) -> &Frontend {
        &self.front
    }

    /// Snapshots, commands and what happens, for this process.
    pub fn control(&self) -> Control {
        self.server.control()
    }

    /// Whether a part of it has ended, which unasked means that it failed.
    pub fn is_finished(&self) -> bool {
        self.server.is_finished() || self.front.is_finished() || self.leadership_lost().is_some()
    }

    /// Why this controller is no longer in charge, if there are several and it is not.
    pub fn leadership_lost(&self) -> Option<&str> {
        self.leadership.as_ref().and_then(Leadership::lost)
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
