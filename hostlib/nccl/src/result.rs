//! Return codes and failures.

use core::ffi::c_int;
use std::fmt;

/// `ncclResult_t`, as far as this plugin returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    /// The machine or the network refused.
    System = 2,
    /// A bug, here or in the caller.
    Internal = 3,
    /// An invalid argument.
    Argument = 4,
    /// Calls that do not match.
    Usage = 5,
    /// Another rank, or the connection to it, was lost.
    Remote = 6,
}

/// A failed call: the code for NCCL, and the message for its log.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::Argument, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// The system's error while doing `what`.
    pub(crate) fn system(what: &str, error: impl fmt::Display) -> Self {
        Self::new(Code::System, format!("{what}: {error}"))
    }

    pub(crate) fn remote(message: impl Into<String>) -> Self {
        Self::new(Code::Remote, message)
    }

    /// As a return value.
    pub(crate) fn returned(&self) -> c_int {
        self.code as c_int
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<netfold::Error> for Failure {
    fn from(error: netfold::Error) -> Self {
        let code = match error.kind() {
            "peer_lost" | "mesh" | "leader" => Code::Remote,
            "mismatch" | "differs" => Code::Usage,
            "unsupported" | "argument" | "length" | "root" => Code::Argument,
            "engine_failed" => Code::Internal,
            _ => Code::System,
        };
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(source) = cause {
            message = format!("{message}: {source}");
            cause = source.source();
        }
        Self { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_library_become_ncclresults() {
        let lost = netfold::Error::PeerLost { rank: 3, message: "gone".into() };
        assert_eq!(Failure::from(lost).returned(), 6);
        assert_eq!(Failure::from(netfold::Error::EngineFailed).returned(), 3);
        assert_eq!(Failure::from(netfold::Error::SwitchLost { what: "x".into() }).returned(), 2);
    }
}
