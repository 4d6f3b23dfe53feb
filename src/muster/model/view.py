"""A frozen, versioned snapshot of everything a cycle may read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from muster.model.cluster import Cluster
from muster.model.job import Dependency, Job
from muster.model.outlook import Outlook
from muster.model.placement import Placement, Slot
from muster.model.plan import ChosenPlan
from muster.model.pool import PoolTree
from muster.model.profile import CapturedShape
from muster.model.slowdowns import Slowdowns


class Phase(StrEnum):
    """A live job's phase."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESIZING = "resizing"
    MIGRATING = "migrating"
    PREEMPTING = "preempting"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and its state. Times in s; None is never."""

    job: Job
    phase: Phase
    submitted: float
    generation: int = 0
    run: int = 0
    """Generation at which the current (or next) run began: reports of older ones are stale."""
    started: float | None = None
    """Start of the current run."""
    checkpointed: float | None = None
    placement: Placement | None = None
    target: Placement | None = None
    """The placement after the resize or migration in progress."""
    batch: int | None = None
    """The global batch in use; None: its own."""
    served: float = 0.0
    """Device-seconds held before `since`."""
    since: float | None = None
    """When it got its current devices; None: it holds none."""
    reshaped: bool = False
    """Whether the user changed its numbers of tasks: it may have more than requested."""
    held_by: str = ""
    """The user who holds it: it is not started until it is released. Empty: nobody."""
    not_before: float = 0.0
    """It is not started earlier: it waits after losses."""
    plan: ChosenPlan | None = None
    """How its tasks share the work; None: they decide by themselves."""
    planned: float = 0.0
    """When that was decided, in s."""

    @property
    def number(self) -> int:
        """The job's number, its key."""
        return self.job.number

    def attained(self, now: float) -> float:
        """Return the device-seconds held by now: Tiresias' two-dimensional attained service."""
        if self.since is None or self.placement is None:
            return self.served
        return self.served + self.placement.devices * max(0.0, now - self.since)

    def may_start(self, now: float) -> bool:
        """Whether neither a user, a delay after losses nor another job keeps it from being started."""
        return not self.held_by and self.not_before <= now and not self.awaited

    @property
    def awaited(self) -> tuple[Dependency, ...]:
        """The jobs that must still end before it starts."""
        after = self.job.after
        return tuple(each for each in after if not each.met) if after else after

    @property
    def keeps_work(self) -> bool:
        """Whether it could be stopped and go on later; else a stop costs all it has done."""
        return self.job.resumes or self.job.elastic or self.checkpointed is not None

    def at_risk(self, now: float) -> float:
        """Return the seconds of work that a stop would lose: since its last checkpoint or its start."""
        if self.started is None:
            return 0.0
        return max(0.0, now - max(self.started, self.checkpointed or 0.0))

    def held(self) -> tuple[Slot, ...]:
        """Return every slot held now: during a change, both the old and the new ones."""
        now = self.placement.slots if self.placement else ()
        return tuple(dict.fromkeys((*now, *self.target.slots))) if self.target else now


@dataclass(frozen=True, slots=True)
class View:
    """Cluster, pools and live jobs at one version."""

    version: int
    cluster: Cluster
    pools: PoolTree
    """Quotas that are parts of the cluster are sized to its devices."""
    jobs: Mapping[int, JobState]
    """By number."""
    outlooks: Mapping[int, Outlook] = field(default_factory=dict)
    """What is believed about live jobs; others are unknown."""
    names: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Live jobs' numbers by full name, to resolve user input and keep a user's names unique."""
    shapes: Mapping[int, CapturedShape] = field(default_factory=dict)
    """What the trainings of jobs look like, captured by them or by similar jobs; others are unknown."""
    knowledge: Any = None
    """Measurements of all jobs, as `perf.predict.Knowledge`; None: none. The same object as long as
    nothing has changed."""
    slowdowns: Slowdowns = field(default_factory=Slowdowns)
    """What is believed about neighbours."""
    uplinks: Mapping[str, float] = field(default_factory=dict)
    """Bytes/s of nodes whose link was learnt to differ from what the cluster file says."""

    def start_pause(self, state: JobState) -> float:
        """Return the s without progress that starting the job costs, and so stopping it."""
        known = self.outlooks.get(state.number)
        return state.job.pause if known is None or known.start is None else known.start

    def resize_pause(self, state: JobState) -> float:
        """Return the s without progress that changing its tasks costs: a start if it must restart."""
        if state.job.restarts:
            return self.start_pause(state)
        known = self.outlooks.get(state.number)
        return state.job.pause if known is None or known.resize is None else known.resize

    def last_pause(self, state: JobState) -> float:
        """Return the s without progress after its last change."""
        first = state.generation == state.run
        return self.start_pause(state) if first else self.resize_pause(state)

    def __post_init__(self) -> None:
        # Views stored before names were per user have them without the user.
        if len(self.names) != len(self.jobs) or "/" not in next(iter(self.names), "/"):
            found = {state.job.full_name: number for number, state in self.jobs.items()}
            object.__setattr__(self, "names", found)
        if self.pools.relative:
            object.__setattr__(self, "pools", self.pools.sized(self.cluster.present()))
