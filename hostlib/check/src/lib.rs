//! Checks before a job: what a host has, whether packets pass to the switch, and what the links between hosts carry. Each finding has what was
//! measured, the limit and a remedy; where all is well there is none.
//!
//! [`host`] reads the system's files, so that tests can give it others. [`switch`] joins as a job of one rank, as every member does: control port,
//! credentials, path validation, and then all-reduces of full packets with known results. All packets belong to that job, so no other job's state
//! changes. [`pairs`] measures between each two ranks, which find each other by a rendezvous: one pair of a host at a time, with packets of a format of
//! its own, so that neither another measurement nor a switch is disturbed.
//!
//! Whatever another process sends, each check ends within its bounds in time, and memory does not depend on what is received.

#![forbid(unsafe_code)]

pub mod finding;
pub mod host;
pub mod pairs;
pub mod switch;

pub use finding::{Finding, Severity};
