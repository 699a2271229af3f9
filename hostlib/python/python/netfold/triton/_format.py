"""Numbers of the quantiser, computed on the host: as in ``hostlib/src/quantize.rs`` and ``quantize/rounding.rs``."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MASK = (1 << 64) - 1

#: Bits of a mantissa, sign included, by mode.
BITS = {"bfp16": 16, "bfp32": 32}


def mix(number: int) -> int:
    """SplitMix64: one step and the finaliser."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return z ^ z >> 31


def rounding_key(seed: int, rank: int, operation: int) -> int:
    """The key of the random numbers of operation number ``operation`` of a rank."""
    return mix(mix(mix(seed) ^ rank) ^ operation)


def signed32(word: int) -> int:
    """The 32 low bits as a signed number."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def single(number: float) -> float:
    """The nearest number of binary32."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


@dataclass(frozen=True)
class Format:
    """What mantissas of ``bits`` bits are for ``world`` ranks."""

    bits: int
    world: int

    @property
    def headroom(self) -> int:
        """ceil(log2(world))."""
        return (self.world - 1).bit_length()

    @property
    def span(self) -> int:
        """Mantissas are from minus this up to this, exclusive."""
        return 1 << (self.bits - 1 - self.headroom)

    @property
    def limit(self) -> float:
        """The least magnitude that is rounded to the span."""
        return single(self.span - 0.5)

    @property
    def high(self) -> float:
        """The highest mantissa that is a number of binary32."""
        return float(self.span - max(self.span >> 24, 1))

    def bias(self, contributions: int = 1) -> int:
        """What the sum of so many lanes has in addition to the sum of mantissas, as a signed number of 32 bits."""
        return signed32(self.span * contributions)
