//! Every door of the P4Runtime server, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arbitration;
mod entities;
mod packets;
mod pipeline;
mod ports;
mod rig;
mod stream;
mod tls;
