"""The kernels on whole tensors."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
import triton

from .. import ArgumentError
from . import _kernels
from ._format import BITS, Format, signed32, single

#: Integers as wide as the elements, and the kernels' names of the types.
_TYPES: Dict[torch.dtype, Tuple[torch.dtype, int]] = {
    torch.float32: (torch.int32, _kernels.F32.value),
    torch.float16: (torch.int16, _kernels.F16.value),
    torch.bfloat16: (torch.int16, _kernels.BF16.value),
}

#: Elements of a block, at most: a program of the grid has a block.
BLOCK_MAX = 8192


def quantizable(dtype: torch.dtype, mode: str) -> bool:
    """Whether tensors of this type are quantised in this mode: those whose lanes are no longer than their elements."""
    return dtype in _TYPES and mode in BITS and BITS[mode] <= (32 if dtype == torch.float32 else 16)


class Quantizer:
    """Quantises tensors to the lanes of a mode and back, in the memory of their device, for a job of ``world_size`` ranks.

    Tensors are contiguous, of ``float32``, ``float16`` or ``bfloat16``. They are cut into blocks of ``block`` elements, an even number. Kernels
    are launched in the current stream. The bits are those of the host's quantiser. Lanes are biased numbers of 16 or 32 bits, element by element:
    ``span`` (2^(bits - 1 - headroom)) and the mantissa; sums of them, of all ranks, do not carry.
    """

    def __init__(self, mode: str, world_size: int, block: int, stochastic: bool = False) -> None:
        if mode not in BITS:
            raise ArgumentError(f"mode '{mode}' is not quantised on devices; use bfp16 or bfp32, or quantize='host'", "argument")
        if not 0 < block <= BLOCK_MAX or block % 2 != 0:
            raise ArgumentError(f"blocks of {block} elements; give an even number up to {BLOCK_MAX}", "argument")
        self.mode = mode
        self.world_size = world_size
        self.block = block
        self.stochastic = stochastic
        self._format = Format(BITS[mode], world_size)
        self._constants = {"BLOCK": block, "WIDTH": triton.next_power_of_2(block), "BITS": BITS[mode], "HEADROOM": self._format.headroom}

    @property
    def lane_bytes(self) -> int:
        """Bytes of a lane."""
        return self._format.bits // 8

    def blocks(self, elements: int) -> int:
        """Blocks of a tensor of so many elements."""
        return -(-elements // self.block)

    def new_lanes(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for the lanes of a tensor: ``int32``, each of one lane or two of 16 bits."""
        words = tensor.numel() if self._format.bits == 32 else (tensor.numel() + 1) // 2
        return torch.empty(words, dtype=torch.int32, device=tensor.device)

    def new_exponents(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for the exponents of a tensor: ``uint8``, one of each block."""
        return torch.empty(self.blocks(tensor.numel()), dtype=torch.uint8, device=tensor.device)

    def exponents(self, tensor: torch.Tensor, found: torch.Tensor, residual: Optional[torch.Tensor] = None) -> None:
        """Writes this rank's exponents of all blocks: 30 to 254, or 255 of a block with NaN or an infinity. A ``residual`` (both ``float32``) is
        added to ``tensor`` first."""
        raw, format = _raw(tensor)
        left = raw if residual is None else residual.view(torch.int32)
        named = {
            "FORMAT": format,
            "HIGHEST": self._format.span - 1,
            "STOCHASTIC": self.stochastic,
            "FEEDBACK": residual is not None,
        }
        self._launch(_kernels.exponents, tensor.numel(), (raw, left, found), (), named)

    def quantize(
        self,
        tensor: torch.Tensor,
        agreed: torch.Tensor,
        lanes: torch.Tensor,
        residual: Optional[torch.Tensor] = None,
        number: int = 0,
        key: int = 0,
    ) -> None:
        """Writes the lanes of ``tensor`` by the ``agreed`` exponents, and to ``residual`` what they leave out.

        The first block is block ``number`` of the operation whose random numbers have this ``key`` (``rounding_key``).
        """
        raw, format = _raw(tensor)
        wide = self._format.bits == 32
        left = raw if residual is None else residual.view(torch.int32)
        span = self._format.span
        named = {
            "FORMAT": format,
            "LIMIT": self._format.limit,
            "BIAS": self._format.bias(),
            "LOW": -float(span),
            "HIGH": self._format.high,
            "STOCHASTIC": self.stochastic,
            "FEEDBACK": residual is not None,
        }
        tensors = (raw, left, agreed, lanes if wide else lanes.view(torch.int16))
        self._launch(_kernels.quantize, tensor.numel(), tensors, (signed32(key), signed32(key >> 32)), named, (number,))

    def dequantize(
        self,
        lanes: torch.Tensor,
        agreed: torch.Tensor,
        tensor: torch.Tensor,
        average: bool = False,
        contributions: Optional[int] = None,
        rescale: bool = False,
    ) -> None:
        """Writes the sums, or averages, that the sums of ``lanes`` stand for. NaN for blocks with the exponent 255, and for lanes that an
        operation that failed did not receive.

        ``contributions``: in how many ranks' lanes the sums are (default: all). With ``rescale`` they are multiplied by ranks over contributions.
        """
        raw, format = _raw(tensor)
        count = self.world_size if contributions is None else contributions
        scaled = rescale and 0 < count < self.world_size
        factor = single(single(float(self.world_size)) / single(float(max(count, 1))))
        named = {"FORMAT": format, "CHECKED": self.world_size > 1, "RESCALE": scaled, "AVERAGE": average}
        source = lanes if self._format.bits == 32 else lanes.view(torch.int16)
        numbers = (self._format.bias(count), float(self.world_size), factor)
        self._launch(_kernels.dequantize, tensor.numel(), (source, agreed, raw), numbers, named)

    def _launch(
        self, kernel: Any, elements: int, tensors: Tuple[Any, ...], numbers: Tuple[Any, ...], named: Dict[str, Any], number: Tuple[int, ...] = ()
    ) -> None:
        """Launches a kernel on all whole blocks, and on the last one if it is shorter."""
        whole, tail = divmod(elements, self.block)
        named = {**named, **self._constants, "enable_fp_fusion": False}
        if whole > 0:
            kernel[(whole,)](*tensors, 0, *number, elements, *numbers, TAIL=False, **named)
        if tail > 0:
            kernel[(1,)](*tensors, whole, *number, elements, *numbers, TAIL=True, **named)


def _raw(tensor: torch.Tensor) -> Tuple[torch.Tensor, int]:
    """A tensor's elements as integers, and their type."""
    if tensor.dtype not in _TYPES:
        raise ArgumentError(f"tensors of {tensor.dtype} are not quantised", "argument")
    integer, format = _TYPES[tensor.dtype]
    return tensor.view(integer), format


def copy(source: torch.Tensor, target: torch.Tensor, width: int = 1024) -> None:
    """Copies words by a kernel: what the speed of the others is compared with."""
    words = source.view(torch.int32)
    _kernels.copy[(triton.cdiv(words.numel(), width),)](words, target.view(torch.int32), words.numel(), WIDTH=width)
