//! No law at all.

use super::{Answer, CongestionControl, Round};
use crate::Instant;

/// As many chunks as there are slots, whatever the network says; for streams that must go in order and have no other law.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fixed(pub(crate) u32);

impl CongestionControl for Fixed {
    fn answered(&mut self, _: &Answer) {}

    fn round(&mut self, _: &Round) {}

    fn lost(&mut self, _: Instant) {}

    fn scale_increase(&mut self, _: f64) {}

    fn window(&self) -> f64 {
        self.0.into()
    }
}
