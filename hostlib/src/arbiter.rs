//! What decides on the generations of a resizable job, as its communicator has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netfold_control::Resized;

use crate::config::JobConfig;
use crate::error::Error;
use crate::report::Stats;

/// Decides which ranks the next generation of a job has.
pub(crate) trait Arbiter: Send + Sync {
    /// The generation that this rank is in.
    fn generation(&self) -> u32;

    /// Requests the next one, with `joining` more processes. `meeting`: where this rank listens for the others, should it become rank 0.
    ///
    /// # Errors
    ///
    /// [`Error::NotResized`] and [`Error::Excluded`]; others if there is no decision.
    fn resize(&self, joining: u16, timeout: Duration, meeting: Option<SocketAddr>) -> Result<Resized, Error>;

    /// Where processes that join reach this member, if they do not go to a control port.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Leaves the job gracefully.
    fn leave(&self);
}

/// What a communicator of a resizable job has.
pub(crate) struct Resizer {
    pub(crate) arbiter: Box<dyn Arbiter>,
    /// The configuration that it was built with.
    pub(crate) config: Arc<JobConfig>,
    /// Whether the ranks are linked.
    pub(crate) linked: bool,
    /// Counters of former generations.
    pub(crate) former: Stats,
}
