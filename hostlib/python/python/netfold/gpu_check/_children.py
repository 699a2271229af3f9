"""Child processes with a time limit, which report values by lines ``RESULT {...}`` and are killed with what they started."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

#: Lines of a failed process's output that a failure shows.
SHOWN_LINES = 12

#: How often processes are looked at, in seconds.
INTERVAL = 0.05


class Failure(Exception):
    """A check failed; the message says how."""


class Child:
    """One child process, which leads a process group of its own; its output goes to a file."""

    def __init__(self, command: Sequence[str], output: pathlib.Path, env: Optional[Mapping[str, str]] = None) -> None:
        self.output = output
        with open(output, "wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )

    @property
    def code(self) -> Optional[int]:
        """The exit code; ``None`` while it runs."""
        return self._process.poll()

    def text(self) -> str:
        """What it has written so far."""
        return self.output.read_text(errors="replace")

    def reports(self) -> List[Dict[str, Any]]:
        """The values of its complete lines ``RESULT {...}``."""
        lines = self.text().split("\n")[:-1]
        return [json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT ")]

    def kill(self) -> None:
        """Ends it and what it started. Does nothing after its end."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def explain(self, what: str) -> str:
        """How it failed, with the end of its output."""
        code = self.code
        how = "did not end" if code is None else f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        lines = [line for line in self.text().splitlines() if line.strip()][-SHOWN_LINES:]
        return "\n    ".join([f"{what} {how}; the end of its output:" if lines else f"{what} {how} without output", *lines])


def merged_reports(children: Sequence[Child]) -> List[Dict[str, Any]]:
    """Of each child, the values of all its reports."""
    return [{name: value for values in child.reports() for name, value in values.items()} for child in children]


def wait_all(
    children: Sequence[Child], timeout: float, name: Callable[[int], str], during: Callable[[], None] = lambda: None
) -> None:
    """Waits until all have ended well. Kills all when one fails or the time is over.

    ``name`` says what the child of an index is; ``during`` is called repeatedly.
    """
    deadline = time.monotonic() + timeout
    try:
        while any(child.code is None for child in children):
            for index, child in enumerate(children):
                if child.code not in (None, 0):
                    raise Failure(child.explain(name(index)))
            if time.monotonic() > deadline:
                late = next(index for index, child in enumerate(children) if child.code is None)
                raise Failure(f"after {timeout:g} s, {children[late].explain(name(late))}")
            during()
            time.sleep(INTERVAL)
        for index, child in enumerate(children):
            if child.code != 0:
                raise Failure(child.explain(name(index)))
    finally:
        for child in children:
            child.kill()


def until(condition: Callable[[], bool], children: Sequence[Child], timeout: float, what: str) -> float:
    """Waits for a condition, and returns the seconds that it took. Kills all children when the time is over."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() > started + timeout:
            for child in children:
                child.kill()
            raise Failure(f"after {timeout:g} s, {what} had not happened; {children[0].explain('rank 0')}")
        time.sleep(INTERVAL)
    return time.monotonic() - started


def run_one(command: Sequence[str], timeout: float, what: str) -> List[Dict[str, Any]]:
    """Runs one process to its end, and returns what it reported."""
    with tempfile.TemporaryDirectory(prefix="netfold-gpu-check-") as folder:
        child = Child(command, pathlib.Path(folder) / "output")
        wait_all([child], timeout, lambda _: what)
        reports = child.reports()
        if not reports:
            raise Failure(child.explain(what))
        return reports


def end_with_parent() -> None:
    """Ends this process soon after the one that started it, however that ends: a command that is killed leaves nothing running."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class SwitchProcess:
    """A software switch in a process of its own, which can be killed."""

    def __init__(self, folder: pathlib.Path, timeout: float = 30.0) -> None:
        self._child = Child([sys.executable, "-m", "netfold.gpu_check._switch", str(folder / "switch.json")], folder / "switch.log")
        self._counters = folder / "switch.json"
        deadline = time.monotonic() + timeout
        while not self._child.reports():
            if self._child.code is not None or time.monotonic() > deadline:
                failure = Failure(self._child.explain("the software switch"))
                self.close()
                raise failure
            time.sleep(INTERVAL)
        #: ``IP:PORT`` at which workers join.
        self.address: str = self._child.reports()[0]["address"]

    def counters(self) -> Dict[str, int]:
        """The switch's counters, at most a second old."""
        known: Dict[str, int] = json.loads(self._counters.read_text())
        return known

    def kill(self) -> None:
        """Kills the process, as a crash would."""
        self._child.kill()

    def close(self) -> None:
        """Ends the process."""
        self._child.kill()

    def __enter__(self) -> "SwitchProcess":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
