//! The training loop: shards, steps and what is reported of an epoch.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use super::digits::{CLASSES, Digits, PIXELS};
use super::network::{Network, Scratch};

/// Sums gradients over all workers.
///
/// Every worker starts the same tensors in the same order. [`Reducer::start`] may return at once and work in the
/// background; several tensors are started before the first is asked for.
pub trait Reducer {
    /// Why a sum was not to be had.
    type Error;

    /// Hands over this worker's contribution to the next tensor.
    ///
    /// # Errors
    ///
    /// If the tensor cannot be summed; the training ends then.
    fn start(&mut self, gradient: Vec<f32>) -> Result<(), Self::Error>;

    /// Waits for the sum of the oldest tensor that was started and not yet asked for, and returns it: as long as the
    /// contribution was.
    ///
    /// # Errors
    ///
    /// If the sum is not to be had, or nothing was started.
    fn finish(&mut self) -> Result<Vec<f32>, Self::Error>;
}

/// The reducer of a worker that has no peers: every sum is its own contribution.
#[derive(Debug, Default)]
pub struct Alone {
    started: VecDeque<Vec<f32>>,
}

impl Reducer for Alone {
    type Error = Infallible;

    fn start(&mut self, gradient: Vec<f32>) -> Result<(), Infallible> {
        self.started.push_back(gradient);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<f32>, Infallible> {
        Ok(self.started.pop_front().unwrap_or_default())
    }
}

/// What a training follows from. All workers of a job, and its reference, must use the same.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainConfig {
    /// Seed of the first weights and of the order of the images.
    pub seed: u64,
    /// Passes over the training images.
    pub epochs: u32,
    /// Images of one step over all workers; the last batch of an epoch is smaller.
    pub batch: usize,
    /// Step size, for a gradient averaged over the batch.
    pub learning_rate: f32,
    /// Share of the last step that is taken again.
    pub momentum: f32,
    /// Neurons of the hidden layers.
    pub hidden: Vec<usize>,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self { seed: 1, epochs: 30, batch: 64, learning_rate: 0.01, momentum: 0.9, hidden: vec![256, 128] }
    }
}

/// Why a training cannot start.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The global batch is empty or larger than the training set.
    #[error("a batch of {batch} images does not fit: choose 1 to {images}")]
    Batch {
        /// Batch asked for.
        batch: usize,
        /// Training images.
        images: usize,
    },
    /// The learning rate or the momentum would make the training diverge at once.
    #[error(
        "learning rate {learning_rate} and momentum {momentum} make no training: the rate must be above 0, the \
         momentum at least 0 and below 1"
    )]
    Rate {
        /// Learning rate asked for.
        learning_rate: f32,
        /// Momentum asked for.
        momentum: f32,
    },
    /// A hidden layer without neurons.
    #[error("hidden layer {layer} has no neurons")]
    Hidden {
        /// Index of the layer.
        layer: usize,
    },
    /// Ranks that are not of this world.
    #[error("ranks {first}..{end} are not a part of 0..{world}")]
    Ranks {
        /// First rank.
        first: usize,
        /// Rank after the last.
        end: usize,
        /// Number of workers.
        world: usize,
    },
}

/// Why a step was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError<E> {
    /// The reducer gave no sum.
    #[error("gradients were not summed")]
    Reducer(#[source] E),
    /// The reducer returned a sum of another length than the contribution.
    #[error("the sum of layer {layer} has {found} elements where its gradient has {expected}")]
    Length {
        /// Index of the layer.
        layer: usize,
        /// Elements of the gradient.
        expected: usize,
        /// Elements of the sum.
        found: usize,
    },
}

/// What one pass over the training images did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochReport {
    /// Number of the epoch, from 1.
    pub epoch: u32,
    /// Steps taken.
    pub steps: u32,
    /// Gradient elements that went through the reducer.
    pub elements: u64,
}

/// How good a model is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Mean cross-entropy of the training images, in nats.
    pub train_loss: f64,
    /// Mean cross-entropy of the held-out images, in nats.
    pub test_loss: f64,
    /// Accuracy: the fraction of the held-out images classified correctly, 0.0 to 1.0.
    pub test_accuracy: f64,
}

/// One worker's training: the model and where it stands.
#[derive(Debug)]
pub struct Trainer<'d> {
    digits: &'d Digits,
    config: TrainConfig,
    ranks: Range<usize>,
    world: usize,
    network: Network,
    /// The last step, one tensor per layer.
    velocity: Vec<Vec<f32>>,
    order: Vec<usize>,
    rng: Xoshiro256PlusPlus,
    epoch: u32,
    scratch: Scratch,
}

impl<'d> Trainer<'d> {
    /// A training that does the work of `ranks` among `world` workers: one rank for a worker, all of them for a
    /// reference in one process.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the parts do not fit together.
    pub fn new(
        digits: &'d Digits,
        config: &TrainConfig,
        ranks: Range<usize>,
        world: usize,
    ) -> Result<Self, ConfigError> {
        let images = digits.train.len();
        let TrainConfig { batch, learning_rate, momentum, .. } = *config;
        if batch == 0 || batch > images {
            return Err(ConfigError::Batch { batch, images });
        }
        if !(learning_rate > 0.0 && learning_rate.is_finite() && (0.0..1.0).contains(&momentum)) {
            return Err(ConfigError::Rate { learning_rate, momentum });
        }
        if let Some(layer) = config.hidden.iter().position(|&width| width == 0) {
            return Err(ConfigError::Hidden { layer });
        }
        if ranks.is_empty() || ranks.end > world {
            return Err(ConfigError::Ranks { first: ranks.start, end: ranks.end, world });
        }
        let widths: Vec<usize> =
            std::iter::once(PIXELS).chain(config.hidden.iter().copied()).chain([CLASSES]).collect();
        let network = Network::new(&widths, config.seed);
        Ok(Self {
            velocity: (0..network.layers()).map(|layer| vec![0.0; network.parameters(layer).len()]).collect(),
            scratch: network.scratch(),
            network,
            order: (0..images).collect(),
            // Another random stream than the weights', which come from the seed itself.
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ 0x6f72_6465_7200),
            epoch: 0,
            digits,
            config: config.clone(),
            ranks,
            world,
        })
    }

    /// One pass over the training images in a new order.
    ///
    /// # Errors
    ///
    /// [`StepError`]; the model is not to be used any further then.
    pub fn epoch<R: Reducer>(&mut self, reducer: &mut R) -> Result<EpochReport, StepError<R::Error>> {
        self.order.shuffle(&mut self.rng);
        let order = std::mem::take(&mut self.order);
        let outcome = order.chunks(self.config.batch).try_fold(0, |steps, batch| {
            self.step(batch, reducer)?;
            Ok(steps + 1)
        });
        self.order = order;
        self.epoch += 1;
        let steps: u32 = outcome?;
        let elements = u64::from(steps) * self.network.elements() as u64;
        Ok(EpochReport { epoch: self.epoch, steps, elements })
    }

    /// Judges the model on all training images and on all held-out images.
    pub fn evaluate(&mut self) -> Evaluation {
        let (train, test) = (&self.digits.train, &self.digits.test);
        let (train_loss, _) = self.network.judge(train, &mut self.scratch);
        let (test_loss, right) = self.network.judge(test, &mut self.scratch);
        Evaluation {
            train_loss: train_loss / train.len() as f64,
            test_loss: test_loss / test.len() as f64,
            test_accuracy: right as f64 / test.len() as f64,
        }
    }

    /// The model.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn step<R: Reducer>(&mut self, batch: &[usize], reducer: &mut R) -> Result<(), StepError<R::Error>> {
        self.start_gradients(batch, reducer).map_err(StepError::Reducer)?;
        for layer in (0..self.network.layers()).rev() {
            let sum = reducer.finish().map_err(StepError::Reducer)?;
            let expected = self.network.parameters(layer).len();
            if sum.len() != expected {
                return Err(StepError::Length { layer, expected, found: sum.len() });
            }
            self.update(layer, &sum, batch.len());
        }
        Ok(())
    }

    /// Computes the shards of `ranks` and hands their sum to the reducer, layer by layer from the last.
    fn start_gradients<R: Reducer>(&mut self, batch: &[usize], reducer: &mut R) -> Result<(), R::Error> {
        let mut earlier: Vec<Vec<f32>> = Vec::new();
        for rank in self.ranks.clone() {
            let indices = &batch[shard(batch.len(), rank, self.world)];
            let last = rank + 1 == self.ranks.end;
            let mut sums = std::mem::take(&mut earlier).into_iter();
            self.network.gradient(&self.digits.train, indices, &mut self.scratch, |_, gradient| {
                let sum = match sums.next() {
                    Some(mut sum) => {
                        sum.iter_mut().zip(&gradient).for_each(|(sum, &contribution)| *sum += contribution);
                        sum
                    }
                    None => gradient,
                };
                if last {
                    reducer.start(sum)
                } else {
                    earlier.push(sum);
                    Ok(())
                }
            })?;
        }
        Ok(())
    }

    fn update(&mut self, layer: usize, sum: &[f32], images: usize) {
        let scale = self.config.learning_rate / images as f32;
        let momentum = self.config.momentum;
        let parameters = self.network.parameters_mut(layer);
        for ((parameter, velocity), &gradient) in
            parameters.iter_mut().zip(&mut self.velocity[layer]).zip(sum)
        {
            *velocity = momentum * *velocity - scale * gradient;
            *parameter += *velocity;
        }
    }
}

/// The part of a batch of `len` images that is rank's: contiguous, in rank order, sizes differ by one at most.
///
/// # Panics
///
/// If `world` is zero.
pub fn shard(len: usize, rank: usize, world: usize) -> Range<usize> {
    rank * len / world..(rank + 1) * len / world
}

/// The training of `world` workers in one process: the same shards, summed in rank order in `f32`. Returns the model's
/// quality before the first and after each epoch.
///
/// # Errors
///
/// [`ConfigError`] if the parts do not fit together.
pub fn reference(
    digits: &Digits,
    config: &TrainConfig,
    world: usize,
) -> Result<Vec<Evaluation>, ConfigError> {
    let mut trainer = Trainer::new(digits, config, 0..world, world)?;
    let mut curve = vec![trainer.evaluate()];
    for _ in 0..config.epochs {
        match trainer.epoch(&mut Alone::default()) {
            Ok(_) => curve.push(trainer.evaluate()),
            Err(StepError::Reducer(never)) => match never {},
            Err(StepError::Length { .. }) => unreachable!("`Alone` returns the tensor it was given"),
        }
    }
    Ok(curve)
}

#[cfg(test)]
mod tests;
