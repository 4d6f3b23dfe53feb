"""Workers of unequal speed: the shares that the runtime gives them, and what a step then takes."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from muster.runtime.launch.launcher import Launch
from support.runtime_marks import Mark, gaps_of, read_marks
from support.runtime_peers import PATIENCE, SCRIPTS

BATCH = 84
PACES = (0.004, 0.008, 0.016)
"""Seconds for a sample: speeds 4:2:1."""
STEPS = 40
ROUNDING = 3
"""Samples by which shares still move when the balance is found: noise of a few per cent."""
COUNTED = 20
"""The last steps, of which the median counts."""


@dataclass(frozen=True, slots=True)
class Balance:
    """One training."""

    equal: float
    """Seconds of a step with the shares it began with."""
    balanced: float
    """And at the end."""
    steps: int
    """After how many steps its shares were the last ones, but for a few samples."""
    shares: tuple[int, ...]
    """At the end."""


def ideal() -> float:
    """Seconds of a step if all speeds added up and nothing else took time."""
    return BATCH / sum(1 / pace for pace in PACES)


def measure() -> Balance:
    """A training that begins with equal shares."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pace = ",".join(f"worker-{rank}={seconds}" for rank, seconds in enumerate(PACES))
        args = (
            "--model",
            "tiny",
            "--out",
            name,
            "--batch",
            str(BATCH),
            "--steps",
            str(STEPS),
            "--pace",
            pace,
        )
        with Launch(SCRIPTS / "muster_train.py", args, len(PACES), threads=1, logs=folder) as job:
            outcome = job.wait(PATIENCE)
        if outcome.code:
            raise RuntimeError(outcome.error)
        return judge([read_marks(folder / f"worker-{rank}.marks") for rank in range(len(PACES))])


def judge(workers: Sequence[Sequence[Mark]]) -> Balance:
    """What the marks of all workers say."""
    gaps = [gap.seconds for gap in gaps_of(workers[0])]
    # The first gap ends with the second step.
    shares = list(zip(*([mark.samples for mark in marks[1:]] for marks in workers), strict=True))
    begun = [gap for gap, held in zip(gaps, shares, strict=True) if max(held) - min(held) <= 1]
    balanced = median(gaps[-COUNTED:])
    far = [i for i, held in enumerate(shares) if not _alike(held, shares[-1])]
    return Balance(median(begun) if begun else 0.0, balanced, max(far, default=-1) + 2, shares[-1])


def _alike(shares: Sequence[int], others: Sequence[int]) -> bool:
    return all(abs(a - b) <= ROUNDING for a, b in zip(shares, others, strict=True))
