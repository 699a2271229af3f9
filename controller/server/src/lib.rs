//! Netfold's controller as a process: [its database](store), [access control](access), and [gRPC, page and metrics](Frontend).
//!
//! `netfold-controller` is the control plane itself; this package makes it durable and serves it to others. docs/controller.md
//! is the administrator's page.
#![forbid(unsafe_code)]

pub mod access;
pub mod api;
pub mod backup;
mod controller;
pub mod dev;
pub mod etcd;
mod frontend;
mod grpc;
mod health;
mod host;
mod http;
mod listener;
pub mod metrics;
mod refusal;
mod response;
mod row;
mod standby;
pub mod store;
mod tls;

pub use controller::{Controller, ControllerConfig, ControllerError, JobConfig, RecordLocation};
pub use frontend::{Frontend, FrontendConfig, FrontendError};
pub use grpc::{REQUEST_LEN_MAX, VERSION_HEADER, WATCHERS_MAX};
pub use refusal::Reason;
pub use standby::StandbyServer;
pub use store::Database;
pub use tls::{Tls, TlsError};
