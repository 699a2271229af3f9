//! Devices, and their contexts.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::Driver;
use crate::error::CudaError;
use crate::functions::Functions;

/// A device, in its primary context. Clones refer to the same one.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    driver: Driver,
    ordinal: i32,
    handle: c_int,
    /// `CUcontext`.
    context: usize,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, by `Device::open`. A failure at the end of the process is of no consequence.
        let _ = unsafe { (self.driver.functions().context_release)(self.handle) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0.ordinal).finish()
    }
}

/// Where an address points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerInfo {
    /// The device whose memory it is.
    pub ordinal: i32,
}

impl Device {
    pub(crate) fn open(driver: &Driver, ordinal: i32) -> Result<Self, CudaError> {
        let (mut handle, mut context) = (0, 0);
        let functions = driver.functions();
        // SAFETY: both results are valid for the writes.
        unsafe {
            driver.check("cuDeviceGet", (functions.device_get)(&raw mut handle, ordinal))?;
            driver.check("cuDevicePrimaryCtxRetain", (functions.context_retain)(&raw mut context, handle))?;
        }
        Ok(Self(Arc::new(Inner { driver: driver.clone(), ordinal, handle, context })))
    }

    /// Its number among the devices of the process.
    pub fn ordinal(&self) -> i32 {
        self.0.ordinal
    }

    /// Whether both are the same device of the same driver.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.ordinal() == other.ordinal() && self.driver().is(other.driver())
    }

    /// Makes the context current on this thread while the result lives.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    pub fn enter(&self) -> Result<Current<'_>, CudaError> {
        // SAFETY: the context is retained by `self`.
        self.check("cuCtxPushCurrent", unsafe { (self.functions().context_push)(self.0.context) })?;
        Ok(Current { device: self, not_send: PhantomData })
    }

    pub(crate) fn functions(&self) -> &Functions {
        self.0.driver.functions()
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.0.driver
    }

    pub(crate) fn check(&self, function: &'static str, code: c_int) -> Result<(), CudaError> {
        self.0.driver.check(function, code)
    }
}

/// A device whose context is current on this thread.
pub struct Current<'a> {
    device: &'a Device,
    /// What is current is so for one thread.
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Current<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Current").field(self.device).finish()
    }
}

impl Current<'_> {
    /// The device.
    pub fn device(&self) -> &Device {
        self.device
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut context = 0;
        // SAFETY: `enter` has pushed a context on this thread.
        let _ = unsafe { (self.device.functions().context_pop)(&raw mut context) };
    }
}

impl Driver {
    /// A device, by its number among those of the process, with its primary context.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], such as when there is no such device.
    pub fn device(&self, ordinal: i32) -> Result<Device, CudaError> {
        Device::open(self, ordinal)
    }

    /// The compute capability of a device, major and minor. Makes no context.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], such as when there is no such device.
    pub fn capability(&self, ordinal: i32) -> Result<(i32, i32), CudaError> {
        const MAJOR: c_int = 75;
        const MINOR: c_int = 76;
        let mut handle = 0;
        // SAFETY: `handle` is valid for the write.
        self.check("cuDeviceGet", unsafe { (self.functions().device_get)(&raw mut handle, ordinal) })?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: `value` is valid for the write.
            let code = unsafe { (self.functions().device_attribute)(&raw mut value, attribute, handle) };
            self.check("cuDeviceGetAttribute", code).map(|()| value)
        };
        Ok((attribute(MAJOR)?, attribute(MINOR)?))
    }

    /// The device whose memory an address is in. Managed memory counts as memory of its device.
    ///
    /// # Errors
    ///
    /// [`CudaError::NotDeviceMemory`], for memory that was freed, too.
    pub fn pointer_info(&self, address: u64) -> Result<PointerInfo, CudaError> {
        const MEMORY_TYPE: u32 = 2;
        const DEVICE_ORDINAL: u32 = 9;
        const TYPE_DEVICE: u32 = 2;
        let attribute = |attribute| {
            let mut value = 0u32;
            // SAFETY: both attributes are 32-bit integers, and the driver checks the address.
            let code = unsafe {
                (self.functions().pointer_attribute)((&raw mut value).cast::<c_void>(), attribute, address)
            };
            self.check("cuPointerGetAttribute", code).map(|()| value)
        };
        match (attribute(MEMORY_TYPE), attribute(DEVICE_ORDINAL)) {
            (Ok(TYPE_DEVICE), Ok(ordinal)) => Ok(PointerInfo { ordinal: ordinal as i32 }),
            _ => Err(CudaError::NotDeviceMemory { address }),
        }
    }
}
