"""Ends of jobs that lie beyond the moment at which the play of a world stopped.

Running jobs go on as they are. Waiting jobs start with their gang once enough devices are free: the
shortest by belief first where the policy reads beliefs, else in the order of submission. None passes
another, those that may not start yet come last, and no new ones come.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

from muster.core.cycle.sections import is_informed
from muster.foresight.past import gang_rate
from muster.model.view import JobState
from muster.sim.engine import Engine
from muster.sim.life import Life

NEVER_PLAYED = 90 * 86_400.0
"""s from then on until a job starts that was not even submitted in what was played."""


@dataclass(frozen=True, slots=True)
class StartAndEnd:
    """When a job starts and ends in one world, s; infinity: never."""

    start: float
    finish: float
    stops: int = 0
    """How often it is preempted."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that waits: when it may start, its place in the order, and the s that it takes on its
    gang."""

    earliest: float
    first: float
    number: int
    seconds: float
    devices: int
    life: Life


def left_open(engine: Engine, numbers: Iterable[int]) -> dict[int, StartAndEnd]:
    """Return when these jobs start and end after what was played; those that nothing lets start, and
    those that first wait to the end of time, never do."""
    now, wanted = engine.clock.now(), set(numbers)
    found = dict.fromkeys(wanted, StartAndEnd(now + NEVER_PLAYED, now + NEVER_PLAYED))
    if not wanted:
        return found
    held: list[tuple[float, int]] = []
    waiting: list[_Waiting] = []
    for number, life in engine.executor.lives.items():
        state = engine.view.jobs.get(number)
        life.advance(now)
        if state is None or state.placement is not None:
            ends = min(now + _left(life) / (life.rate or 1.0), max(now, life.limit))
            found[number] = StartAndEnd(_began(life, now), ends, life.preemptions)
            held.append(
                (ends, 0 if state is None or state.placement is None else state.placement.devices)
            )
        elif state.may_start(max(now, state.not_before)) and (
            now < engine.setting.until or life.began is not None
        ):
            waiting.append(_waiting(engine, state, life))
        else:
            found[number] = StartAndEnd(_began(life, inf), inf, life.preemptions)
    found |= _in_turn(waiting, held, engine.view.cluster.free_devices()[0], now)
    return {number: found[number] for number in wanted}


def _waiting(engine: Engine, state: JobState, life: Life) -> _Waiting:
    job, believed = state.job, life.truth.outlook(life.done)
    types = job.device_types or engine.view.cluster.device_types()
    rate = gang_rate(job, believed, types) or 1.0
    informed = is_informed(engine.view.pools, engine.setting.policy)
    first = believed.left / rate if informed else state.submitted
    devices = job.workers.gang * job.workers.need.devices
    earliest = max(engine.clock.now(), state.not_before)
    seconds = min(_left(life) / rate, inf if job.program.time is None else job.program.time)
    return _Waiting(earliest, first, state.number, seconds, devices, life)


def _in_turn(
    waiting: Iterable[_Waiting], held: list[tuple[float, int]], free: int, at: float
) -> dict[int, StartAndEnd]:
    """Let those that wait start one after the other; `held`: when devices become free."""
    found = {}
    heapify(held)
    for each in sorted(waiting, key=lambda each: (each.earliest, each.first, each.number)):
        while free < each.devices and held:
            at, devices = heappop(held)
            free += devices
        at = max(at, each.earliest)
        ends = at + each.seconds
        found[each.number] = StartAndEnd(_began(each.life, at), ends, each.life.preemptions)
        free -= each.devices
        heappush(held, (ends, each.devices))
    return found


def _left(life: Life) -> float:
    return max(life.truth.work - life.done, 0.0)


def _began(life: Life, at: float) -> float:
    return at if life.began is None else life.began
