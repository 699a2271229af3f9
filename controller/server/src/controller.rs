//! The whole process: the switches of a topology, the workers' port, the database and the frontend.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use netfold_control::{CongestionAlgorithm, Multipath};
use netfold_controller::admission::Config;
use netfold_controller::bands::Banding;
use netfold_controller::equal_paths::EqualPaths;
use netfold_controller::plane::Plane;
use netfold_controller::policy::Sharing;
use netfold_controller::rebalance::PlacementPolicy;
use netfold_controller::record::Store;
use netfold_controller::schedule::Schedule;
use netfold_controller::server::Control;
use netfold_controller::topology::{Prefix, Topology};
use netfold_controller::{Server, ServerError, ServerHandle};
use netfold_southbound::p4runtime::ConnectError;

use crate::etcd::Leadership;
use crate::frontend::{Frontend, FrontendConfig, FrontendError};
use crate::store::{Database, OpenError};
use crate::tls::Tls;

/// What a controller manages, and the addresses at which it serves.
#[derive(Debug)]
pub struct ControllerConfig {
    /// The switches and how they are linked.
    pub topology: Topology,
    /// Where its records are stored.
    pub state: RecordLocation,
    /// Address of the workers' port; port 0 takes any free one.
    pub workers: SocketAddr,
    /// gRPC, page and metrics, and how they and the workers' port are encrypted.
    pub front: FrontendConfig,
    /// How jobs are treated.
    pub jobs: JobConfig,
}

/// Where a controller stores its records.
#[derive(Debug)]
pub enum RecordLocation {
    /// In a file that only this controller uses; created if it does not exist.
    File(PathBuf),
    /// In etcd, while this controller is the leader.
    Etcd(Leadership),
}

/// How a controller treats jobs.
#[derive(Debug, Clone)]
pub struct JobConfig {
    /// How long a job waits for its workers, from the first.
    pub join_timeout: Duration,
    /// The workers' congestion-control algorithm.
    pub congestion: CongestionAlgorithm,
    /// From how many UDP ports workers send, where their switches allow it; `None`: from one.
    pub multipath: Option<Multipath>,
    /// The equal paths between workers and their switches, where their hash is known.
    pub equal_paths: Option<EqualPaths>,
    /// Addresses of workers whose packets take none of them.
    pub direct: Vec<Prefix>,
    /// How classes of packets are assigned to jobs.
    pub banding: Banding,
    /// What is done about jobs whose communication patterns are known.
    pub schedule: Schedule,
    /// How trees are placed where several are possible.
    pub placement: PlacementPolicy,
    /// How jobs share slots when there are not enough for all.
    pub sharing: Sharing,
    /// Minimum time between two reallocations of a job's slots.
    pub settle: Duration,
}

impl Default for JobConfig {
    /// The defaults of `netfold controller`.
    fn default() -> Self {
        Self {
            join_timeout: Duration::from_secs(30),
            congestion: CongestionAlgorithm::Dctcp,
            multipath: None,
            equal_paths: None,
            direct: Vec::new(),
            banding: Banding::default(),
            schedule: Schedule::Off,
            placement: PlacementPolicy::Static,
            sharing: Sharing::Elastic,
            settle: Duration::from_secs(10),
        }
    }
}

/// Why a controller cannot start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The database cannot be used.
    #[error(transparent)]
    State(#[from] OpenError),
    /// A switch of the topology cannot be managed as it is described.
    #[error("the topology describes a switch that cannot be managed")]
    Topology(#[source] ConnectError),
    /// The workers' port failed.
    #[error("the workers' port failed")]
    Workers(#[source] ServerError),
    /// The frontend failed.
    #[error(transparent)]
    Frontend(#[from] FrontendError),
}

/// A controller that runs on its own threads. Dropping it stops it; jobs continue without it for their grace period.
pub struct Controller {
    /// Dropped before the server, so that no request arrives while the server stops.
    front: Frontend,
    server: ServerHandle,
    /// Dropped last, when no record can change any more.
    leadership: Option<Leadership>,
}

impl Controller {
    /// Opens the database and all ports, and begins to manage the switches. It does not wait until the switches are reachable.
    ///
    /// # Errors
    /// [`ControllerError`], with nothing left running.
    pub fn start(config: ControllerConfig) -> Result<Self, ControllerError> {
        Self::start_over(config, |plane| plane)
    }

    /// The same over its switches and its database as `wrap` returns them: a test observes what is done with them.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_over(
        config: ControllerConfig,
        wrap: impl FnOnce(Plane) -> Plane,
    ) -> Result<Self, ControllerError> {
        let (store, leadership): (Box<dyn Store>, _) = match config.state {
            RecordLocation::File(path) => (Box::new(Database::open(path)?), None),
            RecordLocation::Etcd(leadership) => (Box::new(leadership.store()), Some(leadership)),
        };
        // A switch accepts writes only from the leader with the latest term.
        let plane = match &leadership {
            Some(leadership) => {
                let (term, lease) = (leadership.term(), leadership.lease());
                netfold_southbound::elected_plane(config.topology, store, term, lease)
            }
            None => netfold_southbound::managed_plane(config.topology, store),
        };
        let plane = wrap(plane.map_err(ControllerError::Topology)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let admission = Config {
            join_timeout: config.jobs.join_timeout,
            congestion: config.jobs.congestion,
            multipath: config.jobs.multipath,
            equal_paths: config.jobs.equal_paths,
            direct: config.jobs.direct,
            banding: config.jobs.banding,
            schedule: config.jobs.schedule,
            placement: config.jobs.placement,
            sharing: config.jobs.sharing,
            settle: config.jobs.settle,
            // The database has the next epoch; the floor is where a new database begins.
            ..Config::controller(u32::try_from(now).unwrap_or(u32::MAX), now)
        };
        let tls = config.front.tls.as_ref().map(Tls::for_workers).transpose();
        let tls = tls.map_err(|error| ControllerError::Frontend(FrontendError::Tls(error)))?;
        let mut server = Server::over(config.workers, admission, plane).map_err(ControllerError::Workers)?;
        if let Some(tls) = tls {
            server = server.encrypted(tls);
        }
        let control = server.control();
        // Before the workers' port serves: an address in use must not cost any worker its session.
        let front = Frontend::start(config.front, control)?;
        let server = server.spawn().map_err(ControllerError::Workers)?;
        Ok(Self { front, server, leadership })
    }

    /// Address of the workers' port.
    pub fn workers(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The server of gRPC, the page and the metrics.
    pub fn front(&self) -> &Frontend {
        &self.front
    }

    /// Snapshots, commands and events, for use in this process.
    pub fn control(&self) -> Control {
        self.server.control()
    }

    /// Whether a part of it has ended; without a call of [`stop`](Self::stop) this means that it failed.
    pub fn is_finished(&self) -> bool {
        self.server.is_finished() || self.front.is_finished() || self.leadership_lost().is_some()
    }

    /// Why this controller is no longer the leader, if it has lost the leadership.
    pub fn leadership_lost(&self) -> Option<&str> {
        self.leadership.as_ref().and_then(Leadership::lost)
    }

    /// Stops. Running jobs continue; their workers wait for a controller during their grace period.
    ///
    /// # Errors
    /// [`ControllerError`] when a part of it had failed before.
    pub fn stop(self) -> Result<(), ControllerError> {
        let frontend = self.front.stop();
        self.server.shutdown().map_err(ControllerError::Workers)?;
        Ok(frontend?)
    }
}
