//! Why a call is refused: a gRPC status with a sentence for people and a reason for programs.

use std::collections::HashMap;

use crate::api::ERROR_DOMAIN;
use netfold_controller::command::CommandError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The reason in an error's `google.rpc.ErrorInfo`. docs/controller.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The controller requires a token and none was sent.
    TokenMissing,
    /// The token does not belong to the named tenant.
    TokenRefused,
    /// The token permits only reading.
    ReadOnly,
    /// Only an administrator may do it.
    AdminOnly,
    /// A tenant must name itself.
    TenantNeeded,
    /// The request is invalid.
    Invalid,
    /// There is no such tenant, job or switch.
    NotFound,
    /// It exists already.
    Exists,
    /// It is not possible in the current state.
    Conflict,
    /// A watcher did not read fast enough.
    FellBehind,
    /// Too many watchers at once.
    WatchersFull,
    /// The system has no random numbers for a token.
    NoRandomness,
    /// The controller shuts down, or its database has failed.
    ShuttingDown,
}

impl Reason {
    /// Every reason.
    pub const ALL: &'static [Self] = &[
        Self::TokenMissing,
        Self::TokenRefused,
        Self::ReadOnly,
        Self::AdminOnly,
        Self::TenantNeeded,
        Self::Invalid,
        Self::NotFound,
        Self::Exists,
        Self::Conflict,
        Self::FellBehind,
        Self::WatchersFull,
        Self::NoRandomness,
        Self::ShuttingDown,
    ];

    /// The name in the details of an error.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenMissing => "TOKEN_MISSING",
            Self::TokenRefused => "TOKEN_REFUSED",
            Self::ReadOnly => "READ_ONLY",
            Self::AdminOnly => "ADMIN_ONLY",
            Self::TenantNeeded => "TENANT_NEEDED",
            Self::Invalid => "INVALID",
            Self::NotFound => "NOT_FOUND",
            Self::Exists => "EXISTS",
            Self::Conflict => "CONFLICT",
            Self::FellBehind => "FELL_BEHIND",
            Self::WatchersFull => "WATCHERS_FULL",
            Self::NoRandomness => "NO_RANDOMNESS",
            Self::ShuttingDown => "SHUTTING_DOWN",
        }
    }
}

/// A status with its reason in the details.
pub(crate) fn refuse(code: Code, reason: Reason, message: impl Into<String>) -> Status {
    refuse_about(code, reason, message, HashMap::new())
}

fn refuse_about(
    code: Code,
    reason: Reason,
    message: impl Into<String>,
    about: HashMap<String, String>,
) -> Status {
    let details = ErrorDetails::with_error_info(reason.name(), ERROR_DOMAIN, about);
    Status::with_error_details(code, message, details)
}

pub(crate) fn invalid(message: impl Into<String>) -> Status {
    refuse(Code::InvalidArgument, Reason::Invalid, message)
}

/// The status of a missing object.
pub(crate) fn not_found(what: &str, name: impl Into<String>) -> Status {
    let name = name.into();
    let message = format!("there is no {what} '{name}': list them to see the names");
    let about = HashMap::from([("what".to_owned(), what.to_owned()), ("name".to_owned(), name)]);
    refuse_about(Code::NotFound, Reason::NotFound, message, about)
}

/// Converts an error of the control plane to a status.
pub(crate) trait IntoStatus {
    fn into_status(self) -> Status;
}

impl IntoStatus for CommandError {
    fn into_status(self) -> Status {
        let message = self.to_string();
        match self {
            Self::NotFound { what, name } => not_found(what, name),
            Self::Exists { what, name } => {
                let about = HashMap::from([("what".to_owned(), what.to_owned()), ("name".to_owned(), name)]);
                refuse_about(Code::AlreadyExists, Reason::Exists, message, about)
            }
            Self::NoLink { a, b, .. } => {
                let name = format!("{a} - {b}");
                let about =
                    HashMap::from([("what".to_owned(), "link".to_owned()), ("name".to_owned(), name)]);
                refuse_about(Code::NotFound, Reason::NotFound, message, about)
            }
            Self::Invalid(_) => invalid(message),
            Self::Conflict(_) => refuse(Code::FailedPrecondition, Reason::Conflict, message),
            Self::Gone => refuse(Code::Unavailable, Reason::ShuttingDown, message),
        }
    }
}
