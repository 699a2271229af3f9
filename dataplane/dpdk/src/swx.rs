//! DPDK's software pipeline (SWX): a P4-like program, executed in this process over packets in memory.
//!
//! A [`Pipeline`] is built of a specification (`.spec`), as `netfold p4 emit --target swx` prints it and as `p4c-dpdk` makes it. Packets are
//! offered to input ports, and [`Pipeline::run`] returns what leaves for them. Tables are changed in batches, by the lines that DPDK's control functions
//! read; registers and counters are read and written by name.
//!
//! External objects (`extobj NAME instanceof TYPE`) are the caller's ([`Externs`]): each has one function, `run`, and a mailbox of 32-bit fields, the
//! structure `TYPE_t`.
//!
//! # Limits
//!
//! Neither mirroring, recirculation, learning, meters, hashes nor external functions; jumps go forward only. So every packet leaves after a bounded
//! number of instructions, and none is copied.

mod build;
mod memory;
mod operands;
mod pipeline;
mod spec;

use std::io;

pub use memory::{Externs, Packets};
pub use pipeline::{Pipeline, PipelineConfig, Sent};

/// Why a pipeline cannot be built or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwxError {
    /// The specification is malformed, or has what this loader does not support. Correct the line.
    #[error("line {line} of the pipeline's specification: {what}")]
    Spec {
        /// The line, from 1; 0 for the whole.
        line: u32,
        /// What is wrong.
        what: String,
    },
    /// DPDK refused a part of the specification. Compare it with DPDK's limits: 256 bytes of metadata, 255 of a header, 256 register arrays.
    #[error("line {line} of the pipeline's specification: DPDK refuses {construct}")]
    Refused {
        /// The line, from 1; 0 for the whole.
        line: u32,
        /// The construct.
        construct: String,
        /// DPDK's error number.
        #[source]
        source: io::Error,
    },
    /// A number of ports or packets is out of range.
    #[error("{what} is {value}; {allowed}")]
    Config {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u32,
        /// What is allowed.
        allowed: &'static str,
    },
    /// An entry does not fit its table. Compare it with the table's keys and actions.
    #[error("table '{table}' refuses the entry '{entry}'")]
    Entry {
        /// The table.
        table: String,
        /// The entry.
        entry: String,
    },
    /// The staged changes of tables cannot be applied, and none was: most likely a table is full, or DPDK's memory is.
    #[error("the changes of tables are not applied")]
    Commit {
        /// DPDK's error number.
        #[source]
        source: io::Error,
    },
    /// There is no such register, or no such entry in it.
    #[error("there is no register '{name}' with an entry {index}")]
    Register {
        /// The register array.
        name: String,
        /// The index.
        index: u32,
    },
    /// Packets do not leave the pipeline. This is a defect of the specification or of DPDK.
    #[error("{count} packets do not leave the pipeline")]
    Stuck {
        /// How many.
        count: usize,
    },
}
