//! A switch's counters, as an event and as lines.

use netfold_switch::SwitchCounters;
use netfold_switch::queue::{QueueCounters, QueueName};

use crate::error::CliError;
use crate::event::{Counters, Event, QueueCounts, ThreadCounters};
use crate::output::Output;
use crate::size::{grouped, human};

/// The counters of all packet threads together.
pub(super) fn counters(threads: &[SwitchCounters], controller_dropped: u64, last: bool) -> Counters {
    let thread = |counted: &SwitchCounters| ThreadCounters {
        packets_in: counted.io.rx_packets,
        packets_out: counted.io.tx_packets,
        results: counted.results,
        output_dropped: counted.output_dropped,
        input_dropped: counted.io.rx_dropped,
        crossed: counted.io.rx_crossed,
    };
    let counted: SwitchCounters = threads.iter().cloned().sum();
    Counters {
        last,
        packets_in: counted.io.rx_packets,
        bytes_in: counted.io.rx_bytes,
        packets_out: counted.io.tx_packets,
        bytes_out: counted.io.tx_bytes,
        results: counted.results,
        repeated: counted.repeated,
        unknown_source: counted.unknown_source,
        output_dropped: counted.output_dropped,
        input_dropped: counted.io.rx_dropped,
        fault_dropped: counted.io.fault_dropped,
        unauthenticated: counted.io.unauthenticated,
        capture_failed: counted.io.capture_failed,
        controller_dropped,
        packets: counted.packets.iter().map(|&(reason, count)| (reason.to_owned(), count)).collect(),
        queues: counted.queues.iter().flat_map(|queues| &queues.queues).map(queue).collect(),
        pauses: counted.queues.as_ref().map_or(0, |queues| queues.pauses),
        threads: if threads.len() > 1 { threads.iter().map(thread).collect() } else { Vec::new() },
    }
}

fn queue((port, name, counted): &(u16, QueueName, QueueCounters)) -> QueueCounts {
    QueueCounts {
        port: *port,
        queue: name.to_string(),
        enqueued: counted.enqueued,
        sent: counted.sent,
        sent_bytes: counted.sent_bytes,
        marked: counted.marked,
        trimmed: counted.trimmed,
        dropped: counted.dropped,
        flushed: counted.flushed,
        pauses: counted.pauses,
        held_bytes: counted.held_bytes,
        held_bytes_max: counted.held_bytes_max,
    }
}

pub(super) fn show_counters(output: &Output, c: &Counters) -> Result<(), CliError> {
    output.event(&Event::Counters(c.clone()))?;
    output.line(format_args!(
        "in {} packets ({}), out {} ({}); {} results, {} repeated",
        grouped(c.packets_in),
        human(c.bytes_in),
        grouped(c.packets_out),
        human(c.bytes_out),
        grouped(c.results),
        grouped(c.repeated)
    ))?;
    let reasons = c.packets.iter().map(|(reason, &count)| (reason.as_str(), count));
    let others = [
        ("unknown source", c.unknown_source),
        ("output full", c.output_dropped),
        ("input full", c.input_dropped),
        ("dropped by fault", c.fault_dropped),
        ("wrong tag", c.unauthenticated),
        ("not captured", c.capture_failed),
        ("no controller", c.controller_dropped),
    ];
    for (reason, count) in reasons.filter(|(reason, _)| *reason != "none").chain(others) {
        if count > 0 {
            output.line(format_args!("  {reason:<16}{:>12}", grouped(count)))?;
        }
    }
    if c.pauses > 0 {
        output.line(format_args!("  {:<16}{:>12}", "input paused", grouped(c.pauses)))?;
    }
    for q in &c.queues {
        let others = [
            ("marked", q.marked),
            ("trimmed", q.trimmed),
            ("dropped", q.dropped),
            ("flushed", q.flushed),
            ("pauses", q.pauses),
        ];
        let others: String = others
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!(", {} {name}", grouped(count)))
            .collect();
        output.line(format_args!(
            "  port {} queue {}: {} sent ({}), {} held, {} at most{others}",
            q.port,
            q.queue,
            grouped(q.sent),
            human(q.sent_bytes),
            human(q.held_bytes),
            human(q.held_bytes_max)
        ))?;
    }
    for (index, thread) in c.threads.iter().enumerate() {
        let crossed = match thread.crossed {
            0 => String::new(),
            crossed => format!(", {} by other threads' queues of the interface", grouped(crossed)),
        };
        output.line(format_args!(
            "  thread {index:<3} in {} packets{crossed}, out {}, {} results",
            grouped(thread.packets_in),
            grouped(thread.packets_out),
            grouped(thread.results)
        ))?;
    }
    Ok(())
}
