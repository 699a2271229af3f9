//! Meshes of threads over loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collectives;
mod faults;
mod group;
mod rendezvous;
