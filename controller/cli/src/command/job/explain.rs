//! `netfold job explain`: what is known of a job's stalls, as text.

use std::time::Duration;

use netfold_server::api::v1;
use serde_json::{Value, json};

use crate::command::remote::{ControllerOptions, Table, ago, clock, counted, full_name, parse_name};
use crate::error::CliError;
use crate::output::{Output, Tone};

/// Last events of each rank that are shown; `--json` has all.
const EVENTS_SHOWN: usize = 10;

/// Of a job without records.
const NO_RECORD: &str = "no stall is recorded: while this controller has run, no worker of it has waited longer than a second for a result, or that is long ago";

pub(super) fn run(output: &Output, job: &str, options: &ControllerOptions) -> Result<(), CliError> {
    let name = Some(parse_name(job, options.tenant.as_deref()));
    let client = options.connect()?;
    let explained = client.wait(client.jobs().explain(v1::ExplainJobRequest { name }))?;
    output.event(&value(&explained))?;
    let title = format!("job '{}'", full_name(explained.name.as_ref()));
    output.line(format_args!("{}", output.paint(Tone::Strong, &title)))?;
    if explained.records.is_empty() {
        return output.line(format_args!("  {NO_RECORD}"));
    }
    explained.records.iter().try_for_each(|record| show(output, record))
}

/// The explanation for `--json`.
fn value(explained: &v1::JobExplanation) -> Value {
    let name = explained.name.clone().unwrap_or_default();
    let records: Vec<Value> = explained.records.iter().map(record_value).collect();
    json!({ "event": "explanation", "tenant": name.tenant, "job": name.job, "records": records })
}

fn record_value(record: &v1::FlightRecord) -> Value {
    let chunk = |chunk: &v1::IncompleteChunk| {
        json!({
            "chunk": chunk.chunk, "slot": chunk.slot, "set": chunk.set,
            "missing": chunk.missing, "missing_more": chunk.missing_more,
            "sums_missing": chunk.sums_missing, "unread": chunk.unread,
        })
    };
    let unread = |unread: &v1::UnreadSwitch| json!({ "switch": unread.switch, "reason": unread.reason });
    json!({
        "group": record.group, "tree": record.tree, "epoch": record.epoch,
        "began_ms": record.began_ms, "as_of_ms": record.as_of_ms, "ended": record.ended,
        "conclusion": record.conclusion,
        "chunks": record.chunks.iter().map(chunk).collect::<Vec<_>>(),
        "unread": record.unread.iter().map(unread).collect::<Vec<_>>(),
        "ranks": record.ranks.iter().map(rank_value).collect::<Vec<_>>(),
        "ranks_more": record.ranks_more,
    })
}

fn rank_value(rank: &v1::RankRecord) -> Value {
    let event = |event: &v1::RankEvent| {
        json!({
            "at_ms": event.at_ms, "kind": event.kind,
            "chunk": event.chunk, "operation": event.operation, "count": event.count,
        })
    };
    let report = |report: &v1::RankReport| {
        json!({
            "at_ms": report.at_ms, "received_at_ms": report.received_at_ms, "outstanding": report.outstanding,
            "chunk": report.chunk, "sends": report.sends,
            "events": report.events.iter().map(event).collect::<Vec<_>>(),
        })
    };
    json!({
        "rank": rank.rank, "state": rank.state, "silent_ms": rank.silent_ms,
        "report": rank.report.as_ref().map(report),
    })
}

fn show(output: &Output, record: &v1::FlightRecord) -> Result<(), CliError> {
    let of = if record.group.is_empty() { String::new() } else { format!("group '{}', ", record.group) };
    output.line(format_args!("\n{of}tree {}, epoch {}", record.tree, record.epoch))?;
    let lasts = seconds(record.as_of_ms.saturating_sub(record.began_ms));
    let began = time(record.began_ms);
    if record.ended.is_empty() {
        output.line(format_args!("  stalled   since {began}, for {lasts}"))?;
    } else {
        let ago = ago(record.as_of_ms / 1000);
        output.line(format_args!("  stalled   from {began} on, for {lasts}; over {ago} ago"))?;
        output.line(format_args!("  end       {}", record.ended))?;
    }
    output.line(format_args!("  cause     {}", output.paint(Tone::Bad, &record.conclusion)))?;
    for unread in &record.unread {
        output.line(format_args!("  unread    switch '{}': {}", unread.switch, unread.reason))?;
    }
    if !record.chunks.is_empty() {
        output.line(format_args!(""))?;
    }
    let mut chunks = Table::new(&["  chunk", "#slot", "#set", "lacks the contributions of"]);
    for chunk in &record.chunks {
        let place = [format!("  {}", chunk.chunk), chunk.slot.to_string(), chunk.set.to_string()];
        chunks.row(place.into_iter().chain([lacks(chunk)]));
    }
    if !record.chunks.is_empty() {
        chunks.print(output, "")?;
    }
    record.ranks.iter().try_for_each(|rank| show_rank(output, rank))?;
    if record.ranks_more > 0 {
        let more = counted(record.ranks_more, "more rank has", "more ranks have");
        output.line(format_args!("\n{more} reported it"))?;
    }
    Ok(())
}

/// Who has not contributed to a chunk.
fn lacks(chunk: &v1::IncompleteChunk) -> String {
    let mut parts = Vec::new();
    if !chunk.missing.is_empty() {
        let noun = if chunk.missing.len() == 1 { "rank" } else { "ranks" };
        let ranks: Vec<_> = chunk.missing.iter().map(ToString::to_string).collect();
        let more =
            if chunk.missing_more == 0 { String::new() } else { format!(" and {} more", chunk.missing_more) };
        parts.push(format!("{noun} {}{more}", ranks.join(", ")));
    }
    parts.extend(chunk.sums_missing.iter().map(|switch| format!("switch '{switch}' (its sum is complete)")));
    parts.extend(chunk.unread.iter().map(|switch| format!("switch '{switch}' (not read)")));
    parts.join("; ")
}

fn show_rank(output: &Output, rank: &v1::RankRecord) -> Result<(), CliError> {
    let heard = seconds(rank.silent_ms);
    let title = format!("rank {}", rank.rank);
    let title = output.paint(Tone::Strong, &title);
    let Some(report) = &rank.report else {
        return output.line(format_args!("\n{title} ({}): no report; last heard {heard} before", rank.state));
    };
    let times = counted(report.sends, "time", "times");
    output.line(format_args!(
        "\n{title} ({}): {} outstanding, the first {} (sent {times}); last heard {heard} before",
        rank.state,
        counted(report.outstanding, "chunk", "chunks"),
        report.chunk
    ))?;
    for event in &report.events[report.events.len().saturating_sub(EVENTS_SHOWN)..] {
        output.line(format_args!("  {}  {}", time(event.at_ms), words(event)))?;
    }
    let received = match report.received_at_ms {
        Some(at_ms) => format!("its last packet from the switch came at {}", time(at_ms)),
        None => "no packet has come from the switch".to_owned(),
    };
    output.line(format_args!("  {}  reported the stall; {received}", time(report.at_ms)))
}

/// What happened at a rank.
fn words(event: &v1::RankEvent) -> String {
    let operation = event.operation.map(|operation| format!("operation {operation}")).unwrap_or_default();
    let chunk = event.chunk.map(|chunk| format!("chunk {chunk}")).unwrap_or_default();
    match event.kind.as_str() {
        "submitted" => format!("{operation} submitted"),
        "finished" => format!("{operation} finished"),
        "sent" => format!("{chunk} sent"),
        "resent" => format!("{chunk} sent for the last time"),
        "result" => format!("last result received, of {chunk}"),
        "retransmitted" => {
            format!("{} retransmitted", counted(event.count.unwrap_or_default(), "packet", "packets"))
        }
        "session_broke" => "control session broke".to_owned(),
        "session_resumed" => "control session resumed".to_owned(),
        "switch_lost" => "gave the switch up, continued without it".to_owned(),
        "rejoined" => "attached to a switch again".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The time of day of a Unix time, UTC, with milliseconds.
fn time(unix_ms: u64) -> String {
    format!("{}.{:03}", clock(unix_ms), unix_ms % 1000)
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", Duration::from_millis(ms).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chunk_lacks_is_named() {
        let chunk = |missing: &[u32], missing_more, sums: &[&str]| v1::IncompleteChunk {
            missing: missing.to_vec(),
            missing_more,
            sums_missing: sums.iter().map(|&name| name.to_owned()).collect(),
            ..v1::IncompleteChunk::default()
        };
        assert_eq!(lacks(&chunk(&[2], 0, &[])), "rank 2");
        assert_eq!(lacks(&chunk(&[2, 3], 7, &[])), "ranks 2, 3 and 7 more");
        assert_eq!(lacks(&chunk(&[2], 0, &["leaf1"])), "rank 2; switch 'leaf1' (its sum is complete)");
    }

    #[test]
    fn every_event_has_words() {
        let event = |kind: &str, number| v1::RankEvent {
            kind: kind.into(),
            chunk: Some(number),
            operation: Some(u64::from(number)),
            count: Some(number),
            at_ms: 0,
        };
        assert_eq!(words(&event("submitted", 3)), "operation 3 submitted");
        assert_eq!(words(&event("retransmitted", 1)), "1 packet retransmitted");
        assert_eq!(words(&event("of_a_later_release", 1)), "of a later release");
        assert_eq!((time(61_005), seconds(1_949)), ("00:01:01.005".into(), "1.9 s".into()));
    }
}
