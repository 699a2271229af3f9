//! Shared by the commands that call a running controller: options, connection and output formats.

mod client;
mod diagnosis;
mod table;

pub(super) use client::{CALL_TIMEOUT, Client, ControllerOptions};
pub(super) use table::Table;

use netfold_server::api::v1;
use serde_json::{Value, json};

use crate::size::bytes_per_second;

/// A job's full name: `tenant/job`, or the job alone if there are no tenants.
pub(super) fn full_name(name: Option<&v1::JobName>) -> String {
    match name {
        Some(name) if name.tenant.is_empty() => name.job.clone(),
        Some(name) => format!("{}/{}", name.tenant, name.job),
        None => String::new(),
    }
}

/// Parses a job's name. Without a tenant in it, the tenant is that of `--tenant`.
pub(super) fn parse_name(text: &str, tenant: Option<&str>) -> v1::JobName {
    let (tenant, job) = match text.split_once('/') {
        Some((tenant, job)) => (tenant, job),
        None => (tenant.unwrap_or_default(), text),
    };
    v1::JobName { tenant: tenant.to_owned(), job: job.to_owned() }
}

/// Name of a mode.
pub(super) fn mode_word(mode: v1::Mode) -> String {
    mode.as_str_name().trim_start_matches("MODE_").to_lowercase()
}

/// Name of a job's state.
pub(super) fn state_word(state: v1::JobState) -> String {
    state.as_str_name().trim_start_matches("JOB_STATE_").to_lowercase()
}

/// A limit, or a dash if there is none.
pub(super) fn limit(limit: Option<u32>) -> String {
    limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string())
}

/// The goodput of a job or group; empty if no worker has reported any.
pub(super) fn goodput(traffic: Option<&v1::Traffic>) -> String {
    traffic.map(|traffic| bytes_per_second(traffic.goodput)).unwrap_or_default()
}

/// The fraction of the packets that a job or group sent in the last seconds that were retransmissions; empty if no worker has reported any.
pub(super) fn retransmissions(traffic: Option<&v1::Traffic>) -> String {
    traffic.map(|traffic| percent(traffic.retransmission_ratio)).unwrap_or_default()
}

/// A fraction in percent; a fraction that is not 0 is not shown as 0.
pub(super) fn percent(fraction: f64) -> String {
    match 100.0 * fraction {
        percent if percent > 0.0 && percent < 0.01 => "<0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

/// How long ago a Unix time was, in the largest unit that fits.
pub(super) fn ago(unix_s: u64) -> String {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    match now.saturating_sub(unix_s) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a job has last changed; empty before anything of it is stored, as while its first workers join.
pub(super) fn since(job: &v1::Job) -> String {
    if job.changed_s == 0 { String::new() } else { ago(job.changed_s) }
}

/// A number with its noun.
pub(super) fn counted(count: u32, noun: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { noun } else { plural })
}

/// The time of day of a Unix time in milliseconds, UTC.
pub(super) fn clock(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A job for `--json`.
pub(super) fn job_value(job: &v1::Job) -> Value {
    let name = job.name.clone().unwrap_or_default();
    let trees: Vec<Value> = job.trees.iter().map(tree_value).collect();
    let groups: Vec<Value> = job.groups.iter().map(group_value).collect();
    json!({
        "event": "job", "tenant": name.tenant, "job": name.job, "state": state_word(job.state()), "declared": job.declared,
        "epoch": job.epoch, "changed_s": job.changed_s, "last": job.last, "slots_held": job.slots_held,
        "spec": spec_value(job.spec.unwrap_or_default()),
        "band": job.band.as_ref().map(|band| json!({
            "first": band.first, "classes": band.classes, "dscp": band.dscp,
        })),
        "traffic": job.traffic.map(traffic_value), "findings": findings_value(&job.findings),
        "stalls": job.stalls.iter().map(stall_value).collect::<Vec<_>>(),
        "pattern": job.pattern.map(pattern_value), "schedule": Some(&job.schedule).filter(|text| !text.is_empty()),
        "paths": job.paths.as_ref().map(paths_value),
        "placement": Some(&job.placement).filter(|text| !text.is_empty()),
        "membership": job.membership.as_ref().map(|membership| json!({
            "generation": membership.generation, "workers": membership.world, "present": membership.present,
            "lost": membership.lost, "asked": membership.asked, "joining": membership.joining,
        })),
        "trees": trees, "groups": groups,
    })
}

fn spec_value(spec: v1::JobSpec) -> Value {
    json!({
        "workers": spec.world, "mode": mode_word(spec.mode()), "slots": spec.slots, "classes": spec.classes, "authenticated": spec.authenticated,
        "trees": spec.trees,
        "iteration": spec.iteration.map(|iteration| json!({
            "work": iteration.work, "compute_us": iteration.compute_us,
            "send_after_us": iteration.send_after_us.unwrap_or(iteration.compute_us), "bytes": iteration.bytes,
        })),
    })
}

fn traffic_value(traffic: v1::Traffic) -> Value {
    json!({
        "goodput": traffic.goodput, "retransmission_ratio": traffic.retransmission_ratio,
        "totals": counters_value(traffic.totals.unwrap_or_default()),
    })
}

fn pattern_value(pattern: v1::Pattern) -> Value {
    json!({
        "iterations": pattern.iterations, "period_us": pattern.period_us, "compute_us": pattern.compute_us,
        "send_us": pattern.send_us, "bytes": pattern.bytes, "confidence": pattern.confidence, "members": pattern.members,
        "contradicts_declared": pattern.contradicts,
    })
}

fn paths_value(paths: &v1::Paths) -> Value {
    let avoided = paths.avoided.iter().map(|avoided| {
        json!({
            "rank": avoided.rank, "tree": avoided.tree, "path": avoided.path, "share": avoided.share,
            "round_trip_us": avoided.round_trip_us,
        })
    });
    json!({
        "udp_ports": paths.udp_ports, "policy": paths.policy, "members": paths.members,
        "avoided_count": paths.avoided_count, "avoided": avoided.collect::<Vec<_>>(),
        "exact": paths.exact,
    })
}

/// A group of a job, as in the job's value.
fn group_value(group: &v1::Group) -> Value {
    let trees: Vec<Value> = group.trees.iter().map(tree_value).collect();
    json!({
        "group": group.group, "state": state_word(group.state()), "epoch": group.epoch, "slots_held": group.slots_held,
        "spec": spec_value(group.spec.unwrap_or_default()), "traffic": group.traffic.map(traffic_value),
        "findings": findings_value(&group.findings), "trees": trees,
    })
}

fn counters_value(counters: v1::Counters) -> Value {
    json!({
        "tensor_bytes": counters.tensor_bytes, "packets_sent": counters.packets_sent,
        "bytes_sent": counters.bytes_sent, "packets_retransmitted": counters.packets_retransmitted,
        "packets_overtaken": counters.packets_overtaken, "results_received": counters.results_received,
        "waits": counters.waits, "wait_us": counters.wait_us, "starts": counters.starts,
        "start_wait_us": counters.start_wait_us, "cpu_wait_us": counters.cpu_wait_us,
    })
}

fn findings_value(findings: &[v1::Finding]) -> Vec<Value> {
    let value = |finding: &v1::Finding| {
        json!({
            "kind": finding.kind, "rank": finding.rank, "amount": finding.amount, "others": finding.others,
            "text": finding.text,
        })
    };
    findings.iter().map(value).collect()
}

fn stall_value(stall: &v1::Stall) -> Value {
    json!({
        "group": stall.group, "tree": stall.tree, "began_ms": stall.began_ms, "as_of_ms": stall.as_of_ms,
        "ended": stall.ended, "conclusion": stall.conclusion,
    })
}

/// A stall for people: where it is, and how long it has lasted.
pub(super) fn stall_title(stall: &v1::Stall) -> String {
    let group = if stall.group.is_empty() { String::new() } else { format!("group '{}', ", stall.group) };
    let lasts = stall.as_of_ms.saturating_sub(stall.began_ms) as f64 / 1e3;
    let end = if stall.ended.is_empty() { "" } else { ", is over" };
    format!("{group}tree {}, from {} on, for {lasts:.1} s{end}", stall.tree, clock(stall.began_ms))
}

/// A text in lines of at most so many characters, but for longer words.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + word.chars().count() < columns) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn tree_value(tree: &v1::Tree) -> Value {
    let places: Vec<Value> = tree.places.iter().map(|place| json!({
        "switch": place.switch, "parent": place.parent, "first_slot": place.first_slot, "slots": place.slots,
        "workers": place.workers, "shared": place.shared,
    })).collect();
    let members: Vec<Value> = tree.members.iter().map(|member| json!({
        "rank": member.rank, "endpoint": member.endpoint, "switch": member.switch, "state": member.state,
        "counters": member.counters.map(counters_value),
    })).collect();
    json!({
        "tree": tree.tree, "phase": tree.phase, "number": tree.number, "epoch": tree.epoch, "slots": tree.slots,
        "places": places, "members": members, "spilled": tree.spilled,
        "sharing": Some(&tree.sharing).filter(|text| !text.is_empty()),
    })
}

/// A switch for `--json`.
pub(super) fn switch_value(switch: &v1::Switch) -> Value {
    let ranges: Vec<Value> = switch.ranges.iter().map(|range| json!({
        "first_slot": range.first, "slots": range.slots, "job": full_name(range.job.as_ref()), "group": range.group, "tree": range.tree,
    })).collect();
    let packets: std::collections::BTreeMap<_, _> = switch.packets.iter().collect();
    json!({
        "event": "switch", "switch": switch.name, "role": switch.role, "kind": switch.kind, "address": switch.address,
        "up": switch.up, "down_reason": switch.down_reason, "drained": switch.drained, "numerics": switch.numerics,
        "slots": switch.slots, "slots_used": switch.slots_used, "ports": switch.ports, "ports_used": switch.ports_used,
        "groups": switch.groups, "groups_used": switch.groups_used, "ranges": ranges, "packets": packets,
    })
}

/// A link between switches for `--json`.
pub(super) fn link_value(link: &v1::Link) -> Value {
    let jobs: Vec<Value> = link.jobs.iter().map(|job| json!({
        "job": full_name(job.job.as_ref()), "group": job.group, "tree": job.tree, "demand": job.demand, "source": job.source,
        "stays": Some(&job.stays).filter(|text| !text.is_empty()),
    })).collect();
    json!({
        "event": "link", "a": link.a, "b": link.b, "rate": link.rate, "up": link.up, "drained": link.drained, "trees": link.trees,
        "demand": link.demand, "demand_measured": link.demand_measured, "jobs": jobs, "traffic": link.traffic.map(link_traffic_value),
    })
}

fn link_traffic_value(traffic: v1::LinkTraffic) -> Value {
    json!({
        "bytes_per_second": traffic.bytes_per_second, "packets_per_second": traffic.packets_per_second,
        "retransmission_ratio": traffic.retransmission_ratio,
    })
}

/// The links between switches, then those of hosts to switches, for `--json`.
pub(super) fn link_values<'a>(
    links: &'a [v1::Link],
    access: &'a [v1::AccessLink],
) -> impl Iterator<Item = Value> + 'a {
    let at_host = |link: &v1::AccessLink| {
        json!({
            "event": "access_link", "host": link.host, "switch": link.switch, "workers": link.workers,
            "traffic": link.traffic.map(link_traffic_value),
        })
    };
    links.iter().map(link_value).chain(access.iter().map(at_host))
}

/// An event for `--json`.
pub(super) fn event_value(event: &v1::Event) -> Value {
    json!({
        "event": "controller_event", "number": event.number, "at_ms": event.at_ms, "kind": event.kind,
        "job": full_name(event.job.as_ref()), "group": event.group, "switch": event.switch, "epoch": event.epoch,
        "reason": event.reason, "message": event.message,
    })
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_texts_have_several_lines() {
        assert!(wrapped("", 86).is_empty());
        assert_eq!(wrapped("a few words", 86), ["a few words"]);
        let text = "word ".repeat(40);
        let lines = wrapped(&text, 86);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= 86), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
        let long = "x".repeat(200);
        assert_eq!(wrapped(&format!("a {long} b"), 86), ["a", &long, "b"]);
    }
}
