//! Errors as the statuses of gRPC.

use netfold_p4_runtime::google::{self, Any, Code};
use netfold_p4_runtime::v1;
use prost::Message;
use tonic::Status;

use crate::fault::Fault;

/// Maximum bytes of text in the errors of one call. They are sent in trailers, of which clients accept little more than
/// 8 KiB; further errors have only their code.
const TEXT_MAX: usize = 3 << 10;

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
