//! All-reduces of tensors with a known reduction.

use std::time::Instant;

use netfold::{Communicator, Mode, ReduceOp};
use netfold_measure::all_reduce::{Number, Pattern, Reduction, bus_factor};
use netfold_switch::PAYLOADS;

use super::{Work, Worker};
use crate::error::CliError;
use crate::event::{AllReduce, Event};
use crate::output::Output;

impl Worker {
    /// Does all-reduces, checks every element and prints a line for each.
    pub(super) fn all_reduces(
        &mut self,
        output: &Output,
        communicator: &mut Communicator,
    ) -> Result<Work, CliError> {
        output.line(format_args!(
            "{:>9}{:>14}{:>14}{:>12}{:>14}{:>14}{:>8}",
            "iteration", "bytes", "count", "time us", "algbw MB/s", "busbw MB/s", "#wrong"
        ))?;
        match self.mode {
            Mode::I32 => self.all_reduces_of::<i32>(output, communicator),
            _ => self.all_reduces_of::<f32>(output, communicator),
        }
    }

    fn all_reduces_of<T: Number>(
        &mut self,
        output: &Output,
        communicator: &mut Communicator,
    ) -> Result<Work, CliError> {
        let count = usize::try_from(self.bytes.0 / 4).unwrap_or(usize::MAX);
        if count == 0 || count > isize::MAX as usize / 4 {
            return Err(CliError::Usage(format!("--bytes {} holds no element, or too many", self.bytes.0)));
        }
        let mut tensor = vec![T::default(); count];
        let mut work = Work::default();
        let first_world = self.world();
        let mut iteration = if self.join { self.align(communicator, u32::MAX)? } else { 1 };
        let mut grow_at = None;
        while iteration <= self.iterations {
            if grow_at == Some(iteration) && self.world() < first_world {
                grow_at = None;
                iteration = self.grow(output, communicator, (first_world - self.world(), iteration))?;
            }
            match self.all_reduce(communicator, &mut tensor, iteration) {
                Ok(line) => {
                    work.seconds += line.time_us / 1e6;
                    work.elements += line.count;
                    work.wrong += line.wrong;
                    show(output, line)?;
                    iteration += 1;
                }
                Err(error) if self.continues_after(&error) => {
                    iteration = self.shrink(output, communicator, (error, iteration))?;
                    grow_at = self.grow_after.map(|later| iteration.saturating_add(later));
                }
                Err(source) => return Err(self.failed(source)),
            }
        }
        Ok(work)
    }

    /// One all-reduce, checked.
    fn all_reduce<T: Number>(
        &self,
        communicator: &Communicator,
        tensor: &mut [T],
        iteration: u32,
    ) -> Result<AllReduce, netfold::Error> {
        let bytes = tensor.len() as u64 * 4;
        let pattern = Pattern::new(self.seed, self.world());
        T::fill(&pattern, self.rank(), tensor);
        communicator.barrier()?;
        let begun = Instant::now();
        let report = communicator.all_reduce(tensor, ReduceOp::Sum)?;
        let seconds = begun.elapsed().as_secs_f64();
        // A rank that finishes first must not check while others on the same machine still run.
        communicator.barrier()?;
        let algbw = bytes as f64 / seconds / 1e6;
        Ok(AllReduce {
            rank: self.rank(),
            iteration,
            bytes,
            count: report.elements,
            time_us: seconds * 1e6,
            algbw,
            busbw: algbw * bus_factor(self.world()),
            wrong: self.wrong(&pattern, tensor, report.chunks),
        })
    }

    /// Wrong elements. Which elements share an exponent depends on the switch's payload, which shows in the number of
    /// chunks; if several payloads give that number, the tensor must be correct for one of them. Ranks that reduce among themselves
    /// use no chunks.
    fn wrong<T: Number>(&self, pattern: &Pattern, tensor: &[T], chunks: u32) -> u64 {
        let fits = |&payload: &u32| {
            let block = payload as usize / 4 * self.mode.elements_per_word();
            let without_switch = chunks == 0 && self.may_be_linked();
            without_switch || tensor.len().div_ceil(block) == chunks as usize
        };
        let wrong = |payload_bytes| {
            let (workers, mode, op) = (self.world(), self.mode, ReduceOp::Sum);
            // With a rendezvous, ranks continue without a lost switch.
            let by_hosts = self.may_be_linked();
            let reduction = Reduction { workers, mode, op, payload_bytes, by_hosts };
            T::wrong(pattern, &reduction, tensor)
        };
        // A number of chunks that fits no payload is itself wrong.
        PAYLOADS.into_iter().filter(fits).map(wrong).min().unwrap_or(tensor.len() as u64)
    }
}

fn show(output: &Output, line: AllReduce) -> Result<(), CliError> {
    output.line(format_args!(
        "{:>9}{:>14}{:>14}{:>12.1}{:>14.1}{:>14.1}{:>8}",
        line.iteration, line.bytes, line.count, line.time_us, line.algbw, line.busbw, line.wrong
    ))?;
    output.event(&Event::AllReduce(line))
}
