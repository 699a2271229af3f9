//! Netfold host library.

pub mod element;
pub mod quantize;

pub use element::{Dtype, Element};
pub use half::{bf16, f16};
