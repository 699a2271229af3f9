//! Several controllers, of which one is in charge: records in etcd, and the election of who may change them.
//!
//! # Who is in charge
//!
//! Whoever has made the key `PREFIX/leader`, which goes with a lease that its maker renews. The revision at which it was made is the
//! leader's *term*: greater than that of every leader before. The term guards all that a leader does, so that one that was stopped for
//! a while, and does not know yet that it is in charge no more, changes nothing:
//!
//! - each change of the records is a transaction that asks for a leader's key of this term;
//! - each switch is told an election id that grows with the term (P4Runtime specification, section 5), and takes writes from
//!   the controller with the greatest alone.
//!
//! A leader that could not renew its lease for three quarters of its time gives up by itself. Others look several times a second
//! whether the key is gone.
//!
//! # What is stored
//!
//! The same records as [in a file](crate::store), one key each: `PREFIX/tenants/NAME`, `PREFIX/jobs/TENANT/JOB`, `PREFIX/places/NUMBER`,
//! `PREFIX/switches/NAME`, `PREFIX/epoch_next`; a value is one byte of version and JSON. What is kept at once is one transaction,
//! up to [`CHANGES_MAX`] keys; more than that goes in several, in order.
//!
//! Interface: etcd 3.4 and later, `etcdserverpb` over gRPC.

mod call;
mod election;
mod records;

pub use election::{Candidate, CandidateStatus, Leadership};
pub use records::{CHANGES_MAX, EtcdStore};

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
    tonic::include_proto!("etcdserverpb");
}

/// Where etcd is, and who contends.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    /// Its members, `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// What all keys begin with; controllers of the same prefix are one cluster's.
    pub prefix: String,
    /// What this controller is called, for people.
    pub name: String,
    /// How long a leader that is not heard of stays in charge, 2 seconds to an hour.
    pub lease: Duration,
    /// By what its certificate is judged, where it is reached by TLS.
    pub tls: Option<EtcdTls>,
}

/// TLS to etcd. Files are PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// Whom to trust to be etcd.
    pub ca: PathBuf,
    /// This side's certificate and key, where etcd asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why etcd is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// An address is none.
    #[error("'{0}' is no address of etcd: give http://HOST:PORT or https://HOST:PORT")]
    Endpoint(String),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The lease is too short or too long.
    #[error("a lease of {0:?}: give 2 seconds to an hour")]
    Lease(Duration),
    /// TLS cannot be set up.
    #[error("TLS to etcd cannot be set up: check the PEM files")]
    Tls(#[source] tonic::transport::Error),
    /// It does not answer, or refuses.
    #[error("etcd at {endpoints} fails: {message}")]
    Call {
        /// Its members.
        endpoints: String,
        /// What it said, or the system did.
        message: String,
    },
    /// Another controller is in charge, or nobody.
    #[error("this controller is no longer in charge: {0}")]
    LeadershipLost(String),
    /// A row is none that this build knows.
    #[error("etcd has a record that cannot be read, {key}: use the build that wrote it, or another prefix")]
    Record {
        /// Its key.
        key: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refused a thread.
    #[error("cannot start a thread; check the process's limits")]
    Thread(#[source] std::io::Error),
}
