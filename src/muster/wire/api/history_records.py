"""What the API says of a job's past, and of who held which devices when."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurveRecord:
    """One curve of a training, in columns: the n-th value of each belongs to its n-th point."""

    what: str
    """"loss", or a metric that its script reports."""
    steps: tuple[int, ...] = ()
    """Training steps; of a job that reports metrics alone, the epochs that it tells."""
    at: tuple[float, ...] = ()
    """When, in s since 1970."""
    values: tuple[float, ...] = ()
    workers: tuple[int, ...] = ()
    """How many trained then."""
    samples: tuple[int, ...] = ()
    """Trained on by then, repeated ones included."""
    rates: tuple[float, ...] = ()
    """Samples/s over the last second, at least since the point before."""


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A time in which a job holds the same devices in the same status."""

    began: float
    ended: float | None
    """None: it still does."""
    status: str
    """"starting", "running", "resizing", "migrating", "preempting" or "restarting"."""
    workers: int
    servers: int
    devices: dict[str, tuple[int, ...]]
    """By node: their numbers there."""
    code: str = ""
    """Why it has them: a reason code of docs/reference/reasons.md; empty: nothing decided it."""
    reason: str = ""
    """In words: what was decided, or what happened."""
    number: int | None = None
    """Of the job; None: another user's, which the caller may not see."""
    job: str | None = None
    user: str | None = None
    pool: str | None = None
    """None: unknown, or not asked for."""


@dataclass(frozen=True, slots=True)
class JobCurves:
    """How a training went, and what it held meanwhile."""

    number: int
    curves: tuple[CurveRecord, ...] = ()
    """The loss first."""
    spans: tuple[SpanRecord, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Who held which devices, and the cursor of the next page."""

    since: float
    until: float
    spans: tuple[SpanRecord, ...] = ()
    """By beginning."""
    next: str | None = None
