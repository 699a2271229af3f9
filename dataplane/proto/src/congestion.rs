//! How much may be in flight: congestion control, by laws that can be chosen and replaced.
//!
//! A law sees what the network says (round trips, marks, losses) and answers with a window in chunks. It knows nothing of slots: the
//! `Gate` turns the window into which chunk may be sent next. Without a law the window is all slots of the stream, and each slot
//! steps on by itself.
//!
//! # In the order of the stream
//!
//! A chunk is finished when all ranks have sent it, so ranks whose windows differ must not choose different chunks to send: each would
//! wait for the other's. Under a law new chunks are therefore sent in the order of the stream, and the window bounds those that are
//! outstanding. Who has not sent the earliest chunk that is missing anywhere has the results of all before it, so nothing is outstanding
//! there and the chunk may be sent: the job goes on whatever the windows are. A chunk that is late holds back the others only once they
//! are as far ahead of it as there are slots.
//!
//! # What a round trip means here
//!
//! The time from a chunk to its result includes the wait for the slowest rank. A law that goes by delay slows all ranks down to what
//! the slowest does, which costs nothing: results cannot come faster.

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
pub use dcqcn::{Clocks, Dcqcn};
pub use dctcp::Dctcp;
pub(crate) use fixed::Fixed;
pub(crate) use gate::Gate;
pub use mltcp::{Favour, Mltcp};
pub use swift::Swift;

use netfold_control::Congestion;

use crate::Instant;

/// The result of a chunk, as the network brought it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// When it came.
    pub now: Instant,
    /// Time from the chunk to it, where the chunk was sent once.
    pub round_trip: Option<Duration>,
    /// Whether a queue on the way, of any rank's share that the switch tells of or of the result, was long.
    pub marked: bool,
    /// Smoothed time from a chunk to its result.
    pub smoothed: Duration,
}

/// What was answered while a window's worth of chunks was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Results.
    pub answers: u32,
    /// Results that were marked.
    pub marked: u32,
}

/// A law of congestion control: how many chunks may be in flight.
///
/// All calls are for one stream of one worker. A window below 1 counts as 1.
pub trait CongestionControl: fmt::Debug + Send {
    /// A result has come.
    fn answered(&mut self, answer: &Answer);

    /// A window's worth of chunks was answered since the last call.
    fn round(&mut self, round: &Round);

    /// A chunk was found lost; told at most once a round.
    fn lost(&mut self, now: Instant);

    /// From now on what is added to the window is multiplied by `factor`, which is above 0; cuts stay as they are.
    fn scale_increase(&mut self, factor: f64);

    /// Chunks that may be in flight.
    fn window(&self) -> f64;
}

/// The law of that name over a stream of so many slots, which is where it begins: a path without congestion is used as without a
/// law. `None` for a fixed window.
pub fn law(congestion: Congestion, slots: u32) -> Option<Box<dyn CongestionControl>> {
    let favoured = |plain: Congestion| -> Option<Box<dyn CongestionControl>> {
        Some(Box::new(Mltcp::new(law(plain, slots)?, Favour::DEFAULT)))
    };
    match congestion {
        Congestion::Aimd => Some(Box::new(Aimd::new(slots))),
        Congestion::Dctcp => Some(Box::new(Dctcp::new(slots))),
        Congestion::Swift => Some(Box::new(Swift::new(slots))),
        Congestion::Dcqcn => Some(Box::new(Dcqcn::new(slots, Clocks::PAPER))),
        Congestion::MltcpAimd => favoured(Congestion::Aimd),
        Congestion::MltcpDctcp => favoured(Congestion::Dctcp),
        Congestion::MltcpSwift => favoured(Congestion::Swift),
        Congestion::MltcpDcqcn => favoured(Congestion::Dcqcn),
        _ => None,
    }
}
