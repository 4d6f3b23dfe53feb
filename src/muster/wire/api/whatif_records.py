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
    """"earlier", "later", "same", "unclear" (either, by how jobs turn out), "never" (with the change it
    does not end within the 90 days that are played) or "new" (the change submits it)."""
    basis: int
    """Similar jobs that it rests on; 0: on what the job itself has shown or declared."""
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
    """s from submission to end, mean of the jobs that are live now and end on both sides."""
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


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A job that would be moved."""

    number: int
    name: str
    user: str
    before: str
    """Its devices, such as `n0[0-3]`."""
    after: str
    pause: float
    """s without progress."""


@dataclass(frozen=True, slots=True)
class DefragRecord:
    """A waiting job, and the moves that would make room for it."""

    number: int
    name: str
    user: str
    pool: str
    devices: int
    """That it needs."""
    placement: str
    """Where it would start, such as `n0[0-7]`."""
    moves: tuple[MoveRecord, ...]
    cost: float
    """Device-seconds without progress of the jobs that move."""
    gain: float
    """Device-seconds that it would otherwise wait, as far as is known."""
    fragmentation_before: float
    """Part of the free devices that lie on partly used nodes."""
    fragmentation_after: float
    """The same once they have moved, before it starts."""

    @property
    def pays(self) -> bool:
        """Whether the scheduler makes these moves by itself."""
        return self.cost < self.gain
