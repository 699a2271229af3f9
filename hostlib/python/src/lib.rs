//! The native module of Netfold's Python package, `netfold._netfold`.
//!
//! It does what Python cannot: find a tensor's memory and hand it to the library, wait without the interpreter's lock, and
//! call back from the library's threads. Everything that users see is written in Python around it, in `python/netfold`.
//!
//! Memory. An operation holds the objects whose memory it reads and writes until it is over (`tensor::Tensor`,
//! `work::Work`), so a caller may drop them at once. Nothing is copied.
//!
//! XLA. Compiled programs of JAX call the library without Python (`xla`).
//!
//! Forks. The library's threads do not exist in a forked child. Every call there raises `netfold.Forked`, and objects that
//! are collected there are leaked on purpose (`process::Home`).

mod callbacks;
mod communicator;
mod connect;
mod device_quantizer;
mod errors;
mod launcher;
mod overlap;
mod process;
mod quantizer;
mod reduction;
mod switch;
mod tensor;
mod work;
mod xla;

use pyo3::prelude::*;

/// The module's contents.
#[pymodule]
fn _netfold(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<communicator::Communicator>()?;
    module.add_class::<device_quantizer::DeviceQuantizer>()?;
    module.add_class::<quantizer::Quantizer>()?;
    module.add_class::<switch::Switch>()?;
    module.add_class::<work::Work>()?;
    module.add_function(wrap_pyfunction!(callbacks::shut_down, module)?)?;
    module.add_function(wrap_pyfunction!(launcher::launched, module)?)?;
    module.add_function(wrap_pyfunction!(launcher::launchers_job, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::describe, module)?)?;
    module.add_function(wrap_pyfunction!(xla::xla_handler, module)?)?;
    Ok(())
}
