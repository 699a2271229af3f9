//! The package from outside: threads and processes as ranks, and what happens when they misbehave.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mesh;
mod shared;
