//! Events as people and watchers see them.

use crate::jobs::{EndReason, JobEvent};
use crate::record::JobName;
use crate::view::ControllerEvent;

/// An event, with its number and the Unix time in milliseconds.
pub(super) fn controller_event(number: u64, at_ms: u64, event: &JobEvent) -> ControllerEvent {
    let mut seen = ControllerEvent {
        number,
        at_ms,
        kind: "",
        job: None,
        switch: None,
        epoch: None,
        reason: None,
        message: String::new(),
    };
    let job = |name: &JobName| Some(name.clone());
    match event {
        JobEvent::Started { name, tree, spec, placement, .. } => {
            let granted = placement.job();
            (seen.kind, seen.job, seen.epoch) = ("job_started", job(name), Some(granted.epoch));
            seen.message = format!(
                "job '{name}' has begun: tree {tree} of {}, {}, {}, {} slots at {}",
                spec.trees,
                counted(usize::from(spec.world), "worker", "workers"),
                spec.mode,
                granted.slots,
                counted(placement.switches.len(), "switch", "switches")
            );
        }
        JobEvent::Banded { name, band } => {
            (seen.kind, seen.job) = ("job_banded", job(name));
            seen.message = format!("job '{name}' has classes {band} of packets");
        }
        JobEvent::Left { name, rank } => {
            (seen.kind, seen.job) = ("member_left", job(name));
            seen.message = format!("rank {rank} of job '{name}' has left gracefully");
        }
        JobEvent::Away { name, rank } => {
            (seen.kind, seen.job) = ("member_away", job(name));
            seen.message = format!("the session of rank {rank} of job '{name}' broke: it is waited for");
        }
        JobEvent::Back { name, rank } => {
            (seen.kind, seen.job) = ("member_back", job(name));
            seen.message = format!("rank {rank} of job '{name}' is back");
        }
        JobEvent::Ended { name, reason: EndReason::Moved { message }, .. } => {
            (seen.kind, seen.job) = ("job_moved", job(name));
            seen.message = format!("job '{name}' gives its slots back and comes again: {message}");
        }
        JobEvent::Ended { name, reason, .. } => {
            (seen.kind, seen.job) = ("job_ended", job(name));
            seen.reason = Some(match reason {
                EndReason::Finished => "finished",
                EndReason::PeerLost { .. } => "peer_lost",
                EndReason::Displaced { .. } | EndReason::Moved { .. } => "displaced",
                EndReason::Stopped { .. } => "stopped",
                EndReason::Shutdown => "shutdown",
            });
            seen.message = format!("job '{name}' is over: {reason}");
        }
        JobEvent::NotStarted { name, reason, message } => {
            (seen.kind, seen.job) = ("job_not_started", job(name));
            (seen.reason, seen.message) =
                (Some(reason.name()), format!("job '{name}' was not started: {message}"));
        }
        JobEvent::Refused { peer, reason, message } => {
            (seen.kind, seen.reason) = ("refused", Some(reason.name()));
            seen.message = format!("{peer} was refused: {message}");
        }
        other => switch(&mut seen, other),
    }
    seen
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
