"""Records of the API about forecasts and how they came true."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccuracyGroup:
    """Forecasts of one kind that came true."""

    by: str
    """"all", "made" (when in the job's life), "horizon" (time left), "pool" or "kind" (what it rests
    on)."""
    name: str
    forecasts: int
    covered: float
    """Part of the outcomes within the 80 % interval."""
    early: float
    """Part of the outcomes before it."""
    late: float
    """Part of the outcomes after it."""
    error: float
    """Median of |predicted - real| / (real - made)."""
    bias: float
    """Median of (predicted - real) / (real - made): below 0, predicted too early."""
    width: float
    """Median ratio of the ends of the interval, in time from when it was made."""


@dataclass(frozen=True, slots=True)
class ReliabilityPoint:
    """How often outcomes came before a quantile."""

    said: float
    """The quantile, 0 to 1."""
    came: float
    """Part of the outcomes before it."""


@dataclass(frozen=True, slots=True)
class AccuracyRecord:
    """How forecasts of a kind of moment came true."""

    what: str
    """"start" or "finish"."""
    since: float
    forecasts: int
    unknown: int = 0
    """Those whose interval was too wide to say anything: users were told that it is unknown."""
    groups: tuple[AccuracyGroup, ...] = ()
    reliability: tuple[ReliabilityPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class JobForecastRecord:
    """A forecast of a job that was kept, and what came of it. Times in s since 1970."""

    what: str
    mark: str
    """"submission", "start", "25%", "50%" or "75%"."""
    made: float
    low: float | None
    middle: float | None
    high: float | None
    rests_on: int
    came: float | None = None
