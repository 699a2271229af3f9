//! Decrease in proportion to how much was marked.

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// Weight of the newest round in the estimate of how much is marked (RFC 8257, section 3.3: DCTCP.g).
const GAIN: f64 = 1.0 / 16.0;

/// DCTCP (RFC 8257): the window shrinks by half of the fraction of marked results, estimated over rounds. With results that carry the
/// marks of all contributions it is the algorithm of PANAMA's workers, whose windows stay alike because all see the same marks (Gebara et al., "PANAMA:
/// In-network Aggregation for Shared Machine Learning Clusters", MLSys 2021).
#[derive(Debug, Clone, PartialEq)]
pub struct Dctcp {
    window: f64,
    most: f64,
    /// By what the increase is multiplied.
    scale: f64,
    /// Fraction of results that are marked, 0 to 1.
    marked: f64,
    cut: bool,
}

impl Dctcp {
    /// Begins with all slots, and as if all were marked, as section 3.3 has it: the first marks are taken seriously.
    pub fn new(slots: u32) -> Self {
        Self { window: slots.into(), most: slots.into(), scale: 1.0, marked: 1.0, cut: false }
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, _: &Ack) {}

    fn on_round(&mut self, round: &Round) {
        let share = f64::from(round.marked) / f64::from(round.acks.max(1));
        self.marked += GAIN * (share - self.marked);
        match (round.marked, std::mem::take(&mut self.cut)) {
            (_, true) => {}
            (0, false) => self.window = (self.window + self.scale).min(self.most),
            (_, false) => self.window = (self.window * (1.0 - self.marked / 2.0)).max(1.0),
        }
    }

    fn on_loss(&mut self, _: Instant) {
        // Section 3.5: as without ECN.
        self.window = (self.window / 2.0).max(1.0);
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
    fn the_cut_is_in_proportion_to_the_marks() {
        let round = |marked| Round { acks: 100, marked };
        let mut control = Dctcp::new(128);
        control.on_round(&round(100));
        assert_eq!(control.window(), 64.0, "all marked: half");
        // With one mark in ten results the estimate converges to 0.1, and the decrease to 0.05.
        (0..200).for_each(|_| control.on_round(&round(10)));
        let before = {
            control.window = 100.0;
            control.window()
        };
        control.on_round(&round(10));
        assert!((control.window() / before - 0.95).abs() < 1e-3, "{}", control.window());
        control.on_round(&round(0));
        assert!((control.window() - (before * 0.95 + 1.0)).abs() < 0.1);
        control.on_loss(Instant::ZERO);
        let halved = control.window();
        control.on_round(&round(100));
        assert_eq!(control.window(), halved, "once a round");
    }
}
