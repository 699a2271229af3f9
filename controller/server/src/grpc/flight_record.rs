//! Conversion of flight records to the interface's messages.

use crate::api::v1;
use netfold_control::RankEvent;
use netfold_controller::flight_record::{FlightRecord, IncompleteChunk, RankRecord, RankReport};
use netfold_controller::record::JobName;

use super::convert::name_message;

pub(super) fn explanation(name: JobName, records: Vec<FlightRecord>) -> v1::JobExplanation {
    v1::JobExplanation {
        name: Some(name_message(name)),
        records: records.into_iter().map(record_message).collect(),
    }
}

fn record_message(record: FlightRecord) -> v1::FlightRecord {
    let unread = |(switch, reason)| v1::UnreadSwitch { switch, reason };
    v1::FlightRecord {
        group: record.group,
        tree: record.tree.into(),
        epoch: record.epoch,
        began_ms: record.began_ms,
        as_of_ms: record.as_of_ms,
        ended: record.ended.unwrap_or_default(),
        chunks: record.chunks.into_iter().map(chunk_message).collect(),
        unread: record.unread.into_iter().map(unread).collect(),
        ranks: record.ranks.into_iter().map(rank_message).collect(),
        ranks_more: record.ranks_more,
        conclusion: record.conclusion,
    }
}

fn chunk_message(chunk: IncompleteChunk) -> v1::IncompleteChunk {
    v1::IncompleteChunk {
        chunk: chunk.chunk,
        slot: chunk.slot,
        set: chunk.set.into(),
        missing: chunk.missing.into_iter().map(u32::from).collect(),
        missing_more: chunk.missing_more,
        sums_missing: chunk.sums_missing,
        unread: chunk.unread,
    }
}

fn rank_message(rank: RankRecord) -> v1::RankRecord {
    v1::RankRecord {
        rank: rank.rank.into(),
        state: rank.state.to_owned(),
        silent_ms: rank.silent_ms,
        report: rank.report.map(report_message),
    }
}

fn report_message(report: RankReport) -> v1::RankReport {
    v1::RankReport {
        at_ms: report.at_ms,
        received_at_ms: report.received_at_ms,
        outstanding: report.outstanding,
        chunk: report.chunk,
        sends: report.sends,
        events: report.events.into_iter().map(event_message).collect(),
    }
}

fn event_message((at_ms, event): (u64, RankEvent)) -> v1::RankEvent {
    let RankEvent { kind, chunk, operation, count, .. } = event;
    v1::RankEvent { at_ms, kind: kind.name().to_owned(), chunk, operation, count }
}
