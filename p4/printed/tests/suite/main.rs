//! The printed Tofino programs, executed from their text, against the interpreter of the programs that they are printed from.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod differential;
mod mutants;
mod passes;
mod rig;
mod text;
