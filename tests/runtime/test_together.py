"""Evaluations, means and the end, over workers that come, go and are killed meanwhile."""

import json
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
        for step, means, average, _ in lines:
            assert means["number"] == MEAN
            assert average == {"step": step}
            assert found.setdefault(step, means) == means
    return found


def wait_held(job: Job, task: str) -> None:
    job._wait_for(lambda: (job.folder / f"held.{task}").exists(), f"{task} held", LONG)


@pytest.mark.parametrize("form", ["epochs", "head", "tail"])
def test_a_worker_killed_in_an_evaluation(form: str, tmp_path: Path) -> None:
    at = {"epochs": tasks.STEPS, "head": 2, "tail": 2}[form]
    args = ("--form", form, "--hold", f"worker-1@{at}", "--epochs", "2")
    with Job(tmp_path, *args, script=TOGETHER, workers=3) as job:
        wait_held(job, "worker-1")
        job.kill("worker-1")
        outcome = job.finish()
    assert outcome.history.lost == {"worker-1": "signal 9"}
    steps = 2 * tasks.STEPS
    found = check_notes(tmp_path)
    if form == "epochs":
        assert list(found) == [tasks.STEPS, steps]
    # In the evaluation that the dead one was in, two were left.
    assert {lines[-1][3] for task, lines in notes(tmp_path).items() if task != "worker-1"} == {2}
    check_result(tmp_path, "cnn", steps)
