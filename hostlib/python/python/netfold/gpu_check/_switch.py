"""The software switch of the checks: ``python -m netfold.gpu_check._switch COUNTERS``. It runs until it is killed.

It prints its address, and writes its counters to the file ``COUNTERS`` as JSON five times a second.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

import netfold

from ._children import end_with_parent

#: Seconds between two reports of the counters.
INTERVAL = 0.2


def main() -> None:
    """Runs the switch for as long as the process that started it lives."""
    end_with_parent()
    counters = pathlib.Path(sys.argv[1])
    with netfold.Switch() as switch:
        write(counters, switch)
        print("RESULT " + json.dumps({"address": switch.address}), flush=True)
        while True:
            time.sleep(INTERVAL)
            write(counters, switch)


def write(path: pathlib.Path, switch: netfold.Switch) -> None:
    """Replaces the file, so that a reader never sees half of it."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(switch.counters()))
    partial.replace(path)


if __name__ == "__main__":
    main()
