//! A rank's membership of a job.
#![expect(unsafe_code, reason = "hands the memory of Python's tensors to the library")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netfold::{Call, Collective, CudaStream, CudaWork, DType, ReduceOp};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::connect::{Options, parse_tolerance};
use crate::process::Home;
use crate::tensor::{self, Tensor};
use crate::work::{self, Work};
use crate::{errors, overlap, reduction, xla};

/// A rank's membership of a job. Any thread may use it; the order of calls must be the same on all ranks.
#[pyclass(frozen, weakref, module = "netfold._netfold")]
pub(crate) struct Communicator {
    state: Home<Mutex<State>>,
    /// What was started and may still be under way, oldest first.
    started: Mutex<VecDeque<netfold::Work>>,
    xla_name: Mutex<Option<i64>>,
    /// Rank and world size; others once the job is resized.
    place: Mutex<(u16, u16)>,
    /// The default tolerance of sums.
    rescale: bool,
    without_stragglers: bool,
}

enum State {
    Open(Arc<netfold::Communicator>),
    Closed,
}

impl Communicator {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an operation until it is over.
    fn note(&self, work: &netfold::Work) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        while started.front().is_some_and(netfold::Work::is_done) {
            started.pop_front();
        }
        started.push_back(work.clone());
    }

    /// Leaves the job at once: pending operations are aborted; when there are none, this is a graceful leave for the other
    /// ranks, which finish their operations.
    fn leave_now(&self, py: Python<'_>) {
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        let idle = {
            let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.iter().all(netfold::Work::is_done)
        };
        // This waits for threads that may want the interpreter's lock.
        py.detach(|| match before {
            State::Open(communicator) if idle && communicator.failure().is_none() => {
                // A failure to leave cannot be reported to anyone.
                drop(Arc::into_inner(communicator).map(netfold::Communicator::leave));
            }
            other => drop(other),
        });
    }

    /// The library's communicator. The lock is not held while it is used, so that others can close it.
    fn open(&self, py: Python<'_>) -> PyResult<Arc<netfold::Communicator>> {
        self.state.check(py)?;
        work::release_retired(py);
        match &*self.lock() {
            State::Open(communicator) => Ok(Arc::clone(communicator)),
            State::Closed => Err(errors::new(py, "closed", "the communicator is closed; make another one")),
        }
    }
}

#[pymethods]
impl Communicator {
    #[new]
    #[pyo3(signature = (rank, world_size, **options))]
    fn new(
        py: Python<'_>,
        rank: u16,
        world_size: u16,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = Options::new(rank, world_size, options)?;
        let (rescale, without_stragglers) = (options.rescales(), options.without_stragglers());
        let builder = options.into_builder(py)?;
        let communicator =
            py.detach(|| builder.connect()).map_err(|error| errors::from_library(py, &error))?;
        Ok(Self::of(communicator, rescale, without_stragglers))
    }

    /// Starts a collective on the memory of `send` and `recv`, which are kept until it is over, as is that of `residual`, for an
    /// all-reduce with error feedback.
    #[pyo3(signature = (collective, send, recv, op, root, dtype, priority=0, residual=None, tolerance=None))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, in Python, where they have names")]
    fn submit(
        &self,
        py: Python<'_>,
        collective: &str,
        send: Option<&Bound<'_, PyAny>>,
        recv: Option<&Bound<'_, PyAny>>,
        op: &str,
        root: u16,
        dtype: Option<&str>,
        priority: u8,
        residual: Option<&Bound<'_, PyAny>>,
        tolerance: Option<f64>,
    ) -> PyResult<Work> {
        let communicator = self.open(py)?;
        let collective = parse_collective(py, collective, root)?;
        let op = parse_op(py, op)?;
        let send = send.map(|object| Tensor::of(object, dtype)).transpose()?;
        let recv = recv.map(|object| Tensor::of(object, dtype)).transpose()?;
        let mut call = self.call(py, collective, op, send.as_ref(), recv.as_ref())?.in_class(priority);
        if let Some(part) = tolerance {
            call = call.tolerating(parse_tolerance(py, part, self.rescale, self.without_stragglers)?);
        }
        let input =
            send.as_ref().or(recv.as_ref()).map_or(std::ptr::null(), |tensor| tensor.data.cast_const());
        let output = recv.as_ref().or(send.as_ref()).map_or(std::ptr::null_mut(), |tensor| tensor.data);
        let residual = residual.map(|object| Tensor::of(object, None)).transpose()?;
        if let Some(residual) = &residual {
            check_residual(py, &call, residual, send.iter().chain(&recv))?;
        }
        let memory = Memory { input: input as usize, output: output as usize };
        let stream = device_stream(py, send.as_ref(), recv.as_ref(), residual.as_ref())?;
        let fed = residual.as_ref().map(|residual| residual.data as usize);
        // SAFETY: both are the memory of `send` and `recv`, as long as `call` says by `Self::call`, the output writable
        // and not overlapping the input but in place; and the residual is valid by `check_residual`. The tensors are kept
        // until the operation is over, below.
        let started = py.detach(|| unsafe { start(&communicator, &call, memory, fed, stream) });
        let (started, cuda) = started.map_err(|error| errors::from_library(py, &error))?;
        self.note(&started);
        Ok(Work::new(started, cuda, send.into_iter().chain(recv).chain(residual).collect()))
    }

    /// Splits the ranks into groups, as MPI does; `None` for ranks without a color.
    #[pyo3(signature = (color, key))]
    fn split(&self, py: Python<'_>, color: Option<u32>, key: i32) -> PyResult<Option<Self>> {
        let communicator = self.open(py)?;
        let group = py.detach(|| -> Result<_, netfold::Error> {
            let Some(builder) = communicator.split(color, key)? else { return Ok(None) };
            builder.connect().map(Some)
        });
        let group = group.map_err(|error| errors::from_library(py, &error))?;
        let (rescale, without_stragglers) = (self.rescale, self.without_stragglers);
        Ok(group.map(|group| Self::of(group, rescale, without_stragglers)))
    }

    /// This worker's rank.
    #[getter]
    fn rank(&self) -> u16 {
        self.place().0
    }

    /// Number of workers.
    #[getter]
    fn world_size(&self) -> u16 {
        self.place().1
    }

    /// The data path, as text.
    fn path(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.path().to_string())
    }

    /// The part of each of the job's trees in its next operations, of 1.
    fn tree_shares(&self, py: Python<'_>) -> PyResult<Vec<f64>> {
        Ok(self.open(py)?.tree_shares())
    }

    /// Bytes of lanes in a packet of this rank; 0 if it exchanges none with a switch.
    fn lane_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.lane_bytes())
    }

    /// Why the configured switch is not used; `None` if it is, or none was configured.
    fn unused_switch(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.open(py)?.path().unused_switch)
    }

    /// The exception that ended the job, if it has ended.
    fn failure(&self, py: Python<'_>) -> PyResult<Option<PyErr>> {
        let communicator = self.open(py)?;
        Ok(communicator.failure().map(|error| errors::from_library(py, &error)))
    }

    /// A number by which compiled programs of XLA name this communicator.
    fn xla_name(&self, py: Python<'_>) -> PyResult<i64> {
        let communicator = self.open(py)?;
        let mut name = self.xla_name.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(*name.get_or_insert_with(|| xla::name(&communicator)))
    }

    /// Continues without lost ranks, or with `joining` more: generation, rank, world size, number of survivors, lost ranks.
    fn resize(&self, py: Python<'_>, joining: u16, timeout: f64) -> PyResult<(u32, u16, u16, u16, Vec<u16>)> {
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|_| errors::new(py, "argument", "timeout is not a number of seconds"))?;
        self.state.check(py)?;
        work::release_retired(py);
        let mut alone = self.take_alone(py)?;
        let (alone, resized) = py.detach(|| {
            let resized = if joining > 0 { alone.grow(joining, timeout) } else { alone.shrink(timeout) };
            (alone, resized)
        });
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = (alone.rank(), alone.world_size());
        // Programs of the former generation have another communicator.
        *self.xla_name.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.lock() = State::Open(Arc::new(alone));
        let resized = resized.map_err(|error| errors::from_library(py, &error))?;
        Ok((resized.generation, resized.rank, resized.world_size, resized.survivors, resized.lost))
    }

    /// The generation of a resizable job; 0 of others.
    fn generation(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.open(py)?.generation())
    }

    /// Where processes that join a job without a control port reach this rank.
    fn membership_address(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.open(py)?.membership_address().map(|address| address.to_string()))
    }

    /// Makes pending and later calls fail promptly, from any thread.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let communicator = self.open(py)?;
        py.detach(|| communicator.abort());
        Ok(())
    }

    /// Finishes pending operations and leaves the job. Does nothing the second time, and does not repeat an error that has
    /// ended the job: it was raised by the operation.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.check(py)?;
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        let left = py.detach(|| match before {
            State::Open(communicator) if communicator.failure().is_none() => {
                // If another thread is just starting an operation, it closes the communicator when it comes back.
                Arc::into_inner(communicator).map_or(Ok(()), netfold::Communicator::leave)
            }
            State::Open(_) | State::Closed => Ok(()),
        });
        work::release_retired(py);
        left.map_err(|error| errors::from_library(py, &error))
    }

    /// Leaves the job at once; pending operations are aborted.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.state.check(py)?;
        self.leave_now(py);
        work::release_retired(py);
        Ok(())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        matches!(&*self.lock(), State::Closed)
    }
}

impl Communicator {
    fn of(communicator: netfold::Communicator, rescale: bool, without_stragglers: bool) -> Self {
        let place = Mutex::new((communicator.rank(), communicator.world_size()));
        let state = Home::new(Mutex::new(State::Open(Arc::new(communicator))));
        let (started, xla_name) = (Mutex::default(), Mutex::default());
        Self { state, started, xla_name, place, rescale, without_stragglers }
    }

    fn place(&self) -> (u16, u16) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The communicator, which is closed for other threads until it is put back; an error while one of them uses it.
    fn take_alone(&self, py: Python<'_>) -> PyResult<netfold::Communicator> {
        let mut state = self.lock();
        let closed = |text| Err(errors::new(py, "closed", text));
        match std::mem::replace(&mut *state, State::Closed) {
            State::Closed => closed("the communicator is closed; make another one"),
            State::Open(shared) => Arc::try_unwrap(shared).or_else(|shared| {
                *state = State::Open(shared);
                closed("another thread uses the communicator; resize it when all its calls have returned")
            }),
        }
    }

    /// The call, once the tensors are found to fit it.
    fn call(
        &self,
        py: Python<'_>,
        collective: Collective,
        op: ReduceOp,
        send: Option<&Tensor>,
        recv: Option<&Tensor>,
    ) -> PyResult<Call> {
        let (Some(input), Some(output)) = (send.or(recv), recv.or(send)) else { return Ok(Call::BARRIER) };
        let (rank, ranks) = self.place();
        let writes = match collective {
            Collective::Broadcast { root } => root != rank,
            Collective::Reduce { root } => root == rank,
            _ => true,
        };
        if writes && output.read_only {
            return Err(errors::new(
                py,
                "read_only",
                "the output is read-only; pass a writable tensor, or out=",
            ));
        }
        if !input.same_type(output) {
            let message =
                format!("the input holds {} and the output {}", input.dtype_name, output.dtype_name);
            return Err(errors::new(py, "wrong_dtype", &message));
        }
        let dtype = element_type(py, collective, input)?;
        let world = usize::from(ranks);
        let count = match collective {
            Collective::ReduceScatter => output.count,
            Collective::AllToAll => input.count / world,
            _ => input.count,
        };
        let call = Call::new(collective, dtype, op, count);
        let (need_in, need_out) = (call.input_len(ranks), call.output_len(ranks));
        if need_in != input.count || need_out != output.count {
            let message = format!(
                "{} among {world} ranks of {} elements in and {} out does not fit: {}",
                collective.name(),
                input.count,
                output.count,
                match collective {
                    Collective::AllGather => "the output holds the inputs of all ranks",
                    Collective::ReduceScatter =>
                        "the input holds a part for each rank, each as long as the output",
                    Collective::AllToAll => "both hold a part for each rank, and are equally long",
                    _ => "both must be equally long",
                }
            );
            return Err(errors::new(py, "length", &message));
        }
        if !overlap::allowed(collective, usize::from(rank), input, output) {
            return Err(errors::new(
                py,
                "overlap",
                "input and output overlap; pass the same tensor, or separate ones",
            ));
        }
        Ok(call)
    }
}

/// The addresses of a call.
#[derive(Clone, Copy)]
struct Memory {
    input: usize,
    output: usize,
}

/// Starts a call on memory of the host, or of a device behind `stream`.
///
/// # Safety
///
/// As for [`netfold::Communicator::submit`], [`submit_with_feedback`](netfold::Communicator::submit_with_feedback),
/// [`submit_cuda`](netfold::Communicator::submit_cuda) and [`submit_cuda_with_feedback`](netfold::Communicator::submit_cuda_with_feedback).
unsafe fn start(
    communicator: &netfold::Communicator,
    call: &Call,
    Memory { input, output }: Memory,
    residual: Option<usize>,
    stream: Option<CudaStream>,
) -> Result<(netfold::Work, Option<CudaWork>), netfold::Error> {
    // SAFETY: by this function's contract.
    unsafe {
        match (stream, residual) {
            (Some(stream), Some(residual)) => {
                let work =
                    communicator.submit_cuda_with_feedback(call, output as u64, residual as u64, stream)?;
                Ok((work.work().clone(), Some(work)))
            }
            (Some(stream), None) => {
                let work = communicator.submit_cuda(call, input as u64, output as u64, stream)?;
                Ok((work.work().clone(), Some(work)))
            }
            (None, Some(residual)) => {
                let (send, recv) = (input as *const u8, output as *mut u8);
                let work = communicator.submit_with_feedback(call, send, recv, residual as *mut f32)?;
                Ok((work, None))
            }
            (None, None) => {
                let work = communicator.submit(call, input as *const u8, output as *mut u8)?;
                Ok((work, None))
            }
        }
    }
}

/// The stream behind which a call's tensors are there, if they are in a device's memory: all of them or none.
fn device_stream(
    py: Python<'_>,
    send: Option<&Tensor>,
    recv: Option<&Tensor>,
    residual: Option<&Tensor>,
) -> PyResult<Option<CudaStream>> {
    let streams: Vec<_> = send.iter().chain(&recv).map(|tensor| tensor.stream).collect();
    let on_device = streams.iter().flatten().count();
    if on_device > 0 && on_device < streams.len() {
        return Err(errors::new(
            py,
            "wrong_device",
            "one tensor is in the memory of a CUDA device and the other in host memory; pass both on one device",
        ));
    }
    if let Some(residual) = residual {
        if (on_device > 0) != residual.stream.is_some() {
            let message = "the residual is in other memory than the tensor; pass one on the same device";
            return Err(errors::new(py, "wrong_device", message));
        }
        let apart = send.zip(recv).is_some_and(|(send, recv)| send.data != recv.data);
        if on_device > 0 && apart {
            let message = "error feedback on a device works in place; pass no out, or no residual";
            return Err(errors::new(py, "unsupported", message));
        }
    }
    Ok(streams.into_iter().flatten().next_back())
}

/// Whether this can be the call's residual: writable numbers in binary32, one for each element, apart from the call's tensors.
fn check_residual<'a>(
    py: Python<'_>,
    call: &Call,
    residual: &Tensor,
    tensors: impl Iterator<Item = &'a Tensor>,
) -> PyResult<()> {
    let refuse = |kind, message: String| Err(errors::new(py, kind, &message));
    if residual.dtype != Some(DType::F32) {
        let name = &residual.dtype_name;
        return refuse("wrong_dtype", format!("the residual holds {name}; it must hold float32"));
    }
    if residual.count != call.count {
        let (have, need) = (residual.count, call.count);
        return refuse(
            "length",
            format!(
                "a residual of {have} elements does not fit a tensor of {need}; keep one residual for each tensor"
            ),
        );
    }
    if residual.read_only {
        return refuse("read_only", "the residual is read-only; pass a writable tensor".into());
    }
    if !(residual.data as usize).is_multiple_of(size_of::<f32>()) {
        return refuse(
            "argument",
            "the residual's memory is not aligned for float32; pass a copy of it".into(),
        );
    }
    let mut tensors = tensors.into_iter();
    if tensors.any(|tensor| !overlap::apart(residual, tensor)) {
        return refuse("overlap", "the residual overlaps the tensor; pass a tensor of its own".into());
    }
    Ok(())
}

/// The element type to send as: types that the library lacks are sent as integers where nothing is computed.
fn element_type(py: Python<'_>, collective: Collective, tensor: &Tensor) -> PyResult<DType> {
    let carried = if collective.reduces() { None } else { tensor::carrier(tensor.item_size) };
    tensor.dtype.or(carried).ok_or_else(|| {
        let message = format!(
            "{} of {} is not possible; convert the tensor to a floating-point or integer type",
            collective.name(),
            tensor.dtype_name
        );
        errors::new(py, "wrong_dtype", &message)
    })
}

fn parse_collective(py: Python<'_>, name: &str, root: u16) -> PyResult<Collective> {
    Collective::from_name(name, root)
        .ok_or_else(|| errors::new(py, "argument", &format!("there is no collective '{name}'")))
}

fn parse_op(py: Python<'_>, name: &str) -> PyResult<ReduceOp> {
    reduction::named(name).ok_or_else(|| {
        let message =
            format!("there is no reduction '{name}'; choose sum, avg, product, min, max, band, bor or bxor");
        errors::new(py, "argument", &message)
    })
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.state.is_here() {
            return;
        }
        Python::attach(|py| self.leave_now(py));
    }
}
