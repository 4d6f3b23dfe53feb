"""One simulated job's progress, speed and costs so far."""

from dataclasses import dataclass
from math import inf

from muster.model.job import Job
from muster.model.placement import Placement
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.sim.truth import JobPace, Truth

_STILL = JobPace(0.0)


@dataclass(slots=True)
class Life:
    """Work done up to `at`; nothing is done before `resumes`. Times in s."""

    job: Job
    truth: Truth
    submitted: float
    at: float = 0.0
    done: float = 0.0
    resumes: float = 0.0
    crew: Held | None = None
    placement: Placement | None = None
    target: Placement | None = None
    """The placement after the change in progress, held as well."""
    pace: JobPace = _STILL
    slowdown: float = 1.0
    """Factor by which neighbours slow it; 1: none."""
    version: int = 0
    """Counts changes of pace: what is due by an older one is stale."""
    run: int = 0
    """Counts runs: what is due for an older one is stale."""
    generation: int = 0
    safe: float = 0.0
    """Work done, and saved, when the current crew began."""
    began: float | None = None
    """Start of the first run."""
    limit: float = inf
    """When the time limit ends the current run."""
    reported: int = -1
    """The last version it reported about."""
    seconds: float = 0.0
    paused: float = 0.0
    held: float = 0.0
    lost: float = 0.0
    resizes: int = 0
    preemptions: int = 0
    migrations: int = 0
    failures: int = 0
    stopped: float | None = None
    """When it last stopped."""
    since: float = 0.0
    """When it got its current devices."""
    changed: ChangeKind | None = None
    """What gave it its current crew, until it has told what that cost."""
    shows: int = 0
    """Reports so far: each has its own error."""
    drag: float = 1.0
    """Factor by which slow links lengthen its steps; 1: none."""

    @property
    def rate(self) -> float:
        """Current work per s, without pauses."""
        return self.pace.rate / (self.slowdown * self.drag)

    @property
    def ends_at_pace(self) -> bool:
        """Whether its work is done before its pace changes."""
        return self.truth.work <= self.pace.until

    @property
    def is_leaving(self) -> bool:
        """Whether it runs with fewer tasks while those that leave still hold devices."""
        return self.target is not None and self.target == self.placement

    def advance(self, now: float) -> None:
        """Let time pass; it never runs backwards."""
        elapsed = now - self.at
        if elapsed <= 0:
            return
        if self.crew is not None:
            devices = self.placement.devices if self.placement else 0
            self.seconds += elapsed
            self.held += devices * elapsed
            if self.resumes > self.at:
                pause = min(elapsed, self.resumes - self.at)
                self.paused += pause
                self.lost += devices * pause
                elapsed -= pause
            self.done += self.rate * elapsed
        self.at = now

    def next_milestone(self) -> tuple[float, bool]:
        """Return when the pace changes or the job ends, and whether it ends then."""
        if self.crew is None:
            return inf, False
        moment, ends = self._milestone()
        return (max(self.at, self.limit), True) if self.limit < moment else (moment, ends)

    def _milestone(self) -> tuple[float, bool]:
        """Return the same without a time limit."""
        if self.rate <= 0.0:
            return inf, False
        ends = self.ends_at_pace
        goal = self.truth.work if ends else self.pace.until
        return max(self.at, self.resumes) + max(0.0, goal - self.done) / self.rate, ends

    def start(self, at: float) -> None:
        """A run begins, and with it its time limit."""
        limit = self.job.program.time
        self.limit = inf if limit is None else at + limit

    def is_on(self, node: str) -> bool:
        """Whether it holds anything there."""
        return any(p is not None and node in p.nodes() for p in (self.placement, self.target))

    def set_crew(self, crew: Held | None, placement: Placement | None, resumes: float) -> None:
        """Continue on other devices, or on none, from the moment given."""
        self.crew, self.placement, self.target = crew, placement, None
        self.resumes, self.safe = resumes, self.done
        self.renew()

    def renew(self) -> None:
        """Recompute its pace."""
        self.pace = _STILL if self.crew is None else self.truth.pace(self.crew, self.done)
        self.version += 1

    def fall_back(self, checkpoint: float) -> None:
        """Lose the work since the last checkpoint: every `checkpoint` s, and when a crew began.

        It counts as the s that it takes undisturbed: who disturbed it since when is not kept.
        """
        since = max(0.0, self.at - self.resumes)
        seconds = since % checkpoint if checkpoint > 0 else 0.0
        before = max(self.safe, self.done - seconds * self.rate)
        if self.rate > 0 and self.placement is not None:
            self.lost += self.placement.devices * (self.done - before) / self.pace.rate
        self.done = before
