//! Control of Tofino switches over BF Runtime, gRPC beside P4Runtime and older than it on that chip.
//!
//! [`BfrtDriver`] implements the same interface as [`crate::p4runtime`]: entries and groups come in P4Runtime's shapes and go out by the
//! names that `bf-rt.json` has for them. It has run against a fake alone, not against a switch: the SDE is not free.
//!
//! # Life of a driver
//!
//! 1. [`BfrtDriver::start`] subscribes as a client of the device, and pushes the program unless the device runs the very one.
//! 2. It binds to the program, empties its tables and the replication engine, and admits the control port.
//! 3. A control plane uses it as any driver.

mod client;
mod driver;
mod info;

pub use client::BfrtConfig;
pub use driver::{BfrtDriver, BfrtProgram};

/// A call of BF Runtime that did not do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BfrtError {
    /// The switch cannot be reached, or the connection broke. Whether the switch has done the call is not known.
    #[error("switch {switch} cannot be reached over BF Runtime: {message}")]
    Unreachable {
        /// The switch.
        switch: String,
        /// The transport's message.
        message: String,
    },
    /// The switch refused a call; nothing was done.
    #[error("switch {switch} refuses {call}: {message} ({code})")]
    Refused {
        /// The switch.
        switch: String,
        /// The call.
        call: &'static str,
        /// Its status.
        code: &'static str,
        /// Its words.
        message: String,
    },
    /// Some updates of a Write failed; the others were done.
    #[error("switch {switch} refuses {} of {updates} updates, the first: {first}", failed.len())]
    Write {
        /// The switch.
        switch: String,
        /// Updates in the Write.
        updates: usize,
        /// Those that failed, by their positions.
        failed: Vec<usize>,
        /// The error of the first.
        first: String,
    },
    /// The program's description is not what it should be.
    #[error("{0}")]
    Info(String),
    /// An entry for which the program has no table or field.
    #[error("the program has no place for {0}")]
    Entry(String),
    /// The program's profile makes no program.
    #[error(transparent)]
    Profile(#[from] netfold_p4::profile::ProfileError),
}
