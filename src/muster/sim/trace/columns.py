"""The columns of a generic trace: their format, and the job of a row (docs/reference/traces.md)."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from math import inf, isfinite
from typing import TypeVar

from muster.files.errors import did_you_mean, one_of, shown
from muster.files.job.relation_fields import WHENS
from muster.files.source.quantity import (
    Counts,
    parse_cores,
    parse_counts,
    parse_duration,
    parse_flag,
    parse_name,
    parse_part,
    parse_size,
    parse_whole,
)
from muster.model.job import RESTART_SECONDS, Dependency, Job, Need, When
from muster.sim.trace.roles import ONE_DEVICE, workers
from muster.sim.truth import Arrival, Truth
from muster.sim.worlds.fixed import Fixed
from muster.sim.worlds.power import PowerLaw, PowerSpeed

T = TypeVar("T")
D = TypeVar("D")

REQUIRED = ("submitted", "devices", "duration")
OPTIONAL = (
    "name",
    "user",
    "pool",
    "application",
    "type",
    "priority",
    "preemptible",
    "cores",
    "memory",
    "exponent",
    "pause",
    "batch",
    "expected",
    "after",
)
COLUMNS = (*REQUIRED, *OPTIONAL)

CALENDAR = 1e8
"""Submissions from this second on are calendar times (since 1970), relative to the first row's: nobody
kept traces three years after 1970, and no trace lasts three years."""

DEFAULT_EXPONENT = 1.0
"""Speed-up exponent of an elastic job without one: device-seconds stay those of the trace. It flatters
elasticity; a trace that knows better has the column."""

_LONGEST_WORD = 200


class CellError(ValueError):
    """A problem in a row, and its column ('' for the row itself)."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(problem)
        self.column = column
        self.problem = problem


def columns_fault(found: tuple[str, ...]) -> str | None:
    """Return what is wrong with the columns of a trace, or None."""
    missing = [name for name in REQUIRED if name not in found]
    strange = [name for name in found if name not in COLUMNS]
    if missing:
        hints = "".join(f"; {shown(name)}{did_you_mean(name, missing)}" for name in strange)
        hints = hints if "did you mean" in hints else ""
        many = "columns are" if len(missing) > 1 else "column is"
        listed = ", ".join(found) or "none"
        return f"the {many} missing: {', '.join(missing)}; found: {listed}{hints}"
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        return f"the column {shown(twice)} is repeated"
    absent = [name for name in OPTIONAL if name not in found]
    for name in strange:
        hint = did_you_mean(name, absent)
        if hint:  # Unrelated columns are ignored; one that is nearly ours is a typo.
            return f"{shown(name)} is not a column{hint}"
    return None


def arrival_of(cells: Mapping[str, str], line: int, origin: float, number: int) -> Arrival:
    """Return the job of one row; CellError for an invalid cell."""
    counts = _required(cells, "devices", _devices)
    duration = _required(cells, "duration", parse_seconds)
    job = Job(
        name=_optional(cells, "name", _word, None) or f"job-{line}",
        user=_optional(cells, "user", _word, "nobody"),
        pool=_optional(cells, "pool", _word, "default"),
        priority=_optional(cells, "priority", _priority, 0),
        preemptible=_optional(cells, "preemptible", parse_flag, True),
        roles=workers(counts.least, counts.most, _need(cells)),
        device_types=_optional(cells, "type", _types, ()),
        duration=_optional(cells, "expected", parse_seconds, None),
        pause=_optional(cells, "pause", parse_any_seconds, RESTART_SECONDS),
        batch=_optional(cells, "batch", _batch, None),
        application=_optional(cells, "application", _word, None),
        number=number,
        after=_optional(cells, "after", _after, ()),
    )
    exponent = _optional(cells, "exponent", parse_part, DEFAULT_EXPONENT)
    return Arrival(submitted_of(cells) - origin, job, truth_of(counts, duration, exponent))


def submitted_of(cells: Mapping[str, str]) -> float:
    """Return when a row's job is submitted, in s; since 1970 for a calendar time."""
    return _required(cells, "submitted", _moment)


def origin_of(first: float) -> float:
    """Return what to subtract from all submissions of a trace, by its first row."""
    return first if first >= CALENDAR else 0.0


def truth_of(
    counts: Counts, duration: float, exponent: float, spread: float = 0.0, per_node: int | None = None
) -> Truth:
    """Return the truth of a job that takes `duration` on its least devices, sped up by a power of more.

    Its placement matters only with a `spread` (see worlds.power)."""
    if counts.least == counts.most and not spread:
        return Fixed(duration, counts.least)
    return PowerLaw(duration, _speed(counts.least, exponent), spread, per_node)


def parse_seconds(text: str) -> float:
    """Parse seconds above 0, plain or with units: `3600`, `1h30m`."""
    seconds = parse_any_seconds(text)
    if not seconds:
        raise ValueError(f"must be above 0, not {shown(text)}")
    return seconds


def parse_any_seconds(text: str) -> float:
    """Parse seconds of 0 or more."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = parse_duration(text)
    if not 0 <= seconds < inf:
        raise ValueError(f"must be 0 or more, not {shown(text)}")
    return seconds


def _required(cells: Mapping[str, str], column: str, parse: Callable[[str], T]) -> T:
    text = cells.get(column)
    if not text:
        raise CellError(column, "must not be empty")
    try:
        return parse(text)
    except ValueError as error:
        raise CellError(column, str(error)) from None


def _optional(cells: Mapping[str, str], column: str, parse: Callable[[str], T], default: D) -> T | D:
    text = cells.get(column)
    return _required(cells, column, parse) if text else default


def _need(cells: Mapping[str, str]) -> Need:
    cores = _optional(cells, "cores", _cores, 0)
    memory = _optional(cells, "memory", _memory, 0)
    return _need_of(1, cores, memory) if cores or memory else ONE_DEVICE


def _moment(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = _calendar(text)
    if not (isfinite(seconds) and seconds >= 0):
        raise ValueError(f"must be 0 or later, not {shown(text)}")
    return seconds


def _calendar(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{shown(text)} is not a time; write seconds, for example 3600, or 2017-10-09 07:01:55"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=1024)
def _devices(text: str) -> Counts:
    counts = parse_counts(text)
    if counts.least < 1:
        raise ValueError(f"must be at least 1, not {shown(text)}")
    return counts


@lru_cache(maxsize=1024)
def _types(text: str) -> tuple[str, ...]:
    return tuple(parse_name(part.strip()) for part in text.split("|"))


def _after(text: str) -> tuple[Dependency, ...]:
    """Read `prep`, or `prep|other:any`."""
    found = []
    for part in text.split("|"):
        name, _, when = part.strip().partition(":")
        if when and when not in WHENS:
            raise ValueError(one_of(when, "way to end", WHENS))
        found.append(Dependency(_word(name), When(when or When.OK)))
    return tuple(found)


_speed = lru_cache(maxsize=1024)(PowerSpeed)
_need_of = lru_cache(maxsize=1024)(Need)
_cores = lru_cache(maxsize=1024)(parse_cores)
_memory = lru_cache(maxsize=1024)(parse_size)
_priority = partial(parse_whole, least=-1_000_000, most=1_000_000)
_batch = partial(parse_whole, least=1, most=10**9)


def _word(text: str) -> str:
    """Check a name of somebody else's: more is allowed than in our own files."""
    if len(text) > _LONGEST_WORD or not text.isprintable():
        raise ValueError(f"{shown(text)} is not a name of at most {_LONGEST_WORD} printable characters")
    return text
