"""The checks of quantisation, as ``netfold-gpu-check`` starts them, in Triton's interpreter on any torch."""

import runpy
import warnings

import triton_interpreter

warnings.simplefilter("ignore")
triton_interpreter.prepare()
runpy.run_module("netfold.gpu_check._quantize_ranks", run_name="__main__", alter_sys=True)
