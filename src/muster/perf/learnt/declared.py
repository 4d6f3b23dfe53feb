"""What jobs take of the durations that their users declare.

Users are wrong by a factor, each by one of their own (Tsafrir et al. 2007, "Backfilling Using
System-Generated Predictions Rather Than User Runtime Estimates"). So the parts that a user's jobs have
taken say how long the next one is, as the lengths of an application's jobs do (see `alike`), counted in
declared durations. Until a few are known, those of all users do. While fewer still are known, half of
the variance is taken to be what jobs of a cluster have in common (who its users are, and on what
devices they count), so that n parts move the middle by n / (n + 1) of the mean of their logarithms.

A job that tells how many steps it has need not have ended: once one is measured, its part is known.
"""

from collections import defaultdict
from math import exp, log, log2, sqrt

from muster.perf.learnt.alike import AlikeLeft
from muster.perf.learnt.lengths import DECLARED, ENOUGH, Left, Lengths

MOVED = 0.1
"""Least change of the logarithm of a live job's part that counts."""


def order_of(declared: float | None) -> int | None:
    """Return of which order a declared duration is, within a factor of two; None: none was."""
    return round(log2(declared)) if declared else None


class Declarations:
    """Parts of declared durations that jobs take, by user."""

    def __init__(self) -> None:
        self._all = Lengths()
        self._by_user: defaultdict[str, Lengths] = defaultdict(Lengths)
        self._live: dict[int, tuple[str, float]] = {}
        """User and part of live jobs of which it is known, by number."""
        self._changes: defaultdict[str, int] = defaultdict(int)
        """Counts changes of what is known of a user's jobs; "": of all."""
        self._kept: dict[str, tuple[int, AlikeLeft | None]] = {}
        """By user, with the changes that it follows from; None: too few are known."""

    @property
    def count(self) -> int:
        """Changes of what is known."""
        return self._changes[""]

    def add(self, user: str, part: float) -> None:
        """Take in that a user's job has taken this part of what was declared."""
        self._all.add(part)
        self._by_user[user].add(part)
        self._changed(user)

    def foresee(self, number: int, user: str, part: float) -> None:
        """Take in that a live job will take this part."""
        before = self._live.get(number)
        if before is None or abs(log(part / before[1])) > MOVED:
            self._live[number] = user, part
            self._changed(user)

    def forget(self, number: int) -> None:
        """Drop what is known of a live job."""
        known = self._live.pop(number, None)
        if known is not None:
            self._changed(known[0])

    def usual(self, user: str) -> float:
        """Return the part that a user's jobs usually take."""
        found = self._belief(user)
        return self._few().middle if found is None else found.left(0.0).middle

    def left(self, user: str, declared: float, passed: float) -> Left | None:
        """Return what is left of a declared length, of which this much has passed, if that is known."""
        found = self._belief(user)
        if found is None:
            few = self._few()
            whole = few.middle * declared
            return Left(whole - passed, few.spread) if whole > passed else None
        part = found.left(passed / declared)
        return Left(part.middle * declared, part.spread)

    def _changed(self, user: str) -> None:
        for each in {user, ""}:
            self._changes[each] += 1

    def _few(self) -> Left:
        """Return the part that a job takes while few are known."""
        parts = self._parts("")
        known = len(parts) + 1
        middle = sum(map(log, parts)) / known
        return Left(exp(middle), DECLARED * sqrt((1 + 1 / known) / 2))

    def _parts(self, user: str) -> list[float]:
        """Return the parts known of a user's jobs, or of all, the least first."""
        ended = self._by_user.get(user) if user else self._all
        live = (part for each, part in self._live.values() if user in ("", each))
        return sorted([*(ended.sorted if ended is not None else ()), *live])

    def _belief(self, user: str) -> AlikeLeft | None:
        """Return what is believed of a user's jobs, or of all; None: too few are known."""
        found = self._known(user)
        return self._known("") if found is None else found

    def _known(self, user: str) -> AlikeLeft | None:
        """Return what this user's jobs say, or all; None: too few are known."""
        changes = self._changes.get(user, 0)
        kept = self._kept.get(user)
        if kept is None or kept[0] != changes:
            parts = self._parts(user)
            found = AlikeLeft.of(parts, DECLARED) if len(parts) >= ENOUGH else None
            kept = self._kept[user] = changes, found
        return kept[1]
