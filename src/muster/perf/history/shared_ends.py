"""Rates of hops whose ends carry several at once, as between workers that all own parameters.

Each sender counts its own bytes to a node and the s in which they were under way. Three that send to
one node over its slow link count a third of its rate each; so does one that sends to three at once.
Only together do the reports of a formation tell what each end carried: of connections busy at the same
time, all bytes of those done after t s have passed by then, so an end carries at least

    max over t of (bytes of connections busy for at most t) / t        [bytes/s]

Which end limits a hop shows in what its other connections get: links are shared fairly, so an end that
gives others far more is not the limit. Where either may be, only totals that agree say something: three
workers that fill a server's link tell nothing of their own.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

FAR_MORE = 2.0
"""Times as much to another, from which an end is not the limit: phases of a step make smaller ones."""
AGREE = 0.8
"""Totals of two ends within this factor agree."""


class Sent(NamedTuple):
    """What a task sent to another node in a step, and the s in which it was under way."""

    bytes: float
    seconds: float


class HopRate(NamedTuple):
    """Bytes/s of a hop, and whether its ends carried others, too."""

    rate: float
    shared: bool


class SharedEnds:
    """The latest reports of one formation."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str, str], Sent] = {}

    def rate(self, task: str, source: str, target: str, sent: Sent) -> HopRate | None:
        """Take in what a task on node `source` sent to node `target`; return what that hop carries.

        None if they do not tell, as at a task's first report: the others may still have to make theirs.
        """
        first = (task, source, target) not in self._sent
        self._sent[task, source, target] = sent
        if first:
            return None
        out = [each for (_, start, _), each in self._sent.items() if start == source]
        into = [each for (_, _, end), each in self._sent.items() if end == target]
        rate = _limit(sent, out, into)
        return None if rate is None else HopRate(rate, len(out) > 1 or len(into) > 1)


def carried(together: Iterable[Sent]) -> float:
    """Return the least bytes/s of an end that all these connections share."""
    total = most = 0.0
    for size, seconds in sorted(together, key=lambda sent: sent.seconds):
        total += size
        most = max(most, total / seconds)
    return most


def _limit(sent: Sent, out: Collection[Sent], into: Collection[Sent]) -> float | None:
    """Return the bytes/s of the end that limits a connection; None if they do not tell."""
    totals = carried(out), carried(into)
    spare = [_gives_more(sent, end) for end in (out, into)]
    if spare[0] != spare[1]:
        return totals[1] if spare[0] else totals[0]
    return min(totals) if not spare[0] and min(totals) >= AGREE * max(totals) else None


def _gives_more(sent: Sent, end: Iterable[Sent]) -> bool:
    return any(size / seconds > FAR_MORE * sent.bytes / sent.seconds for size, seconds in end)
