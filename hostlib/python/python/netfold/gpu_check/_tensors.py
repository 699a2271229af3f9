"""Checks of the backend ``netfold`` on tensors of a GPU: two ranks on one GPU, through a software switch."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, Optional, Tuple

from . import _nccl
from ._children import Child, Failure, SwitchProcess, merged_reports, wait_all
from ._nccl import LOSS_TOLERANCE, RANKS, Reports, compare_losses, no_wrong_elements
from ._registry import Check, Context, Figures


def missing(context: Context) -> Optional[str]:
    """Why tensors of a GPU cannot be checked here."""
    return context.machine.missing


def missing_beside_nccl(context: Context) -> Optional[str]:
    """The same where NCCL is compared with."""
    if context.machine.missing is None and context.machine.nccl is None:
        return f"torch has no NCCL to compare with: {context.machine.facts.get('nccl_missing', 'it reports no version')}"
    return context.machine.missing


def run_ranks(
    context: Context,
    name: str,
    options: Optional[Dict[str, Any]] = None,
    program: str = "netfold.gpu_check._tensor_ranks",
    **variables: str,
) -> Tuple[Reports, Dict[str, int]]:
    """Runs a scenario of a program on both ranks to its end; what each reported, and the switch's counters."""
    folder = context.folder(name)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NETFOLD_", "TRITON_INTERPRET"))}
    with SwitchProcess(context.folder("switch")) as switch:
        named = {"NETFOLD_CONTROLLER": switch.address, "NETFOLD_SHARED_MEMORY": "0", **variables}
        arguments = json.dumps({"store": str(folder / "store"), "backend": "netfold", "bind": False, "graph": False, **(options or {})})
        command = [sys.executable, "-m", program, name, arguments]
        children = []
        for rank in range(RANKS):
            place = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0", "PYTHONUNBUFFERED": "1"}
            children.append(Child(command, folder / f"rank-{rank}.log", {**kept, **place, **named}))
        wait_all(children, context.timeout, lambda rank: f"rank {rank}")
        counters = switch.counters()
    return merged_reports(children), counters


def compared(context: Context, name: str, options: Optional[Dict[str, Any]] = None) -> Figures:
    """Runs a scenario that compares every element."""
    reports, counters = run_ranks(context, name, options)
    no_wrong_elements(reports)
    packets = counters.get("packets_in", 0)
    if packets < reports[0]["cases"]:
        raise Failure(f"the switch received only {packets} packets: the ranks did not use it")
    figures = {key: reports[0][key] for key in ("cases", "elements", "error_of_bound") if key in reports[0]}
    return {**figures, "wrong": 0, "switch_packets": packets}


def all_reduce(context: Context) -> Figures:
    """All-reduces: types, operations, sizes, many in flight."""
    return compared(context, "all_reduce")


def messages(context: Context) -> Figures:
    """The other collectives."""
    return compared(context, "messages")


def streams(context: Context) -> Figures:
    """Operations behind kernels of many streams."""
    return compared(context, "streams")


def refusals(context: Context) -> Figures:
    """Capture into a graph is refused."""
    reports, _ = run_ranks(context, "refusals")
    no_wrong_elements(reports)
    return {"refused": reports[0]["refused"]}


def training(context: Context) -> Figures:
    """DDP and FSDP2 train over the backend as they do over NCCL."""
    context.progress("training: NCCL")
    own = _nccl.run_ranks(context, "train", _nccl.own_network())
    figures: Figures = {}
    for mode, tolerance in (("bfp32", LOSS_TOLERANCE), ("bfp16", 2e-2)):
        context.progress(f"training: netfold, {mode}")
        reports, counters = run_ranks(context, "train", NETFOLD_MODE=mode)
        figures[f"{mode}_switch_packets"] = counters.get("packets_in", 0)
        figures |= compare_losses(reports, own.reports, tolerance, mode)
    return figures


def rates(context: Context) -> Figures:
    """Times of all-reduces on the device, beside those in host memory and of copies."""
    figures: Figures = {}
    for mode in ("bfp32", "bfp16"):
        context.progress(f"rates: {mode}")
        reports, _ = run_ranks(context, "tensor_rates", NETFOLD_MODE=mode)
        slowest: Dict[str, Dict[int, float]] = {}
        for name in ("device", "host", "copy_in", "copy_out", "both_copies", "staging"):
            slowest[name] = {size: max(time, other) for (size, time), (_, other) in zip(*(values[name] for values in reports))}
            figures[f"{mode}_{name}_us"] = {str(size): round(time * 1e6, 1) for size, time in slowest[name].items()}
        for size, time in slowest["device"].items():
            bound = max(slowest[name][size] for name in ("host", "copy_in", "copy_out"))
            figures[f"{mode}_of_slowest_{size}"] = round(time / bound, 3)
            figures[f"{mode}_staging_of_copies_{size}"] = round(slowest["both_copies"][size] / slowest["staging"][size], 3)
    return figures


CHECKS = (
    Check("tensors-all-reduce", "all-reduces of a GPU's tensors: types, operations and sizes, every element compared", missing, all_reduce),
    Check("tensors-messages", "the other collectives on a GPU's tensors, every element compared", missing, messages),
    Check("tensors-streams", "operations behind long kernels of many streams, and memory that is used again at once", missing, streams),
    Check("tensors-refusals", "capture into a CUDA graph is refused, and the group goes on", missing, refusals),
    Check("tensors-training", "DDP and FSDP2 on cuda:netfold: losses beside those of NCCL", missing_beside_nccl, training),
    Check("tensors-rates", "times of all-reduces of a GPU's tensors, beside host memory, copies and staging alone", missing, rates),
)
