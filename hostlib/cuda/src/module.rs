//! Code that a device executes.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::{CStr, c_void};

use crate::device::{Current, Device};
use crate::error::CudaError;
use crate::stream::RawStream;

/// A loaded module.
pub(crate) struct Module {
    device: Device,
    handle: usize,
}

/// A kernel of a module: a `CUfunction`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(usize);

impl Module {
    /// Has the driver compile and load PTX, which takes up to seconds, once for a machine: the driver keeps what it has compiled.
    pub(crate) fn load(current: &Current<'_>, ptx: &CStr) -> Result<Self, CudaError> {
        let (device, mut handle) = (current.device().clone(), 0);
        // SAFETY: the text ends with a zero; `handle` is valid for the write.
        let code = unsafe { (device.functions().module_load)(&raw mut handle, ptx.as_ptr().cast()) };
        device.check("cuModuleLoadData", code).map_err(unloadable)?;
        Ok(Self { device, handle })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn function(&self, _: &Current<'_>, name: &CStr) -> Result<Function, CudaError> {
        let mut function = 0;
        // SAFETY: the module is loaded; `function` is valid for the write.
        let code = unsafe {
            (self.device.functions().module_function)(&raw mut function, self.handle, name.as_ptr())
        };
        self.device.check("cuModuleGetFunction", code).map_err(unloadable)?;
        Ok(Function(function))
    }

    /// Appends a launch of `grid` times `threads` threads to a stream.
    ///
    /// # Safety
    ///
    /// `function` is of this module and has one parameter of this type; the memory that it uses is valid until the stream has done this, and used by
    /// nothing else meanwhile. `stream` exists.
    pub(crate) unsafe fn launch<T>(
        &self,
        _: &Current<'_>,
        stream: RawStream,
        function: Function,
        (grid, threads): (u32, u32),
        parameter: &T,
    ) -> Result<(), CudaError> {
        let mut parameters = [std::ptr::from_ref(parameter).cast_mut().cast::<c_void>()];
        let (function, stream) = (function.0, stream.handle());
        let launch = self.device.functions().launch_kernel;
        let parameters = parameters.as_mut_ptr();
        // SAFETY: the driver copies the parameter before it returns; all else by this function's contract.
        let code = unsafe {
            launch(function, grid, 1, 1, threads, 1, 1, 0, stream, parameters, std::ptr::null_mut())
        };
        self.device.check("cuLaunchKernel", code)
    }
}

/// An error of loading says what kernels need.
fn unloadable(error: CudaError) -> CudaError {
    match error {
        // What earlier kernels or copies have failed with.
        CudaError::Call { code: 700..=719, .. } => error,
        CudaError::Call { code, name, .. } => CudaError::Kernels { code, name },
        error => error,
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: loaded by `load`, and its kernels are not launched again.
            let _ = unsafe { (self.device.functions().module_unload)(self.handle) };
        }
    }
}
