//! Pinned host memory, what a device copies to and from while the host does other work, and memory of the device.
#![expect(unsafe_code, reason = "allocates memory by the driver")]

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use crate::device::{Current, Device};
use crate::error::CudaError;

/// Pinned host memory, zeroed, that the device can read and write. Access to its bytes is up to the owner.
pub struct PinnedMemory {
    device: Device,
    start: NonNull<u8>,
    bytes: usize,
    /// The address of `start` for the device.
    device_address: u64,
}

// SAFETY: it is memory and its address; what accesses the bytes states why that is sound.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above: no method accesses the bytes.
unsafe impl Sync for PinnedMemory {}

impl fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl PinnedMemory {
    /// Allocates.
    ///
    /// # Errors
    ///
    /// [`CudaError::Pinned`] when there is not enough; [`CudaError::Call`].
    pub fn new(current: &Current<'_>, bytes: usize) -> Result<Self, CudaError> {
        /// Usable from every context of the process, and by the device itself.
        const PORTABLE_AND_MAPPED: u32 = 1 | 2;
        let device = current.device().clone();
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: `start` is valid for the write.
        let code = unsafe { (device.functions().host_alloc)(&raw mut start, bytes, PORTABLE_AND_MAPPED) };
        if let Err(CudaError::Call { name, .. }) = device.check("cuMemHostAlloc", code) {
            return Err(CudaError::Pinned { bytes, name });
        }
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(CudaError::Pinned { bytes, name: "no address".into() });
        };
        let mut memory = Self { device, start, bytes, device_address: 0 };
        // SAFETY: the memory was allocated above, with so many bytes; the address is valid for the write.
        let code = unsafe {
            start.as_ptr().write_bytes(0, bytes);
            let address = &raw mut memory.device_address;
            (memory.device.functions().host_device_pointer)(address, start.as_ptr().cast(), 0)
        };
        memory.device.check("cuMemHostGetDevicePointer", code)?;
        Ok(memory)
    }

    /// The address of `bytes` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// When they are not within the memory.
    pub fn span(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {offset} of {}",
            self.bytes
        );
        self.start.as_ptr().wrapping_add(offset)
    }

    /// The same for the device.
    pub(crate) fn device_address(&self, offset: usize, bytes: usize) -> u64 {
        let _ = self.span(offset, bytes);
        self.device_address + offset as u64
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: allocated by `new`, and not used again.
            let _ = unsafe { (self.device.functions().host_free)(self.start.as_ptr().cast()) };
        }
    }
}

/// Memory of a device, with unspecified bytes.
pub struct DeviceMemory {
    device: Device,
    address: u64,
    bytes: usize,
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl DeviceMemory {
    /// Allocates. The driver may wait for what the device does meanwhile.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], such as when there is not enough.
    pub fn new(current: &Current<'_>, bytes: usize) -> Result<Self, CudaError> {
        let (device, mut address) = (current.device().clone(), 0);
        // SAFETY: `address` is valid for the write.
        let code = unsafe { (device.functions().device_alloc)(&raw mut address, bytes) };
        device.check("cuMemAlloc", code)?;
        Ok(Self { device, address, bytes })
    }

    /// The address of `bytes` bytes from `offset` on, for the device.
    ///
    /// # Panics
    ///
    /// When they are not within the memory.
    pub fn span(&self, offset: usize, bytes: usize) -> u64 {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {offset} of {}",
            self.bytes
        );
        self.address + offset as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: allocated by `new`. The driver waits for what the device does with it.
            let _ = unsafe { (self.device.functions().device_free)(self.address) };
        }
    }
}
