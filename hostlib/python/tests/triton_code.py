"""Compiles the kernels for NVIDIA's devices as they are launched, which needs no device, and looks at the code. Run by ``test_triton.py`` without
``TRITON_INTERPRET``."""

import re
import types

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from netfold.triton import Quantizer, _kernels, _quantizer, quantizable

#: Compute capability (A100, L4, H100), mode, and whether rounding is stochastic.
CASES = ((80, "bfp16", False), (89, "bfp16", True), (90, "bfp32", False), (80, "bfp32", True), (90, "bfp16", False))

BLOCK = 704


class Device:
    """What Triton asks of a device before it compiles for it."""

    def __init__(self, architecture):
        self._target = GPUTarget("cuda", architecture, 32)

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return self._target.arch

    def get_current_stream(self, device=None):
        return 0


class Compiled:
    """A kernel that is compiled where it would be launched."""

    def __init__(self, kernel, found):
        self._kernel, self._found = kernel, found

    def __getitem__(self, grid):
        def compile_only(*arguments, **named):
            code = self._kernel.warmup(*arguments, grid=grid, **named)
            self._found.append((self._kernel.__name__, named.get("TAIL", True), code))

        return compile_only


def check(name, tail, code):
    ptx = code.asm["ptx"]
    wrong = [line.strip() for line in ptx.splitlines() if re.search(r"\.ftz|\.approx|div\.full|fma\.", line)]
    assert not wrong, f"{name}: {wrong}"
    assert tail or re.search(r"global.*\.(v[248]\.b32|v4\.b16|v8)", ptx), f"{name} loads single elements"


def main():
    found = []
    kernels = {name: Compiled(getattr(_kernels, name), found) for name in ("exponents", "quantize", "dequantize", "copy")}
    _quantizer._kernels = types.SimpleNamespace(**{**vars(_kernels), **kernels})
    for architecture, mode, stochastic in CASES:
        driver.set_active(Device(architecture))
        quantizer = Quantizer(mode, 4, BLOCK, stochastic)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            if not quantizable(dtype, mode):
                continue
            tensor = torch.zeros(3 * BLOCK + 5, dtype=dtype)
            exponents, lanes = quantizer.new_exponents(tensor), quantizer.new_lanes(tensor)
            residual = torch.zeros_like(tensor) if dtype == torch.float32 else None
            quantizer.exponents(tensor, exponents, residual)
            quantizer.quantize(tensor, exponents, lanes, None, 3, 1 << 63)
            quantizer.quantize(tensor, exponents, lanes, residual, 3, 1)
            quantizer.dequantize(lanes, exponents, tensor, average=True, contributions=3, rescale=stochastic)
    _quantizer.copy(torch.zeros(100), torch.zeros(100))
    for name, tail, code in found:
        check(name, tail, code)
    print(f"compiled {len(found)} kernels")


if __name__ == "__main__":
    main()
