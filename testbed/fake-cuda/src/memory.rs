//! The memory of a device, and pinned memory of the host.
#![expect(unsafe_code, reason = "reserves addresses, and copies between memory of tests")]

use std::collections::BTreeMap;
use std::ffi::c_void;

/// Device memory: reserved addresses, and the bytes elsewhere.
struct Allocation {
    bytes: Box<[u8]>,
}

/// All memory of a device.
#[derive(Default)]
pub(crate) struct Memory {
    /// By address.
    device: BTreeMap<u64, Allocation>,
    /// Lengths of pinned memory, by address.
    pinned: BTreeMap<usize, usize>,
}

impl Memory {
    /// Reserves addresses that the host cannot access, for `bytes` bytes of zeros. 0 when there are none.
    pub(crate) fn allocate(&mut self, bytes: usize) -> u64 {
        let length = bytes.max(1);
        // SAFETY: a new anonymous mapping at an address that the system chooses; nothing else is touched.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return 0;
        }
        let address = address as u64;
        self.device.insert(address, Allocation { bytes: vec![0; length].into() });
        address
    }

    /// Frees device memory. Its addresses stay reserved, so that later accesses are found. False if it is none.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        self.device.remove(&address).is_some()
    }

    /// `bytes` bytes of device memory; `None` where there are none.
    pub(crate) fn device(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (start, allocation) = self.device.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        allocation.bytes.get_mut(offset..offset.checked_add(bytes)?)
    }

    /// Allocates pinned memory; null when there is none.
    pub(crate) fn pin(&mut self, bytes: usize) -> *mut c_void {
        let mut address = std::ptr::null_mut();
        // SAFETY: `address` is valid for the write.
        if unsafe { libc::posix_memalign(&raw mut address, 4096, bytes.max(1)) } != 0 {
            return std::ptr::null_mut();
        }
        self.pinned.insert(address as usize, bytes);
        address
    }

    /// Frees pinned memory; false if it is none.
    pub(crate) fn unpin(&mut self, address: *mut c_void) -> bool {
        let known = self.pinned.remove(&(address as usize)).is_some();
        if known {
            // SAFETY: allocated by `pin`, and not freed before: it was in the map.
            unsafe { libc::free(address) };
        }
        known
    }

    /// Whether so many bytes are pinned.
    pub(crate) fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let found = self.pinned.range(..=address).next_back();
        found.is_some_and(|(start, length)| address - start + bytes <= *length)
    }

    /// Copies between device and pinned memory. The error says what is wrong with the addresses.
    pub(crate) fn copy(
        &mut self,
        to_host: bool,
        host: usize,
        device: u64,
        bytes: usize,
    ) -> Result<(), String> {
        if !self.is_pinned(host, bytes) {
            return Err(format!("{bytes} bytes at {host:#x} are not pinned"));
        }
        let Some(memory) = self.device(device, bytes) else {
            return Err(format!("{bytes} bytes at {device:#x} are not device memory"));
        };
        let host = host as *mut u8;
        // SAFETY: both have so many bytes. The program under test keeps others from the pinned memory meanwhile, or is found out by wrong bytes.
        unsafe {
            if to_host {
                std::ptr::copy_nonoverlapping(memory.as_ptr(), host, bytes);
            } else {
                std::ptr::copy_nonoverlapping(host, memory.as_mut_ptr(), bytes);
            }
        }
        Ok(())
    }
}
