//! The library's errors as Python exceptions. The classes are written in Python, in `netfold._errors`.

use netfold::{Advice, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for an error of the library.
pub(crate) fn from_library(py: Python<'_>, error: &Error) -> PyErr {
    let advice = match error.advice() {
        Advice::Retry => "retry",
        Advice::Shrink => "shrink",
        _ => "stop",
    };
    make(py, error.kind(), &message(error), advice, error.peer())
}

/// An error's text, with those of its causes.
pub(crate) fn message(error: &Error) -> String {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !message.contains(&cause_text) {
            message = format!("{message}: {cause_text}");
        }
        source = cause.source();
    }
    message
}

/// An exception of this layer: `kind` chooses the class.
pub(crate) fn new(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    make(py, kind, message, "stop", None)
}

fn make(py: Python<'_>, kind: &str, message: &str, advice: &str, peer: Option<u16>) -> PyErr {
    let made = MAKE
        .get_or_try_init(py, || Ok(py.import("netfold._errors")?.getattr("make")?.unbind()))
        .and_then(|make: &Py<PyAny>| make.call1(py, (kind, message, advice, peer)));
    match made {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => error,
    }
}

/// As [`new`], for what may work when it is tried again.
pub(crate) fn retry(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    make(py, kind, message, "retry", None)
}
