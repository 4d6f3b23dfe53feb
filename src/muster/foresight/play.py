"""Play the future forward from a view, many times, and read off when each live job starts and ends."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from math import inf

from muster.core.cycle.cycle import Memory
from muster.core.cycle.cycle_state import Rules
from muster.foresight.draws import WorldDraws
from muster.foresight.effort import WORLDS, Effort
from muster.foresight.open_ends import StartAndEnd, left_open
from muster.foresight.past import Past
from muster.foresight.quantiles import TimeInterval, interval
from muster.foresight.sessions import is_session, limit_end
from muster.model.event import NodeEvent
from muster.model.view import JobState, View
from muster.policy.base import Policy
from muster.sim.engine import Engine, Setting
from muster.sim.midway import Midway
from muster.sim.truth import Arrival

COMING = 32
"""Most jobs that come in a world, and as many again as are live: what comes after them hardly touches
those that are live now, and a world with more work than devices would fill up."""
FEWEST = 3
"""Similar jobs that must have ended for a forecast to rest on them."""
HORIZON = 90 * 86_400.0
"""s after which nothing is played."""


@dataclass(frozen=True, slots=True)
class Present:
    """What the future begins with."""

    view: View
    """With outlooks."""
    now: float
    policy: Policy
    memory: Memory = field(default_factory=Memory)
    """What the last cycle left."""
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class JobForecast:
    """When a live job starts, None if it has, and when it ends."""

    start: TimeInterval | None
    finish: TimeInterval
    jobs: int = 0
    """Similar jobs that it rests on; 0: on what it has shown or declared itself."""
    made: float = 0.0
    """s at which it was made."""
    preempted: float = 0.0
    """Part of the worlds in which it is preempted."""
    grounded: bool = True
    """Whether enough was seen of the jobs around it to tell its start."""
    own: bool = False
    """Whether it rests on what the job has shown or declared itself."""
    limited: bool = False
    """Whether all that is known of its end is its time limit."""

    @property
    def known_start(self) -> TimeInterval | None:
        """Its start; None if it has started or nothing can be said."""
        said = self.start if self.grounded else None
        return said if said is not None and said.is_known(self.made) else None

    @property
    def known_finish(self) -> TimeInterval | None:
        """Its end; None if nothing can be said."""
        return self.finish if self.rests and self.finish.is_known(self.made) else None

    @property
    def rests(self) -> bool:
        """Whether its finish rests on enough to be told."""
        return (self.own or self.jobs >= FEWEST) and (self.start is None or self.grounded)


Sight = Callable[[View, float], None]
"""Called after each cycle, with the view and the s."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What else happens in a world, and who looks on."""

    incidents: tuple[NodeEvent, ...] | None = None
    """In place of those that were drawn."""
    arrivals: tuple[Arrival, ...] = ()
    """Jobs whose start and end count, too; in order."""
    sight: Sight | None = None


_NOTHING = Beside()


def foresee(
    present: Present,
    past: Past,
    worlds: int = WORLDS,
    seed: int = 0,
    meanwhile: Callable[[], None] | None = None,
) -> dict[int, JobForecast]:
    """Forecast every live job in at most this many worlds; `meanwhile` is called between two."""
    worlds = Effort.for_jobs(len(present.view.jobs), worlds).worlds
    draws, played = WorldDraws(present.view, present.now, past, worlds, seed), []
    for world in range(worlds):
        played.append(_within(play(present, draws, world), present.now + HORIZON))
        if meanwhile is not None:
            meanwhile()
    own = {number: draws.is_own(number) for number in present.view.jobs}
    basis = {number: draws.basis(number) for number in present.view.jobs}
    finish = {n: interval([each[n].finish for each in played]) for n in present.view.jobs}
    bound = {n: own[n] or _is_bound(present, n, finish[n]) for n in present.view.jobs}
    grounded = all(own.values()) or (past.ended >= FEWEST and _most_rest(present.view, bound, basis))
    return {
        number: as_told(
            state,
            JobForecast(
                interval([each[number].start for each in played]) if state.placement is None else None,
                finish[number],
                basis[number],
                present.now,
                sum(each[number].stops > 0 for each in played) / worlds,
                grounded,
                own[number],
            ),
        )
        for number, state in present.view.jobs.items()
    }


def _most_rest(view: View, own: Mapping[int, bool], basis: Mapping[int, int]) -> bool:
    """Whether something tells when at least half of the jobs end that others wait for."""
    running = [number for number, state in view.jobs.items() if state.placement is not None]
    return sum(own[each] or basis[each] >= FEWEST for each in running) * 2 >= len(running)


def _is_bound(present: Present, number: int, finish: TimeInterval) -> bool:
    """Whether a job's time limit tells well enough when it ends."""
    limited = present.view.jobs[number].job.program.time is not None
    return limited and finish.is_known(present.now)


def as_told(state: JobState, played: JobForecast) -> JobForecast:
    """Return what can be said of a job: none ends after its time limit, and of a session or a job of
    which nothing else tells an end it is that."""
    limit, session = limit_end(state, played.start), is_session(state.job)
    told = replace(played, finish=played.finish.not_after(limit))
    if not (session or told.limited) and (told.known_finish is not None or limit.high == inf):
        return told
    limited = state.job.program.time is not None
    return replace(told, finish=limit, jobs=0, own=limited, limited=limited)


def _within(played: dict[int, StartAndEnd], horizon: float) -> dict[int, StartAndEnd]:
    """Return the same; a job that still waits at the horizon never starts, as far as is known."""
    return {
        number: replace(each, start=inf, finish=inf) if each.start >= horizon else each
        for number, each in played.items()
    }


def play(
    present: Present, draws: WorldDraws, world: int, beside: Beside = _NOTHING
) -> dict[int, StartAndEnd]:
    """Play one world until every job that is live now has ended."""
    drawn = islice(draws.arrivals(world), COMING + len(present.view.jobs))
    coming = merge(beside.arrivals, drawn, key=lambda each: each.at)
    effort = Effort.for_jobs(len(present.view.jobs), draws.worlds)
    setting = _setting(present, draws, world, beside.incidents, effort.coarse)
    engine = Engine(setting, coming, _midway(present, draws, world))
    found: dict[int, StartAndEnd] = {}
    wanted = {*present.view.jobs, *(each.job.number for each in beside.arrivals)}
    for frame in engine.frames():
        if beside.sight is not None:
            beside.sight(frame.after, frame.now)
        _note(engine, found, wanted)
        if len(found) == len(wanted) or engine.cycles >= effort.cycles:
            break
    _note(engine, found, wanted)
    return found | left_open(engine, wanted - found.keys())


def _note(engine: Engine, found: dict[int, StartAndEnd], wanted: Collection[int]) -> None:
    """Take in the jobs asked about that have ended."""
    for life, at in engine.ended:
        if life.job.number in wanted:
            found[life.job.number] = StartAndEnd(_began(life.began, at), at, life.preemptions)
    engine.ended.clear()


def _began(began: float | None, ended: float) -> float:
    return ended if began is None else began


def _midway(present: Present, draws: WorldDraws, world: int) -> Midway:
    return Midway(present.now, present.view, draws.underway(world), present.memory)


def _setting(
    present: Present,
    draws: WorldDraws,
    world: int,
    incidents: tuple[NodeEvent, ...] | None,
    coarse: float,
) -> Setting:
    view, until = present.view, present.now + HORIZON
    if incidents is None:
        incidents = draws.incidents(world, until)
    return Setting(
        view.cluster,
        view.pools,
        present.policy,
        present.rules,
        draws.times(world),
        incidents=incidents,
        watched=_never,
        until=until,
        coarse=coarse,
    )


def _never(step: float) -> float:
    """Nothing is learnt in a world that was drawn."""
    return inf
