"""How the tests start ranks: as threads of this process, or as processes of their own with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import pytest

import netfold

# Before anything imports Triton: its kernels are interpreted, on any machine.
os.environ.setdefault("TRITON_INTERPRET", "1")

HERE = pathlib.Path(__file__).parent

#: Nothing here may take longer, on a busy machine with two cores.
LIMIT = 120.0


@pytest.fixture
def switch():
    with netfold.Switch() as running:
        yield running


@pytest.fixture
def ranks(switch):
    """``ranks(world, body)`` runs ``body(communicator)`` on as many threads, one a rank, and returns what they return."""
    counter = [0]

    def run(world: int, body: Callable[[netfold.Communicator], Any], **options: Any) -> List[Any]:
        counter[0] += 1
        job = f"test-{os.getpid()}-{counter[0]}"
        rendezvous = f"127.0.0.1:{free_port()}" if world > 1 else None
        results: List[Any] = [None] * world
        errors: List[BaseException] = []

        def one(rank: int) -> None:
            try:
                named = {"join_timeout": 30.0, "switch": switch.address, "shared_memory": False, **options}
                with netfold.Communicator(rank, world, job=job, rendezvous=rendezvous, **named) as comm:
                    results[rank] = body(comm)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(world)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + LIMIT
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in threads), "a rank hangs"
        if errors:
            raise errors[0]
        return results

    return run


def free_port() -> int:
    """A port for a server that is bound later, below those that Linux gives to sockets that asked for none."""
    while True:
        port = random.randrange(10_240, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Outcome:
    """How a rank's process ended, and the values that it reported."""

    def __init__(self, code: int, output: str) -> None:
        self.code = code
        self.output = output
        self.values: Dict[str, Any] = {}
        for line in output.splitlines():
            if line.startswith("RESULT "):
                self.values.update(json.loads(line[len("RESULT ") :]))

    def __getitem__(self, name: str) -> Any:
        assert name in self.values, f"'{name}' was not reported:\n{self.output}"
        return self.values[name]


class ForkedRank:
    """A process that the fork server started, with the methods of ``subprocess.Popen`` that the tests use."""

    def __init__(self, server: "ForkServer", process: int) -> None:
        self.server = server
        self.pid = process
        self.returncode: Optional[int] = None

    def wait(self, timeout: float = LIMIT) -> int:
        self.returncode = self.server.exit_code(self.pid, timeout)
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """The process of ``fork_server.py``: started by the first test that needs it, and stopped after the last test.

    If it is killed, the test that uses it fails, and the next one starts another.
    """

    _running: Optional["ForkServer"] = None

    @classmethod
    def get(cls) -> "ForkServer":
        if cls._running is None or cls._running.server.poll() is not None:
            cls._running = cls()
        return cls._running

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.codes: Dict[int, int] = {}
        command = [sys.executable, "-u", str(HERE / "fork_server.py"), str(theirs.fileno())]
        # OpenMP reads the number of its threads when torch is imported.
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.server = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()

    @classmethod
    def stop(cls) -> None:
        """Has the server end, if there is one, and waits for it."""
        if cls._running is not None:
            cls._running.socket.close()
            cls._running.server.wait()
            cls._running = None

    def start(self, program: pathlib.Path, arguments: List[str], environment: Dict[str, str], output: Any) -> ForkedRank:
        request = {"program": str(program), "arguments": arguments, "environment": environment}
        socket.send_fds(self.socket, [json.dumps(request).encode()], [output.fileno()])
        while True:
            answer = self._receive(LIMIT)
            if "code" not in answer:
                return ForkedRank(self, answer["process"])

    def exit_code(self, process: int, timeout: float) -> int:
        """Waits for a process, at most so many seconds."""
        deadline = time.monotonic() + timeout
        while process not in self.codes:
            self._receive(max(0.0, deadline - time.monotonic()))
        return self.codes[process]

    def _receive(self, timeout: float) -> Dict[str, int]:
        if not select.select([self.socket], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("fork_server.py", timeout)
        message = self.socket.recv(4096)
        assert message, f"the fork server ended with {self.server.wait()}"
        answer = json.loads(message)
        if "code" in answer:
            self.codes[answer["process"]] = answer["code"]
        return answer


def pytest_sessionfinish() -> None:
    ForkServer.stop()


class Processes:
    """Ranks of a scenario of ``torch_ranks.py``, or of a program with arguments, each a process.

    ``forked`` processes come from the fork server, where torch is already imported.
    """

    def __init__(
        self,
        scenario: str,
        world: int,
        environment: Optional[Dict[str, str]] = None,
        program: str = "torch_ranks.py",
        forked: bool = True,
    ) -> None:
        port = str(free_port())
        self.files = []
        self.processes: List[Any] = []
        for rank in range(world):
            env = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "OMP_NUM_THREADS": "1",
                "PYTHONFAULTHANDLER": "1",
                # The switch itself, and not what is faster on one host.
                "NETFOLD_SHARED_MEMORY": "0",
                **(environment or {}),
            }
            output = tempfile.TemporaryFile("w+")
            self.files.append(output)
            if forked:
                self.processes.append(ForkServer.get().start(HERE / program, scenario.split(), env, output))
                continue
            command = [sys.executable, "-u", str(HERE / program), *scenario.split()]
            self.processes.append(subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT))

    def wait(self, limit: float = LIMIT) -> List[Outcome]:
        deadline = time.monotonic() + limit
        hanging = []
        for rank, process in enumerate(self.processes):
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                hanging.append(rank)
                process.kill()
                process.wait()
        outcomes = []
        for process, output in zip(self.processes, self.files):
            output.seek(0)
            outcomes.append(Outcome(process.returncode, output.read()))
            output.close()
        assert not hanging, f"ranks {hanging} hang:\n" + "\n".join(outcomes[rank].output for rank in hanging)
        return outcomes


def run_ranks(scenario: str, world: int = 2, environment: Optional[Dict[str, str]] = None, limit: float = LIMIT) -> List[Outcome]:
    """Runs a scenario to its end and checks that every rank ended well."""
    outcomes = Processes(scenario, world, environment).wait(limit)
    for rank, outcome in enumerate(outcomes):
        assert outcome.code == 0, f"rank {rank} of {scenario} ended with {outcome.code}:\n{outcome.output}"
    return outcomes
