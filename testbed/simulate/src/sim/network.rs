//! A network with random faults.

use std::time::Duration;

use netfold_wire::{Flags, Kind, Packet, header};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// What one direction of every link does to a datagram. Probabilities are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// It is lost.
    pub loss: f64,
    /// Its lanes are cut off, if its header permits that.
    pub trimming: f64,
    /// Bits flip; the UDP checksum shows it and the datagram is dropped.
    pub corruption: f64,
    /// It arrives twice, each copy in its own time.
    pub duplication: f64,
    /// It is held back for up to `straggle`, far beyond a window of others.
    pub reordering: f64,
    /// Shortest time on the way.
    pub delay: Duration,
    /// Longest additional delay, uniformly distributed; reorders what is sent in quick succession.
    pub jitter: Duration,
    /// Longest time by which reordering holds a datagram back.
    pub straggle: Duration,
}

/// When the copies of a datagram arrive, after it was sent. None: it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The datagram.
    pub first: Option<Duration>,
    /// A second copy.
    pub second: Option<Duration>,
}

impl Faults {
    /// What arrives of a datagram: one that may be trimmed is trimmed at random.
    pub fn trim<'a>(&self, rng: &mut Xoshiro256PlusPlus, datagram: &'a mut [u8]) -> &'a [u8] {
        let mut packet = Packet::new_unchecked(&mut *datagram);
        let flags = packet.flags();
        let may_be = packet.kind() == Kind::Data as u8
            && flags.contains(Flags::DROPPABLE)
            && !flags.contains(Flags::BARE);
        if self.trimming == 0.0 || !may_be || !rng.random_bool(self.trimming) {
            return datagram;
        }
        packet.set_flags(flags.with(Flags::BARE).with(Flags::TRIMMED));
        packet.set_count(0);
        &datagram[..header::LEN]
    }

    /// Decides the delivery of one datagram.
    pub fn decide(&self, rng: &mut Xoshiro256PlusPlus) -> Delivery {
        let mut copy = |asked: bool| {
            let lost = rng.random_bool(self.loss) || rng.random_bool(self.corruption);
            (asked && !lost).then(|| {
                let extra = if rng.random_bool(self.reordering) { self.straggle } else { self.jitter };
                self.delay + extra.mul_f64(rng.random())
            })
        };
        let first = copy(true);
        let second = if self.duplication > 0.0 && rng.random_bool(self.duplication) {
            let extra = self.jitter.mul_f64(rng.random());
            first.map(|at| at + extra)
        } else {
            None
        };
        Delivery { first, second }
    }
}
