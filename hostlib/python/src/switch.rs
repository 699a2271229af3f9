//! A software switch in this process.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::process::Home;

/// A software switch that runs in threads of this process.
#[pyclass(frozen, weakref, module = "netfold._netfold")]
pub(crate) struct Switch {
    running: Home<Mutex<Option<EmbeddedSwitch>>>,
    address: SocketAddr,
}

fn raised(py: Python<'_>, error: &EmbeddedError) -> PyErr {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    let kind = match error {
        EmbeddedError::Payload(_) | EmbeddedError::Slots { .. } => "argument",
        _ => "switch",
    };
    errors::new(py, kind, &message)
}

#[pymethods]
impl Switch {
    #[new]
    #[pyo3(signature = (listen, payload, slots, join_timeout))]
    fn new(py: Python<'_>, listen: &str, payload: u32, slots: u32, join_timeout: f64) -> PyResult<Self> {
        let listen: SocketAddr = listen.parse().map_err(|_| {
            errors::new(py, "argument", &format!("'{listen}' is not an address to listen on: give IP:PORT"))
        })?;
        let join_timeout = Duration::try_from_secs_f64(join_timeout)
            .map_err(|_| errors::new(py, "argument", "join_timeout is not a number of seconds"))?;
        let builder =
            EmbeddedSwitch::builder().listen(listen).payload(payload).slots(slots).join_timeout(join_timeout);
        let switch = py.detach(|| builder.start()).map_err(|error| raised(py, &error))?;
        let address = switch.control();
        Ok(Self { running: Home::new(Mutex::new(Some(switch))), address })
    }

    /// IP and port at which workers join.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Whether it is running.
    #[getter]
    fn running(&self, py: Python<'_>) -> PyResult<bool> {
        self.running.check(py)?;
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(running.as_ref().is_some_and(|switch| !switch.is_finished()))
    }

    /// The counters, by name; `None` after the end.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.running.check(py)?;
        let counted = py.detach(|| {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().and_then(EmbeddedSwitch::counters)
        });
        let Some(counted) = counted else { return Ok(None) };
        let counters = PyDict::new(py);
        counters.set_item("packets_in", counted.io.rx_packets)?;
        counters.set_item("bytes_in", counted.io.rx_bytes)?;
        counters.set_item("packets_out", counted.io.tx_packets)?;
        counters.set_item("bytes_out", counted.io.tx_bytes)?;
        counters.set_item("results", counted.results)?;
        counters.set_item("repeated", counted.repeated)?;
        counters.set_item("unknown_source", counted.unknown_source)?;
        counters.set_item("output_dropped", counted.output_dropped)?;
        Ok(Some(counters))
    }

    /// Ends all jobs and stops the switch. Does nothing the second time.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.running.check(py)?;
        let stopped = py.detach(|| {
            let switch = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
            switch.map_or(Ok(()), |switch| switch.stop().map(drop))
        });
        stopped.map_err(|error| raised(py, &error))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        Python::attach(|py| {
            // Errors of stopping are reported by `close` only.
            drop(self.close(py));
        });
    }
}
