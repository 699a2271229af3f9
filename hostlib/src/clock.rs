//! Time, as the sans-IO machines count it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netfold_proto::Instant;

/// The time since a clock was made, by the system's monotonic clock or by a simulation's.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System(std::time::Instant),
    /// Nanoseconds.
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that is 0 now.
    pub(crate) fn system() -> Self {
        Self(Source::System(std::time::Instant::now()))
    }

    /// A clock that shows what a simulation sets.
    pub(crate) fn simulated(nanos: Arc<AtomicU64>) -> Self {
        Self(Source::Simulated(nanos))
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.0 {
            Source::System(start) => Instant::from_nanos(start.elapsed().as_nanos() as u64),
            Source::Simulated(nanos) => Instant::from_nanos(nanos.load(Ordering::Relaxed)),
        }
    }
}
