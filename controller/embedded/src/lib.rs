//! A software switch with its control port, as threads of the process that wants one.
//!
//! `netfold switch` is this and a terminal; the bindings start one for tests, examples and trainings to which nobody
//! named a switch.
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
pub use start::{Builder, EmbeddedSwitch, QUEUES_MAX, QueuePlace};
pub use tampering::Tampering;
