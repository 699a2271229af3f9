//! Which connections a listener keeps: the one policy of every TCP and Unix listener.
//!
//! [`ConnectionAdmission`] is a machine without I/O: its caller accepts, reads and closes connections, and passes it the time. It limits
//! the connections of a listener and of each [`Source`], has a deadline for the first message, and closes idle connections that are not
//! authenticated before it refuses any, so that silent connections exclude no client. [`AcceptBackoff`] says when to accept again after
//! an error. Numbers of each listener are in [`policy`], and what was closed is counted in [`ListenerCounters`], for which
//! [`ClosureLog`] makes log lines at a limited rate.
//!
//! [`HelloQueue`] is the same for listeners without an asynchronous runtime whose connections begin with a hello of fixed length.
//! With the feature `tokio`, `acceptor` accepts TCP connections by this policy; with `grpc`, tonic serves them.
//!
//! ```
//! use std::time::Duration;
//! use netfold_listener::{ConnectionAdmission, Source, policy};
//!
//! let mut admission = ConnectionAdmission::new(policy::MESH);
//! let source = Source::from("192.0.2.1".parse::<std::net::IpAddr>().unwrap());
//! let admitted = admission.admit(Duration::ZERO, source).unwrap();
//! assert_eq!(admitted.evicted, None);
//! // It sends nothing: it is to be closed at its deadline.
//! let deadline = admission.next_deadline().unwrap();
//! assert_eq!(admission.expire(deadline), Some(admitted.id));
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod acceptor;
mod admission;
mod backoff;
mod counters;
#[cfg(feature = "grpc")]
pub mod grpc;
mod hello;
mod log;
pub mod policy;
mod source;

pub use admission::{Admitted, ConnectionAdmission, ConnectionId};
pub use backoff::AcceptBackoff;
pub use counters::{Closure, ListenerCounters};
pub use hello::HelloQueue;
pub use log::ClosureLog;
pub use policy::Policy;
pub use source::Source;
