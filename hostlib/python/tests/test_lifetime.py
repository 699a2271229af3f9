"""Threads, event loops, forks, and who keeps memory."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

import netfold

numpy = pytest.importorskip("numpy")


def test_awaiting_many(ranks):
    def body(comm):
        async def work():
            tensors = [numpy.full(1000, comm.rank + i, numpy.int32) for i in range(20)]
            sums = await asyncio.gather(*(comm.all_reduce_async(tensor) for tensor in tensors))
            done = comm.all_reduce_async(numpy.ones(1, numpy.float32))
            done.wait()
            return [int(each[0]) for each in sums], float((await done)[0])

        return asyncio.run(asyncio.wait_for(work(), 60))

    for sums, last in ranks(2, body):
        assert sums == [1 + 2 * i for i in range(20)] and last == 2.0


def test_a_failure_is_raised_where_it_is_awaited(ranks):
    def body(comm):
        async def work():
            with pytest.raises(netfold.Mismatch):
                await comm.all_reduce_async(numpy.ones(10 + comm.rank, numpy.float32))

        asyncio.run(asyncio.wait_for(work(), 60))

    ranks(2, body)


def test_an_await_that_is_cancelled_does_no_harm(ranks):
    gate = threading.Barrier(2)

    def body(comm):
        async def work():
            started = comm.all_reduce_async(numpy.full(10, 1.0, numpy.float32)) if comm.rank == 0 else None
            if started is not None:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(_await(started), 0.05)
            await asyncio.get_running_loop().run_in_executor(None, gate.wait, 30)
            if started is None:
                started = comm.all_reduce_async(numpy.full(10, 1.0, numpy.float32))
            return (await started)[0]

        return asyncio.run(work())

    assert ranks(2, body) == [2.0, 2.0]


async def _await(work):
    return await work


def test_others_run_while_one_waits(ranks):
    """Rank 0 waits for rank 1, which is a thread of the same interpreter and must compute before it calls."""

    def body(comm):
        counted = 0
        if comm.rank == 1:
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                counted += 1
        comm.all_reduce(numpy.ones(10, numpy.float32))
        return counted

    assert ranks(2, body)[1] > 1000


def test_a_wait_with_a_limit_can_be_repeated(ranks):
    gate = threading.Barrier(2)

    def body(comm):
        if comm.rank == 1:
            gate.wait(30)
            return comm.all_reduce(numpy.ones(10, numpy.float32))[0]
        work = comm.all_reduce_async(numpy.ones(10, numpy.float32))
        with pytest.raises(netfold.Timeout) as caught:
            work.wait(0.05)
        assert caught.value.kind == "wait_timeout" and caught.value.advice == "retry" and not work.done()
        gate.wait(30)
        return work.wait(60.0)[0]

    assert ranks(2, body) == [2.0, 2.0]


def test_tensors_are_kept_until_the_operation_is_over(ranks):
    gate = threading.Barrier(2)

    class Array(numpy.ndarray):
        """One that can be referred to weakly."""

    def body(comm):
        tensor = numpy.ones(100_000, numpy.float32).view(Array)
        reference = weakref.ref(tensor)
        if comm.rank == 0:
            work = comm.all_reduce_async(tensor)
            del tensor, work
            gc.collect()
            assert reference() is not None, "the memory is still being written to"
            gate.wait(30)
        else:
            gate.wait(30)
            comm.all_reduce_async(tensor)
            del tensor
        comm.barrier()
        comm.barrier()
        gc.collect()
        return reference() is None

    assert ranks(2, body) == [True, True]


def test_memory_of_buffers_is_given_back(ranks):
    def body(comm):
        grown = bytearray(4000)
        comm.all_reduce(grown, dtype="i32")
        grown.extend(b"more")  # A buffer that is exported cannot be resized.
        return len(grown)

    assert ranks(2, body) == [4004, 4004]


def test_a_forked_child_is_told_and_does_not_hang(switch):
    comm = netfold.Communicator(0, 1, job="fork", switch=switch.address)
    comm.all_reduce(numpy.ones(3, numpy.float32))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            comm.all_reduce(numpy.ones(3, numpy.float32))
        except netfold.Forked:
            code = 2
            try:
                switch.counters()
            except netfold.Forked:
                del comm
                gc.collect()
                code = 42
        finally:
            os._exit(code)
    deadline = time.monotonic() + 30
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.WEXITSTATUS(status) == 42
    comm.all_reduce(numpy.ones(3, numpy.float32))
    comm.close()


def program(text: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=60)


def test_a_process_may_end_with_everything_open():
    done = program(
        """
        import netfold, numpy
        switch = netfold.Switch()
        one = netfold.Communicator(0, 1, job="a", switch=switch.address)
        work = one.all_reduce_async(numpy.ones(1000, numpy.float32))
        work.add_done_callback(lambda it: print("called"))
        print("end")
        """
    )
    assert done.returncode == 0 and "end" in done.stdout and not done.stderr, done


def test_a_forked_child_may_end_in_any_way():
    done = program(
        """
        import netfold, numpy, os, sys
        switch = netfold.Switch()
        one = netfold.Communicator(0, 1, job="a", switch=switch.address)
        child = os.fork()
        if child == 0:
            sys.exit(7)  # runs exit handlers and collects objects
        status = os.waitpid(child, 0)[1]
        one.all_reduce(numpy.ones(3, numpy.float32))
        print("status", os.WEXITSTATUS(status))
        """
    )
    assert done.returncode == 0 and "status 7" in done.stdout and not done.stderr, done


def test_ctrl_c_ends_a_wait():
    done = program(
        """
        import netfold, numpy, os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
        switch = netfold.Switch()
        made = {}
        def join(rank):
            made[rank] = netfold.Communicator(rank, 2, job="a", switch=switch.address)
        threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            made[0].all_reduce(numpy.ones(3, numpy.float32))
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert "interrupted" in done.stdout, done
