"""A live training's free batch: what its workers report of it, and how the learner sees it."""

from typing import Any

import msgspec

from muster.perf.learnt.batches import BatchRange
from muster.split.goodput import efficiency
from muster.wire.tasks.messages import Captured, StepDone


class FreeBatch(msgspec.Struct):
    """The batch of one training; `largest` 0: it is fixed, or nothing was said."""

    own: int = 0
    largest: int = 0
    batch: int = 0
    """Of the largest recent step: the last one of an epoch is smaller."""
    noise: float | None = None
    """The gradient's noise scale in samples."""
    done: float = 0.0
    """Steps of its own batch so far."""
    smaller: int = 0
    """Steps in a row below `batch`."""

    def note_shape(self, captured: Captured) -> None:
        """Take in its limits."""
        self.own, self.largest = captured.batch, captured.largest

    def note_step(self, done: StepDone) -> None:
        """Take in a step."""
        if done.batch < self.batch and self.smaller < 2:
            self.smaller += 1
        else:
            self.batch, self.smaller = done.batch, 0
        self.done = max(self.done, done.done)
        self.noise = done.noise or self.noise

    def note_room(self, ordered: int | None) -> None:
        """Take in that its memory holds no more than this, if it was told to use more."""
        if ordered is not None and self.own <= self.batch < min(ordered, self.largest):
            self.largest = self.batch

    @property
    def efficiency(self) -> float | None:
        """How much a sample teaches at this batch, 1 at its own; None: unknown."""
        if self.noise is None or not self.largest:
            return None
        return efficiency(self.noise, self.own, max(self.own, self.batch))


def range_of(own: int | None, largest: int) -> BatchRange | None:
    """Return the limits for the learner; None: the batch is fixed."""
    if not own or largest <= own:
        return None
    return BatchRange(own, largest, 1, largest, live=True)


def shown(free: FreeBatch) -> dict[str, Any]:
    """Return what users see of it."""
    if not free.largest:
        return {}
    limits = f"{free.own}..{free.largest}"
    return {
        "batch": free.batch or free.own,
        "batch_limits": limits,
        "noise": free.noise,
        "efficiency": free.efficiency,
    }
