//! The boundary between NCCL and Rust in every function.
#![expect(unsafe_code, reason = "reads and writes through the pointers that NCCL passes")]

use core::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{HANDLE_LEN, Returned};
use crate::result::{Code, Failure, Result};

/// The process that initialised the plugin; 0 before.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Records this process as the one that uses the plugin: it called `init` first.
pub(crate) fn take_ownership() {
    // A forked child that initialises again gets an error in `guard`: it has none of the library's threads.
    let _ = OWNER.compare_exchange(0, process::id(), Ordering::AcqRel, Ordering::Acquire);
}

/// Runs a function's body. Failures and panics become result codes, and lines in NCCL's log.
pub(crate) fn guard(what: &str, body: impl FnOnce() -> Result<()>) -> Returned {
    let owner = OWNER.load(Ordering::Acquire);
    if owner != 0 && owner != process::id() {
        // The logger may have been locked in the parent at the moment of the fork, so nothing is logged.
        return Code::Usage as c_int;
    }
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(
            Code::Internal,
            "the plugin panicked; its message is on standard error; please report it",
        ),
    };
    log::warn!("{what}: {failure}");
    failure.returned()
}

/// Writes an output.
///
/// # Safety
///
/// `out` is null, or valid for writes of a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    if out.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    // SAFETY: by this function's contract.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes an output if its pointer is not null.
///
/// # Safety
///
/// As for [`put`].
pub(crate) unsafe fn put_if<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: by this function's contract.
        unsafe { out.write(value) };
    }
}

/// The bytes of a handle.
///
/// # Safety
///
/// `handle` is null, or valid for reads of [`HANDLE_LEN`] bytes.
pub(crate) unsafe fn read_handle(handle: *const c_void) -> Result<[u8; HANDLE_LEN]> {
    if handle.is_null() {
        return Err(Failure::argument("the handle is NULL"));
    }
    // SAFETY: by this function's contract; bytes need no alignment.
    Ok(unsafe { handle.cast::<[u8; HANDLE_LEN]>().read() })
}

/// Fills a handle.
///
/// # Safety
///
/// `handle` is null, or valid for writes of [`HANDLE_LEN`] bytes.
pub(crate) unsafe fn write_handle(handle: *mut c_void, bytes: [u8; HANDLE_LEN]) -> Result<()> {
    // SAFETY: by this function's contract; bytes need no alignment.
    unsafe { put(handle.cast::<[u8; HANDLE_LEN]>(), bytes, "the handle") }
}

/// An element of an array that NCCL passes.
///
/// # Safety
///
/// `array` is null, or valid for reads of more than `index` elements.
pub(crate) unsafe fn element<T: Copy>(array: *const T, index: usize, what: &str) -> Result<T> {
    if array.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { array.add(index).read() })
}

/// A length that must not be negative.
pub(crate) fn length(value: c_int, what: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| Failure::argument(format!("{what} is {value}, below zero")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_failures_are_results() {
        assert_eq!(guard("test", || Ok(())), 0);
        assert_eq!(guard("test", || Err(Failure::argument("no"))), 4);
        assert_eq!(guard("test", || panic!("on purpose")), 3);
    }
}
