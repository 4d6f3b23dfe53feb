"""An executor and a clock without machines: orders take effect after their time has passed."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from muster.model.cluster import Cluster
from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import held_on
from muster.place.neighbourhood import Neighbourhood
from muster.sim.company import Company
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.life import Life
from muster.sim.midway import Underway
from muster.sim.result import Stint
from muster.sim.truth import Truth
from muster.sim.worlds.fixed import Fixed

CHECKPOINT = 600.0
"""s between two checkpoints where nobody says."""
HOUR = 3600.0
"""Run time of a job without truth or duration."""


class VirtualClock:
    """Time that moves only when set."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Return the seconds since the simulation began."""
        return self._now

    def move_to(self, moment: float) -> None:
        """Advance the time; it never runs backwards."""
        self._now = max(self._now, moment)


@dataclass(frozen=True, slots=True)
class Warmup:
    """s from the order of new tasks until they train: once, plus per task."""

    once: float = 0.0
    each: float = 0.0

    def seconds(self, tasks: int) -> float:
        """Return the s for these tasks together; 0 for none."""
        return self.once + self.each * tasks if tasks else 0.0


NO_WARMUP = Warmup()


class ChangeTimes(Protocol):
    """How long changes of a job take."""

    @property
    def checkpoint(self) -> float:
        """s between two checkpoints: work since the last is lost with a node."""
        ...

    @property
    def leave_first(self) -> bool:
        """Whether leaving tasks stop working at the order, and their devices are free later."""
        ...

    def takes(self, job: Job, kind: Kind, joining: int, *, first: bool, passed: float = 0.0) -> float:
        """Return the s until a change takes effect: new tasks warm up, old ones are released.

        `joining`: new tasks; `first`: whether it is the job's first start; `passed`: s since it was
        ordered."""
        ...

    def pause(self, job: Job, kind: Kind, *, first: bool = False) -> float:
        """Return the s without progress after a change has taken effect."""
        ...


@dataclass(frozen=True, slots=True)
class Pauses:
    """The cost of changes, in s. None: the job's own pause."""

    start: float | None = None
    """Without progress after a start."""
    resize: float | None = None
    """Without progress after a resize: about 1 where the runtime resizes live."""
    migrate: float | None = None
    release: float | None = 0.0
    """From the order until the old devices are free; until then the job runs on them."""
    stop: float | None = None
    """The same for stopping the whole job; None: `release`."""
    checkpoint: float = CHECKPOINT
    """Between two checkpoints: work since the last is lost with a node."""
    warmup: Warmup = NO_WARMUP
    """Of tasks that start or join: until then a start is not complete, and a job that others join runs
    unchanged. Neither can be changed meanwhile."""
    first_starts: Mapping[int, float] = field(default_factory=dict, hash=False)
    """The same for the first start of jobs where it is known, by number."""
    leave_first: bool = False
    """Whether leaving tasks stop working at once and free their devices after `release`, like the
    runtime, whose processes take a while to end."""

    def takes(self, job: Job, kind: Kind, joining: int, *, first: bool, passed: float = 0.0) -> float:
        """See `ChangeTimes`; a change in progress takes as long as one ordered now."""
        warm = self.warmup.seconds(joining)
        if kind is Kind.START:
            return self.first_starts.get(job.number, warm) if first else warm
        if kind is Kind.PREEMPT and self.stop is not None:
            return self.stop
        return max(warm, _of(self.release, job))

    def pause(self, job: Job, kind: Kind, *, first: bool = False) -> float:
        """See `ChangeTimes`; a first start costs as much as any."""
        known = {Kind.START: self.start, Kind.MIGRATE: self.migrate}.get(kind, self.resize)
        return _of(known, job)


WITHOUT_PROGRESS = Pauses(start=0.0, resize=0.0, migrate=0.0, release=None)
"""A change takes time but costs the job nothing: durations include everything."""


class VirtualExecutor:
    """Runs jobs by their truth: each at its pace until its work is done.

    A stopped job has saved its work and resumes from there. Neighbours slow each other down.
    """

    def __init__(
        self,
        clock: VirtualClock,
        cluster: Cluster | None = None,
        pauses: ChangeTimes = WITHOUT_PROGRESS,
        disturbance: Disturbance = UNDISTURBED,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._pauses = pauses
        self._disturbance = disturbance
        self._due: list[tuple[float, int, Life, int, int, Decision | None]] = []
        self._order = count()
        self._at = 0.0
        """The moment being processed: behind the clock while events are collected late."""
        self._said: list[Event] = []
        self.neighbourhood = Neighbourhood(cluster) if cluster is not None else None
        self.company = Company()
        self.met: dict[int, float] = {}
        """Jobs with other neighbours than before, and since when."""
        self.lives: dict[int, Life] = {}
        self.drag: Callable[[Life], float] = lambda _: 1.0
        """By how much slow links lengthen the steps of a job where it is."""
        self.stints: list[Stint] | None = None
        """Who held what; None: not recorded."""

    def admit(self, job: Job, truth: Truth | None) -> Life:
        """Add a submitted job."""
        truth = truth or Fixed(job.duration if job.duration is not None else HOUR)
        life = Life(job, truth, submitted=self._clock.now())
        self.lives[job.number] = life
        return life

    def underway(self) -> dict[int, Underway]:
        """Return how far each job is."""
        return {
            number: Underway(life.truth, life.done, life.resumes, life.safe, life.run)
            for number, life in self.lives.items()
        }

    def resume(self, state: JobState, underway: Underway) -> None:
        """Add a job that is live already."""
        now = self._at = self._clock.now()
        life = self.admit(state.job, underway.truth)
        life.submitted, life.at, life.done = state.submitted, now, underway.done
        life.run, life.generation, life.began = underway.run, state.generation, state.started
        if state.started is not None:
            life.start(state.started)
        if state.placement is not None and state.phase is not Phase.STARTING:
            crew = held_on(state.placement, self._cluster, state.batch)
            life.set_crew(crew, state.placement, underway.resumes)
            self._join(life)
            life.safe = underway.safe
            life.since = now if state.since is None else state.since
        if state.phase in _CHANGING:
            life.run += state.phase is Phase.STARTING
            life.target = state.target or state.placement
            decision = _in_progress(state)
            takes = self._takes(life, decision, underway.changing)
            self._push(now + takes, life, -1, decision)

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Begin what was decided."""
        now = self._at = self._clock.now()
        life = self.lives.get(job.number) or self.admit(job, None)
        if decision.kind in (Kind.WAIT, Kind.REPLAN):  # true speeds do not depend on the plan
            return
        life.generation = decision.generation
        if decision.kind is Kind.START:
            life.run += 1
            life.start(now)
            life.advance(now)
            if life.stopped == now:  # stopped only to be started with other tasks
                life.preemptions -= 1
                life.resizes += 1
            life.began = now if life.began is None else life.began
        takes = self._takes(life, decision)
        if takes > 0:
            if self._pauses.leave_first:
                self._leave_first(life, decision)
            # A change in progress belongs to the run: a new pace does not cancel it.
            life.target = decision.placement
            self._push(now + takes, life, -1, decision)
        else:
            self._switch(life, decision, now)

    def collect(self) -> Sequence[Event]:
        """Return what has taken effect by now, in order."""
        now = self._clock.now()
        events, self._said = self._said, []
        while (due := self.next_due()) is not None and due <= now:
            moment, _, life, _, _, decision = heapq.heappop(self._due)
            self._at = moment
            if decision is not None:
                self._switch(life, _as_left(life, decision), moment)
                events += self._said
                self._said = []
            elif life.next_milestone()[1]:
                events.append(self._end(life, moment))
            else:
                self._renew(life, moment)
        return events

    def next_due(self) -> float | None:
        """Return when something takes effect next."""
        if self._said:
            return self._clock.now()
        while self._due and _is_old(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def next_news(self, before: float) -> float | None:
        """Return when something takes effect next that changes more than a job's pace, or is not
        `before` this moment; until then paces change on the way, which nobody hears of."""
        while (due := self.next_due()) is not None and due < before and not self._said:
            moment, _, life, _, _, decision = self._due[0]
            if decision is not None or life.next_milestone()[1]:
                break
            heapq.heappop(self._due)
            self._at = moment
            self._renew(life, moment)
        return due

    def after_loss(self, states: Mapping[int, JobState], node: str) -> None:
        """A node is lost: jobs there lose tasks, and work since the last checkpoint."""
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
                works = life.crew is not None
                crew = held_on(state.placement, self._cluster, state.batch) if works else None
                life.set_crew(crew, state.placement, now + self._pauses.pause(life.job, Kind.RESIZE))
                life.target = state.target
                self._join(life)
            else:
                self._stop(life)

    def extend(self, cluster: Cluster) -> None:
        """Nodes were added."""
        self._cluster = cluster
        if self.neighbourhood is not None:
            self.neighbourhood.cluster = cluster

    def close(self) -> None:
        """Account for running jobs up to now."""
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
            pause = self._pauses.pause(life.job, Kind.START, first=life.run == 1)
            self._settle(life, decision, now + pause)
            life.changed = ChangeKind.START
            self._said.append(Started(number, generation, now))
        elif decision.kind is Kind.PREEMPT:
            life.preemptions += 1
            life.stopped = now
            self._stop(life)
            self._said.append(Preempted(number, generation, now))
        elif decision.kind is Kind.RESIZE:
            # A new batch alone applies at the next step: no task joins, leaves or waits.
            if decision.placement == life.placement:
                resumes = max(life.resumes, now)
            else:
                life.resizes += 1
                resumes = now + self._pauses.pause(life.job, Kind.RESIZE)
                life.changed = ChangeKind.RESIZE
            self._settle(life, decision, resumes)
            self._said.append(Resized(number, generation, now))
        else:
            life.migrations += 1
            self._settle(life, decision, now + self._pauses.pause(life.job, Kind.MIGRATE))
            self._said.append(Migrated(number, generation, now))

    def _leave_first(self, life: Life, decision: Decision) -> None:
        """Leaving tasks stop working now; their devices are free later."""
        held = set(life.placement.slots) if life.placement is not None else set()
        if decision.kind is Kind.PREEMPT:
            life.advance(self._at)
            life.set_crew(None, life.placement, self._at)
        elif decision.placement is not None and set(decision.placement.slots) < held:
            life.advance(self._at)
            life.resizes += 1
            self._settle(life, decision, self._at + self._pauses.pause(life.job, Kind.RESIZE))

    def _takes(self, life: Life, decision: Decision, passed: float = 0.0) -> float:
        """Return the s until the decision takes effect."""
        held = life.placement.slots if life.placement is not None else ()
        slots = decision.placement.slots if decision.placement is not None else ()
        joining, first = len(set(slots) - set(held)), life.run == 1
        return self._pauses.takes(life.job, decision.kind, joining, first=first, passed=passed)

    def _stop(self, life: Life) -> None:
        self._leave(life)
        life.run += 1
        life.set_crew(None, None, self._at)

    def _end(self, life: Life, moment: float) -> Ended:
        """The work is done, or the time limit reached."""
        life.advance(moment)
        outcome = Outcome.FAILED if moment >= life.limit else Outcome.SUCCEEDED
        if outcome is Outcome.SUCCEEDED:
            life.done = life.truth.work
        self._stop(life)
        return Ended(life.job.number, life.generation, outcome, moment)

    def _renew(self, life: Life, moment: float) -> None:
        """The job's pace changes."""
        life.advance(moment)
        life.done = max(life.done, life.pace.until)  # rounding must not fall short
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
        """Add the job to its nodes; jobs it disturbs there get a new pace."""
        life.since, life.drag = self._at, self.drag(life)
        if self.neighbourhood is not None and life.placement is not None:
            self.neighbourhood.put(life.job.number, life.placement)
            others = self.neighbourhood.beside(life.job.number)
            self.company.come(life.job.number, life.job.application or "", others)
            self._disturb(life.job.number, others)
        self._schedule(life)

    def _leave(self, life: Life) -> None:
        """Remove the job from its nodes."""
        if life.placement is None:
            return
        self._note_stint(life, life.placement)
        if self.neighbourhood is not None:
            others = self.neighbourhood.beside(life.job.number)
            self.company.leave(life.job.number, others)
            self.neighbourhood.put(life.job.number, None)
            self._disturb(life.job.number, others)

    def _note_stint(self, life: Life, placement: Placement) -> None:
        if self.stints is not None and self._at > life.since:
            held = placement.bits().items()
            name, begin, end = life.job.name, life.since, self._at
            self.stints += [Stint(name, node, bits, begin, end) for node, bits in held if bits]

    def _disturb(self, number: int, others: Iterable[int]) -> None:
        """Recompute the slowdown of a job that came or went, and of its neighbours."""
        assert self.neighbourhood is not None
        for each in (number, *others):
            self.met[each] = self._at
            slowdown = 1.0
            if self._disturbance.any:
                slowdown = self._disturbance.slowdown(self.neighbourhood.beside(each).values())
            life = self.lives.get(each)
            if life is not None and life.slowdown != slowdown:
                life.advance(self._at)
                life.slowdown = slowdown
                life.version += 1
                if each != number:
                    self._schedule(life)


_CHANGING = {
    Phase.STARTING: Kind.START,
    Phase.RESIZING: Kind.RESIZE,
    Phase.MIGRATING: Kind.MIGRATE,
    Phase.PREEMPTING: Kind.PREEMPT,
}


def _in_progress(state: JobState) -> Decision:
    """Return the decision that a live job is being changed by."""
    placement = None if state.phase is Phase.PREEMPTING else state.target or state.placement
    kind, reason = _CHANGING[state.phase], Reason(Code.CHANGING)
    return Decision(kind, state.number, state.generation, reason, placement, state.batch)


def _of(pause: float | None, job: Job) -> float:
    return job.pause if pause is None else pause


def _as_left(life: Life, decision: Decision) -> Decision:
    """Return the change that a lost node has left of the one that was decided."""
    if decision.generation == life.generation:
        return decision
    return replace(decision, generation=life.generation, placement=decision.placement and life.target)


def _is_old(entry: tuple[float, int, Life, int, int, Decision | None]) -> bool:
    _, _, life, run, version, _ = entry
    return run != life.run or version not in (-1, life.version)
