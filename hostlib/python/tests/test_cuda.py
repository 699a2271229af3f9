"""Tensors of a CUDA device, on the fake driver that ``NETFOLD_FAKE_CUDA`` names: a shared library in place of ``libcuda.so.1``."""

import ctypes
import os
import threading

import pytest

import netfold

numpy = pytest.importorskip("numpy")

FAKE = os.environ.get("NETFOLD_FAKE_CUDA")

pytestmark = pytest.mark.skipif(FAKE is None, reason="NETFOLD_FAKE_CUDA does not name the fake driver")

#: DLPack's number of CUDA devices.
DLPACK_CUDA = 2


class Device:
    """A device of the fake, which the thread that makes it uses by the driver's functions."""

    def __init__(self, ordinal):
        os.environ["NETFOLD_CUDA_LIBRARY"] = FAKE
        self._driver = ctypes.CDLL(FAKE)
        self.ordinal = ordinal
        self.call("cuInit", 0)
        context, stream, pinned = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self.call("cuCtxPushCurrent_v2", context)
        self.call("cuStreamCreate", ctypes.byref(stream), 0)
        self.call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(1 << 22), 0)
        self.stream, self._pinned = stream, pinned

    def call(self, name, *arguments):
        code = getattr(self._driver, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def tensor(self, array):
        """A copy of an array in the device's memory, which arrives there behind what the stream does now."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(array.nbytes))
        ctypes.memmove(self._pinned, array.ctypes.data, array.nbytes)
        self.call("cuMemcpyHtoDAsync_v2", address, self._pinned, ctypes.c_size_t(array.nbytes), self.stream)
        return Tensor(self, address.value, array.shape, array.dtype)

    def array(self, tensor):
        """The elements now."""
        found = numpy.empty(tensor.shape, tensor.dtype)
        self.call("cuMemcpyDtoHAsync_v2", self._pinned, ctypes.c_uint64(tensor.address), ctypes.c_size_t(found.nbytes), self.stream)
        self.call("cuStreamSynchronize", self.stream)
        ctypes.memmove(found.ctypes.data, self._pinned, found.nbytes)
        return found


class Tensor:
    """What CuPy and Numba have: the memory by ``__cuda_array_interface__``."""

    def __init__(self, device, address, shape, dtype, strides=None, read_only=False):
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self._strides, self._read_only = strides, read_only

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.address, self._read_only),
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self._strides,
            "stream": self.device.stream.value,
            "version": 3,
        }


def on_ranks(world, body, **options):
    """Runs ``body(communicator, device)`` on every rank, each on a device of its own."""
    results, errors = [None] * world, []

    def rank_thread(rank, address):
        try:
            device = Device(200 + rank)
            with netfold.Communicator(rank, world, job="cuda", switch=address, **options) as comm:
                results[rank] = body(comm, device)
        except BaseException as error:  # noqa: B036 -- raised below
            errors.append(error)

    with netfold.Switch() as switch:
        threads = [threading.Thread(target=rank_thread, args=(rank, switch.address)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_collectives_give_what_they_give_in_host_memory(dtype):
    def body(comm, device):
        own = (numpy.arange(70_001) % 97 + comm.rank).astype(dtype)
        tensor = device.tensor(own)
        work = comm.all_reduce_async(tensor)
        assert work.wait() is tensor and work.done() and work.report()["elements"] == own.size
        expected = comm.all_reduce(own.copy())
        gathered = device.tensor(numpy.zeros((2, *own.shape), dtype))
        comm.all_gather(device.tensor(own), out=gathered)
        scattered = device.tensor(numpy.zeros(35_000, dtype))
        comm.reduce_scatter(device.tensor(own[:70_000]), out=scattered)
        copied = device.tensor(own)
        comm.broadcast(copied, root=1)
        return own, *(device.array(each) for each in (tensor, gathered, scattered, copied)), expected

    first, second = on_ranks(2, body)
    for rank, (own, reduced, gathered, scattered, copied, expected) in enumerate((first, second)):
        assert (reduced == expected).all() and (reduced == first[1]).all()
        assert (gathered == [first[0], second[0]]).all()
        assert (copied == second[0]).all()
        part = slice(35_000 * rank, 35_000 * (rank + 1))
        assert numpy.allclose(scattered, (first[0] + second[0])[part])


def test_tensors_that_cannot_be_used_are_refused_and_the_job_goes_on():
    def refused(action, kind):
        with pytest.raises(netfold.TensorError) as caught:
            action()
        assert caught.value.kind == kind, str(caught.value)
        return str(caught.value)

    def body(comm, device):
        own = numpy.ones(1000, "float32")
        tensor = device.tensor(own)
        refused(lambda: comm.all_gather(tensor, out=numpy.zeros((2, 1000), "float32")), "wrong_device")
        gaps = Tensor(device, tensor.address, (500,), own.dtype, strides=(8,))
        refused(lambda: comm.all_reduce(gaps), "not_contiguous")
        fixed = Tensor(device, tensor.address, (1000,), own.dtype, read_only=True)
        refused(lambda: comm.all_reduce(fixed), "read_only")
        freed = device.tensor(own)
        device.call("cuStreamSynchronize", device.stream)
        device.call("cuMemFree_v2", ctypes.c_uint64(freed.address))
        assert "freed" in refused(lambda: comm.all_reduce(freed), "cuda")
        refused(lambda: comm.all_reduce_async(tensor, residual=numpy.zeros(1000, "float32")), "wrong_device")
        with pytest.raises(netfold.ArgumentError) as caught:
            comm.all_reduce_async(tensor, residual=device.tensor(numpy.zeros(1000, "float32")))
        assert "device_quantization" in str(caught.value)
        comm.all_reduce(tensor)
        return device.array(tensor)

    for sums in on_ranks(2, body):
        assert (sums == 2).all()


@pytest.mark.parametrize("mode", ["bfp16", "bfp32"])
def test_tensors_that_the_device_quantises_have_the_bits_of_those_that_the_host_does(mode):
    def body(comm, device):
        pairs = []
        for dtype, op in (("float32", "sum"), ("float16", "avg")):
            own = ((numpy.arange(30_001) * 7919 % 10_007 - 5_000) / 64 + comm.rank / 3).astype(dtype)
            tensor = device.tensor(own)
            assert comm.all_reduce_async(tensor, op).wait() is tensor
            pairs.append((device.array(tensor), comm.all_reduce(own.copy(), op)))
        own = numpy.linspace(-3, 5, 30_001, dtype="float32") * (comm.rank + 1)
        left, expected_left = device.tensor(numpy.zeros_like(own)), numpy.zeros_like(own)
        # The pinned memory of the copy is that of the next one.
        device.call("cuStreamSynchronize", device.stream)
        for _ in range(2):
            tensor = device.tensor(own)
            comm.all_reduce(tensor, "avg", residual=left)
            pairs.append((device.array(tensor), comm.all_reduce(own.copy(), "avg", residual=expected_left)))
            pairs.append((device.array(left), expected_left.copy()))
        with pytest.raises(netfold.ArgumentError) as caught:
            comm.all_reduce(tensor, out=device.tensor(own), residual=left)
        assert caught.value.kind == "unsupported"
        return pairs

    for pairs in on_ranks(2, body, mode=mode, device_quantization=True):
        for found, expected in pairs:
            assert found.tobytes() == expected.tobytes()


def test_the_quantiser_of_a_device_is_that_of_the_host():
    device, own = Device(210), numpy.linspace(-3, 5, 1_409, dtype="float32")
    host = netfold._netfold.Quantizer("bfp16", 4, 704, seed=3, rank=1, operation=2)
    kernels = netfold._netfold.DeviceQuantizer("bfp16", 4, 704, True, 210)

    def placed(array):
        tensor = device.tensor(array)
        device.call("cuStreamSynchronize", device.stream)
        return tensor

    tensor, found, lanes = placed(own), placed(numpy.zeros(3, "uint8")), placed(numpy.zeros(705, "int32"))
    kernels.exponents(tensor, found)
    exponents = device.array(found).tobytes()
    assert exponents == host.exponents(own)
    kernels.quantize(tensor, found, lanes, None, 0, host.key)
    packed = host.pack(own, exponents)
    words = device.array(lanes)
    assert words.view("uint16")[:1_409].tolist() == numpy.frombuffer(packed, ">u2")[:1_409].tolist()
    sums = placed(words * 4)
    kernels.dequantize(sums, found, tensor, average=True)
    expected = numpy.zeros_like(own)
    host.unpack(expected, (numpy.frombuffer(packed, ">u2") * 4).astype(">u2").tobytes(), exponents, 4)
    assert device.array(tensor).tobytes() == (expected / 4).astype("float32").tobytes()
    copy = placed(numpy.zeros(704, "int32"))
    kernels.copy(placed(words[:704]), copy)
    assert (device.array(copy) == words[:704]).all()
    with pytest.raises(netfold.ArgumentError) as caught:
        kernels.exponents(tensor, placed(numpy.zeros(2, "uint8")))
    assert caught.value.kind == "length"
    with pytest.raises(netfold.ArgumentError):
        netfold._netfold.DeviceQuantizer("bfp16", 4, 703, True, 210)


def test_modes_that_devices_do_not_quantise_are_refused():
    with pytest.raises(netfold.ArgumentError) as caught:
        netfold.Communicator(0, 2, job="cuda", switch="127.0.0.1:1", mode="i32", device_quantization=True)
    assert "bfp16" in str(caught.value)


class Exported:
    """A tensor of DLPack alone, whose exporter notes the stream that it was asked for."""

    def __init__(self):
        self.streams = []

    def __dlpack_device__(self):
        return (DLPACK_CUDA, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        raise BufferError("asked")


def test_an_exporter_of_dlpack_is_asked_to_order_the_legacy_stream():
    exported = Exported()
    with pytest.raises(BufferError):
        netfold._netfold.describe(exported)
    assert exported.streams == [1]
