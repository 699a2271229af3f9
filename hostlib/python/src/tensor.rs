//! The memory of Python's tensors, found without a copy.
//!
//! Five ways, tried in this order: torch tensors by their methods (they have no buffer protocol, and `bfloat16` has no numpy
//! form), `__cuda_array_interface__` (CuPy, Numba, JAX), the buffer protocol (numpy, `bytearray`, `array`, `memoryview`), `__array_interface__` (numpy arrays of types
//! that the buffer protocol cannot name, such as `ml_dtypes.bfloat16`), and DLPack (everything else).
#![expect(unsafe_code, reason = "reads DLPack's C structures, and copies memory of tensors")]

use netfold::{CudaStream, DType};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::errors;

/// Memory of one tensor, and what keeps it alive. To be dropped with the interpreter's lock held.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) data: *mut u8,
    /// Number of elements.
    pub(crate) count: usize,
    /// Bytes of one element.
    pub(crate) item_size: usize,
    /// Element type; `None` when the library has no such type, which matters to reductions alone.
    pub(crate) dtype: Option<DType>,
    /// Element type in the caller's words.
    pub(crate) dtype_name: String,
    pub(crate) read_only: bool,
    /// Of memory of a CUDA device: the stream behind which the elements are there.
    pub(crate) stream: Option<CudaStream>,
    /// Owner of the memory, and the exports that keep it where it is.
    #[expect(dead_code, reason = "held, never read")]
    keep: Keep,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
enum Keep {
    Object(Py<PyAny>),
    Buffer(PyUntypedBuffer),
    Capsule(Py<PyAny>),
}

// SAFETY: the pointer is only passed on to the library, which takes pointers from any thread; the owners are `Send`.
unsafe impl Send for Tensor {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Tensor {}

fn refuse(py: Python<'_>, kind: &str, what: &str) -> PyErr {
    errors::new(py, kind, what)
}

fn not_contiguous(py: Python<'_>) -> PyErr {
    refuse(
        py,
        "not_contiguous",
        "the tensor is not contiguous (row by row without gaps); pass tensor.contiguous(), or numpy.ascontiguousarray(tensor)",
    )
}

fn wrong_device(py: Python<'_>, device: &str) -> PyErr {
    let message = format!(
        "the tensor is on device '{device}'; only memory of the CPU and of CUDA devices can be sent: pass tensor.cpu()"
    );
    refuse(py, "wrong_device", &message)
}

impl Tensor {
    /// Finds the memory of `object`. `dtype` names its elements anew: those of the same size, such as
    /// `bf16` kept in `uint16`, or any that bytes hold.
    pub(crate) fn of(object: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Self> {
        let py = object.py();
        let mut tensor = if object.hasattr(intern!(py, "data_ptr"))? {
            Self::of_torch(object)?
        } else if let Some(tensor) = Self::of_cuda_array(object)? {
            tensor
        } else if let Some(tensor) = Self::of_buffer(object)? {
            tensor
        } else if let Some(tensor) = Self::of_array(object)? {
            tensor
        } else if object.hasattr(intern!(py, "__dlpack__"))? {
            Self::of_dlpack(object)?
        } else {
            let kind = object.get_type().name()?;
            let message = format!(
                "'{kind}' is not a tensor: pass a numpy array, a torch tensor, or an object with the buffer protocol or DLPack"
            );
            return Err(refuse(py, "wrong_type", &message));
        };
        if let Some(name) = dtype {
            let Some(named) = parse_dtype(name) else {
                return Err(refuse(py, "wrong_dtype", &format!("there is no element type '{name}'")));
            };
            let raw = tensor.dtype == Some(DType::U8) && tensor.count.is_multiple_of(named.size());
            if raw {
                // Bytes, such as a bytearray's, may be anything.
                (tensor.count, tensor.item_size) = (tensor.count / named.size(), named.size());
            }
            if named.size() != tensor.item_size {
                let message = format!(
                    "elements of {} bytes ({}) cannot be taken as {name}",
                    tensor.item_size, tensor.dtype_name
                );
                return Err(refuse(py, "wrong_dtype", &message));
            }
            (tensor.dtype, tensor.dtype_name) = (Some(named), name.to_owned());
        }
        Ok(tensor)
    }

    /// Whether both hold elements of one type.
    pub(crate) fn same_type(&self, other: &Self) -> bool {
        match (self.dtype, other.dtype) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, None) => self.item_size == other.item_size && self.dtype_name == other.dtype_name,
            _ => false,
        }
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.item_size
    }

    fn of_torch(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let device = object.getattr(intern!(py, "device"))?;
        let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
        let stream = match kind.as_str() {
            "cpu" => None,
            "cuda" => Some(torch_stream(&device)?),
            _ => return Err(wrong_device(py, &kind)),
        };
        let layout = object.getattr(intern!(py, "layout"))?.str()?;
        if layout.to_str()? != "torch.strided" {
            let message =
                format!("the tensor's layout is {layout}; only dense (strided) tensors can be sent");
            return Err(refuse(py, "wrong_type", &message));
        }
        if !object.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
            return Err(not_contiguous(py));
        }
        if object.call_method0(intern!(py, "is_neg"))?.is_truthy()?
            || object.call_method0(intern!(py, "is_conj"))?.is_truthy()?
        {
            return Err(refuse(
                py,
                "not_contiguous",
                "the tensor is a lazy view; pass tensor.resolve_neg().resolve_conj()",
            ));
        }
        let name = object.getattr(intern!(py, "dtype"))?.str()?;
        let name = name.to_str()?.trim_start_matches("torch.").to_owned();
        let data: usize = object.call_method0(intern!(py, "data_ptr"))?.extract()?;
        Ok(Self {
            data: data as *mut u8,
            count: object.call_method0(intern!(py, "numel"))?.extract()?,
            item_size: object.call_method0(intern!(py, "element_size"))?.extract()?,
            dtype: parse_dtype(&name),
            dtype_name: name,
            read_only: false,
            stream,
            keep: Keep::Object(object.clone().unbind()),
        })
    }

    fn of_buffer(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Ok(buffer) = PyUntypedBuffer::get(object) else { return Ok(None) };
        if !buffer.is_c_contiguous() {
            return Err(not_contiguous(object.py()));
        }
        let format = buffer.format().to_str().unwrap_or_default().to_owned();
        let item_size = buffer.item_size();
        let dtype = buffer_dtype(&format, item_size);
        Ok(Some(Self {
            data: buffer.buf_ptr().cast(),
            count: buffer.item_count(),
            item_size,
            dtype,
            dtype_name: dtype.map_or_else(|| format!("format '{format}'"), |dtype| dtype.name().to_owned()),
            read_only: buffer.readonly(),
            stream: None,
            keep: Keep::Buffer(buffer),
        }))
    }

    fn of_array(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        let interface = match object.getattr(intern!(py, "__array_interface__")) {
            Ok(interface) => interface,
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => return Ok(None),
            Err(error) => return Err(error),
        };
        let interface = interface.cast_into::<PyDict>()?;
        let field = |name: &str| interface.get_item(name).map(|value| value.filter(|value| !value.is_none()));
        if field("strides")?.is_some() {
            return Err(not_contiguous(py));
        }
        let (Some(data), Some(shape)) = (field("data")?, field("shape")?) else { return Ok(None) };
        let (data, read_only): (usize, bool) = data.extract()?;
        let shape: Vec<usize> = shape.extract()?;
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let name: String = dtype.getattr(intern!(py, "name"))?.extract()?;
        Ok(Some(Self {
            data: data as *mut u8,
            count: shape.iter().product(),
            item_size: dtype.getattr(intern!(py, "itemsize"))?.extract()?,
            dtype: parse_dtype(&name),
            dtype_name: name,
            read_only,
            stream: None,
            keep: Keep::Object(object.clone().unbind()),
        }))
    }

    /// By `__cuda_array_interface__`, version 3 (Numba's documentation, "CUDA Array Interface").
    fn of_cuda_array(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        let interface = match object.getattr(intern!(py, "__cuda_array_interface__")) {
            Ok(interface) => interface.cast_into::<PyDict>()?,
            // Objects that are in host memory have none, or raise other errors.
            Err(_) => return Ok(None),
        };
        let field = |name: &str| interface.get_item(name).map(|value| value.filter(|value| !value.is_none()));
        let (Some(data), Some(shape), Some(code)) = (field("data")?, field("shape")?, field("typestr")?)
        else {
            return Err(refuse(py, "wrong_type", "__cuda_array_interface__ lacks data, shape or typestr"));
        };
        let (data, read_only): (usize, bool) = data.extract()?;
        let shape: Vec<i64> = shape.extract()?;
        let code: String = code.extract()?;
        let item_size = code.get(2..).and_then(|size| size.parse::<usize>().ok()).unwrap_or(0);
        if let Some(strides) = field("strides")? {
            let strides: Vec<i64> = strides.extract()?;
            let elements: Vec<i64> = strides.iter().map(|bytes| bytes / (item_size.max(1) as i64)).collect();
            if elements.len() != shape.len() || !dlpack::contiguous(&shape, Some(&elements)) {
                return Err(not_contiguous(py));
            }
        }
        let stream = field("stream")?.map(|stream| stream.extract::<usize>()).transpose()?;
        let dtype = array_dtype(&code, item_size);
        Ok(Some(Self {
            data: data as *mut u8,
            count: shape.iter().map(|&dimension| dimension as usize).product(),
            item_size,
            dtype,
            dtype_name: dtype.map_or_else(|| format!("type '{code}'"), |dtype| dtype.name().to_owned()),
            read_only,
            stream: Some(stream.map_or(CudaStream::LEGACY, CudaStream::from_raw)),
            keep: Keep::Object(object.clone().unbind()),
        }))
    }

    fn of_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let (device, _): (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
        let arguments = PyDict::new(py);
        let stream = match device {
            dlpack::CPU | dlpack::CUDA_HOST => None,
            dlpack::CUDA | dlpack::CUDA_MANAGED => {
                // The exporter makes this stream wait for the elements: the legacy default stream, by DLPack's number for it.
                arguments.set_item("stream", 1)?;
                Some(CudaStream::LEGACY)
            }
            _ => return Err(wrong_device(py, &format!("DLPack device type {device}"))),
        };
        arguments.set_item("max_version", PyTuple::new(py, [1, 0])?)?;
        let capsule = match object.call_method(intern!(py, "__dlpack__"), (), Some(&arguments)) {
            // Exporters of before DLPack 1.0 take no version.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                arguments.del_item("max_version")?;
                object.call_method(intern!(py, "__dlpack__"), (), Some(&arguments))?
            }
            other => other?,
        };
        let capsule = capsule.cast_into::<PyCapsule>()?;
        let (tensor, read_only) = dlpack::open(&capsule)?;
        // SAFETY: the capsule holds such a structure under such a name, and lives until `keep` is dropped.
        let tensor = unsafe { tensor.as_ref() };
        let Some((shape, strides)) = dlpack::shape(tensor) else {
            return Err(refuse(py, "wrong_type", "the DLPack tensor has no shape"));
        };
        if !dlpack::contiguous(shape, strides) {
            return Err(not_contiguous(py));
        }
        let (dtype, dtype_name) = dlpack::dtype(tensor);
        Ok(Self {
            data: tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize),
            count: shape.iter().map(|&dimension| dimension as usize).product(),
            item_size: usize::from(tensor.bits).div_ceil(8) * usize::from(tensor.lanes),
            dtype,
            dtype_name,
            read_only,
            stream,
            // The capsule's own destructor gives the tensor back, since its name is left as it is.
            keep: Keep::Capsule(capsule.into_any().unbind()),
        })
    }
}

/// The current stream of a torch device.
fn torch_stream(device: &Bound<'_, PyAny>) -> PyResult<CudaStream> {
    let py = device.py();
    let cuda = py.import(intern!(py, "torch"))?.getattr(intern!(py, "cuda"))?;
    let stream = cuda.call_method1(intern!(py, "current_stream"), (device,))?;
    Ok(CudaStream::from_raw(stream.getattr(intern!(py, "cuda_stream"))?.extract()?))
}

/// The type of an array interface's `typestr`, of this machine's byte order.
fn array_dtype(code: &str, item_size: usize) -> Option<DType> {
    let native = if cfg!(target_endian = "little") { "<|=" } else { ">|=" };
    let mut letters = code.chars();
    let (order, kind) = (letters.next()?, letters.next()?);
    if !native.contains(order) {
        return None;
    }
    let letter = match kind {
        'f' => ["e", "f", "d"][match item_size {
            2 => 0,
            4 => 1,
            8 => 2,
            _ => return None,
        }],
        'i' => "b",
        'u' => "B",
        _ => return None,
    };
    buffer_dtype(letter, item_size)
}

/// An element type by any of its usual names.
pub(crate) fn parse_dtype(name: &str) -> Option<DType> {
    Some(match name {
        "f16" | "float16" | "half" => DType::F16,
        "bf16" | "bfloat16" => DType::Bf16,
        "f32" | "float32" | "float" => DType::F32,
        "f64" | "float64" | "double" => DType::F64,
        "i8" | "int8" => DType::I8,
        "i16" | "int16" => DType::I16,
        "i32" | "int32" => DType::I32,
        "i64" | "int64" => DType::I64,
        "u8" | "uint8" => DType::U8,
        "u16" | "uint16" => DType::U16,
        "u32" | "uint32" => DType::U32,
        "u64" | "uint64" => DType::U64,
        _ => return None,
    })
}

/// Unsigned integers as wide as an element: how collectives that do not reduce carry types that the library lacks.
pub(crate) fn carrier(item_size: usize) -> Option<DType> {
    Some(match item_size {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        8 => DType::U64,
        _ => return None,
    })
}

/// The type of a `struct` module's format, of this machine's byte order.
fn buffer_dtype(format: &str, item_size: usize) -> Option<DType> {
    let native = if cfg!(target_endian = "little") { "@=<" } else { "@=>!" };
    let letter = match format.as_bytes() {
        [] => b'B',
        [letter] => *letter,
        [order, letter] if native.as_bytes().contains(order) => *letter,
        _ => return None,
    };
    Some(match (letter, item_size) {
        (b'e', 2) => DType::F16,
        (b'f', 4) => DType::F32,
        (b'd', 8) => DType::F64,
        (b'b' | b'h' | b'i' | b'l' | b'q', 1) => DType::I8,
        (b'b' | b'h' | b'i' | b'l' | b'q', 2) => DType::I16,
        (b'b' | b'h' | b'i' | b'l' | b'q', 4) => DType::I32,
        (b'b' | b'h' | b'i' | b'l' | b'q', 8) => DType::I64,
        (b'B' | b'H' | b'I' | b'L' | b'Q', size) => carrier(size)?,
        _ => return None,
    })
}

/// A copy of the elements of a tensor in host memory.
pub(crate) fn copy_of(py: Python<'_>, tensor: &Tensor) -> PyResult<Vec<u8>> {
    if tensor.stream.is_some() {
        return Err(wrong_device(py, "cuda"));
    }
    let mut bytes = vec![0; tensor.bytes()];
    if !bytes.is_empty() {
        // SAFETY: the tensor's memory has as many bytes, and is kept by it.
        unsafe { std::ptr::copy_nonoverlapping(tensor.data.cast_const(), bytes.as_mut_ptr(), bytes.len()) };
    }
    Ok(bytes)
}

/// Overwrites the elements of a tensor in host memory.
pub(crate) fn fill(py: Python<'_>, tensor: &Tensor, bytes: &[u8]) -> PyResult<()> {
    if tensor.stream.is_some() {
        return Err(wrong_device(py, "cuda"));
    }
    if tensor.read_only || tensor.bytes() != bytes.len() {
        return Err(refuse(py, "read_only", "the tensor is read-only, or of another length"));
    }
    if !bytes.is_empty() {
        // SAFETY: the tensor's memory has as many bytes, writable, and is kept by it; a copy of another tensor's does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.data, bytes.len()) };
    }
    Ok(())
}

/// The description of an object's memory: `(address, elements, bytes an element, element type, read-only)`. For tests.
#[pyfunction]
#[pyo3(signature = (object, dtype=None))]
pub(crate) fn describe(
    object: &Bound<'_, PyAny>,
    dtype: Option<&str>,
) -> PyResult<(usize, usize, usize, String, bool)> {
    let tensor = Tensor::of(object, dtype)?;
    let name = tensor.dtype.map_or(tensor.dtype_name.clone(), |dtype| dtype.name().to_owned());
    Ok((tensor.data as usize, tensor.count, tensor.item_size, name, tensor.read_only))
}

/// DLPack's C structures (dmlc/dlpack, `dlpack.h`), version 1 and before.
mod dlpack {
    use std::ffi::{CStr, c_void};
    use std::ptr::NonNull;

    use netfold::DType;
    use pyo3::prelude::*;
    use pyo3::types::PyCapsule;

    use super::refuse;

    pub(super) const CPU: i32 = 1;
    pub(super) const CUDA: i32 = 2;
    pub(super) const CUDA_HOST: i32 = 3;
    pub(super) const CUDA_MANAGED: i32 = 13;
    const READ_ONLY: u64 = 1;

    const PLAIN: &CStr = c"dltensor";
    const VERSIONED: &CStr = c"dltensor_versioned";

    #[repr(C)]
    pub(super) struct Tensor {
        pub(super) data: *mut c_void,
        device_type: i32,
        device_id: i32,
        dimensions: i32,
        code: u8,
        pub(super) bits: u8,
        pub(super) lanes: u16,
        shape: *const i64,
        strides: *const i64,
        pub(super) byte_offset: u64,
    }

    #[repr(C)]
    struct Versioned {
        major: u32,
        minor: u32,
        context: *mut c_void,
        deleter: *mut c_void,
        flags: u64,
        tensor: Tensor,
    }

    /// The tensor in a capsule, and whether it is read-only.
    pub(super) fn open(capsule: &Bound<'_, PyCapsule>) -> PyResult<(NonNull<Tensor>, bool)> {
        if capsule.is_valid_checked(Some(VERSIONED)) {
            let versioned = capsule.pointer_checked(Some(VERSIONED))?.cast::<Versioned>();
            // SAFETY: a capsule of this name holds a `DLManagedTensorVersioned`, whose first fields never change.
            let major = unsafe { (*versioned.as_ptr()).major };
            if major != 1 {
                let message = format!("the tensor comes as DLPack {major}; this version reads DLPack 1");
                return Err(refuse(capsule.py(), "wrong_type", &message));
            }
            // SAFETY: of version 1, the structure is the one above.
            let (flags, tensor) =
                unsafe { ((*versioned.as_ptr()).flags, &raw mut (*versioned.as_ptr()).tensor) };
            return Ok((NonNull::new(tensor).unwrap_or(NonNull::dangling()), flags & READ_ONLY != 0));
        }
        Ok((capsule.pointer_checked(Some(PLAIN))?.cast(), false))
    }

    /// Shape and, where there are any, strides in elements.
    pub(super) fn shape(tensor: &Tensor) -> Option<(&[i64], Option<&[i64]>)> {
        let dimensions = usize::try_from(tensor.dimensions).ok()?;
        if dimensions == 0 {
            return Some((&[], None));
        }
        if tensor.shape.is_null() {
            return None;
        }
        // SAFETY: by DLPack both arrays have as many entries as there are dimensions and live as long as the tensor.
        let shape = unsafe { std::slice::from_raw_parts(tensor.shape, dimensions) };
        let strides = (!tensor.strides.is_null())
            // SAFETY: as above.
            .then(|| unsafe { std::slice::from_raw_parts(tensor.strides, dimensions) });
        shape.iter().all(|&dimension| dimension >= 0).then_some((shape, strides))
    }

    /// Whether elements lie row by row without gaps.
    pub(super) fn contiguous(shape: &[i64], strides: Option<&[i64]>) -> bool {
        let Some(strides) = strides else { return true };
        if shape.contains(&0) {
            return true;
        }
        let mut expected = 1i64;
        for (&dimension, &stride) in shape.iter().zip(strides).rev() {
            if dimension != 1 && stride != expected {
                return false;
            }
            expected = expected.saturating_mul(dimension);
        }
        true
    }

    /// The element type, and its name for messages.
    pub(super) fn dtype(tensor: &Tensor) -> (Option<DType>, String) {
        let Tensor { code, bits, lanes, .. } = *tensor;
        let dtype = match (code, bits, lanes) {
            (0, 8, 1) => Some(DType::I8),
            (0, 16, 1) => Some(DType::I16),
            (0, 32, 1) => Some(DType::I32),
            (0, 64, 1) => Some(DType::I64),
            (1, 8, 1) => Some(DType::U8),
            (1, 16, 1) => Some(DType::U16),
            (1, 32, 1) => Some(DType::U32),
            (1, 64, 1) => Some(DType::U64),
            (2, 16, 1) => Some(DType::F16),
            (2, 32, 1) => Some(DType::F32),
            (2, 64, 1) => Some(DType::F64),
            (4, 16, 1) => Some(DType::Bf16),
            _ => None,
        };
        let name = dtype.map_or_else(
            || format!("DLPack type code {code} with {bits} bits x {lanes}"),
            |dtype| dtype.name().to_owned(),
        );
        (dtype, name)
    }
}
