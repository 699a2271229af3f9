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
        &self,
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
        &self,
        output: &Output,
        communicator: &mut Communicator,
    ) -> Result<Work, CliError> {
        let count = usize::try_from(self.bytes.0 / 4).unwrap_or(usize::MAX);
        if count == 0 || count > isize::MAX as usize / 4 {
            return Err(CliError::Usage(format!("--bytes {} holds no element, or too many", self.bytes.0)));
        }
        let bytes = count as u64 * 4;
        let pattern = Pattern::new(self.seed, self.world);
        let mut tensor = vec![T::default(); count];
        let mut work = Work::default();
        for iteration in 1..=self.iterations {
            T::fill(&pattern, self.rank, &mut tensor);
            communicator.barrier().map_err(|source| self.failed(source))?;
            let begun = Instant::now();
            let report =
                communicator.all_reduce(&mut tensor, ReduceOp::Sum).map_err(|source| self.failed(source))?;
            let seconds = begun.elapsed().as_secs_f64();
            // A rank that finishes first must not check while others on the same machine still run.
            communicator.barrier().map_err(|source| self.failed(source))?;
            let wrong = self.wrong(&pattern, &tensor, report.chunks);
            work.seconds += seconds;
            work.elements += report.elements;
            work.wrong += wrong;
            let algbw = bytes as f64 / seconds / 1e6;
            let line = AllReduce {
                rank: self.rank,
                iteration,
                bytes,
                count: report.elements,
                time_us: seconds * 1e6,
                algbw,
                busbw: algbw * bus_factor(self.world),
                wrong,
            };
            output.line(format_args!(
                "{:>9}{:>14}{:>14}{:>12.1}{:>14.1}{:>14.1}{:>8}",
                line.iteration, line.bytes, line.count, line.time_us, line.algbw, line.busbw, line.wrong
            ))?;
            output.event(&Event::AllReduce(line))?;
        }
        Ok(work)
    }

    /// Wrong elements. Which elements share an exponent depends on the switch's payload, which shows in the number of
    /// chunks; if several payloads give that number, the tensor must be correct for one of them. Ranks that reduce among themselves
    /// use no chunks.
    fn wrong<T: Number>(&self, pattern: &Pattern, tensor: &[T], chunks: u32) -> u64 {
        let fits = |&payload: &u32| {
            let block = payload as usize / 4 * self.mode.elements_per_word();
            let without_switch = chunks == 0 && self.rendezvous.is_some();
            without_switch || tensor.len().div_ceil(block) == chunks as usize
        };
        let wrong = |payload_bytes| {
            let (workers, mode, op) = (self.world, self.mode, ReduceOp::Sum);
            // With a rendezvous, ranks continue without a lost switch.
            let by_hosts = self.rendezvous.is_some();
            let reduction = Reduction { workers, mode, op, payload_bytes, by_hosts };
            T::wrong(pattern, &reduction, tensor)
        };
        // A number of chunks that fits no payload is itself wrong.
        PAYLOADS.into_iter().filter(fits).map(wrong).min().unwrap_or(tensor.len() as u64)
    }
}
