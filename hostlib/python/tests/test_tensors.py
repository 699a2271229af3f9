"""Where the memory of a tensor is, and which tensors are refused."""

import pytest

import netfold
from netfold import _netfold

numpy = pytest.importorskip("numpy")
describe = _netfold.describe


class OnlyDLPack:
    """An array that shows DLPack and nothing else."""

    def __init__(self, base, device=None):
        self._base = base
        self._device = device

    def __dlpack__(self, **named):
        return self._base.__dlpack__(**named)

    def __dlpack_device__(self):
        return self._device or self._base.__dlpack_device__()


@pytest.mark.parametrize(
    "name, short",
    [
        ("float16", "f16"),
        ("float32", "f32"),
        ("float64", "f64"),
        ("int8", "i8"),
        ("int16", "i16"),
        ("int32", "i32"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("uint16", "u16"),
        ("uint32", "u32"),
        ("uint64", "u64"),
    ],
)
def test_numpy_arrays_are_found_in_place(name, short):
    tensor = numpy.zeros((3, 4), name)
    size = tensor.itemsize
    assert describe(tensor) == (tensor.ctypes.data, 12, size, short, False)
    assert describe(OnlyDLPack(tensor)) == (tensor.ctypes.data, 12, size, short, False)
    assert describe(tensor[1:]) == (tensor[1:].ctypes.data, 8, size, short, False)
    assert describe(OnlyDLPack(tensor[2])) == (tensor[2].ctypes.data, 4, size, short, False)


def test_torch_tensors_are_found_in_place():
    torch = pytest.importorskip("torch")
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.int64, "i64")):
        tensor = torch.zeros((3, 4), dtype=dtype)
        assert describe(tensor) == (tensor.data_ptr(), 12, tensor.element_size(), short, False)
        if dtype != torch.bfloat16:
            assert describe(OnlyDLPack(tensor))[:4] == (tensor.data_ptr(), 12, tensor.element_size(), short)
    brain = OnlyDLPack(torch.zeros(4, dtype=torch.bfloat16))
    assert describe(brain)[3] == "bf16"
    needs_gradient = torch.zeros(3, requires_grad=True)
    assert describe(needs_gradient)[0] == needs_gradient.data_ptr()
    for refused in (torch.zeros(4, 4).t(), torch.zeros(8)[::2], torch.zeros(3, 3).to_sparse(), torch.zeros(3, device="meta")):
        with pytest.raises(netfold.TensorError):
            describe(refused)


def test_arrays_of_foreign_types():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = numpy.zeros(5, ml_dtypes.bfloat16)
    assert describe(tensor) == (tensor.ctypes.data, 5, 2, "bf16", False)


@pytest.mark.parametrize("make", [lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a[:, 1:]])
def test_gaps_are_refused(make):
    tensor = make(numpy.zeros((4, 6), numpy.float32))
    for seen in (tensor, OnlyDLPack(tensor)):
        with pytest.raises(netfold.TensorError) as caught:
            describe(seen)
        assert caught.value.kind == "not_contiguous" and "contiguous" in str(caught.value)
    assert isinstance(caught.value, (TypeError, ValueError, RuntimeError))


def test_what_is_no_tensor_is_refused():
    for thing in ([1.0, 2.0], 3, "text", None and 0, object()):
        with pytest.raises(netfold.TensorError):
            describe(thing)
    with pytest.raises(netfold.TensorError) as caught:
        describe(OnlyDLPack(numpy.zeros(3, numpy.float32), device=(8, 0)))
    assert caught.value.kind == "wrong_device"
    with pytest.raises(netfold.TensorError):
        describe(numpy.zeros(3, numpy.float32), "bf16")
    with pytest.raises(netfold.TensorError):
        describe(numpy.zeros(3, numpy.float32), "f99")
    assert describe(numpy.zeros(3, numpy.uint16), "bfloat16")[3] == "bf16"


def test_read_only_and_foreign_types_are_refused(ranks):
    def body(comm):
        frozen = numpy.zeros(4, numpy.float32)
        frozen.flags.writeable = False
        for refused in (frozen, bytes(8), numpy.zeros(4, numpy.complex64), numpy.zeros(4, bool), numpy.zeros(4, ">f4")):
            with pytest.raises(netfold.TensorError):
                comm.all_reduce(refused)
        whole = numpy.zeros(10, numpy.float32)
        with pytest.raises(netfold.TensorError):
            comm.all_reduce(whole[:6], out=whole[3:9])
        with pytest.raises(netfold.TensorError):
            comm.all_reduce(whole, out=numpy.zeros(10))
        for call in (
            lambda: comm.all_reduce(whole, out=numpy.zeros(9, numpy.float32)),
            lambda: comm.reduce_scatter(whole, out=numpy.zeros(6, numpy.float32)),
            lambda: comm.reduce_scatter(numpy.zeros(7, numpy.float32)),
            lambda: comm.all_to_all(numpy.zeros(7, numpy.float32)),
            lambda: comm.all_reduce(whole, "median"),
            lambda: comm.broadcast(whole, root=2),
            lambda: comm.reduce(whole, root=-1),
        ):
            with pytest.raises(netfold.ArgumentError):
                call()
        # None of these was sent, and the communicator is as good as before; a source may be read-only.
        comm.broadcast(frozen if comm.rank == 0 else numpy.ones(4, numpy.float32))
        return comm.all_reduce(frozen, out=numpy.ones(4, numpy.float32)).tolist()

    assert ranks(2, body) == [[0.0] * 4] * 2
