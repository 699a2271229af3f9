//! Calls on the memory of CUDA devices.
#![expect(unsafe_code, reason = "passes addresses of callers on")]

use netfold_cuda::{CudaError, Device, Driver, RawStream};

use crate::call::Call;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::staging::plan::Plan;
use crate::staging::{CudaWork, Staging};

impl Communicator {
    /// Starts a collective on the memory of a CUDA device, and returns without waiting for the device or the network. The operation comes after what
    /// `stream` has done before; use the output after [`CudaWork::make_wait`] or [`CudaWork::wait`].
    ///
    /// `send` and `recv` are addresses in the memory of one device, with the lengths and the rules of [`submit`](Self::submit). A communicator serves one
    /// device. Results have the same bits as those of [`submit`](Self::submit) where the call's chunks are the same, which they are for
    /// sums up to 16 MiB and where a packet's block divides 4,096 elements; and the same bits on all ranks always.
    ///
    /// Tensors go through pinned memory of the host: 4 MiB for each communicator from its first such call on, and 48 MiB more from its first of
    /// more than 256 KiB on. Calls on host memory and on device memory
    /// may be mixed: a call on host memory then waits until the calls on device memory before it have left the device.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), and [`Error::Cuda`]: there is no driver, an address is not in a device's memory, two
    /// devices, a stream that is being captured into a graph, or what the driver reports. A device that fails later ends the job with
    /// [`Error::DeviceLost`].
    ///
    /// # Safety
    ///
    /// `send` is valid for reads of [`Call::input_len`] elements by the device and `recv` for writes of [`Call::output_len`], until the work is done, or an error
    /// is returned. Until then nothing else writes to either or reads `recv`, but what is ordered behind [`CudaWork::make_wait`]. They do
    /// not overlap, or are in place in the sense of [`submit`](Self::submit). `stream` exists, in the primary context of the device.
    pub unsafe fn submit_cuda(
        &self,
        call: &Call,
        send: u64,
        recv: u64,
        stream: RawStream,
    ) -> Result<CudaWork, Error> {
        self.router.route(call)?;
        self.router.check_pointers(call, send as usize as *const u8, recv as usize as *mut u8)?;
        if call.count == 0 {
            // SAFETY: no memory is used for no elements.
            let work = unsafe { self.submit(call, std::ptr::null(), std::ptr::null_mut()) }?;
            return Ok(CudaWork::without_elements(work));
        }
        let driver = match &self.config().cuda {
            Some(driver) => driver.clone(),
            None => Driver::system()?,
        };
        let plan = Plan::new(call, self.rank(), self.world_size());
        let ordinal = device_of(&driver, &plan, send, recv)?;
        let device = match self.staging.get() {
            Some(staging) if staging.device.ordinal() == ordinal => staging.device.clone(),
            _ => driver.device(ordinal)?,
        };
        // Before anything that would spoil the capture. SAFETY: by this function's contract.
        unsafe { device.enter()?.check_not_capturing(stream) }?;
        let staging = self.staging_on(&device)?;
        // SAFETY: by this function's contract.
        unsafe { staging.submit(&plan, (send, recv), stream) }
    }

    fn staging_on(&self, device: &Device) -> Result<&Staging, Error> {
        let staging = match self.staging.get() {
            Some(staging) => staging,
            None => {
                let made = Staging::new(device, &self.router, &self.shutdown)?;
                // Another thread may have been faster: this one's is dropped then.
                self.staging.get_or_init(|| made)
            }
        };
        let (used, given) = (staging.device.ordinal(), device.ordinal());
        if used != given {
            return Err(CudaError::OtherDevice { used, given }.into());
        }
        Ok(staging)
    }
}

/// The one device whose memory a call uses, by the first and the last byte of input and output.
fn device_of(driver: &Driver, plan: &Plan, send: u64, recv: u64) -> Result<i32, CudaError> {
    let (input, output) = plan.bytes();
    let mut ordinal = None;
    for (start, bytes) in [(send, input), (recv, output)] {
        let Some(last) = (bytes as u64).checked_sub(1) else { continue };
        for address in [start, start.wrapping_add(last)] {
            let found = driver.pointer_info(address)?.ordinal;
            let first = *ordinal.get_or_insert(found);
            if first != found {
                return Err(CudaError::TwoDevices { first, second: found });
            }
        }
    }
    // Not reached without any: a call with elements reads or writes some on every rank.
    ordinal.ok_or(CudaError::NotDeviceMemory { address: send })
}
