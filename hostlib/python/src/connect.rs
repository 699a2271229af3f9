//! What a communicator is told when it is made.

use std::time::Duration;

use netfold::{Builder, Call, Communicator, Mode};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// The options of a communicator, as Python gives them.
pub(crate) struct Options {
    rank: u16,
    world: u16,
    job: Option<String>,
    switch: Option<String>,
    mode: Option<String>,
    slots: Option<u32>,
    join_timeout: Option<f64>,
    stall_timeout: Option<f64>,
    resend_after: Option<f64>,
}

impl Options {
    /// Reads the keyword arguments. Names that this version does not know are refused.
    pub(crate) fn new(rank: u16, world: u16, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Self {
            rank,
            world,
            job: None,
            switch: None,
            mode: None,
            slots: None,
            join_timeout: None,
            stall_timeout: None,
            resend_after: None,
        };
        let Some(given) = given else { return Ok(options) };
        for (name, value) in given {
            if value.is_none() {
                continue;
            }
            match name.extract::<String>()?.as_str() {
                "job" => options.job = Some(value.extract()?),
                "switch" => options.switch = Some(value.extract()?),
                "mode" => options.mode = Some(value.extract()?),
                "slots" => options.slots = Some(value.extract()?),
                "join_timeout" => options.join_timeout = Some(value.extract()?),
                "stall_timeout" => options.stall_timeout = Some(value.extract()?),
                "resend_after" => options.resend_after = Some(value.extract()?),
                "exchange" | "rendezvous" | "shared_memory" | "fall_back" => {}
                other => {
                    let message = format!("there is no option '{other}'");
                    return Err(errors::new(given.py(), "argument", &message));
                }
            }
        }
        Ok(options)
    }

    /// The library's builder.
    pub(crate) fn into_builder(self, py: Python<'_>) -> PyResult<Builder> {
        let mut builder = Communicator::builder().rank(self.rank).world_size(self.world);
        if let Some(job) = self.job {
            builder = builder.job(job);
        }
        if let Some(mode) = self.mode {
            builder = builder.mode(parse_mode(py, &mode)?);
        }
        if let Some(slots) = self.slots {
            builder = builder.slots(slots);
        }
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .map_err(|_| errors::new(py, "argument", &format!("{name} is no number of seconds")))
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
        if let Some(address) = self.switch {
            // Resolves names, which may take long.
            builder =
                py.detach(|| builder.switch(address)).map_err(|error| errors::from_library(py, &error))?;
        }
        Ok(builder)
    }
}

fn parse_mode(py: Python<'_>, name: &str) -> PyResult<Mode> {
    name.parse().map_err(|error| errors::new(py, "argument", &format!("mode '{name}': {error}")))
}

/// A call with a priority.
pub(crate) fn with_priority(call: Call, _priority: u8) -> Call {
    call
}
