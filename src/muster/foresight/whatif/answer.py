"""Both sides compared, world by world: what is drawn is the same on both, so that differences are of
the changes alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from statistics import fmean

from muster.foresight.open_ends import StartAndEnd
from muster.foresight.play import HORIZON, JobForecast
from muster.foresight.quantiles import TimeInterval, interval
from muster.foresight.whatif.sides import HeldLoad, PlayedSide
from muster.model.job import Job
from muster.model.view import View

LEAST = 1.0
"""s: a difference below it is none."""


class Verdict(StrEnum):
    """What a change does to a job's end."""

    EARLIER = "earlier"
    LATER = "later"
    SAME = "same"
    UNCLEAR = "unclear"
    """Earlier in some worlds, later in others."""
    NEVER = "never"
    """It never ends with the change."""
    NEW = "new"
    """It is submitted by the change."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure on both sides, and the change of it within each world: medians and 80 % intervals."""

    before: TimeInterval
    after: TimeInterval
    change: TimeInterval


@dataclass(frozen=True, slots=True)
class JobDifference:
    """A job's start and end on both sides, in s, and how much later it starts and ends."""

    job: Job
    before: JobForecast | None
    """None: it is submitted by the change."""
    after: JobForecast
    start: TimeInterval | None = None
    """None: it has started, or is new."""
    finish: TimeInterval | None = None
    """None: it is new."""
    never: bool = False
    """Whether it ends in most worlds as everything is, and in most never with the change."""

    @property
    def number(self) -> int:
        """The job's number; of one that is submitted by the change, one that no other has."""
        return self.job.number

    @property
    def verdict(self) -> Verdict:
        """What the change does to its end, in nine worlds of ten."""
        if self.finish is None:
            return Verdict.NEW
        if self.never:
            return Verdict.NEVER
        if self.finish.low > LEAST:
            return Verdict.LATER
        if self.finish.high < -LEAST:
            return Verdict.EARLIER
        same = self.finish.low >= -LEAST and self.finish.high <= LEAST
        return Verdict.SAME if same else Verdict.UNCLEAR


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """What a change would do."""

    now: float
    worlds: int
    jobs: tuple[JobDifference, ...]
    completion: Compared
    """s from submission to end, mean of the jobs that are live now and end on both sides."""
    makespan: Compared
    """s until the last of them has ended."""
    pools: Mapping[str, Compared]
    """Devices held on average by each pool, until one side has ended its jobs."""
    used: Compared
    """Part of all devices that is held, over the same time."""
    fragmentation: Compared
    """Part of all devices that are free on partly used nodes, over the same time."""

    def with_verdict(self, verdict: Verdict) -> tuple[JobDifference, ...]:
        """Return the jobs that the change does this to."""
        return tuple(each for each in self.jobs if each.verdict is verdict)


Pair = tuple[PlayedSide, PlayedSide]
"""A world before and after the change."""


def summed_up(
    view: View,
    now: float,
    pairs: Sequence[Pair],
    new: Mapping[int, Job],
    basis: Callable[[int], int],
) -> WhatIfAnswer:
    """Return what the worlds say; `view`: the live jobs; `new`: those that the change submits; `basis`:
    similar jobs that a forecast rests on."""
    asked = {**{number: state.job for number, state in view.jobs.items()}, **new}
    numbers = sorted({number for _, after in pairs for number in after.jobs})
    pools = dict.fromkeys(name for _, after in pairs for load in after.loads for name in load.pools)
    live = [number for number in numbers if number in view.jobs]
    shared = [_Shared.of(pair, live) for pair in pairs]

    def compared(of: Callable[[PlayedSide, _Shared], float]) -> Compared:
        before, after = (
            [of(pair[i], each) for pair, each in zip(pairs, shared, strict=True)] for i in (0, 1)
        )
        return _compared(before, after)

    def completion(side: PlayedSide, both: _Shared) -> float:
        spans = [side.jobs[n].finish - view.jobs[n].submitted for n in both.ended]
        return fmean(spans) if spans else 0.0

    def makespan(side: PlayedSide, both: _Shared) -> float:
        return max((side.jobs[n].finish for n in both.ended), default=now) - now

    return WhatIfAnswer(
        now,
        len(pairs),
        tuple(_job(view, now, asked[number], pairs, basis(number)) for number in numbers),
        compared(completion),
        compared(makespan),
        {name: compared(_held(name, now)) for name in pools},
        compared(lambda side, both: _part(side.loads, now, both.end, _taken, _every)),
        compared(lambda side, both: _part(side.loads, now, both.end, _scattered, _every)),
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """What both sides of a world have in common, so that figures are of the same."""

    end: float
    """When one side has ended its jobs, s."""
    ended: tuple[int, ...]
    """Live jobs that end on both sides."""

    @classmethod
    def of(cls, pair: Pair, live: Sequence[int]) -> "_Shared":
        ended = tuple(n for n in live if all(side.jobs[n].finish < inf for side in pair))
        return cls(min(side.end for side in pair), ended)


def _job(view: View, now: float, job: Job, pairs: Sequence[Pair], basis: int) -> JobDifference:
    number, last = job.number, now + HORIZON
    after = [_by(pair[1].jobs[number], last) for pair in pairs]
    state = view.jobs.get(number)
    waits = state is None or state.placement is None
    told = _forecast(after, basis, waits=waits)
    if state is None:
        return JobDifference(job, None, told)
    before = [_by(pair[0].jobs[number], last) for pair in pairs]
    each, known = list(zip(before, after, strict=True)), _forecast(before, basis, waits=waits)
    return JobDifference(
        job,
        known,
        told,
        interval([b.start - a.start for a, b in each]) if waits else None,
        interval([b.finish - a.finish for a, b in each]),
        never=told.finish.middle >= last > known.finish.middle,
    )


def _by(played: StartAndEnd, last: float) -> StartAndEnd:
    """Return when a job starts and ends; what never happens is put where nothing more is played, so
    that differences are numbers."""
    return replace(played, start=min(played.start, last), finish=min(played.finish, last))


def _forecast(played: Sequence[StartAndEnd], basis: int, *, waits: bool) -> JobForecast:
    start = interval([each.start for each in played]) if waits else None
    return JobForecast(start, interval([each.finish for each in played]), basis)


def _compared(before: Sequence[float], after: Sequence[float]) -> Compared:
    change = [b - a for a, b in zip(before, after, strict=True)]
    return Compared(interval(before), interval(after), interval(change))


def _held(pool: str, now: float) -> Callable[[PlayedSide, _Shared], float]:
    def mean(side: PlayedSide, both: _Shared) -> float:
        end = both.end
        total = _integral(side.loads, now, end, lambda load: load.pools.get(pool, 0))
        return total / (end - now) if end > now else 0.0

    return mean


def _part(
    loads: Sequence[HeldLoad],
    now: float,
    end: float,
    some: Callable[[HeldLoad], int],
    of: Callable[[HeldLoad], int],
) -> float:
    whole = _integral(loads, now, end, of)
    return _integral(loads, now, end, some) / whole if whole else 0.0


def _integral(
    loads: Sequence[HeldLoad], now: float, end: float, value: Callable[[HeldLoad], int]
) -> float:
    """Return the sum of a value over time; each holds until the next."""
    until = [*(each.at for each in loads[1:]), end][: len(loads)]
    spans = (
        (load, max(0.0, min(to, end) - max(load.at, now)))
        for load, to in zip(loads, until, strict=True)
    )
    return sum(value(load) * seconds for load, seconds in spans)


def _taken(load: HeldLoad) -> int:
    return sum(load.pools.values())


def _every(load: HeldLoad) -> int:
    return load.devices


def _scattered(load: HeldLoad) -> int:
    return load.scattered
