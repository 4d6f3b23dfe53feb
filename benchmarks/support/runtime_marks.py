"""What training scripts wrote about their steps, and the gaps in it. Standard library only."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Mark:
    """A step was done: when (s), among how many workers, with how many samples and after how many
    seconds of the processor here."""

    step: int
    at: float
    size: int
    samples: int
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Gap:
    """From one done step to the next: when it ended, its seconds, and the workers at its end."""

    step: int
    ended: float
    seconds: float
    size: int


def read_marks(path: Path) -> list[Mark]:
    """One worker's marks; of a step that was redone, the last. A line cut off by a kill is left out."""
    found: dict[int, Mark] = {}
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        if line.endswith("\n"):
            step, at, size, samples, busy = line.split()
            found[int(step)] = Mark(int(step), float(at), int(size), int(samples), float(busy))
    return sorted(found.values(), key=lambda mark: mark.at)


def all_marks(folder: Path) -> list[Mark]:
    """Every worker's marks, by time."""
    marks = [mark for path in folder.glob("*.marks") for mark in read_marks(path)]
    return sorted(marks, key=lambda mark: mark.at)


def gaps_of(marks: Sequence[Mark]) -> list[Gap]:
    """The gaps between one worker's marks."""
    return [
        Gap(after.step, after.at, after.at - before.at, after.size) for before, after in pairwise(marks)
    ]


def typical_steps(gaps: Iterable[Gap]) -> dict[int, float]:
    """The median gap at each number of workers."""
    by_size: dict[int, list[float]] = defaultdict(list)
    for gap in gaps:
        by_size[gap.size].append(gap.seconds)
    return {size: median(seconds) for size, seconds in by_size.items()}


def excesses(gaps: Iterable[Gap], typical: Mapping[int, float]) -> list[float]:
    """What each gap is longer than a typical step of as many workers; negative where it is shorter."""
    return [gap.seconds - typical[gap.size] for gap in gaps]


def between(gaps: Iterable[Gap], begin: float, end: float) -> list[Gap]:
    """Those that ended within this time."""
    return [gap for gap in gaps if begin < gap.ended <= end]
