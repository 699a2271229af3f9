//! Operations in flight.

use std::ffi::c_void;
use std::time::Duration;

use netfold::{CudaStream, CudaWork, Work};

use crate::guard::{guard, put, reference};
use crate::result::{Failure, netfold_result};

/// An operation in flight; freed by netfold_work_free, which does not stop it.
pub struct netfold_work {
    work: Work,
    /// Of an operation on memory of a CUDA device.
    cuda: Option<CudaWork>,
}

impl netfold_work {
    pub(crate) fn new(work: Work) -> Self {
        Self { work, cuda: None }
    }

    pub(crate) fn on_device(work: CudaWork) -> Self {
        Self { work: work.work().clone(), cuda: Some(work) }
    }
}

/// Waits until the operation is over, at most `timeout_ms` milliseconds (negative: without bound), and returns how it ended;
/// NETFOLD_RESULT_AGAIN when it is still under way. Any thread, any number of times.
///
/// # Safety
///
/// `work` is null or an operation that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_work_wait(work: *const netfold_work, timeout_ms: i64) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let work = unsafe { reference(work, "work") }?;
        let outcome = match u64::try_from(timeout_ms) {
            Ok(ms) => work.work.wait_timeout(Duration::from_millis(ms)),
            Err(_) => Some(work.work.wait()),
        };
        match outcome {
            Some(outcome) => outcome.map(drop).map_err(Failure::from),
            None => Err(Failure::new(netfold_result::Again, "the operation is still under way")),
        }
    })
}

/// Writes whether the operation is over to `*done`, without waiting, and returns NETFOLD_RESULT_OK or how it failed.
///
/// # Safety
///
/// `work` is null or an operation that was not freed; `done` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_work_test(work: *const netfold_work, done: *mut bool) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let work = unsafe { reference(work, "work") }?;
        let outcome = work.work.outcome();
        // SAFETY: by this function's contract.
        unsafe { put(done, outcome.is_some(), "done") }?;
        outcome.map_or(Ok(()), |outcome| outcome.map(drop).map_err(Failure::from))
    })
}

/// Writes how many chunks of the tensor lack any rank's contribution to `*partial`, the same on every rank, and how many lack this rank's to
/// `*left_out`, each unless it is NULL. Returns how the operation ended, without waiting; NETFOLD_RESULT_AGAIN when it is still under way.
///
/// # Safety
///
/// `work` is null or an operation that was not freed; `partial` and `left_out` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_work_left_out(
    work: *const netfold_work,
    partial: *mut u32,
    left_out: *mut u32,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let work = unsafe { reference(work, "work") }?;
        let under_way = || Failure::new(netfold_result::Again, "the operation is still under way");
        let report = work.work.outcome().ok_or_else(under_way)?.map_err(Failure::from)?;
        for (out, count) in [(partial, report.partial), (left_out, report.left_out)] {
            if !out.is_null() {
                // SAFETY: not null, and valid by this function's contract.
                unsafe { put(out, count, "out") }?;
            }
        }
        Ok(())
    })
}

/// Makes what is given to `stream` (a cudaStream_t or CUstream) from now on wait for the output of an operation that netfold_comm_start_cuda
/// has started. Does not wait itself. When the operation fails, the stream goes on, and every byte of the output that was not received
/// is 0xFF; netfold_work_wait and netfold_work_test return how it failed. For other operations NETFOLD_RESULT_UNSUPPORTED.
///
/// # Safety
///
/// `work` is null or an operation that was not freed; `stream` is null, the legacy default stream, or a stream of the operation's device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_work_wait_on_stream(
    work: *const netfold_work,
    stream: *mut c_void,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let work = unsafe { reference(work, "work") }?;
        let Some(cuda) = &work.cuda else {
            let message = "the operation is not on a CUDA device; use netfold_work_wait";
            return Err(Failure::new(netfold_result::Unsupported, message));
        };
        // SAFETY: by this function's contract.
        unsafe { cuda.make_wait(CudaStream::from_raw(stream as usize)) }.map_err(Failure::from)
    })
}

/// Frees the handle, or does nothing for NULL. The operation continues, and its memory must stay valid until it is over.
///
/// # Safety
///
/// `work` is null, or an operation that was not freed and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_work_free(work: *mut netfold_work) {
    if !work.is_null() {
        // SAFETY: made by Box::into_raw, and freed once by this function's contract.
        drop(unsafe { Box::from_raw(work) });
    }
}
