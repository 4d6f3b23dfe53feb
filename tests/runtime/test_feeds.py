"""Everyday data in real processes: workers come, go and die, and the result is that of one process."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from muster.runtime.data.given import DataOptions, feed_of
from muster.runtime.data.samples import Position
from tests.runtime.scripts import feeds, tasks
from tests.runtime.scripts.jobs import CLOSE, LONG, Job

SCRIPT = Path(feeds.__file__)
PACED = ("--pace", "0.03")


def plain(kind: str, steps: int) -> dict[str, torch.Tensor]:
    """The parameters after the same training in this process."""
    model, optimizer, data = tasks.make("cnn")
    source, how = feeds.given(kind, data)
    batch = {"batch": feeds.BATCH, **how}
    feed = feed_of(source, DataOptions(**batch), pin=False)[0]
    position, threads = Position(), torch.get_num_threads()
    torch.set_num_threads(1)  # as many as a worker has: a busy machine is slow with more
    while position.step < steps:
        part = feed.part(position, [feed.batch], 0, "")
        optimizer.zero_grad()
        tasks.losses(model, *feed.load(position, part)).mean().backward()
        optimizer.step()
        position = feed.after(position, [], [])
    feed.close()
    torch.set_num_threads(threads)
    state: dict[str, torch.Tensor] = model.state_dict()
    return state


def check(folder: Path, kind: str, steps: int) -> None:
    state, alone = torch.load(folder / "out.pt"), plain(kind, steps)
    assert torch.allclose(state["tally"], alone["tally"], atol=1e-6)  # each sample as often
    assert tasks.worst(state, alone) < CLOSE


def end(job: Job) -> int:
    job.stop("enough")
    outcome = job.finish()
    return outcome.history.step


@pytest.mark.parametrize(
    "kind",
    [
        "weighted",
        "augmented",
        "stream",
        pytest.param("buckets", marks=pytest.mark.slow),
        pytest.param("loader", marks=pytest.mark.slow),
    ],
)
def test_resized_and_killed(kind: str, tmp_path: Path) -> None:
    with Job(tmp_path, "--kind", kind, *PACED, script=SCRIPT, workers=1) as job:
        job.ahead(3)
        job.change(3)
        job.ahead(6)
        job.kill("worker-1")
        job.wait_members(2, LONG)
        job.ahead(3)
        steps = end(job)
    check(tmp_path, kind, steps)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unsure", ["worker-1 drew other samples than worker-0 for step 1", "sampler and seed"]),
        ("shorter", ["worker-1 has another dataset than worker-0: 88 samples instead of 96"]),
        (
            "others",
            ["worker-1 has another dataset than worker-0: other contents of sample 0"],
        ),
    ],
)
def test_workers_with_different_data_are_refused(kind: str, words: list[str], tmp_path: Path) -> None:
    with Job(tmp_path, "--kind", kind, script=SCRIPT, workers=2) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    for word in words:
        assert word in outcome.error
    assert "\n" not in outcome.error
    assert outcome.history.step <= 0


def loaders_of(pid: int) -> list[int]:
    """The child processes of a task."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_loader_that_is_killed_fails_the_job_with_a_clear_line(tmp_path: Path) -> None:
    with Job(tmp_path, "--kind", "augmented", *PACED, script=SCRIPT, workers=2) as job:
        job.ahead(3)
        loaders: list[Any] = [loaders_of(pid) for pid in job.pids.values()]
        assert [len(one) for one in loaders] == [2, 2]
        os.kill(loaders[1][0], signal.SIGKILL)
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "was killed by SIGKILL: out of memory? Take fewer loaders=" in outcome.error
