//! A switch in this process, joined by real workers over sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bands;
mod bounded;
mod collectives;
mod congestion;
mod controlled;
mod groups;
mod multipath;
mod path_hash;
mod paths;
mod payloads;
mod reductions;
mod reflection;
mod resize;
mod stalls;
mod start;
mod threads;

use std::time::Duration;

/// Bound on the time of anything that a test waits for. Only a hang reaches it: tests share the machine.
const TIMEOUT: Duration = Duration::from_secs(120);
