//! The library's quantiser in the memory of CUDA devices, whose kernels `netfold-gpu-check` compares and measures.
#![expect(unsafe_code, reason = "hands the memory of Python's tensors to the library")]

use netfold::{CudaDevice, CudaDriver, CudaError, CudaStream, DType, DeviceBlocks, Lanes, Mode};
use pyo3::prelude::*;

use crate::errors;
use crate::tensor::Tensor;

/// Kernels on whole tensors of one device, which are launched in the tensors' stream. Callers keep the tensors until that has executed them.
#[pyclass(frozen, module = "netfold._netfold")]
pub(crate) struct DeviceQuantizer {
    quantizer: netfold::DeviceQuantizer,
    device: CudaDevice,
}

#[pymethods]
impl DeviceQuantizer {
    /// `block` is the elements of a block; `device` the number of a CUDA device.
    #[new]
    fn new(
        py: Python<'_>,
        mode: &str,
        world_size: u16,
        block: usize,
        stochastic: bool,
        device: i32,
    ) -> PyResult<Self> {
        let parsed: Result<Mode, _> = mode.parse();
        let lanes = parsed.ok().and_then(Mode::lanes);
        let made = lanes.map(|lanes| py.detach(|| load(lanes, world_size, block, stochastic, device)));
        match made.transpose().map_err(|error| errors::from_library(py, &error.into()))?.flatten() {
            Some((quantizer, device)) => Ok(Self { quantizer, device }),
            None => {
                let message = format!(
                    "mode '{mode}' has no blocks of {block} elements for {world_size} ranks on devices"
                );
                Err(errors::new(py, "argument", &message))
            }
        }
    }

    /// Writes the exponents of all blocks to `found`, bytes. A residual is added to the tensor first.
    #[pyo3(signature = (tensor, found, residual=None))]
    fn exponents(
        &self,
        tensor: &Bound<'_, PyAny>,
        found: &Bound<'_, PyAny>,
        residual: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (blocks, stream) = self.blocks(tensor, found, None, residual)?;
        // SAFETY: the tensors have the lengths that `blocks` needs, by `Self::blocks`; callers keep them.
        self.run(tensor.py(), |device| unsafe { self.quantizer.exponents(&device.enter()?, stream, &blocks) })
    }

    /// Writes the lanes by the agreed exponents, and to the residual what they leave out.
    #[pyo3(signature = (tensor, agreed, lanes, residual=None, number=0, key=0))]
    fn quantize(
        &self,
        tensor: &Bound<'_, PyAny>,
        agreed: &Bound<'_, PyAny>,
        lanes: &Bound<'_, PyAny>,
        residual: Option<&Bound<'_, PyAny>>,
        number: u32,
        key: u64,
    ) -> PyResult<()> {
        let (blocks, stream) = self.blocks(tensor, agreed, Some(lanes), residual)?;
        let blocks = DeviceBlocks { number, ..blocks };
        // SAFETY: as in `exponents`.
        self.run(tensor.py(), |device| unsafe {
            self.quantizer.quantize(&device.enter()?, stream, &blocks, key)
        })
    }

    /// Writes the results of the sums of all ranks' lanes to `tensor`.
    #[pyo3(signature = (lanes, agreed, tensor, average=false))]
    fn dequantize(
        &self,
        lanes: &Bound<'_, PyAny>,
        agreed: &Bound<'_, PyAny>,
        tensor: &Bound<'_, PyAny>,
        average: bool,
    ) -> PyResult<()> {
        let (blocks, stream) = self.blocks(tensor, agreed, Some(lanes), None)?;
        // SAFETY: as in `exponents`.
        self.run(tensor.py(), |device| unsafe {
            self.quantizer.dequantize(&device.enter()?, stream, &blocks, average)
        })
    }

    /// Copies a tensor to one of the same length by a kernel.
    fn copy(&self, source: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = source.py();
        let (source, target) = (Tensor::of(source, None)?, Tensor::of(target, None)?);
        let (Some(stream), Some(from), Some(to)) = (source.stream, bytes_of(&source), bytes_of(&target))
        else {
            return Err(errors::new(py, "wrong_device", "the tensors are not on a CUDA device"));
        };
        let aligned = [source.data, target.data].iter().all(|data| (*data as usize).is_multiple_of(8));
        if from != to || !from.is_multiple_of(8) || !aligned {
            return Err(errors::new(
                py,
                "length",
                "the tensors are not alike, or not of whole words of 8 bytes",
            ));
        }
        let addresses = (target.data as u64, source.data as u64);
        // SAFETY: both have so many bytes; callers keep them.
        self.run(py, |device| unsafe { self.quantizer.copy(&device.enter()?, stream, addresses, from) })
    }
}

/// The kernels on a device.
fn load(
    lanes: Lanes,
    world: u16,
    block: usize,
    stochastic: bool,
    device: i32,
) -> Result<Option<(netfold::DeviceQuantizer, CudaDevice)>, CudaError> {
    let device = CudaDriver::system()?.device(device)?;
    let quantizer = netfold::DeviceQuantizer::new(&device.enter()?, lanes, world, block, stochastic)?;
    Ok(quantizer.map(|quantizer| (quantizer, device)))
}

fn bytes_of(tensor: &Tensor) -> Option<usize> {
    Some(tensor.count * tensor.dtype?.size())
}

impl DeviceQuantizer {
    fn run(&self, py: Python<'_>, launch: impl FnOnce(&CudaDevice) -> Result<(), CudaError>) -> PyResult<()> {
        launch(&self.device).map_err(|error| errors::from_library(py, &error.into()))
    }

    /// What kernels work on, once the tensors are found to be as long as they need, and the stream.
    fn blocks(
        &self,
        tensor: &Bound<'_, PyAny>,
        exponents: &Bound<'_, PyAny>,
        lanes: Option<&Bound<'_, PyAny>>,
        residual: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(DeviceBlocks, CudaStream)> {
        let py = tensor.py();
        let refuse = |kind, message: &str| Err(errors::new(py, kind, message));
        let tensor = Tensor::of(tensor, None)?;
        let exponents = Tensor::of(exponents, None)?;
        let lanes = lanes.map(|lanes| Tensor::of(lanes, None)).transpose()?;
        let residual = residual.map(|residual| Tensor::of(residual, None)).transpose()?;
        let all = [Some(&tensor), Some(&exponents), lanes.as_ref(), residual.as_ref()];
        if all.iter().flatten().any(|tensor| tensor.stream.is_none()) {
            return refuse("wrong_device", "the tensors are not on a CUDA device");
        }
        let (Some(stream), Some(dtype)) = (tensor.stream, tensor.dtype) else {
            return refuse("wrong_dtype", "the tensor's elements have no type");
        };
        let long = |tensor: &Tensor, bytes: usize| bytes_of(tensor).is_some_and(|found| found >= bytes);
        let lane_bytes = self.quantizer.lane_bytes(tensor.count);
        let fits = long(&exponents, tensor.count.div_ceil(self.quantizer.block()))
            && lanes
                .as_ref()
                .is_none_or(|lanes| long(lanes, lane_bytes) && (lanes.data as usize).is_multiple_of(8))
            && residual
                .as_ref()
                .is_none_or(|left| left.dtype == Some(DType::F32) && left.count == tensor.count);
        if !fits {
            return refuse("length", "the tensors do not have the lengths that the blocks need");
        }
        let address = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, |tensor| tensor.data as u64);
        let blocks = DeviceBlocks {
            dtype,
            elements: tensor.count,
            tensor: tensor.data as u64,
            residual: address(&residual),
            exponents: exponents.data as u64,
            lanes: address(&lanes),
            number: 0,
        };
        Ok((blocks, stream))
    }
}
