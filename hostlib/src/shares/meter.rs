//! What this rank measures of its trees.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a tree has been busy with parts of operations, and how many bytes these had.
#[derive(Debug, Default)]
pub(super) struct TreeMeter(Mutex<MeterState>);

#[derive(Debug, Default)]
struct MeterState {
    busy: Duration,
    bytes: u64,
    /// End of the last part.
    until: Option<Instant>,
}

impl TreeMeter {
    /// A part of `bytes` bytes is over. The tree did those before it first.
    pub(super) fn record(&self, submitted: Instant, finished: Instant, bytes: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = state.until.map_or(submitted, |until| until.max(submitted));
        state.busy += finished.saturating_duration_since(begun);
        state.bytes += bytes;
        state.until = Some(finished);
    }

    /// Nanoseconds for 1 KiB since the last call, at least 1; 0 if there was no part.
    pub(super) fn take_cost(&self) -> u32 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (busy, bytes) = (std::mem::take(&mut state.busy), std::mem::take(&mut state.bytes));
        match (busy.as_nanos() * 1024).checked_div(u128::from(bytes)) {
            Some(cost) => u32::try_from(cost).unwrap_or(u32::MAX).max(1),
            None => 0,
        }
    }
}

/// How many operations are pending, and the most at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending(Arc<[AtomicU32; 2]>);

impl Pending {
    pub(super) fn add(&self) {
        let now = self.0[0].fetch_add(1, Ordering::Relaxed) + 1;
        self.0[1].fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn remove(&self) {
        self.0[0].fetch_sub(1, Ordering::Relaxed);
    }

    /// The most since the last call.
    pub(super) fn take_most(&self) -> u32 {
        self.0[1].swap(self.0[0].load(Ordering::Relaxed), Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_once_while_parts_wait_for_each_other() {
        let (meter, start) = (TreeMeter::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(meter.take_cost(), 0);
        // Two parts submitted together, and one after a pause.
        meter.record(at(0), at(10), 1 << 20);
        meter.record(at(0), at(20), 1 << 20);
        meter.record(at(50), at(60), 1 << 20);
        assert_eq!(meter.take_cost(), 30_000_000 / 3 / 1024);
        assert_eq!(meter.take_cost(), 0);
        meter.record(at(55), at(60), 1 << 30);
        assert_eq!(meter.take_cost(), 1, "a tree that was measured is distinguished from one that was not");
    }

    #[test]
    fn the_most_pending_operations_are_counted() {
        let pending = Pending::default();
        (0..3).for_each(|_| pending.add());
        pending.remove();
        assert_eq!(pending.take_most(), 3);
        assert_eq!(pending.take_most(), 2);
        pending.remove();
        pending.add();
        assert_eq!(pending.take_most(), 2);
    }
}
