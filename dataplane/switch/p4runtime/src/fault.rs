//! Errors of calls, updates and patterns.

use netfold_p4::entry::EntryError;
use netfold_p4_runtime::SchemaError;
use netfold_p4_runtime::google::Code;

/// Longest message, in bytes.
const MESSAGE_MAX: usize = 300;

/// Error of a call, an update or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_MAX {
            let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
        }
        Self { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The switch's thread has ended.
    pub(crate) fn stopped() -> Self {
        Self::new(Code::Unavailable, "the switch has stopped")
    }
}

impl From<SchemaError> for Fault {
    fn from(error: SchemaError) -> Self {
        let text = match &error {
            SchemaError::Range { name, source } => format!("{name}: {source}"),
            other => other.to_string(),
        };
        Self::new(error.code(), text)
    }
}

impl From<EntryError> for Fault {
    fn from(error: EntryError) -> Self {
        let code = match error {
            EntryError::Exists => Code::AlreadyExists,
            EntryError::NotFound | EntryError::Table(_) => Code::NotFound,
            EntryError::Full(_) => Code::ResourceExhausted,
            _ => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}
