//! Rank, world size and job name of the launcher.

use netfold::launcher::{self, Launched, Launcher};
use pyo3::prelude::*;

use crate::errors;

/// A launcher's name, rank, world size and the job's name.
type Found = (&'static str, u16, u16, Option<String>);

/// What a launcher says of this process: the one that started it last, or that of this name.
#[pyfunction]
#[pyo3(signature = (name=None))]
pub(crate) fn launched(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Found>> {
    let found = match name {
        None => launcher::from_environment(),
        Some(name) => match Launcher::ALL.into_iter().find(|launcher| launcher.name() == name) {
            Some(launcher) => launcher.read(&launcher::environment),
            None => return Err(errors::new(py, "argument", &format!("there is no launcher '{name}'"))),
        },
    };
    let found = found.map_err(|error| errors::new(py, "argument", &error.to_string()))?;
    Ok(found.map(|Launched { launcher, rank, world_size, job, .. }| (launcher.name(), rank, world_size, job)))
}

/// What the launcher calls this run, if it has a name for it.
#[pyfunction]
pub(crate) fn launchers_job() -> Option<String> {
    launcher::job(&launcher::environment)
}
