//! What a rank remembers of the last things that happened, and the report that it makes of them when its job stalls.
//!
//! Events are operations, what timers did, and changes of the session and the switch: nothing is recorded for a packet. The last packets are known
//! from the worker when a report is made.

use std::time::Duration;

use netfold_control::{MemberCounters, RANK_EVENTS_MAX, RankEvent, RankEventKind, StallReport};
use netfold_proto::{Instant, OutstandingChunk};

use crate::report::millis;
use crate::streams::Streams;

/// How long there is no result, while packets are outstanding, before a rank reports a stall. Longer than the silence after which it probes the
/// switch, so that the report says whether the switch answers; and short against the lease, within which a rank that is stopped is lost.
const STALL_AFTER: Duration = Duration::from_millis(1250);

/// Events that are kept: a report has three more, of the last packets.
const EVENTS: usize = RANK_EVENTS_MAX - 3;

#[derive(Debug, Clone, Copy)]
struct Event {
    at: Instant,
    kind: RankEventKind,
    /// Number of the operation, or how many.
    value: Option<u64>,
}

/// The last events, and whether a stall is reported already.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    /// A ring: the newest is before `next`.
    events: [Event; EVENTS],
    next: usize,
    len: usize,
    /// Packets retransmitted so far.
    retransmitted: u64,
    /// Results received when the stall that lasts was reported.
    reported: Option<u64>,
}

impl FlightRecorder {
    pub(crate) fn new() -> Self {
        let none = Event { at: Instant::ZERO, kind: RankEventKind::Other, value: None };
        Self { events: [none; EVENTS], next: 0, len: 0, retransmitted: 0, reported: None }
    }

    /// Records an event; `value` is the number of the operation that it is about, or how many packets.
    pub(crate) fn note(&mut self, at: Instant, kind: RankEventKind, value: Option<u64>) {
        self.events[self.next] = Event { at, kind, value };
        self.next = (self.next + 1) % EVENTS;
        self.len = (self.len + 1).min(EVENTS);
    }

    /// The streams are those of another attachment, whose counters begin anew.
    pub(crate) fn reattached(&mut self, at: Instant) {
        self.note(at, RankEventKind::Rejoined, None);
        (self.retransmitted, self.reported) = (0, None);
    }

    /// To be called several times a second while packets are outstanding, with their counters. Returns the report of a stall once, when it is noticed.
    pub(crate) fn watch(
        &mut self,
        now: Instant,
        streams: &Streams,
        counters: &MemberCounters,
    ) -> Option<StallReport> {
        let more = counters.packets_retransmitted.saturating_sub(self.retransmitted);
        if more > 0 {
            self.note(now, RankEventKind::Retransmitted, Some(more));
            self.retransmitted = counters.packets_retransmitted;
        }
        let results = counters.results_received;
        if streams.outstanding() == 0 || self.reported.is_some_and(|before| before != results) {
            self.reported = None;
        }
        if self.reported.is_some() || now - streams.progress_at() < STALL_AFTER {
            return None;
        }
        let report = self.report(now, streams)?;
        self.reported = Some(results);
        Some(report)
    }

    fn report(&self, now: Instant, streams: &Streams) -> Option<StallReport> {
        let (class, oldest) = streams.oldest_outstanding()?;
        let received_at = streams.received_at();
        Some(StallReport {
            silent_ms: millis(now - streams.progress_at()),
            received_ms: received_at.map(|at| millis(now - at)),
            outstanding: streams.outstanding(),
            class,
            chunk: oldest.chunk,
            sends: oldest.sends,
            events: self.events(now, &oldest, streams.last_result()),
        })
    }

    /// All events and those of the last packets, the oldest first.
    fn events(
        &self,
        now: Instant,
        oldest: &OutstandingChunk,
        last_result: Option<(Instant, u32)>,
    ) -> Vec<RankEvent> {
        let kept = (0..self.len).map(|age| &self.events[(self.next + EVENTS - self.len + age) % EVENTS]);
        let event = |at, kind| RankEvent {
            ago_ms: millis(now - at),
            kind,
            chunk: None,
            operation: None,
            count: None,
        };
        let kept = kept.map(|kept| match kept.kind {
            RankEventKind::Retransmitted => {
                let count = kept.value.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                RankEvent { count, ..event(kept.at, kept.kind) }
            }
            kind => RankEvent { operation: kept.value, ..event(kept.at, kind) },
        });
        let of_chunk = |at, kind, chunk| RankEvent { chunk: Some(chunk), ..event(at, kind) };
        let result = last_result.map(|(at, chunk)| of_chunk(at, RankEventKind::Result, chunk));
        let first =
            (oldest.sends > 0).then(|| of_chunk(oldest.first_sent_at, RankEventKind::Sent, oldest.chunk));
        let last = (oldest.sends > 1).then(|| of_chunk(oldest.sent_at, RankEventKind::Resent, oldest.chunk));
        let mut events: Vec<_> = kept.chain(first).chain(last).chain(result).collect();
        // Stable: equal times stay in their order.
        events.sort_by_key(|event| std::cmp::Reverse(event.ago_ms));
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_last_events_are_kept_in_order() {
        let mut recorder = FlightRecorder::new();
        for number in 0..100 {
            recorder.note(at(number), RankEventKind::Submitted, Some(number));
        }
        recorder.note(at(100), RankEventKind::Retransmitted, Some(7));
        let oldest = OutstandingChunk { chunk: 9, sends: 2, first_sent_at: at(98), sent_at: at(150) };
        let events = recorder.events(at(200), &oldest, Some((at(99), 8)));
        assert_eq!(events.len(), RANK_EVENTS_MAX);
        assert!(events.is_sorted_by_key(|event| std::cmp::Reverse(event.ago_ms)), "{events:?}");
        assert_eq!((events[0].ago_ms, events[0].operation), (120, Some(80)));
        let last: Vec<_> =
            events[RANK_EVENTS_MAX - 6..].iter().map(|event| (event.ago_ms, event.kind)).collect();
        assert_eq!(
            last,
            [
                (102, RankEventKind::Submitted),
                (102, RankEventKind::Sent),
                (101, RankEventKind::Submitted),
                (101, RankEventKind::Result),
                (100, RankEventKind::Retransmitted),
                (50, RankEventKind::Resent),
            ]
        );
        assert_eq!(
            (events[RANK_EVENTS_MAX - 2].count, events[RANK_EVENTS_MAX - 1].chunk),
            (Some(7), Some(9))
        );
    }

    #[test]
    fn a_rank_without_a_past_reports_its_packet() {
        let oldest = OutstandingChunk { chunk: 9, sends: 1, first_sent_at: at(0), sent_at: at(0) };
        let events = FlightRecorder::new().events(at(2000), &oldest, None);
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].ago_ms, events[0].kind), (2000, RankEventKind::Sent));
    }
}
