"""Workers killed or stopped in the middle of training, and what it costs those who are left."""

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from muster.runtime.launch.launcher import Launch
from support.runtime_marks import Gap, Mark, gaps_of, read_marks, typical_steps
from support.runtime_peers import PATIENCE, SCRIPTS, agent_command, await_marks, free_port, running

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
    """Workers struck by a signal, at each of three ranks in turn, each replaced before the next."""
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
                formation = job.history.formation
                victim = job.history.members[blow % WORKERS]
                # Anywhere in a step: what is under way decides how it is noticed.
                time.sleep(0.037 * blow % 0.3)
                struck.append((time.monotonic(), victim))
                job.kill(victim, number)
                job.wait_formation(formation + 1, PATIENCE + deadline)
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
    """The gap around the kill of the survivor that waited longest."""
    over = [
        gap.seconds
        for task, each in gaps.items()
        for gap in each
        if task != victim and gap.ended - gap.seconds < at < gap.ended
    ]
    return max(over)


def torchrun_loss(blows: int) -> Loss:
    """The same with torchrun's agent: it restarts all three workers, which load the last checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "log")
        args = ["--out", name, "--batch", str(BATCH), "--checkpoint", f"{name}/checkpoint"]
        lives: list[list[Path]] = [[]]
        with running([agent_command(1, 1, WORKERS, free_port(), [*args, "--every", "5"])], log):
            for blow in range(blows):
                lives.append(_next_life(folder, lives, STEADY, log))
                os.kill(int(lives[-1][blow % WORKERS].stem.split("-")[-1]), signal.SIGKILL)
            lives.append(_next_life(folder, lives, 1, log))
        marks = [[mark for path in life for mark in read_marks(path)] for life in lives[1:]]
        steps = [gap.seconds for life in lives[1:-1] for gap in gaps_of(read_marks(life[0]))]
        typical = median(steps)
        lost = [
            min(m.at for m in after) - max(m.at for m in before) - typical
            for before, after in pairwise(marks)
        ]
        return Loss(tuple(lost), typical)


def _next_life(folder: Path, lives: Sequence[Sequence[Path]], steps: int, log: Path) -> list[Path]:
    """The workers' marks since the last restart, once each has done this many steps."""
    known = {path for life in lives for path in life}

    def found() -> list[Path]:
        return sorted(path for path in folder.glob("*.marks") if path not in known)

    def enough(_: Sequence[Mark]) -> bool:
        new = found()
        return len(new) == WORKERS and all(len(read_marks(path)) >= steps for path in new)

    await_marks(folder, enough, log)
    return found()
