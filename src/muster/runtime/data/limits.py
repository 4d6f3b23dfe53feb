"""The global batch that a user allows: one, or from the user's own up to a largest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.runtime.errors import BadTrainingError


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Samples of a step over all workers."""

    own: int
    """To begin with: the one for which the learning rate is meant."""
    largest: int

    @property
    def free(self) -> bool:
        """Whether the batch may change."""
        return self.largest > self.own

    def within(self, batch: int) -> int:
        """Return the nearest batch that is allowed."""
        return min(max(batch, self.own), self.largest)


def limits_of(given: Any, told: str = "") -> BatchLimits | None:
    """Return what `global_batch=` means: a number, or (own, largest); None: it was not given.

    `told`: limits from outside the script ("128..2048"), which count more.
    """
    if told:
        own, _, largest = told.partition("..")
        return BatchLimits(int(own), int(largest or own))
    if given is None:
        return None
    pair = (given, given) if not isinstance(given, Sequence) else tuple(given)
    whole = len(pair) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in pair)
    if isinstance(given, str) or not whole:
        raise BadTrainingError(
            f"global_batch is {given!r}: give a number of samples, or (own, largest) if it may grow"
        )
    if pair[1] < pair[0]:
        raise BadTrainingError(f"global_batch is {given!r}: the second must not be below the first")
    return BatchLimits(*pair)
