//! The library's log lines, in NCCL's log.
#![expect(unsafe_code, reason = "calls NCCL's logger, a variadic C function")]

use std::ffi::CString;
use std::sync::{Once, PoisonError, RwLock};

use crate::abi::{LOG_INFO, LOG_TRACE, LOG_WARN, Logger, SUBSYSTEM_INIT, SUBSYSTEM_NET};

static SINK: RwLock<Logger> = RwLock::new(None);

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let Some(sink) = *SINK.read().unwrap_or_else(PoisonError::into_inner) else { return };
        let level = match record.level() {
            log::Level::Error | log::Level::Warn => LOG_WARN,
            log::Level::Info => LOG_INFO,
            log::Level::Debug | log::Level::Trace => LOG_TRACE,
        };
        let Ok(line) = CString::new(format!("NETFOLD {}", record.args()).replace('\0', " ")) else { return };
        let number = record.line().and_then(|line| line.try_into().ok()).unwrap_or(0);
        // SAFETY: NCCL's logger may be called from any thread until NCCL is unloaded, which it never is while a plugin's
        // threads are in use; the format takes one string, which lives through the call.
        unsafe {
            sink(
                level,
                SUBSYSTEM_INIT | SUBSYSTEM_NET,
                c"netfold".as_ptr(),
                number,
                c"%s".as_ptr(),
                line.as_ptr(),
            )
        };
    }

    fn flush(&self) {}
}

/// Sends log lines to `logger` from now on.
pub(crate) fn use_logger(logger: Logger) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An existing logger of the process is kept.
        let _ = log::set_logger(&Lines);
        log::set_max_level(log::LevelFilter::Info);
    });
    if logger.is_some() {
        *SINK.write().unwrap_or_else(PoisonError::into_inner) = logger;
    }
}
