//! The host library from outside: operations over a reference switch, and the control session against a scripted port.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classes;
mod feedback;
mod operations;
mod session;
mod support;
