"""Jobs yet to come: stretches of the past, again.

Each stretch of the future repeats one of the past: of the same hour and weekday where two weeks were
seen, of the same hour where two days were, else any. So sizes, lengths and pools come together as they
did, and bursts stay bursts.

Nobody knows whether it goes on: three jobs in the first minute of a daemon are no three jobs a minute
for ever. Each world ends the stream at a moment of its own, which may have passed:

    P(over) = 1 / (m + 2)          m: gaps between jobs seen that were as long as the present silence
    P(goes on for t more | not over) = T / (T + t)               T: s seen      (Gott, Nature 363, 1993)

The first is Bayes'. If any chance to end with a job was as likely beforehand, after n gaps this job was
the last with probability 1 / (n + 2); else the gap that runs exceeds the present silence with
probability (m + 1) / (n + 1), gaps being exchangeable. So a night's silence ends no stream that has had
nights. (Fader, Hardie and Lee, Marketing Science 24, 2005, ask it of customers, with random gaps.)
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise
from math import ceil
from random import Random

from muster.foresight.past import Past, PastJob
from muster.sim.truth import Arrival, Truth

HOUR, DAY, WEEK = 3600.0, 86_400.0, 604_800.0
STRETCHES = 8
"""Stretches that a short past is cut into, at least."""
SHORTEST = 1.0
"""s of a stretch."""

Work = Callable[[PastJob, Random], Truth]
"""What a job like a past one turns out to be."""
Part = Callable[[int], float]
"""Where among all worlds, from 0 to 1, this one lies in the matter of this number. Worlds lie at even
distances: a few that draw where a stretch of a short past begins would all see the same job again."""
STREAM = 0
"""The matter of how long jobs come; from 1 on, which of the past each stretch repeats."""


class Coming:
    """Draws submissions after a moment, like those before it."""

    def __init__(self, past: Past, now: float, first: int) -> None:
        """`first`: the number of the first job."""
        self._since = now if past.since is None else past.since
        # Those from before, or of that very moment, lie in no stretch: with them alone, the draw would
        # look for ever.
        seen = (each for each in past if self._since < each.submitted < now)
        self._jobs = sorted(seen, key=lambda each: each.submitted)
        self._at = [each.submitted for each in self._jobs]
        self._came = sorted(each.submitted for each in past if self._since < each.submitted <= now)
        """With those of this very moment, which end a silence."""
        self._now, self._first = now, first

    def draw(self, random: Random, part: Part, work: Work) -> Iterator[Arrival]:
        """Yield submissions in order; none without a past."""
        span, numbers = self._now - self._since, count(self._first)
        if not self._jobs or span < SHORTEST * STRETCHES:
            return
        length = min(HOUR, span / STRETCHES)
        for stretch in range(ceil(self._goes_on(span, part(STREAM)) / length)):
            begin = self._now + stretch * length
            then = self._then(begin, length, part(stretch + 1))
            for i in range(bisect_left(self._at, then), bisect_left(self._at, then + length)):
                past, number = self._jobs[i], next(numbers)
                job = replace(past.job, number=number, name=f"{past.job.name}+{number}", after=())
                yield Arrival(begin + self._at[i] - then, job, work(past, random))

    def _goes_on(self, span: float, part: float) -> float:
        """Return the s for which jobs come, of which this part of all worlds have no more."""
        silence = self._now - self._came[-1]
        gaps = (after - before for before, after in pairwise([self._since, *self._came]))
        over = 1.0 / (sum(gap >= silence for gap in gaps) + 2)
        return span * ((1.0 - over) / (1.0 - part) - 1.0) if part > over else 0.0

    def _then(self, begin: float, length: float, part: float) -> float:
        """Return the beginning of a past stretch to repeat."""
        for period in (WEEK, DAY):
            # The latest whole periods before `begin` that lie in the past, back to its beginning.
            latest = begin - period * -(-(begin + length - self._now) // period)
            periods = int((latest - self._since) // period)
            if periods >= 1:
                return latest - period * int(part * (periods + 1))
        return self._since + part * (self._now - length - self._since)
