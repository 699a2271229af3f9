//! The metrics, in the OpenMetrics text format.
//!
//! Everything except the counts of events is read from a snapshot at each scrape, so that no series of a removed object remains. Names
//! and labels are in docs/controller.md, and the dashboard in docs/grafana uses them; a test compares all three.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use netfold_control::MemberCounters;
use netfold_controller::view::{
    AccessView, ControllerEvent, JobView, LinkTraffic, LinkView, Snapshot, StallReportCounters, SwitchView,
    TenantView, TrafficView,
};
use netfold_listener::{Closure, ListenerCounters};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The media type of a scrape.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bound on the kinds of events and on the reasons of refusals that have counters of their own; there are fewer.
const KINDS_MAX: usize = 64;

type Labels = Vec<(&'static str, String)>;

/// Every metric: its name as a scrape has it, its labels and what it is.
pub const METRICS: &[(&str, &[&str], &str)] = &[
    (
        "netfold_leader",
        &[],
        "1 if this controller is the leader or the only one; a standby has this metric alone, with 0",
    ),
    ("netfold_sessions", &[], "sessions of workers that are open"),
    ("netfold_epoch_next", &[], "the next epoch to be used"),
    (
        "netfold_stall_reports_total",
        &["outcome"],
        "reports of workers whose jobs stall: taken, limited (soon after another stall) or ignored (impossible, or of a job that does not run)",
    ),
    ("netfold_jobs", &["state"], "known jobs, by state"),
    (
        "netfold_job_slots",
        &["tenant", "job"],
        "slots that a job and its groups hold, over all trees and switches",
    ),
    ("netfold_job_epoch", &["tenant", "job"], "epoch of a job's newest place"),
    ("netfold_job_workers", &["tenant", "job", "state"], "workers of a job in all its trees, by state"),
    (
        "netfold_job_goodput_bytes_per_second",
        &["tenant", "job"],
        "bytes of tensors a second of which a worker received the results, mean of all workers, over the last seconds",
    ),
    (
        "netfold_job_tensor_bytes_total",
        &["tenant", "job"],
        "bytes of tensors of which workers received the results, all workers added",
    ),
    (
        "netfold_job_packets_sent_total",
        &["tenant", "job"],
        "packets that a job's workers sent, retransmissions included",
    ),
    (
        "netfold_job_packets_retransmitted_total",
        &["tenant", "job"],
        "packets that a job's workers retransmitted",
    ),
    (
        "netfold_job_spilled_total",
        &["tenant", "job"],
        "contributions of a job that found no slot where jobs share them, and were sent on to the aggregator",
    ),
    ("netfold_job_results_received_total", &["tenant", "job"], "results that a job's workers received"),
    (
        "netfold_job_slowed",
        &["tenant", "job", "kind", "rank"],
        "what slows a job or a group of it down: seconds by which a rank is late, or a fraction; absent if nothing does",
    ),
    ("netfold_tenant_slots", &["tenant"], "slots of a tenant's jobs"),
    ("netfold_tenant_slots_max", &["tenant"], "slots that a tenant may have; absent without a limit"),
    ("netfold_tenant_jobs", &["tenant"], "jobs of a tenant that form or run"),
    ("netfold_tenant_workers", &["tenant"], "workers of a tenant's jobs"),
    ("netfold_switch_up", &["switch", "kind"], "1 if the switch is reachable"),
    ("netfold_switch_drained", &["switch"], "1 if the switch takes no more jobs"),
    ("netfold_switch_slots", &["switch"], "slots of a switch"),
    ("netfold_switch_slots_used", &["switch"], "slots of a switch that jobs hold"),
    ("netfold_switch_ports", &["switch"], "ports of a switch"),
    ("netfold_switch_ports_used", &["switch"], "ports of a switch that jobs hold"),
    ("netfold_switch_groups", &["switch"], "multicast groups of a switch"),
    ("netfold_switch_groups_used", &["switch"], "multicast groups of a switch that jobs hold"),
    ("netfold_switch_packets_total", &["switch", "result"], "packets of a switch, by result"),
    ("netfold_link_up", &["a", "b"], "1 if both ends of the link are up"),
    ("netfold_link_drained", &["a", "b"], "1 if the link takes no more jobs"),
    ("netfold_link_trees", &["a", "b"], "trees of jobs that use the link"),
    (
        "netfold_link_demand_bits_per_second",
        &["a", "b"],
        "bits a second that the jobs over the link demand, in each direction",
    ),
    (
        "netfold_link_demand_measured_bits_per_second",
        &["a", "b"],
        "the part of the demand that is measured; the rest is declared or assumed",
    ),
    ("netfold_link_rate_bits_per_second", &["a", "b"], "rate of the link in the topology, in each direction"),
    (
        "netfold_link_bytes_per_second",
        &["a", "b"],
        "bytes a second of trees over the link, in each direction, computed from workers' counters",
    ),
    (
        "netfold_link_packets_per_second",
        &["a", "b"],
        "packets a second of trees over the link, in each direction, computed from workers' counters",
    ),
    (
        "netfold_link_retransmission_ratio",
        &["a", "b"],
        "fraction of the packets of the workers of these trees that were retransmissions",
    ),
    ("netfold_access_workers", &["host", "switch"], "workers of a host that send to the switch"),
    ("netfold_access_bytes_per_second", &["host", "switch"], "bytes a second that they send"),
    ("netfold_access_packets_per_second", &["host", "switch"], "packets a second that they send"),
    (
        "netfold_access_retransmission_ratio",
        &["host", "switch"],
        "fraction of these packets that were retransmissions",
    ),
    ("netfold_events_total", &["kind"], "events since the controller started, by kind"),
    ("netfold_jobs_ended_total", &["reason"], "jobs that ended since the controller started, by reason"),
    (
        "netfold_refusals_total",
        &["reason"],
        "workers and jobs that were refused since the controller started",
    ),
    (
        "netfold_connections",
        &["listener"],
        "connections of gRPC and the page; at the workers' port those that are no sessions yet",
    ),
    (
        "netfold_connections_closed_total",
        &["listener", "reason"],
        "connections that a listener closed or refused, by reason",
    ),
];

/// Counts since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    kinds: BTreeMap<&'static str, u64>,
    ends: BTreeMap<&'static str, u64>,
    refusals: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn count(&mut self, event: &ControllerEvent) {
        add(&mut self.kinds, event.kind);
        let Some(reason) = event.reason else { return };
        match event.kind {
            "job_ended" => add(&mut self.ends, reason),
            "refused" | "job_not_started" | "group_not_started" => add(&mut self.refusals, reason),
            _ => {}
        }
    }
}

fn add(counts: &mut BTreeMap<&'static str, u64>, name: &'static str) {
    if counts.len() < KINDS_MAX || counts.contains_key(name) {
        *counts.entry(name).or_default() += 1;
    }
}

/// The text of a scrape.
///
/// # Errors
/// Never while memory lasts: the text is written to a string.
pub(crate) fn scrape(
    snapshot: &Snapshot,
    counts: &Counts,
    listeners: &[Arc<ListenerCounters>],
) -> Result<String, fmt::Error> {
    let mut metrics = MetricSet::default();
    metrics.set("netfold_leader", [], 1);
    metrics.set("netfold_sessions", [], snapshot.sessions);
    metrics.set("netfold_epoch_next", [], snapshot.epoch_next);
    let StallReportCounters { taken, limited, ignored } = snapshot.stall_reports;
    for (outcome, count) in [("taken", taken), ("limited", limited), ("ignored", ignored)] {
        metrics.count("netfold_stall_reports_total", &[outcome], count);
    }
    let mut states: BTreeMap<&str, u32> = BTreeMap::new();
    for job in &snapshot.jobs {
        *states.entry(job.state.name()).or_default() += 1;
    }
    for (state, jobs) in states {
        metrics.set("netfold_jobs", [state], jobs);
    }
    snapshot.jobs.iter().for_each(|job| metrics.job(job));
    snapshot.tenants.iter().for_each(|tenant| metrics.tenant(tenant));
    snapshot.switches.iter().for_each(|switch| metrics.switch(switch));
    snapshot.links.iter().for_each(|link| metrics.link(link));
    snapshot.access.iter().for_each(|access| metrics.access(access));
    for (kind, count) in &counts.kinds {
        metrics.count("netfold_events_total", [kind], *count);
    }
    for (reason, count) in &counts.ends {
        metrics.count("netfold_jobs_ended_total", [reason], *count);
    }
    for (reason, count) in &counts.refusals {
        metrics.count("netfold_refusals_total", [reason], *count);
    }
    listeners.iter().for_each(|listener| metrics.listener(listener));
    metrics.text()
}

/// The text of a scrape of a standby.
///
/// # Errors
/// Never while memory lasts: the text is written to a string.
pub(crate) fn standby() -> Result<String, fmt::Error> {
    let mut metrics = MetricSet::default();
    metrics.set("netfold_leader", [], 0);
    metrics.text()
}

/// The metrics of one scrape.
#[derive(Default)]
struct MetricSet {
    gauges: BTreeMap<&'static str, Family<Labels, Gauge>>,
    ratios: BTreeMap<&'static str, Family<Labels, Gauge<f64, AtomicU64>>>,
    counters: BTreeMap<&'static str, Family<Labels, Counter>>,
}

impl MetricSet {
    fn set<'a>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = &'a str>,
        value: impl Into<i64>,
    ) {
        self.gauges.entry(name).or_default().get_or_create(&labels(name, values)).set(value.into());
    }

    /// Adds to a gauge, which is 0 at first.
    fn add(&mut self, name: &'static str, values: [&str; 2], value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let family = self.gauges.entry(name).or_default();
        let gauge = family.get_or_create(&labels(name, values));
        gauge.set(gauge.get().saturating_add(value));
    }

    /// Raises a ratio, which is 0 at first.
    fn raise<'a>(&mut self, name: &'static str, values: impl IntoIterator<Item = &'a str>, ratio: f64) {
        let family = self.ratios.entry(name).or_default();
        let gauge = family.get_or_create(&labels(name, values));
        gauge.set(gauge.get().max(ratio));
    }

    fn count<'a>(&mut self, name: &'static str, values: impl IntoIterator<Item = &'a &'a str>, value: u64) {
        let labels = labels(name, values.into_iter().copied());
        self.counters.entry(name).or_default().get_or_create(&labels).inc_by(value);
    }

    fn job(&mut self, job: &JobView) {
        if job.trees.is_empty() && job.groups.is_empty() {
            return;
        }
        let (tenant, name) = (job.name.tenant.as_str(), job.name.job.as_str());
        let trees = || job.trees.iter().chain(job.groups.iter().flat_map(|group| &group.trees));
        let spilled: Vec<u64> = trees().filter_map(|tree| tree.spilled).collect();
        if !spilled.is_empty() {
            self.count("netfold_job_spilled_total", &[tenant, name], spilled.into_iter().sum());
        }
        let slots: i64 = trees().flat_map(|tree| &tree.places).map(|place| i64::from(place.slots)).sum();
        self.set("netfold_job_slots", [tenant, name], slots);
        self.set("netfold_job_epoch", [tenant, name], job.epoch);
        let mut workers: BTreeMap<&str, u32> = BTreeMap::new();
        for member in job.trees.iter().flat_map(|tree| &tree.members) {
            *workers.entry(member.state).or_default() += 1;
        }
        for (state, count) in workers {
            self.set("netfold_job_workers", [tenant, name, state], count);
        }
        if let Some(traffic) = &job.traffic {
            self.traffic([tenant, name], traffic);
        }
        for finding in job.findings.iter().chain(job.groups.iter().flat_map(|group| &group.findings)) {
            let rank = finding.rank.map(|rank| rank.to_string()).unwrap_or_default();
            self.raise("netfold_job_slowed", [tenant, name, finding.kind.name(), &rank], finding.amount);
        }
    }

    fn traffic(&mut self, name: [&str; 2], traffic: &TrafficView) {
        let goodput = i64::try_from(traffic.goodput).unwrap_or(i64::MAX);
        self.set("netfold_job_goodput_bytes_per_second", name, goodput);
        let MemberCounters { tensor_bytes, packets_sent, packets_retransmitted, results_received, .. } =
            traffic.totals;
        self.count("netfold_job_tensor_bytes_total", &name, tensor_bytes);
        self.count("netfold_job_packets_sent_total", &name, packets_sent);
        self.count("netfold_job_packets_retransmitted_total", &name, packets_retransmitted);
        self.count("netfold_job_results_received_total", &name, results_received);
    }

    fn tenant(&mut self, tenant: &TenantView) {
        let name = [tenant.name.as_str()];
        self.set("netfold_tenant_slots", name, tenant.used.slots);
        self.set("netfold_tenant_jobs", name, tenant.used.jobs);
        self.set("netfold_tenant_workers", name, tenant.used.workers);
        if tenant.quota.slots != u32::MAX {
            self.set("netfold_tenant_slots_max", name, tenant.quota.slots);
        }
    }

    fn switch(&mut self, switch: &SwitchView) {
        let name = [switch.name.as_str()];
        self.set("netfold_switch_up", [switch.name.as_str(), &switch.kind], u32::from(switch.up));
        self.set("netfold_switch_drained", name, u32::from(switch.drained));
        self.set("netfold_switch_slots", name, switch.slots);
        self.set("netfold_switch_slots_used", name, switch.slots_used);
        self.set("netfold_switch_ports", name, switch.ports);
        self.set("netfold_switch_ports_used", name, switch.ports_used);
        self.set("netfold_switch_groups", name, switch.groups);
        self.set("netfold_switch_groups_used", name, switch.groups_used);
        for (result, packets) in &switch.packets {
            self.count("netfold_switch_packets_total", [&switch.name.as_str(), &result.as_str()], *packets);
        }
    }

    /// Several links between two switches are one in the metrics.
    fn link(&mut self, link: &LinkView) {
        let ends = [link.a.as_str(), &link.b];
        self.set("netfold_link_up", ends, u32::from(link.up));
        self.set("netfold_link_drained", ends, u32::from(link.drained));
        self.add("netfold_link_trees", ends, link.trees.into());
        self.add("netfold_link_demand_bits_per_second", ends, link.demand);
        self.add("netfold_link_demand_measured_bits_per_second", ends, link.demand_measured);
        if let Some(rate) = link.rate {
            self.add("netfold_link_rate_bits_per_second", ends, rate);
        }
        if let Some(LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio }) = link.traffic
        {
            self.add("netfold_link_bytes_per_second", ends, bytes_per_second);
            self.add("netfold_link_packets_per_second", ends, packets_per_second);
            self.raise("netfold_link_retransmission_ratio", ends, retransmission_ratio);
        }
    }

    fn access(&mut self, access: &AccessView) {
        let ends = [access.host.as_str(), &access.switch];
        self.set("netfold_access_workers", ends, access.workers);
        if let Some(LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio }) =
            access.traffic
        {
            self.add("netfold_access_bytes_per_second", ends, bytes_per_second);
            self.add("netfold_access_packets_per_second", ends, packets_per_second);
            self.raise("netfold_access_retransmission_ratio", ends, retransmission_ratio);
        }
    }

    fn listener(&mut self, counters: &ListenerCounters) {
        let name = counters.policy().name;
        self.set("netfold_connections", [name], i64::try_from(counters.open()).unwrap_or(i64::MAX));
        for closure in Closure::ALL {
            let labels = [&name, &closure.name()];
            self.count("netfold_connections_closed_total", labels, counters.closed(closure));
        }
    }

    /// The text, in the order of the table.
    fn text(mut self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        for (name, _, help) in METRICS {
            if let Some(family) = self.gauges.remove(name) {
                registry.register(*name, *help, family);
            }
            if let Some(family) = self.ratios.remove(name) {
                registry.register(*name, *help, family);
            }
            if let Some(family) = self.counters.remove(name) {
                // The encoder adds the suffix.
                registry.register(name.trim_end_matches("_total"), *help, family);
            }
        }
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The values with their label names from the table.
fn labels<'a>(name: &'static str, values: impl IntoIterator<Item = &'a str>) -> Labels {
    let names = METRICS.iter().find(|(known, ..)| *known == name).map_or(&[][..], |(_, names, _)| names);
    names.iter().copied().zip(values.into_iter().map(str::to_owned)).collect()
}
