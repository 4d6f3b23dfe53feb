"""Workers killed or stopped in the middle of training, and what it costs those who are left."""

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from support.runtime_marks import Gap, all_marks, between, gaps_of, read_marks, typical_steps
from support.runtime_peers import PATIENCE, SCRIPTS, agent_command, await_marks, free_port, running

from muster.runtime.launch.launcher import Launch

WORKERS = 3
STEADY = 8
"""Steps between the return of one worker and the end of the next."""
BATCH = 32


@dataclass(frozen=True, slots=True)
class Loss:
    """What each blow cost, in s: the gap between two done steps less the typical step."""

    seconds: tuple[float, ...]
    typical: float

    @property
    def median(self) -> float:
        """In the middle."""
        return median(self.seconds)

    @property
    def worst(self) -> float:
        """The largest."""
        return max(self.seconds)


def muster_loss(blows: int, number: int, deadline: float) -> Loss:
    """So many workers of three struck by a signal, each replaced before the next, oldest and newest in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        args = ("--out", name, "--batch", str(BATCH))
        script, struck = SCRIPTS / "muster_train.py", []
        with Launch(
            script, args, WORKERS, threads=1, logs=folder, replace=True, deadline=deadline
        ) as job:
            for blow in range(blows):
                job.wait_members(WORKERS, PATIENCE)
                job.wait_step(job.history.step + STEADY, PATIENCE)
                generation = job.history.generation
                victim = job.history.members[blow % WORKERS]
                # Anywhere in a step: what is under way decides how it is noticed.
                time.sleep(0.037 * blow % 0.3)
                struck.append((time.monotonic(), victim))
                job.kill(victim, number)
                job.wait_generation(generation + 1, PATIENCE + deadline)
                job.wait_step(job.history.step + 2, PATIENCE)
                job.kill(victim)
            job.wait_members(WORKERS, PATIENCE)
            job.wait_step(job.history.step + STEADY, PATIENCE)
        return _losses(folder, struck)


def _losses(folder: Path, struck: Sequence[tuple[float, str]]) -> Loss:
    gaps = {path.stem: gaps_of(read_marks(path)) for path in folder.glob("*.marks")}
    typical = typical_steps([gap for each in gaps.values() for gap in each[3:]])[WORKERS]
    lost = [_worst_gap(gaps, at, victim) - typical for at, victim in struck]
    return Loss(tuple(lost), typical)


def _worst_gap(gaps: dict[str, list[Gap]], at: float, victim: str) -> float:
    """The gap over the blow, of whoever waited longest among those who were there and are left."""
    over = [
        gap.seconds
        for task, each in gaps.items()
        for gap in each
        if task != victim and gap.ended - gap.seconds < at < gap.ended
    ]
    return max(over)
