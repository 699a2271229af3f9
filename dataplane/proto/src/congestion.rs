//! Congestion control: how many chunks may be in flight, by algorithms that can be selected and replaced.
//!
//! An algorithm receives the signals of the network (round trips, marks, losses) and sets a window in chunks. It knows nothing of slots:
//! the `Gate` derives from the window which chunk may be sent next. Without an algorithm the window is all slots of the stream, and each
//! slot advances independently.
//!
//! # In the order of the stream
//!
//! A chunk is finished when all ranks have sent it, so ranks whose windows differ must not choose different chunks to send: each would
//! wait for the other's. With an algorithm new chunks are therefore sent in the order of the stream, and the window bounds those that are
//! outstanding. A rank that has not sent the earliest chunk missing on any rank has the results of all chunks before it, so it has nothing
//! outstanding and may send the chunk: the job makes progress with any windows. A delayed chunk holds back the others only once they are
//! as far ahead of it as there are slots.
//!
//! # What a round trip means here
//!
//! The time from a chunk to its result includes the wait for the slowest rank. An algorithm that uses delay slows all ranks down to the
//! rate of the slowest, which costs nothing: results cannot come faster.

mod aimd;
mod dcqcn;
mod dctcp;
mod fixed;
mod gate;
mod mltcp;
mod swift;

use core::fmt;
use core::time::Duration;

pub use aimd::Aimd;
pub use dcqcn::{Dcqcn, DcqcnTimers};
pub use dctcp::Dctcp;
pub(crate) use fixed::Fixed;
pub(crate) use gate::Gate;
pub use mltcp::{Aggressiveness, Mltcp};
pub use swift::Swift;

use netfold_control::CongestionAlgorithm;

use crate::Instant;

/// The acknowledgement of a chunk: its result has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Time from the chunk to it, where the chunk was sent once.
    pub round_trip: Option<Duration>,
    /// Whether the result was marked: by a congested queue on its own path, or on the path of a contribution whose mark the switch echoes.
    pub marked: bool,
    /// Smoothed time from a chunk to its result.
    pub smoothed: Duration,
}

/// The acknowledgements of one window of chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Results.
    pub acks: u32,
    /// Results that were marked.
    pub marked: u32,
}

/// A congestion-control algorithm: sets how many chunks may be in flight.
///
/// All calls are for one stream of one worker. A window below 1 counts as 1.
pub trait CongestionControl: fmt::Debug + Send {
    /// A result has arrived.
    fn on_ack(&mut self, ack: &Ack);

    /// A window of chunks was acknowledged since the last call.
    fn on_round(&mut self, round: &Round);

    /// A chunk was detected as lost; called at most once a round.
    fn on_loss(&mut self, now: Instant);

    /// From now on increases of the window are multiplied by `factor`, which is above 0; decreases stay as they are.
    fn scale_increase(&mut self, factor: f64);

    /// Chunks that may be in flight.
    fn window(&self) -> f64;
}

/// The implementation of `algorithm` for a stream of `slots` slots. The window begins with all slots, so that a path without congestion is
/// used as with a fixed window. `None` for a fixed window.
pub fn congestion_control(algorithm: CongestionAlgorithm, slots: u32) -> Option<Box<dyn CongestionControl>> {
    let mltcp = |plain: CongestionAlgorithm| -> Option<Box<dyn CongestionControl>> {
        Some(Box::new(Mltcp::new(congestion_control(plain, slots)?, Aggressiveness::DEFAULT)))
    };
    match algorithm {
        CongestionAlgorithm::Aimd => Some(Box::new(Aimd::new(slots))),
        CongestionAlgorithm::Dctcp => Some(Box::new(Dctcp::new(slots))),
        CongestionAlgorithm::Swift => Some(Box::new(Swift::new(slots))),
        CongestionAlgorithm::Dcqcn => Some(Box::new(Dcqcn::new(slots, DcqcnTimers::PAPER))),
        CongestionAlgorithm::MltcpAimd => mltcp(CongestionAlgorithm::Aimd),
        CongestionAlgorithm::MltcpDctcp => mltcp(CongestionAlgorithm::Dctcp),
        CongestionAlgorithm::MltcpSwift => mltcp(CongestionAlgorithm::Swift),
        CongestionAlgorithm::MltcpDcqcn => mltcp(CongestionAlgorithm::Dcqcn),
        _ => None,
    }
}
