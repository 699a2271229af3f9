//! Conversion between the interface's messages and the control plane's data.

use crate::api::v1;
use netfold_control::{Band, Iteration, MemberCounters, Mode};
use netfold_controller::record::{self, JobName, JobSpec, JobState, Quota};
use netfold_controller::view::{
    AccessView, AvoidedPathView, ControllerEvent, Finding, GroupView, JobView, LinkJobView, LinkTraffic,
    LinkView, MemberView, MembershipView, PathsView, PatternView, PlaceView, RangeView, StallView,
    SwitchView, TenantView, TrafficView, TreeView,
};
use netfold_wire::Dscp;
use tonic::Status;

use crate::access::Visibility;
use crate::refusal::invalid;

/// Slots of a job if the request names none: the host library's default.
const SLOTS_DEFAULT: u32 = 256;

pub(super) fn name(name: Option<v1::JobName>) -> Result<JobName, Status> {
    match name {
        Some(name) if !name.job.is_empty() => Ok(JobName { tenant: name.tenant, job: name.job }),
        _ => Err(invalid(
            "the request names no job: set `name.job`, and `name.tenant` where there are tenants",
        )),
    }
}

pub(super) fn spec(spec: Option<v1::JobSpec>) -> Result<JobSpec, Status> {
    let spec = spec.ok_or_else(|| invalid("the job has no specification: set `spec`"))?;
    let fits = |what: &str, value: u32| {
        u8::try_from(value.max(1)).map_err(|_| invalid(format!("{value} {what} are too many")))
    };
    Ok(JobSpec {
        world: u16::try_from(spec.world)
            .map_err(|_| invalid(format!("a world of {} workers is too large", spec.world)))?,
        mode: mode(spec.mode())?,
        slots: if spec.slots == 0 { SLOTS_DEFAULT } else { spec.slots },
        classes: fits("classes", spec.classes)?,
        trees: fits("trees", spec.trees)?,
        authenticated: spec.authenticated,
        udp_ports: 1,
        iteration: spec.iteration.map(|iteration| Iteration {
            work: iteration.work,
            compute_us: iteration.compute_us,
            send_after_us: iteration.send_after_us.unwrap_or(iteration.compute_us),
            bytes: iteration.bytes,
        }),
    })
}

fn iteration_message(iteration: Iteration) -> v1::Iteration {
    let Iteration { work, compute_us, send_after_us, bytes } = iteration;
    v1::Iteration { work, compute_us, send_after_us: Some(send_after_us), bytes }
}

fn band(band: Band) -> v1::Band {
    let classes = band.first()..=band.last();
    let marked = *band.dscp() != Dscp::NONE;
    let dscp = classes.filter(|_| marked).map(|class| u32::from(band.dscp().of(class))).collect();
    v1::Band { first: band.first().into(), classes: band.classes().into(), dscp }
}

fn mode(mode: v1::Mode) -> Result<Mode, Status> {
    Mode::ALL
        .iter()
        .copied()
        .find(|known| mode_message(*known) == mode)
        .ok_or_else(|| invalid("the numeric mode is missing or unknown: set `spec.mode`"))
}

fn mode_message(mode: Mode) -> v1::Mode {
    // 0 is "unspecified" in every enum of the interface.
    v1::Mode::try_from(i32::from(mode.code()) + 1).unwrap_or_default()
}

pub(super) fn state_message(state: JobState) -> v1::JobState {
    match state {
        JobState::Declared => v1::JobState::Declared,
        JobState::Forming => v1::JobState::Forming,
        JobState::Running => v1::JobState::Running,
        JobState::Ended => v1::JobState::Ended,
    }
}

pub(super) fn quota(quota: Option<v1::Quota>) -> Quota {
    let quota = quota.unwrap_or_default();
    let limit = |limit: Option<u32>| limit.unwrap_or(u32::MAX);
    Quota { slots: limit(quota.slots), jobs: limit(quota.jobs), workers: limit(quota.workers) }
}

fn quota_message(quota: Quota) -> v1::Quota {
    let limit = |limit: u32| (limit != u32::MAX).then_some(limit);
    v1::Quota { slots: limit(quota.slots), jobs: limit(quota.jobs), workers: limit(quota.workers) }
}

pub(super) fn name_message(name: JobName) -> v1::JobName {
    v1::JobName { tenant: name.tenant, job: name.job }
}

fn spec_message(spec: JobSpec) -> v1::JobSpec {
    v1::JobSpec {
        world: u32::from(spec.world),
        mode: mode_message(spec.mode).into(),
        slots: spec.slots,
        classes: u32::from(spec.classes),
        trees: u32::from(spec.trees),
        authenticated: spec.authenticated,
        iteration: spec.iteration.map(iteration_message),
    }
}

fn slots_held(trees: &[TreeView]) -> u32 {
    trees.iter().flat_map(|tree| &tree.places).map(|place| place.slots).sum()
}

pub(super) fn job(job: JobView) -> v1::Job {
    let groups: u32 = job.groups.iter().map(|group| slots_held(&group.trees)).sum();
    let slots_held = slots_held(&job.trees) + groups;
    v1::Job {
        name: Some(name_message(job.name)),
        spec: Some(spec_message(job.spec)),
        declared: job.declared,
        state: state_message(job.state).into(),
        epoch: job.epoch,
        changed_s: job.changed_s,
        last: job.last.unwrap_or_default(),
        trees: job.trees.into_iter().map(tree).collect(),
        slots_held,
        band: job.band.map(band),
        traffic: job.traffic.map(traffic),
        findings: job.findings.into_iter().map(finding).collect(),
        stalls: job.stalls.into_iter().map(stall).collect(),
        pattern: job.pattern.map(pattern),
        schedule: job.schedule.unwrap_or_default(),
        placement: job.placement.unwrap_or_default(),
        membership: job.membership.map(membership),
        paths: job.paths.map(paths),
        groups: job.groups.into_iter().map(group).collect(),
    }
}

fn stall(stall: StallView) -> v1::Stall {
    let StallView { group, tree, began_ms, as_of_ms, ended, conclusion } = stall;
    let ended = ended.unwrap_or_default();
    v1::Stall { group, tree: tree.into(), began_ms, as_of_ms, ended, conclusion }
}

fn membership(membership: MembershipView) -> v1::Membership {
    let MembershipView { generation, world, present, lost, asked, joining } = membership;
    v1::Membership {
        generation,
        world: world.into(),
        present: present.into(),
        lost: lost.into_iter().map(u32::from).collect(),
        asked: asked.into(),
        joining: joining.into(),
    }
}

fn pattern(pattern: PatternView) -> v1::Pattern {
    let PatternView { iterations, period_us, compute_us, send_us, bytes, confidence, members, contradicts } =
        pattern;
    v1::Pattern { iterations, period_us, compute_us, send_us, bytes, confidence, members, contradicts }
}

fn paths(paths: PathsView) -> v1::Paths {
    let PathsView { udp_ports, policy, members, avoided_count, avoided, exact } = paths;
    let avoided = avoided.into_iter().map(|AvoidedPathView { rank, tree, path, share, round_trip_us }| {
        v1::AvoidedPath { rank: rank.into(), tree: tree.into(), path: path.into(), share, round_trip_us }
    });
    v1::Paths {
        udp_ports: udp_ports.into(),
        policy: policy.name().to_owned(),
        members,
        avoided_count,
        avoided: avoided.collect(),
        exact,
    }
}

fn group(group: GroupView) -> v1::Group {
    v1::Group {
        group: group.group,
        spec: Some(spec_message(group.spec)),
        state: state_message(group.state).into(),
        epoch: group.epoch,
        slots_held: slots_held(&group.trees),
        traffic: group.traffic.map(traffic),
        findings: group.findings.into_iter().map(finding).collect(),
        trees: group.trees.into_iter().map(tree).collect(),
    }
}

fn traffic(traffic: TrafficView) -> v1::Traffic {
    let TrafficView { goodput, retransmission_ratio, totals } = traffic;
    v1::Traffic { goodput, retransmission_ratio, totals: Some(counters(totals)) }
}

fn finding(finding: Finding) -> v1::Finding {
    let Finding { kind, rank, amount, others } = finding;
    let text = finding.to_string();
    v1::Finding { kind: kind.name().to_owned(), rank: rank.map(u32::from), amount, others, text }
}

fn counters(counters: MemberCounters) -> v1::Counters {
    let MemberCounters {
        tensor_bytes,
        packets_sent,
        bytes_sent,
        packets_retransmitted,
        packets_overtaken,
        results_received,
        waits,
        wait_us,
        starts,
        start_wait_us,
        cpu_wait_us,
    } = counters;
    v1::Counters {
        tensor_bytes,
        packets_sent,
        packets_retransmitted,
        results_received,
        bytes_sent,
        packets_overtaken,
        waits,
        wait_us,
        starts,
        start_wait_us,
        cpu_wait_us,
    }
}

fn tree(tree: TreeView) -> v1::Tree {
    v1::Tree {
        tree: u32::from(tree.tree),
        phase: tree.phase.to_owned(),
        number: tree.number.map(u32::from),
        epoch: tree.epoch,
        slots: tree.slots,
        places: tree.places.into_iter().map(place).collect(),
        members: tree.members.into_iter().map(member).collect(),
        spilled: tree.spilled,
        sharing: tree.sharing.unwrap_or_default(),
    }
}

fn place(place: PlaceView) -> v1::Place {
    v1::Place {
        switch: place.switch,
        parent: place.parent.unwrap_or_default(),
        first_slot: place.first_slot,
        slots: place.slots,
        workers: u32::from(place.workers),
        shared: place.shared,
    }
}

fn member(member: MemberView) -> v1::Member {
    v1::Member {
        rank: u32::from(member.rank),
        endpoint: member.endpoint.to_string(),
        switch: member.switch.unwrap_or_default(),
        state: member.state.to_owned(),
        counters: member.counters.map(counters),
    }
}

pub(super) fn tenant(tenant: TenantView) -> v1::Tenant {
    v1::Tenant {
        name: tenant.name,
        quota: Some(quota_message(tenant.quota)),
        used: Some(quota_message(tenant.used)),
        weight: tenant.weight,
        priority: tenant.priority.into(),
        has_token: tenant.token,
    }
}

/// A new tenant, which uses nothing yet.
pub(super) fn new_tenant(record: &record::TenantRecord) -> v1::Tenant {
    v1::Tenant {
        name: record.name.clone(),
        quota: Some(quota_message(record.quota)),
        used: Some(v1::Quota { slots: Some(0), jobs: Some(0), workers: Some(0) }),
        weight: record.weight,
        priority: record.priority.into(),
        has_token: record.token.is_some(),
    }
}

/// A switch, restricted to what the caller may see.
pub(super) fn switch(switch: SwitchView, visibility: &Visibility) -> v1::Switch {
    let packets = match visibility {
        Visibility::Everything => switch.packets.into_iter().collect(),
        Visibility::Tenant(_) => Default::default(),
    };
    v1::Switch {
        name: switch.name,
        role: switch.role,
        kind: switch.kind,
        address: switch.address,
        up: switch.up,
        down_reason: switch.down_reason.unwrap_or_default(),
        drained: switch.drained,
        numerics: switch.numerics.name().to_owned(),
        slots: switch.slots,
        slots_used: switch.slots_used,
        ports: switch.ports,
        ports_used: switch.ports_used,
        groups: switch.groups,
        groups_used: switch.groups_used,
        ranges: switch.ranges.into_iter().map(|held| range(held, visibility)).collect(),
        packets,
    }
}

fn range(range: RangeView, visibility: &Visibility) -> v1::Range {
    let known = visibility.includes(&range.job.tenant);
    v1::Range {
        first: range.first,
        slots: range.slots,
        job: known.then(|| name_message(range.job)),
        tree: if known { u32::from(range.tree) } else { 0 },
        group: if known { range.group } else { String::new() },
    }
}

/// A link between switches, restricted to what the caller may see.
pub(super) fn link(link: LinkView, visibility: &Visibility) -> v1::Link {
    let (traffic, demand, demand_measured) = match visibility {
        Visibility::Everything => (link.traffic.map(link_traffic), link.demand, link.demand_measured),
        Visibility::Tenant(_) => (None, 0, 0),
    };
    let LinkView { a, b, rate, up, drained, trees, jobs, .. } = link;
    let jobs = jobs.into_iter().filter(|job| visibility.includes(&job.job.tenant)).map(link_job).collect();
    v1::Link { a, b, rate: rate.unwrap_or(0), up, trees, traffic, drained, demand, demand_measured, jobs }
}

fn link_job(job: LinkJobView) -> v1::LinkJob {
    let LinkJobView { job, group, tree, demand, source, stays } = job;
    let (job, stays) = (Some(name_message(job)), stays.unwrap_or_default());
    v1::LinkJob { job, group, tree: tree.into(), demand, source: source.to_owned(), stays }
}

/// The access links; none for a tenant.
pub(super) fn access(access: Vec<AccessView>, visibility: &Visibility) -> Vec<v1::AccessLink> {
    let message = |AccessView { host, switch, workers, traffic }| v1::AccessLink {
        host,
        switch,
        workers,
        traffic: traffic.map(link_traffic),
    };
    match visibility {
        Visibility::Everything => access.into_iter().map(message).collect(),
        Visibility::Tenant(_) => Vec::new(),
    }
}

fn link_traffic(traffic: LinkTraffic) -> v1::LinkTraffic {
    let LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio } = traffic;
    v1::LinkTraffic { bytes_per_second, packets_per_second, retransmission_ratio }
}

pub(super) fn event(event: &ControllerEvent) -> v1::Event {
    v1::Event {
        number: event.number,
        at_ms: event.at_ms,
        kind: event.kind.to_owned(),
        job: event.job.clone().map(name_message),
        switch: event.switch.clone().unwrap_or_default(),
        epoch: event.epoch,
        reason: event.reason.unwrap_or_default().to_owned(),
        message: event.message.clone(),
        group: event.group.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_names_every_mode() {
        for known in Mode::ALL {
            let message = mode_message(*known);
            assert_eq!(message.as_str_name(), format!("MODE_{}", known.name().to_uppercase()));
            assert_eq!(mode(message).unwrap(), *known);
        }
        let beyond = i32::try_from(Mode::ALL.len()).unwrap() + 1;
        assert!(v1::Mode::try_from(beyond).is_err(), "no mode of the interface alone");
        assert!(mode(v1::Mode::Unspecified).is_err());
    }
}
