"""The driver: the daemon's cycle on a virtual clock, until every job is done.

Time moves to the next event: a submission, an end, a change that takes effect, a node event, a tick.
The facts are folded into the view, the cycle decides, the decisions are checked, and the executor
carries them out. What that frees at once is decided on in another cycle at the same moment. With
`rounds` the cycle runs at fixed intervals only.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from random import Random

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.cycle.cycle_state import Rules
from muster.core.cycle.sections import is_informed
from muster.core.planners.beside import PlannersBeside
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.core.state.startable import startable
from muster.model.cluster import Cluster
from muster.model.decision import Kind
from muster.model.event import (
    Ended,
    Event,
    Migrated,
    NodeAdded,
    NodeEvent,
    NodeLost,
    Preempted,
    Resized,
    Submitted,
)
from muster.model.outlook import Outlook
from muster.model.pool import PoolTree
from muster.model.renew import renewer
from muster.model.view import View
from muster.perf.history.crowding import among_neighbours
from muster.perf.learnt.step_report import StepReport
from muster.policy.base import Policy
from muster.sim.admission import Admission
from muster.sim.beliefs import Oracle, OutlookSource
from muster.sim.crossings import Crossings, TrueLinks
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.executor import ChangeTimes, Pauses, VirtualClock, VirtualExecutor
from muster.sim.life import Life
from muster.sim.meetings import Meetings
from muster.sim.midway import Midway
from muster.sim.parents import TraceParents
from muster.sim.sweeps.played_sweep import PlayedSweep
from muster.sim.sweeps.sweeps_driver import SweepsDriver
from muster.sim.truth import Arrival

INTERVAL = 60.0
"""s between cycles while something waits and nothing else happens: Peloton's period."""

SETTLED = 8
"""Most cycles at one moment: two or three settle anything. Those in which a job ended do not count."""

_FREES = (Ended, Preempted, Resized, Migrated)
"""Events that free devices at once."""

IDLE = 30
"""Cycles without a change, with no event to come, after which waiting jobs wait for ever: at the usual
interval, longer than any patience."""

WATCHED = 10.0
"""s a job must have run on a crew before its report counts: some steps, not the first."""


def watched_long(step: float) -> float:
    """Return the same for every job."""
    return WATCHED


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything a simulation depends on, except the jobs."""

    cluster: Cluster
    pools: PoolTree
    policy: Policy
    rules: Rules = field(default_factory=Rules)
    pauses: ChangeTimes = field(default_factory=Pauses)
    beliefs: Callable[[], OutlookSource] = Oracle
    interval: float = INTERVAL
    steady: bool = False
    """Decide every `interval` even if no job waits, like the daemon."""
    watched: Callable[[float], float] = watched_long
    """s on a crew before a job's report counts, by the s of a step."""
    rounds: bool = False
    """Decide only every `interval`, as published evaluations do; else at every event too."""
    disturbance: Disturbance = UNDISTURBED
    incidents: tuple[NodeEvent, ...] = ()
    """Node events."""
    seed: int = 0
    noise: float = 0.05
    """Standard deviation of the logarithm of jobs' measurements."""
    admission: bool = True
    """Whether jobs that could never run are rejected; else they wait for ever."""
    until: float = inf
    """s after which the simulation stops."""
    explain: bool = False
    """Whether waiting jobs get full reasons, for people to read."""
    true_links: TrueLinks = field(default_factory=dict)
    """Links that carry less than the cluster file claims, by node."""
    learn_links: bool = True
    """Whether decisions are made by what links have carried."""
    whole: Cluster | None = None
    """All nodes that are ever there; None: those of the cluster, and later those that are added."""
    planners: int = 1
    """Planners that decide beside each other, each for its own pools."""
    coarse: float = 0.0
    """Least time between two cycles, as a part of the time since the simulation began."""
    sweeps: tuple[PlayedSweep, ...] = ()
    """Sweeps beside the jobs."""

    def cycle(self) -> Cycle:
        """Return a cycle that decides as set."""
        planners = (
            PlannersBeside(self.policy, self.planners, self.rules, explain=self.explain)
            if self.planners > 1
            else None
        )
        return Cycle(self.policy, self.rules, explain=self.explain, planners=planners)


@dataclass(frozen=True, slots=True)
class Frame:
    """One cycle: moment, view, decisions, and the view after."""

    now: float
    before: View
    decided: Decisions
    after: View


Observer = Callable[[View, float, bool], None]
"""Called after each moment: the view, the s, and whether there were node events."""


class Engine:
    """A running simulation."""

    def __init__(
        self, setting: Setting, arrivals: Iterable[Arrival], midway: Midway | None = None
    ) -> None:
        """`midway`: where to begin; None: with an empty cluster."""
        self.setting = setting
        self.clock = VirtualClock(0.0 if midway is None else midway.now)
        whole = setting.whole or setting.cluster
        self.executor = VirtualExecutor(self.clock, whole, setting.pauses, setting.disturbance)
        self.view = View(0, setting.cluster, setting.pools, {})
        self.admission = Admission(whole, setting.pools)
        self.beliefs = setting.beliefs()
        self.crossings = Crossings(
            setting.true_links, learns=setting.learn_links, seed=setting.seed, noise=setting.noise
        )
        self.executor.drag = self.crossings.drag
        self.meetings = Meetings(self.executor, setting.seed, setting.noise)
        self.ended: list[tuple[Life, float]] = []
        """Jobs ended since this was last emptied, and when."""
        self.cycles = 0
        self.events = 0
        self._parents = TraceParents()
        self._keeps = False
        """Whether it began with jobs that may not start: on hold, which nobody ends, or delayed."""
        self._delays: deque[float] = deque()
        """When jobs that it began with may start, s, in order."""
        self.sweeps = SweepsDriver(setting.sweeps)
        self._is_informed = is_informed(setting.pools, setting.policy)
        self._cycle = setting.cycle()
        self._memory = Memory()
        self._coming = iter(arrivals)
        self._next: Arrival | None = next(self._coming, None)
        self._incidents = deque(sorted(setting.incidents, key=attrgetter("at")))
        self._tick = inf
        self._begin = self._rested = self.clock.now()
        """When it began; before which no cycle runs (see `coarse`)."""
        self._idle = 0
        """Cycles in a row that changed nothing, since the last event."""
        self.observer: Observer | None = None
        self.stuck = False
        """Whether it ended with jobs that can never start."""
        if midway is not None:
            self._resume(midway)

    def midway(self) -> Midway:
        """Return the present, for another simulation to begin with."""
        now = self.clock.now()
        for life in self.executor.lives.values():
            life.advance(now)
        return Midway(now, self.view, self.executor.underway(), self._memory)

    def _resume(self, midway: Midway) -> None:
        """Begin in the middle, and decide at once."""
        self.view, self._memory, self._tick = midway.view, midway.memory, midway.now
        for number, state in midway.view.jobs.items():
            self.executor.resume(state, midway.lives[number])
            self._parents.resume(state.job)
        delays = {state.not_before for state in midway.view.jobs.values()}
        self._delays.extend(sorted(at for at in delays if at > midway.now))
        held = any(state.held_by for state in midway.view.jobs.values())
        self._keeps = held or bool(self._delays)

    def frames(self) -> Iterator[Frame]:
        """Run to the end; yield a frame per cycle."""
        while (moment := self._next_moment()) < inf and moment <= self.setting.until:
            self.clock.move_to(moment)
            facts = self._happen()
            if self._due(facts):
                yield from self._settle()
            if self.observer is not None:
                self.observer(self.view, moment, any(isinstance(fact, NodeEvent) for fact in facts))
        self.stuck = moment == inf and bool(self.view.jobs)
        if self.view.jobs and self.setting.until < inf:
            self.clock.move_to(self.setting.until)
        self.executor.close()

    def _happen(self) -> list[Event]:
        """Fold the events of this moment."""
        now = self.clock.now()
        facts: list[Event] = list(self.executor.collect())
        while self._next is not None and self._next.at <= now:
            facts += self._submitted(self._next)
            self._next = next(self._coming, None)
        lost: list[str] = []
        while self._incidents and self._incidents[0].at <= now:
            incident = self._incidents.popleft()
            facts.append(incident)
            if isinstance(incident, NodeLost):
                lost.append(incident.node)
        if facts:
            self._idle = 0
            self._fold(facts)
        if self.setting.whole is None and any(isinstance(fact, NodeAdded) for fact in facts):
            self.executor.extend(self.view.cluster)
            self.admission.extend(self.view.cluster)
        for node in lost:
            self.executor.after_loss(self.view.jobs, node)
        # After the ends of this moment, which say who goes on.
        members = [fact for each in self.sweeps.take(now) for fact in self._submitted(each)]
        if members:
            self._idle = 0
            self._fold(members)
        return facts + members

    def _submitted(self, arrival: Arrival) -> Sequence[Event]:
        if self.setting.admission and self.admission.refuses(arrival):
            return ()
        if arrival.job.after and (problem := self._parents.problem(arrival.job)):
            self.admission.refuse(arrival, problem)
            return ()
        job = self._parents.admitted(arrival.job)
        life = self.executor.admit(job, arrival.truth)
        life.submitted = arrival.at
        return (Submitted(job, arrival.at),)

    def _fold(self, facts: Sequence[Event]) -> None:
        self.events += len(facts)
        self.view = evolve(self.view, facts)
        for fact in facts:
            if isinstance(fact, Ended):
                life = self.executor.lives.pop(fact.job)
                self.beliefs.ended(life.job, life.done)
                self.ended.append((life, fact.at))
                self.sweeps.ended(fact.job, fact.at)
        self._let_start([fact for fact in facts if isinstance(fact, Ended)])

    def _let_start(self, ends: Sequence[Ended]) -> None:
        """Tell the jobs that come after these."""
        met = self._parents.met(ends)
        if met:
            self._fold(met)

    def _due(self, facts: Sequence[Event]) -> bool:
        """Whether to decide at this moment."""
        now, ripe = self.clock.now(), False
        while self._delays and self._delays[0] <= now:
            self._delays.popleft()
            self._idle, ripe = 0, True
        if self.setting.rounds:
            return round(now / self.setting.interval) * self.setting.interval == now
        due = bool(facts) or ripe or now >= self._tick
        if due and now < self._rested:
            self._tick = self._rested
            return False
        return due

    def _settle(self) -> Iterator[Frame]:
        """Run cycles until nothing more changes at this moment."""
        now = self.clock.now()
        self._rested = now + self.setting.coarse * (now - self._begin)
        self._watch()
        cycles = 0
        while cycles < SETTLED:
            ended = len(self.ended)
            frame, facts = self._once()
            cycles += len(self.ended) == ended
            yield frame
            if not frame.decided.unmet or not any(isinstance(fact, _FREES) for fact in facts):
                break

    def _once(self) -> tuple[Frame, list[Event]]:
        """Run a cycle; return its frame and the events it led to at once."""
        now, before = self.clock.now(), self._informed()
        if self._parents.waiting or self._keeps:
            before = startable(before, now)
        decided = self._cycle.decide(before, now, self._memory)
        check(before, decided)
        self._memory = decided.memory
        self.cycles += 1
        facts = begun(decided, now)
        for decision in decided.decisions:
            if decision.kind is not Kind.WAIT:
                self.executor.carry_out(before.jobs[decision.job].job, decision)
            if decision.kind is Kind.START:
                self.sweeps.started(decision.job, now)
        if facts:
            facts += self.executor.collect()
            self._fold(facts)
        self._idle = 0 if facts else self._idle + 1
        waits = self.setting.steady or (
            not decided.asks and any(each.kind in _LEAVES_WAITING for each in decided.decisions)
        )
        again = decided.again if decided.again > now else inf
        self._tick = min(again, now + self.setting.interval if waits else inf)
        return Frame(now, before, decided, self.view), facts

    def _next_moment(self) -> float:
        """Return when something happens next; infinity: never."""
        now = self.clock.now()
        members = self.sweeps.next_at(now)
        if not self.view.jobs and self._next is None and members == inf:
            return inf
        first = members
        if self._next is not None:
            first = min(first, self._next.at)
        if self._incidents:
            first = min(first, self._incidents[0].at)
        if self._delays:
            first = min(first, self._delays[0])
        if self.setting.rounds:
            tick = self._next_round(now) if self.view.jobs else inf
        else:
            tick = max(self._tick, now)
        due = self.executor.next_news(min(first, tick, self.setting.until))
        first = max(first if due is None else min(due, first), now)
        if first == inf and self._idle > IDLE:
            return inf
        return min(first, tick)

    def _next_round(self, now: float) -> float:
        step = self.setting.interval
        number = now // step + 1
        return number * step if number * step > now else (number + 1) * step

    # Outlooks

    def _informed(self) -> View:
        slowdowns = self.meetings.slowdowns(self.view)
        if slowdowns is not self.view.slowdowns:
            self.view = replace(self.view, slowdowns=slowdowns)
        now = self.clock.now()
        uplinks = self.crossings.uplinks(self.view.cluster, now)
        if uplinks != self.view.uplinks:
            self.view = replace(self.view, uplinks=uplinks)
        if not self._is_informed:
            return self.view
        outlooks = self._outlooks(now)
        return _seen_with(self.view, outlooks=among_neighbours(outlooks, self.meetings.all_slowed()))

    def _outlooks(self, now: float) -> dict[int, Outlook]:
        lives, outlook, found = self.executor.lives, self.beliefs.outlook, {}
        for job in self.view.jobs:
            life = lives[job]
            if life.at < now:
                life.advance(now)
            found[job] = outlook(life.job, life.truth, life.crew, life.done)
        return found

    def _watch(self) -> None:
        """Pass on jobs' reports, once per pace, with measurement noise."""
        self.meetings.watch(self.clock.now(), self.setting.watched)
        if not self._is_informed and not self.setting.true_links:
            return
        now = self.clock.now()
        for life in self.executor.lives.values():
            if life.crew is None or life.is_leaving or life.reported == life.version:
                continue
            if now < life.resumes:
                continue
            life.advance(now)
            shown = life.truth.shown(life.crew, life.done)
            if now < life.resumes + self.setting.watched(shown.step):
                continue
            life.reported = life.version
            self.crossings.watch(life, self.view.cluster, now)
            if self._is_informed:
                self._believe(life, shown)

    def _believe(self, life: Life, shown: StepReport) -> None:
        assert life.crew is not None
        if life.changed is not None:
            self.beliefs.paused(life.job, life.changed, life.resumes - life.since)
            life.changed = None
        self.beliefs.watch(life.job, life.crew, self._measured(life, shown), life.done)

    def _measured(self, life: Life, shown: StepReport) -> StepReport:
        random = Random(f"{self.setting.seed}/{life.job.name}/{life.shows}")
        life.shows += 1
        noisy = [random.lognormvariate(0.0, self.setting.noise) for _ in range(3)]
        return _shown_as(
            shown,
            step=shown.step * noisy[0] * life.slowdown * life.drag,
            sync=None if shown.sync is None else shown.sync * noisy[1],
            noise=None if shown.noise is None else shown.noise * noisy[2],
            slowed=self.meetings.slowed(life),
        )


_shown_as, _seen_with = renewer(StepReport), renewer(View)
_LEAVES_WAITING = (Kind.WAIT, Kind.PREEMPT)
