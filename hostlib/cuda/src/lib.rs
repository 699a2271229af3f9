//! The part of CUDA's driver interface that Netfold uses: streams, events, pinned memory and copies; and the kernels that [quantise](quantize) on a device.
//!
//! The driver, `libcuda.so.1`, is loaded when the first device is used. Nothing is linked against it, so machines without it are
//! unaffected. [`Driver::resolve`] takes the functions from elsewhere, such as from a driver for tests.
//!
//! Devices are used through their primary context, which is the one of CUDA's runtime and so of PyTorch, JAX and NCCL. Source of all
//! declarations: NVIDIA's "CUDA Driver API" reference, version 12.

mod device;
mod driver;
mod error;
mod functions;
mod memory;
mod module;
pub mod quantize;
mod stream;

pub use device::{Current, Device, PointerInfo};
pub use driver::Driver;
pub use error::CudaError;
pub use memory::{DeviceMemory, PinnedMemory};
pub use stream::{Event, HostFunction, RawStream, Stream};
