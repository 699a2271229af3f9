//! Restoration of a backup to etcd, in place of what is there.
//!
//! The process that restores is the leader meanwhile, so that no controller uses the records. More keys than fit into one transaction are
//! written in several, between which the key `PREFIX/restoring` exists: no controller starts from records that are incomplete.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use netfold_controller::record::{Change, StoreError};

use super::call::{delete, put};
use super::records::{RESTORING, operations, pair};
use super::wire::{KeyValue, RequestOp};
use super::{Candidate, CandidateStatus, EtcdConfig, EtcdError};
use crate::backup::Backup;

/// How long etcd may not respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a backup is not restored to etcd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdRestoreError {
    /// A controller uses the records, or its lease has not expired yet.
    #[error(
        "controller {leader} is the leader: stop all controllers of this prefix, and wait until the lease of the last one has expired"
    )]
    InUse {
        /// Its name.
        leader: String,
    },
    /// There are records already.
    #[error(
        "etcd has records with the prefix {prefix}: give another --etcd-prefix, or replace them with --replace"
    )]
    Exists {
        /// The prefix of their keys.
        prefix: String,
    },
    /// etcd does not respond.
    #[error("{0}")]
    Unreachable(String),
    /// etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// Reading failed; nothing has changed.
    #[error("cannot read what etcd has; nothing is changed")]
    Read(#[source] StoreError),
    /// Writing failed.
    #[error("the restoration is incomplete, and no controller starts from it: repeat it with --replace")]
    Write(#[source] StoreError),
}

/// Restores a backup to etcd, while no controller of that prefix runs. Records are replaced only if `replace`. The next epoch never
/// decreases.
///
/// # Errors
/// [`EtcdRestoreError`]; only after [`EtcdRestoreError::Write`] anything may have changed.
pub fn restore(backup: &Backup, config: EtcdConfig, replace: bool) -> Result<(), EtcdRestoreError> {
    let prefix = config.prefix.clone();
    let mut found = CandidateStatus::Leader(String::new());
    let start = Instant::now();
    let leadership = Candidate::new(config)?.wait(|status, _| {
        found = status.clone();
        matches!(status, CandidateStatus::Etcd(_)) && start.elapsed() < RESPONSE_TIMEOUT
    })?;
    let Some(leadership) = leadership else {
        return Err(match found {
            CandidateStatus::Leader(leader) => EtcdRestoreError::InUse { leader },
            CandidateStatus::Etcd(message) => EtcdRestoreError::Unreachable(message),
        });
    };
    let mut store = leadership.store();
    if !replace && !store.is_empty().map_err(EtcdRestoreError::Read)? {
        return Err(EtcdRestoreError::Exists { prefix });
    }
    store.replace(backup.changes().collect()).map_err(EtcdRestoreError::Write)
}

/// The operations that put changes in the place of rows: keys that the changes do not have are deleted, but for the leader's.
pub(super) fn replacement(prefix: &str, rows: &[KeyValue], changes: &[Change]) -> Vec<RequestOp> {
    let mut kept: BTreeSet<String> = changes.iter().map(|change| pair(prefix, change).0).collect();
    kept.extend([super::election::leader_key(prefix), marker_key(prefix)]);
    let keys = rows.iter().map(|row| String::from_utf8_lossy(&row.key).into_owned());
    let mut all: Vec<RequestOp> = keys.filter(|key| !kept.contains(key)).map(delete).collect();
    all.extend(operations(prefix, changes));
    all
}

fn marker_key(prefix: &str) -> String {
    format!("{prefix}/{RESTORING}")
}

/// The operation that begins a restoration.
pub(super) fn begin(prefix: &str) -> RequestOp {
    put(marker_key(prefix), vec![1], 0)
}

/// The operation that completes it.
pub(super) fn complete(prefix: &str) -> RequestOp {
    delete(marker_key(prefix))
}
