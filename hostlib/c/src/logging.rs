//! The library's log lines, passed to the caller.

use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};

use crate::guard::guard;
use crate::result::{Failure, netfold_result};

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_log_level {
    /// Something failed.
    Error = 1,
    /// Something did not work as configured, and the library uses an alternative.
    Warning = 2,
    /// The path of a communicator.
    Info = 3,
    /// For debugging.
    Debug = 4,
}

/// Takes a log line: what was given to netfold_set_log, the level, and the text, valid during the call. Called from any thread.
pub type netfold_log_fn = Option<unsafe extern "C" fn(context: *mut c_void, level: i32, line: *const c_char)>;

struct Sink {
    call: unsafe extern "C" fn(*mut c_void, i32, *const c_char),
    context: *mut c_void,
}

// SAFETY: the caller of `netfold_set_log` promises that function and context may be used from any thread.
unsafe impl Send for Sink {}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = match record.level() {
            log::Level::Error => netfold_log_level::Error,
            log::Level::Warn => netfold_log_level::Warning,
            log::Level::Info => netfold_log_level::Info,
            log::Level::Debug | log::Level::Trace => netfold_log_level::Debug,
        };
        let Ok(line) = CString::new(record.args().to_string().replace('\0', " ")) else { return };
        if let Some(sink) = &*SINK.lock().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: by the contract of `netfold_set_log`.
            unsafe { (sink.call)(sink.context, level as i32, line.as_ptr()) };
        }
    }

    fn flush(&self) {}
}

/// Passes every log line up to `level` (a netfold_log_level) to `call`, or none any more when `call` is NULL. Applies to the
/// whole process. Without it nothing is logged.
///
/// # Safety
///
/// `call` may be called from any thread with `context` until it is replaced; it must not call the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_set_log(
    call: netfold_log_fn,
    context: *mut c_void,
    level: i32,
) -> netfold_result {
    guard(|| {
        let filter = match level {
            1 => log::LevelFilter::Error,
            2 => log::LevelFilter::Warn,
            3 => log::LevelFilter::Info,
            4 => log::LevelFilter::Debug,
            _ => return Err(Failure::argument(format!("log level {level} is not between 1 and 4"))),
        };
        *SINK.lock().unwrap_or_else(PoisonError::into_inner) = call.map(|call| Sink { call, context });
        // On a second call our logger is set already.
        let _ = log::set_logger(&Logger);
        log::set_max_level(if call.is_some() { filter } else { log::LevelFilter::Off });
        Ok(())
    })
}
