"""What the API says of a change that was only asked about."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IntervalRecord:
    """A median and its 80 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FigureRecord:
    """A figure as everything is, with the change, and the difference within each world."""

    before: IntervalRecord
    after: IntervalRecord
    change: IntervalRecord


@dataclass(frozen=True, slots=True)
class WhatIfJob:
    """What a change would do to a job. Times in s since 1970; differences in s, positive: later."""

    number: int
    name: str
    user: str
    pool: str
    verdict: str
    """"earlier", "later", "same", "unclear" (either, by how jobs turn out) or "new" (the change submits
    it)."""
    basis: int
    """Like jobs that it rests on; 0: on what the job itself has shown or declared."""
    after_finish: IntervalRecord
    after_start: IntervalRecord | None = None
    """None: it has started."""
    before_start: IntervalRecord | None = None
    before_finish: IntervalRecord | None = None
    """None: the change submits it."""
    start_change: IntervalRecord | None = None
    finish_change: IntervalRecord | None = None


@dataclass(frozen=True, slots=True)
class WhatIfReport:
    """What a change would do."""

    now: float
    """When it was asked, s since 1970."""
    worlds: int
    """Futures played on each side, with the same draws."""
    jobs: tuple[WhatIfJob, ...]
    """Those that the caller may see, by number."""
    counts: dict[str, int]
    """All jobs by verdict, those of others included."""
    completion: FigureRecord
    """s from submission to end, mean of all jobs that are live now."""
    makespan: FigureRecord
    """s until the last of them has ended."""
    used: FigureRecord
    """Part of all devices that is held until one side has ended its jobs."""
    fragmentation: FigureRecord
    """Part of all devices that are free on partly used nodes, over the same time."""
    pools: dict[str, FigureRecord] = field(default_factory=dict)
    """Devices held by each pool, on average over the same time."""


@dataclass(frozen=True, slots=True)
class WhatIfRecord:
    """A question, how far it is, and its answer once that is there."""

    id: str
    done: int
    """Worlds played so far."""
    of: int
    report: WhatIfReport | None = None
    problem: str = ""
    """Why there is no answer; empty: there is one, or there will be."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.report is not None or bool(self.problem)
