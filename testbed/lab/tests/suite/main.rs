//! Tests against real switches: bmv2 where it is installed, and the software switch's fast paths.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bmv2;
mod compiler;
mod differential;
mod differential_bmv2;
mod managed;
mod p4runtime;
mod scripts;
mod testgen;
mod trim;
