//! Several controllers, one of which is the leader: records in etcd, and the election of the leader.
//!
//! # Election
//!
//! The leader is the controller that created the key `PREFIX/leader`, which is bound to a lease that the leader renews. The revision at
//! which the key was created is the leader's *term*, greater than that of every earlier leader. The term guards all writes, so that a
//! former leader that was suspended, and has not noticed that it lost the leadership, changes nothing:
//!
//! - each change of the records is a transaction conditional on a leader's key of this term, written as often as there were changes
//!   before: an attempt that arrives after it was repeated changes nothing, either;
//! - each switch receives an election id that increases with the term (P4Runtime specification, section 5), and accepts writes
//!   only from the controller with the greatest.
//!
//! A leader that could not renew its lease for three quarters of the lease time gives up the leadership. Standbys check several
//! times a second whether the key has been deleted.
//!
//! # What is stored
//!
//! The same records as [in a file](crate::store), one key each: `PREFIX/tenants/NAME`, `PREFIX/jobs/TENANT/JOB`, `PREFIX/places/NUMBER`,
//! `PREFIX/switches/NAME`, `PREFIX/epoch_next`; a value is one byte of version and JSON. Changes applied together are one transaction
//! of up to [`CHANGES_MAX`] keys; more are split into several, in order. While a backup is [restored](restore()), there is `PREFIX/restoring`.
//!
//! Interface: etcd 3.4 and later, `etcdserverpb` over gRPC.

mod call;
mod election;
mod records;
mod restore;
#[cfg(test)]
mod simulation;

pub use election::{Candidate, CandidateStatus, Leadership};
pub use records::{CHANGES_MAX, EtcdStore};
pub use restore::{EtcdRestoreError, restore};

use std::path::PathBuf;
use std::time::Duration;

/// etcd's messages and stubs.
mod wire {
    #![expect(
        unreachable_pub,
        clippy::allow_attributes_without_reason,
        clippy::enum_variant_names,
        reason = "generated from proto/etcd.proto, which is commented"
    )]
    include!("generated/etcdserverpb.rs");
}

/// etcd's addresses, and this candidate.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    /// Its members, `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Prefix of all keys; controllers with the same prefix form one cluster.
    pub prefix: String,
    /// This controller's name in messages.
    pub name: String,
    /// How long a leader that does not renew its lease keeps the leadership, 2 seconds to an hour.
    pub lease: Duration,
    /// How its certificate is verified, if it is reached by TLS.
    pub tls: Option<EtcdTls>,
}

/// TLS to etcd. Files are PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The certificate authority of etcd.
    pub ca: PathBuf,
    /// The client's certificate and key, if etcd requires them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why etcd cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// An address is invalid.
    #[error("'{0}' is not an address of etcd: give http://HOST:PORT or https://HOST:PORT")]
    Endpoint(String),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The lease is too short or too long.
    #[error("a lease of {0:?} is out of range: give 2 seconds to an hour")]
    Lease(Duration),
    /// TLS cannot be set up.
    #[error("cannot set up TLS to etcd: check the PEM files")]
    Tls(#[source] tonic::transport::Error),
    /// It does not respond, or refuses.
    #[error("etcd at {endpoints} failed: {message}")]
    Call {
        /// Its members.
        endpoints: String,
        /// The error of etcd or the system.
        message: String,
    },
    /// Another controller is the leader, or there is none.
    #[error("this controller is no longer the leader: {0}")]
    LeadershipLost(String),
    /// A record that this build cannot read.
    #[error("cannot read etcd's record {key}: use the build that wrote it, or another prefix")]
    Record {
        /// Its key.
        key: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A restoration was interrupted.
    #[error("a backup was not restored completely: repeat `netfold controller restore --replace`")]
    Restoring,
    /// The system cannot create a thread.
    #[error("cannot start a thread; check the process's limits")]
    Thread(#[source] std::io::Error),
}
