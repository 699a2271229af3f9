//! A software switch with its control port, as threads of the calling process.
//!
//! `netfold switch` adds a terminal interface; the bindings start one for tests, examples and trainings without a given
//! switch.
//!
//! ```no_run
//! use netfold_embedded::EmbeddedSwitch;
//!
//! # fn main() -> Result<(), netfold_embedded::EmbeddedError> {
//! let switch = EmbeddedSwitch::builder().start()?; // 127.0.0.1, any free port
//! println!("join at {}", switch.control());
//! let counters = switch.stop()?; // or drop it
//! println!("{} results", counters.results);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod driver;
mod error;
mod queue;
mod start;
mod tampering;

pub use driver::{LocalDriver, PORTS_MAX};
pub use error::EmbeddedError;
pub use start::{Builder, EmbeddedSwitch, QUEUES_MAX, QueueAddress, epoch_floor};
pub use tampering::Tampering;
