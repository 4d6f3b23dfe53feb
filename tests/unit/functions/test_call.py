"""Calls and their results as files: what another Python, a bad pickle or a notebook makes of them."""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.functions.call import CALL, CallError, read_result, results_of, write_call
from muster.functions.errors import FunctionError
from muster.functions.outcome import values_of
from muster.functions.task import main
from muster.wire.api.records import JobRecord


@dataclass
class Done:
    """How a task ended, and what it printed."""

    returncode: int
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run_task(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the call of a folder as a job's task does."""

    def run(folder: Path, task: str = "worker-0") -> Done:
        monkeypatch.setenv("MUSTER_TASK", task)
        monkeypatch.chdir(folder)
        return Done(main(), capfd.readouterr().err)

    return run


def over(status: str = "succeeded", **more: str) -> JobRecord:
    return JobRecord(12, "f", "ada", "default", status, **more)  # type: ignore[arg-type]


def test_the_value_comes_back(tmp_path: Path, run_task: Run) -> None:
    factor = 3
    write_call(tmp_path, lambda x, y: (x + y) * factor, (1,), {"y": 2})
    assert run_task(tmp_path).returncode == 0
    assert values_of(tmp_path, over()) == [9]


def test_another_python_refuses_in_one_line(tmp_path: Path, run_task: Run) -> None:
    write_call(tmp_path, print, (), {})
    first, _, rest = (tmp_path / CALL).read_bytes().partition(b"\n")
    header = {**json.loads(first), "python": "3.9"}
    (tmp_path / CALL).write_bytes(json.dumps(header).encode() + b"\n" + rest)
    done = run_task(tmp_path)
    assert done.returncode == 1
    assert "muster: print was pickled by Python 3.9, but" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(CallError, match="submit it from the same version"):
        values_of(tmp_path, over("failed"))


def test_another_cloudpickle_refuses_too(tmp_path: Path, run_task: Run) -> None:
    write_call(tmp_path, print, (), {})
    first, _, rest = (tmp_path / CALL).read_bytes().partition(b"\n")
    header = {**json.loads(first), "cloudpickle": "2.0"}
    (tmp_path / CALL).write_bytes(json.dumps(header).encode() + b"\n" + rest)
    assert "pip install cloudpickle==2.0" in run_task(tmp_path).stderr


def test_what_cannot_be_pickled_says_so_before_it_is_sent(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="print cannot be pickled"):
        write_call(tmp_path, print, (sys.stdout.buffer,), {})


def test_a_result_that_cannot_be_pickled_says_so(tmp_path: Path, run_task: Run) -> None:
    write_call(tmp_path, threading.Lock, (), {})
    assert run_task(tmp_path).returncode == 1
    with pytest.raises(CallError, match="its result, a lock, cannot be pickled"):
        values_of(tmp_path, over("failed"))


def test_a_death_is_told_with_its_job(tmp_path: Path) -> None:
    gone = over("failed", error="worker-0 ended with exit code 7\nlast line")
    with pytest.raises(FunctionError) as raised:
        values_of(tmp_path, gone)
    assert str(raised.value) == "job 12 (f) failed: worker-0 ended with exit code 7 (muster logs 12)"
    assert raised.value.number == 12


def test_a_huge_result_is_told_with_its_size(
    tmp_path: Path, run_task: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.functions.task.HUGE", 2_000_000)
    monkeypatch.setattr("muster.functions.outcome.HUGE", 2_000_000)
    write_call(tmp_path, bytes, (3_000_000,), {})
    assert f"result: 3 MB in {tmp_path}" in run_task(tmp_path).stderr
    with pytest.warns(
        ResourceWarning, match=r"the result of job 12 \(f\) is 3 MB, in .*worker-0.result"
    ):
        assert values_of(tmp_path, over()) == [bytes(3_000_000)]


def test_results_are_in_the_order_of_ranks(tmp_path: Path, run_task: Run) -> None:
    write_call(tmp_path, len, ("four",), {})
    for task in ("worker-10", "worker-2", "worker-0"):
        assert run_task(tmp_path, task).returncode == 0
    assert [path.stem for path in results_of(tmp_path)] == ["worker-0", "worker-2", "worker-10"]
    assert read_result(tmp_path / "worker-2.result")[1] == 4
