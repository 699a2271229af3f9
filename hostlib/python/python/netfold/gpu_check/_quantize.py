"""Checks of quantisation on a GPU, by the kernels of ``netfold.triton`` and by the library's own."""

from __future__ import annotations

from typing import Optional

from . import _tensors
from ._children import Failure
from ._nccl import Reports, no_wrong_elements
from ._registry import Check, Context, Figures

PROGRAM = "netfold.gpu_check._quantize_ranks"

#: Of the library's own kernels.
LIBRARY = "netfold.gpu_check._library_ranks"

#: The largest relative difference of a loss with gradients in ``bfp16``.
LOSS_TOLERANCE = 2e-2


def missing(context: Context) -> Optional[str]:
    """Why kernels of Triton cannot be checked here."""
    machine = context.machine
    if machine.missing is None and "triton" not in machine.facts:
        return f"this Python has no triton ({machine.facts.get('triton_missing', 'unknown')}): pip install triton"
    return machine.missing


def kernels(context: Context) -> Figures:
    """The kernels against the library's quantiser."""
    reports, _ = _tensors.run_ranks(context, "kernels", program=PROGRAM)
    no_wrong_elements(reports)
    return {key: reports[0][key] for key in ("cases", "elements", "wrong")}


def reductions(context: Context) -> Figures:
    """All-reduces against those that the host quantises, and a training with error feedback."""
    reports, counters = _tensors.run_ranks(context, "reductions", program=PROGRAM)
    no_wrong_elements(reports)
    figures: Figures = {key: reports[0][key] for key in ("cases", "elements", "wrong")}
    worst = 0.0
    for values in reports:
        worst = max([worst, *(abs(fed - plain) / abs(plain) for fed, plain in zip(values["feedback"], values["plain"]))])
    if not worst <= LOSS_TOLERANCE:
        raise Failure(f"a loss with error feedback on the GPU differs by {worst:.3g} of it from one in bfp32; {LOSS_TOLERANCE:g} is allowed")
    return {**figures, "loss_difference": worst, "switch_packets": counters.get("packets_in", 0)}


def rates(context: Context) -> Figures:
    """What the kernels read and write in a second, and as a part of what a copying kernel does."""
    reports, _ = _tensors.run_ranks(context, "quantize_rates", program=PROGRAM)
    return rates_of(reports)


def library_kernels(context: Context) -> Figures:
    """The library's kernels against its quantiser on the host."""
    reports, _ = _tensors.run_ranks(context, "library_kernels", program=LIBRARY)
    no_wrong_elements(reports)
    return {key: reports[0][key] for key in ("cases", "elements", "wrong")}


def library_reductions(context: Context) -> Figures:
    """All-reduces that the library quantises on the GPU against those on the host."""
    reports, counters = _tensors.run_ranks(context, "library_reductions", program=LIBRARY)
    no_wrong_elements(reports)
    figures: Figures = {key: reports[0][key] for key in ("cases", "elements", "wrong")}
    return {**figures, "switch_packets": counters.get("packets_in", 0)}


def library_rates(context: Context) -> Figures:
    """What the library's kernels read and write in a second, and as a part of what a copying kernel does."""
    reports, _ = _tensors.run_ranks(context, "library_rates", program=LIBRARY)
    return rates_of(reports)


def rates_of(reports: Reports) -> Figures:
    """Rates that the first rank has reported."""
    rates = {name: dict(values) for name, values in reports[0].items()}
    figures: Figures = {}
    largest = max(rates["copy"])
    for name in rates:
        if "copy" not in name:
            figures[f"{name}_of_copy_{largest}"] = round(rates[name][largest] / rates["copy"][largest], 3)
    for name, by_size in rates.items():
        figures[f"{name}_gbytes_per_s"] = {str(size): round(rate / 1e9, 1) for size, rate in by_size.items()}
    return figures


CHECKS = (
    Check("quantize-kernels", "every kernel of netfold.triton against the library's quantiser, bit for bit", missing, kernels),
    Check("quantize-all-reduce", "all-reduces quantised on the GPU against those on the host, bit for bit; error feedback", missing, reductions),
    Check("quantize-rates", "bytes a second of each kernel, beside a kernel that copies", missing, rates),
    Check("library-kernels", "every kernel of the library against its quantiser on the host, bit for bit", _tensors.missing, library_kernels),
    Check("library-all-reduce", "all-reduces quantised on the GPU by the library against those on the host, bit for bit", _tensors.missing, library_reductions),
    Check("library-rates", "bytes a second of each kernel of the library, beside a kernel that copies", _tensors.missing, library_rates),
)
