//! Additive increase, multiplicative decrease, on marks and losses.

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// One chunk more for each round without a mark or a loss, half for one with: what ATP's workers do (Lao et al., "ATP: In-network
/// Aggregation for Multi-tenant Learning", NSDI 2021).
#[derive(Debug, Clone, PartialEq)]
pub struct Aimd {
    window: f64,
    most: f64,
    /// By what the increase is multiplied.
    scale: f64,
    /// The window was already decreased for a loss in this round.
    cut: bool,
}

impl Aimd {
    /// Begins with all slots.
    pub fn new(slots: u32) -> Self {
        Self { window: slots.into(), most: slots.into(), scale: 1.0, cut: false }
    }

    fn halve(&mut self) {
        self.window = (self.window / 2.0).max(1.0);
    }
}

impl CongestionControl for Aimd {
    fn on_ack(&mut self, _: &Ack) {}

    fn on_round(&mut self, round: &Round) {
        match (round.marked, std::mem::take(&mut self.cut)) {
            (_, true) => {}
            (0, false) => self.window = (self.window + self.scale).min(self.most),
            (_, false) => self.halve(),
        }
    }

    fn on_loss(&mut self, _: Instant) {
        self.halve();
        self.cut = true;
    }

    fn scale_increase(&mut self, factor: f64) {
        self.scale = factor;
    }

    fn window(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_or_half_of_it_a_round() {
        let mut control = Aimd::new(64);
        let round = |marked| Round { acks: 10, marked };
        control.on_round(&round(0));
        assert_eq!(control.window(), 64.0, "never above its slots");
        control.on_round(&round(1));
        assert_eq!(control.window(), 32.0);
        (0..5).for_each(|_| control.on_round(&round(0)));
        assert_eq!(control.window(), 37.0);
        control.on_loss(Instant::ZERO);
        control.on_round(&round(3));
        assert_eq!(control.window(), 18.5, "once a round, whatever happened");
        (0..20).for_each(|_| control.on_round(&round(10)));
        assert_eq!(control.window(), 1.0);
    }
}
