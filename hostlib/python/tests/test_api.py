"""Collectives on numpy arrays, ranks as threads."""

import array
import os
import pickle
import threading
import time

import pytest

import netfold

from conftest import free_port

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("mode", ["bfp32", "bfp16"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("count", [0, 1, 1000, 100_003])
def test_sums_of_floats_are_within_the_bound(ranks, mode, dtype, count):
    world = 3
    inputs = [numpy.random.default_rng(rank).standard_normal(count).astype(dtype) for rank in range(world)]

    def body(comm):
        mine = inputs[comm.rank].copy()
        assert comm.all_reduce(mine) is mine
        return mine

    results = ranks(world, body, mode=mode)
    exact = sum(each.astype(numpy.float64) for each in inputs)
    steps = {"bfp32": 2.0**-24, "bfp16": 2.0**-12}[mode] + (2.0**-10 if dtype == "float16" else 0.0)
    for result in results:
        assert result.tobytes() == results[0].tobytes()
        if count:
            assert numpy.abs(result - exact).max() <= 16 * steps


@pytest.mark.parametrize(
    "op, dtype, fold",
    [
        ("sum", "int32", numpy.add),
        ("min", "int32", numpy.minimum),
        ("max", "int32", numpy.maximum),
        ("sum", "int64", numpy.add),
        ("product", "int64", numpy.multiply),
        ("band", "uint8", numpy.bitwise_and),
        ("bor", "uint16", numpy.bitwise_or),
        ("bxor", "uint32", numpy.bitwise_xor),
        ("sum", "float64", numpy.add),
        ("max", "float32", numpy.maximum),
    ],
)
def test_other_reductions_are_exact(ranks, op, dtype, fold):
    inputs = [numpy.random.default_rng(7 + rank).integers(0, 100, 4099).astype(dtype) for rank in range(3)]
    results = ranks(3, lambda comm: comm.all_reduce(inputs[comm.rank].copy(), op))
    want = fold(fold(inputs[0], inputs[1]), inputs[2])
    for result in results:
        numpy.testing.assert_array_equal(result, want)


def test_groups_are_split_by_color_and_key(ranks):
    def body(comm):
        with pytest.raises(netfold.ArgumentError, match="color -1"):
            comm.split(-1)
        with comm.split(comm.rank // 2, -comm.rank) as pair:
            assert (pair.rank, pair.world_size, pair.mode) == (1 - comm.rank % 2, 2, "bfp16")
            assert "switch" in pair.path
            total = pair.all_reduce(numpy.full(1000, comm.rank, numpy.float32))
        odd = comm.split(comm.rank % 2 if comm.rank % 2 else None)
        assert (odd is None) == (comm.rank % 2 == 0)
        if odd is not None:
            odd.close()
        comm.barrier()
        return int(total[0])

    assert ranks(4, body, mode="bfp16") == [1, 1, 5, 5]


def test_a_group_has_a_job_and_a_name(ranks, switch):
    port = free_port()

    def body(comm):
        named = {"job": "named", "group": "tp", "switch": switch.address, "rendezvous": f"127.0.0.1:{port}"}
        with netfold.Communicator(comm.rank, 2, shared_memory=False, **named) as group:
            assert "switch" in group.path
            return int(group.all_reduce(numpy.ones(10, numpy.int32))[0])

    assert ranks(2, body) == [2, 2]
    with pytest.raises(netfold.ArgumentError, match="slash"):
        netfold.Communicator(0, 1, group="a/b", switch=switch.address)


def test_average_out_of_place_leaves_the_input_alone(ranks):
    def body(comm):
        mine = numpy.full((3, 5), float(comm.rank), numpy.float32)
        out = numpy.zeros_like(mine)
        assert comm.all_reduce(mine, "avg", out=out) is out
        assert (mine == comm.rank).all()
        return out

    for result in ranks(2, body):
        assert (result == 0.5).all()


def test_error_feedback_delivers_what_rounding_drops(ranks):
    steps, count = 60, 3000

    def gradient(rank, step):
        values = numpy.random.default_rng((rank, step)).standard_normal(count).astype(numpy.float32) * 1e-4
        values[::100] = 64.0 if step % 2 else -64.0  # the quantum follows these
        return values

    def body(comm):
        residual = numpy.zeros(count, numpy.float32)
        fed, plain = numpy.zeros(count), numpy.zeros(count)
        for step in range(steps):
            mine = gradient(comm.rank, step)
            fed += comm.all_reduce(mine.copy(), residual=residual)
            plain += comm.all_reduce(mine)
        return fed, plain, residual

    results = ranks(2, body, mode="bfp16")
    exact = sum(gradient(rank, step).astype(numpy.float64) for rank in range(2) for step in range(steps))
    fed, plain, _ = results[0]
    left = sum(residual.astype(numpy.float64) for *_, residual in results)
    quiet = numpy.arange(count) % 100 != 0
    assert (plain[quiet] == 0).all(), "alone, they vanish"
    numpy.testing.assert_allclose(fed + left, exact, atol=1e-4)
    assert (left != 0).any() and numpy.abs(left).max() < 0.01
    assert results[1][0].tobytes() == fed.tobytes()


def test_residuals_that_do_not_fit_are_refused(ranks):
    def body(comm):
        tensor = numpy.ones(8, numpy.float32)
        residual = numpy.zeros(8, numpy.float32)
        read_only = numpy.zeros(8, numpy.float32)
        read_only.flags.writeable = False
        odd = numpy.frombuffer(bytearray(40), numpy.uint8)[1:33].view(numpy.float32)
        for bad, kind in [
            (numpy.zeros(7, numpy.float32), "length"),
            (numpy.zeros(8, numpy.float64), "wrong_dtype"),
            (numpy.zeros(16, numpy.float32)[::2], "not_contiguous"),
            (read_only, "read_only"),
            (tensor, "overlap"),
            (odd, "argument"),
            ("residual", "wrong_type"),
        ]:
            with pytest.raises(netfold.ArgumentError) as refused:
                comm.all_reduce(tensor, residual=bad)
            assert refused.value.kind == kind, refused.value
        for wrong in (dict(op="max"), dict(op="product")):
            with pytest.raises(netfold.ArgumentError) as refused:
                comm.all_reduce(tensor, residual=residual, **wrong)
            assert refused.value.kind == "unsupported"
        with pytest.raises(netfold.ArgumentError):
            comm.all_reduce(tensor.astype(numpy.float16), residual=residual)
        assert (tensor == 1).all()
        out = numpy.zeros_like(tensor)
        comm.all_reduce(tensor, "avg", out=out, residual=residual)
        assert (out == 1).all() and (tensor == 1).all() and (residual == 0).all()

    ranks(2, body)


def test_stochastic_rounding_is_right_on_average_and_repeats(ranks):
    count = 20_000

    def sums(**options):
        def body(comm):
            mine = numpy.full(count, 0.1 * 2.0**-12, numpy.float32)  # a fifth of a quantum, 2^-13
            mine[::128] = 1.0
            return comm.all_reduce(mine)

        first, second = ranks(2, body, mode="bfp16", **options)
        assert first.tobytes() == second.tobytes()
        return first

    quiet = numpy.arange(count) % 128 != 0
    assert (sums()[quiet] == 0).all()
    drawn = sums(rounding="stochastic", seed=9)
    assert abs(drawn[quiet].mean() / (0.2 * 2.0**-12) - 1) < 0.1
    assert drawn.tobytes() == sums(rounding="stochastic", seed=9).tobytes()
    assert drawn.tobytes() != sums(rounding="stochastic", seed=10).tobytes()
    with pytest.raises(netfold.ArgumentError, match="nearest or stochastic"):
        netfold.Communicator(0, 1, rounding="up", rendezvous="127.0.0.1:1")
    with pytest.raises(netfold.ArgumentError, match="mantissas"):
        netfold.Communicator(0, 1, rounding="stochastic", mode="float", rendezvous="127.0.0.1:1")


def test_every_collective(ranks):
    world = 3

    def body(comm):
        rank = comm.rank
        reduced = comm.reduce(numpy.full(10, rank + 1, numpy.int32), root=1)
        assert (reduced == (6 if rank == 1 else rank + 1)).all()
        everywhere = comm.broadcast(numpy.full((2, 2), float(rank)), root=2)
        assert (everywhere == 2.0).all() and everywhere.dtype == numpy.float64
        gathered = comm.all_gather(numpy.array([rank, -rank], numpy.int64))
        assert gathered.shape == (world, 2) and gathered[:, 0].tolist() == [0, 1, 2]
        part = comm.reduce_scatter(numpy.arange(world * 4, dtype=numpy.int32).reshape(world * 2, 2))
        assert part.shape == (2, 2) and part.flatten().tolist() == [world * (4 * rank + i) for i in range(4)]
        exchanged = comm.all_to_all(numpy.arange(world, dtype=numpy.int32) + 10 * rank)
        assert exchanged.tolist() == [rank, 10 + rank, 20 + rank]
        comm.barrier()
        # Types that the library cannot add travel all the same where nothing is added.
        flags = comm.all_gather(numpy.array([rank == 1]))
        assert flags.flatten().tolist() == [False, True, False]

    ranks(world, body)


def test_many_in_flight_in_order(ranks):
    def body(comm):
        works = [comm.all_reduce_async(numpy.full(1000 + i, comm.rank + i, numpy.int32)) for i in range(50)]
        return [int(work.wait()[0]) for work in works]

    for result in ranks(2, body):
        assert result == [1 + 2 * i for i in range(50)]


def test_other_kinds_of_memory(ranks):
    def body(comm):
        grown = bytearray(numpy.full(6, comm.rank + 1, numpy.int32).tobytes())
        comm.all_reduce(grown, dtype="i32")
        doubles = array.array("f", [1.0, 2.0])
        comm.all_reduce(doubles)
        view = memoryview(numpy.ones(8, numpy.float32))[2:6]
        comm.all_reduce(view)
        brain = (numpy.array([1.0, 2.5], numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
        comm.all_reduce(brain, dtype="bf16")
        return numpy.frombuffer(grown, numpy.int32).tolist(), doubles.tolist(), view.tolist(), (
            (brain.astype(numpy.uint32) << 16).view(numpy.float32).tolist()
        )

    for integers, floats, view, brain in ranks(2, body):
        assert integers == [3] * 6 and floats == [2.0, 4.0] and view == [2.0] * 4 and brain == [2.0, 5.0]


def test_a_rank_that_never_comes_is_not_waited_for_longer_than_asked(switch):
    with pytest.raises(netfold.Timeout):
        netfold.Communicator(0, 2, job="alone", switch=switch.address, join_timeout=0.3, fall_back=False)


def test_reports_and_non_finite_values(ranks):
    def body(comm):
        mine = numpy.ones(5000, numpy.float32)
        if comm.rank == 1:
            mine[4000] = numpy.inf
        work = comm.all_reduce_async(mine)
        result = work.wait()
        assert not numpy.isfinite(result[4000]) and result[0] == 2.0
        return work.report(), work.exception(), work.done(), repr(work)

    for report, exception, done, shown in ranks(2, body):
        assert report["elements"] == 5000 and exception is None and done and "done" in shown


def test_callbacks_come_on_a_thread_of_the_package(ranks):
    def body(comm):
        called = threading.Event()
        names = []
        work = comm.all_reduce_async(numpy.ones(10, numpy.float32))
        work.add_done_callback(lambda it: (names.append((threading.current_thread().name, it is work)), called.set()))
        assert called.wait(30)
        called_after = threading.Event()
        work.add_done_callback(lambda it: called_after.set())
        assert called_after.wait(30)
        return names

    for [(name, same)] in ranks(2, body):
        assert same and name != "MainThread"


def test_different_calls_raise_on_every_rank(ranks):
    def body(comm):
        with pytest.raises(netfold.Mismatch) as caught:
            comm.all_reduce(numpy.ones(100 + comm.rank, numpy.float32))
        with pytest.raises(netfold.Error) as again:
            comm.barrier()
        return caught.value, again.value

    for first, again in ranks(2, body):
        assert first.kind == "mismatch" == again.kind and first.advice == "stop"
        assert isinstance(pickle.loads(pickle.dumps(first)), netfold.Mismatch)


def test_a_rank_that_leaves_is_noticed(ranks):
    started = threading.Barrier(2)

    def body(comm):
        started.wait(30)
        if comm.rank == 1:
            comm.abort()
            with pytest.raises(netfold.Error):
                comm.barrier()
            return None
        begun = time.monotonic()
        with pytest.raises(netfold.PeerLost) as caught:
            comm.all_reduce(numpy.ones(1000, numpy.float32))
        assert time.monotonic() - begun < 30
        return caught.value.peer, caught.value.advice

    assert ranks(2, body)[0] == (1, "shrink")


def test_use_after_close(switch):
    comm = netfold.Communicator(0, 1, job="one", switch=switch.address)
    comm.all_reduce(numpy.ones(3, numpy.float32))
    assert "open" not in repr(comm)
    comm.close()
    comm.close()
    assert comm.closed
    with pytest.raises(netfold.Closed):
        comm.all_reduce(numpy.ones(3, numpy.float32))


def test_public_classes_have_the_package_s_name():
    for name in netfold.__all__:
        member = getattr(netfold, name)
        if isinstance(member, type):
            assert member.__module__ == "netfold", name
    again = pickle.loads(pickle.dumps(netfold.ArgumentError("no", "argument")))
    assert type(again) is netfold.ArgumentError and again.kind == "argument"


def test_a_configured_switch_that_is_not_used_is_a_warning(ranks, switch):
    with pytest.warns(RuntimeWarning, match="all 2 ranks are on one host"):
        reasons = ranks(2, lambda comm: comm.unused_switch, shared_memory=True)
    assert reasons[0] == reasons[1] and "NETFOLD_SHARED_MEMORY=0" in reasons[0]
    assert ranks(2, lambda comm: comm.unused_switch) == [None, None]


@pytest.mark.parametrize(
    "arguments, exception",
    [
        (dict(rank=2, world_size=2), netfold.ArgumentError),
        (dict(rank=0, world_size=0), netfold.ArgumentError),
        (dict(rank=0, world_size=1, mode="bfp7"), netfold.ArgumentError),
        (dict(rank=0, world_size=1, switch="127.0.0.1:1", fall_back=False), netfold.Unreachable),
        (dict(rank=0, world_size=1, switch="nowhere"), netfold.Unreachable),
    ],
)
def test_what_cannot_be_is_refused(arguments, exception):
    with pytest.raises(exception) as caught:
        netfold.Communicator(**arguments)
    assert caught.value.kind and str(caught.value)


def test_rank_and_world_come_from_the_environment(monkeypatch):
    from netfold import _environment, _netfold

    pairs = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
    for name in (*[name for pair in pairs for name in pair], "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for names in pairs:
        with monkeypatch.context() as context:
            with pytest.raises(netfold.ArgumentError, match="torchrun, mpirun or srun"):
                _environment.place(None, None)
            context.setenv("SLURM_STEP_ID", "0")
            context.setenv(names[0], "1")
            with pytest.raises(netfold.ArgumentError, match=f"{names[1]} is not"):
                _environment.place(None, None)
            context.setenv(names[1], "4")
            assert _environment.place(None, None) == (1, 4)
            assert _environment.place(3, None) == (3, 4)
            context.setenv(names[0], "one")
            with pytest.raises(netfold.ArgumentError, match=names[0]):
                _environment.place(None, None)
            assert _environment.place(1, 2) == (1, 2)
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    with pytest.raises(netfold.ArgumentError):  # a batch script, which is one process
        _environment.place(None, None)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert _netfold.launched() == ("slurm", 0, 4, "slurm-17.0") and _netfold.launchers_job() == "slurm-17.0"
    with pytest.raises(netfold.ArgumentError):
        _netfold.launched("pbs")


def test_switches():
    with netfold.Switch(payload=256, slots=64) as switch:
        assert switch.running and switch.address.startswith("127.0.0.1:") and switch.counters()["results"] == 0
        with pytest.raises(netfold.Error):
            netfold.Switch(switch.address)
    assert not switch.running and switch.counters() is None
    with pytest.raises(netfold.ArgumentError):
        netfold.Switch(payload=77)
    with pytest.raises(netfold.ArgumentError):
        netfold.Switch("localhost")


@pytest.fixture
def trimming():
    """Address of a switch to which packets come trimmed; the Rust test that runs these tests starts one."""
    address = os.environ.get("NETFOLD_TEST_TRIMMING")
    if address is None:
        pytest.skip("no NETFOLD_TEST_TRIMMING: run by cargo test -p netfold-python")
    return address


@pytest.mark.parametrize("without_stragglers", [False, True])
def test_contributions_are_left_out_alike_on_all_ranks(ranks, trimming, without_stragglers):
    """A sum shows its contributors. With ``without_stragglers`` a quarter of the tolerance is for trimmed packets."""
    world, count = 3, 100_000

    def body(comm):
        mine = numpy.full(count, 2.0**comm.rank, numpy.float32)
        work = comm.all_reduce_async(mine)
        total, report = work.wait(), work.report()
        part = comm.reduce_scatter_async(numpy.full(3 * count, 2.0**comm.rank, numpy.float32), tolerance=0.1)
        scattered, less = part.wait(), part.report()
        whole = comm.all_reduce_async(numpy.full(count, 2.0**comm.rank, numpy.float32), tolerance=0)
        assert (whole.wait() == 7).all() and whole.report()["partial"] == 0
        return total, report, scattered, less

    options = {"tolerance": 0.2, "rescale": False, "without_stragglers": without_stragglers, "fall_back": False, "slots": 64}
    results = ranks(world, body, switch=trimming, **options)
    sums = set(numpy.unique(results[0][0]))
    assert sums <= set(range(8)) and len(sums) > 1, sums
    for total, report, scattered, less in results:
        assert total.tobytes() == results[0][0].tobytes()
        assert report["partial"] == results[0][1]["partial"] > 0
        assert 0 < report["left_out"] <= report["chunks"] // 5
        assert less["left_out"] <= less["chunks"] // 10 and set(numpy.unique(scattered)) <= set(range(8))
    assert results[0][3]["partial"] > 0


def test_what_was_left_out_comes_later_with_a_residual(ranks, trimming):
    count, steps = 30_000, 6

    def body(comm):
        residual = numpy.zeros(count, numpy.float32)
        delivered = numpy.zeros(count, numpy.float64)
        left_out = 0
        for step in range(steps):
            mine = numpy.full(count, 1.0 + step + comm.rank, numpy.float32)
            work = comm.all_reduce_async(mine, residual=residual)
            delivered += work.wait()
            left_out += work.report()["left_out"]
        return delivered, residual, left_out

    results = ranks(2, body, switch=trimming, tolerance=0.3, rescale=False, fall_back=False, slots=64)
    sent = sum(1.0 + step + rank for step in range(steps) for rank in range(2))
    kept = sum(residual.astype(numpy.float64) for _, residual, _ in results)
    assert all(left_out > 0 for _, _, left_out in results)
    assert numpy.abs(results[0][0] + kept - sent).max() < 1e-3


@pytest.mark.parametrize("tolerance", [-0.1, 1.5, float("nan")])
def test_tolerances_that_cannot_be_are_refused(ranks, tolerance):
    with pytest.raises(netfold.ArgumentError):
        netfold.Communicator(0, 1, switch="127.0.0.1:1", tolerance=tolerance)

    def body(comm):
        with pytest.raises(netfold.ArgumentError):
            comm.all_reduce(numpy.ones(4, numpy.float32), tolerance=tolerance)

    ranks(1, body)


def key_file(folder, name, byte):
    path = folder / name
    path.write_text(f"{byte:02x}" * 32 + "\n")
    path.chmod(0o600)
    return str(path)


def test_confidential_results_are_those_of_a_plain_job(ranks, tmp_path):
    inputs = [numpy.random.default_rng(rank).standard_normal(10_000).astype(numpy.float32) for rank in range(3)]

    def body(comm):
        return comm.all_reduce(inputs[comm.rank].copy()), comm.all_gather(inputs[comm.rank])

    plain = ranks(3, body, mode="bfp16")
    confidential = ranks(3, body, mode="bfp16", confidential=key_file(tmp_path, "job.key", 7))
    for one, other in zip(plain, confidential):
        assert [part.tobytes() for part in one] == [part.tobytes() for part in other]


def test_group_keys_that_cannot_be_used_are_refused(tmp_path):
    path = key_file(tmp_path, "job.key", 7)
    at = {"switch": "127.0.0.1:1", "rendezvous": "127.0.0.1:0"}
    with pytest.raises(netfold.ArgumentError, match="modulo"):
        netfold.Communicator(0, 1, confidential=path, mode="wide", **at)
    with pytest.raises(netfold.ArgumentError, match="rendezvous"):
        netfold.Communicator(0, 1, confidential=path, switch="127.0.0.1:1")
    with pytest.raises(netfold.ArgumentError, match="tolerance"):
        netfold.Communicator(0, 1, confidential=path, tolerance=0.1, **at)
    (tmp_path / "job.key").chmod(0o644)
    with pytest.raises(netfold.ArgumentError, match="chmod 600"):
        netfold.Communicator(0, 1, confidential=path, **at)
    with pytest.raises(netfold.ArgumentError, match="absent.key"):
        netfold.Communicator(0, 1, confidential=str(tmp_path / "absent.key"), **at)
