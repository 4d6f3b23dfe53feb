"""One job's progress: how far it has come, how fast it goes, and what that has cost so far."""

from dataclasses import dataclass
from math import inf

from muster.model.job import Job
from muster.model.placement import Placement
from muster.perf.learnt.held import Held
from muster.sim.truth import Pace, Truth

_STILL = Pace(0.0)


@dataclass(slots=True)
class Life:
    """Work done up to the moment `at`; nothing is done before `resumes`. Times in s."""

    job: Job
    truth: Truth
    submitted: float
    at: float = 0.0
    done: float = 0.0
    resumes: float = 0.0
    crew: Held | None = None
    placement: Placement | None = None
    target: Placement | None = None
    """Where a change under way leads: it holds that too."""
    pace: Pace = _STILL
    slowdown: float = 1.0
    """How much slower neighbours make it: 1 is not at all."""
    version: int = 0
    """Counts changes of pace: what is due by an older one is out of date."""
    run: int = 0
    """Counts runs: what is due for an older one is out of date."""
    generation: int = 0
    safe: float = 0.0
    """Work done when the present crew began: it was saved then."""
    began: float | None = None
    """Begin of the first run."""
    reported: int = -1
    """The version of which what it shows has been reported."""
    seconds: float = 0.0
    paused: float = 0.0
    held: float = 0.0
    lost: float = 0.0
    resizes: int = 0
    preemptions: int = 0
    migrations: int = 0
    failures: int = 0
    stopped: float | None = None
    """When it was last told to stop."""
    since: float = 0.0
    """When it got the devices it has."""
    shows: int = 0
    """Reports so far: each has an error of its own."""

    @property
    def rate(self) -> float:
        """Work per s at present, pauses apart."""
        return self.pace.rate / self.slowdown

    @property
    def is_leaving(self) -> bool:
        """Whether it goes on with fewer tasks, and those that go still hold their devices."""
        return self.target is not None and self.target == self.placement

    def advance(self, now: float) -> None:
        """Let time pass; it never runs backwards."""
        elapsed = now - self.at
        if elapsed <= 0:
            return
        if self.crew is not None:
            pause = min(elapsed, max(0.0, self.resumes - self.at))
            devices = self.placement.devices if self.placement else 0
            self.done += self.rate * (elapsed - pause)
            self.seconds += elapsed
            self.paused += pause
            self.held += devices * elapsed
            self.lost += devices * pause
        self.at = now

    def next_milestone(self) -> tuple[float, bool]:
        """When the pace changes or the work is done, and whether it is done then."""
        if self.crew is None or self.rate <= 0.0:
            return inf, False
        ends = self.truth.work <= self.pace.until
        goal = self.truth.work if ends else self.pace.until
        return max(self.at, self.resumes) + max(0.0, goal - self.done) / self.rate, ends

    def is_on(self, node: str) -> bool:
        """Whether it holds anything there."""
        return any(p is not None and node in p.nodes() for p in (self.placement, self.target))

    def set_crew(self, crew: Held | None, placement: Placement | None, resumes: float) -> None:
        """Go on with other devices, or with none, from the moment given."""
        self.crew, self.placement, self.target = crew, placement, None
        self.resumes, self.safe = resumes, self.done
        self.renew()

    def renew(self) -> None:
        """Ask the truth anew how fast it goes."""
        self.pace = _STILL if self.crew is None else self.truth.pace(self.crew, self.done)
        self.version += 1

    def fall_back(self, checkpoint: float) -> None:
        """Lose what was done since the last checkpoint: every so many s, and when a crew began."""
        since = max(0.0, self.at - self.resumes)
        seconds = since % checkpoint if checkpoint > 0 else 0.0
        before = max(self.safe, self.done - seconds * self.rate)
        if self.rate > 0 and self.placement is not None:
            self.lost += self.placement.devices * (self.done - before) / self.rate
        self.done = before
