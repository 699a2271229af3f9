//! The controller's frontend and its database. Every wait has a timeout.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alerts;
mod authorization;
mod backup;
mod calls;
mod etcd;
mod health;
mod large;
mod page;
mod plane;
mod store;
mod web;

use std::time::Duration;

/// Timeout of any single wait. Only a hang reaches it: tests share the machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a test's future to its end, which must come in time.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, future).await.expect("a test takes too long") })
}
