//! The demo's training, with gradients summed by the switch.

use std::collections::VecDeque;
use std::time::Instant;

use netfold::{Communicator, ReduceOp};
use netfold_train::{Digits, Reducer, StepError, TrainConfig, Trainer};

use super::{Work, Worker};
use crate::error::CliError;
use crate::event::{Epoch, Event};
use crate::output::Output;

/// Sums gradients over a communicator, while the next tensors are computed.
struct Summed<'a> {
    communicator: &'a mut Communicator,
    in_flight: VecDeque<netfold::AsyncHandle<f32>>,
}

impl Reducer for Summed<'_> {
    type Error = netfold::Error;

    fn start(&mut self, gradient: Vec<f32>) -> Result<(), netfold::Error> {
        self.in_flight.push_back(self.communicator.all_reduce_async(gradient, ReduceOp::Sum)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<f32>, netfold::Error> {
        let oldest = self.in_flight.pop_front().ok_or(netfold::Error::Taken)?;
        oldest.wait().map(|(sum, _)| sum)
    }
}

impl Worker {
    /// Trains this rank's shard and prints the model's loss and accuracy after every epoch. Only rank 0 evaluates the model, which
    /// is the same on all ranks.
    pub(super) fn train(&self, output: &Output, communicator: &mut Communicator) -> Result<Work, CliError> {
        let digits = Digits::embedded()?;
        let config =
            TrainConfig { seed: self.seed, epochs: self.epochs, batch: self.batch, ..TrainConfig::default() };
        let rank = usize::from(self.rank());
        let mut trainer = Trainer::new(&digits, &config, rank..rank + 1, usize::from(self.world()))?;
        let mut reducer = Summed { communicator, in_flight: VecDeque::new() };
        let begun = Instant::now();
        let mut work = Work::default();
        self.show(output, &mut trainer, 0)?;
        for _ in 0..self.epochs {
            let report = trainer.epoch(&mut reducer).map_err(|error| match error {
                StepError::Reducer(source) => self.failed(source),
                _ => CliError::Length,
            })?;
            work.elements += report.elements;
            self.show(output, &mut trainer, report.epoch)?;
        }
        work.seconds = begun.elapsed().as_secs_f64();
        work.digest = Some(trainer.network().digest());
        Ok(work)
    }

    fn show(&self, output: &Output, trainer: &mut Trainer<'_>, epoch: u32) -> Result<(), CliError> {
        if self.rank() > 0 {
            return Ok(());
        }
        let evaluation = trainer.evaluate();
        output.event(&Event::Epoch(Epoch {
            rank: self.rank(),
            epoch,
            train_loss: evaluation.train_loss,
            test_loss: evaluation.test_loss,
            test_accuracy: evaluation.test_accuracy,
        }))?;
        output.line(format_args!(
            "epoch {epoch:>3}   training loss {:.4}   accuracy {:.1} %",
            evaluation.train_loss,
            evaluation.test_accuracy * 100.0
        ))
    }
}
