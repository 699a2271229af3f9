//! Which chunks count as lost, and when: by later acknowledgements, as in RACK (RFC 8985), or by the timer.
//!
//! RFC 8985 section 3.1: an endpoint "keeps track of the transmission time of each segment" and deems one lost "if
//! another segment sent later has been delivered", give or take a reordering window. Here chunks are segments and
//! results are acknowledgements. A chunk may also be unacknowledged because *another* rank's contribution was lost; then the
//! retransmission is a duplicate that the switch drops, and its cost is that packet.
//!
//! Where the chunks of an operation have several classes, queues let higher ones overtake lower ones: only acknowledgements of the lowest
//! class are evidence, since whatever was sent before them is of no lower one.
//!
//! Unlike RFC 8985 no short timer is started for chunks sent just before the newest acknowledged one: on hosts that
//! share processors, a peer or a switch that does not run for some milliseconds would look like loss every time.
//! Silence costs one packet instead: the oldest outstanding chunk is retransmitted as a probe (RFC 8985 section 7), and its
//! acknowledgement shows what else was lost. A straggler costs a packet for each doubling of the wait.

use core::time::Duration;

use crate::Instant;
use crate::rtt::Rtt;
use crate::slot::{LossCause, Slot, SlotState, Slots};

/// Least reordering window: below it, batching by hosts and switches looks like loss.
const REORDER_FLOOR: Duration = Duration::from_micros(20);

/// The evidence from acknowledgements so far.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Latest send time of an acknowledged chunk: path, switch and peers were reachable for what was sent until then.
    newest: Option<Instant>,
    /// Losses are detected against this send time: `newest` as of a while ago.
    settled: Option<Instant>,
    /// What will be `settled`, and when. A rank that received an exponent with a delay sends that chunk behind later operations'
    /// first chunks, so acknowledgements may be out of order by the duration of such a burst.
    settling: Option<(Instant, Instant)>,
    /// When a chunk was last acknowledged, sent for the first time, or probed.
    quiet_since: Instant,
    /// Probes since the last acknowledgement.
    probes: u32,
}

/// The probe timeout stops doubling here.
const PROBES_MAX: u32 = 8;

impl Recovery {
    /// Records that a chunk was sent for the first time.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.quiet_since = now;
    }

    /// When the oldest chunk in flight is retransmitted as a probe: after two low round trips of silence, at least a quarter
    /// of the shortest timeout, doubled for each unacknowledged probe. Not while a retransmission is pending.
    fn probe_at(&self, slots: &Slots, rtt: &Rtt) -> Option<Instant> {
        let low = rtt.low().filter(|_| slots.len(SlotState::Lost) == 0)?;
        slots.front(SlotState::InFlight)?;
        Some(self.quiet_since + (low * 2).max(rtt.min() / 4).saturating_mul(1 << self.probes))
    }

    /// Moves the oldest chunk in flight to the lost list when the silence has lasted long enough.
    pub(crate) fn probe(&mut self, now: Instant, slots: &mut Slots, rtt: &Rtt) {
        if self.probe_at(slots, rtt).is_none_or(|at| at > now) {
            return;
        }
        if let Some(index) = slots.front(SlotState::InFlight) {
            slots.slot_mut(index).loss = LossCause::Probed;
            slots.shift(index, SlotState::Lost);
            self.probes = (self.probes + 1).min(PROBES_MAX);
            self.quiet_since = now;
        }
    }

    /// Records that `slot`, as last sent, was acknowledged at `now`.
    pub(crate) fn on_ack(&mut self, now: Instant, slot: &Slot, rtt: &Rtt) {
        // RFC 8985 section 6.2 step 2: an acknowledgement that arrives sooner than any round trip after a retransmission is for
        // an earlier transmission, and is no evidence about the last.
        self.quiet_since = now;
        self.probes = 0;
        if !slot.lowest {
            return;
        }
        let (took, low) = (now - slot.sent_at, rtt.low().unwrap_or_default());
        // The acknowledgement of a probe may only show that a straggler has contributed, unless it arrives after one round trip.
        let late = slot.loss == LossCause::Probed && took > low * 2 + REORDER_FLOOR;
        if slot.sends > 1 && (took < low || late) {
            return;
        }
        self.newest = self.newest.max(Some(slot.sent_at));
        if self.settling.is_none() && self.settled.is_none_or(|settled| slot.sent_at > settled) {
            self.settling = Some((slot.sent_at, now + low + REORDER_FLOOR));
        }
    }

    /// The reordering window: how much later than a chunk another must have been sent for its acknowledgement to be evidence of loss.
    /// 1.25 times the low round trip, plus a floor.
    fn window(rtt: &Rtt) -> Option<Duration> {
        rtt.low().map(|low| low + low / 4 + REORDER_FLOOR)
    }

    /// When [`Self::detect`] has something to do.
    fn detect_at(&self, slots: &Slots, rtt: &Rtt) -> Option<Instant> {
        let (answered, at) = self.settling?;
        let sent_at = slots.slot(slots.front(SlotState::InFlight)?).sent_at;
        (sent_at + Self::window(rtt)? < answered).then_some(at)
    }

    /// Moves to the lost list what was sent more than the window before a chunk that was acknowledged a low round trip
    /// ago. Costs O(1) and O(1) more for each chunk found lost.
    pub(crate) fn detect(&mut self, now: Instant, slots: &mut Slots, rtt: &Rtt) {
        if let Some((answered, _)) = self.settling.take_if(|(_, at)| *at <= now) {
            self.settled = self.settled.max(Some(answered));
        }
        let (Some(settled), Some(window)) = (self.settled, Self::window(rtt)) else { return };
        while let Some(index) = slots.front(SlotState::InFlight) {
            if slots.slot(index).sent_at + window >= settled {
                break;
            }
            slots.slot_mut(index).loss = LossCause::Overtaken;
            slots.shift(index, SlotState::Lost);
        }
    }

    /// When [`Self::detect`], [`Self::probe`] or [`Self::expire`] has something to do.
    pub(crate) fn next_deadline(&self, slots: &Slots, rtt: &Rtt) -> Option<Instant> {
        let expiry = self.deadline(slots, rtt)?;
        Some(
            [self.probe_at(slots, rtt), self.detect_at(slots, rtt)]
                .into_iter()
                .flatten()
                .fold(expiry, Instant::min),
        )
    }

    /// When the timer of the oldest chunk in flight expires. A back-off is for a path, switch or peer that may be lost: it
    /// does not apply to chunks sent no later than an acknowledged one.
    fn deadline(&self, slots: &Slots, rtt: &Rtt) -> Option<Instant> {
        let sent_at = slots.slot(slots.front(SlotState::InFlight)?).sent_at;
        Some(sent_at + if self.is_before_newest_ack(sent_at) { rtt.rto_without_backoff() } else { rtt.rto() })
    }

    /// Moves to the lost list what has passed its deadline, and backs the timer off for chunks sent after the newest acknowledged one.
    pub(crate) fn expire(&self, now: Instant, slots: &mut Slots, rtt: &mut Rtt) {
        let backed_off = rtt.rto();
        while let Some(index) = slots.front(SlotState::InFlight) {
            let sent_at = slots.slot(index).sent_at;
            let before_newest_ack = self.is_before_newest_ack(sent_at);
            let rto = if before_newest_ack { rtt.rto_without_backoff() } else { backed_off };
            if sent_at + rto > now {
                break;
            }
            if !before_newest_ack {
                rtt.expired(now, sent_at);
            }
            slots.slot_mut(index).loss = LossCause::Timeout;
            slots.shift(index, SlotState::Lost);
        }
    }

    fn is_before_newest_ack(&self, sent_at: Instant) -> bool {
        self.newest.is_some_and(|newest| sent_at <= newest)
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
        let mut slots = Slots::new(8, 0, 0);
        for (index, sent) in sent_us.iter().enumerate() {
            let slot = slots.slot_mut(index as u16);
            (slot.sent_at, slot.sends) = (at(*sent), 1);
            slots.shift(index as u16, SlotState::InFlight);
        }
        let mut rtt = Rtt::new(Duration::from_micros(50), Duration::from_millis(1), Duration::from_secs(1));
        rtt.sample(at(100), at(0));
        (slots, rtt)
    }

    #[test]
    fn overtaken_by_more_than_the_window_is_lost() {
        let (mut slots, rtt) = flight(&[0, 54, 56, 200]); // window 145 us
        let mut recovery = Recovery::default();
        recovery.detect(at(250), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 0, "nothing acknowledged yet");
        recovery.on_ack(at(300), slots.slot(3), &rtt);
        slots.shift(3, SlotState::Idle);
        assert_eq!(recovery.detect_at(&slots, &rtt), Some(at(420)));
        recovery.detect(at(419), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 0, "the ack may only be out of order");
        recovery.detect(at(420), &mut slots, &rtt);
        assert_eq!((slots.len(SlotState::Lost), slots.len(SlotState::InFlight)), (2, 1));
        assert_eq!(slots.slot(0).loss, LossCause::Overtaken);
    }

    #[test]
    fn an_ack_of_an_earlier_transmission_is_no_evidence() {
        let (mut slots, rtt) = flight(&[0, 200]);
        slots.slot_mut(1).sends = 2;
        let mut recovery = Recovery::default();
        recovery.on_ack(at(250), slots.slot(1), &rtt);
        recovery.detect(at(500), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 0);
        recovery.on_ack(at(301), slots.slot(1), &rtt);
        recovery.detect(at(421), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 1);
    }

    #[test]
    fn only_acks_of_the_lowest_class_are_evidence() {
        let (mut slots, rtt) = flight(&[0, 200, 201]);
        slots.slot_mut(1).lowest = false;
        let mut recovery = Recovery::default();
        recovery.on_ack(at(301), slots.slot(1), &rtt);
        recovery.detect(at(900), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 0, "a higher class may have overtaken");
        recovery.on_ack(at(901), slots.slot(2), &rtt);
        slots.shift(2, SlotState::Idle);
        recovery.detect(at(1100), &mut slots, &rtt);
        assert_eq!((slots.len(SlotState::Lost), slots.slot(0).loss), (1, LossCause::Overtaken));
    }

    #[test]
    fn expiry_takes_all_that_waited_and_backs_off_once() {
        let (mut slots, mut rtt) = flight(&[0, 10, 500]); // RTO = 100 + 4 * 50 = 300 us
        let recovery = Recovery::default();
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(300)));
        recovery.expire(at(299), &mut slots, &mut rtt);
        assert_eq!(slots.len(SlotState::Lost), 0);
        recovery.expire(at(310), &mut slots, &mut rtt);
        assert_eq!(slots.len(SlotState::Lost), 2);
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(500 + 600)));
    }

    #[test]
    fn chunks_before_an_acknowledged_one_are_not_backed_off() {
        let (mut slots, mut rtt) = flight(&[400, 400, 500]);
        rtt.expired(at(399), at(399)); // RTO 600 us
        let mut recovery = Recovery::default();
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(1000)));
        recovery.on_ack(at(520), slots.slot(1), &rtt);
        slots.shift(1, SlotState::Idle);
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(700)));
        recovery.expire(at(700), &mut slots, &mut rtt);
        assert_eq!(slots.len(SlotState::Lost), 1);
        assert_eq!(recovery.deadline(&slots, &rtt), Some(at(1100)), "not doubled again");
    }

    #[test]
    fn silence_is_probed_with_one_chunk_whose_ack_shows_the_rest() {
        let (mut slots, rtt) = flight(&[0, 10, 20]); // low 100 us, so the first probe goes after 200 us of silence
        let mut recovery = Recovery::default();
        recovery.sent(at(20));
        assert_eq!(recovery.next_deadline(&slots, &rtt), Some(at(220)));
        recovery.probe(at(219), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 0);
        recovery.probe(at(220), &mut slots, &rtt);
        assert_eq!((slots.len(SlotState::Lost), slots.front(SlotState::Lost)), (1, Some(0)));
        let resend = |slots: &mut Slots, us| {
            (slots.slot_mut(0).sent_at, slots.slot_mut(0).sends) = (at(us), 2);
            slots.shift(0, SlotState::InFlight);
        };
        resend(&mut slots, 221);
        assert_eq!(recovery.probe_at(&slots, &rtt), Some(at(220 + 400)), "twice as long");
        let mut late = Recovery { probes: 1, ..Recovery::default() };
        late.on_ack(at(600), slots.slot(0), &rtt);
        late.detect(at(900), &mut slots, &rtt);
        assert_eq!((slots.len(SlotState::Lost), late.probes), (0, 0), "a straggler is not loss");
        recovery.on_ack(at(380), slots.slot(0), &rtt);
        slots.shift(0, SlotState::Idle);
        recovery.detect(at(500), &mut slots, &rtt);
        assert_eq!(slots.len(SlotState::Lost), 2);
    }
}
