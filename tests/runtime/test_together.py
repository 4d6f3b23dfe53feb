"""Evaluations, means and the end, over workers that come, go and are killed meanwhile."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.scripts import tasks
from tests.runtime.scripts.jobs import LONG, Job, check_result

TOGETHER = Path(__file__).parent / "scripts" / "together.py"
MEAN = (50 - 1) / 2
"""Of the numbers of 50 samples, if each counts once."""


def notes(folder: Path) -> dict[str, list[Any]]:
    """What each worker noted, in order."""
    files = folder.glob("notes.*")
    return {f.suffix[1:]: [json.loads(line) for line in f.read_text().splitlines()] for f in files}


def check_notes(folder: Path) -> dict[int, Any]:
    """Every result counts each sample once, and all workers got the same; the results by step."""
    found: dict[int, Any] = {}
    for lines in notes(folder).values():
        for step, means, average, _, counts in lines:
            assert means["number"] == MEAN
            assert average == {"step": step}
            assert not counts or found.setdefault(step, means) == means
    return found


def wait_held(job: Job, task: str) -> None:
    limit = time.monotonic() + LONG
    while not (job.folder / f"held.{task}").exists():
        assert time.monotonic() < limit, f"{task} never came to the point where it waits"
        time.sleep(0.02)  # between two looks: nothing tells of a file


@pytest.mark.parametrize(
    ("form", "servers", "owners"),
    [
        ("epochs", 0, "reduce"),
        ("head", 0, "reduce"),
        ("tail", 0, "reduce"),
        pytest.param("tail", 1, "reduce", marks=pytest.mark.slow),
        pytest.param("epochs", 0, "update", marks=pytest.mark.slow),
        pytest.param("head", 1, "update", marks=pytest.mark.slow),
    ],
)
def test_a_worker_killed_in_an_evaluation(form: str, servers: int, owners: str, tmp_path: Path) -> None:
    at = {"epochs": tasks.STEPS, "head": 2, "tail": 2}[form]
    args = ("--form", form, "--hold", f"worker-1@{at}", "--epochs", "2")
    how = {"sync": "dedicated" if servers else "sharded"} if servers or owners == "update" else {}
    with Job(tmp_path, *args, script=TOGETHER, workers=3, servers=servers, owners=owners, **how) as job:
        wait_held(job, "worker-1")
        job.kill("worker-1")
        outcome = job.finish()
    assert outcome.history.lost == {"worker-1": "signal 9"}
    steps = 2 * tasks.STEPS
    found = check_notes(tmp_path)
    if form == "epochs":
        assert list(found) == [tasks.STEPS, steps]
    # In the evaluation that the dead one was in, two were left.
    left = (lines for task, lines in notes(tmp_path).items() if task in ("worker-0", "worker-2"))
    assert {lines[-1][3] for lines in left} == {2}
    check_result(tmp_path, "cnn", steps)


def test_workers_come_and_go_between_evaluations(tmp_path: Path) -> None:
    with Job(tmp_path, "--form", "tail", "--pace", "0.03", "--epochs", "25", script=TOGETHER) as job:
        for count in (3, 2):
            job.ahead(2)
            job.change(count)
        job.ahead(5)
        job.finish()
    check_notes(tmp_path)
    assert len(notes(tmp_path)) == 3, "whoever joined took part"
    check_result(tmp_path, "cnn", 25 * tasks.STEPS)


@pytest.mark.parametrize("form", ["epochs", "tail"])
def test_one_worker_that_stops_stops_all_with_a_checkpoint(form: str, tmp_path: Path) -> None:
    stop = 2 * tasks.STEPS if form == "epochs" else 5
    args = ("--form", form, "--stop", str(stop), "--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, *args, script=TOGETHER, workers=2) as job:
        outcome = job.finish()
    # In the body of step 6 five steps are done; the step itself counts, and none follows it.
    steps = stop if form == "epochs" else stop + 1
    assert outcome.history.step == steps
    assert max(saved.step for saved in outcome.history.saved) == steps
    check_notes(tmp_path)
    check_result(tmp_path, "cnn", steps)


@pytest.mark.parametrize("seconds", [5, pytest.param(15, marks=pytest.mark.slow)])
def test_a_busy_worker_is_waited_for_however_long(seconds: int, tmp_path: Path) -> None:
    args = ("--form", "none", "--busy", f"3={seconds}", "--epochs", "2")
    with Job(tmp_path, *args, script=TOGETHER, workers=2, deadline=2.0) as job:
        job.wait_step(3, LONG)
        job.resize(3)  # it can join as soon as the others go on
        outcome = job.finish()
    assert outcome.history.lost == {}
    check_result(tmp_path, "cnn", 2 * tasks.STEPS)


def test_newcomers_that_fail_leave_the_job_alone(tmp_path: Path) -> None:
    args = ("--form", "none", "--fail", "joiner", "--pace", "0.05", "--epochs", "10000")
    with Job(tmp_path, *args, script=TOGETHER, workers=2, replace=True) as job:
        job.ahead(2)
        job.resize(3)
        job._wait_for(lambda: bool(job.history.refusal), "refusal", LONG)
        job.wait_members(2, LONG)
        with pytest.raises(TimeoutError, match="failed before their first step: worker-4: KeyError"):
            job.wait_members(3, 0.0)
        job.ahead(2)
        job.stop("enough")
        outcome = job.finish()
    assert outcome.history.refusal == (
        "3 workers in a row failed before their first step: worker-4: KeyError: "
        "'worker-4 lacks what the others have'"
    )
    assert outcome.history.lost == {
        f"worker-{n}": f"KeyError: 'worker-{n} lacks what the others have'" for n in (2, 3, 4)
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kills_at_any_moment(seed: int, tmp_path: Path) -> None:
    chance, form = random.Random(seed), ("head", "tail", "epochs")[seed % 3]
    args = ("--form", form, "--pace", "0.02", "--epochs", "10000")
    with Job(tmp_path, *args, script=TOGETHER, workers=3, replace=True) as job:
        for _ in range(4):
            job.wait_members(3, LONG)
            job.ahead(chance.randint(2, 6))
            time.sleep(chance.random() / 10)  # anywhere in a step
            # One that is a member: a newcomer that is killed before is not started again.
            job.kill(chance.choice(sorted(set(job.history.members) & set(job.pids))))
        job.wait_members(3, LONG)
        outcome = job.end()
    assert set(outcome.history.lost.values()) == {"signal 9"}
    check_notes(tmp_path)
