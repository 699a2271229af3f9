//! The host's quantiser block by block, with which quantisers of devices are compared.

use netfold::quantize::{self, Float, Kernel, RoundingRng};
use netfold::{DType, Mode, bf16, f16};
use pyo3::prelude::*;

use crate::errors;
use crate::tensor::{self, Tensor};

/// The quantiser of one rank for one operation, for tensors in host memory that are cut into blocks of so many elements.
///
/// It copies what it reads and writes: it is for comparisons, not for speed.
#[pyclass(frozen, module = "netfold._netfold")]
pub(crate) struct Quantizer {
    quantizer: quantize::Quantizer,
    block: usize,
    /// Of the random numbers; 0 without.
    #[pyo3(get)]
    key: u64,
}

#[pymethods]
impl Quantizer {
    /// `block` is the elements of a block. With a `seed`, mantissas are rounded stochastically, as operation number `operation` of `rank`
    /// does. `portable` is the code without vector instructions.
    #[new]
    #[pyo3(signature = (mode, world_size, block, *, seed=None, rank=0, operation=0, portable=false))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        mode: &str,
        world_size: u16,
        block: usize,
        seed: Option<u64>,
        rank: u16,
        operation: u64,
        portable: bool,
    ) -> PyResult<Self> {
        let parsed: Result<Mode, _> = mode.parse();
        let lanes = parsed.ok().and_then(Mode::lanes);
        let Some(lanes) = lanes.filter(|lanes| (1..=lanes.world_max()).contains(&world_size) && block > 0)
        else {
            let message = format!("mode '{mode}' has no blocks of {block} elements for {world_size} ranks");
            return Err(errors::new(py, "argument", &message));
        };
        let kernel = if portable { Kernel::SCALAR } else { Kernel::detect() };
        let mut quantizer = quantize::Quantizer::with_kernel(lanes, world_size, kernel);
        let rng = seed.map(|seed| RoundingRng::new(seed, rank).operation(operation));
        if let Some(rng) = rng {
            quantizer = quantizer.stochastic(rng);
        }
        Ok(Self { quantizer, block, key: rng.map_or(0, RoundingRng::key) })
    }

    /// The exponent of each block, in bytes.
    fn exponents<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Vec<u8>> {
        let floats = Floats::read(tensor)?;
        Ok(match &floats {
            Floats::F32(elements) => self.exponents_of(elements),
            Floats::F16(elements) => self.exponents_of(elements),
            Floats::Bf16(elements) => self.exponents_of(elements),
        })
    }

    /// The lanes by these exponents, in the packets' byte order, of whole blocks: the last one is padded.
    fn pack(&self, tensor: &Bound<'_, PyAny>, exponents: &[u8]) -> PyResult<Vec<u8>> {
        let floats = Floats::read(tensor)?;
        match &floats {
            Floats::F32(elements) => self.pack_of(tensor.py(), elements, exponents),
            Floats::F16(elements) => self.pack_of(tensor.py(), elements, exponents),
            Floats::Bf16(elements) => self.pack_of(tensor.py(), elements, exponents),
        }
    }

    /// Writes the sums of `count` ranks' lanes to `tensor`.
    fn unpack(&self, tensor: &Bound<'_, PyAny>, lanes: &[u8], exponents: &[u8], count: u16) -> PyResult<()> {
        let mut floats = Floats::read(tensor)?;
        match &mut floats {
            Floats::F32(elements) => self.unpack_to(tensor.py(), elements, lanes, exponents, count)?,
            Floats::F16(elements) => self.unpack_to(tensor.py(), elements, lanes, exponents, count)?,
            Floats::Bf16(elements) => self.unpack_to(tensor.py(), elements, lanes, exponents, count)?,
        }
        floats.write(tensor)
    }

    /// Replaces `float32` elements by what [`pack`](Self::pack) leaves out of them.
    fn residual(&self, tensor: &Bound<'_, PyAny>, exponents: &[u8]) -> PyResult<()> {
        let py = tensor.py();
        let Floats::F32(elements) = Floats::read(tensor)? else {
            return Err(errors::new(py, "wrong_dtype", "residuals are of float32"));
        };
        let mut left = vec![0.0; elements.len()];
        self.check(py, elements.len(), exponents)?;
        let blocks = elements.chunks(self.block).zip(left.chunks_mut(self.block));
        for (number, ((block, left), exponent)) in (0..).zip(blocks.zip(exponents)) {
            self.quantizer.residual(number, block, *exponent, left);
        }
        Floats::F32(left).write(tensor)
    }
}

impl Quantizer {
    fn check(&self, py: Python<'_>, elements: usize, exponents: &[u8]) -> PyResult<()> {
        let blocks = elements.div_ceil(self.block);
        if exponents.len() == blocks {
            return Ok(());
        }
        Err(errors::new(py, "length", &format!("{} exponents for {blocks} blocks", exponents.len())))
    }

    /// Bytes of the lanes of a block.
    fn lane_bytes(&self) -> usize {
        self.block * self.quantizer.lanes().element_bytes()
    }

    fn exponents_of<T: Float>(&self, elements: &[T]) -> Vec<u8> {
        elements.chunks(self.block).map(|block| self.quantizer.exponent(block)).collect()
    }

    fn pack_of<T: Float>(&self, py: Python<'_>, elements: &[T], exponents: &[u8]) -> PyResult<Vec<u8>> {
        self.check(py, elements.len(), exponents)?;
        let mut lanes = vec![0; exponents.len() * self.lane_bytes()];
        let blocks = elements.chunks(self.block).zip(lanes.chunks_mut(self.lane_bytes()));
        for (number, ((block, lanes), exponent)) in (0..).zip(blocks.zip(exponents)) {
            self.quantizer.pack_block(number, block, *exponent, lanes);
        }
        Ok(lanes)
    }

    fn unpack_to<T: Float>(
        &self,
        py: Python<'_>,
        elements: &mut [T],
        lanes: &[u8],
        exponents: &[u8],
        count: u16,
    ) -> PyResult<()> {
        self.check(py, elements.len(), exponents)?;
        if lanes.len() != exponents.len() * self.lane_bytes() {
            return Err(errors::new(py, "length", "the lanes are not those of whole blocks"));
        }
        let blocks = elements.chunks_mut(self.block).zip(lanes.chunks(self.lane_bytes()));
        for ((block, lanes), exponent) in blocks.zip(exponents) {
            self.quantizer.unpack(lanes, *exponent, count, block);
        }
        Ok(())
    }
}

/// A copy of a tensor's elements.
enum Floats {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Floats {
    fn read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let tensor = Tensor::of(object, None)?;
        let bytes = tensor::copy_of(object.py(), &tensor)?;
        let halves = || bytes.as_chunks::<2>().0.iter().map(|half| u16::from_ne_bytes(*half));
        match tensor.dtype {
            Some(DType::F32) => {
                Ok(Self::F32(bytes.as_chunks::<4>().0.iter().map(|word| f32::from_ne_bytes(*word)).collect()))
            }
            Some(DType::F16) => Ok(Self::F16(halves().map(f16::from_bits).collect())),
            Some(DType::Bf16) => Ok(Self::Bf16(halves().map(bf16::from_bits).collect())),
            _ => {
                let message = format!("elements of {} are not quantised", tensor.dtype_name);
                Err(errors::new(object.py(), "wrong_dtype", &message))
            }
        }
    }

    fn write(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes: Vec<u8> = match self {
            Self::F32(elements) => elements.iter().flat_map(|element| element.to_ne_bytes()).collect(),
            Self::F16(elements) => elements.iter().flat_map(|element| element.to_ne_bytes()).collect(),
            Self::Bf16(elements) => elements.iter().flat_map(|element| element.to_ne_bytes()).collect(),
        };
        tensor::fill(object.py(), &Tensor::of(object, None)?, &bytes)
    }
}
