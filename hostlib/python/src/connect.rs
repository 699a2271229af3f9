//! The options of a communicator.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netfold::quantize::Rounding;
use netfold::{Builder, Communicator, Exchange, ExchangeError, GroupKey, Mode, Tolerance};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;

/// The options of a communicator, as Python gives them.
#[derive(Default)]
pub(crate) struct Options {
    rank: u16,
    world: u16,
    job: Option<String>,
    group: Option<String>,
    switch: Option<String>,
    controller: Option<String>,
    controller_ca: Option<String>,
    tenant: Option<String>,
    token: Option<String>,
    trees: Option<u8>,
    mode: Option<String>,
    rounding: Option<String>,
    seed: Option<u64>,
    tolerance: Option<f64>,
    rescale: Option<bool>,
    without_stragglers: bool,
    confidential: Option<PathBuf>,
    authenticated: bool,
    device_quantization: bool,
    slots: Option<u32>,
    classes: Option<u8>,
    importance: Option<u8>,
    exchange: Option<Py<PyAny>>,
    rendezvous: Option<String>,
    host: Option<String>,
    local_ip: Option<String>,
    shared_memory: Option<bool>,
    fall_back: Option<bool>,
    join_timeout: Option<f64>,
    stall_timeout: Option<f64>,
    resend_after: Option<f64>,
    busy_poll: Option<f64>,
    idle_timeout: Option<f64>,
    resizable: bool,
    join_running: bool,
}

impl Options {
    /// Whether sums that lack contributions are rescaled.
    pub(crate) fn rescales(&self) -> bool {
        self.rescale.unwrap_or(true)
    }

    /// A builder with the rank, the world size, authentication, quantisation on devices, the tolerance, importance classes and the group key.
    fn begun(&self, py: Python<'_>) -> PyResult<Builder> {
        let builder = Communicator::builder()
            .resizable(self.resizable)
            .authenticated(self.authenticated)
            .device_quantization(self.device_quantization);
        let mut builder = if self.join_running {
            builder.join_running()
        } else {
            builder.rank(self.rank).world_size(self.world)
        };
        if let Some(group) = &self.group {
            builder = builder.group(group);
        }
        if let Some(part) = self.tolerance {
            let tolerance = parse_tolerance(py, part, self.rescales(), self.without_stragglers)?;
            builder = builder.tolerance(tolerance);
        }
        if let Some(importance) = self.importance {
            builder = builder.importance(importance);
        }
        if let Some(file) = &self.confidential {
            let key = GroupKey::from_file(file).map_err(|error| errors::from_library(py, &error.into()))?;
            builder = builder.confidential(key);
        }
        Ok(builder)
    }

    pub(crate) fn without_stragglers(&self) -> bool {
        self.without_stragglers
    }

    /// Reads the keyword arguments. Names that this version does not know are refused.
    pub(crate) fn new(rank: u16, world: u16, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Self { rank, world, ..Self::default() };
        let Some(given) = given else { return Ok(options) };
        for (name, value) in given {
            if value.is_none() {
                continue;
            }
            match name.extract::<String>()?.as_str() {
                "job" => options.job = Some(value.extract()?),
                "group" => options.group = Some(value.extract()?),
                "switch" => options.switch = Some(value.extract()?),
                "controller" => options.controller = Some(value.extract()?),
                "controller_ca" => options.controller_ca = Some(value.extract()?),
                "tenant" => options.tenant = Some(value.extract()?),
                "token" => options.token = Some(value.extract()?),
                "trees" => options.trees = Some(value.extract()?),
                "mode" => options.mode = Some(value.extract()?),
                "rounding" => options.rounding = Some(value.extract()?),
                "seed" => options.seed = Some(value.extract()?),
                "slots" => options.slots = Some(value.extract()?),
                "tolerance" => options.tolerance = Some(value.extract()?),
                "rescale" => options.rescale = Some(value.extract()?),
                "without_stragglers" => options.without_stragglers = value.extract()?,
                "authenticated" => options.authenticated = value.extract()?,
                "device_quantization" => options.device_quantization = value.extract()?,
                "confidential" => options.confidential = Some(value.extract()?),
                "classes" => options.classes = Some(value.extract()?),
                "importance" => options.importance = Some(value.extract()?),
                "join_timeout" => options.join_timeout = Some(value.extract()?),
                "stall_timeout" => options.stall_timeout = Some(value.extract()?),
                "resend_after" => options.resend_after = Some(value.extract()?),
                "busy_poll" => options.busy_poll = Some(value.extract()?),
                "resizable" => options.resizable = value.extract()?,
                "join_running" => options.join_running = value.extract()?,
                "idle_timeout" => options.idle_timeout = Some(value.extract()?),
                "exchange" => options.exchange = Some(value.unbind()),
                "rendezvous" => options.rendezvous = Some(value.extract()?),
                "host" => options.host = Some(value.extract()?),
                "local_ip" => options.local_ip = Some(value.extract()?),
                "shared_memory" => options.shared_memory = Some(value.extract()?),
                "fall_back" => options.fall_back = Some(value.extract()?),
                other => {
                    let message = format!("there is no option '{other}'");
                    return Err(errors::new(given.py(), "argument", &message));
                }
            }
        }
        Ok(options)
    }

    /// The times that are given.
    fn with_times(&self, py: Python<'_>, mut builder: Builder) -> PyResult<Builder> {
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .map_err(|_| errors::new(py, "argument", &format!("{name} is not a number of seconds")))
        };
        if let Some(value) = self.join_timeout {
            builder = builder.join_timeout(seconds("join_timeout", value)?);
        }
        if let Some(value) = self.stall_timeout {
            builder = builder.stall_timeout(seconds("stall_timeout", value)?);
        }
        if let Some(value) = self.resend_after {
            builder = builder.resend_after(seconds("resend_after", value)?);
        }
        if let Some(value) = self.busy_poll {
            builder = builder.busy_poll(seconds("busy_poll", value)?);
        }
        if let Some(value) = self.idle_timeout {
            let never = value == f64::INFINITY;
            let timeout = if never { Duration::MAX } else { seconds("idle_timeout", value)? };
            builder = builder.idle_timeout(timeout);
        }
        Ok(builder)
    }

    /// The library's builder.
    pub(crate) fn into_builder(self, py: Python<'_>) -> PyResult<Builder> {
        let mut builder = self.with_times(py, self.begun(py)?)?;
        if let Some(job) = self.job {
            builder = builder.job(job);
        }
        if let Some(mode) = self.mode {
            builder = builder.mode(parse_mode(py, &mode)?);
        }
        if let Some(rounding) = self.rounding {
            builder = builder.rounding(parse_rounding(py, &rounding, self.seed.unwrap_or(0))?);
        }
        if let Some(slots) = self.slots {
            builder = builder.slots(slots);
        }
        if let Some(classes) = self.classes {
            builder = builder.classes(classes);
        }
        let failed = |error| errors::from_library(py, &error);
        // All of them resolve names, which may take long.
        if let Some(address) = self.switch {
            builder = py.detach(|| builder.switch(address)).map_err(failed)?;
        }
        if let Some(address) = self.controller {
            builder = py.detach(|| builder.controller(address)).map_err(failed)?;
        }
        if let Some(file) = self.controller_ca {
            builder = builder.controller_ca(file);
        }
        if let Some(tenant) = self.tenant {
            builder = builder.tenant(tenant, self.token.unwrap_or_default());
        }
        if let Some(trees) = self.trees {
            builder = builder.trees(trees);
        }
        if let Some(address) = self.rendezvous {
            builder = py.detach(|| builder.rendezvous(address)).map_err(failed)?;
        }
        if let Some(name) = self.host {
            builder = builder.host(name);
        }
        if let Some(on) = self.shared_memory {
            builder = builder.shared_memory(on);
        }
        if let Some(on) = self.fall_back {
            builder = builder.fall_back(on);
        }
        if let Some(all_gather) = self.exchange {
            let ip = self.local_ip.map(|ip| ip.parse()).transpose();
            let local_ip = ip.map_err(|_| errors::new(py, "argument", "local_ip is not an IP address"))?;
            let exchange = PythonExchange { rank: self.rank, world: self.world, all_gather, local_ip };
            builder = builder.exchange(Box::new(exchange));
        }
        Ok(builder)
    }
}

fn parse_mode(py: Python<'_>, name: &str) -> PyResult<Mode> {
    name.parse().map_err(|error| errors::new(py, "argument", &format!("mode '{name}': {error}")))
}

/// The tolerance for a fraction of missing contributions.
pub(crate) fn parse_tolerance(
    py: Python<'_>,
    part: f64,
    rescale: bool,
    without_stragglers: bool,
) -> PyResult<Tolerance> {
    let tolerance = Tolerance::fraction(part).ok_or_else(|| {
        errors::new(py, "argument", &format!("{part} is not a tolerance; give a fraction from 0 to 1"))
    })?;
    Ok(Tolerance { rescale, stragglers: without_stragglers, ..tolerance })
}

fn parse_rounding(py: Python<'_>, name: &str, seed: u64) -> PyResult<Rounding> {
    match name {
        "nearest" => Ok(Rounding::Nearest),
        "stochastic" => Ok(Rounding::Stochastic { seed }),
        _ => {
            let message = format!("there is no rounding '{name}'; choose nearest or stochastic");
            Err(errors::new(py, "argument", &message))
        }
    }
}

/// An exchange by a Python callable, which takes `bytes` and returns a list of them.
struct PythonExchange {
    rank: u16,
    world: u16,
    all_gather: Py<PyAny>,
    local_ip: Option<IpAddr>,
}

impl Exchange for PythonExchange {
    fn rank(&self) -> u16 {
        self.rank
    }

    fn world(&self) -> u16 {
        self.world
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let called = Python::attach(|py| -> PyResult<Vec<Vec<u8>>> {
            self.all_gather.call1(py, (PyBytes::new(py, mine),))?.extract(py)
        });
        let all = called.map_err(|error| ExchangeError::Callback(Arc::new(error)))?;
        if all.len() == usize::from(self.world) {
            Ok(all)
        } else {
            Err(ExchangeError::Count { world: self.world, got: all.len() })
        }
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }
}
