//! Communicators whose job shrinks and grows in place: it keeps its name, its controller and its record, and its ranks keep their processes.
//!
//! An [`Arbiter`] decides which ranks the next generation has: the control port, where the job has one ([`MembershipSession`]), otherwise the
//! ranks themselves. What follows is the same as for a new communicator: the ranks link and attach anew, with other
//! numbers, under another epoch and key, so nothing of the former generation reaches the new one.

mod peers;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, JOB_NAME_MAX, TcpRendezvous};
use netfold_control::Resized;

use crate::arbiter::{Arbiter, Resizer};
use crate::build::build;
use crate::communicator::Communicator;
use crate::config::JobConfig;
use crate::error::Error;
use crate::session::MembershipSession;
use crate::shutdown::StopMode;
pub(crate) use peers::PeerArbiter;

/// How often a rank checks whether its operations are finished.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Arbiter for MembershipSession {
    fn generation(&self) -> u32 {
        Self::generation(self)
    }

    fn resize(&self, joining: u16, timeout: Duration, meeting: Option<SocketAddr>) -> Result<Resized, Error> {
        Self::resize(self, joining, timeout, meeting)
    }

    fn leave(&self) {
        Self::leave(self);
    }
}

/// The membership of this rank after its job has [shrunk](Communicator::shrink) or [grown](Communicator::grow).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// The generation of the job, from 1; it grows by one whenever the job shrinks or grows.
    pub generation: u32,
    /// This rank's number in it.
    pub rank: u16,
    /// Number of ranks.
    pub world_size: u16,
    /// How many of them are from the former generation: they have the lowest numbers, in the order of their former ranks.
    pub survivors: u16,
    /// Ranks of the former generation that are not in this one; the first 128 of them.
    pub lost: Vec<u16>,
}

impl From<&Resized> for Membership {
    fn from(resized: &Resized) -> Self {
        Self {
            generation: resized.generation,
            rank: resized.rank,
            world_size: resized.world,
            survivors: resized.survivors,
            lost: resized.lost.clone(),
        }
    }
}

impl Communicator {
    /// The generation of a [resizable](crate::Builder::resizable) job, from 1; 0 of others.
    pub fn generation(&self) -> u32 {
        self.resizer.as_ref().map_or(0, |resizer| resizer.arbiter.generation())
    }

    /// Where processes that [join](crate::Builder::join_running) a [resizable](crate::Builder::resizable) job without a control port reach this rank.
    pub fn membership_address(&self) -> Option<SocketAddr> {
        self.resizer.as_ref().and_then(|resizer| resizer.arbiter.address())
    }

    /// Continues without ranks that are lost: every rank that remains calls it, after an error that ended the job, and then the same operations
    /// again. The ranks agree on who remains and are numbered anew, in the order of their former ranks; the job keeps its name, its controller
    /// and its record there, and this process what it has: residuals, counters and the like. Operations that were in flight have failed.
    /// Groups of the former generation have ended: [split](Self::split) again.
    ///
    /// A rank that is connected and does not call it within `timeout` is not left out: the call fails with [`Error::NotResized`], which names
    /// it. A rank that was taken as lost, as it was suspended or cut off, and returns, receives [`Error::Excluded`].
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] unless the job is [resizable](crate::Builder::resizable); [`Error::NotResized`], [`Error::Excluded`]; those of
    /// [`connect`](crate::Builder::connect), as when another rank is lost meanwhile. After all but [`Error::Excluded`] it may be called again.
    pub fn shrink(&mut self, timeout: Duration) -> Result<Membership, Error> {
        self.resize(0, timeout)
    }

    /// Continues with `joining` more ranks, which [join](crate::Builder::join_running) under the job's name: every rank calls it at the same point, and waits until so many processes
    /// have come. They are numbered after the ranks that there are. Otherwise as [`shrink`](Self::shrink), without lost ranks. After
    /// [`Error::NotResized`] the communicator is as it was before.
    ///
    /// # Errors
    ///
    /// As for [`shrink`](Self::shrink).
    pub fn grow(&mut self, joining: u16, timeout: Duration) -> Result<Membership, Error> {
        self.resize(joining, timeout)
    }

    fn resize(&mut self, joining: u16, timeout: Duration) -> Result<Membership, Error> {
        if std::process::id() != self.router.owner {
            return Err(Error::Forked { owner: self.router.owner });
        }
        if self.resizer.is_none() {
            return Err(Error::Missing("resizable"));
        }
        let start = Instant::now();
        self.finish_operations(start + timeout);
        let resizer = self.resizer.as_ref().ok_or(Error::Missing("resizable"))?;
        let ip = self.place().map(|place| place.ip);
        let listener = ip.filter(|_| resizer.linked).map(|ip| TcpListener::bind((ip, 0)));
        let listener = listener.transpose().map_err(|error| Error::Mesh(Arc::new(error.into())))?;
        let meeting = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let left = timeout.saturating_sub(start.elapsed());
        let resized = resizer.arbiter.resize(joining, left, meeting)?;
        self.enter(&resized, listener)?;
        Ok(Membership::from(&resized))
    }

    /// Becomes a member of the next generation and does not enter it: what a process does that is killed in between. For tests.
    ///
    /// # Errors
    ///
    /// As for [`shrink`](Self::shrink).
    #[doc(hidden)]
    pub fn resize_only(&self, timeout: Duration) -> Result<(), Error> {
        let resizer = self.resizer.as_ref().ok_or(Error::Missing("resizable"))?;
        resizer.arbiter.resize(0, timeout, None).map(drop)
    }

    /// Waits until no operation is pending, or the job has failed.
    fn finish_operations(&self, deadline: Instant) {
        self.staging.get().iter().for_each(|staging| staging.finish());
        while self.is_busy() && self.failure().is_none() {
            if Instant::now() >= deadline {
                self.shutdown.fail(Error::Closed);
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Replaces the parts of the former generation by those of the new one.
    fn enter(&mut self, resized: &Resized, listener: Option<TcpListener>) -> Result<(), Error> {
        self.close(StopMode::Now);
        let Some(resizer) = &self.resizer else { return Err(Error::Missing("resizable")) };
        let config = generation_config(&resizer.config, resized);
        let exchange = meet(&config, resized, listener)?;
        let mut next = build(config, (resized.rank, resized.world), exchange)?;
        let former = self.stats();
        next.resizer = self.resizer.take().map(|resizer| Resizer { former, ..resizer });
        *self = next;
        Ok(())
    }
}

/// The configuration of a generation.
pub(crate) fn generation_config(config: &JobConfig, resized: &Resized) -> Arc<JobConfig> {
    Arc::new(JobConfig { generation: resized.generation, ..config.clone() })
}

/// How the ranks of a generation find each other, if they are linked.
pub(crate) fn meet(
    config: &JobConfig,
    resized: &Resized,
    listener: Option<TcpListener>,
) -> Result<Option<Box<dyn Exchange>>, Error> {
    let Resized { generation, rank, world, meeting, .. } = resized;
    let Some(address) = meeting else { return Ok(None) };
    let name = format!("generation {generation} {}", config.job.as_deref().unwrap_or_default());
    let name = name.get(..JOB_NAME_MAX.min(name.len())).unwrap_or("generation");
    let exchange = match listener.filter(|_| *rank == 0) {
        Some(listener) => TcpRendezvous::host(listener, name, *world, config.join_timeout),
        None => TcpRendezvous::new(*address, name, *rank, *world, config.join_timeout),
    };
    Ok(Some(Box::new(exchange.map_err(|error| Error::Exchange(Arc::new(error)))?)))
}
