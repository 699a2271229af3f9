//! Events as people and watchers see them.

use crate::jobs::{EndReason, JobEvent, subject};
use crate::record::JobName;
use crate::view::ControllerEvent;

/// An event, with its number and the Unix time in milliseconds.
pub(super) fn controller_event(number: u64, at_ms: u64, event: &JobEvent) -> ControllerEvent {
    let mut seen = ControllerEvent {
        number,
        at_ms,
        kind: "",
        job: None,
        group: String::new(),
        switch: None,
        epoch: None,
        reason: None,
        message: String::new(),
    };
    match event {
        JobEvent::Started { name, group, tree, spec, placement, .. } => {
            let granted = placement.job();
            seen.concern(("job_started", "group_started"), name, group);
            seen.epoch = Some(granted.epoch);
            seen.message = format!(
                "{} has begun: tree {tree} of {}, {}, {}, {} slots at {}{}",
                subject(name, group),
                spec.trees,
                counted(usize::from(spec.world), "worker", "workers"),
                spec.mode,
                granted.slots,
                counted(placement.switches.len(), "switch", "switches"),
                placement.sharing.iter().map(|why| format!("; it {why}")).collect::<String>()
            );
        }
        JobEvent::Banded { name, band } => {
            seen.concern(("job_banded", "job_banded"), name, "");
            seen.message = format!("job '{name}' has classes {band} of packets");
        }
        JobEvent::Scheduled { name, decision } => {
            seen.concern(("job_scheduled", "job_scheduled"), name, "");
            seen.message = format!("{}: {decision}", subject(name, ""));
        }
        JobEvent::Left { name, group, rank } => {
            seen.concern(("member_left", "member_left"), name, group);
            seen.message = format!("rank {rank} of {} has left gracefully", subject(name, group));
        }
        JobEvent::Away { name, group, rank } => {
            seen.concern(("member_away", "member_away"), name, group);
            seen.message =
                format!("the session of rank {rank} of {} broke: it is waited for", subject(name, group));
        }
        JobEvent::Back { name, group, rank } => {
            seen.concern(("member_back", "member_back"), name, group);
            seen.message = format!("rank {rank} of {} is back", subject(name, group));
        }
        JobEvent::Ended { name, group, reason, .. } => ended(&mut seen, (name, group), reason),
        JobEvent::NotStarted { name, group, reason, message } => {
            seen.concern(("job_not_started", "group_not_started"), name, group);
            (seen.reason, seen.message) =
                (Some(reason.name()), format!("{} was not started: {message}", subject(name, group)));
        }
        JobEvent::Refused { peer, reason, message } => {
            (seen.kind, seen.reason) = ("refused", Some(reason.name()));
            seen.message = format!("{peer} was refused: {message}");
        }
        JobEvent::Slowed { .. }
        | JobEvent::Recovered { .. }
        | JobEvent::Stalled { .. }
        | JobEvent::Continued { .. }
        | JobEvent::Rebalanced { .. }
        | JobEvent::MemberLost { .. }
        | JobEvent::Resized { .. } => progress(&mut seen, event),
        other => switch(&mut seen, other),
    }
    seen
}

impl ControllerEvent {
    /// Names the job or group that the event is about; `kinds` are those of events of jobs and of groups.
    fn concern(&mut self, kinds: (&'static str, &'static str), name: &JobName, group: &str) {
        self.kind = if group.is_empty() { kinds.0 } else { kinds.1 };
        (self.job, self.group) = (Some(name.clone()), group.to_owned());
    }
}

fn ended(seen: &mut ControllerEvent, (name, group): (&JobName, &str), reason: &EndReason) {
    let subject = subject(name, group);
    if let EndReason::Moved { message } = reason {
        seen.concern(("job_moved", "group_moved"), name, group);
        seen.message = format!("{subject} gives its slots back and comes again: {message}");
        return;
    }
    seen.concern(("job_ended", "group_ended"), name, group);
    seen.reason = Some(match reason {
        EndReason::Finished => "finished",
        EndReason::PeerLost { .. } => "peer_lost",
        EndReason::Displaced { .. } | EndReason::Moved { .. } => "displaced",
        EndReason::Stopped { .. } => "stopped",
        EndReason::Shutdown => "shutdown",
    });
    seen.message = format!("{subject} is over: {reason}");
}

/// What is found out about a job that is slow, or stalls.
fn progress(seen: &mut ControllerEvent, event: &JobEvent) {
    match event {
        JobEvent::Rebalanced { name, group, tree, decision } => {
            seen.concern(("job_placed", "group_placed"), name, group);
            seen.message = format!("tree {tree} of {} {decision}", subject(name, group));
        }
        JobEvent::Slowed { name, group, finding } => {
            seen.concern(("job_slowed", "group_slowed"), name, group);
            seen.reason = Some(finding.kind.name());
            seen.message = format!("{} is slowed down: {finding}", subject(name, group));
        }
        JobEvent::Recovered { name, group, finding } => {
            seen.concern(("job_recovered", "group_recovered"), name, group);
            seen.reason = Some(finding.kind.name());
            seen.message = format!("{} is no longer slowed down as it was: {finding}", subject(name, group));
        }
        JobEvent::Stalled { name, group, lasts, conclusion, .. } => {
            seen.concern(("job_stalled", "group_stalled"), name, group);
            let lasts = lasts.as_secs_f64();
            seen.message =
                format!("{} has had no result for {lasts:.1} s: {conclusion}", subject(name, group));
        }
        JobEvent::MemberLost { name, generation, rank } => {
            seen.concern(("member_lost", "member_lost"), name, "");
            seen.message = format!("rank {rank} of generation {generation} of {} is lost", subject(name, ""));
        }
        JobEvent::Resized { name, generation, world, lost } => {
            seen.concern(("job_resized", "job_resized"), name, "");
            seen.message = resized(&subject(name, ""), *generation, *world, lost);
        }
        JobEvent::Continued { name, group, lasted, .. } => {
            seen.concern(("job_continued", "group_continued"), name, group);
            let lasted = lasted.as_secs_f64();
            seen.message = format!("{} has results again, after {lasted:.1} s", subject(name, group));
        }
        _ => {}
    }
}

/// A number with its noun.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn switch(seen: &mut ControllerEvent, event: &JobEvent) {
    match event {
        JobEvent::SwitchUp { switch, fresh } => {
            (seen.kind, seen.switch) = ("switch_up", Some(switch.clone()));
            let how = if *fresh { ", without state of an earlier run" } else { "" };
            seen.message = format!("switch '{switch}' is up{how}");
        }
        JobEvent::SwitchDown { switch, reason } => {
            (seen.kind, seen.switch) = ("switch_down", Some(switch.clone()));
            seen.message = format!("switch '{switch}' is down: {reason}");
        }
        JobEvent::SwitchRepaired { switch, message } => {
            (seen.kind, seen.switch) = ("switch_repaired", Some(switch.clone()));
            seen.message = format!("switch '{switch}' was put right: {message}");
        }
        JobEvent::SwitchFailed { job, message } => {
            seen.kind = "switch_failed";
            seen.message = format!("job number {job} is not withdrawn yet: {message}");
        }
        JobEvent::Changed { what, name, message } => {
            seen.kind = match *what {
                "tenant" => "tenant_changed",
                "switch" => "switch_changed",
                "link" => "link_changed",
                _ => "job_changed",
            };
            if *what == "switch" {
                seen.switch = Some(name.clone());
            }
            seen.message = format!("{what} '{name}' {message}");
        }
        _ => {}
    }
}

/// A job's new generation as a sentence.
fn resized(subject: &str, generation: u32, world: u16, lost: &[u16]) -> String {
    let workers = counted(usize::from(world), "worker", "workers");
    let ranks: Vec<String> = lost.iter().map(u16::to_string).collect();
    let without = match lost {
        [] => String::new(),
        [_] => format!(", without rank {}", ranks.join("")),
        _ => format!(", without ranks {}", ranks.join(", ")),
    };
    format!("{subject} continues as generation {generation}, with {workers}{without}")
}
