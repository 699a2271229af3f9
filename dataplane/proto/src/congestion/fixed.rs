//! A fixed window.

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// As many chunks as there are slots, regardless of the network; for streams that must be sent in order and have no other algorithm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fixed(pub(crate) u32);

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Ack) {}

    fn on_round(&mut self, _: &Round) {}

    fn on_loss(&mut self, _: Instant) {}

    fn scale_increase(&mut self, _: f64) {}

    fn window(&self) -> f64 {
        self.0.into()
    }
}
