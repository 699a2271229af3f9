//! The P4Runtime server over real sockets: every call, and standard clients as black boxes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod arbitration;
mod clients;
mod entities;
mod packets;
mod pipeline;
mod ports;
mod rig;
mod stream;
mod tls;
