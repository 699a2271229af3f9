//! The kernels' code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod nvrtc;
mod ptx;
