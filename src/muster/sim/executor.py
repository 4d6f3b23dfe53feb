"""An executor and a clock without machines: what was ordered comes true after its time has passed."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from muster.model.cluster import Cluster
from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.view import JobState
from muster.perf.learnt.held import held_on
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.life import Life
from muster.sim.result import Stint
from muster.sim.truth import Truth
from muster.sim.worlds.fixed import Fixed

HOUR = 3600.0
"""Run time of a job of which nothing else is known."""


class VirtualClock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds since the play began."""
        return self._now

    def move_to(self, moment: float) -> None:
        """Let time pass; it never runs backwards."""
        self._now = max(self._now, moment)


@dataclass(frozen=True, slots=True)
class Warmup:
    """s from the order of new tasks to the moment they train: once, and for each of them."""

    once: float = 0.0
    each: float = 0.0

    def seconds(self, tasks: int) -> float:
        """For so many at once; none need none."""
        return self.once + self.each * tasks if tasks else 0.0


NO_WARMUP = Warmup()


@dataclass(frozen=True, slots=True)
class Pauses:
    """What a change costs, in s. None: the job's own pause."""

    start: float | None = None
    """Without progress after a start."""
    resize: float | None = None
    """Without progress after a resize: about 1 where the runtime resizes live."""
    migrate: float | None = None
    release: float | None = 0.0
    """From the order to the moment the old devices are free; until then the job goes on on them."""
    stop: float | None = None
    """The same where the whole job is to stop; None: `release`."""
    checkpoint: float = 600.0
    """Between two checkpoints: what was done since the last is lost with a node."""
    warmup: Warmup = NO_WARMUP
    """Of tasks that start or join: a start has not come true before, and whoever is joined goes on as
    it is. Neither can be changed meanwhile."""
    first_starts: Mapping[int, float] = field(default_factory=dict, hash=False)
    """The same for the first start of jobs of which it is known, by number."""
    leave_first: bool = False
    """Whether tasks that go stop working at once, and let go of their devices after `release`: that is
    how the runtime does it, whose processes take a while to end."""


WITHOUT_PROGRESS = Pauses(start=0.0, resize=0.0, migrate=0.0, release=None)
"""A change takes its time, but costs the job nothing: durations are meant with everything."""


class VirtualExecutor:
    """Runs jobs by their truth: each goes at its pace until its work is done.

    A job that is stopped has saved its work and goes on from there. Neighbours slow each other down.
    """

    def __init__(
        self,
        clock: VirtualClock,
        cluster: Cluster | None = None,
        pauses: Pauses = WITHOUT_PROGRESS,
        disturbance: Disturbance = UNDISTURBED,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._pauses = pauses
        self._disturbance = disturbance
        self._due: list[tuple[float, int, Life, int, int, Decision | None]] = []
        self._order = count()
        self._at = 0.0
        """The moment of what is being worked on: behind the clock while events are collected late."""
        self._said: list[Event] = []
        self._on: dict[str, dict[int, Life]] = {}
        """Jobs by node; kept only where they disturb each other."""
        self.lives: dict[int, Life] = {}
        self.stints: list[Stint] | None = None
        """Who held what, where that is to be kept."""

    def admit(self, job: Job, truth: Truth | None) -> Life:
        """Take note of a job that was submitted."""
        truth = truth or Fixed(job.duration if job.duration is not None else HOUR)
        life = Life(job, truth, submitted=self._clock.now())
        self.lives[job.number] = life
        return life

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Begin what was decided."""
        now = self._at = self._clock.now()
        life = self.lives.get(job.number) or self.admit(job, None)
        if decision.kind is Kind.WAIT:
            return
        life.generation = decision.generation
        if decision.kind is Kind.START:
            life.run += 1
            life.advance(now)
            if life.stopped == now:  # stopped only to be started with other tasks
                life.preemptions -= 1
                life.resizes += 1
            life.began = now if life.began is None else life.began
        takes = self._takes(life, decision)
        if takes > 0:
            if self._pauses.leave_first:
                self._go_on_without(life, decision)
            # A change under way is part of the run: a new pace does not call it off.
            life.target = decision.placement
            self._push(now + takes, life, -1, decision)
        else:
            self._switch(life, decision, now)

    def collect(self) -> Sequence[Event]:
        """What has come true by now, in the order in which it did."""
        now = self._clock.now()
        events, self._said = self._said, []
        while (due := self.next_due()) is not None and due <= now:
            moment, _, life, _, _, decision = heapq.heappop(self._due)
            self._at = moment
            if decision is not None:
                self._switch(life, decision, moment)
                events += self._said
                self._said = []
            elif life.next_milestone()[1]:
                events.append(self._end(life, moment))
            else:
                life.advance(moment)
                life.done = max(life.done, life.pace.until)  # not a hair short of it, by rounding
                self._renew(life)
        return events

    def next_due(self) -> float | None:
        """When something comes true next."""
        if self._said:
            return self._clock.now()
        while self._due and _is_old(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def after_loss(self, states: Mapping[int, JobState], node: str) -> None:
        """A node is gone: what ran there has lost its tasks, and its work since the last checkpoint."""
        now = self._at = self._clock.now()
        for life in list(self.lives.values()):
            if not life.is_on(node):
                continue
            life.advance(now)
            life.fall_back(self._pauses.checkpoint)
            life.failures += 1
            state = states.get(life.job.number)
            if state is not None and state.placement is not None:
                life.generation = state.generation
                self._leave(life)
                crew = held_on(state.placement, self._cluster, state.batch)
                life.set_crew(crew, state.placement, now + _of(self._pauses.resize, life.job))
                self._join(life)
            else:
                self._stop(life)

    def extend(self, cluster: Cluster) -> None:
        """Nodes have been added."""
        self._cluster = cluster

    def close(self) -> None:
        """Nothing more will happen: count what runs up to now."""
        now = self._at = self._clock.now()
        for life in self.lives.values():
            life.advance(now)
            if life.placement is not None:
                self._note_stint(life, life.placement)
                life.since = now

    def _settle(self, life: Life, decision: Decision, resumes: float) -> None:
        """Put the job on the decision's devices."""
        assert decision.placement is not None
        self._leave(life)
        crew = held_on(decision.placement, self._cluster, decision.batch)
        life.set_crew(crew, decision.placement, resumes)
        self._join(life)

    def _switch(self, life: Life, decision: Decision, now: float) -> None:
        """The change ordered takes effect."""
        number, generation = life.job.number, decision.generation
        life.advance(now)
        if decision.kind is Kind.START:
            self._settle(life, decision, now + _of(self._pauses.start, life.job))
            self._said.append(Started(number, generation, now))
        elif decision.kind is Kind.PREEMPT:
            life.preemptions += 1
            life.stopped = now
            self._stop(life)
            self._said.append(Preempted(number, generation, now))
        elif decision.kind is Kind.RESIZE:
            # Another batch alone is taken up at the next step: nobody joins, leaves or waits.
            if decision.placement == life.placement:
                resumes = max(life.resumes, now)
            else:
                life.resizes += 1
                resumes = now + _of(self._pauses.resize, life.job)
            self._settle(life, decision, resumes)
            self._said.append(Resized(number, generation, now))
        else:
            life.migrations += 1
            self._settle(life, decision, now + _of(self._pauses.migrate, life.job))
            self._said.append(Migrated(number, generation, now))

    def _go_on_without(self, life: Life, decision: Decision) -> None:
        """Those that go work no more; their devices are free later."""
        held = set(life.placement.slots) if life.placement is not None else set()
        if decision.kind is Kind.PREEMPT:
            life.advance(self._at)
            life.set_crew(None, life.placement, self._at)
        elif decision.placement is not None and set(decision.placement.slots) < held:
            life.advance(self._at)
            life.resizes += 1
            self._settle(life, decision, self._at + _of(self._pauses.resize, life.job))

    def _takes(self, life: Life, decision: Decision) -> float:
        """s until what was decided is so: new tasks warm up, old ones let go."""
        held = life.placement.slots if life.placement is not None else ()
        slots = decision.placement.slots if decision.placement is not None else ()
        warm = self._pauses.warmup.seconds(len(set(slots) - set(held)))
        if decision.kind is Kind.START:
            return self._pauses.first_starts.get(life.job.number, warm) if life.run == 1 else warm
        if decision.kind is Kind.PREEMPT and self._pauses.stop is not None:
            return self._pauses.stop
        return max(warm, _of(self._pauses.release, life.job))

    def _stop(self, life: Life) -> None:
        self._leave(life)
        life.run += 1
        life.set_crew(None, None, self._at)

    def _end(self, life: Life, moment: float) -> Ended:
        life.advance(moment)
        life.done = life.truth.work
        self._stop(life)
        return Ended(life.job.number, life.generation, Outcome.SUCCEEDED, moment)

    def _renew(self, life: Life) -> None:
        life.renew()
        self._schedule(life)

    def _schedule(self, life: Life) -> None:
        moment, _ = life.next_milestone()
        if moment < float("inf"):
            self._push(moment, life, life.version, None)

    def _push(self, moment: float, life: Life, version: int, decision: Decision | None) -> None:
        entry = (moment, next(self._order), life, life.run, version, decision)
        heapq.heappush(self._due, entry)

    # Neighbours

    def _join(self, life: Life) -> None:
        """Enter the job where it runs; those it disturbs there get a new pace."""
        life.since = self._at
        if self._disturbance.any and life.placement is not None:
            for node in life.placement.nodes():
                self._on.setdefault(node, {})[life.job.number] = life
            self._disturb(life)
        self._schedule(life)

    def _leave(self, life: Life) -> None:
        """Strike the job out where it has run up to now."""
        if life.placement is None:
            return
        self._note_stint(life, life.placement)
        if self._disturbance.any:
            for node in life.placement.nodes():
                self._on[node].pop(life.job.number)
            self._disturb(life)

    def _note_stint(self, life: Life, placement: Placement) -> None:
        if self.stints is not None and self._at > life.since:
            held = placement.bits().items()
            name, begin, end = life.job.name, life.since, self._at
            self.stints += [Stint(name, node, bits, begin, end) for node, bits in held if bits]

    def _disturb(self, life: Life) -> None:
        """Hold everybody on the job's nodes against who is there now."""
        for other in self._neighbours(life):
            assert self._cluster is not None
            slowdown = self._disturbance.slowdown(other, self._neighbours(other), self._cluster)
            if other.slowdown != slowdown:
                other.advance(self._at)
                other.slowdown = slowdown
                other.version += 1
                if other is not life:
                    self._schedule(other)

    def _neighbours(self, life: Life) -> list[Life]:
        """The jobs on this one's nodes, itself among them while it is there."""
        assert life.placement is not None
        found: dict[int, Life] = {}
        for node in sorted(life.placement.nodes()):
            found.update(self._on.get(node, {}))
        return list(found.values())


def _of(pause: float | None, job: Job) -> float:
    return job.pause if pause is None else pause


def _is_old(entry: tuple[float, int, Life, int, int, Decision | None]) -> bool:
    _, _, life, run, version, _ = entry
    return run != life.run or version not in (-1, life.version)
