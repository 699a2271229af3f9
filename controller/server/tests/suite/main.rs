//! The controller's front and its database. Every thing that is waited for has a time-out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
mod doors;
mod etcd;
mod page;
mod plane;
mod speed;
mod store;
mod web;

use std::time::Duration;

/// How long any single thing may take. Generous: tests share the machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a test's future to its end, which must come in time.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, future).await.expect("a test takes too long") })
}
