//! The control plane from the outside: admission under the test's clock, and the control port over real sockets.

mod admission;
mod authentication;
mod bands;
mod bench;
mod best_effort;
mod cost;
mod durable;
mod equal_paths;
mod fake;
mod flood;
mod groups;
mod links;
mod multipath;
mod path;
mod random;
mod resize;
mod schedule;
mod server;
mod sharing;
mod stalls;
mod tls;
mod traffic;
