//! Which process an object belongs to.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::prelude::*;

use crate::errors;

/// A value with threads behind it, of use in the process that made it alone: in a forked child those threads do not
/// exist, and ending them would wait forever. There the value is leaked.
pub(crate) struct Home<T> {
    process: u32,
    value: ManuallyDrop<T>,
}

impl<T> Home<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: ManuallyDrop::new(value) }
    }

    /// Raises `netfold.Forked` in a child of the process that made the value.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(errors::new(
            py,
            "forked",
            "this object was made before the process forked and is unusable in the child; make a new one there",
        ))
    }

    /// Whether this is the process that made the value.
    pub(crate) fn is_here(&self) -> bool {
        std::process::id() == self.process
    }
}

impl<T> Deref for Home<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Home<T> {
    fn drop(&mut self) {
        if self.is_here() {
            drop_value(&mut self.value);
        }
    }
}

#[expect(unsafe_code, reason = "ManuallyDrop::drop")]
fn drop_value<T>(value: &mut ManuallyDrop<T>) {
    // SAFETY: called once, from the only owner's own drop; the value is not touched afterwards.
    unsafe { ManuallyDrop::drop(value) }
}
