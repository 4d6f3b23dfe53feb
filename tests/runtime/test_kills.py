"""Tasks are killed (-9) at any moment: those who are left lose neither a step nor a sample."""

import random
import signal
import time
from pathlib import Path

import pytest
from tests.runtime.scripts.jobs import LONG, Job, check_result

KILLS = 25
"""With each of two ways to synchronise: 50 in all."""
EPOCHS = 60
PACED = ("--epochs", str(EPOCHS), "--pace", "0.03")


def trainers(job: Job) -> list[str]:
    """Living workers that had samples in the last step: they hold the state."""
    living = job.pids
    last, generation = job.history.step, job.history.generation
    recent = [d for d in job.record.done[-20:] if d.samples]
    found = {d.task for d in recent if (d.step, d.generation) == (last, generation)}
    return sorted(task for task in found if task in living)


@pytest.mark.parametrize("sync", ["ring", "sharded"])
def test_kills_at_random_points(sync: str, tmp_path: Path) -> None:
    rng = random.Random(5 if sync == "ring" else 6)
    epochs = 400
    args = ("--model", "cnn", "--epochs", str(epochs), "--pace", "0.01")
    with Job(tmp_path, *args, workers=3, sync=sync, replace=True) as job:
        for _ in range(KILLS):
            job.ahead(rng.randint(1, 4))
            # With two that hold the state one is left, whoever goes.
            assert job.watch(lambda _: len(trainers(job)) >= 2, LONG)
            members = sorted(set(job.history.members) & set(job.pids))
            # Not to wait for anything: it is the random place within a step, of 10 ms and more.
            time.sleep(rng.random() * 0.02)
            victim = rng.choice(members)
            assert job.kill(victim)
        killed_by = job.history.step
        outcome = job.finish()
    assert killed_by < 4 * epochs
    assert list(outcome.history.lost.values()).count("signal 9") == KILLS
    check_result(tmp_path, "cnn", epochs)
