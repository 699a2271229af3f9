//! CUDA's functions, by their C names and types ("CUDA Driver API" reference, version 12).
#![expect(unsafe_code, reason = "is a C library")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use netfold_cuda::quantize::{BlockArgs, PTX};
use netfold_cuda::{Driver, HostFunction};

use crate::kernels::{Launch, handle_of, kernel_of};
use crate::machine::{DEVICES, Machine, machine, machine_of, write_word};
use crate::options::Wait;
use crate::stream::{HostCall, Operation, Role};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NO_CONTEXT: c_int = 201;
const INVALID_DEVICE: c_int = 101;
const INVALID_HANDLE: c_int = 400;
const NOT_READY: c_int = 600;
const INVALID_PTX: c_int = 218;
const NOT_FOUND: c_int = 500;

/// The handle of every module: there is one.
const MODULE: usize = 1;

thread_local! {
    /// Contexts of this thread; the last one is current.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The device whose context is current.
fn current() -> Option<&'static Arc<Machine>> {
    let context = CONTEXTS.with(|contexts| contexts.borrow().last().copied())?;
    machine(i32::try_from(context).ok()?.checked_sub(1)?)
}

/// The device of a stream: of the current context for the legacy stream.
fn of_stream(stream: usize) -> Result<&'static Arc<Machine>, c_int> {
    let current = current().ok_or(NO_CONTEXT)?;
    if stream == 0 {
        return Ok(current);
    }
    let own = machine_of(stream).ok_or(INVALID_HANDLE)?;
    if Arc::ptr_eq(own, current) { Ok(own) } else { Err(INVALID_HANDLE) }
}

/// Compute capability 6.1.
unsafe extern "C" fn old_attribute(value: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
    put(value, if attribute == 75 { 6 } else { 1 })
}

/// Writes a result; null pointers are refused.
fn put<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null; the program under test passes the address of a variable of this type.
    unsafe { to.write(value) };
    SUCCESS
}

/// Runs a function's body unless the device or the test says that it fails.
fn guarded(
    function: &str,
    machine: Result<&'static Arc<Machine>, c_int>,
    body: impl FnOnce(&'static Arc<Machine>) -> c_int,
) -> c_int {
    match machine {
        Ok(machine) => match machine.lock().admit(function) {
            SUCCESS => {}
            code => return code,
        },
        Err(code) => return code,
    }
    machine.map_or_else(|code| code, body)
}

/// A word of pinned memory for a stream to wait for or to write, and whether that is left out; `None` where there is no such word.
fn word(machine: &Machine, address: u64, wait: Wait) -> Option<(usize, bool)> {
    let (address, state) = (address as usize, machine.lock());
    let good = state.memory.is_pinned(address, size_of::<u32>()) && address.is_multiple_of(size_of::<u32>());
    good.then_some((address, state.options.ignored == Some(wait)))
}

/// Defines the exported functions and the table of them.
macro_rules! exports {
    ($($name:ident($($parameter:ident: $type:ty),*) $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            ///
            /// As CUDA's documentation says.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($parameter: $type),*) -> c_int $body
        )*

        fn symbol(name: &CStr) -> Option<*const c_void> {
            match name.to_str() {
                $(Ok(stringify!($name)) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

/// The fake as a driver.
///
/// # Panics
///
/// When it lacks a function that Netfold uses.
pub fn driver() -> Driver {
    driver_with(symbol)
}

/// The same with devices of compute capability 6.1.
///
/// # Panics
///
/// When it lacks a function that Netfold uses.
pub fn old_driver() -> Driver {
    driver_with(|name| match name.to_bytes() {
        b"cuDeviceGetAttribute" => Some(old_attribute as *const c_void),
        _ => symbol(name),
    })
}

fn driver_with(resolve: impl Fn(&CStr) -> Option<*const c_void>) -> Driver {
    // SAFETY: the functions do what CUDA documents, as far as Netfold uses it.
    match unsafe { Driver::resolve(resolve) } {
        Ok(driver) => driver,
        Err(error) => panic!("{error}"),
    }
}

exports! {
    cuInit(_flags: c_uint) { SUCCESS }

    cuGetErrorName(code: c_int, name: *mut *const c_char) {
        let text = match code {
            1 => c"CUDA_ERROR_INVALID_VALUE",
            2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            101 => c"CUDA_ERROR_INVALID_DEVICE",
            201 => c"CUDA_ERROR_INVALID_CONTEXT",
            400 => c"CUDA_ERROR_INVALID_HANDLE",
            600 => c"CUDA_ERROR_NOT_READY",
            218 => c"CUDA_ERROR_INVALID_PTX",
            700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            801 => c"CUDA_ERROR_NOT_SUPPORTED",
            _ => return INVALID_VALUE,
        };
        put(name, text.as_ptr())
    }

    cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if (0..DEVICES as c_int).contains(&ordinal) { put(device, ordinal) } else { INVALID_DEVICE }
    }

    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        match attribute {
            75 => put(value, 9),
            76 => put(value, 0),
            _ => INVALID_VALUE,
        }
    }

    cuModuleLoadData(module: *mut usize, image: *const c_void) {
        guarded("cuModuleLoadData", current().ok_or(NO_CONTEXT), |_| {
            // SAFETY: the program under test passes a text that ends with a zero.
            let text = unsafe { CStr::from_ptr(image.cast()) };
            if text.to_bytes() == PTX.as_bytes() { put(module, MODULE) } else { INVALID_PTX }
        })
    }

    cuModuleUnload(module: usize) {
        if module == MODULE { SUCCESS } else { INVALID_HANDLE }
    }

    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        guarded("cuModuleGetFunction", current().ok_or(NO_CONTEXT), |_| {
            // SAFETY: the program under test passes a text that ends with a zero.
            match handle_of(unsafe { CStr::from_ptr(name) }) {
                Some(handle) if module == MODULE => put(function, handle),
                _ => NOT_FOUND,
            }
        })
    }

    cuLaunchKernel(
        function: usize,
        grid: c_uint,
        _grid_y: c_uint,
        _grid_z: c_uint,
        threads: c_uint,
        _threads_y: c_uint,
        _threads_z: c_uint,
        _shared: c_uint,
        stream: usize,
        parameters: *mut *mut c_void,
        _extra: *mut *mut c_void
    ) {
        guarded("cuLaunchKernel", of_stream(stream), |machine| {
            let Some(kernel) = kernel_of(function) else { return INVALID_HANDLE };
            // SAFETY: the program under test passes the addresses of as many parameters as the kernel has: one, of this type.
            let args = unsafe { parameters.read().cast::<BlockArgs>().read() };
            match Launch::new(kernel, args, (grid, threads)) {
                Ok(launch) if machine.append(stream, Operation::Launch(launch)) => SUCCESS,
                Ok(_) => INVALID_HANDLE,
                Err(_) => INVALID_VALUE,
            }
        })
    }

    cuDeviceGetCount(count: *mut c_int) { put(count, DEVICES as c_int) }

    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        guarded("cuDevicePrimaryCtxRetain", machine(device).ok_or(INVALID_DEVICE), |_| put(context, device as usize + 1))
    }

    cuDevicePrimaryCtxRelease_v2(device: c_int) {
        if machine(device).is_none() { INVALID_DEVICE } else { SUCCESS }
    }

    cuCtxPushCurrent_v2(context: usize) {
        CONTEXTS.with(|contexts| contexts.borrow_mut().push(context));
        SUCCESS
    }

    cuCtxPopCurrent_v2(context: *mut usize) {
        match CONTEXTS.with(|contexts| contexts.borrow_mut().pop()) {
            Some(popped) => put(context, popped),
            None => NO_CONTEXT,
        }
    }

    cuStreamCreate(stream: *mut usize, flags: c_uint) {
        guarded("cuStreamCreate", current().ok_or(NO_CONTEXT), |machine| put(stream, machine.new_stream(flags == 1)))
    }

    cuStreamDestroy_v2(stream: usize) {
        guarded("cuStreamDestroy", of_stream(stream), |_| SUCCESS)
    }

    cuStreamQuery(stream: usize) {
        guarded("cuStreamQuery", of_stream(stream), |machine| {
            let state = machine.lock();
            let idle = state.streams.get(&stream).is_none_or(|stream| stream.operations.is_empty());
            if idle { SUCCESS } else { NOT_READY }
        })
    }

    cuStreamSynchronize(stream: usize) {
        guarded("cuStreamSynchronize", of_stream(stream), |machine| machine.synchronize(stream))
    }

    cuStreamIsCapturing(stream: usize, status: *mut c_int) {
        guarded("cuStreamIsCapturing", of_stream(stream), |machine| {
            let capturing = machine.lock().streams.get(&stream).is_some_and(|stream| stream.capturing);
            put(status, c_int::from(capturing))
        })
    }

    cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        guarded("cuStreamWaitEvent", of_stream(stream), |machine| {
            let mut state = machine.lock();
            let state = &mut *state;
            let (Some(queue), Some(found)) = (state.streams.get_mut(&stream), state.events.get(&event)) else {
                return INVALID_HANDLE;
            };
            let wait = match (queue.role, found.role) {
                (Role::CopyIn, Role::Caller) => Some(Wait::CallerBeforeCopyIn),
                (Role::CopyIn, Role::CopyOut) => Some(Wait::CopyOutBeforeCopyIn),
                (Role::Notice, Role::CopyOut) => Some(Wait::CopyOutBeforeHost),
                (Role::Caller, Role::CopyOut) => Some(Wait::CopyOutBeforeCaller),
                (Role::Quantize, Role::Caller) => Some(Wait::CallerBeforeQuantize),
                (Role::CopyIn, Role::Quantize) => Some(Wait::QuantizeBeforeCopyIn),
                (Role::Quantize, Role::CopyOut) => Some(Wait::CopyOutBeforeQuantize),
                (Role::Results, Role::CopyOut) => Some(Wait::CopyOutBeforeResults),
                (Role::Quantize, Role::Results) => Some(Wait::ResultsBeforeQuantize),
                (Role::Caller, Role::Results) => Some(Wait::ResultsBeforeCaller),
                (Role::Notice, Role::Results) => Some(Wait::ResultsBeforeHost),
                _ => None,
            };
            if wait.is_none() || wait != state.options.ignored {
                queue.operations.push_back(Operation::WaitForEvent { event, time: found.recorded });
            }
            machine.notify();
            SUCCESS
        })
    }

    cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, _flags: c_uint) {
        guarded("cuStreamWaitValue32", of_stream(stream), |machine| {
            let Some((address, ignored)) = word(machine, address, Wait::HostBeforeCopyOut) else { return INVALID_VALUE };
            if ignored || machine.append(stream, Operation::WaitForWord { address, value }) {
                SUCCESS
            } else {
                INVALID_HANDLE
            }
        })
    }

    cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, _flags: c_uint) {
        guarded("cuStreamWriteValue32", of_stream(stream), |machine| {
            let Some((address, at_once)) = word(machine, address, Wait::CopyInBeforeHost) else { return INVALID_VALUE };
            if at_once {
                write_word(address, value);
                return SUCCESS;
            }
            if machine.append(stream, Operation::WriteWord { address, value }) { SUCCESS } else { INVALID_HANDLE }
        })
    }

    cuLaunchHostFunc(stream: usize, function: HostFunction, data: *mut c_void) {
        guarded("cuLaunchHostFunc", of_stream(stream), |machine| {
            let call = HostCall { function, data };
            if machine.append(stream, Operation::Call(call)) { SUCCESS } else { INVALID_HANDLE }
        })
    }

    cuEventCreate(event: *mut usize, _flags: c_uint) {
        guarded("cuEventCreate", current().ok_or(NO_CONTEXT), |machine| put(event, machine.new_event()))
    }

    cuEventRecord(event: usize, stream: usize) {
        guarded("cuEventRecord", of_stream(stream), |machine| {
            let mut state = machine.lock();
            let state = &mut *state;
            let (Some(queue), Some(found)) = (state.streams.get_mut(&stream), state.events.get_mut(&event)) else {
                return INVALID_HANDLE;
            };
            found.recorded += 1;
            found.role = queue.role;
            queue.operations.push_back(Operation::Record { event, time: found.recorded });
            machine.notify();
            SUCCESS
        })
    }

    cuEventQuery(event: usize) {
        guarded("cuEventQuery", machine_of(event).ok_or(INVALID_HANDLE), |machine| {
            match machine.lock().events.get(&event) {
                Some(event) if event.reached >= event.recorded => SUCCESS,
                Some(_) => NOT_READY,
                None => INVALID_HANDLE,
            }
        })
    }

    cuEventDestroy_v2(_event: usize) { SUCCESS }

    cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        guarded("cuMemHostAlloc", current().ok_or(NO_CONTEXT), |machine| {
            let pinned = machine.lock().memory.pin(bytes);
            if pinned.is_null() { OUT_OF_MEMORY } else { put(address, pinned) }
        })
    }

    cuMemFreeHost(address: *mut c_void) {
        guarded("cuMemFreeHost", current().ok_or(NO_CONTEXT), |machine| {
            if machine.lock().memory.unpin(address) { SUCCESS } else { INVALID_VALUE }
        })
    }

    cuMemHostGetDevicePointer_v2(address: *mut u64, host: *mut c_void, _flags: c_uint) {
        put(address, host as u64)
    }

    cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        guarded("cuMemAlloc", current().ok_or(NO_CONTEXT), |machine| {
            match machine.lock().memory.allocate(bytes) {
                0 => OUT_OF_MEMORY,
                allocated => put(address, allocated),
            }
        })
    }

    cuMemFree_v2(address: u64) {
        guarded("cuMemFree", current().ok_or(NO_CONTEXT), |machine| {
            if machine.lock().memory.free(address) { SUCCESS } else { INVALID_VALUE }
        })
    }

    cuMemcpyDtoHAsync_v2(host: *mut c_void, device: u64, bytes: usize, stream: usize) {
        let copy = Operation::Copy { to_host: true, host: host as usize, device, bytes };
        guarded("cuMemcpyDtoHAsync", of_stream(stream), |machine| {
            if machine.append(stream, copy) { SUCCESS } else { INVALID_HANDLE }
        })
    }

    cuMemcpyHtoDAsync_v2(device: u64, host: *const c_void, bytes: usize, stream: usize) {
        let copy = Operation::Copy { to_host: false, host: host as usize, device, bytes };
        guarded("cuMemcpyHtoDAsync", of_stream(stream), |machine| {
            if machine.append(stream, copy) { SUCCESS } else { INVALID_HANDLE }
        })
    }

    cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: u64) {
        let owner = (0..DEVICES as c_int).filter_map(crate::machine::started).find(|(_, machine)| {
            machine.lock().memory.device(address, 1).is_some()
        });
        match (attribute, owner) {
            (2, Some(_)) => put(value.cast::<u32>(), 2),
            (9, Some((ordinal, _))) => put(value.cast::<i32>(), ordinal),
            _ => INVALID_VALUE,
        }
    }
}
