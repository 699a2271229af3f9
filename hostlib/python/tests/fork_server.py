"""Forks ranks from a process that has imported torch and netfold.torch, and netfold.triton where there is Triton: each import takes more than a second of processor time.

`fork_server.py SOCKET`, started by `conftest.ForkServer`, reads a request for each message of the Unix socket with that file descriptor:
a program, its arguments and its environment, with the file for its output attached. It answers with the process, and later with its exit
code. A rank ends as if it had been started by itself, with the interpreter's finalization and its exit handlers.
"""

import contextlib
import faulthandler
import json
import os
import runpy
import select
import signal
import socket
import sys

import torch  # noqa: F401

import netfold.torch  # noqa: F401

with contextlib.suppress(ImportError):
    import netfold.triton  # noqa: F401

#: Bytes of the largest request, most of them its environment.
LARGEST = 1 << 20


def report_exits(requests):
    """Sends the exit codes of all ranks that have ended."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        requests.send(json.dumps({"process": process, "code": os.waitstatus_to_exitcode(status)}).encode())


def serve(requests):
    """Forks a process for each request. Returns the request in the new process, and None when there are no more."""
    exits, exited = socket.socketpair()
    exited.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(exited.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([requests, exits], [], [])
        if exits in ready:
            exits.recv(LARGEST)
            report_exits(requests)
        if requests not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 1)
        if not message:
            return None
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            exits.close()
            exited.close()
            os.dup2(descriptors[0], 1)
            os.dup2(descriptors[0], 2)
            os.close(descriptors[0])
            return json.loads(message)
        os.close(descriptors[0])
        requests.send(json.dumps({"process": process}).encode())


def main():
    # A forked process has a copy of the calling thread alone, and of locks that other threads held.
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        sys.exit(f"imports started threads, {len(threads)} in all: ranks cannot be forked")
    requests = socket.socket(fileno=int(sys.argv[1]))
    request = serve(requests)
    requests.close()
    if request is None:
        return
    os.environ.clear()
    os.environ.update(request["environment"])
    faulthandler.enable()
    sys.argv = [request["program"], *request["arguments"]]
    sys.path[0] = os.path.dirname(request["program"])
    runpy.run_path(request["program"], run_name="__main__")


if __name__ == "__main__":
    main()
