//! Calls on the memory of CUDA devices.
#![expect(unsafe_code, reason = "passes addresses of callers on")]

use netfold_cuda::{CudaError, Device, Driver, RawStream};
use netfold_proto::Tolerance;
use netfold_wire::{Collective, DType, ReduceOp};

use crate::call::Call;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::feedback;
use crate::staging::blocks::DeviceQuantizer;
use crate::staging::plan::Plan;
use crate::staging::quantized::{Quantization, QuantizedCall};
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
    /// more than 256 KiB on. Sums and averages of floats go as lanes where the device [quantises](crate::Builder::device_quantization). Calls on host memory and on device memory
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
        // SAFETY: by this function's contract; no memory is used for no residual.
        unsafe { self.submit_on_device(call, (send, recv, 0), stream) }
    }

    /// Starts an all-reduce of the sum of a tensor and its residual, in place, and leaves in the residual what the lanes leave out of this rank's contribution:
    /// [error feedback](Self::all_reduce_with_feedback), in the memory of a device that [quantises](crate::Builder::device_quantization). Both are of binary32 and have
    /// [`Call::count`] elements. The residual is there when the output is. Other ranks may call [`submit_cuda`](Self::submit_cuda).
    ///
    /// # Errors
    ///
    /// [`Error::Feedback`] for all but sums and averages of `f32`, [`Error::DeviceQuantization`] where the host quantises; as for
    /// [`submit_cuda`](Self::submit_cuda).
    ///
    /// # Safety
    ///
    /// As for [`submit_cuda`](Self::submit_cuda), with `tensor` as input and output; the same for `residual`, which does not overlap it.
    pub unsafe fn submit_cuda_with_feedback(
        &self,
        call: &Call,
        tensor: u64,
        residual: u64,
        stream: RawStream,
    ) -> Result<CudaWork, Error> {
        feedback::check(call)?;
        if !self.config().device_quantization {
            let reason = "a residual in their memory needs it, and the host quantises: build all ranks with device_quantization";
            return Err(Error::DeviceQuantization { reason: reason.into() });
        }
        if residual == 0 && call.count > 0 {
            return Err(Error::Null("residual"));
        }
        // SAFETY: by this function's contract.
        unsafe { self.submit_on_device(call, (tensor, tensor, residual), stream) }
    }

    /// # Safety
    ///
    /// As for [`Self::submit_cuda_with_feedback`]; a residual of 0 is none.
    unsafe fn submit_on_device(
        &self,
        call: &Call,
        (send, recv, residual): (u64, u64, u64),
        stream: RawStream,
    ) -> Result<CudaWork, Error> {
        self.router.route(call)?;
        self.router.check_pointers(call, send as usize as *const u8, recv as usize as *mut u8)?;
        if call.count == 0 {
            // SAFETY: no memory is used for no elements.
            let work = unsafe { self.submit(call, std::ptr::null(), std::ptr::null_mut()) }?;
            return Ok(CudaWork::without_elements(work));
        }
        let quantization = self.quantization_of(call)?;
        let driver = self.config().cuda_driver()?;
        let plan = Plan::new(call, self.rank(), self.world_size());
        let ordinal = device_of(&driver, &plan, (send, recv, residual))?;
        if quantization.is_some() {
            let size = call.dtype.size();
            for (address, bytes) in [(send, size), (recv, size), (residual, size_of::<f32>())] {
                if !address.is_multiple_of(bytes as u64) {
                    return Err(CudaError::Misaligned { address, bytes }.into());
                }
            }
        }
        let device = match self.staging.get() {
            Some(staging) if staging.device.ordinal() == ordinal => staging.device.clone(),
            _ => driver.device(ordinal)?,
        };
        // Before anything that would spoil the capture. SAFETY: by this function's contract.
        unsafe { device.enter()?.check_not_capturing(stream) }?;
        let staging = self.staging_on(&device)?;
        if let Some(by) = quantization {
            let call = QuantizedCall { call: *call, send, recv, residual };
            // SAFETY: by this function's contract.
            if let Some(work) = unsafe { staging.submit_quantized(&by, &call, stream) }? {
                return Ok(work);
            }
        }
        // SAFETY: by this function's contract.
        unsafe { staging.submit(&plan, (send, recv), stream) }
    }

    /// By what the device quantises a call, if it does. The same on all ranks.
    fn quantization_of(&self, call: &Call) -> Result<Option<Quantization>, Error> {
        let (context, config) = (&self.router.context, self.config());
        let lanes = config.mode.lanes().filter(|_| config.device_quantization);
        let sums =
            call.collective == Collective::AllReduce && matches!(call.op, ReduceOp::Sum | ReduceOp::Avg);
        let Some(lanes) = lanes.filter(|lanes| sums && DeviceQuantizer::takes(*lanes, call.dtype)) else {
            return Ok(None);
        };
        if call.tolerance.is_some_and(Tolerance::any) {
            let reason = "their sums contain every contribution: give the call no tolerance";
            return Err(Error::DeviceQuantization { reason: reason.into() });
        }
        let block = DeviceQuantizer::block_for(lanes, context.block_bytes);
        let (rank, world, rounding) = (context.rank, context.world, config.rounding);
        Ok(Some(Quantization { lanes, rank, world, block, rounding }))
    }

    /// Checks that the ranks can reduce what devices make, if they quantise.
    pub(crate) fn check_device_quantization(&self) -> Result<(), Error> {
        if self.config().device_quantization {
            for (dtype, op) in [(DType::U8, ReduceOp::Max), (DType::I32, ReduceOp::Sum)] {
                self.router.route(&Call::new(Collective::AllReduce, dtype, op, 1))?;
            }
        }
        Ok(())
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

/// The one device whose memory a call uses, by the first and the last byte of input, output and residual, which is as long as the input where there is one.
fn device_of(
    driver: &Driver,
    plan: &Plan,
    (send, recv, residual): (u64, u64, u64),
) -> Result<i32, CudaError> {
    let (input, output) = plan.bytes();
    let left = if residual == 0 { 0 } else { input };
    let mut ordinal = None;
    for (start, bytes) in [(send, input), (recv, output), (residual, left)] {
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
