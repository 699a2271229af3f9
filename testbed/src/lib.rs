//! Netfold's testbed: what shows and measures the system, built on all of its parts.
//!
//! - [`train`]: data-parallel training of a small neural network on a published data set.

pub mod train;
