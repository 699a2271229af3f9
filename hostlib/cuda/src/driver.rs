//! The driver.
#![expect(unsafe_code, reason = "loads a C library and calls it")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::CudaError;
use crate::functions::Functions;

/// The file of the driver's library, unless the variable [`Driver::LIBRARY_VARIABLE`] names another.
const LIBRARY: &str = "libcuda.so.1";

const SUCCESS: c_int = 0;

/// CUDA's driver. Clones refer to the same one.
#[derive(Clone)]
pub struct Driver(Arc<Functions>);

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    /// The environment variable with the path of the driver's library.
    pub const LIBRARY_VARIABLE: &str = "NETFOLD_CUDA_LIBRARY";

    /// The system's driver, loaded and initialised once for the process and never unloaded.
    ///
    /// # Errors
    ///
    /// [`CudaError::NoDriver`], [`CudaError::OldDriver`], or what `cuInit` returns. The next call tries again.
    pub fn system() -> Result<Self, CudaError> {
        static LOADED: Mutex<Option<Driver>> = Mutex::new(None);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = &*loaded {
            return Ok(driver.clone());
        }
        let name = std::env::var_os(Self::LIBRARY_VARIABLE).unwrap_or_else(|| LIBRARY.into());
        // SAFETY: the driver's initialisers have no preconditions; a file that the user names is theirs to vouch for.
        let library = unsafe { libloading::Library::new(&name) };
        let library = library.map_err(|error| CudaError::NoDriver { reason: error.to_string() })?;
        // The driver has threads: its code must never go away.
        let library = std::mem::ManuallyDrop::new(library);
        let resolve = |name: &CStr| {
            // SAFETY: the symbol is used as an address only.
            let symbol = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
            symbol.ok().map(|symbol| {
                // SAFETY: the symbol of a function is its address; it is not dereferenced.
                unsafe { symbol.into_raw() }.into_raw().cast_const()
            })
        };
        // SAFETY: the library is CUDA's driver, by its file name or by the user's word.
        let driver = unsafe { Self::resolve(resolve) }?;
        *loaded = Some(driver.clone());
        Ok(driver)
    }

    /// A driver whose functions `resolve` finds by their names, initialised.
    ///
    /// # Errors
    ///
    /// [`CudaError::OldDriver`] when a function is missing, or what `cuInit` returns.
    ///
    /// # Safety
    ///
    /// The functions do what CUDA's driver documents of functions with those names, for the rest of the process.
    pub unsafe fn resolve(resolve: impl Fn(&CStr) -> Option<*const c_void>) -> Result<Self, CudaError> {
        // SAFETY: passed on to the caller.
        let driver = Self(Arc::new(unsafe { Functions::load(&resolve) }?));
        // SAFETY: the driver has no precondition; flags must be 0.
        driver.check("cuInit", unsafe { (driver.functions().init)(0) })?;
        Ok(driver)
    }

    /// The number of devices that the process may use.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    pub fn device_count(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: `count` is valid for the write.
        self.check("cuDeviceGetCount", unsafe { (self.functions().device_count)(&raw mut count) })?;
        Ok(count)
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.0
    }

    /// Whether both are the same driver.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The driver's name of an error.
    pub(crate) fn error_name(&self, code: c_int) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: `name` is valid for the write.
        let named = unsafe { (self.functions().error_name)(code, &raw mut name) };
        if named != SUCCESS || name.is_null() {
            return "an unknown error".into();
        }
        // SAFETY: the driver returns the address of a constant text.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().trim_start_matches("CUDA_ERROR_").to_owned()
    }

    /// An error for anything but success.
    pub(crate) fn check(&self, function: &'static str, code: c_int) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(CudaError::Call { function, code, name: self.error_name(code) })
    }

    /// Whether something is over, by a `Query` function's result.
    pub(crate) fn check_query(&self, function: &'static str, code: c_int) -> Result<bool, CudaError> {
        const NOT_READY: c_int = 600;
        if code == NOT_READY { Ok(false) } else { self.check(function, code).map(|()| true) }
    }
}
