"""Max-min fairness over unequal device types: fractions of time by a linear program, dealt in rounds.

Source: Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning workloads"
(Gavel), OSDI'20. X[j, g] is the fraction of time job j spends on device type g, T[j, g] its speed there
(work per s), C[g] the devices of the type, d[j, g] those the job takes:

    maximise   min_j  d_j / w_j * (sum_g T[j, g] X[j, g]) / (sum_g T[j, g] C[g] / sum_g C[g])
    subject to sum_g X[j, g] <= 1,   sum_j d[j, g] X[j, g] <= C[g],   X >= 0

The quotient is the job's speed over that of an equal share of all types; every weight w is 1: shares of
pools are in their entitlements, which bound the sum over a pool's jobs likewise. Then water filling:
jobs that keep the minimum down (a dual price above 0, or all their time on their best type) are fixed
at their level and the rest is solved again, for four levels; what is left goes where the sum of the
quotients grows most. Unaware of types, all T are 1.

Rounds of 360 s give each job its fractions: with t its time on the type so far,

    priority[j, g] = X[j, g] / (t[j, g] / all the time so far)

and the pairs (job, type) get devices in this order, then by time owed, then by X. Gavel resets its
counters when X changes; here the time due, the sum of X dt, replaces X, which gives the same order
while X is constant and loses nothing when it changes; what a job had beyond its due is then forgotten.
X is recomputed when jobs or devices change. Within a round jobs keep their devices; free ones go to the
next in order.

A job takes its least workers if the type can hold them, else its gang, on one type at a time; as in the
source it never grows beyond that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from muster.model.pool import Entitlements
from muster.model.reason import Measure
from muster.model.view import JobState, Phase, View
from muster.policy.base import Merits, Shares
from muster.policy.merits import ranked
from muster.policy.room import Room, in_change, type_held
from muster.policy.unknown import Prospect, prospects

ROUND = 360.0
"""s; Gavel's."""
LEVELS = 4
"""Levels of water filling: each costs some ms, and later ones concern ever fewer jobs."""
_SMALL = 1e-6
"""Smaller fractions and dual prices are noise of the solver (tolerance 1e-7)."""

_Pair = tuple[int, str]
"""A job's number and a device type."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """What fractions depend on besides speeds: runnable pairs, devices of types and pools."""

    pairs: tuple[_Pair, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()
    pools: tuple[tuple[tuple[str, str], int], ...] = ()
    """By pool and device type."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Memory: fractions, time due and had by (job, type) in s, and this round's deal."""

    at: float
    until: float
    """End of the round."""
    bounds: Constraints = Constraints()
    fractions: Mapping[_Pair, float] = field(default_factory=dict)
    due: Mapping[_Pair, float] = field(default_factory=dict)
    had: Mapping[_Pair, float] = field(default_factory=dict)
    dealt: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Type and workers."""


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Equal speed for all, relative to an equal share."""

    name: str = "max-min"
    informed: bool = True
    aware: bool = True
    """Whether device types differ in speed; otherwise all count alike."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate this round's jobs a type and workers; the others get nothing."""
        room = Room(view, entitlements)
        everyone = prospects(view, view.jobs.values(), now)
        takers = [each for each in everyone if _takes_turns(each.state)]
        turns = _passed(view, takers, now, memory if isinstance(memory, Turns) else Turns(now, now))
        bounds = _bounds(view, takers, entitlements)
        columns = _columns(takers, room, bounds, self.aware)
        bounds = replace(bounds, pairs=tuple(sorted(column.pair for column in columns)))
        if bounds != turns.bounds:
            turns = replace(
                turns, bounds=bounds, fractions=_fractions(columns, bounds), had=_due(turns)
            )
        if now >= turns.until:
            turns = replace(turns, until=now + ROUND, dealt={})
        movable = {state.number for state in room.movable}
        changing = (each.state for each in takers if each.job.number not in movable)
        turns = replace(turns, dealt=_deal(room, columns, turns, in_change(view, changing)))
        allocations = tuple(
            each.gets(*(turns.dealt.get(each.job.number, _NOTHING) if each.each else ("", each.gang)))
            for each in everyone
            if each.job.number in movable
        )
        again = turns.until if takers else inf
        return Shares(allocations, turns, True, again, partial(_merits, takers, turns))


_NOTHING = ("", 0)


@dataclass(frozen=True, slots=True)
class _Column:
    """A job on a device type: an unknown of the program."""

    prospect: Prospect
    device_type: str
    workers: int
    worth: float
    """d_j / w_j T[j, g] / (the job's speed on an equal share)."""

    @property
    def pair(self) -> _Pair:
        return (self.prospect.job.number, self.device_type)

    @property
    def devices(self) -> int:
        """d[j, g]."""
        return self.workers * self.prospect.each


def _merits(takers: Iterable[Prospect], turns: Turns) -> Merits:
    """Rank jobs by the time that they are due and have not had, over all types."""
    owed = {each.job.number: 0.0 for each in takers}
    for times, sign in ((turns.due, 1), (turns.had, -1)):
        for (job, _), time in times.items():
            if job in owed:
                owed[job] += sign * time
    return ranked(Measure.OWED, owed.items())


def _takes_turns(state: JobState) -> bool:
    """Whether it takes turns: it has devices, and may be stopped or is waiting."""
    stays = not state.job.preemptible and state.phase is not Phase.WAITING
    return state.job.workers.need.devices > 0 and not stays


def _passed(view: View, takers: Iterable[Prospect], now: float, past: Turns) -> Turns:
    """Add the time since the last call to what was due and had."""
    states = {each.job.number: each.state for each in takers}
    due = {pair: time for pair, time in past.due.items() if pair[0] in states}
    had = {pair: time for pair, time in past.had.items() if pair[0] in states}
    for pair, fraction in past.fractions.items():
        if pair[0] in states:
            due[pair] = due.get(pair, 0.0) + fraction * (now - past.at)
    for job, state in states.items():
        held = type_held(view, state)
        if held is not None and state.since is not None:
            time = max(0.0, now - max(past.at, state.since))
            had[job, held] = had.get((job, held), 0.0) + time
    return replace(past, at=now, due=due, had=had)


def _due(turns: Turns) -> dict[_Pair, float]:
    """Return the time had, capped at the time due."""
    return {pair: min(time, turns.due.get(pair, 0.0)) for pair, time in turns.had.items()}


def _bounds(view: View, takers: Sequence[Prospect], entitlements: Entitlements) -> Constraints:
    """Return what is left for jobs that take turns: all but what others hold."""
    numbers = {each.job.number for each in takers}
    stays: Counter[tuple[str, str]] = Counter()
    for state in view.jobs.values():
        placement = state.target or state.placement
        held = type_held(view, state) if placement and state.number not in numbers else None
        if placement and held is not None:
            stays[state.job.pool, held] += placement.devices
    devices = dict(entitlements.capacity)
    for (_, device_type), held_by in stays.items():
        devices[device_type] -= held_by
    pools = {
        (pool, each): max(0, entitlements.of(pool, each) - stays[pool, each])
        for pool in dict.fromkeys(each.job.pool for each in takers)
        for each in devices
    }
    tight = tuple((pair, bound) for pair, bound in pools.items() if bound < devices[pair[1]])
    return Constraints((), tuple(devices.items()), tight)


def _columns(takers: Iterable[Prospect], room: Room, bounds: Constraints, aware: bool) -> list[_Column]:
    """Return every job with the types it can run on, and their worth."""
    devices, pools = dict(bounds.devices), dict(bounds.pools)
    total = max(1, sum(devices.values()))
    columns: list[_Column] = []
    for prospect in takers:
        sizes: dict[str, int] = {}
        speeds: dict[str, float] = {}
        for each in room.types(prospect.job):
            bound = pools.get((prospect.job.pool, each), devices[each])
            if not prospect.job.preemptible:  # limited to its pool's reservation
                bound = min(bound, room.most(prospect.job, each) * prospect.each)
            sizes[each] = _size(prospect, bound)
            rate = prospect.rate(each, sizes[each]) if sizes[each] else 0.0
            speeds[each] = rate if aware else float(rate > 0)
        scale = max(sizes.values(), default=0) * prospect.each
        equal = sum(speed * devices[each] for each, speed in speeds.items()) / total
        columns += (
            _Column(prospect, each, sizes[each], scale * speed / equal)
            for each, speed in speeds.items()
            if speed > 0
        )
    return columns


def _size(prospect: Prospect, bound: int) -> int:
    """Return the workers the job takes: its least or, if that is too many, its gang."""
    least = prospect.job.workers.least
    if least * prospect.each <= bound:
        return least
    return prospect.gang if prospect.gang * prospect.each <= bound else 0


def _fractions(columns: Sequence[_Column], bounds: Constraints) -> dict[_Pair, float]:
    """Return X: raise the least level, then the least of those that can have more, and so on."""
    best = _all_at_best(columns, bounds)
    if best is not None:
        return best
    program = _Program(columns, bounds)
    levels: dict[int, float] = {}
    x: Sequence[float] = ()
    level = 0.0
    for _ in range(LEVELS):
        raised = program.raised(levels)
        if raised is None:
            break
        x, level, binding = raised
        levels.update(dict.fromkeys(binding, level))
    else:
        x = program.topped({job: levels.get(job, level) for job in program.jobs}) or x
    return {column.pair: float(part) for column, part in zip(columns, x, strict=False)}


def _all_at_best(columns: Sequence[_Column], bounds: Constraints) -> dict[_Pair, float] | None:
    """Return all jobs full time on their best type, if there is room: nothing is better."""
    best: dict[int, _Column] = {}
    for column in columns:
        job = column.pair[0]
        if job not in best or column.worth > best[job].worth:
            best[job] = column
    types: Counter[str] = Counter()
    pools: Counter[tuple[str, str]] = Counter()
    for column in best.values():
        types[column.device_type] += column.devices
        pools[column.prospect.job.pool, column.device_type] += column.devices
    fits = all(types[each] <= n for each, n in bounds.devices)
    if not fits or any(pools[each] > n for each, n in bounds.pools):
        return None
    return {column.pair: float(best[column.pair[0]] is column) for column in columns}


class _Program:
    """The linear program; unknowns are the columns' fractions and, last, the level.

    Rows, all "at most": level - worth of each job, its time, devices of types, devices of pools.
    """

    def __init__(self, columns: Sequence[_Column], bounds: Constraints) -> None:
        self.jobs = list(dict.fromkeys(column.prospect.job.number for column in columns))
        self._worth = [column.worth for column in columns]
        self._highest = dict.fromkeys(self.jobs, 0.0)
        self._limits = [1.0] * len(self.jobs)
        self._limits += [float(devices) for _, devices in (*bounds.devices, *bounds.pools)]
        self._entries: list[tuple[int, int, float]] = []
        row = {job: at for at, job in enumerate(self.jobs)}
        after = 2 * len(row)
        types = {name: after + at for at, (name, _) in enumerate(bounds.devices)}
        pools = {pair: after + len(types) + at for at, (pair, _) in enumerate(bounds.pools)}
        for at, column in enumerate(columns):
            job, device_type = column.pair
            self._highest[job] = max(self._highest[job], column.worth)
            self._entries += [(row[job], at, -column.worth), (len(row) + row[job], at, 1.0)]
            self._entries.append((types[device_type], at, float(column.devices)))
            pool = pools.get((column.prospect.job.pool, device_type))
            if pool is not None:
                self._entries.append((pool, at, float(column.devices)))

    def raised(self, held: Mapping[int, float]) -> tuple[list[float], float, list[int]] | None:
        """Return fractions, the highest level of the jobs not fixed, and those that keep it down."""
        free = [at for at, job in enumerate(self.jobs) if job not in held]
        solved = self._solve([0.0] * len(self._worth), held, free) if free else None
        if solved is None:
            return None
        x, prices = solved
        least = x[-1] * (1 + _SMALL)
        binding = (at for at in free if prices[at] < -_SMALL or self._highest[self.jobs[at]] <= least)
        return x, x[-1], [self.jobs[at] for at in binding]

    def topped(self, held: Mapping[int, float]) -> list[float] | None:
        """Return fractions with the largest sum of levels, none below its fixed level."""
        solved = self._solve([-worth for worth in self._worth], held, [])
        return solved[0] if solved else None

    def _solve(
        self, aim: list[float], held: Mapping[int, float], free: list[int]
    ) -> tuple[list[float], list[float]] | None:
        """Return the optimum and the rows' dual prices, at most 0; None: no solution."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        last = len(aim)
        rows, columns, values = zip(*self._entries, *((at, last, 1.0) for at in free), strict=True)
        # Slightly below, or rounding could make the last solution infeasible.
        limits = [-held.get(job, 0.0) * (1 - _SMALL) for job in self.jobs] + self._limits
        matrix: Any = coo_array((values, (rows, columns)), shape=(len(limits), last + 1)).tocsr()
        result = linprog([*aim, -float(bool(free))], A_ub=matrix, b_ub=limits, method="highs")
        if not result.success or result.x is None:
            return None
        return result.x.tolist(), result.ineqlin.marginals.tolist()


def _deal(
    room: Room, columns: Sequence[_Column], turns: Turns, changing: Mapping[int, tuple[str, int]]
) -> dict[int, tuple[str, int]]:
    """Deal this round: jobs keep what they were dealt before, then by priority."""
    dealt = dict(changing)
    movable = {state.number for state in room.movable}
    kept = (each for each in columns if turns.dealt.get(each.pair[0], _NOTHING)[0] == each.device_type)
    wanted = [each for each in columns if turns.fractions.get(each.pair, 0.0) > _SMALL]
    wanted.sort(key=lambda each: _urgency(each.pair, turns))
    for column in (*kept, *wanted):
        number, device_type = column.pair
        job = column.prospect.job
        if number in dealt or number not in movable:
            continue
        if room.most(job, device_type) >= column.workers:
            room.take(job, device_type, column.workers)
            dealt[number] = (device_type, column.workers)
    return dealt


def _urgency(pair: _Pair, turns: Turns) -> tuple[float, float, float]:
    """Sort the highest priority first, then the most time owed, then the largest fraction.

    The coming round's due counts too, so that a new job does not look as if owed nothing.
    """
    fraction = turns.fractions[pair]
    due = turns.due.get(pair, 0.0) + fraction * ROUND
    had = turns.had.get(pair, 0.0)
    return (-due / had if had > 0 else -inf, had - due, -fraction)


POLICIES = (MaxMin(),)
