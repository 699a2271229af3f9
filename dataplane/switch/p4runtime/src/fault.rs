//! Errors of calls, updates and patterns.

use netfold_p4::entry::EntryError;
use netfold_p4_runtime::google::{self, Any, Code};
use netfold_p4_runtime::{SchemaError, v1};
use prost::Message;
use tonic::Status;

/// Maximum bytes of text in the errors of one call. They are sent in trailers, of which clients accept little more than
/// 8 KiB; further errors have only their code.
const TEXT_MAX: usize = 3 << 10;

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

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::new(tonic::Code::from_i32(fault.code as i32), fault.message)
    }
}

/// The status of a call with several parts: one `p4.v1.Error` per part, in order, with code 0 for success. `Ok` when all
/// parts succeeded (specification 1.4.1, section 12.3).
pub(crate) fn of_parts(parts: &[Result<(), Fault>]) -> Result<(), Status> {
    let failed = parts.iter().filter(|part| part.is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    let mut left = TEXT_MAX;
    let details = parts.iter().map(|part| {
        let error = match part {
            Ok(()) => v1::Error::default(),
            Err(fault) => {
                let fits = fault.message.len() <= left;
                let message = if fits { fault.message.clone() } else { String::new() };
                left -= message.len();
                v1::Error { canonical_code: fault.code as i32, message, ..v1::Error::default() }
            }
        };
        Any::pack(&error)
    });
    let details: Vec<Any> = details.collect();
    let message = format!("{failed} of {} failed; see the details", parts.len());
    let status = google::Status { code: Code::Unknown as i32, message: message.clone(), details };
    Err(Status::with_details(tonic::Code::Unknown, message, status.encode_to_vec().into()))
}
