//! The member's side of path validation (docs/protocol.md, "Path validation").
//!
//! Before a switch sends results to a member's address, the member proves that it receives there: it sends a packet to the switch, and
//! passes the token in the reply to the control port. The reply is no longer than the packet, and is sent only to a sender that knows the
//! job's key, so no address receives more than was sent from it.

use core::time::Duration;

use netfold_control::{PathChallenge, PathToken};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

use crate::Instant;

/// First and longest interval between requests: the first exceeds the round-trip times of data centres.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Requests a path token from a switch until the token arrives.
#[derive(Debug, Clone)]
pub struct PathValidation {
    challenge: PathChallenge,
    /// When the next request is due, and the interval after it.
    due: Instant,
    interval: Duration,
}

impl PathValidation {
    /// The validation that a control port requests; the first request is due at once.
    pub fn new(now: Instant, challenge: PathChallenge) -> Self {
        Self { challenge, due: now, interval: INTERVAL.0 }
    }

    /// Time until the next request is due.
    pub fn timeout(&self, now: Instant) -> Duration {
        self.due - now
    }

    /// The request to send now, if one is due: a datagram of bare DATA.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<[u8; header::LEN]> {
        if now < self.due {
            return None;
        }
        self.due = now + self.interval;
        self.interval = (self.interval * 2).min(INTERVAL.1);
        let PathChallenge { job, epoch, key, .. } = self.challenge;
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::BARE,
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job,
            slot: 0,
            set: 0,
            epoch,
            key,
            chunk: 0,
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut packet = Packet::new_unchecked([0; header::LEN]);
        repr.emit(&mut packet);
        Some(packet.into_inner())
    }

    /// The token in a datagram from the switch, if it is the reply to a request of this job, epoch and key.
    pub fn token(&self, datagram: &[u8]) -> Option<PathToken> {
        if datagram.len() != header::LEN {
            return None;
        }
        let repr = Repr::parse(&Packet::new_checked(datagram).ok()?).ok()?;
        let PathChallenge { job, epoch, key, .. } = self.challenge;
        let fits = (repr.kind, repr.reason) == (Kind::Reject, Reason::Path)
            && (repr.job, repr.epoch, repr.key) == (job, epoch, key);
        fits.then(|| PathToken(u64::from(repr.chunk) << 32 | u64::from(repr.bitmap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHALLENGE: PathChallenge =
        PathChallenge { job: 3, epoch: 9, key: 0xabcd, udp_port: 1, switch: None, keys: None };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn reply(request: &[u8; header::LEN], token: u64) -> [u8; header::LEN] {
        let mut packet = Packet::new_unchecked(*request);
        packet.set_kind_raw(Kind::Reject as u8);
        packet.set_reason_raw(Reason::Path as u8);
        packet.set_chunk((token >> 32) as u32);
        packet.set_bitmap(token as u32);
        packet.into_inner()
    }

    #[test]
    fn requests_are_repeated_at_growing_intervals() {
        let mut path = PathValidation::new(at(5), CHALLENGE);
        let sent: Vec<u64> = (5..1_200).filter(|ms| path.poll_transmit(at(*ms)).is_some()).collect();
        assert_eq!(sent, [5, 15, 35, 75, 155, 315, 565, 815, 1065]);
        assert_eq!(path.timeout(at(1_200)), Duration::from_millis(115));
    }

    proptest! {
        #[test]
        fn a_reply_carries_the_token(token: u64) {
            let mut path = PathValidation::new(at(0), CHALLENGE);
            let request = path.poll_transmit(at(0)).unwrap();
            prop_assert_eq!(path.token(&reply(&request, token)), Some(PathToken(token)));
            prop_assert_eq!(path.token(&request), None);
        }

        #[test]
        fn other_datagrams_carry_none(token: u64, bit in 0..64_usize, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut path = PathValidation::new(at(0), CHALLENGE);
            let request = path.poll_transmit(at(0)).unwrap();
            prop_assert_eq!(path.token(&bytes), None);
            let mut other = reply(&request, token);
            // A wrong epoch or key.
            other[8 + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(path.token(&other), None);
            let longer = [&reply(&request, token)[..], &[0]].concat();
            prop_assert_eq!(path.token(&longer), None);
        }
    }
}
