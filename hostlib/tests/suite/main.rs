//! The host library from outside: operations over a reference switch, and the control session against a scripted port.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
mod classes;
mod cuda;
mod device_kernels;
mod device_quantization;
mod device_slices;
mod driving;
mod exports;
mod feedback;
mod operations;
mod paths;
mod segmentation;
mod session;
mod support;

use netfold_testkit::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
