//! Seeded faults: loss, duplication, reordering, delay and corruption, per direction.
//!
//! Three layers, each usable alone: [`FaultConfig`] says what goes wrong how often and is read from the command line;
//! a [`FaultLine`] applies the faults of one direction to packets, without a clock and from a seed alone, so that a
//! simulator replays them; [`Faulty`] puts two lines around any backend.

mod config;
mod line;
mod middleware;

pub use config::{FaultConfig, FaultParseError, Faults};
pub use line::{FaultCounters, FaultLine, Offered};
pub use middleware::Faulty;
