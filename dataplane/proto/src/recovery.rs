//! Early loss detection in RACK's manner (RFC 8985): what was sent well before something already answered is lost.
//!
//! RFC 8985 section 3.1: an endpoint "keeps track of the transmission time of each segment" and deems one lost "if
//! another segment sent later has been delivered", give or take a reordering window. Here chunks are segments and
//! results are acknowledgements. A chunk may also be unanswered because *another* rank's share was lost; then the resend
//! is a duplicate that the switch drops, and the price is that packet.

use core::time::Duration;

use crate::rtt::Rtt;
use crate::slot::{Loss, Slots, State};
use crate::{Instant, slot::Slot};

/// Least reordering window: below it, batching by hosts and switches looks like loss.
const REORDER_FLOOR: Duration = Duration::from_micros(20);

/// The answered chunk that was sent last (RFC 8985's `RACK.xmit_ts` and `RACK.rtt`).
#[derive(Debug, Clone, Copy)]
struct Evidence {
    sent_at: Instant,
    rtt: Duration,
}

/// What answers have shown so far.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    newest: Option<Evidence>,
}

impl Recovery {
    /// Takes note that `slot`, as last sent, was answered at `now`.
    pub(crate) fn answered(&mut self, now: Instant, slot: &Slot, rtt: &Rtt) {
        let took = now - slot.sent_at;
        // RFC 8985 section 6.2 step 2: an answer that comes sooner than any round trip after a resend must be to an
        // earlier transmission, and says nothing about the time of the last.
        if slot.sends > 1 && rtt.low().is_some_and(|low| took < low) {
            return;
        }
        if self.newest.is_none_or(|newest| slot.sent_at >= newest.sent_at) {
            self.newest = Some(Evidence { sent_at: slot.sent_at, rtt: took });
        }
    }

    /// When the oldest flying chunk will be deemed lost for the sake of what was answered, if nothing else happens:
    /// when it was sent no later than the newest answered chunk, and has waited longer than that one did by the
    /// reordering window (1.25 times the low round trip, plus a floor). RFC 8985 section 6.2 step 5.
    ///
    /// A chunk that is sent again is newer than the evidence, so it is sent early at most once for each answer.
    pub(crate) fn deadline(&self, slots: &Slots, rtt: &Rtt) -> Option<Instant> {
        let (newest, low) = (self.newest?, rtt.low()?);
        let sent_at = slots.slot(slots.front(State::Flying)?).sent_at;
        (sent_at <= newest.sent_at).then(|| sent_at + newest.rtt + low + low / 4 + REORDER_FLOOR)
    }

    /// Moves to the lost list what has passed its [deadline](Self::deadline). Costs O(1) and O(1) more for each chunk
    /// found lost.
    pub(crate) fn detect(&self, now: Instant, slots: &mut Slots, rtt: &Rtt) {
        while let Some(index) = slots.front(State::Flying) {
            if self.deadline(slots, rtt).is_none_or(|at| at > now) {
                break;
            }
            slots.slot_mut(index).loss = Loss::Overtaken;
            slots.shift(index, State::Lost);
        }
    }
}

/// Moves to the lost list what has been flying for the retransmission time-out, and backs the timer off.
pub(crate) fn expire(now: Instant, slots: &mut Slots, rtt: &mut Rtt) {
    let rto = rtt.rto();
    while let Some(index) = slots.front(State::Flying) {
        let sent_at = slots.slot(index).sent_at;
        if sent_at + rto > now {
            break;
        }
        rtt.expired(now, sent_at);
        slots.slot_mut(index).loss = Loss::Timeout;
        slots.shift(index, State::Lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// Slots sent at the given times, and an estimator with a low of 100 us.
    fn flight(sent_us: &[u64]) -> (Slots, Rtt) {
        let mut slots = Slots::new(8, 0);
        for (index, sent) in sent_us.iter().enumerate() {
            let slot = slots.slot_mut(index as u16);
            (slot.sent_at, slot.sends) = (at(*sent), 1);
            slots.shift(index as u16, State::Flying);
        }
        let mut rtt = Rtt::new(Duration::from_micros(50), Duration::from_millis(1), Duration::from_secs(1));
        rtt.sample(Duration::from_micros(100));
        (slots, rtt)
    }

    #[test]
    fn what_waits_longer_than_something_newer_did_is_lost() {
        let (mut slots, rtt) = flight(&[0, 54, 56, 200, 201]); // window 145 us
        let mut recovery = Recovery::default();
        assert_eq!(recovery.deadline(&slots, &rtt), None, "nothing answered yet");
        recovery.answered(at(300), slots.slot(3), &rtt);
        slots.shift(3, State::Idle);
        recovery.detect(at(300), &mut slots, &rtt);
        assert_eq!((slots.len(State::Lost), slots.len(State::Flying)), (2, 2));
        assert_eq!(slots.slot(0).loss, Loss::Overtaken);
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(56 + 100 + 145)));
        recovery.detect(at(301), &mut slots, &rtt);
        assert_eq!(slots.len(State::Lost), 3);
        assert_eq!(recovery.deadline(&slots, &rtt), None, "the last was sent later");
    }

    #[test]
    fn an_answer_to_an_earlier_transmission_is_no_evidence() {
        let (mut slots, rtt) = flight(&[0, 200]);
        slots.slot_mut(1).sends = 2;
        let mut recovery = Recovery::default();
        recovery.answered(at(250), slots.slot(1), &rtt);
        assert_eq!(recovery.deadline(&slots, &rtt), None);
        recovery.answered(at(301), slots.slot(1), &rtt);
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(101 + 145)));
        recovery.detect(at(301), &mut slots, &rtt);
        assert_eq!(slots.len(State::Lost), 1);
    }

    #[test]
    fn expiry_takes_all_that_waited_and_backs_off_once() {
        let (mut slots, mut rtt) = flight(&[0, 10, 500]); // RTO = 100 + 4 * 50 = 300 us
        expire(at(299), &mut slots, &mut rtt);
        assert_eq!(slots.len(State::Lost), 0);
        expire(at(310), &mut slots, &mut rtt);
        assert_eq!(slots.len(State::Lost), 2);
        assert_eq!(rtt.rto(), Duration::from_micros(600));
    }
}
