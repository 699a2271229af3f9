//! Operations in flight.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use netfold::{CudaStream, CudaWork, Error, OpReport};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::process::Home;
use crate::tensor::Tensor;
use crate::{callbacks, errors};

/// How often a waiting thread checks for signals, so that Ctrl-C works.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Tensors of an operation that is under way.
type Kept = Arc<Mutex<Vec<Tensor>>>;

/// Tensors of operations that are over, which wait for a thread that holds the interpreter's lock.
static RETIRED: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

/// Drops the tensors of finished operations.
pub(crate) fn release_retired(_py: Python<'_>) {
    let tensors = match RETIRED.try_lock() {
        Ok(mut retired) => std::mem::take(&mut *retired),
        Err(TryLockError::Poisoned(retired)) => std::mem::take(&mut *retired.into_inner()),
        // Another thread is adding to it; they are dropped next time.
        Err(TryLockError::WouldBlock) => return,
    };
    drop(tensors);
}

fn take(kept: &Kept) -> Vec<Tensor> {
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
}

/// An operation in flight.
#[pyclass(frozen, weakref, module = "netfold._netfold")]
pub(crate) struct Work {
    pending: Home<Pending>,
}

struct Pending {
    work: netfold::Work,
    /// On memory of a CUDA device.
    cuda: Option<CudaWork>,
    kept: Kept,
}

impl Work {
    /// Keeps `tensors` until `work` is over.
    pub(crate) fn new(work: netfold::Work, cuda: Option<CudaWork>, tensors: Vec<Tensor>) -> Self {
        let kept = Arc::new(Mutex::new(tensors));
        let held = Arc::clone(&kept);
        work.on_done(move |_| {
            let over = take(&held);
            RETIRED.lock().unwrap_or_else(PoisonError::into_inner).extend(over);
        });
        Self { pending: Home::new(Pending { work, cuda, kept }) }
    }

    /// The outcome if it comes within `timeout`.
    fn outcome(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Result<OpReport, Error>>> {
        self.pending.check(py)?;
        let timeout =
            timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let work = &self.pending.work;
        let outcome = loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SIGNAL_CHECK_INTERVAL, |left| left.min(SIGNAL_CHECK_INTERVAL));
            let outcome = match work.outcome() {
                Some(outcome) => Some(outcome),
                None => py.detach(|| work.wait_timeout(slice)),
            };
            if outcome.is_some() || left.is_some_and(|left| left.is_zero()) {
                break outcome;
            }
            py.check_signals()?;
        };
        if outcome.is_some() {
            drop(take(&self.pending.kept));
            release_retired(py);
        }
        Ok(outcome)
    }
}

#[pymethods]
impl Work {
    /// Waits until the operation is over and raises what it failed with.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        match self.outcome(py, timeout)? {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(errors::from_library(py, &error)),
            None => {
                let message = format!(
                    "the operation is not finished after {:.3} s; it continues, and can be waited for again",
                    timeout.unwrap_or_default()
                );
                Err(errors::retry(py, "wait_timeout", &message))
            }
        }
    }

    /// Makes a stream of the tensors' device (the value of its `cudaStream_t`) wait for the output. Does not block, but for tensors in host
    /// memory. Raises what the operation has failed with by now.
    #[expect(unsafe_code, reason = "uses a stream of Python's")]
    fn wait_on_stream(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        self.pending.check(py)?;
        let Some(cuda) = &self.pending.cuda else { return self.wait(py, None) };
        if let Some(error) = self.exception(py)? {
            return Err(error);
        }
        // SAFETY: the stream is the caller's, who has it from a library that keeps it.
        let waits = unsafe { cuda.make_wait(CudaStream::from_raw(stream)) };
        waits.map_err(|error| errors::from_library(py, &error))
    }

    /// Whether the tensors are in the memory of a CUDA device.
    #[getter]
    fn on_device(&self) -> bool {
        self.pending.cuda.is_some()
    }

    /// Whether the operation is over.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.pending.check(py)?;
        Ok(self.pending.work.is_done())
    }

    /// The exception that the operation failed with; `None` when it succeeded or is under way.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<PyErr>> {
        self.pending.check(py)?;
        Ok(match self.pending.work.outcome() {
            Some(Err(error)) => Some(errors::from_library(py, &error)),
            _ => None,
        })
    }

    /// Counters of the finished operation; `None` when it failed or is under way.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.pending.check(py)?;
        let Some(Ok(report)) = self.pending.work.outcome() else { return Ok(None) };
        let counters = PyDict::new(py);
        counters.set_item("elements", report.elements)?;
        counters.set_item("chunks", report.chunks)?;
        counters.set_item("non_finite", report.non_finite)?;
        counters.set_item("partial", report.partial)?;
        counters.set_item("left_out", report.left_out)?;
        Ok(Some(counters))
    }

    /// Calls `callable` without arguments, on a thread of the package, once the operation is over.
    fn on_done(&self, py: Python<'_>, callable: Py<PyAny>) -> PyResult<()> {
        self.pending.check(py)?;
        let queue = callbacks::queue(py)?;
        self.pending.work.on_done(move |_| queue.send(callable));
        Ok(())
    }
}
