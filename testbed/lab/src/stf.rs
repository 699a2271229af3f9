//! STF scripts ([`netfold_p4::stf`]) of random sequences, and their execution.
//!
//! [`from_sequence`] makes a script of a random sequence, and [`run`] executes one on a pipeline of the software switch. Packets that leave a
//! port are compared with the port's expectations in order; a packet that leaves where nothing is expected, and an expectation that is not met,
//! are failures. Names may be written with or without the control that holds the object. In a table with ternary keys a greater priority wins.
//! [`testgen`] has P4Testgen write scripts for a program.

mod run;
mod sequence;
pub mod testgen;

pub use netfold_p4::stf::{Comparison, Masked, Pattern, Script, Statement, StfError};
pub use run::{Failure, RunError, StfOutcome, run, to_sequence};
pub use sequence::from_sequence;

#[cfg(test)]
mod tests;
