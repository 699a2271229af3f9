//! A development controller: one software switch in this process, and two tenants.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use netfold_controller::command::{Command, CommandError};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{Quota, TenantRecord};
use netfold_controller::server::Control;
use netfold_controller::topology::{Topology, TopologyError};
use netfold_controller::view::SnapshotScope;
use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use netfold_listener::ListenerCounters;
use netfold_switch::{EmptyPipeline, PAYLOADS};
use netfold_switch_p4runtime::{Server, ServerConfig, ServerError};

use crate::access::Token;
use crate::controller::{Controller, ControllerConfig, ControllerError, JobConfig, RecordLocation};
use crate::frontend::FrontendConfig;

/// The tenants that exist from the start.
pub const TENANTS: [&str; 2] = ["red", "blue"];

/// Name of the switch.
pub const SWITCH: &str = "switch";

/// Bound on the time until the switch is up.
const UP_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval between checks of whether the switch is up.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Configuration of a development controller.
#[derive(Debug)]
pub struct DevConfig {
    /// The database's file; `None`: a temporary one, removed when the process ends.
    pub state: Option<PathBuf>,
    /// Address of the workers' port.
    pub workers: SocketAddr,
    /// gRPC, page and metrics.
    pub front: FrontendConfig,
    /// How jobs are treated. Unless sharing is static, tenants have no limit.
    pub jobs: JobConfig,
}

/// Why a development controller cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// The switch cannot start, or failed.
    #[error("the software switch failed")]
    Switch(#[source] EmbeddedError),
    /// Its P4Runtime server cannot start, or failed.
    #[error("the software switch's P4Runtime server failed")]
    P4Runtime(#[source] ServerError),
    /// The controller cannot start, or failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The topology of one switch was rejected: a bug.
    #[error("the topology of one switch was rejected; please report this")]
    Topology(#[source] TopologyError),
    /// A folder for the database cannot be created.
    #[error("cannot create a folder for the database: name a file with --state")]
    Folder(#[source] io::Error),
    /// The tenants cannot be added.
    #[error("cannot add the tenants")]
    Tenants(#[source] CommandError),
    /// The controller did not reach the switch in time.
    #[error("the controller has not reached the software switch within {} s: {reason}", UP_TIMEOUT.as_secs())]
    Down {
        /// Why it counts as down.
        reason: String,
    },
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's cleaning of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A controller with a switch of its own, as threads of this process.
pub struct DevController {
    /// The fields are dropped in this order.
    controller: Controller,
    server: Server,
    switch: EmbeddedSwitch,
    state: PathBuf,
    _folder: Option<Folder>,
}

impl DevController {
    /// Starts everything and waits until jobs can be admitted.
    ///
    /// # Errors
    /// [`DevError`], with nothing left running.
    pub fn start(config: DevConfig) -> Result<Self, DevError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let lane_words = PAYLOADS.into_iter().max().unwrap_or(0) / 4;
        let switch = EmbeddedSwitch::builder()
            .listen(any)
            .bare(Vec::new())
            .pipeline_by(move || Ok(Box::new(EmptyPipeline::new(lane_words))))
            .start()
            .map_err(DevError::Switch)?;
        let server =
            Server::start(any, ServerConfig::default(), switch.handle()).map_err(DevError::P4Runtime)?;
        let topology =
            Topology::single(SWITCH, Some(server.local_addr().to_string())).map_err(DevError::Topology)?;
        let (state, folder) = match config.state {
            Some(state) => (state, None),
            None => {
                let folder = temporary().map_err(DevError::Folder)?;
                (folder.0.join("state.redb"), Some(folder))
            }
        };
        let sharing = config.jobs.sharing;
        let controller = Controller::start(ControllerConfig {
            topology,
            state: RecordLocation::File(state.clone()),
            workers: config.workers,
            front: config.front,
            jobs: config.jobs,
        })?;
        let dev = Self { controller, server, switch, state, _folder: folder };
        dev.ready(sharing)?;
        Ok(dev)
    }

    /// Counters of the connections of the switch's P4Runtime server.
    pub fn p4runtime_listener(&self) -> Arc<ListenerCounters> {
        self.server.listener()
    }

    /// Waits for the switch, and adds the tenants.
    fn ready(&self, sharing: Sharing) -> Result<(), DevError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(DevError::Folder)?;
        let control = self.controller.control();
        runtime.block_on(async {
            let slots = up(&control).await?;
            for name in TENANTS {
                let slots = if sharing == Sharing::Static { slots / 2 } else { u32::MAX };
                let quota = Quota { slots, ..Quota::UNLIMITED };
                let record = TenantRecord { name: name.into(), quota, weight: 1, priority: 0, token: None };
                match control.execute(Command::AddTenant(record)).await {
                    // Added by an earlier run, in a persistent file.
                    Ok(()) | Err(CommandError::Exists { .. }) => {}
                    Err(error) => return Err(DevError::Tenants(error)),
                }
            }
            Ok(())
        })
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Address of the switch's P4Runtime server.
    pub fn p4runtime(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Address at which the switch receives packets.
    pub fn data(&self) -> SocketAddr {
        self.switch.data()
    }

    /// The database's file.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Whether a part of it has ended; without a call of [`stop`](Self::stop) this means that it failed.
    pub fn is_finished(&self) -> bool {
        self.controller.is_finished() || self.server.is_finished() || self.switch.is_finished()
    }

    /// Stops all parts.
    ///
    /// # Errors
    /// [`DevError`] when a part of it had failed before.
    pub fn stop(self) -> Result<(), DevError> {
        let controlled = self.controller.stop();
        let served = self.server.stop().map_err(DevError::P4Runtime);
        self.switch.stop().map_err(DevError::Switch)?;
        served?;
        Ok(controlled?)
    }
}

/// Waits until the switch is up; returns its slots.
async fn up(control: &Control) -> Result<u32, DevError> {
    let deadline = Instant::now() + UP_TIMEOUT;
    loop {
        let snapshot = control.snapshot(SnapshotScope::Live).await.map_err(DevError::Tenants)?;
        let switch = snapshot.switches.first();
        match switch {
            Some(switch) if switch.up => return Ok(switch.slots),
            _ if Instant::now() > deadline => {
                let reason = switch.and_then(|switch| switch.down_reason.clone()).unwrap_or_default();
                return Err(DevError::Down { reason });
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// A temporary folder of this process that only its user may enter.
fn temporary() -> io::Result<Folder> {
    use std::os::unix::fs::DirBuilderExt as _;
    let name = Token::generate().map_err(io::Error::other)?.reveal();
    let path = std::env::temp_dir().join(format!("netfold-{name}"));
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(Folder(path))
}
