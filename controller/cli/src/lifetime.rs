//! Ending a command early: on a signal, or when its parent process ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
#[cfg(feature = "testbed")]
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::CliError;
use crate::exit::Exit;

/// Interval between checks for a signal.
#[cfg(feature = "testbed")]
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A request to stop, which a command polls where it can end gracefully.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Makes SIGINT and SIGTERM requests to stop. A second one ends the process at once.
    pub(crate) fn on_signals() -> Result<Self, CliError> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(
                signal,
                Exit::Interrupted.status(),
                stop.0.clone(),
            )
            .and_then(|_| signal_hook::flag::register(signal, stop.0.clone()))
            .map_err(CliError::Signals)?;
        }
        Ok(stop)
    }

    /// Whether a stop was requested.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Requests a stop when standard input ends, as it does when the process at its other end exits.
    pub(crate) fn with_stdin(&self) {
        let stop = self.0.clone();
        on_stdin_end(move || stop.store(true, Ordering::Relaxed));
    }
}

/// Calls `then` before SIGINT or SIGTERM ends this process; a second signal ends it at once.
#[cfg(feature = "testbed")]
pub(crate) fn before_exit_on_signal(then: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    thread::spawn(move || {
        while !stop.requested() {
            thread::sleep(POLL_INTERVAL);
        }
        then();
        std::process::exit(Exit::Interrupted.status());
    });
    Ok(())
}

/// Ends this process when standard input ends.
pub(crate) fn exit_with_stdin() {
    on_stdin_end(|| std::process::exit(Exit::Interrupted.status()));
}

fn on_stdin_end(then: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // Only the end of standard input matters; its content is discarded.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        then();
    });
}
