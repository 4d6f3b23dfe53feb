"""Records of sweeps for the API."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.wire.api.job_relations import ParentRecord

FINISHED, STOPPED, SKIPPED = "finished", "stopped", "skipped"
SWEEP_OVER = (FINISHED, STOPPED, SKIPPED)
"""Statuses of sweeps that are over; live ones are `waiting`, `running` or `stopping`."""


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """A sweep in a list."""

    number: int
    name: str
    user: str
    pool: str
    status: str
    """"waiting" for what it comes after, "running" and "stopping" while members are live or to come,
    "finished", "stopped" or "skipped" after."""
    members: int
    """How many it has."""
    counts: dict[str, int] = field(default_factory=dict)
    """Members by what they do: "to come", "waiting", "running", "paused", "stopping", or how they
    ended."""
    over: dict[str, str] = field(default_factory=dict)
    """Values of each parameter, as a user writes them."""
    at_most: int | None = None
    """Members with tasks at once; null: any number."""
    metric: str = "loss"
    """What ranks its members."""
    largest: bool = False
    """Whether more is better."""
    asha: str = ""
    """How losers are stopped, in words; empty: they are not."""
    submitted: float = 0.0
    ended: float | None = None
    after: tuple[ParentRecord, ...] = ()
    """What must end before its members start."""
    reason: str = ""
    """Why it waits, or was skipped."""
    outcome: str = ""
    """How it has ended, for those after it: "succeeded" if each member did or was pruned, "failed" if
    one failed, else "cancelled" or "skipped"; empty: it is live."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member of a sweep."""

    index: str
    """What it is called within the sweep."""
    params: dict[str, str]
    status: str
    """Of its job; "to come": it has none yet."""
    number: int | None = None
    """Of its job."""
    name: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """As last reported; `loss` also of a training of the runtime, over its last epoch."""
    epoch: int | None = None
    rung: int = 0
    """The highest rung that it has reached; 0: none."""
    reason: str = ""
    """Why it waits, has stopped or has failed."""
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class SweepDetail:
    """A sweep with its members, in order."""

    sweep: SweepRecord
    members: tuple[MemberRecord, ...] = ()


def best_first(members: Iterable[MemberRecord], metric: str, *, largest: bool) -> list[MemberRecord]:
    """Return members by a metric, the best first; those without it in order after them."""

    def key(member: MemberRecord) -> tuple[bool, float]:
        value = member.metrics.get(metric)
        return value is None, 0.0 if value is None else -value if largest else value

    return sorted(members, key=key)
