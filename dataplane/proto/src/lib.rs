//! The Netfold worker as a sans-IO machine: it decides what to send, when to retransmit it and what an incoming packet
//! means, and leaves clock, sockets and tensors to its caller.
//!
//! [`Worker`] cuts a sequence of operations into one stream of chunks and steps it through the slots of a switch (see
//! the state diagram there). It never blocks, reads no clock and, once an operation is submitted, allocates nothing.
//!
//! # Driving a worker
//!
//! 1. [`Worker::submit`] operations at any time, while others run.
//! 2. Hand every datagram from the switch to [`Worker::handle_packet`]. Results are unpacked by the caller's
//!    [`Codec`] during that call, straight from the packet.
//! 3. Call [`Worker::handle_timeout`] when [`Worker::next_deadline`] has passed.
//! 4. After any of these, call [`Worker::poll_transmit`] until it returns `None` (or the transport pushes back) and
//!    [`Worker::poll_event`] until it returns `None`.
//!
//! Before its job starts, a member validates its address by a [`PathValidation`].
//! A [`LivenessMonitor`] beside it distinguishes a switch that is lost from ranks that are stragglers, and a [`session`] keeps the membership.
//!
//! A worker with several UDP ports has [`Paths`](paths::Paths), which choose the port of each packet.
//!
//! A chunk is packed from the caller's tensor each time it is sent; no packet is kept. A result may be unpacked over
//! the tensor in place: it arrives only after this rank's contribution was folded, and is delivered once.
#![forbid(unsafe_code)]

pub mod agreement;
mod config;
pub mod congestion;
mod descriptors;
pub mod enrollment;
mod error;
mod importance;
mod liveness;
mod op;
mod path;
pub mod paths;
mod pattern;
mod prediction;
mod recovery;
mod rtt;
pub mod session;
mod sharing;
mod slot;
pub mod spray;
mod stats;
mod stream;
mod time;
mod worker;

pub use config::{LANE_WORDS_MAX, LANE_WORDS_MIN, SLOTS_MAX, SlotShare, WorkerConfig};
pub use error::{AbortReason, OpSpecError, SubmitError, WorkerConfigError};
pub use importance::{IMPORTANCE_MAX, Importance};
pub use liveness::{Liveness, LivenessMonitor};
pub use netfold_wire::{Collective, DType};
pub use op::{DATA_CHUNKS_MAX, Descriptor, ELEMENTS_MAX, OpId, OpSpec, Tolerance};
pub use path::PathValidation;
pub use pattern::PatternMeter;
pub use prediction::PREDICTED_CHUNKS_MAX;
pub use sharing::{Parts, Sharing};
pub use stats::{Ignored, Waits, WorkerStats};
pub use time::Instant;
pub use worker::{Codec, CodedChunk, Contributors, Handled, OutstandingChunk, Worker, WorkerEvent};
