//! Workers of a benchmark that join through a control port, at whatever switches it gives them.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::thread;

use netfold::{Builder, Communicator, Error, Mode};

use super::{AllReduceConfig, BenchError, STALL};

/// How the workers join.
#[derive(Debug, Clone, PartialEq)]
pub struct Controlled {
    /// The control port, a controller's or a switch's own: `HOST:PORT`.
    pub controller: String,
    /// File (PEM) of the authorities of its certificate, where it is talked to by TLS.
    pub ca: Option<PathBuf>,
    /// Tenant and token, where the control port asks for them.
    pub tenant: Option<(String, String)>,
    /// Name of the job.
    pub job: String,
    /// Trees to lay the job over.
    pub trees: u8,
    /// Addresses of the workers in turn, each with an address for each tree in turn; none: the one that leads to the control port.
    pub bind: Vec<Vec<IpAddr>>,
    /// Whether the workers are linked, and go on without a switch that is refused or lost.
    pub rendezvous: bool,
}

impl Controlled {
    /// How one worker joins, by its rank and the number of workers; never through memory that it shares with others of its host.
    pub(crate) fn builder(
        &self,
        (rank, workers): (u16, u16),
        mode: Mode,
        slots: u32,
    ) -> Result<Builder, Error> {
        let mut builder = Communicator::builder()
            .job(self.job.as_str())
            .rank(rank)
            .world_size(workers)
            .mode(mode)
            .slots(slots)
            .stall_timeout(STALL)
            .shared_memory(false)
            .trees(self.trees)
            .controller(self.controller.as_str())?;
        if let Some(file) = &self.ca {
            builder = builder.controller_ca(file);
        }
        if let Some((tenant, token)) = &self.tenant {
            builder = builder.tenant(tenant, token);
        }
        if let Some(addresses) = self.bind.iter().cycle().nth(usize::from(rank)) {
            builder = builder.bind(addresses.iter().copied());
        }
        Ok(builder)
    }
}

/// All workers, by rank, once all are admitted.
///
/// # Errors
///
/// [`BenchError::Job`]; of several, the refusal.
pub(super) fn join(config: &AllReduceConfig, how: &Controlled) -> Result<Vec<Communicator>, BenchError> {
    let meeting = how.rendezvous.then(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let meeting = meeting.transpose().map_err(BenchError::Meeting)?;
    // Free again until rank 0 listens there, which is at once.
    let at = meeting.map(|listener| listener.local_addr()).transpose().map_err(BenchError::Meeting)?;
    let join = |rank: u16| -> Result<Communicator, Error> {
        let builder = how.builder((rank, config.workers), config.mode, config.slots)?;
        match at {
            Some(at) => builder.rendezvous(at)?.connect(),
            None => builder.connect(),
        }
    };
    let outcomes: Vec<Result<Communicator, BenchError>> = thread::scope(|scope| {
        let joining: Vec<_> =
            (0..config.workers).map(|rank| (rank, scope.spawn(move || join(rank)))).collect();
        let joined = |(rank, thread): (u16, thread::ScopedJoinHandle<'_, Result<Communicator, Error>>)| {
            let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome.map_err(|source| BenchError::Job { rank, source })
        };
        joining.into_iter().map(joined).collect()
    });
    let refused = |outcome: &Result<_, BenchError>| {
        matches!(outcome, Err(BenchError::Job { source: Error::Refused { .. }, .. }))
    };
    if outcomes.iter().any(refused) {
        let refusal = outcomes.into_iter().find(refused);
        return refusal.map_or(Err(BenchError::SwitchGone), |refusal| refusal.map(|worker| vec![worker]));
    }
    outcomes.into_iter().collect()
}
