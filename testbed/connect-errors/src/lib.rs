//! What each client of a controller says when it is connected wrongly: to another port, without TLS, with another token, to a peer of
//! another version.
//!
//! [`Ports`] are the servers that a client is pointed at, one for each [`Mistake`]; all but the peers of other versions are a real controller's.
//! [`Row`] has what one [`Client`] says to each, and compares it with docs/connection-errors.md. Every client's own suite checks its row. For
//! tests only: what fails panics.
#![forbid(unsafe_code)]

mod certificates;
mod mistake;
mod page;
mod ports;
mod version;

pub use self::mistake::{Client, Mistake};
pub use self::page::{Answer, Row, TIME_MAX, check_bindings, check_completeness};
pub use self::ports::{Ports, Target};
