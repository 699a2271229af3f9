//! Data-parallel training of a small neural network, the workload of `netfold demo`.
//!
//! The model is a multilayer perceptron on 8 x 8 images of handwritten digits, trained by stochastic gradient descent
//! with momentum. Everything is plain `f32` Rust and follows from one seed: the split of the data, the first weights and
//! the order of the images.
//!
//! Training is split over `world` workers in the usual way. All hold the same weights; each step takes one global batch,
//! worker r computes the gradient of its shard of it, a [`Reducer`] sums the shards' gradients over all workers, and
//! each worker divides by the size of the global batch and takes the same step. One tensor per layer is handed to the
//! reducer as soon as back-propagation has it, so a reducer that works in the background overlaps with the rest.
//!
//! [`reference()`] runs the same training in one process: the same shards, summed in rank order in `f32`. The two differ
//! in nothing but how gradients are summed; [`Agreement`] gives the difference of the outcomes and whether that counts as
//! the same result.
//!
//! ```
//! use netfold_train::{Alone, TrainConfig, Digits, Trainer};
//!
//! let digits = Digits::embedded()?;
//! let config = TrainConfig { epochs: 1, ..TrainConfig::default() };
//! let mut trainer = Trainer::new(&digits, &config, 0..1, 1)?;
//! let report = trainer.epoch(&mut Alone::default())?;
//! assert!(report.steps > 0);
//! println!("{:?}", trainer.evaluate());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agreement;
mod digits;
mod network;
mod trainer;

pub use agreement::{ACCURACY_TOLERANCE, Agreement, LOSS_TOLERANCE};
pub use digits::{CLASSES, Digits, DigitsError, PIXELS, Samples};
pub use network::{Network, Scratch};
pub use trainer::{
    Alone, ConfigError, EpochReport, Evaluation, Reducer, StepError, TrainConfig, Trainer, reference, shard,
};
