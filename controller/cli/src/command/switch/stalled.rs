//! What a switch with its own control port prints of jobs that stall, and of resizable ones.

use netfold_controller::JobEvent;
use netfold_controller::jobs::subject;

use super::full_name;
use crate::error::CliError;
use crate::event::Event;
use crate::output::Output;

pub(super) fn show_stalled(output: &Output, event: &JobEvent) -> Result<(), CliError> {
    match event {
        JobEvent::Stalled { name, group, tree, lasts, missing, conclusion } => {
            let (chunk, ranks) = missing.clone().unzip();
            output.event(&Event::JobStalled {
                job: full_name(name, group),
                tree: *tree,
                seconds: lasts.as_secs_f64(),
                chunk,
                ranks: ranks.unwrap_or_default(),
                text: conclusion.clone(),
            })?;
            let lasts = lasts.as_secs_f64();
            output.line(format_args!("{}: no result for {lasts:.1} s: {conclusion}", subject(name, group)))
        }
        JobEvent::Continued { name, group, tree, lasted } => {
            let seconds = lasted.as_secs_f64();
            output.event(&Event::JobContinued { job: full_name(name, group), tree: *tree, seconds })?;
            output.line(format_args!("{}: results again, after {seconds:.1} s", subject(name, group)))
        }
        JobEvent::MemberLost { name, generation, rank } => {
            output.line(format_args!("{}: rank {rank} of generation {generation} is lost", subject(name, "")))
        }
        JobEvent::Resized { name, generation, world, lost } => {
            output.event(&Event::JobResized {
                job: name.to_string(),
                generation: *generation,
                workers: *world,
                lost: lost.clone(),
            })?;
            output.line(format_args!("{}: generation {generation}, {world} workers", subject(name, "")))
        }
        _ => Ok(()),
    }
}
