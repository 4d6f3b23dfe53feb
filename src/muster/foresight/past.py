"""What has happened so far, followed from view to view: jobs, how long they took, lost nodes.

A length is counted in s on the job's gang: time on other workers counts by their speed over the gang's,
so that jobs of the same request compare, however the policy has treated them.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from muster.foresight.changing import Changing, Transition, changing, unseen
from muster.foresight.outages import Outages
from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.model.placement import Placement
from muster.model.view import JobState, Phase, View
from muster.perf.learnt.held import Held, held_on
from muster.perf.mixture import mixed_rate

KEPT = 2048
"""Newest submissions kept: a few weeks of a busy cluster."""


NEAR = 60.0
"""s: an end of work that is farther off is not known well enough to tell how long processes took to
end after it."""
SURE = 0.2
"""Most spread of an outlook of which the same holds: 12 s of `NEAR`."""


@dataclass(slots=True)
class PastJob:
    """A job that was submitted, and its length so far."""

    job: Job
    submitted: float
    length: float = 0.0
    """s on its gang."""
    over: bool = False
    outlook: Outlook | None = None
    """As it was last believed."""
    held: tuple[Placement, Held] | None = field(default=None, repr=False)
    """Where it is, and what that is for its speed."""
    changes: list[tuple[Transition, float]] = field(default_factory=list)
    """What was done to it so far, and the s that it took."""
    changing: Changing | None = None
    """The change that it is in."""
    placed: Placement | None = None
    """What it held when it was last seen."""
    due: float | None = None
    """When the last of its work is done, s; None: not known well enough."""


class Past:
    """Everything that forecasts learn from."""

    def __init__(self) -> None:
        self.since: float | None = None
        """s at which it began to follow."""
        self.outages = Outages()
        self._jobs: dict[int, PastJob] = {}
        self._live: dict[int, PastJob] = {}
        self._ended: list[PastJob] = []
        self._at: float | None = None
        """s of the last view."""

    def __iter__(self) -> Iterator[PastJob]:
        """Yield the jobs in the order of their submission."""
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def ended(self) -> int:
        """Jobs that were followed to their end."""
        return sum(each.over for each in self._jobs.values())

    def of(self, number: int) -> PastJob | None:
        """Return a live job's past."""
        return self._live.get(number)

    def restore(self, since: float | None, jobs: Iterable[PastJob]) -> None:
        """Begin with jobs that have ended since this moment."""
        self.since = since
        self._jobs = {each.job.number: each for each in jobs}

    def follow(self, view: View, now: float, stopped: Collection[int] = ()) -> None:
        """Take in what the view says of the time since the last one; `stopped`: jobs that are gone but
        would have taken longer."""
        if self.since is None:
            self.since = now
        passed, self._at = max(0.0, now - (now if self._at is None else self._at)), now
        self.outages.follow(view.cluster, now, passed)
        for number in [each for each in self._live if each not in view.jobs]:
            self._advance(self._live[number], passed)
            ended = self._live.pop(number)
            ended.over, ended.held = number not in stopped, None
            if ended.over and ended.due is not None:
                ended.changes.append((Transition.END, max(0.0, now - ended.due)))
            self._ended.append(ended)
        for number, state in view.jobs.items():
            known = self._live.get(number)
            if known is None:
                known = PastJob(state.job, state.submitted, _so_far(state, now), placed=state.placement)
                self._live[number] = self._jobs[number] = known
            else:
                self._advance(known, passed)
            self._see_change(known, state, now)
            known.held = _held(state, view, known.held)
            outlook = view.outlooks.get(number, known.outlook)
            if outlook is not known.outlook:  # else it is of a moment before
                known.outlook, known.due = outlook, _due(known, outlook, now)
        for number in list(self._jobs)[: len(self._jobs) - KEPT]:
            del self._jobs[number]

    def take_ended(self) -> list[PastJob]:
        """Hand out the jobs that have ended since this was last called."""
        ended, self._ended = self._ended, []
        return ended

    def _advance(self, known: PastJob, passed: float) -> None:
        if known.held is not None:
            known.length += passed * speed_up(known.job, known.outlook, known.held[1])

    def _see_change(self, known: PastJob, state: JobState, now: float) -> None:
        """Take in which change a job is in; one that it was in before has taken effect."""
        before, known.changing = known.changing, changing(state, now, known.changing)
        if before is not None:
            if before is not known.changing:
                known.changes.append((before.change, now - before.since))
        elif known.changing is None and (change := unseen(state, known.placed)) is not None:
            known.changes.append((change, 0.0))
        known.placed = state.placement


def _due(known: PastJob, outlook: Outlook | None, now: float) -> float | None:
    """Return when the last of a job's work is done by what is believed now; once it is, when it was."""
    if outlook is None or not (outlook.told and outlook.here) or outlook.spread > SURE:
        return None
    left = outlook.left / outlook.here
    if left <= 0.0:
        return now if known.due is None else min(known.due, now)
    return now + left if left < NEAR else None


def _so_far(state: JobState, now: float) -> float:
    """Return the length of a job that was running when it was first seen, as if its speed grew with
    its devices."""
    return state.attained(now) / max(1, state.job.workers.gang * state.job.workers.need.devices)


def _held(
    state: JobState, view: View, before: tuple[Placement, Held] | None
) -> tuple[Placement, Held] | None:
    if state.placement is None or state.phase is Phase.STARTING:
        return None
    if before is not None and before[0] is state.placement:
        return before
    held = held_on(state.placement, view.cluster, state.batch)
    return None if held is None else (state.placement, held)


def speed_up(job: Job, outlook: Outlook | None, held: Held) -> float:
    """Return the speed on what a job holds over that on its gang."""
    if outlook is None:
        return 1.0
    alone = gang_rate(job, outlook, (held.device_type,))
    now = outlook.here if outlook.here is not None else mixed_rate(outlook.speed, held.by_type)
    return now / alone if alone > 0.0 else 1.0


def gang_rate(job: Job, outlook: Outlook, types: Iterable[str]) -> float:
    """Return the believed work per s on its gang, on the fastest of these types."""
    gang = max(1, job.workers.gang)
    return max((outlook.speed.rate(each, gang) for each in types), default=0.0)


def unmeasured(job: Job) -> Table:
    """Return the speed of a job of which nothing is known: that of its gang, and no more with more."""
    return Table((0.0,) * (max(1, job.workers.gang) - 1) + (1.0,))
