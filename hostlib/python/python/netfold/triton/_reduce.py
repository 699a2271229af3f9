"""All-reduces of tensors that are quantised on their device.

Block exponents are reduced first, then the lanes by these exponents, both as integers and exactly. So the network, the switches and the library's
staging carry lanes, and the results have the bits of an all-reduce that the host quantises, where that has the same blocks.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional

import torch

from .. import ArgumentError, Communicator
from ._format import rounding_key
from ._quantizer import BLOCK_MAX, Quantizer, quantizable
from ._streams import streams_of

#: Bytes of the lanes of a piece, at most: what the library stages at a time.
PIECE_BYTES = 16 << 20

#: Bytes of a packet's lanes where no rank exchanges any with a switch.
LANE_BYTES = 1408

#: Where the class of an operation is in its number.
_CLASS_SHIFT = 56


class Reduction:
    """An all-reduce in flight, with the interface of the library's own."""

    def __init__(self, works: List[Any], done: Any, non_finite: torch.Tensor, elements: int, on_device: bool) -> None:
        self._works = works
        self._done = done
        self._non_finite = non_finite
        self._elements = elements
        self.on_device = on_device

    def exception(self) -> Optional[BaseException]:
        """What the first of its operations that failed did so with."""
        return next((error for error in (work.exception() for work in self._works) if error is not None), None)

    def done(self) -> bool:
        """Whether it is over: with an error, or with the output in the tensor."""
        return all(work.done() for work in self._works) and self._done.is_over()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Blocks until it is over; ``timeout`` is for each of its operations. Raises what it failed with."""
        for work in self._works:
            work.wait(timeout)
        self._done.synchronize()

    def wait_on_stream(self, stream: int) -> None:
        """Makes a stream of the device wait for the output. Raises what the all-reduce has failed with by now."""
        error = self.exception()
        if error is not None:
            raise error
        self._done.wait(stream)

    def on_done(self, callable: Callable[[], object]) -> None:
        """Calls ``callable`` once the network is done; of tensors in host memory, the output is there then."""
        self._works[-1].on_done(callable)

    def report(self) -> Optional[Dict[str, Any]]:
        """Counters, as of an all-reduce that the host quantises; ``None`` when it failed or is under way."""
        if not self.done():
            return None
        reports = [work.report() for work in self._works]
        if any(report is None for report in reports):
            return None
        chunks = sum(report["chunks"] for report in reports)
        return {"elements": self._elements, "chunks": chunks, "non_finite": int(self._non_finite), "partial": 0, "left_out": 0}


class Pipeline:
    """Appends the parts of an all-reduce to streams, for one communicator."""

    def __init__(self, native: Any, quantizer: Any, piece: int) -> None:
        """``piece`` is the elements of a piece: of whole blocks."""
        self._native = native
        self._quantizer = quantizer
        self._piece = piece

    def start(
        self, streams: Any, flat: torch.Tensor, op: str, residual: Optional[torch.Tensor] = None, priority: int = 0, key: int = 0
    ) -> Reduction:
        """Starts an all-reduce in place, whose random numbers have this ``key``."""
        quantizer = self._quantizer
        works: List[Any] = []
        lanes: List[torch.Tensor] = []
        cuts = [slice(first, min(first + self._piece, flat.numel())) for first in range(0, flat.numel(), self._piece)]
        blocks = [slice(cut.start // quantizer.block, quantizer.blocks(cut.stop)) for cut in cuts]
        with streams.out([flat] if residual is None else [flat, residual]):
            exponents = quantizer.new_exponents(flat)
            quantizer.exponents(flat, exponents, residual)
            works.append(self._submit(exponents, "max", priority))
            streams.after(works[0])
            for cut, numbers in zip(cuts, blocks):
                piece = quantizer.new_lanes(flat[cut])
                left = None if residual is None else residual[cut]
                quantizer.quantize(flat[cut], exponents[numbers], piece, left, numbers.start, key)
                works.append(self._submit(piece, "sum", priority))
                lanes.append(piece)
        with streams.back([exponents, *lanes]):
            for cut, numbers, piece, work in zip(cuts, blocks, lanes, works[1:]):
                streams.after(work)
                quantizer.dequantize(piece, exponents[numbers], flat[cut], op == "avg")
            non_finite = streams.to_host((exponents == 255).sum())
            done = streams.record()
        return Reduction(works, done, non_finite, flat.numel(), flat.device.type == "cuda")

    def _submit(self, tensor: torch.Tensor, op: str, priority: int) -> Any:
        return self._native.submit("all_reduce", tensor, tensor, op, 0, None, priority)


class DeviceReducer:
    """Does all-reduces of a communicator with lanes that are made on the device.

    All ranks make one, at the same place among their operations, which is one itself: it fails where the job cannot do what is needed. ``piece_bytes``
    is the same on all ranks.
    """

    def __init__(self, communicator: Communicator, piece_bytes: int = PIECE_BYTES) -> None:
        self._seed = communicator.rounding_seed
        self._rank = communicator.rank
        block = _agreed_block(communicator)
        self._quantizer = Quantizer(communicator.mode, communicator.world_size, block, self._seed is not None)
        piece = max(1, piece_bytes // (block * self._quantizer.lane_bytes)) * block
        self._pipeline = Pipeline(communicator._native, self._quantizer, piece)
        self._streams: Any = None
        self._lock = threading.Lock()
        self._numbers: Dict[int, int] = {}

    @property
    def block(self) -> int:
        """Elements of a block."""
        return self._quantizer.block

    def reduces(self, tensor: torch.Tensor, op: Optional[str]) -> bool:
        """Whether :meth:`start` takes this type and reduction."""
        return op in ("sum", "avg") and quantizable(tensor.dtype, self._quantizer.mode)

    def start(self, tensor: torch.Tensor, op: str, residual: Optional[torch.Tensor] = None, priority: int = 0) -> Reduction:
        """Starts an all-reduce in place of a contiguous tensor, behind the current stream of its device.

        With a ``residual`` (error feedback, ``float32``) it is added first, and then holds what the lanes leave out.
        """
        self._check(tensor, op, residual)
        flat = tensor.detach().view(-1)
        left = None if residual is None else residual.detach().view(-1)
        with self._lock:
            if self._streams is None:
                self._streams = streams_of(tensor)
            return self._pipeline.start(self._streams, flat, op, left, priority, self._key(priority))

    def _check(self, tensor: torch.Tensor, op: str, residual: Optional[torch.Tensor]) -> None:
        if not self.reduces(tensor, op):
            raise ArgumentError(f"{op} of {tensor.dtype} is not quantised on devices in mode {self._quantizer.mode}", "unsupported")
        if residual is None:
            return
        if tensor.dtype != torch.float32 or residual.dtype != torch.float32 or residual.device != tensor.device:
            raise ArgumentError("error feedback needs tensor and residual of float32 on one device", "argument")
        if residual.numel() != tensor.numel() or not residual.is_contiguous():
            raise ArgumentError("the residual must be contiguous and as long as the tensor", "length")

    def _key(self, priority: int) -> int:
        """That of the next all-reduce of a class, which are numbered on their own, as the library's operations are."""
        number = self._numbers.get(priority, 0)
        self._numbers[priority] = number + 1
        return rounding_key(self._seed or 0, self._rank, number | priority << _CLASS_SHIFT)


def _agreed_block(communicator: Communicator) -> int:
    """Elements of a block: what a packet carries, of any rank that exchanges packets with a switch. Ranks beside such a one do not know it."""
    width = Quantizer(communicator.mode, communicator.world_size, 2).lane_bytes
    size = bytearray(communicator._native.lane_bytes().to_bytes(4, "little"))
    communicator.all_reduce(size, "max")
    block = (int.from_bytes(size, "little") or LANE_BYTES) // width
    while block > BLOCK_MAX:
        block //= 2
    return block - block % 2
