"""Rates of hops whose ends carry several at once, as between workers that all own parameters.

Each sender counts its own bytes to a node and the s in which they were under way. Three that send to
one node over its slow link count a third of its rate each; so does one that sends to three at once.
Only together do the reports of a formation tell what each end carried: of connections busy at the same
time, all bytes of those done after t s have passed by then, so an end carries at least

    max over t of (bytes of connections busy for at most t) / t

A hop carries what its sender's end and its receiver's end both do.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Sent(NamedTuple):
    """What a task sent to another node in a step, and the s in which it was under way."""

    bytes: float
    seconds: float


class SharedEnds:
    """The latest reports of one formation."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str, str], Sent] = {}

    def rate(self, task: str, source: str, target: str, sent: Sent) -> float | None:
        """Take in what a task on node `source` sent to node `target`; return the bytes/s of that hop.

        None for a task's first report of it: the others may still have to make theirs.
        """
        first = (task, source, target) not in self._sent
        self._sent[task, source, target] = sent
        if first:
            return None
        out = [each for (_, start, _), each in self._sent.items() if start == source]
        into = [each for (_, _, end), each in self._sent.items() if end == target]
        return min(carried(out), carried(into))


def carried(together: Iterable[Sent]) -> float:
    """Return the least bytes/s of an end that all these connections share."""
    total = most = 0.0
    for size, seconds in sorted(together, key=lambda sent: sent.seconds):
        total += size
        most = max(most, total / seconds)
    return most
