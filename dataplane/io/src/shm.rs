//! Rings in memory that processes of one host share: a switch ([`Hub`]), and the workers beside it ([`Spoke`]).
//!
//! Two rings for each worker, a datagram copied once on the way into a ring and once out of it, and no call of the system as long as both
//! sides are busy: a side that finds nothing sets a flag in the ring that it sleeps, and is woken by an event descriptor. A switch finds its workers by a
//! [`Name`], which they must be in the same network namespace for.
//!
//! A hub may have an *uplink*, another backend, for all peers that are not beside it: so the switch of a host folds what its ranks send
//! and has one stream with the switch above, as a card with a pipeline of its own would (the NIC role). Peers beside it have port numbers
//! below [`LOCAL_PORTS`], which no peer elsewhere has: these are privileged.
//!
//! ```no_run
//! use netfold_io::shm::{Hub, Spoke};
//! use netfold_io::{PacketIo, PortId};
//!
//! # fn main() -> Result<(), netfold_io::IoError> {
//! let here = "127.0.0.1:20038".parse().expect("an address");
//! let mut hub = Hub::open(&"host".parse().expect("a name"), here, 1436, None)?;
//! let worker = Spoke::attach(&"host".parse().expect("a name"), here.ip(), 1436)?;
//! hub.bind_port(PortId(0), worker.local_addr().expect("it has one"))?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is left behind, however a process ends: memory belongs to no file, and the name is an abstract socket's. What the other side can do wrong
//! ends the link to it, and no other (`ring`).

mod acceptor;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod hub;
mod ring;
mod spoke;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use hub::Hub;
pub use spoke::Spoke;

/// Name of the backend, for messages.
const NAME: &str = "shm";

/// Workers beside a switch have ports from 1 up to this one, exclusively.
pub const LOCAL_PORTS: u16 = 1024;

/// Workers that are attached to a switch at a time.
pub const WORKERS_MAX: usize = 64;

/// Longest datagram in bytes: jumbo frames' and more.
pub const DATAGRAM_LEN_MAX: usize = 16_384;

/// The name of a switch on its host: 1 to 64 letters, digits, `-`, `_` or `.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// Words that are no [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a switch's name on its host has 1 to 64 letters, digits, '-', '_' or '.'")]
pub struct ShmNameError;

impl FromStr for Name {
    type Err = ShmNameError;

    fn from_str(text: &str) -> Result<Self, ShmNameError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=64).contains(&text.len()) && text.bytes().all(fits);
        if is_name { Ok(Self(text.to_owned())) } else { Err(ShmNameError) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
