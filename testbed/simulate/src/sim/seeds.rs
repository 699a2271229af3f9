//! Many simulations on all cores.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::run::Report;

/// Plays `seeds` seeds on all cores and stops at the first that fails. The first seed is 0, or the number in the environment variable
/// `SIM_FIRST`.
///
/// # Panics
///
/// When a simulation panics; the message names the command that replays that seed alone, by `replay` with the seed put in for `{}`.
pub fn play_all(seeds: u64, replay: &str, play: impl Fn(u64) -> Report + Sync) -> Vec<Report> {
    let first = std::env::var("SIM_FIRST").ok();
    let first = first.map_or(0, |text| text.parse::<u64>().expect("SIM_FIRST is a number"));
    let end = first + seeds;
    let next = AtomicU64::new(first);
    let reports = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let play = panic::AssertUnwindSafe(&play);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let Ok(report) = panic::catch_unwind(|| (*play)(seed)) else {
                        next.store(end, Ordering::Relaxed);
                        panic!("seed {seed} failed; replay: {}", replay.replace("{}", &seed.to_string()));
                    };
                    reports.lock().expect("no thread panics while it holds the list").push(report);
                }
            });
        }
    });
    reports.into_inner().expect("no thread panics while it holds the list")
}
