//! A CUDA driver for tests on machines without a GPU, as strict as CUDA's documentation.
//!
//! - **Memory.** Addresses of device memory cannot be accessed by the host: doing so ends the process by SIGSEGV. Copies from and to host memory that
//!   is not pinned, and accesses to device memory that was freed, are faults of the device, after which every call fails.
//! - **Streams.** What is appended to a stream is executed later, by another thread. Every operation starts after a random delay
//!   ([`Options::lateness`]), copies are done in pieces, and the pieces of several streams are interleaved at random, from a seed. Only
//!   events, words in memory and the order within a stream keep operations apart.
//! - **Kernels.** Those that quantise are executed a few blocks at a time, by the host's quantiser. Other code is refused.
//! - **Rates.** Copies in each direction take as long as on a bus of [`Options::bytes_per_second`].
//! - **Mutants.** [`Options::ignored`] removes one kind of wait from the program under test, as if its line were deleted: a test that then
//!   still passes does not test that line.
//! - **Failures.** [`Options::failing`] makes a function return an error, [`FakeDevice::fail`] breaks the device.
//!
//! In Rust, [`driver`] has the functions as a [`netfold_cuda::Driver`]. The crate is also a shared library with CUDA's symbols, for
//! processes that load a driver by its file name; there the options are read from variables `NETFOLD_FAKE_CUDA_*` (see [`Options::from_environment`]).

mod exports;
mod kernels;
mod machine;
mod memory;
mod options;
mod stream;

pub use exports::{driver, old_driver};
pub use machine::FakeDevice;
pub use options::{Failing, Options, Wait};
