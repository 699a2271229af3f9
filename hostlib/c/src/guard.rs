//! The boundary between C and Rust in every function.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::result::{Failure, netfold_result};

/// Runs a function's body; a failure or a panic is stored for the caller.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> netfold_result {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => netfold_result::Ok,
        Ok(Err(failure)) => failure.keep(),
        Err(_) => Failure::new(
            netfold_result::Panic,
            "the library panicked; its message is on standard error; please report it",
        )
        .keep(),
    }
}

/// # Safety
///
/// `pointer` is null, or valid for reads of a `T` for as long as the reference is used.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// # Safety
///
/// `pointer` is null, or valid for reads and writes of a `T` for as long as the reference is used, and used by nothing else.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: by this function's contract.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// # Safety
///
/// `text` is null, or a C string that stays as it is while it is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by this function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Writes an output, if its pointer is not null.
///
/// # Safety
///
/// `out` is null, or valid for writes of a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by this function's contract.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a text, as much as fits in `len` bytes, zero-terminated, and its whole length.
///
/// # Safety
///
/// `text` is null or valid for writes of `len` bytes; `needed` is null or valid for a write.
pub(crate) unsafe fn put_text(
    written: &str,
    text: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Result<(), Failure> {
    if text.is_null() || len == 0 {
        return Err(Failure::null("text"));
    }
    let count = written.len().min(len - 1);
    // SAFETY: `count` and one more are at most `len`, for which `text` is valid by this function's contract.
    unsafe {
        std::ptr::copy_nonoverlapping(written.as_ptr(), text.cast(), count);
        text.add(count).write(0);
        if !needed.is_null() {
            needed.write(written.len());
        }
    }
    Ok(())
}

/// Writes a list: the first `capacity` of its elements, and how many there are.
///
/// # Safety
///
/// `to` is null or valid for writes of `capacity` elements, and not part of `list`; `count` is null or valid for a write.
pub(crate) unsafe fn put_list<T: Copy>(
    list: &[T],
    to: (*mut T, &'static str),
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    if to.0.is_null() && capacity > 0 {
        return Err(Failure::null(to.1));
    }
    // SAFETY: by this function's contract.
    unsafe { put(count, list.len(), "count") }?;
    let written = list.len().min(capacity);
    if written > 0 {
        // SAFETY: `to` is not null, since there is room, and is valid for `capacity` elements by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(list.as_ptr(), to.0, written) };
    }
    Ok(())
}
