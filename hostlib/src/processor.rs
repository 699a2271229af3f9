//! How long the threads of this process waited for a processor, as the kernel counts it.
//!
//! Source: the kernel's Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`: time spent on the processor, time spent waiting on a
//! run queue, both in nanoseconds, and number of time slices. Each thread has such a file.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads are read again after so long: sessions of many groups in one process share what was read.
const INTERVAL: Duration = Duration::from_millis(400);

/// Threads that are read, at most.
const THREADS_MAX: usize = 512;

static PROCESS: Mutex<WaitingTime> = Mutex::new(WaitingTime::new());

/// Time that threads of this process have waited for a processor; zero where the kernel does not count it.
pub(crate) fn waiting_time() -> Duration {
    let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if process.read_at.is_none_or(|at| now.duration_since(at) >= INTERVAL) {
        process.read_at = Some(now);
        process.take(threads());
    }
    Duration::from_nanos(process.total)
}

/// What the kernel counted of each thread, in nanoseconds, by its id.
fn threads() -> BTreeMap<u32, u64> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let of_thread = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((id, run_delay(&text)?))
    };
    entries.flatten().take(THREADS_MAX).filter_map(of_thread).collect()
}

fn run_delay(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A sum over threads that begin and end.
#[derive(Debug)]
struct WaitingTime {
    read_at: Option<Instant>,
    threads: BTreeMap<u32, u64>,
    /// Nanoseconds, of threads that have ended, too.
    total: u64,
}

impl WaitingTime {
    const fn new() -> Self {
        Self { read_at: None, threads: BTreeMap::new(), total: 0 }
    }

    fn take(&mut self, threads: BTreeMap<u32, u64>) {
        for (id, waited) in &threads {
            // A count that has fallen is that of another thread with the same id.
            let before = self.threads.get(id).filter(|before| *before <= waited).copied().unwrap_or_default();
            self.total = self.total.saturating_add(waited - before);
        }
        self.threads = threads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_grows_when_threads_end() {
        let mut sum = WaitingTime::new();
        let mut total = |threads: &[(u32, u64)]| {
            sum.take(threads.iter().copied().collect());
            sum.total
        };
        assert_eq!(total(&[(1, 10), (2, 5)]), 15);
        assert_eq!(total(&[(1, 12)]), 17);
        // Its id is used again.
        assert_eq!(total(&[(1, 3), (2, 1)]), 21);
        assert_eq!(total(&[]), 21);
    }

    #[test]
    fn a_line_without_a_second_number_counts_nothing() {
        assert_eq!(run_delay("1055302 43204 12\n"), Some(43_204));
        assert_eq!((run_delay("1055302"), run_delay("1 x 2"), run_delay("")), (None, None, None));
    }

    #[test]
    fn threads_of_this_process_are_found() {
        if fs::read_to_string("/proc/self/schedstat").is_err() {
            eprintln!("skipped: the kernel does not count how long threads wait (CONFIG_SCHED_INFO)");
            return;
        }
        assert!(!threads().is_empty());
        assert!(waiting_time() <= waiting_time());
    }
}
