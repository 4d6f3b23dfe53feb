"""What jobs take of the durations that their users declare.

Users are wrong by a factor, each by one of their own (Tsafrir et al. 2007, "Backfilling Using
System-Generated Predictions Rather Than User Runtime Estimates"). So the parts that a user's jobs have
taken say how long the next one is, as the lengths of an application's jobs do (see `alike`), counted in
declared durations. Until a few have ended, those of all users do.
"""

from collections import defaultdict

from muster.perf.learnt.alike import AlikeLeft
from muster.perf.learnt.lengths import DECLARED, ENOUGH, Left, Lengths


class Declarations:
    """Parts of declared durations that ended jobs took, by user."""

    def __init__(self) -> None:
        self._all = Lengths()
        self._by_user: defaultdict[str, Lengths] = defaultdict(Lengths)
        self._kept: dict[str, tuple[int, AlikeLeft]] = {}
        """By user, with the number of ended jobs that it follows from; "": of all users."""

    @property
    def count(self) -> int:
        """Jobs that have ended."""
        return self._all.count

    def add(self, user: str, part: float) -> None:
        """Take in that a user's job has taken this part of what was declared."""
        self._all.add(part)
        self._by_user[user].add(part)

    def usual(self, user: str) -> float:
        """Return the part that a user's jobs usually take."""
        found = self._belief(user)
        return 1.0 if found is None else found.left(0.0).middle

    def left(self, user: str, declared: float, passed: float) -> Left | None:
        """Return what is left of a declared length, of which this much has passed, if that is known."""
        found = self._belief(user)
        if found is None:
            return Left(declared - passed, DECLARED) if declared > passed else None
        part = found.left(passed / declared)
        return Left(part.middle * declared, part.spread)

    def _belief(self, user: str) -> AlikeLeft | None:
        """Return what is believed of a user's jobs, or of all; None: too few have ended."""
        own = self._by_user.get(user)
        if own is None or len(own) < ENOUGH:
            user, own = "", self._all
        if len(own) < ENOUGH:
            return None
        known = self._kept.get(user)
        if known is None or known[0] != own.count:
            known = self._kept[user] = own.count, AlikeLeft.of(own.sorted, DECLARED)
        return known[1]
