//! Streams and events.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::c_void;
use std::fmt;

use crate::device::{Current, Device};
use crate::error::CudaError;
use crate::memory::PinnedMemory;

/// A stream of someone else, such as of PyTorch: a `CUstream` or `cudaStream_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawStream(usize);

impl RawStream {
    /// The legacy default stream.
    pub const LEGACY: Self = Self(0);

    /// A stream by its handle, the value of the pointer.
    pub const fn from_raw(handle: usize) -> Self {
        Self(handle)
    }

    /// The handle.
    pub const fn handle(self) -> usize {
        self.0
    }
}

/// A function that a stream calls, on a thread of the driver. It must not call the driver.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A stream of our own, which does not wait for the legacy default stream.
pub struct Stream {
    device: Device,
    handle: usize,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Stream {
    /// A new stream of the current device.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    pub fn new(current: &Current<'_>) -> Result<Self, CudaError> {
        const NON_BLOCKING: u32 = 1;
        let (device, mut handle) = (current.device().clone(), 0);
        // SAFETY: `handle` is valid for the write.
        let code = unsafe { (device.functions().stream_create)(&raw mut handle, NON_BLOCKING) };
        device.check("cuStreamCreate", code)?;
        Ok(Self { device, handle })
    }

    /// The stream for calls that take streams of others.
    pub fn raw(&self) -> RawStream {
        RawStream(self.handle)
    }

    /// Appends a copy of `to.len` bytes of the device's memory, at `from`, to pinned memory at `offset`.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Panics
    ///
    /// When the bytes are not within `to`.
    ///
    /// # Safety
    ///
    /// The device's memory is valid, and that of `to` neither read nor written by others, until the stream has done this.
    pub unsafe fn copy_to_host(
        &self,
        _: &Current<'_>,
        to: &PinnedMemory,
        (offset, bytes): (usize, usize),
        from: u64,
    ) -> Result<(), CudaError> {
        let to = to.span(offset, bytes).cast::<c_void>();
        // SAFETY: `to` has so many bytes; all else by this function's contract.
        let code = unsafe { (self.device.functions().copy_to_host)(to, from, bytes, self.handle) };
        self.device.check("cuMemcpyDtoHAsync", code)
    }

    /// Appends a copy of `bytes` bytes of pinned memory at `offset` to the device's memory at `to`.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Panics
    ///
    /// When the bytes are not within `from`.
    ///
    /// # Safety
    ///
    /// The device's memory is valid and not read by others, and that of `from` not written, until the stream has done this.
    pub unsafe fn copy_to_device(
        &self,
        _: &Current<'_>,
        to: u64,
        from: &PinnedMemory,
        (offset, bytes): (usize, usize),
    ) -> Result<(), CudaError> {
        let from = from.span(offset, bytes).cast_const().cast::<c_void>();
        // SAFETY: `from` has so many bytes; all else by this function's contract.
        let code = unsafe { (self.device.functions().copy_to_device)(to, from, bytes, self.handle) };
        self.device.check("cuMemcpyHtoDAsync", code)
    }

    /// Makes what is appended later wait until the 32-bit word of pinned memory at `offset` has reached `value`, in serial-number order.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Panics
    ///
    /// When the word is not within `memory`.
    pub fn wait_for_word(
        &self,
        _: &Current<'_>,
        memory: &PinnedMemory,
        offset: usize,
        value: u32,
    ) -> Result<(), CudaError> {
        const GREATER_OR_EQUAL: u32 = 0;
        let address = memory.device_address(offset, size_of::<u32>());
        // SAFETY: the word is in memory that the device can read.
        let code = unsafe {
            (self.device.functions().stream_wait_value)(self.handle, address, value, GREATER_OR_EQUAL)
        };
        self.device.check("cuStreamWaitValue32", code)
    }

    /// Appends a write of `value` to the 32-bit word of pinned memory at `offset`. What was appended before is done, and visible to the host, when the
    /// host reads it.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Panics
    ///
    /// When the word is not within `memory`.
    ///
    /// # Safety
    ///
    /// Nothing accesses the word but as an atomic until the stream has done this.
    pub unsafe fn write_word(
        &self,
        _: &Current<'_>,
        memory: &PinnedMemory,
        offset: usize,
        value: u32,
    ) -> Result<(), CudaError> {
        /// Behind a memory barrier.
        const DEFAULT: u32 = 0;
        let address = memory.device_address(offset, size_of::<u32>());
        // SAFETY: the word is in memory that the device can write; all else by this function's contract.
        let code =
            unsafe { (self.device.functions().stream_write_value)(self.handle, address, value, DEFAULT) };
        self.device.check("cuStreamWriteValue32", code)
    }

    /// Has `function` called with `data` when all that was appended before is done. It is not called when the device fails first.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; then it is not called either.
    ///
    /// # Safety
    ///
    /// `function` may be called with `data`, on any thread, until the stream has done this.
    pub unsafe fn call(
        &self,
        _: &Current<'_>,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<(), CudaError> {
        // SAFETY: by this function's contract.
        let code = unsafe { (self.device.functions().launch_host_function)(self.handle, function, data) };
        self.device.check("cuLaunchHostFunc", code)
    }

    /// Whether everything that was appended is done.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`] when the device has failed.
    pub fn is_idle(&self, _: &Current<'_>) -> Result<bool, CudaError> {
        // SAFETY: the stream is alive.
        let code = unsafe { (self.device.functions().stream_query)(self.handle) };
        self.device.driver().check_query("cuStreamQuery", code)
    }

    /// Blocks until everything that was appended is done.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`] when the device has failed.
    pub fn synchronize(&self, _: &Current<'_>) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        let code = unsafe { (self.device.functions().stream_synchronize)(self.handle) };
        self.device.check("cuStreamSynchronize", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: the stream was made by `new` and is not used again; the driver frees it when its work is done.
            let _ = unsafe { (self.device.functions().stream_destroy)(self.handle) };
        }
    }
}

/// A point in a stream.
pub struct Event {
    device: Device,
    handle: usize,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Event {
    /// A new event of the current device, which counts as reached until it is recorded.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    pub fn new(current: &Current<'_>) -> Result<Self, CudaError> {
        const NO_TIMING: u32 = 2;
        let (device, mut handle) = (current.device().clone(), 0);
        // SAFETY: `handle` is valid for the write.
        let code = unsafe { (device.functions().event_create)(&raw mut handle, NO_TIMING) };
        device.check("cuEventCreate", code)?;
        Ok(Self { device, handle })
    }

    /// The device whose event it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Makes the event the point after all that was appended to `stream`.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], for a stream of another device, too.
    ///
    /// # Safety
    ///
    /// `stream` exists.
    pub unsafe fn record(&self, _: &Current<'_>, stream: RawStream) -> Result<(), CudaError> {
        // SAFETY: the event is alive, and the stream by this function's contract.
        let code = unsafe { (self.device.functions().event_record)(self.handle, stream.0) };
        self.device.check("cuEventRecord", code)
    }

    /// Makes what is appended to `stream` from now on wait for the point that was recorded last.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// `stream` exists.
    pub unsafe fn make_wait(&self, _: &Current<'_>, stream: RawStream) -> Result<(), CudaError> {
        // SAFETY: the event is alive, and the stream by this function's contract.
        let code = unsafe { (self.device.functions().stream_wait_event)(stream.0, self.handle, 0) };
        self.device.check("cuStreamWaitEvent", code)
    }

    /// Whether the point was reached.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`] when the device has failed.
    pub fn is_reached(&self, _: &Current<'_>) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        let code = unsafe { (self.device.functions().event_query)(self.handle) };
        self.device.driver().check_query("cuEventQuery", code)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: the event was made by `new` and is not used again.
            let _ = unsafe { (self.device.functions().event_destroy)(self.handle) };
        }
    }
}

impl Current<'_> {
    /// Refuses a stream that is being captured into a graph.
    ///
    /// # Errors
    ///
    /// [`CudaError::Capturing`] and [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// `stream` exists.
    pub unsafe fn check_not_capturing(&self, stream: RawStream) -> Result<(), CudaError> {
        const NONE: i32 = 0;
        /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: of the legacy stream, while another one is captured.
        const IMPLICIT: i32 = 906;
        let mut status = NONE;
        // SAFETY: `status` is valid for the write, and the stream by this function's contract.
        let code = unsafe { (self.device().functions().stream_is_capturing)(stream.0, &raw mut status) };
        if code == IMPLICIT {
            return Err(CudaError::Capturing);
        }
        self.device().check("cuStreamIsCapturing", code)?;
        if status == NONE { Ok(()) } else { Err(CudaError::Capturing) }
    }
}
