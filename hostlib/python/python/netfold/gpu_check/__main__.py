"""The command ``netfold-gpu-check``."""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import time
from typing import Any, List, Optional, Sequence

import netfold

from . import _nccl, _quantize, _tensors
from ._registry import Check, Context, Failure, Figures, Result

#: The modules whose ``CHECKS`` are run, in this order.
MODULES: Sequence[Any] = (_nccl, _tensors, _quantize)

PASSED, FAILED, USAGE, NOTHING_RAN, INTERRUPTED = 0, 1, 2, 3, 130

#: Figures of a check that the table shows; all are in ``--json``.
SHOWN = 4

EPILOG = """\
exit codes:
  0    all checks that ran passed
  1    a check failed
  2    wrong usage
  3    nothing ran: every check was skipped, for the reason shown
  130  interrupted

examples:
  netfold-gpu-check
  netfold-gpu-check --nccl-plugin target/release/libnccl_net_netfold.so --json figures.json
  netfold-gpu-check --only nccl-all-reduce --logs /tmp/logs
"""


def checks() -> List[Check]:
    """All checks."""
    return [check for module in MODULES for check in module.CHECKS]


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command; returns the exit code."""
    options = parse(arguments)
    selected = [check for check in checks() if options.only is None or check.name in options.only]
    if options.list:
        width = max(len(check.name) for check in selected)
        for check in selected:
            print(f"{check.name:<{width}}  {check.description}")
        return PASSED
    context = Context(options.nccl_plugin, options.timeout, progress, options.logs)
    try:
        progress(f"netfold {netfold.__version__}: {context.machine.describe()}")
        results = [run(check, context) for check in selected]
    finally:
        context.close()
    print(table(results), flush=True)
    if options.json is not None:
        write_json(options.json, context, results)
    outcomes = {result.outcome for result in results}
    return FAILED if "failed" in outcomes else PASSED if "passed" in outcomes else NOTHING_RAN


def parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="netfold-gpu-check",
        description="Check Netfold on a GPU. One GPU suffices: two ranks share it, on a software switch that the command starts.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [check.name for check in checks()]
    parser.add_argument("--list", action="store_true", help="print the checks and exit")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="run this check; may be given repeatedly")
    parser.add_argument("--nccl-plugin", metavar="PATH", help="the NCCL plugin (default: installed, or built in this source tree)")
    parser.add_argument("--json", metavar="FILE", type=writable, help="write the results, with all figures, as JSON")
    parser.add_argument("--logs", metavar="DIR", type=pathlib.Path, help="keep the logs of NCCL and of child processes there")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=180.0, help="kill a child process after this time (default: 180)"
    )
    return parser.parse_args(arguments)


def writable(text: str) -> pathlib.Path:
    """A file that can be written, found out before anything runs. What it holds is kept until there are results."""
    path = pathlib.Path(text)
    try:
        path.open("ab").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written: {error.strerror}; name a file in a folder that exists") from None
    return path


def seconds(text: str) -> float:
    """A positive, finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of seconds")
    return value


def progress(line: str) -> None:
    """Prints what is going on, at once."""
    print(line, flush=True)


def run(check: Check, context: Context) -> Result:
    """Runs one check, and says how it ended."""
    reason = check.missing(context)
    if reason is not None:
        progress(f"{check.name}: skipped: {reason}")
        return Result(check.name, "skipped", reason)
    progress(f"{check.name}: {check.description}")
    started = time.monotonic()
    try:
        figures = check.run(context)
    except Failure as failure:
        result = Result(check.name, "failed", str(failure))
    except (OSError, ValueError, LookupError, netfold.Error) as error:
        result = Result(check.name, "failed", f"{type(error).__name__}: {error}")
    else:
        result = Result(check.name, "passed", figures=figures)
    result.seconds = round(time.monotonic() - started, 2)
    progress(f"{check.name}: {result.outcome} after {result.seconds:.1f} s{': ' + result.reason if result.reason else ''}")
    return result


def table(results: Sequence[Result]) -> str:
    """A line for each check: its name, outcome, time, and the first figures."""
    width = max((len(result.name) for result in results), default=0)
    lines = ["", f"{'check':<{width}}  outcome  seconds  figures"]
    for result in results:
        lines.append(f"{result.name:<{width}}  {result.outcome:<7}  {result.seconds:7.1f}  {summary(result)}".rstrip())
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in ("passed", "failed", "skipped")}
    return "\n".join([*lines, "", ", ".join(f"{count} {outcome}" for outcome, count in counts.items())])


def summary(result: Result) -> str:
    """The first figures, or the first line of the reason."""
    if result.reason:
        return result.reason.splitlines()[0]
    shown = {name: value for name, value in result.figures.items() if isinstance(value, (int, float, str))}
    return ", ".join(f"{name} {short(value)}" for name, value in list(shown.items())[:SHOWN])


def short(value: Any) -> str:
    """A figure with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_json(path: pathlib.Path, context: Context, results: Sequence[Result]) -> None:
    """Writes everything that was found out."""
    machine: Figures = context.machine.facts
    found = {"version": netfold.__version__, "machine": machine, "checks": [vars(result) for result in results]}
    path.write_text(json.dumps(found, indent=2) + "\n")


def command() -> None:
    """The console script."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    command()
