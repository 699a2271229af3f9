//! What `netfold check` prints.

use netfold_check::pairs::{PairReport, RankReport, Trace};
use netfold_check::switch::{SLOTS, SwitchReport};
use netfold_check::{Finding, Severity};
use serde::Serialize;
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, Tone};

/// An event of a measurement.
#[derive(Serialize)]
struct Measured<'a, T> {
    event: &'static str,
    #[serde(flatten)]
    measured: &'a T,
}

/// What a rank measured towards another.
#[derive(Serialize)]
struct Pair<'a> {
    rank: usize,
    host: &'a str,
    #[serde(flatten)]
    pair: &'a PairReport,
    #[serde(flatten)]
    trace: &'a Trace,
}

/// The way to a switch.
pub(super) fn switch(output: &Output, report: &SwitchReport) -> Result<(), CliError> {
    output.event(&Measured { event: "check_switch", measured: report })?;
    let micros = |time: Option<f64>| time.map_or("-".into(), |time| format!("{time:.0} us"));
    let bytes = |bytes: Option<usize>| bytes.map_or("-".into(), |bytes| format!("{bytes} bytes"));
    output.line(format_args!(
        "control port {}: connected in {}, path MTU {}",
        report.address,
        micros(report.control_rtt_us),
        bytes(report.mtu)
    ))?;
    let Some(rate) = report.rate else { return Ok(()) };
    output.line(format_args!(
        "switch {}: packets of {}, round trip {}, replies at {} of {} UDP ports, {} of {} packets lost, {:.0} Mbit/s with {SLOTS} packets in flight",
        report.switch.map_or("-".into(), |switch| switch.to_string()),
        bytes(report.payload_bytes.map(|bytes| bytes as usize)),
        micros(report.rtt_us),
        report.ports_replied,
        report.ports,
        report.lost,
        report.packets,
        rate / 1e6
    ))
}

/// The measurements of all pairs.
pub(super) fn pairs(output: &Output, reports: &[RankReport]) -> Result<(), CliError> {
    output.line(format_args!(
        "{:>5}{:>5}  {:<18}{:>10}{:>12}{:>10}{:>8}{:>7}{:>8}{:>8}{:>12}",
        "rank",
        "peer",
        "host of rank",
        "rtt us",
        "offset us",
        "datagram",
        "ports",
        "paths",
        "sent",
        "lost",
        "Mbit/s"
    ))?;
    for (rank, report) in reports.iter().enumerate() {
        for (pair, trace) in report.pairs.iter().zip(&report.traces) {
            output.event(&Measured {
                event: "check_pair",
                measured: &Pair { rank, host: &report.host, pair, trace },
            })?;
            let host: String = report.host.chars().take(17).collect();
            if !pair.reached {
                output.line(format_args!("{rank:>5}{:>5}  {host:<18}   no reply", pair.peer))?;
                continue;
            }
            output.line(format_args!(
                "{rank:>5}{:>5}  {host:<18}{:>10.1}{:>12.1}{:>10}{:>8}{:>7}{:>8}{:>8}{:>12.1}",
                pair.peer,
                pair.rtt_us,
                pair.offset_us,
                pair.datagram,
                format!("{}/{}", pair.ports_replied, pair.ports),
                if trace.paths == 0 { "-".to_owned() } else { trace.paths.to_string() },
                pair.sent,
                pair.lost,
                pair.rate / 1e6
            ))?;
        }
    }
    match one_path(reports) {
        0 => Ok(()),
        pairs => output.line(format_args!(
            "# packets from all UDP ports pass the same routers in {pairs} of {pairs} pairs of which the routers are known: where the fabric has equal paths, have \
             its routers choose by ports (Linux: net.ipv4.fib_multipath_hash_policy=1)"
        )),
    }
}

/// Pairs all of whose UDP ports take one path by a second router; 0 if any pair takes several.
fn one_path(reports: &[RankReport]) -> usize {
    let traces = || reports.iter().flat_map(|report| &report.traces);
    if traces().any(|trace| trace.paths > 1) {
        return 0;
    }
    traces().filter(|trace| trace.only_router.is_some()).count()
}

/// What is not as it should be, and what could not be read.
pub(super) fn findings(output: &Output, findings: &[Finding], unread: &[&str]) -> Result<(), CliError> {
    for finding in findings {
        output.event(&Measured { event: "finding", measured: finding })?;
        let tone = if finding.severity == Severity::Error { Tone::Bad } else { Tone::Strong };
        let Finding { check, subject, measured, limit, remedy, .. } = finding;
        output.line(format_args!(
            "{} {check}: {subject}: {measured}\n  limit: {limit}\n  remedy: {remedy}",
            output.paint(tone, finding.severity.name())
        ))?;
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    output.event(&json!({ "event": "check", "errors": errors, "warnings": warnings, "unread": unread }))?;
    if !unread.is_empty() {
        output.line(format_args!("# not readable on this host: {}", unread.join(", ")))?;
    }
    Ok(())
}

/// That everything was checked, and nothing found.
pub(super) fn clean(output: &Output, findings: &[Finding]) -> Result<(), CliError> {
    if findings.is_empty() { output.line(format_args!("nothing was found")) } else { Ok(()) }
}
