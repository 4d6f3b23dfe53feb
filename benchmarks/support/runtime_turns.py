"""Muster and DDP take turns, block by block, and their speeds are compared."""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from muster.runtime.launch.launcher import Launch
from support.runtime_marks import read_marks
from support.runtime_peers import PATIENCE, SCRIPTS, await_marks, ddp_commands, running

WORKERS = 2
BLOCK = 8
"""Steps in a block."""
SKIPPED = 2
"""Of them, at its beginning: caches are cold, and a batch was loaded while the other one computed."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds of a step in each block."""

    muster_steps: tuple[float, ...]
    ddp_steps: tuple[float, ...]
    """One more: before and after each of Muster's."""
    muster_busy: float
    ddp_busy: float
    """Median CPU seconds of a step: its own work, whatever else runs."""

    @property
    def ratios(self) -> list[float]:
        """Muster's speed over DDP's around it, for each of Muster's blocks."""
        around = zip(self.ddp_steps, self.ddp_steps[1:], strict=False)
        pairs = zip(self.muster_steps, around, strict=True)
        return [(before + after) / 2 / ours for ours, (before, after) in pairs]

    @property
    def ratio(self) -> float:
        """Their median."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Their quartiles."""
        low, _, high = quantiles(self.ratios, n=4)
        return low, high

    @property
    def muster(self) -> float:
        """Steps/s in the median."""
        return 1 / median(self.muster_steps)

    @property
    def ddp(self) -> float:
        """Steps/s in the median."""
        return 1 / median(self.ddp_steps)


def take_turns(model: str, batch: int, blocks: int) -> Turns:
    """DDP and Muster in turns, DDP first and last."""
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = Path(name, "muster"), Path(name, "ddp")
        ours.mkdir()
        theirs.mkdir()
        args = ["--model", model, "--batch", str(batch), "--block", str(BLOCK)]
        script, log = SCRIPTS / "muster_train.py", theirs / "log"
        commands = ddp_commands(WORKERS, [*args, "--out", str(theirs)])
        with (
            running(commands, log),
            Launch(
                script, [*args, "--out", str(ours)], WORKERS, threads=1, logs=ours, deadline=PATIENCE
            ),
        ):
            # The first block of each is its warm-up, and runs as soon as it can.
            for folder in (theirs, ours):
                _await_block(folder, 1, log)
            for block in range(1, blocks + 1):
                _turn(theirs, block, log)
                _turn(ours, block, log)
            _turn(theirs, blocks + 1, log)
        return Turns(
            _block_steps(ours, blocks), _block_steps(theirs, blocks + 1), _busy(ours), _busy(theirs)
        )


def _turn(folder: Path, block: int, log: Path) -> None:
    (folder / f"go-{block}").touch()
    _await_block(folder, block + 1, log)


def _await_block(folder: Path, blocks: int, log: Path) -> None:
    """Wait until all workers have done this many."""
    last = blocks * BLOCK
    await_marks(folder, lambda marks: sum(mark.step == last for mark in marks) == WORKERS, log)


def _block_steps(folder: Path, blocks: int) -> tuple[float, ...]:
    """Seconds of a step in each block but the first, as the first worker saw it."""
    path = min(folder.glob("*.marks"))
    at = {mark.step: mark.at for mark in read_marks(path)}
    return tuple(
        (at[(block + 1) * BLOCK] - at[block * BLOCK + SKIPPED]) / (BLOCK - SKIPPED)
        for block in range(1, blocks + 1)
    )


def _busy(folder: Path) -> float:
    """Seconds of the processor from one step to the next, of all workers, in the median of each."""
    workers = [read_marks(path)[BLOCK:] for path in folder.glob("*.marks")]
    return sum(median(b.busy - a.busy for a, b in pairwise(marks)) for marks in workers)
