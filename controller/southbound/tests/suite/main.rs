//! Managed switches: a software switch with its P4Runtime server, clients that get in the way, and connections that break.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bfrt;
mod election;
mod fake_tofino;
mod proxy;
mod recovery;
mod rig;
mod shared;
mod steady;
mod tls;
#[cfg(target_os = "linux")]
mod xdp;
