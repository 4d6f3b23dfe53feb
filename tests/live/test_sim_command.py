"""`muster sim compare` as its own process: interrupted, killed, and gone on with."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUSTER = Path(sys.executable).parent / "muster"
CLUSTER = ROOT / "examples/clusters/t4-16x4.yaml"
SIMULATIONS = 6


def command(out: Path, *more: str) -> list[str]:
    """Six simulations of half a second or so each, two at a time."""
    trace = "philly-like:jobs=300"
    given = ("--trace", trace, "--policies", "tiresias,fifo", "--seeds", "3", "-j", "2")
    return [str(MUSTER), "sim", "compare", "--cluster", str(CLUSTER), "--out", str(out), *given, *more]


def finished(out: Path) -> int:
    """Simulations that are stored."""
    return len(list(out.glob("*/result.json")))


def midway(out: Path) -> subprocess.Popen[str]:
    """The command, in a group of processes of its own, with its first result just stored."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command(out),
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        # As at a terminal: whoever is started in the background of a shell ignores Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    while not finished(out) and process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
    return process


def gone_on(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The same command once more."""
    return subprocess.run(command(out, *more), capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What comes out when nothing happens, one after the other."""
    out = tmp_path_factory.mktemp("whole") / "out"
    done = gone_on(out, "-j", "1")
    assert done.returncode == 0, done.stderr
    return out


def compared(out: Path) -> object:
    """The comparison that is stored."""
    return json.loads((out / "comparison.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_after_ctrl_c_the_same_command_does_the_rest(tmp_path: Path, uninterrupted: Path) -> None:
    out = tmp_path / "out"
    process = midway(out)
    os.killpg(process.pid, signal.SIGINT)
    printed, told = process.communicate(timeout=60)
    done = finished(out)
    assert 1 <= done < SIMULATIONS, "otherwise it was too late to interrupt it"
    assert (process.returncode, printed) == (130, "")
    (line,) = told.splitlines()
    assert line.startswith(f"muster: stopped: {done} of {SIMULATIONS} done; repeat the command")
    assert_the_rest_is_done(out, done, uninterrupted)


@pytest.mark.slow
def test_after_a_kill_the_same_command_does_the_rest(tmp_path: Path, uninterrupted: Path) -> None:
    out = tmp_path / "out"
    process = midway(out)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    done = finished(out)
    assert process.returncode == -signal.SIGKILL
    assert 1 <= done < SIMULATIONS
    assert_the_rest_is_done(out, done, uninterrupted)


def assert_the_rest_is_done(out: Path, done: int, uninterrupted: Path) -> None:
    """Going on does what is missing, and what comes out is what would have."""
    again = gone_on(out)
    assert again.returncode == 0, again.stderr
    assert f"{done} of {SIMULATIONS} already done, {SIMULATIONS - done} to do" in again.stderr
    assert compared(out) == compared(uninterrupted)


def test_workers_end_when_the_command_alone_is_killed(tmp_path: Path) -> None:
    """Nobody is left at work unseen: the pipes close when the last process is gone."""
    process = midway(tmp_path / "out")
    process.kill()
    process.communicate(timeout=60)
    assert finished(tmp_path / "out") < SIMULATIONS


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for wrong in (("--policies", "fif"), ("--pause", "soon"), ("--trace", "poison")):
        done = subprocess.run(
            command(tmp_path / "out", *wrong), capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
