//! The election of the leader, and the renewal of its lease.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_controller::record::{Change, StoredRecords};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::call::{Calls, Conditional, Etcd, KeyState, put};
use super::records::{CHANGES_MAX, EtcdStore, Request, kept, operations};
use super::restore;
use super::wire::{KeyValue, RequestOp};
use super::{EtcdConfig, EtcdError};
use crate::row;

/// Interval between a candidate's checks of the leader's key, and base of the delay between retries of a call.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Why a leader gives up whose key in etcd is not there any more, or another's.
pub(super) const DEPOSED: &str = "another controller is the leader, or its lease in etcd has expired";

const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(3600);

/// Why a candidate is not the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateStatus {
    /// The controller of this name is the leader.
    Leader(String),
    /// etcd does not respond, for this reason.
    Etcd(String),
}

/// A controller that is not the leader yet.
#[derive(Debug)]
pub struct Candidate {
    runtime: Runtime,
    calls: Calls,
    config: EtcdConfig,
}

impl Candidate {
    /// A candidate that has not contacted etcd yet.
    ///
    /// # Errors
    /// [`EtcdError::Endpoint`], [`EtcdError::Lease`], [`EtcdError::Read`], [`EtcdError::Tls`], [`EtcdError::Thread`].
    pub fn new(config: EtcdConfig) -> Result<Self, EtcdError> {
        if !LEASES.contains(&config.lease) {
            return Err(EtcdError::Lease(config.lease));
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(EtcdError::Thread)?;
        let calls = {
            let _within = runtime.enter();
            Calls::new(&config)?
        };
        Ok(Self { runtime, calls, config })
    }

    /// Waits until this controller is the leader. `status_callback` receives the current status, and whether it differs from the one
    /// before; it returns whether to continue. `Ok(None)` if it returned `false`.
    ///
    /// # Errors
    /// [`EtcdError::Thread`]. It is no error that etcd does not respond: the call is retried.
    pub fn wait(
        self,
        mut status_callback: impl FnMut(&CandidateStatus, bool) -> bool,
    ) -> Result<Option<Leadership>, EtcdError> {
        let Self { runtime, mut calls, config } = self;
        let mut previous = None;
        loop {
            let now = match runtime.block_on(attempt(&mut calls, &config)) {
                Ok(ElectionResult::Won(term)) => {
                    return Leadership::begin(runtime, calls, &config, term).map(Some);
                }
                Ok(ElectionResult::Lost(name)) => CandidateStatus::Leader(name),
                Err(status) => CandidateStatus::Etcd(calls.failed(&status).to_string()),
            };
            let changed = previous.as_ref() != Some(&now);
            if !status_callback(&now, changed) {
                return Ok(None);
            }
            previous = Some(now);
        }
    }
}

/// A term: its lease, when the lease was last renewed, and the revision that identifies the term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    lease: i64,
    pub(super) revision: i64,
    renewed: Instant,
}

pub(super) enum ElectionResult {
    Won(Term),
    /// Name of the leader.
    Lost(String),
}

pub(super) fn leader_key(prefix: &str) -> String {
    format!("{prefix}/leader")
}

/// Contends once; waits before the next attempt, unless this one was won.
pub(super) async fn attempt(calls: &mut impl Etcd, config: &EtcdConfig) -> Result<ElectionResult, Status> {
    let outcome = contend(calls, config).await;
    if !matches!(outcome, Ok(ElectionResult::Won(_))) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    outcome
}

/// Creates the leader's key, if there is none.
async fn contend(calls: &mut impl Etcd, config: &EtcdConfig) -> Result<ElectionResult, Status> {
    let key = leader_key(&config.prefix);
    if let Some(leader) = calls.get(&key).await? {
        return Ok(ElectionResult::Lost(String::from_utf8_lossy(&leader.value).into_owned()));
    }
    let renewed = Instant::now();
    let lease = calls.grant(config.lease).await?;
    let made = put(key.clone(), config.name.clone().into_bytes(), lease);
    match calls.execute_if(&key, KeyState::default(), vec![made]).await {
        Ok(Conditional::Done(revision)) => Ok(ElectionResult::Won(Term { lease, revision, renewed })),
        Ok(Conditional::Differs(_)) => {
            let _ = calls.revoke(lease).await;
            Ok(ElectionResult::Lost(String::new()))
        }
        Err(status) => {
            // The key may have been created: then there is no leader until the lease is revoked or expires.
            let _ = calls.revoke(lease).await;
            Err(status)
        }
    }
}

/// The leadership. Dropping it revokes the lease, so that another controller can take over at once.
#[derive(Debug)]
pub struct Leadership {
    term: u64,
    lease: Duration,
    requests: mpsc::UnboundedSender<Request>,
    lost: Arc<OnceLock<String>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Leadership {
    fn begin(runtime: Runtime, calls: Calls, config: &EtcdConfig, term: Term) -> Result<Self, EtcdError> {
        let (requests, queue) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let lost = Arc::<OnceLock<String>>::default();
        let leader = Leader::new(calls, config, term, Arc::clone(&lost));
        let thread = std::thread::Builder::new().name("netfold-etcd".into());
        let thread = thread.spawn(move || runtime.block_on(leader.lead(queue, stopped)));
        let thread = Some(thread.map_err(EtcdError::Thread)?);
        // Revisions count up from 1.
        let (term, stop) = (term.revision.max(0) as u64, Some(stop));
        Ok(Self { term, lease: config.lease, requests, lost, stop, thread })
    }

    /// The term, greater than that of every earlier leader.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// How long it goes on at most once it has lost the leadership, unless it is suspended.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The records.
    pub fn store(&self) -> EtcdStore {
        EtcdStore { requests: self.requests.clone() }
    }

    /// Why the leadership was lost, if it was: the controller must stop then.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the leader's thread.
#[derive(Clone)]
pub(super) struct Leader<E> {
    calls: E,
    prefix: String,
    name: String,
    lease: Duration,
    term: Term,
    /// The greatest next epoch stored: it never decreases.
    epoch: u32,
    /// Version of the leader's key: each transaction of the term counts it up by one.
    version: i64,
    /// The last transaction may be carried out or not.
    unsettled: bool,
    lost: Arc<OnceLock<String>>,
}

impl<E: Etcd> Leader<E> {
    /// `lost` receives the reason when the leadership is lost.
    pub(super) fn new(calls: E, config: &EtcdConfig, term: Term, lost: Arc<OnceLock<String>>) -> Self {
        let (prefix, name) = (config.prefix.clone(), config.name.clone());
        Self { calls, prefix, name, lease: config.lease, term, epoch: 0, version: 1, unsettled: false, lost }
    }

    /// Answers requests and renews the lease until it is stopped or has no store any more, then revokes the lease.
    pub(super) async fn lead(
        mut self,
        queue: mpsc::UnboundedReceiver<Request>,
        stopped: oneshot::Receiver<()>,
    ) {
        let mut serving = self.clone();
        tokio::select! {
            biased;
            () = serving.serve(queue, stopped) => {}
            // Requests are answered also when the leadership is lost.
            never = async { self.clone().renew().await; std::future::pending::<()>().await } => never,
        }
        let _ = self.calls.revoke(self.term.lease).await;
    }

    async fn serve(
        &mut self,
        mut queue: mpsc::UnboundedReceiver<Request>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                request = queue.recv() => match request {
                    Some(Request::Load(reply)) => drop(reply.send(self.load().await)),
                    Some(Request::Apply(changes, reply)) => drop(reply.send(self.apply(changes).await)),
                    Some(Request::IsEmpty(reply)) => drop(reply.send(self.is_empty().await)),
                    Some(Request::Replace(changes, reply)) => drop(reply.send(self.replace(changes).await)),
                    None => break,
                },
            }
        }
    }

    /// Renews the lease until renewal has failed for too long.
    async fn renew(mut self) {
        let mut began = self.term.renewed;
        loop {
            // Counted from the last attempt: one that was answered while this process was suspended may be long past.
            tokio::time::sleep_until(began + self.lease / 4).await;
            began = Instant::now();
            let end = self.term.renewed + self.lease * 3 / 4;
            let kept = tokio::time::timeout_at(end, self.calls.keep(self.term.lease)).await;
            let timed_out = |_| Err(Status::deadline_exceeded("the call timed out"));
            match kept.unwrap_or_else(timed_out) {
                Ok(true) => self.term.renewed = began,
                Ok(false) => return self.give_up("its lease in etcd has expired"),
                Err(status) if Instant::now() >= end => {
                    return self.give_up(&self.calls.failed(&status).to_string());
                }
                Err(_) => {}
            }
        }
    }

    fn give_up(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    fn leadership_lost(&self) -> EtcdError {
        EtcdError::LeadershipLost(self.lost.get().cloned().unwrap_or_default())
    }

    async fn load(&mut self) -> Result<StoredRecords, EtcdError> {
        let rows = self.rows().await?;
        let kept = kept(&self.prefix, rows)?;
        self.epoch = self.epoch.max(kept.epoch_next);
        Ok(kept)
    }

    /// All keys of the prefix.
    async fn rows(&mut self) -> Result<Vec<KeyValue>, EtcdError> {
        let prefix = format!("{}/", self.prefix);
        loop {
            match self.calls.all(&prefix).await {
                Ok(rows) => return Ok(rows),
                Err(status) => self.again(&status).await?,
            }
        }
    }

    async fn is_empty(&mut self) -> Result<bool, EtcdError> {
        match self.load().await {
            Ok(records) => Ok(records == StoredRecords::default()),
            Err(EtcdError::Restoring | EtcdError::Record { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts changes in the place of all records, whatever they are. The next epoch is not below that of the records, if they can be read.
    async fn replace(&mut self, mut changes: Vec<Change>) -> Result<(), EtcdError> {
        let rows = self.rows().await?;
        let epoch_key = format!("{}/epoch_next", self.prefix);
        let epoch_row = rows.iter().find(|row| row.key == epoch_key.as_bytes());
        let known = epoch_row.and_then(|row| row::decode(&row.value).ok()).unwrap_or(0);
        for change in &mut changes {
            if let Change::EpochNext(epoch) = change {
                *epoch = known.max(*epoch);
            }
        }
        self.change(vec![restore::begin(&self.prefix)]).await?;
        self.change(restore::replacement(&self.prefix, &rows, &changes)).await?;
        self.change(vec![restore::complete(&self.prefix)]).await
    }

    async fn apply(&mut self, mut changes: Vec<Change>) -> Result<(), EtcdError> {
        let mut stored = self.epoch;
        changes.retain(|change| match change {
            Change::EpochNext(epoch) => {
                let later = *epoch > stored;
                stored = stored.max(*epoch);
                later
            }
            _ => true,
        });
        self.change(operations(&self.prefix, &changes)).await?;
        self.epoch = stored;
        Ok(())
    }

    /// Applies changes while this controller is the leader, in transactions of [`CHANGES_MAX`] keys.
    async fn change(&mut self, operations: Vec<RequestOp>) -> Result<(), EtcdError> {
        for part in operations.chunks(CHANGES_MAX) {
            if self.unsettled {
                self.transact(&[]).await?;
            }
            self.transact(part).await?;
        }
        Ok(())
    }

    /// Executes operations atomically, as the next transaction of the term; retried while etcd does not respond.
    ///
    /// A transaction requires the leader's key of this term, written as often as there were transactions before, and writes it. So an
    /// attempt that arrives late changes nothing, be it after one that succeeded, after the next transaction, or after another leader.
    /// One that has failed may still be carried out, until the next is: that must then be an empty one, of which it does not matter
    /// which of the two it was.
    async fn transact(&mut self, operations: &[RequestOp]) -> Result<(), EtcdError> {
        let key = leader_key(&self.prefix);
        let before = KeyState { created: self.term.revision, version: self.version };
        let after = KeyState { version: self.version + 1, ..before };
        let count = put(key.clone(), self.name.clone().into_bytes(), self.term.lease);
        let operations: Vec<_> = operations.iter().cloned().chain([count]).collect();
        self.unsettled = true;
        loop {
            if self.lost.get().is_some() {
                return Err(self.leadership_lost());
            }
            match self.calls.execute_if(&key, before, operations.clone()).await {
                Ok(Conditional::Done(_)) => break,
                // An earlier attempt was carried out.
                Ok(Conditional::Differs(found)) if found == after => break,
                Ok(Conditional::Differs(_)) => {
                    self.give_up(DEPOSED);
                    return Err(self.leadership_lost());
                }
                Err(status) => self.again(&status).await?,
            }
        }
        self.version = after.version;
        self.unsettled = false;
        Ok(())
    }

    /// Waits before a retry, if the failure is temporary; otherwise returns the error.
    async fn again(&self, status: &Status) -> Result<(), EtcdError> {
        let temporary = matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
        );
        if !temporary || self.lost.get().is_some() {
            return Err(self.calls.failed(status));
        }
        tokio::time::sleep(POLL_INTERVAL / 4).await;
        Ok(())
    }
}
