"""The jobs of a configuration: a trace, adapted to the options, and its totals."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import isfinite
from pathlib import Path

from muster.files.errors import InputError, shown
from muster.model.job import Job, Role, RoleSpec
from muster.model.profile import ModelProfile
from muster.perf.learnt.batches import BatchRange
from muster.sim.scenario.configuration import Configuration
from muster.sim.trace.inspect import alone
from muster.sim.trace.left_out import LeftOut, left_out_or_raised
from muster.sim.trace.open_trace import TraceKind, TraceOptions, kind_of, open_trace
from muster.sim.truth import Arrival

KEPT = 10_000
"""Arrivals kept from the first reading; a longer trace is read again."""


@dataclass(slots=True)
class Survey:
    """The totals of a trace, from reading it once. Times in s."""

    jobs: int = 0
    pools: dict[str, None] = field(default_factory=dict)
    """In order of appearance."""
    last: float = 0.0
    work: float = 0.0
    """Device-seconds, each job alone on what it asks for; only if weighed."""
    longest: float = 0.0
    ranges: dict[str, BatchRange] = field(default_factory=dict)
    """Limits of the batch by application, where known."""
    models: dict[str, ModelProfile] = field(default_factory=dict)
    """Shapes of what it trains by application, where known."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """A trace that was read once, to be read again."""

    survey: Survey
    arrivals: Callable[[], Iterable[Arrival]]
    left_out: LeftOut


def jobs_of(configuration: Configuration, *, weigh: bool = False) -> Jobs:
    """Read and check the trace; `weigh`: sum up its work."""
    _refuse_useless(configuration)
    left_out = LeftOut()
    survey = Survey()
    rows = iter(_surveyed(_open(configuration, left_out), survey, weigh))
    kept = list(islice(rows, KEPT + 1))
    more = sum(1 for _ in rows)
    if not survey.jobs:
        note = left_out.note()
        problem = f"has no jobs{f': {note}' if note else ''}"
        raise InputError.at(configuration.trace, problem)
    again = (lambda: _open(configuration, LeftOut())) if more else (lambda: kept)
    return Jobs(survey, again, left_out)


def _refuse_useless(configuration: Configuration) -> None:
    """Refuse options that do not apply to the trace."""
    if kind_of(configuration.trace) is TraceKind.T4:
        return
    if configuration.free_batch:
        raise InputError.at("--free-batch", "needs a T4 workload: only these know other batches")
    if configuration.speeds is not None:
        raise InputError.at("--speeds", "needs a T4 workload: only these have measured speeds")


def _open(configuration: Configuration, left_out: LeftOut) -> Iterator[Arrival]:
    """Return the arrivals as they will be submitted."""
    kind = kind_of(configuration.trace)
    counted = left_out if configuration.skip else None
    options = TraceOptions(
        seed=configuration.seed,
        sort=configuration.sort,
        left_out=counted,
        one_pool=configuration.one_pool,
        speeds=None if configuration.speeds is None else Path(configuration.speeds),
        elastic=not configuration.rigid,
        most=configuration.most,
        free_batch=configuration.free_batch,
    )
    found = _in_one_line(configuration.trace, open_trace(configuration.trace, options))
    if kind in (TraceKind.TABLE, TraceKind.T4):  # the others generate unique names
        found = _each_once(configuration.trace, found, counted)
    if configuration.first is not None:
        found = islice(found, configuration.first)
    if _as_it_is(configuration):
        return found
    return (replace(each, job=_adapted(each.job, configuration)) for each in found)


def _in_one_line(trace: str, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
    """Refuse values that no reader has checked, and submissions out of order."""
    latest = 0.0
    try:
        for each in arrivals:
            if each.at < latest:
                problem = f"{shown(each.job.name)} is submitted before the job above it; sort the file"
                raise InputError.at(trace, problem)
            latest = each.at
            yield each
    except InputError:
        raise
    except ValueError as error:
        raise InputError.at(trace, f"a value cannot be read: {error}") from None


def _each_once(trace: str, arrivals: Iterator[Arrival], left_out: LeftOut | None) -> Iterator[Arrival]:
    seen: set[str] = set()
    for each in arrivals:
        name = each.job.name
        if name in seen:
            problem = f"a second job is called {shown(name)}, submitted at {each.at:g} s"
            hint = "" if left_out is not None else "; --skip leaves it out"
            left_out_or_raised(InputError.at(trace, problem + hint, field="name"), left_out)
        else:
            seen.add(name)
            yield each


def _as_it_is(configuration: Configuration) -> bool:
    changes = (configuration.pause, configuration.most)
    flags = (configuration.restarts, configuration.rigid, configuration.one_pool)
    return all(each is None for each in changes) and not any(flags)


def _adapted(job: Job, configuration: Configuration) -> Job:
    return replace(
        job,
        pool="default" if configuration.one_pool else job.pool,
        pause=job.pause if configuration.pause is None else configuration.pause,
        restarts=configuration.restarts,
        roles=_limited(job.roles, configuration.rigid, configuration.most),
    )


@lru_cache(maxsize=4096)
def _limited(roles: tuple[RoleSpec, ...], rigid: bool, most: int | None) -> tuple[RoleSpec, ...]:
    """Limit tasks to the gang if rigid, else workers to `most`, but not below the gang."""
    if rigid:
        return tuple(replace(spec, least=spec.gang, most=spec.gang) for spec in roles)
    return tuple(spec if spec.role is not Role.WORKER else _capped(spec, most) for spec in roles)


def _capped(spec: RoleSpec, most: int | None) -> RoleSpec:
    cap = spec.most if most is None else max(spec.gang, min(spec.most, most))
    return replace(spec, least=min(spec.least, cap), most=cap)


def _surveyed(arrivals: Iterable[Arrival], survey: Survey, weigh: bool) -> Iterator[Arrival]:
    for each in arrivals:
        survey.jobs += 1
        survey.pools[each.job.pool] = None
        survey.last = each.at
        if weigh:
            seconds = alone(each)
            if isfinite(seconds):
                spec = each.job.workers
                survey.work += seconds * spec.gang * spec.need.devices
                survey.longest = max(survey.longest, seconds)
        measured = getattr(each.truth, "model", None)
        if each.job.application is not None and measured is not None:
            survey.ranges[each.job.application] = measured.range
            if measured.shape is not None:
                survey.models[each.job.application] = measured.shape
        yield each
