"""Compiles the kernels for NVIDIA's devices, which needs none, and looks at the code. Run by ``test_triton.py`` without ``TRITON_INTERPRET``."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from netfold.triton import _kernels
from netfold.triton._format import Format

#: Compute capabilities: A100, L4, H100.
ARCHITECTURES = (80, 89, 90)

BLOCK = 704
ELEMENTS = {"F32": ("*i32", 0), "F16": ("*i16", 1), "BF16": ("*i16", 2)}


def compiled(kernel, tensors, numbers, constants, architecture):
    """The code of a kernel for tensors that begin at multiples of 16 bytes."""
    signature = {**tensors, **numbers, **{name: "constexpr" for name in constants}}
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(len(tensors))}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"enable_fp_fusion": False})


def variants():
    """Kernels with the constants that matter to the code."""
    for name, (pointer, format) in ELEMENTS.items():
        for bits in (16, 32):
            for stochastic, feedback in ((False, False), (True, False), (True, True)):
                if (feedback and name != "F32") or (bits == 32 and name != "F32"):
                    continue
                numbers = Format(bits, 4)
                common = {"BLOCK": BLOCK, "WIDTH": 1024, "TAIL": False, "FORMAT": format, "BITS": bits, "HEADROOM": numbers.headroom}
                rounded = {"STOCHASTIC": stochastic, "FEEDBACK": feedback}
                ends = {"LIMIT": numbers.limit, "BIAS": numbers.bias(), "LOW": -float(numbers.span), "HIGH": numbers.high}
                lanes = f"*i{bits}"
                integers = {"first": "i32", "length": "i32"}
                yield (
                    _kernels.exponents,
                    {"tensor": pointer, "residual": "*i32", "found": "*u8"},
                    integers,
                    {**common, "HIGHEST": numbers.span - 1, **rounded},
                )
                yield (
                    _kernels.quantize,
                    {"tensor": pointer, "residual": "*i32", "agreed": "*u8", "lanes": lanes},
                    {"first": "i32", "number": "i32", "length": "i32", "key_low": "i32", "key_high": "i32"},
                    {**common, **ends, **rounded},
                )
                yield (
                    _kernels.dequantize,
                    {"lanes": lanes, "agreed": "*u8", "tensor": pointer},
                    {**integers, "bias": "i32", "divisor": "fp32", "factor": "fp32"},
                    {**common, "CHECKED": True, "RESCALE": stochastic, "AVERAGE": True},
                )


def check(kernel, ptx):
    wrong = [line.strip() for line in ptx.splitlines() if re.search(r"\.ftz|\.approx|div\.full|fma\.", line)]
    assert not wrong, f"{kernel.__name__}: {wrong}"
    assert "v4.b32" in ptx or "v2.b32" in ptx or "v4.b16" in ptx or "v8" in ptx, f"{kernel.__name__} loads single elements"


def main():
    for index, (kernel, tensors, numbers, constants) in enumerate(variants()):
        architecture = ARCHITECTURES[index % len(ARCHITECTURES)]
        code = compiled(kernel, tensors, numbers, constants, architecture)
        check(kernel, code.asm["ptx"])
        spilled = getattr(code, "n_spills", None)
        assert not spilled, f"{kernel.__name__}: {spilled} registers are spilled"
        print(f"compiled {kernel.__name__} {constants} for sm_{architecture}")


if __name__ == "__main__":
    main()
