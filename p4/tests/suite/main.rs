//! The pipeline as data: validation, printing for every target, and the interpreter.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod interpreter;
mod snapshots;
mod targets;
mod validity;
