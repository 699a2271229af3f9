"""``python -m netfold.demo``, with and without numpy."""

import os
import subprocess
import sys

import pytest

from netfold import demo

QUICK = ["--workers", "2", "--size", "1", "--iterations", "1"]


def run(*arguments, path=""):
    """Runs the demonstration; ``path`` is searched first for modules."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
    return subprocess.run([sys.executable, "-m", "netfold.demo", *arguments], env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("mode", ["bfp16", "bfp32"])
@pytest.mark.parametrize("with_numpy", [True, False])
def test_the_sums_are_compared_and_correct(tmp_path, mode, with_numpy):
    if with_numpy:
        pytest.importorskip("numpy")
    else:
        (tmp_path / "numpy.py").write_text("raise ImportError\n")
    done = run(*QUICK, "--mode", mode, path=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, ""), done
    assert f"by {'numpy' if with_numpy else 'Python'};" in done.stdout, done.stdout
    assert "MB/s" in done.stdout and done.stdout.endswith("The results are correct.\n"), done.stdout
    assert len(done.stdout.splitlines()) == 6, done.stdout


def reports(**changes):
    """What two workers report, the second with changes."""
    first = {"seconds": "0.1", "error": "1e-9", "digest": "a"}
    return [first, {**first, **changes}]


@pytest.mark.parametrize("changes, code", [({}, 0), ({"error": "0.1"}, 1), ({"error": "nan"}, 1), ({"digest": "b"}, 1)])
def test_wrong_results_are_a_failure(capsys, changes, code):
    options = demo.parse(QUICK)
    assert demo.report(options, reports(**changes)) == code
    assert ("correct" in capsys.readouterr().out) == (code == 0)


def test_a_single_wrong_element_is_found():
    count = 3 * demo.PERIOD
    result = demo.expand(demo.contribution(0), count)
    assert demo.largest_error(result, 1) == 0.0
    result[count - 1] += 0.25
    assert demo.largest_error(result, 1) == pytest.approx(0.25, abs=1e-6)


def test_help_and_invalid_arguments():
    done = run("--help")
    assert done.returncode == 0 and "--workers" in done.stdout and "examples:" in done.stdout
    for invalid in (["--workers", "0"], ["--size", "x"], ["--mode", "i32"]):
        done = run(*invalid)
        assert (done.returncode, done.stdout) == (2, ""), done
