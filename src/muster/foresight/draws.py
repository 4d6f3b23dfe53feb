"""Draws of what is uncertain: one world for each number, the same whatever is asked of it.

Lengths are drawn in strata: over all worlds each job takes every part of its distribution once, which
makes the quantiles of a few worlds as good as those of many more. So are the stretches of the past that
come again.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import exp, log
from random import Random
from statistics import NormalDist

from muster.foresight.coming import Coming
from muster.foresight.delays import TransitionDelays
from muster.foresight.drawn_job import DrawnJob
from muster.foresight.drawn_times import DrawnTimes
from muster.foresight.likes import Alike, Likes
from muster.foresight.past import Past, PastJob, gang_rate, unmeasured
from muster.foresight.survival import Survival
from muster.model.cluster import Cluster
from muster.model.decision import Kind
from muster.model.event import NodeEvent
from muster.model.job import Job
from muster.model.outlook import Outlook, Speed
from muster.model.view import JobState, Phase, View
from muster.perf.learnt.held import held_on
from muster.perf.learnt.lengths import SIGMA
from muster.sim.midway import Underway
from muster.sim.truth import Arrival

KNOWN = 0.5
"""Most spread of an outlook that is believed more than the lengths of similar jobs: that of a declared
duration is 0.69."""
_NORMAL = NormalDist()


class WorldDraws:
    """Draws worlds that begin with a view."""

    def __init__(self, view: View, now: float, past: Past, worlds: int, seed: int = 0) -> None:
        self._view, self._now, self._past = view, now, past
        self.worlds, self._seed = worlds, seed
        self._types = view.cluster.device_types()
        self._every = Likes(past)
        # Of this moment: the past goes on while worlds are played.
        self._ages = {n: known.length for n in view.jobs if (known := past.of(n)) is not None}
        self._likes: dict[int, Alike] = {}
        """Of live jobs, by number."""
        self._submitted = {each.job.number: each for each in past}
        self._coming = Coming(past, now, max(view.jobs, default=0) + 1)
        self._strata = cache(self._shuffled)
        self._repeated = cache(self._believed_again)
        self._delays = TransitionDelays(past)
        self._changing = {
            n: now - known.changing.since
            for n in view.jobs
            if (known := past.of(n)) is not None and known.changing is not None
        }
        """s since the change was ordered that each job is in."""
        self._overdue = {
            n: now - known.due
            for n in view.jobs
            if (known := past.of(n)) is not None and known.due is not None
        }
        """s since each job's work was done; less than 0: until then."""

    def basis(self, number: int) -> int:
        """Return how many similar jobs a forecast rests on; 0: on what the job itself has shown."""
        state = self._view.jobs[number]
        return 0 if self._is_known(state) else self._alike(state).jobs

    def is_own(self, number: int) -> bool:
        """Whether a forecast rests on what the job itself has shown or declared."""
        return self._is_known(self._view.jobs[number])

    def underway(self, world: int) -> dict[int, Underway]:
        """Return every live job as it turns out in this world."""
        return {number: self._one(state, world) for number, state in self._view.jobs.items()}

    def arrivals(self, world: int) -> Iterator[Arrival]:
        """Yield the jobs that come in this world."""
        random = Random(f"{self._seed}/{world}/coming")
        return self._coming.draw(random, lambda each: self._part(f"stream {each}", world), self._again)

    def times(self, world: int) -> DrawnTimes:
        """Return how long changes take in this world."""
        return DrawnTimes(self._view, self._delays, f"{self._seed}/{world}")

    def incidents(
        self, world: int, until: float, cluster: Cluster | None = None
    ) -> tuple[NodeEvent, ...]:
        """Return the nodes that are lost and return in this world; a node's are the same in whatever
        cluster it is."""
        seed, cluster = f"{self._seed}/{world}", cluster or self._view.cluster
        found = self._past.outages.draw(cluster, self._now, until, seed)
        return tuple(sorted(found, key=lambda event: event.at))

    def _one(self, state: JobState, world: int) -> Underway:
        held, resumes = None, 0.0
        if state.placement is not None:
            held = held_on(state.placement, self._view.cluster, state.batch)
        if state.since is not None and state.phase is Phase.RUNNING:
            resumes = state.since + self._pause(state, world)
        work, ending = self._work(state, self._part(state.number, world)), self._ending(state, world)
        return Underway(
            DrawnJob(work, self._believed(state), held, ending),
            resumes=resumes,
            run=int(state.run > (state.phase is Phase.STARTING)),
            changing=self._changing.get(state.number, 0.0),
        )

    def _pause(self, state: JobState, world: int) -> float:
        """Return the s without progress from when a job got its devices."""
        if state.generation == state.run:
            return self.times(world).start(state.job, first=state.run == 1)
        return self.times(world).pause(state.job, Kind.RESIZE)

    def _ending(self, state: JobState, world: int) -> float:
        """Return the s from the last of the work to the end; lengths of similar jobs include them."""
        if not self._is_known(state):
            return 0.0
        return self.times(world).end(state.job, max(0.0, self._overdue.get(state.number, 0.0)))

    def _work(self, state: JobState, part: float) -> float:
        """Return the work left of which this part of all draws have no more."""
        believed = self._believed(state)
        if self._is_known(state):
            return believed.left * exp(believed.spread * _NORMAL.inv_cdf(part))
        seconds = self._alike(state).length.at(part) - self._age(state.number)
        return max(seconds, 1.0) * self._gang(state.job, believed)

    def _is_known(self, state: JobState) -> bool:
        """Whether the job itself and what was learnt of its application say more than similar jobs."""
        outlook, job = self._view.outlooks.get(state.number), state.job
        if outlook is None or not outlook.timed:
            return False
        if outlook.spread == 0.0 or (outlook.told and job.work is not None):
            return True
        # Without any of these, an outlook is of jobs of all kinds.
        told = outlook.told or job.application is not None or job.duration is not None
        return told and (outlook.spread <= KNOWN or not self._alike(state).same)

    def _alike(self, state: JobState) -> Alike:
        found = self._likes.get(state.number)
        if found is None:
            found = self._likes[state.number] = self._every.of(state.job, self._age(state.number))
        return found

    def _believed(self, state: JobState) -> Outlook:
        outlook = self._view.outlooks.get(state.number)
        if outlook is not None:
            return outlook
        speed = unmeasured(state.job)
        return Outlook(*_middle(self._alike(state).length, self._age(state.number), speed))

    def _gang(self, job: Job, believed: Outlook) -> float:
        return gang_rate(job, believed, job.device_types or self._types) or 1.0

    def _age(self, number: int) -> float:
        return self._ages.get(number, 0.0)

    # Jobs like past ones

    def _again(self, past: PastJob, random: Random) -> DrawnJob:
        """Return a job like a past one: it takes as long as that took, or will take."""
        believed = self._repeated(past.job.number)
        work = max(past.length, 1.0) * self._gang(past.job, believed)
        state = self._view.jobs.get(past.job.number)
        return DrawnJob(work if state is None else work + self._work(state, random.random()), believed)

    def _believed_again(self, number: int) -> Outlook:
        """Return what would be believed of a job like a past one when it is submitted."""
        past, state = self._submitted[number], self._view.jobs.get(number)
        outlook = past.outlook or Outlook(1.0, unmeasured(past.job))
        rate = self._gang(past.job, outlook)
        if state is not None and self._is_known(state):
            return replace(outlook, left=outlook.left + past.length * rate, here=None)
        left, _, spread = _middle(self._every.of(past.job, 0.0).length, 0.0, outlook.speed)
        return replace(outlook, left=left * rate, spread=spread, here=None)

    # Strata

    def _shuffled(self, name: int | str) -> list[int]:
        places = list(range(self.worlds))
        Random(f"{self._seed}/strata/{name}").shuffle(places)
        return places

    def _part(self, name: int | str, world: int) -> float:
        within = Random(f"{self._seed}/{world}/{name}").random()
        return min(max((self._strata(name)[world] + within) / self.worlds, 1e-6), 1 - 1e-6)


def _middle(length: Survival, age: float, speed: Speed) -> tuple[float, Speed, float]:
    """Return the s left on its gang, the speed, and the spread, as an outlook has them."""
    low, middle, high = (max(length.at(part) - age, 1.0) for part in (SIGMA, 0.5, 1 - SIGMA))
    return middle, speed, log(high / low) / 2
