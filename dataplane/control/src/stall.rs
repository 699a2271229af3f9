//! What a member reports when its job stalls. For people who look for the cause: no decision about a job depends on it.

use serde::{Deserialize, Serialize};

/// Most events of a report: those before are forgotten. A report of so many is shorter than a line may be.
pub const RANK_EVENTS_MAX: usize = 24;

/// What a member that has received no result for a while, although packets are outstanding, knows of it. Sent once for each stall. Fields of later
/// releases are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StallReport {
    /// Milliseconds since the last result; since the first packet, if there was none before.
    pub silent_ms: u64,
    /// Milliseconds since the last packet of the job that came from the switch, whatever it was; nothing if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_ms: Option<u64>,
    /// Chunks sent whose results have not come.
    pub outstanding: u32,
    /// The class of the one that was sent first.
    pub class: u8,
    /// Its number.
    pub chunk: u32,
    /// How often it was sent.
    pub sends: u32,
    /// The last things that happened, the oldest first.
    pub events: Vec<RankEvent>,
}

/// Something that happened at a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankEvent {
    /// Milliseconds before the report was sent, by the rank's own clock.
    pub ago_ms: u64,
    /// What it was.
    pub kind: RankEventKind,
    /// The chunk that it was about, if it was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    /// The operation that it was about, if it was about one: all ranks count the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// How often it happened since the event of this kind before, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// Kinds of events at a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankEventKind {
    /// The program submitted an operation.
    Submitted,
    /// An operation was finished.
    Finished,
    /// The chunk that is outstanding longest was sent for the first time.
    Sent,
    /// It was sent for the last time.
    Resent,
    /// A result was received: the last one.
    Result,
    /// Packets were retransmitted.
    Retransmitted,
    /// The control session broke.
    SessionBroke,
    /// The control session was resumed.
    SessionResumed,
    /// The rank gave the switch up, and continued without it.
    SwitchLost,
    /// The rank was attached to a switch again.
    Rejoined,
    /// One of a later release.
    #[serde(other)]
    Other,
}

impl RankEventKind {
    /// Its name in data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Finished => "finished",
            Self::Sent => "sent",
            Self::Resent => "resent",
            Self::Result => "result",
            Self::Retransmitted => "retransmitted",
            Self::SessionBroke => "session_broke",
            Self::SessionResumed => "session_resumed",
            Self::SwitchLost => "switch_lost",
            Self::Rejoined => "rejoined",
            Self::Other => "other",
        }
    }
}

impl StallReport {
    /// Whether a member of a job with so many classes and slots can have reported this.
    pub fn is_possible(&self, classes: u8, slots: u32) -> bool {
        self.class < classes
            && (1..=slots).contains(&self.outstanding)
            && self.events.len() <= RANK_EVENTS_MAX
            && self.events.is_sorted_by(|earlier, later| earlier.ago_ms >= later.ago_ms)
    }

    /// The same, sent so many milliseconds later.
    #[must_use]
    pub fn delayed(mut self, by_ms: u64) -> Self {
        let received = self.received_ms.iter_mut();
        let times = received.chain(self.events.iter_mut().map(|event| &mut event.ago_ms));
        for time in times.chain([&mut self.silent_ms]) {
            *time = time.saturating_add(by_ms);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LINE_LEN_MAX, SessionRequest};

    fn report(events: Vec<RankEvent>) -> StallReport {
        StallReport {
            silent_ms: 1250,
            received_ms: Some(40),
            outstanding: 64,
            class: 0,
            chunk: 1034,
            sends: 4,
            events,
        }
    }

    const fn event(ago_ms: u64, kind: RankEventKind) -> RankEvent {
        RankEvent { ago_ms, kind, chunk: None, operation: None, count: None }
    }

    #[test]
    fn the_longest_report_is_a_line() {
        let kind = RankEventKind::SessionResumed;
        let longest = RankEvent {
            chunk: Some(u32::MAX),
            operation: Some(u64::MAX),
            count: Some(u32::MAX),
            ..event(u64::MAX, kind)
        };
        let report = StallReport {
            silent_ms: u64::MAX,
            received_ms: Some(u64::MAX),
            outstanding: u32::MAX,
            class: u8::MAX,
            chunk: u32::MAX,
            sends: u32::MAX,
            events: vec![longest; RANK_EVENTS_MAX],
        };
        let line = serde_json::to_string(&SessionRequest::Stalled(report)).unwrap();
        assert!(line.len() < LINE_LEN_MAX, "{}", line.len());
    }

    #[test]
    fn reports_are_read_as_they_were_sent_and_later_kinds_are_no_error() {
        let sent = report(vec![
            RankEvent { operation: Some(3), ..event(1300, RankEventKind::Submitted) },
            RankEvent { chunk: Some(1034), ..event(1290, RankEventKind::Sent) },
        ]);
        let line = serde_json::to_string(&SessionRequest::Stalled(sent.clone())).unwrap();
        assert_eq!(
            line,
            concat!(
                r#"{"type":"stalled","silent_ms":1250,"received_ms":40,"outstanding":64,"class":0,"chunk":1034,"sends":4,"events":["#,
                r#"{"ago_ms":1300,"kind":"submitted","operation":3},{"ago_ms":1290,"kind":"sent","chunk":1034}]}"#
            )
        );
        assert_eq!(serde_json::from_str::<SessionRequest>(&line).unwrap(), SessionRequest::Stalled(sent));
        let later = line.replace(r#""kind":"sent""#, r#""kind":"trimmed","x":1"#);
        let SessionRequest::Stalled(read) = serde_json::from_str(&later).unwrap() else { panic!("{later}") };
        assert_eq!(read.events[1].kind, RankEventKind::Other);
        for kind in [RankEventKind::Submitted, RankEventKind::SessionBroke, RankEventKind::Rejoined] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
    }

    #[test]
    fn impossible_reports_are_detected() {
        let events = vec![event(9, RankEventKind::Submitted), event(9, RankEventKind::Sent)];
        assert!(report(events.clone()).is_possible(1, 64));
        assert!(!report(events.clone()).is_possible(1, 32), "more outstanding than there are slots");
        assert!(!StallReport { outstanding: 0, ..report(events.clone()) }.is_possible(1, 64));
        assert!(!StallReport { class: 1, ..report(events) }.is_possible(1, 64));
        let disordered = vec![event(1, RankEventKind::Submitted), event(2, RankEventKind::Sent)];
        assert!(!report(disordered).is_possible(1, 64));
        let many = vec![event(9, RankEventKind::Sent); RANK_EVENTS_MAX + 1];
        assert!(!report(many).is_possible(1, 64));
    }

    #[test]
    fn a_delay_is_added_to_every_time() {
        let delayed = report(vec![event(9, RankEventKind::Sent)]).delayed(100);
        assert_eq!(
            (delayed.silent_ms, delayed.received_ms, delayed.events[0].ago_ms),
            (1350, Some(140), 109)
        );
    }
}
