//! What the data of a stall say about its cause.

use super::missing::{ChunkState, Slots};
use super::{IncompleteChunk, MemberState, Reading, SILENT_AFTER, Stall, older};
use netfold_control::StallReport;
use std::time::Duration;

/// Ranks that a conclusion explains one by one; others are counted.
const EXPLAINED_MAX: usize = 3;

/// A packet from the switch within this time before the report: the switch was probed then, and answered.
const ANSWERED_WITHIN_MS: u64 = 1000;

impl Stall {
    /// One sentence or two: the cause, as far as it is known.
    pub(super) fn conclusion(
        &self,
        now: Duration,
        chunks: &[IncompleteChunk],
        state: &dyn Fn(u16) -> MemberState,
    ) -> String {
        let slots = self.slots();
        let root = &self.switches[self.placement.plan.order()[0]];
        if slots.of_root().is_none() {
            return self.without_slots(now, root, state);
        }
        let Some(oldest) = chunks.first() else { return self.results_lost(&slots, root) };
        let chunk = oldest.chunk;
        let missing = oldest.missing.len() + oldest.missing_more as usize;
        if missing == self.placement.members.len() && missing > 1 {
            return format!(
                "no contribution to chunk {chunk} has arrived at the switches: examine the links of all ranks, and what the ranks do"
            );
        }
        let mut sentences = Vec::new();
        for rank in oldest.missing.iter().take(EXPLAINED_MAX) {
            let cause = self.cause(now, *rank, chunk, &slots, state);
            sentences.push(format!("rank {rank} has not contributed to chunk {chunk}, and {cause}"));
        }
        if let more @ 1.. = missing.saturating_sub(EXPLAINED_MAX) {
            sentences.push(format!("{more} more ranks have not contributed to it"));
        }
        for switch in &oldest.sums_missing {
            sentences.push(format!(
                "switch '{switch}' has all contributions to chunk {chunk} of the ranks below it, and its parent lacks their sum: packets are lost between the two switches"
            ));
        }
        for switch in &oldest.unread {
            sentences.push(format!(
                "the sum of switch '{switch}' of chunk {chunk} is missing, and the switch could not be read"
            ));
        }
        sentences.join("; ")
    }

    /// Why a rank has not contributed.
    fn cause(
        &self,
        now: Duration,
        rank: u16,
        chunk: u32,
        slots: &Slots<'_>,
        state: &dyn Fn(u16) -> MemberState,
    ) -> String {
        if let Some(cause) = self.absence(now, rank, state(rank)) {
            return cause;
        }
        let report = self.reports.get(&rank).map(|reported| &reported.report);
        let Some(report) = report.filter(|report| report.class == self.class) else {
            return format!(
                "it was heard {} ago and reports no stall: its program has not begun this operation, or does something else",
                seconds(self.silence(now, rank))
            );
        };
        let waited = report.chunk;
        if older(waited, chunk) && slots.state(waited) == ChunkState::Complete {
            return format!(
                "it still waits for the result of chunk {waited}, which the switch has sent: results are lost on the way to it; examine its link and its receive buffers"
            );
        }
        let times = if waited == chunk { sent(report) } else { "it has packets outstanding".to_owned() };
        if report.received_ms.is_some_and(|ago| ago < ANSWERED_WITHIN_MS) {
            return format!(
                "{times}, and the switch answers it: its packets of this chunk are lost on the way; examine its link"
            );
        }
        format!(
            "{times} and receives nothing from its switch: its packets, or those of the switch to it, are lost on the way; examine its link"
        )
    }

    /// Why a rank is not there, if it is not.
    fn absence(&self, now: Duration, rank: u16, state: MemberState) -> Option<String> {
        let silence = self.silence(now, rank);
        match state {
            MemberState::Left => {
                Some("it has left the job: have all ranks do the same operations".to_owned())
            }
            MemberState::Away => Some(format!(
                "its control session is broken, and nothing was heard of it for {}: its process has ended or its host is unreachable",
                seconds(silence)
            )),
            MemberState::Lost if self.closed.contains(&rank) => {
                Some("its control session was closed: its process has ended".to_owned())
            }
            MemberState::Here | MemberState::Lost if silence >= SILENT_AFTER => Some(format!(
                "it has reported nothing for {}: its process is stopped or its host is unreachable",
                seconds(silence)
            )),
            MemberState::Lost => Some("it is lost, as the end of the job says".to_owned()),
            MemberState::Here => None,
        }
    }

    /// Without the root's slots it is not known who is missing in which chunk.
    fn without_slots(&self, now: Duration, root: &str, state: &dyn Fn(u16) -> MemberState) -> String {
        let ranks = (0..self.placement.members.len()).map(|rank| rank as u16);
        let absent = ranks.filter_map(|rank| Some((rank, self.absence(now, rank, state(rank))?)));
        let mut sentences: Vec<String> = absent
            .take(EXPLAINED_MAX)
            .map(|(rank, cause)| format!("of rank {rank} it is known that {cause}"))
            .collect();
        sentences.push(match &self.reading {
            Reading::Done(_) => format!(
                "switch '{root}' could not be read, so that it is not known who has not contributed: examine the switch"
            ),
            Reading::Due | Reading::UnderWay => format!("the slots of switch '{root}' are not read yet"),
        });
        sentences.join("; ")
    }

    /// No chunk lacks contributions: what ranks wait for was sent, or nothing is known of it.
    fn results_lost(&self, slots: &Slots<'_>, root: &str) -> String {
        let waiting = self.reports.iter().filter(|(_, reported)| {
            let report = &reported.report;
            report.class == self.class && slots.state(report.chunk) == ChunkState::Complete
        });
        let mut ranks = Vec::new();
        let mut chunk = None;
        for (rank, reported) in waiting {
            ranks.push(rank.to_string());
            chunk = chunk.or(Some(reported.report.chunk));
        }
        let Some(chunk) = chunk else {
            return format!(
                "switch '{root}' lacks no contribution that it knows of: the ranks that wait and the switch do not agree on what is missing"
            );
        };
        let more = ranks.len().saturating_sub(EXPLAINED_MAX);
        ranks.truncate(EXPLAINED_MAX);
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        let ranks = ranks.join(", ");
        format!(
            "switch '{root}' has all contributions to chunk {chunk} and has sent its result, which {noun} {ranks}{others} did not receive: results are lost on the way; examine the links from the switch, and the receive buffers"
        )
    }
}

/// How often a rank has sent the chunk that it waits for.
fn sent(report: &StallReport) -> String {
    match report.sends {
        0 | 1 => "it has sent it once".to_owned(),
        sends => format!("it has sent it {sends} times"),
    }
}

/// A time in seconds, for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
