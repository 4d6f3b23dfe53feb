"""A job of real processes under the launcher: started, resized, killed, its coordinator restarted."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.runtime.launch.launcher import JobOverError, Launch
from muster.runtime.launch.tasks import Tasks

TASK = Path(__file__).with_name("pretended_task.py")
LONG = 60.0
"""Seconds that a busy machine may take."""

Start = Callable[..., Launch]


@pytest.fixture(scope="module")
def tasks() -> Iterator[Tasks]:
    """One fork server for all jobs here: it takes seconds to load."""
    with Tasks() as fork_server:
        yield fork_server


@pytest.fixture
def launch(tasks: Tasks) -> Start:
    """A job of pretended tasks."""

    def make(folder: Path, *args: str, **options: Any) -> Launch:
        return Launch(TASK, (str(folder), *args), deadline=5.0, tasks=tasks, **options)

    return make


def finish(folder: Path) -> None:
    (folder / "finish").touch()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_job_runs_to_its_end(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, "20", workers=2, logs=tmp_path / "logs") as job:
        outcome = job.wait(LONG)
        assert job.pids == {}
    assert (outcome.code, outcome.error) == (0, "")
    assert outcome.history.step == 20
    # Each of the two reported 20 steps of 4 samples.
    assert outcome.history.samples == 2 * 20 * 4
    assert outcome.history.losses[4] == 1 / 4
    assert [change.cause for change in outcome.history.changes] == ["start"]
    assert outcome.history.lost == {}
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "hello from worker-1\n"


def test_resizes_up_and_down(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path) as job:
        job.wait_members(1, LONG)
        first = job.pids["worker-0"]
        for count in (3, 2, 4):
            job.resize(count)
            job.wait_members(count, LONG)
        assert job.pids["worker-0"] == first
        # 3: workers 0, 1, 2. 2: the newest, 2, left. 4: names are not used twice, so 3 and 4 came.
        assert job.history.members == ("worker-0", "worker-1", "worker-3", "worker-4")
        finish(tmp_path)
        outcome = job.wait(LONG)
    assert outcome.code == 0
    assert outcome.history.lost == {}
    assert [change.formation for change in outcome.history.changes] == [1, 2, 3, 4]


def test_a_killed_worker_is_noted_and_the_others_go_on(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, workers=3) as job:
        job.wait_members(3, LONG)
        assert job.kill("worker-1")
        job.wait_members(2, LONG)
        assert job.history.members == ("worker-0", "worker-2")
        finish(tmp_path)
        outcome = job.wait(LONG)
    assert outcome.code == 0
    assert outcome.history.lost == {"worker-1": "signal 9"}
    assert outcome.history.changes[-1].lost == ("worker-1",)


def test_a_killed_worker_is_replaced(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, workers=2, replace=True) as job:
        job.wait_members(2, LONG)
        job.kill("worker-0")
        job.wait_formation(3, LONG)
        assert job.history.members == ("worker-1", "worker-2")
        finish(tmp_path)
        assert job.wait(LONG).code == 0


def test_all_workers_gone_is_a_restart_while_there_are_any_left(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, workers=2, restarts=1) as job:
        job.wait_members(2, LONG)
        for task in ("worker-0", "worker-1"):
            job.kill(task, signal.SIGKILL)
        job._wait_for(lambda: job.history.members == ("worker-2", "worker-3"), "restart", LONG)
        for task in ("worker-2", "worker-3"):
            job.kill(task, signal.SIGKILL)
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "all workers are gone" in outcome.error
    assert set(outcome.history.lost) == {"worker-0", "worker-1", "worker-2", "worker-3"}


def test_an_error_of_the_users_ends_the_job(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, workers=2) as job:
        job.wait_step(3, LONG)
        (tmp_path / "fail-worker-1").touch()
        outcome = job.wait(LONG)
        assert job.pids == {}
        with pytest.raises(JobOverError, match="the loss is a mean"):
            job.wait_step(10**6, LONG)
    assert (outcome.code, outcome.error) == (1, "worker-1: ValueError: the loss is a mean")
    assert outcome.history.trace == "a trace"


@pytest.mark.parametrize("noticed", [False, True])
def test_the_coordinator_may_be_away(launch: Start, tmp_path: Path, noticed: bool) -> None:
    with launch(tmp_path, workers=2) as job:
        job.wait_step(5, LONG)
        pids = job.pids
        job.stop_coordinator()
        step = job.history.step
        deadline = time.monotonic() + LONG
        job.kill("worker-1")  # found out by worker-0 alone, told later
        while noticed and "worker-1" in job.pids:
            assert time.monotonic() < deadline
        job.start_coordinator()
        job.wait_members(1, LONG)
        job.wait_step(step + 20, deadline - time.monotonic())
        assert job.pids == {"worker-0": pids["worker-0"]}
        job.resize(2)
        job.wait_members(2, LONG)
        assert job.history.members == ("worker-0", "worker-2")
        finish(tmp_path)
        outcome = job.wait(LONG)
    assert outcome.code == 0
    # Not one step was lost while nobody listened.
    assert sorted(outcome.history.losses) == list(range(1, outcome.history.step + 1))
    assert outcome.history.lost == {"worker-1": "signal 9"}


def test_it_may_end_while_the_coordinator_is_away(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path, workers=1) as job:
        job.wait_step(1, LONG)
        job.stop_coordinator()
        finish(tmp_path)
        job.start_coordinator()
        assert job.wait(LONG).code == 0


def test_a_script_that_cannot_be_imported_fails_the_job(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import no_such_module\n")
    with Launch(script, workers=2, logs=tmp_path, tasks=tasks) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert outcome.error == "all workers are gone: worker-0 (exit code 1), worker-1 (exit code 1)"
    assert "No module named 'no_such_module'" in (tmp_path / "worker-0.log").read_text()


def test_a_script_that_never_tells_is_fine(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text("print(6 * 7)\n")
    with Launch(script, logs=tmp_path, tasks=tasks) as job:
        assert job.wait(LONG).code == 0


def test_what_a_script_does_after_its_training_is_waited_for(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "after-hang").touch()
    with launch(tmp_path, "5") as job:
        assert job.wait_over(LONG)
        with pytest.raises(TimeoutError, match="the training is over, and worker-0 still runs"):
            job.wait(0.01)
        assert set(job.pids) == {"worker-0"}
        (tmp_path / "after-hang").unlink()
        assert job.wait(LONG).code == 0


def test_a_script_that_does_not_end_after_its_training_fails_the_job(
    launch: Start, tmp_path: Path
) -> None:
    (tmp_path / "after-hang").touch()
    with launch(tmp_path, "5", finish_grace=0.2) as job:
        outcome = job.wait(LONG)
        assert job.pids == {}
    assert outcome.error == "worker-0 still ran 0.2 s after the training (--finish-grace)"


def test_an_error_after_the_training_fails_the_job(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "after-fail").touch()
    with launch(tmp_path, "5") as job:
        outcome = job.wait(LONG)
    assert (outcome.code, outcome.error) == (1, "worker-0 failed after its training: exit code 3")


def test_the_users_number_of_threads_counts(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "threads.py"
    script.write_text(
        "import muster, torch\n"
        "print(torch.get_num_threads())\n"
        "torch.set_num_threads(2)\n"
        "muster.init()\n"
        "print(torch.get_num_threads())\n"
    )
    environ = {**os.environ, "OMP_NUM_THREADS": "3"}
    with Launch(script, logs=tmp_path, tasks=tasks, environ=environ) as job:
        job.wait(LONG)
    assert (tmp_path / "worker-0.log").read_text() == "3\n2\n"


def test_leaving_the_context_kills_all(tmp_path: Path) -> None:
    with Launch(TASK, (str(tmp_path),), workers=2) as job:
        job.wait_step(1, LONG)
        pids = list(job.pids.values())
    assert len(pids) == 2
    assert all(map(is_gone, pids))


def test_devices_are_shared_out(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "device.py"
    script.write_text("import os\nprint(os.environ['MUSTER_DEVICE'], os.environ['OMP_NUM_THREADS'])\n")
    with Launch(
        script, workers=3, devices=["cuda:0", "cpu"], threads=2, logs=tmp_path, tasks=tasks
    ) as job:
        job.wait(LONG)
    lines = [(tmp_path / f"worker-{number}.log").read_text() for number in range(3)]
    assert lines == ["cuda:0 2\n", "cpu 2\n", "cuda:0 2\n"]


def test_waits_end_in_time(launch: Start, tmp_path: Path) -> None:
    with launch(tmp_path) as job:
        job.wait_step(1, LONG)
        with pytest.raises(TimeoutError, match="no step 1000000000 within"):
            job.wait_step(10**9, 0.01)
        with pytest.raises(TimeoutError, match="still runs"):
            job.wait(0.01)
