"""Checks of the NCCL plugin: two ranks on one GPU, which NCCL takes for two nodes because their ``NCCL_HOSTID`` differs.

NCCL uses the plugin's CollNet, its net, or neither, by the environment of the ranks alone; what the ranks do is in ``_ranks``.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._children import Child, Failure, SwitchProcess, merged_reports, until, wait_all
from ._machine import find_nccl_plugin
from ._registry import Check, Context, Figures

RANKS = 2

#: The first NCCL with the plugin interface that the plugin has.
OLDEST = (2, 13)

#: What NCCL and the plugin log when they use each other; the first group is kept as a figure.
NET_LINE = re.compile(r"Using network netfold", re.IGNORECASE)
COLLNET_LINE = re.compile(r"NETFOLD CollNet of 2 ranks uses (the switch at [^\s,]+)")
LOST_LINE = re.compile(r"NETFOLD CollNet test: .*lost")
REFUSED_LINE = re.compile(r"NETFOLD CollNet connect: refused.*")

#: Lines of NCCL's log that show what it loaded and chose.
TELLING = re.compile(r"NCCL version|NETFOLD|net plugin|network plugin|NET plugin|COLLNET|CollNet", re.IGNORECASE)

#: The largest relative difference of a loss from that of NCCL's own reductions.
LOSS_TOLERANCE = 1e-3


#: Of each rank, the values of all its reports.
Reports = List[Dict[str, Any]]


@dataclass
class Run:
    """What the ranks of one run reported and logged."""

    reports: Reports
    #: Of each rank, NCCL's log.
    logs: List[str]
    #: The counters of the switch at the end; empty without one.
    counters: Dict[str, int]

    def switch(self) -> str:
        """What CollNet uses, by the log of rank 0; fails where NCCL did not use the plugin on all ranks."""
        for rank, log in enumerate(self.logs):
            if NET_LINE.search(log) is None:
                raise Failure(f"NCCL did not load the plugin on rank {rank}:\n    {excerpt(log)}")
            if COLLNET_LINE.search(log) is None:
                raise Failure(f"NCCL made no CollNet group on rank {rank}:\n    {excerpt(log)}")
        match = COLLNET_LINE.search(self.logs[0])
        assert match is not None
        return match[1]

    def packets(self) -> int:
        """Packets that the switch received."""
        return self.counters.get("packets_in", 0)


def excerpt(log: str, lines: int = 12) -> str:
    """The lines of NCCL's log about the plugin, or its end."""
    found = [line for line in log.splitlines() if TELLING.search(line)] or log.splitlines()[-lines:]
    return "\n    ".join(found[:lines]) or "(NCCL logged nothing)"


def missing(context: Context) -> Optional[str]:
    """Why the plugin cannot be run with NCCL here."""
    machine = context.machine
    if machine.missing is not None:
        return machine.missing
    if machine.nccl is None:
        return f"torch has no NCCL: {machine.facts.get('nccl_missing', 'it reports no version')}"
    if machine.nccl < OLDEST:
        return f"NCCL {'.'.join(map(str, machine.nccl))} is older than {'.'.join(map(str, OLDEST))}, the first that the plugin supports"
    return find_nccl_plugin(context.nccl_plugin)[1] or None


# -- Environments of the ranks --

#: torch ends a process whose communicator has failed, but writes stack traces first, and sleeps for four times the last of these.
AT_ONCE = {
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "250",
}


def own_network() -> Dict[str, str]:
    """NCCL without plugins: its own algorithms, over its own sockets."""
    return {"NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}


def plugin(context: Context, switch: Optional[SwitchProcess], *, force: bool) -> Dict[str, str]:
    """The plugin's net; with a switch its CollNet too, which ``force`` makes NCCL use for all all-reduces."""
    path, reason = find_nccl_plugin(context.nccl_plugin)
    if path is None:
        raise Failure(reason)
    named = {"NCCL_NET_PLUGIN": str(path), "NCCL_NET": "netfold", "NETFOLD_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    if switch is not None:
        named |= {"NCCL_COLLNET_ENABLE": "1", "NETFOLD_CONTROLLER": switch.address}
    if force:
        # Before 2.24 the variable has no names of functions, and functions without the algorithm use another.
        by_function = (context.machine.nccl or ()) >= (2, 24)
        named["NCCL_ALGO"] = "allreduce:collnetchain" if by_function else "CollNetChain"
    return named


def environment(rank: int, folder: pathlib.Path, named: Dict[str, str]) -> Dict[str, str]:
    """The environment of a rank: that of the command without variables of NCCL and Netfold, and those of the check."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "NETFOLD_", "TORCH_NCCL_"))}
    return {
        **kept,
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_RANK": "0",
        "PYTHONUNBUFFERED": "1",
        "NCCL_HOSTID": f"netfold-gpu-check-{rank}",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,COLL,ENV" if len(named) > 3 else "INIT,NET",
        "NCCL_DEBUG_FILE": str(folder / f"nccl-{rank}.log"),
        **named,
    }


# -- Runs --


def start_ranks(
    name: str, folder: pathlib.Path, named: Dict[str, str], options: Optional[Dict[str, Any]] = None
) -> List[Child]:
    """Starts both ranks with a scenario."""
    arguments = json.dumps({"store": str(folder / "store"), **(options or {})})
    command = [sys.executable, "-m", "netfold.gpu_check._ranks", name, arguments]
    return [Child(command, folder / f"rank-{rank}.log", environment(rank, folder, named)) for rank in range(RANKS)]


def run_ranks(
    context: Context,
    name: str,
    named: Dict[str, str],
    *,
    switch: Optional[SwitchProcess] = None,
    options: Optional[Dict[str, Any]] = None,
    during: Callable[[List[Child]], None] = lambda _: None,
) -> Run:
    """Runs a scenario on both ranks to its end; what a rank reports is merged."""
    folder = context.folder(name)
    children = start_ranks(name, folder, named, options)

    def logs() -> List[str]:
        paths = [folder / f"nccl-{rank}.log" for rank in range(RANKS)]
        return [path.read_text(errors="replace") if path.exists() else "" for path in paths]

    try:
        wait_all(children, context.timeout, lambda rank: f"rank {rank}", lambda: during(children))
    except Failure as failure:
        warnings = [line for log in logs() for line in log.splitlines() if "WARN" in line][:6]
        raise Failure("\n    ".join([str(failure), *warnings])) from None
    return Run(merged_reports(children), logs(), switch.counters() if switch is not None else {})


def no_wrong_elements(reports: Reports) -> None:
    """Fails where a rank found a wrong element."""
    for rank, values in enumerate(reports):
        if values.get("wrong") != 0:
            raise Failure(f"rank {rank} found {values.get('wrong')} wrong elements: {'; '.join(values.get('failed', []))}")


# -- Checks --


def load(context: Context) -> Figures:
    """NCCL loads the plugin; the lines of its log are figures."""
    with SwitchProcess(context.folder("switch")) as switch:
        # Without the variable, NCCL gives a communicator that was split from another one no CollNet.
        named = {**plugin(context, switch, force=True), "NCCL_COMM_SPLIT_SHARE_RESOURCES": "1"}
        run = run_ranks(context, "all_reduce", named, switch=switch, options={"counts": [1]})
    used = run.switch()
    no_wrong_elements(run.reports)
    lines = [line for line in run.logs[0].splitlines() if TELLING.search(line)]
    return {"plugin": named["NCCL_NET_PLUGIN"], "collnet": used, "log": lines[:40]}


def all_reduce(context: Context) -> Figures:
    """All-reduces by the switch: types, operations, sizes, many in flight."""
    with SwitchProcess(context.folder("switch")) as switch:
        run = run_ranks(context, "all_reduce", plugin(context, switch, force=True), switch=switch, options={"bind": False})
    used = run.switch()
    no_wrong_elements(run.reports)
    if run.packets() < run.reports[0]["cases"]:
        raise Failure(f"the switch received only {run.packets()} packets: NCCL reduced by itself")
    part = max(values["error_of_bound"] for values in run.reports)
    return {
        "cases": run.reports[0]["cases"],
        "elements": run.reports[0]["elements"],
        "wrong": 0,
        "error_of_bound": part,
        "collnet": used,
        "switch_packets": run.packets(),
    }


def messages(context: Context) -> Figures:
    """All-gathers, reduce-scatters, sends and the rest over the plugin's net, with CollNet present."""
    with SwitchProcess(context.folder("switch")) as switch:
        run = run_ranks(context, "messages", plugin(context, switch, force=False), switch=switch)
    run.switch()
    no_wrong_elements(run.reports)
    return {"cases": run.reports[0]["cases"], "wrong": 0}


def rates(context: Context) -> Figures:
    """Times by the switch, over the plugin's net alone, and by NCCL's own sockets."""
    found: Figures = {}
    with SwitchProcess(context.folder("switch")) as switch:
        runs = [("collnet", plugin(context, switch, force=True), switch), ("net", plugin(context, None, force=False), None)]
        for name, named, used in [*runs, ("nccl_sockets", own_network(), None)]:
            context.progress(f"rates: {name}")
            run = run_ranks(context, "rates", named, switch=used)
            if used is not None:
                run.switch()
            for kind in ("all_reduce", "exchange"):
                slowest = [max(pair) for pair in zip(*([seconds for _, seconds in values[kind]] for values in run.reports))]
                sizes = [size for size, _ in run.reports[0][kind]]
                found[f"{name}_{kind}_us"] = {str(size): round(each * 1e6, 1) for size, each in zip(sizes, slowest)}
    return found


def training(context: Context) -> Figures:
    """DDP and FSDP2 train over the plugin as they do over NCCL's own network."""
    context.progress("training: NCCL without the plugin")
    own = run_ranks(context, "train", own_network())
    context.progress("training: NCCL with the plugin")
    with SwitchProcess(context.folder("switch")) as switch:
        run = run_ranks(context, "train", plugin(context, switch, force=True), switch=switch)
    run.switch()
    figures: Figures = {"switch_packets": run.packets()}
    return {**figures, **compare_losses(run.reports, own.reports, LOSS_TOLERANCE)}


def compare_losses(reports: Reports, own: Reports, tolerance: float, mode: str = "") -> Figures:
    """The losses of a training beside those over NCCL's own network; fails where one differs by more than ``tolerance`` of its value."""
    figures: Figures = {}
    for kind in ("ddp", "fsdp2"):
        pairs: List[Tuple[float, float]] = []
        for mine, theirs in zip(reports, own):
            pairs += zip(mine.get(kind, []), theirs.get(kind, []))
        if not pairs:
            figures[f"{kind}_skipped"] = reports[0].get(f"{kind}_missing", "no losses")
            continue
        name = f"{kind}_{mode}" if mode else kind
        difference = max(abs(mine - theirs) / abs(theirs) for mine, theirs in pairs)
        figures[f"{name}_loss_first_last"] = [reports[0][kind][0], reports[0][kind][-1]]
        figures[f"{kind}_nccl_loss_first_last"] = [own[0][kind][0], own[0][kind][-1]]
        figures[f"{name}_relative_difference"] = difference
        # A comparison with NaN is false.
        if not difference <= tolerance:
            raise Failure(f"{name}: losses differ from those over NCCL by {difference:.2e} of their value; {tolerance:g} is allowed")
    return figures


def switch_loss(context: Context) -> Figures:
    """The switch's process is killed while ranks reduce: the sums stay right and NCCL goes on."""
    folder = context.folder("switch")
    with SwitchProcess(folder) as switch:
        killed = folder / "killed"

        def during(children: List[Child]) -> None:
            if not killed.exists() and all(len(child.reports()) >= 10 for child in children):
                switch.kill()
                killed.touch()

        named = plugin(context, switch, force=True)
        run = run_ranks(context, "lose_switch", named, options={"killed": str(killed)}, during=during)
    run.switch()
    no_wrong_elements(run.reports)
    return {
        "steps": run.reports[0]["steps"],
        "wrong": 0,
        "longest_step_s": round(max(values["longest_seconds"] for values in run.reports), 3),
    }


def rank_loss(context: Context) -> Figures:
    """A rank is killed while both reduce: the other one ends with an error, and does not hang."""
    folder = context.folder("rank_loss")
    with SwitchProcess(context.folder("switch")) as switch:
        children = start_ranks("until_killed", folder, {**plugin(context, switch, force=True), **AT_ONCE})
        try:
            until(
                lambda: all(len(child.reports()) >= 10 for child in children) or any(child.code is not None for child in children),
                children,
                context.timeout,
                "ten all-reduces",
            )
            if any(child.code is not None for child in children):
                raise Failure(next(child for child in children if child.code is not None).explain("a rank"))
            children[1].kill()
            log = folder / "nccl-0.log"
            logged = until(lambda: LOST_LINE.search(log.read_text(errors="replace")) is not None, children, 30.0, "an error")
            ended = until(lambda: children[0].code is not None, children, context.timeout, "the end of the rank that was left")
        finally:
            for child in children:
                child.kill()
    if children[0].code == 0:
        raise Failure("the rank that was left ended without an error")
    return {"error_after_s": round(logged, 2), "ended_after_s": round(logged + ended, 2)}


def no_switch(context: Context) -> Figures:
    """The switch does not answer: the plugin refuses CollNet, and NCCL reduces over the plugin's net."""
    with SwitchProcess(context.folder("switch")) as switch:
        named = plugin(context, switch, force=False)
    run = run_ranks(context, "all_reduce", named, options={"counts": [1, 5_000, 1_048_577]})
    no_wrong_elements(run.reports)
    for rank, log in enumerate(run.logs):
        if COLLNET_LINE.search(log) or not REFUSED_LINE.search(log):
            raise Failure(f"the plugin did not refuse CollNet on rank {rank}:\n    {excerpt(log)}")
    match = REFUSED_LINE.search(run.logs[0])
    return {"cases": run.reports[0]["cases"], "wrong": 0, "refusal": match[0] if match else ""}


CHECKS = (
    Check("nccl-load", "NCCL loads the plugin's net and CollNet, by its own log", missing, load),
    Check("nccl-all-reduce", "all-reduces by the switch: types, operations and sizes, every element compared", missing, all_reduce),
    Check("nccl-messages", "all-gather, reduce-scatter, send and others over the plugin's net, every element compared", missing, messages),
    Check("nccl-training", "DDP and FSDP2 over the plugin: losses beside those of NCCL without it", missing, training),
    Check("nccl-switch-loss", "the switch is killed during all-reduces: sums stay right", missing, switch_loss),
    Check("nccl-no-switch", "the switch does not answer: CollNet is refused, NCCL reduces by itself", missing, no_switch),
    Check("nccl-rank-loss", "a rank is killed during all-reduces: the other one ends with an error", missing, rank_loss),
    Check("nccl-rates", "times of all-reduces and messages: by the switch, over the plugin's net, by NCCL's sockets", missing, rates),
)
