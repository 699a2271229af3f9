//! Workers whose job continues without a lost one, and admits others.

use std::time::Duration;

use netfold::{Advice, Communicator, Error, Membership};

use super::{OnLoss, Worker};
use crate::error::CliError;
use crate::event::Event;
use crate::output::Output;

/// Attempts to shrink: each fails if one more worker is lost meanwhile.
const ATTEMPTS: usize = 8;

impl Worker {
    /// Whether an error is that of a lost worker, and the others are to continue.
    pub(super) fn continues_after(&self, error: &Error) -> bool {
        self.on_loss == OnLoss::Shrink && error.ends_the_job() && error.advice() != Advice::Stop
    }

    /// Whether hosts may have reduced among themselves; a worker that has joined does not know whether the others have a rendezvous.
    pub(super) fn may_be_linked(&self) -> bool {
        self.rendezvous.is_some() || self.join
    }

    /// Takes rank and world size from the communicator.
    pub(super) fn place(&mut self, communicator: &Communicator) {
        (self.rank, self.world) = (Some(communicator.rank()), Some(communicator.world_size()));
    }

    /// Continues without lost workers; the iteration to do next.
    pub(super) fn shrink(
        &mut self,
        output: &Output,
        communicator: &mut Communicator,
        (error, iteration): (Error, u32),
    ) -> Result<u32, CliError> {
        output.line(format_args!("{error}"))?;
        let mut last = error;
        for _ in 0..ATTEMPTS {
            match communicator.shrink(self.time()) {
                Ok(membership) => {
                    self.show_resized(output, communicator, &membership)?;
                    return self.align(communicator, iteration);
                }
                Err(error) if error.advice() == Advice::Stop || matches!(error, Error::NotResized { .. }) => {
                    return Err(self.failed(error));
                }
                Err(error) => last = error,
            }
        }
        Err(self.failed(last))
    }

    /// Waits for new workers; the iteration to do next.
    pub(super) fn grow(
        &mut self,
        output: &Output,
        communicator: &mut Communicator,
        (joining, iteration): (u16, u32),
    ) -> Result<u32, CliError> {
        let workers = if joining == 1 { "worker" } else { "workers" };
        output.line(format_args!(
            "job '{}': waits up to {} s for {joining} new {workers} (netfold worker --job {} --join)",
            self.job(),
            self.timeout,
            self.job()
        ))?;
        let membership = communicator.grow(joining, self.time()).map_err(|source| self.failed(source))?;
        self.show_resized(output, communicator, &membership)?;
        self.align(communicator, iteration)
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// The iteration with which all workers go on: the first that one of them has not done. A worker that has joined gives the largest number.
    pub(super) fn align(&self, communicator: &Communicator, iteration: u32) -> Result<u32, CliError> {
        let mut all = vec![0i32; usize::from(communicator.world_size())];
        let mine = i32::try_from(iteration).unwrap_or(i32::MAX);
        communicator.all_gather(&[mine], &mut all).map_err(|source| self.failed(source))?;
        Ok(all.into_iter().min().map_or(iteration, |first| u32::try_from(first).unwrap_or(iteration)))
    }

    fn show_resized(
        &mut self,
        output: &Output,
        communicator: &Communicator,
        membership: &Membership,
    ) -> Result<(), CliError> {
        self.place(communicator);
        let lost: Vec<String> = membership.lost.iter().map(u16::to_string).collect();
        let without = match &lost[..] {
            [] => String::new(),
            [rank] => format!(", without rank {rank}"),
            _ => format!(", without ranks {}", lost.join(", ")),
        };
        output.event(&Event::Resized {
            job: self.job().to_owned(),
            generation: membership.generation,
            rank: membership.rank,
            workers: membership.world_size,
            lost: membership.lost.clone(),
        })?;
        output.line(format_args!(
            "job '{}': generation {}, rank {} of {}{without}",
            self.job(),
            membership.generation,
            membership.rank,
            membership.world_size
        ))
    }
}
