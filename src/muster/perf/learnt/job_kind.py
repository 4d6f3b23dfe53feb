"""What the jobs of one application have reported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.perf.learnt.alike import AlikeLeft
from muster.perf.learnt.batches import BatchRange, MeasuredBatches, Split
from muster.perf.learnt.lengths import ENOUGH, Lengths
from muster.perf.learnt.steps import StepTimes
from muster.perf.learnt.way import Way
from muster.perf.speed.foresight import Foresight

T = TypeVar("T")

KEPT = 4096
"""Most answers cached."""
UNKNOWN_BATCH = 1 << 14
"""Samples of a step where nobody says how many: the same on any number of devices, since such a job
counts its work in steps; large, so that every number of devices has about equal parts of it."""


@dataclass(slots=True)
class JobKind:
    """Reports of the jobs of one application."""

    name: str
    range: BatchRange | None
    steps: dict[str, StepTimes] = field(default_factory=dict)
    """By device type."""
    noise: Way = field(default_factory=Way)
    """Gradient noise in samples."""
    worth: Way = field(default_factory=Way)
    """Work of a sample, where noise or range are unknown."""
    lengths: Lengths = field(default_factory=Lengths)
    reached: float = 0.0
    """The most work any of them has done."""
    batches: MeasuredBatches = field(default_factory=MeasuredBatches)
    """Steps by batch, of those whose batch is free."""
    foreseen: Mapping[str, Foresight] = field(default_factory=dict)
    """What the shape of its model foretells, by device type."""
    at_once: int = 0
    """Most samples that a device computes at once; 0: all of its share."""
    heard: int = 0
    """Counts what it was told."""
    mixing: Way = field(default_factory=Way)
    """Speed on several device types together over what was predicted; it has one stretch."""
    weighed: tuple[int, int] = (-1, -1)
    """What had been heard when `belief` was made."""
    belief: tuple[object, ...] = ()
    """All that predictions of its steps follow from."""
    beliefs: int = 0
    """Counts the beliefs."""
    answers: dict[tuple[object, ...], Any] = field(default_factory=dict)
    """What follows from the belief, by question."""
    live: dict[int, float] = field(default_factory=dict)
    """Work that each live job has done."""
    first: int = 0
    """The job among them that has done most."""
    alike: tuple[tuple[float, int], AlikeLeft] | None = None
    """What is left of its jobs, and the scatter and the number of lengths that it followed from."""

    def answer(self, asked: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return what follows from the belief, worked out once."""
        found: T | None = self.answers.get(asked)
        if found is None:
            if len(self.answers) > KEPT:
                self.answers.clear()
            found = self.answers[asked] = make()
        return found

    def note(self, number: int, done: float) -> None:
        """Take in how far a live job is."""
        self.live[number] = done
        # Not only by reports: a job believed longer than its like, having done a little more than they
        # have shown, would be stopped for them, and each of them in turn.
        if done > self.reached:
            self.reached = done
        if self.first not in self.live or done > self.live[self.first]:
            self.first = number

    def drop(self, number: int) -> None:
        """Take in that a job is not live any more."""
        self.live.pop(number, None)
        if number == self.first and self.live:
            self.first = max(self.live, key=lambda each: (self.live[each], -each))

    def told_by(self, number: int) -> int:
        """Return the jobs of whose length the end of this one would tell, itself among them.

        Before any has ended, that of the furthest tells of all: of those that are live, and of as many
        that are still to come as have come (Lindy, as with lengths)."""
        return 2 * len(self.live) if number == self.first and not self.lengths.count else 1

    @property
    def way(self) -> Way:
        return self.noise if self.noise else self.worth

    def smallest(self, batches: Sequence[int | None], most: int) -> int:
        """Return the samples at a time on a device in the smallest step that users allow: of the one
        batch on the most devices asked for, or the least of a batch that may be chosen."""
        if self.range is not None and len(batches) > 1:
            return self.range.least_each
        return self.split(batches[0], max(1, most)).at_once

    def split(self, batch: int | None, devices: int) -> Split:
        """Split a batch: without known limits in as few passes as it can."""
        if batch is None:
            return Split(devices, max(1, UNKNOWN_BATCH // devices), 0)
        if self.range is not None:
            return self.range.split(batch, devices)
        local = -(-batch // devices)
        passes = -(-local // self.at_once) if self.at_once else 1
        return Split(devices, -(-local // passes), passes - 1)

    def tells_lengths(self, declared: bool) -> bool:
        """Whether enough jobs have ended to tell the length of the next; `declared`: its user does."""
        return self.lengths.count >= (ENOUGH if declared else 1)

    def parts(self, batch: int | None, most: int) -> list[int]:
        """Return the samples at a time on each of 1, 2, ... devices."""
        return [self.split(batch, devices).at_once for devices in range(1, most + 1)]
