"""Holders of devices: jobs by application, pool or user, those that held most first."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from muster.sim.report.curve import StepFunction, counted
from muster.sim.report.metrics import span
from muster.sim.report.style import groups
from muster.sim.result import JobResult, Result, Stint

OTHERS = "others"


class By(StrEnum):
    """What colours distinguish."""

    JOB = "job"
    APPLICATION = "application"
    POOL = "pool"
    USER = "user"


def keys_of(result: Result, by: By) -> dict[str, str]:
    """Return the key of each job."""
    of: Callable[[JobResult], str | None] = {
        By.JOB: lambda r: r.name,
        By.APPLICATION: lambda r: r.application,
        By.POOL: lambda r: r.pool,
        By.USER: lambda r: r.user,
    }[by]
    return {r.name: of(r) or OTHERS for r in result.records}


def applications(result: Result) -> int:
    """Return the number of known applications."""
    return len({r.application for r in result.records if r.application})


def largest(stints: Iterable[Stint], keys: Mapping[str, str], top: int) -> dict[str, str]:
    """Return colours of those that held most, in order, and of the others."""
    held: defaultdict[str, float] = defaultdict(float)
    for s in stints:
        held[keys.get(s.job, OTHERS)] += s.bits.bit_count() * (s.end - s.begin)
    held.pop(OTHERS, None)
    return groups(sorted(held, key=lambda key: -held[key])[:top], OTHERS)


def held_by(
    stints: Sequence[Stint], keys: Mapping[str, str], group: str, known: Mapping[str, str]
) -> StepFunction:
    """Return the devices that a group holds over time."""
    mine = [
        s for s in stints if (key if (key := keys.get(s.job, OTHERS)) in known else OTHERS) == group
    ]
    begin, end = (np.array([getattr(s, name) for s in mine]) for name in ("begin", "end"))
    return counted(begin, end, np.array([float(s.bits.bit_count()) for s in mine]))


def extent(result: Result) -> tuple[float, float]:
    """Return begin and end of the time to show, in s; at least 1 s."""
    begin, end = span(result)
    end = max([end, *(s.end for s in result.stints)])
    return begin, max(end, begin + 1.0)
