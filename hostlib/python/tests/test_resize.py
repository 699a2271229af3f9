"""Jobs that shrink and grow in place."""

from __future__ import annotations

import threading

import numpy
import pytest

import netfold

from conftest import LIMIT, free_port


def total(comm, own, members):
    """Sums the contributions of the processes ``members``."""
    sums = numpy.full(3001, own + 1.0, numpy.float32)
    comm.all_reduce(sums)
    assert (sums == sum(member + 1.0 for member in members)).all()


@pytest.mark.parametrize("linked", [False, True])
def test_a_job_continues_without_a_lost_rank_and_admits_a_new_one(switch, linked):
    # A rank that dies while others still wait for a result takes it with it.
    stepped, shrunk = threading.Barrier(3), threading.Barrier(3)
    results, errors = {}, []

    def first(own, rendezvous):
        options = {"rendezvous": rendezvous, "shared_memory": False} if linked else {}
        comm = netfold.Communicator(own, 3, job="resized", switch=switch.address, resizable=True, join_timeout=LIMIT, **options)
        assert comm.generation == 1
        total(comm, own, [0, 1, 2])
        stepped.wait(LIMIT)
        if own == 1:
            comm.abort()
            comm.close()
            return
        with pytest.raises(netfold.Error) as caught:
            while True:
                total(comm, own, [0, 1, 2])
        assert caught.value.advice in ("retry", "shrink")
        found = comm.shrink(timeout=LIMIT)
        assert found == netfold.Membership(2, own // 2, 2, 2, [1]), found
        assert (comm.rank, comm.world_size, comm.generation) == (own // 2, 2, 2)
        total(comm, own, [0, 2])
        shrunk.wait(LIMIT)
        found = comm.grow(1, timeout=LIMIT)
        assert (found.generation, found.world_size, found.survivors, found.lost) == (3, 3, 2, [])
        finish(comm, own)

    def joins(own):
        shrunk.wait(LIMIT)
        options = {"shared_memory": False} if linked else {}
        comm = netfold.Communicator(job="resized", switch=switch.address, join_running=True, join_timeout=LIMIT, **options)
        finish(comm, own)

    def finish(comm, own):
        total(comm, own, [0, 2, 7])
        results[own] = comm.rank
        comm.close()

    def guarded(body, *arguments):
        try:
            body(*arguments)
        except BaseException as error:
            errors.append(error)
            stepped.abort()
            shrunk.abort()

    rendezvous = f"127.0.0.1:{free_port()}"
    bodies = [(first, own, rendezvous) for own in range(3)] + [(joins, 7)]
    threads = [threading.Thread(target=guarded, args=body, daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    if errors:
        raise errors[0]
    assert results == {0: 0, 2: 1, 7: 2}


def test_errors_of_resizing(ranks, switch):
    def body(comm):
        with pytest.raises(netfold.ArgumentError):
            comm.shrink(timeout=1)
        with pytest.raises(netfold.ArgumentError):
            comm.grow(0)
        assert comm.generation == 0 and comm.membership_address is None

    ranks(2, body)
    with netfold.Communicator(0, 1, job="alone", switch=switch.address, resizable=True) as comm:
        with pytest.raises(netfold.NotResized) as caught:
            comm.grow(1, timeout=0.1)
        assert (caught.value.kind, caught.value.advice) == ("not_resized", "retry")
        assert comm.shrink(timeout=30) == netfold.Membership(2, 0, 1, 1, [])
        comm.barrier()
