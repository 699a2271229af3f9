//! Collectives as foreign functions of XLA, for JAX on the host: XLA calls the handler with its buffers, without Python.
//!
//! A call names its communicators by numbers, which are attributes of the compiled program, and its own is that of the device
//! that executes it. The handler starts the operation on XLA's memory and returns a future, which the library's thread completes.
#![expect(unsafe_code, reason = "reads XLA's structures and hands its memory to the library")]

mod abi;

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use netfold::{Call, Collective, Communicator, DType};
use pyo3::prelude::*;

use crate::tensor::carrier;
use crate::{errors, reduction};

/// Communicators that programs name.
static NAMED: LazyLock<Mutex<HashMap<i64, Named>>> = LazyLock::new(Mutex::default);

struct Named {
    /// The process that made it: its threads do not exist in a forked child.
    process: u32,
    communicator: Weak<Communicator>,
}

/// A number by which programs name a communicator. It is random, so that a compiled program that JAX has kept from another
/// process is not executed with a communicator of this one.
pub(crate) fn name(communicator: &Arc<Communicator>) -> i64 {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    named.retain(|_, entry| entry.communicator.strong_count() > 0);
    loop {
        let number = RandomState::new().build_hasher().finish().cast_signed();
        if let std::collections::hash_map::Entry::Vacant(entry) = named.entry(number) {
            entry.insert(Named { process: std::process::id(), communicator: Arc::downgrade(communicator) });
            return number;
        }
    }
}

fn find(number: i64) -> Result<Arc<Communicator>, Failure> {
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = named.get(&number);
    if found.is_some_and(|entry| entry.process != std::process::id()) {
        return refuse(
            "forked: the communicator was made before the process forked; make a new one in the child",
        );
    }
    match found.and_then(|entry| entry.communicator.upgrade()) {
        Some(communicator) => Ok(communicator),
        None => refuse("closed: the communicator is closed; make another one, and trace the function again"),
    }
}

/// The version that the handler names, `abi::MAJOR` before it: XLA of some versions refuses every other one.
static MINOR: AtomicI32 = AtomicI32::new(0);

/// The address of the handler, for `jax.ffi.pycapsule`; `None` where the structures of this minor version are not known.
#[pyfunction]
pub(crate) fn xla_handler(minor: c_int) -> Option<usize> {
    if !abi::MINORS.contains(&minor) {
        return None;
    }
    MINOR.store(minor, Ordering::Relaxed);
    Some(execute as extern "C" fn(*mut abi::CallFrame) -> *mut abi::Error as usize)
}

/// Why a call is not executed.
struct Failure {
    code: c_int,
    message: String,
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { code: abi::INVALID_ARGUMENT, message: message.into() })
}

impl From<&netfold::Error> for Failure {
    fn from(error: &netfold::Error) -> Self {
        Self { code: abi::ABORTED, message: format!("{}: {}", error.kind(), errors::message(error)) }
    }
}

/// What XLA calls.
extern "C" fn execute(frame: *mut abi::CallFrame) -> *mut abi::Error {
    if frame.is_null() {
        return null_mut();
    }
    // SAFETY: XLA passes a call frame that is valid until the handler returns, or longer where it sets the future.
    let frame = unsafe { &mut *frame };
    if answer_metadata(frame) || frame.stage != abi::EXECUTE {
        return null_mut();
    }
    // SAFETY: null, or as long as it says.
    let api =
        unsafe { frame.api.as_ref() }.filter(|api| api.struct_size >= offset_of!(abi::Api, error_message));
    let Some(create_error) = api.and_then(|api| api.create_error) else {
        // Success would be a wrong result, and there is no way to return anything else.
        std::process::abort()
    };
    let started = match Xla::of(frame) {
        // A panic must not cross into XLA.
        Some(xla) => catch_unwind(AssertUnwindSafe(|| start(xla, frame))),
        None => Ok(refuse("this XLA's interface has too few functions; install a later jaxlib")),
    };
    match started.unwrap_or_else(|_| refuse("a panic in Netfold, which is a defect: see standard error")) {
        Ok(()) => null_mut(),
        Err(failure) => error_of(create_error, &failure),
    }
}

type CreateError = unsafe extern "C" fn(*mut abi::CreateError) -> *mut abi::Error;

fn error_of(create: CreateError, failure: &Failure) -> *mut abi::Error {
    let message = format!("netfold: {}", failure.message).replace('\0', " ");
    let message = CString::new(message).unwrap_or_default();
    let mut arguments = abi::CreateError {
        struct_size: size_of::<abi::CreateError>(),
        extension: null_mut(),
        message: message.as_ptr(),
        code: failure.code,
    };
    // SAFETY: the arguments are as XLA's interface requires; it copies the message.
    unsafe { create(&raw mut arguments) }
}

/// Answers XLA's question for the version of the interface; false where it did not ask.
fn answer_metadata(frame: &abi::CallFrame) -> bool {
    let extension = frame.extension;
    // SAFETY: an extension is null or valid; its kind says which structure it begins.
    unsafe {
        if extension.is_null() || (*extension).kind != abi::METADATA {
            return false;
        }
        let metadata = (*extension.cast::<abi::MetadataExtension>()).metadata;
        (*metadata).version.major = abi::MAJOR;
        (*metadata).version.minor = MINOR.load(Ordering::Relaxed);
        (*metadata).traits = 0;
    }
    true
}

/// XLA's functions, all of which a handler needs.
#[derive(Clone, Copy)]
struct Xla {
    create_error: CreateError,
    create_future: unsafe extern "C" fn(*mut abi::FutureCall) -> *mut abi::Error,
    complete_future: unsafe extern "C" fn(*mut abi::FutureCall) -> *mut abi::Error,
    fail_future: unsafe extern "C" fn(*mut abi::FailFuture) -> *mut abi::Error,
    ordinal: unsafe extern "C" fn(*mut abi::GetOrdinal) -> *mut abi::Error,
}

/// A future that is passed to the thread that completes it.
struct Pending(*mut abi::Future);

// SAFETY: XLA lets any thread complete a future.
unsafe impl Send for Pending {}

impl Xla {
    fn of(frame: &abi::CallFrame) -> Option<Self> {
        // SAFETY: null, or as long as it says; XLA's table only grows.
        let api = unsafe { frame.api.as_ref() }.filter(|api| api.struct_size >= size_of::<abi::Api>())?;
        Some(Self {
            create_error: api.create_error?,
            create_future: api.create_future?,
            complete_future: api.complete_future?,
            fail_future: api.fail_future?,
            ordinal: api.ordinal?,
        })
    }

    /// A future of XLA's, or its error.
    fn future(self) -> Result<Pending, *mut abi::Error> {
        let mut arguments = future_call(null_mut());
        // SAFETY: the arguments are as XLA's interface requires.
        let error = unsafe { (self.create_future)(&raw mut arguments) };
        if error.is_null() { Ok(Pending(arguments.future)) } else { Err(error) }
    }

    fn complete(self, future: &Pending, outcome: Result<(), Failure>) {
        let mut completed = future_call(future.0);
        let Err(failure) = outcome else {
            // SAFETY: the future is completed once, by the operation's end; XLA keeps it until then.
            unsafe { (self.complete_future)(&raw mut completed) };
            return;
        };
        let mut failed = abi::FailFuture {
            struct_size: size_of::<abi::FailFuture>(),
            extension: null_mut(),
            future: future.0,
            error: error_of(self.create_error, &failure),
        };
        // SAFETY: as above; XLA takes the error.
        unsafe { (self.fail_future)(&raw mut failed) };
    }

    /// The index of the device that executes a call, of those of this process.
    fn ordinal(self, frame: &abi::CallFrame) -> Option<usize> {
        let mut arguments = abi::GetOrdinal {
            struct_size: size_of::<abi::GetOrdinal>(),
            extension: null_mut(),
            context: frame.context,
            ordinal: -1,
        };
        // SAFETY: the arguments are as XLA's interface requires.
        let error = unsafe { (self.ordinal)(&raw mut arguments) };
        if error.is_null() { usize::try_from(arguments.ordinal).ok() } else { None }
    }
}

fn future_call(future: *mut abi::Future) -> abi::FutureCall {
    abi::FutureCall { struct_size: size_of::<abi::FutureCall>(), extension: null_mut(), future }
}

/// Starts a call's operation.
fn start(xla: Xla, frame: &mut abi::CallFrame) -> Result<(), Failure> {
    let attributes = Attributes::of(&frame.attributes)?;
    let communicator = match attributes.communicators[..] {
        [] => return refuse("the call names no communicator"),
        [only] => find(only)?,
        ref of_devices => match xla.ordinal(frame).and_then(|device| of_devices.get(device)) {
            Some(&number) => find(number)?,
            None => {
                let count = of_devices.len();
                return refuse(format!(
                    "{count} communicators are given; give one for each local device, in their order"
                ));
            }
        },
    };
    let input = array(&frame.arguments)?;
    let Some(output) = array(&frame.results)? else { return refuse("the call has no result") };
    let call = attributes.call(&communicator, input.as_ref(), &output)?;
    if call.collective == Collective::Barrier {
        // Its result is there to be depended on.
        // SAFETY: XLA lends as many bytes until the call is over.
        unsafe { output.data.write_bytes(0, output.count * output.item_size) };
    }
    let input = input.map_or(null(), |input| input.data.cast_const());
    // SAFETY: XLA keeps the buffers, which are as long as `call` says, until the future is completed. They are the same or apart, as XLA assigns them.
    let work = unsafe { communicator.submit(&call, input, output.data) };
    let work = work.map_err(|error| Failure::from(&error))?;
    let Ok(future) = xla.future() else {
        // The buffers are lent until the operation is over.
        return work.wait().map(drop).map_err(|error| Failure::from(&error));
    };
    frame.future = future.0;
    work.on_done(move |outcome| {
        let outcome = outcome.as_ref().map(drop).map_err(Failure::from);
        xla.complete(&future, outcome);
    });
    Ok(())
}

/// What a call's attributes say.
#[derive(Default)]
struct Attributes {
    communicators: Vec<i64>,
    collective: String,
    op: String,
    root: u16,
}

impl Attributes {
    fn of(attributes: &abi::Attributes) -> Result<Self, Failure> {
        let mut found = Self::default();
        for index in 0..usize::try_from(attributes.size).unwrap_or(0) {
            // SAFETY: by the interface the three arrays have `size` entries, and an entry's kind says what its value is.
            unsafe {
                let name = text(*attributes.names.add(index));
                let value = *attributes.values.add(index);
                match (&*name, *attributes.kinds.add(index)) {
                    ("communicators", abi::ARRAY) => found.communicators = numbers(&*value.cast())?,
                    ("collective", abi::STRING) => found.collective = text(value.cast()),
                    ("op", abi::STRING) => found.op = text(value.cast()),
                    ("root", abi::SCALAR) => found.root = root(&*value.cast())?,
                    _ => {
                        return refuse(format!(
                            "unknown attribute '{name}': the package and its module are of different versions"
                        ));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The call, once the buffers are found to fit it.
    fn call(
        &self,
        communicator: &Communicator,
        input: Option<&Array>,
        output: &Array,
    ) -> Result<Call, Failure> {
        let Some(collective) = Collective::from_name(&self.collective, self.root) else {
            return refuse(format!("there is no collective '{}'", self.collective));
        };
        let Some(op) = reduction::named(&self.op) else {
            return refuse(format!("there is no reduction '{}'", self.op));
        };
        if collective == Collective::Barrier {
            return Ok(Call::BARRIER);
        }
        let Some(input) = input else { return refuse("the call has no argument") };
        let carried = if collective.reduces() { None } else { carrier(input.item_size) };
        let Some(dtype) = input.dtype.or(carried) else {
            let name = &self.collective;
            return refuse(format!(
                "{name} of this element type is not possible; convert the array to a floating-point or integer type"
            ));
        };
        let count = if matches!(collective, Collective::ReduceScatter) { output.count } else { input.count };
        let call = Call::new(collective, dtype, op, count);
        let world = communicator.world_size();
        let lengths = (call.input_len(world), call.output_len(world));
        if lengths != (input.count, output.count) || input.item_size != output.item_size {
            let (inputs, outputs) = (input.count, output.count);
            return refuse(format!(
                "{} among {world} ranks of {inputs} elements in and {outputs} out does not fit",
                self.collective
            ));
        }
        Ok(call)
    }
}

/// A string of XLA's.
///
/// # Safety
///
/// The pointer is to a valid span of bytes.
unsafe fn text(bytes: *const abi::Bytes) -> String {
    // SAFETY: by this function's contract; an empty span may have no start.
    unsafe {
        let abi::Bytes { start, len } = *bytes;
        if len == 0 {
            String::new()
        } else {
            String::from_utf8_lossy(std::slice::from_raw_parts(start, len)).into_owned()
        }
    }
}

fn numbers(array: &abi::Array) -> Result<Vec<i64>, Failure> {
    if array.dtype != abi::dtype::S64 {
        return refuse("the communicators are no 64-bit numbers");
    }
    // SAFETY: by the interface an array has as many elements of its type; they need not be aligned.
    Ok((0..array.len).map(|index| unsafe { array.data.cast::<i64>().add(index).read_unaligned() }).collect())
}

fn root(scalar: &abi::Scalar) -> Result<u16, Failure> {
    if scalar.dtype != abi::dtype::S64 {
        return refuse("the root is no 64-bit number");
    }
    // SAFETY: by the interface the value is of this type.
    let root = unsafe { scalar.value.cast::<i64>().read_unaligned() };
    u16::try_from(root).or_else(|_| refuse(format!("rank {root} is out of range")))
}

/// A buffer of XLA's.
struct Array {
    data: *mut u8,
    count: usize,
    item_size: usize,
    dtype: Option<DType>,
}

/// The only array among arguments or results; tokens, which order calls, have no memory.
fn array(operands: &abi::Operands) -> Result<Option<Array>, Failure> {
    let mut found = None;
    for index in 0..usize::try_from(operands.size).unwrap_or(0) {
        // SAFETY: by the interface both arrays have `size` entries.
        let (kind, operand) = unsafe { (*operands.kinds.add(index), *operands.operands.add(index)) };
        if kind != abi::BUFFER {
            return refuse("an operand is no buffer");
        }
        // SAFETY: an operand of this kind is a buffer.
        let buffer = unsafe { &*operand.cast_const().cast::<abi::Buffer>() };
        if buffer.dtype == abi::dtype::TOKEN {
            continue;
        }
        if found.is_some() {
            return refuse("the call has several arrays");
        }
        found = Some(described(buffer)?);
    }
    Ok(found)
}

fn described(buffer: &abi::Buffer) -> Result<Array, Failure> {
    use abi::dtype;

    let (item_size, dtype) = match buffer.dtype {
        dtype::S8 => (1, Some(DType::I8)),
        dtype::S16 => (2, Some(DType::I16)),
        dtype::S32 => (4, Some(DType::I32)),
        dtype::S64 => (8, Some(DType::I64)),
        dtype::U8 => (1, Some(DType::U8)),
        dtype::U16 => (2, Some(DType::U16)),
        dtype::U32 => (4, Some(DType::U32)),
        dtype::U64 => (8, Some(DType::U64)),
        dtype::F16 => (2, Some(DType::F16)),
        dtype::BF16 => (2, Some(DType::Bf16)),
        dtype::F32 => (4, Some(DType::F32)),
        dtype::F64 => (8, Some(DType::F64)),
        dtype::PRED => (1, None),
        dtype::C64 => (8, None),
        other => return refuse(format!("arrays of XLA's element type {other} cannot be sent; convert them")),
    };
    let mut count = 1usize;
    for index in 0..usize::try_from(buffer.rank).unwrap_or(0) {
        // SAFETY: by the interface a buffer has as many dimensions as its rank.
        let dimension = unsafe { *buffer.dims.add(index) };
        count = count.saturating_mul(usize::try_from(dimension).unwrap_or(0));
    }
    Ok(Array { data: buffer.data.cast::<u8>(), count, item_size, dtype })
}

// The structures' sizes by the header, on machines with pointers of 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<abi::CallFrame>() == 40 + 2 * 40 + 48 + 8);
    assert!(size_of::<abi::Buffer>() == 48);
    assert!(size_of::<abi::Api>() == 16 + 24 + 8 + 18 * size_of::<*const c_void>());
};
