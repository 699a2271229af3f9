//! The election of the leader, and the renewal of its lease.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_controller::record::{Change, StoredRecords};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::call::{Calls, put};
use super::records::{CHANGES_MAX, EtcdStore, Request, kept, operations};
use super::restore;
use super::wire::KeyValue;
use super::{EtcdConfig, EtcdError};
use crate::row;

/// Interval between a candidate's checks of the leader's key, and base of the delay between retries of a call.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

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
            let tried = runtime.block_on(async {
                let outcome = contend(&mut calls, &config).await;
                if !matches!(outcome, Ok(ElectionResult::Won(_))) {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                outcome
            });
            let now = match tried {
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
struct Term {
    lease: i64,
    revision: i64,
    renewed: Instant,
}

enum ElectionResult {
    Won(Term),
    /// Name of the leader.
    Lost(String),
}

pub(super) fn leader_key(prefix: &str) -> String {
    format!("{prefix}/leader")
}

/// Creates the leader's key, if there is none.
async fn contend(calls: &mut Calls, config: &EtcdConfig) -> Result<ElectionResult, Status> {
    let key = leader_key(&config.prefix);
    if let Some(leader) = calls.get(&key).await? {
        return Ok(ElectionResult::Lost(String::from_utf8_lossy(&leader.value).into_owned()));
    }
    let renewed = Instant::now();
    let lease = calls.grant(config.lease).await?;
    let made = put(key.clone(), config.name.clone().into_bytes(), lease);
    match calls.if_made_at((&key, 0), vec![made]).await {
        Ok((true, revision)) => Ok(ElectionResult::Won(Term { lease, revision, renewed })),
        Ok((false, _)) => {
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
        let leader = Leader {
            calls,
            prefix: config.prefix.clone(),
            lease: config.lease,
            term,
            epoch: 0,
            lost: Arc::clone(&lost),
        };
        let thread = std::thread::Builder::new().name("netfold-etcd".into());
        let thread = thread.spawn(move || runtime.block_on(leader.lead(queue, stopped)));
        let thread = Some(thread.map_err(EtcdError::Thread)?);
        // Revisions count up from 1.
        Ok(Self { term: term.revision.max(0) as u64, requests, lost, stop: Some(stop), thread })
    }

    /// The term, greater than that of every earlier leader.
    pub fn term(&self) -> u64 {
        self.term
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
struct Leader {
    calls: Calls,
    prefix: String,
    lease: Duration,
    term: Term,
    /// The greatest next epoch seen: it never decreases.
    epoch: u32,
    lost: Arc<OnceLock<String>>,
}

impl Leader {
    async fn lead(mut self, mut queue: mpsc::UnboundedReceiver<Request>, mut stopped: oneshot::Receiver<()>) {
        let renewing = tokio::spawn(self.clone().renew());
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
        renewing.abort();
        let _ = self.calls.revoke(self.term.lease).await;
    }

    /// Renews the lease until renewal has failed for too long.
    async fn renew(mut self) {
        loop {
            tokio::time::sleep(self.lease / 4).await;
            let began = Instant::now();
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
        changes.retain(|change| match change {
            Change::EpochNext(epoch) => {
                let later = *epoch > self.epoch;
                self.epoch = self.epoch.max(*epoch);
                later
            }
            _ => true,
        });
        self.change(operations(&self.prefix, &changes)).await
    }

    /// Applies changes while this controller is the leader. Each transaction is atomic, and retried while etcd does not respond:
    /// the operations are idempotent.
    async fn change(&mut self, operations: Vec<super::wire::RequestOp>) -> Result<(), EtcdError> {
        let key = leader_key(&self.prefix);
        for part in operations.chunks(CHANGES_MAX) {
            loop {
                if self.lost.get().is_some() {
                    return Err(self.leadership_lost());
                }
                match self.calls.if_made_at((&key, self.term.revision), part.to_vec()).await {
                    Ok((true, _)) => break,
                    Ok((false, _)) => {
                        self.give_up("another controller is the leader, or its lease in etcd has expired");
                        return Err(self.leadership_lost());
                    }
                    Err(status) => self.again(&status).await?,
                }
            }
        }
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
