"""Tiresias: least attained service first, in discrete queues; and the form by Gittins index.

Source: Gu et al., NSDI 2019, "Tiresias: a GPU cluster manager for distributed deep learning"; the order
inside a queue and the walk as in the published evaluation on the T4 data.

Rule (2D-LAS): attained service (device-s) = sum over time of devices held. A job enters queue 0 when
submitted and moves to queue q when its service reaches thresholds[q - 1]. Queue 0 is served first, then
queue 1 and so on, each in order of arrival in it. In this order a job runs with its gang if that still
fits, else it is stopped; later, smaller ones may still run. It arrives when it crosses the threshold:
for devices held since `since` with `served` by then

    moment = since + (threshold - served) / devices                                      (s)

Promotion (the paper's STARVELIMIT, off unless given): a stopped job that has waited `starve` times as
long as it has run returns to queue 0 with its service forgiven.

The Gittins form has queues of doubling width, served by the index of the service at which they begin,
highest first. It learns how much service jobs take from those that end.

Without contention nothing is walked or remembered: all waiting jobs are started. Moments of demotion
are computed when first needed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from operator import attrgetter

from muster.model.cluster import NodeState
from muster.model.pool import Entitlements
from muster.model.reason import Measure
from muster.model.view import JobState, Phase, View
from muster.policy.base import Allocation, Merits, Shares, exactly
from muster.policy.merits import by_service
from muster.policy.published.gittins import ServiceSample
from muster.policy.room import Room, holds, type_held

THRESHOLDS = (57_600.0,)
"""16 GPU-hours in device-s: two queues, as in the published evaluation on the T4 data."""
QUANTUM = 3_250.0
"""Device-s in the first queue of the Gittins form: the quantum of the authors' public code."""
LEVELS = (0.0, *(QUANTUM * 2.0**k for k in range(32)))
"""Where its queues begin. They double, so a job changes queue only log(service) times."""

_FREE_TO_CHANGE = (Phase.WAITING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Rung:
    """A job's position: valid while its holdings are unchanged, and until `due`."""

    number: int
    """Of its job."""
    rank: tuple[int, int, float, float, int]
    """-priority, queue, arrival in it (s), submission (s), number."""
    devices: int
    """Held, or wanted while waiting."""
    since: float | None
    served: float
    """The state's, for which this was computed."""
    due: float
    """When it moves to another queue if nothing changes, in s."""
    waits: float | None = None
    """Since when it waits; None: it holds devices."""
    forgiven: float = 0.0
    """Device-s that do not count since its promotion."""

    def attained(self, now: float) -> float:
        """Return the device-s held by now if its holdings are unchanged."""
        return self.served if self.since is None else self.served + self.devices * (now - self.since)


@dataclass(frozen=True, slots=True)
class Queues:
    """The rule by which jobs move between queues."""

    thresholds: tuple[float, ...]
    starve: float | None = None

    def stand(self, state: JobState, old: Rung | None, now: float) -> Rung:
        """Return the job's position; `old` is the last one known."""
        since, served = state.since, state.served
        queue, arrived = old.rank[1:3] if old else (0, state.submitted)
        forgiven = old.forgiven if old else 0.0
        reached = bisect_right(self.thresholds, served - forgiven)
        if reached > queue:
            # It crossed while holding other devices: when it was due to, and before it got these.
            expected = old.due if old and old.since is not None else inf
            queue, arrived = reached, min(expected, now if since is None else since)
        if since is None:
            return self._waiting(state, old, now, queue, arrived, forgiven)
        devices = state.placement.devices if state.placement else 0
        due = self.crossing(queue, served - forgiven, since, devices)
        while due <= now:
            queue, arrived = queue + 1, due
            due = self.crossing(queue, served - forgiven, since, devices)
        rank = (-state.job.priority, queue, arrived, state.submitted, state.number)
        return Rung(state.number, rank, devices, since, served, due, None, forgiven)

    def crossing(self, queue: int, served: float, since: float, devices: int) -> float:
        """Return when a job of the queue with these devices moves to the next, in s."""
        if queue >= len(self.thresholds) or not devices:
            return inf
        return since + max(0.0, self.thresholds[queue] - served) / devices

    def _waiting(
        self,
        state: JobState,
        old: Rung | None,
        now: float,
        queue: int,
        arrived: float,
        forgiven: float,
    ) -> Rung:
        devices = _wanted(state)
        waits = old.waits if old and old.waits is not None else now
        due = inf
        if self.starve is not None and queue and devices:
            due = waits + self.starve * (state.served - forgiven) / devices
            if due <= now:
                queue, arrived, forgiven, due = 0, due, state.served, inf
        rank = (-state.job.priority, queue, arrived, state.submitted, state.number)
        return Rung(state.number, rank, devices, None, state.served, due, waits, forgiven)

    def survey(self, view: View, known: Mapping[int, Rung], now: float) -> dict[int, Rung]:
        """Return the position of every job that needs devices, known ones first in the old order."""
        found: dict[int, Rung] = {}
        jobs = view.jobs
        for number, old in known.items():
            state = jobs.get(number)
            if state is None:
                continue
            if state.since != old.since or state.served != old.served or old.due <= now:
                old = self.stand(state, old, now)
            found[number] = old
        for number, state in jobs.items():
            if number not in found and state.job.workers.need.devices:
                found[number] = self.stand(state, None, now)
        return found


@dataclass(frozen=True, slots=True)
class Remembered:
    """Memory: positions of jobs, and (Gittins) the services of ended ones."""

    rungs: Mapping[int, Rung] = field(default_factory=dict)
    sample: ServiceSample = field(default_factory=ServiceSample)


@dataclass(frozen=True, slots=True)
class Tiresias:
    """Two-dimensional attained service in discrete queues."""

    name: str = "tiresias"
    informed: bool = False
    thresholds: tuple[float, ...] = THRESHOLDS
    """Device-s at which a job moves to the next queue."""
    starve: float | None = None
    """Promote a job that has waited this many times as long as it ran; None: never."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate starts and stops; all other jobs keep what they have."""
        waiting = [state for state in view.jobs.values() if state.phase is Phase.WAITING]
        if _plenty(view, entitlements, waiting):
            merits = partial(by_service, view.jobs.values(), now)
            return Shares(_start_all(waiting), memory, steers=True, merits=merits)
        known = memory if isinstance(memory, Remembered) else Remembered()
        queues = Queues(self.thresholds, self.starve)
        found = queues.survey(view, known.rungs, now)
        order = sorted(found.values(), key=attrgetter("rank"))
        walk = _walk(view, entitlements, order)
        ordered = {standing.number: standing for standing in order}
        again = _again(queues, ordered, walk, now)
        merits = partial(_merits, order, now)
        return Shares(walk, Remembered(ordered), steers=True, again=again, merits=merits)


@dataclass(frozen=True, slots=True)
class TiresiasGittins:
    """The same by Gittins index; until any job has ended, by attained service."""

    name: str = "tiresias-g"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate starts and stops; all other jobs keep what they have."""
        known = memory if isinstance(memory, Remembered) else Remembered()
        queues = Queues(LEVELS[1:])
        found = queues.survey(view, known.rungs, now)
        sample = known.sample.learn(_ended(known.rungs, view, now), LEVELS)
        waiting = [state for state in view.jobs.values() if state.phase is Phase.WAITING]
        if _plenty(view, entitlements, waiting):
            order, walk, again = list(found.values()), _start_all(waiting), inf
        else:
            order = sorted(found.values(), key=_by_index(sample))
            walk = _walk(view, entitlements, order)
            again = _again(queues, found, walk, now)
        # A job that starts and ends before the next cycle was only seen waiting.
        found.update(
            {a.job: _begun(queues, found[a.job], now) for a in walk if a.most and a.job in found}
        )
        remembered, merits = Remembered(found, sample), partial(_merits, order, now)
        return Shares(walk, remembered, steers=True, again=again, merits=merits)


def _merits(order: Iterable[Rung], now: float) -> Merits:
    """Return jobs in the order of their queues, with the service that put them there."""
    return Merits(Measure.SERVICE, tuple((each.number, each.attained(now)) for each in order))


def _by_index(sample: ServiceSample) -> Callable[[Rung], tuple[float, ...]]:
    """Return the sort key: priority, then the highest index, then as by attained service."""
    index = sample.index or (0.0,) * len(LEVELS)
    return lambda standing: (standing.rank[0], -index[standing.rank[1]], *standing.rank[1:])


def _ended(known: Mapping[int, Rung], view: View, now: float) -> list[float]:
    """Return the service in device-s of jobs that ran when last seen and are gone."""
    gone = (standing for number, standing in known.items() if number not in view.jobs)
    return [standing.attained(now) for standing in gone if standing.since is not None]


def _begun(queues: Queues, standing: Rung, now: float) -> Rung:
    """Return a waiting job's position once it is started."""
    return replace(standing, since=now, due=_due_once_begun(queues, standing, now), waits=None)


def _due_once_begun(queues: Queues, standing: Rung, now: float) -> float:
    served = standing.served - standing.forgiven
    return queues.crossing(standing.rank[1], served, now, standing.devices)


def _wanted(state: JobState) -> int:
    workers = state.job.workers
    return workers.gang * workers.need.devices


def _plenty(view: View, entitlements: Entitlements, waiting: list[JobState]) -> bool:
    """Whether idle devices are clearly enough for all waiting jobs."""
    if not waiting:
        return True
    if not _undivided(view, entitlements, waiting):
        return False
    up = (node for node in view.cluster.nodes if node.free and node.state is NodeState.UP)
    left = 0
    for state in waiting:  # counts no further than needed
        left -= _wanted(state)
        while left < 0 and (node := next(up, None)) is not None:
            left += node.free.bit_count()
        if left < 0:
            return False
    return True


def _undivided(view: View, entitlements: Entitlements, waiting: Iterable[JobState]) -> bool:
    """Whether the number of devices is the only limit: one pool, one type, no quota that binds."""
    if len(entitlements.capacity) != 1 or len(view.pools.pools) != 1:
        return False
    ((device_type, there),) = entitlements.capacity.items()
    (pool,) = view.pools.pools.values()
    quota = pool.quota(device_type)
    if quota.limit is not None and quota.limit < there:
        return False
    return quota.reservation >= there or all(state.job.preemptible for state in waiting)


def _start_all(waiting: Iterable[JobState]) -> tuple[Allocation, ...]:
    return tuple(exactly(state.number, state.job.workers.gang) for state in waiting)


def _walk(view: View, entitlements: Entitlements, order: list[Rung]) -> tuple[Allocation, ...]:
    """Return starts and stops when devices are dealt in this order."""
    jobs = view.jobs
    waiting = [state for state in jobs.values() if state.phase is Phase.WAITING]
    deal = _deal_count if _undivided(view, entitlements, waiting) else _deal_pools
    standing = {each.number for each in order}
    without_devices = _start_all(state for state in waiting if state.number not in standing)
    return without_devices + tuple(deal(view, entitlements, order))


def _deal_count(view: View, entitlements: Entitlements, order: list[Rung]) -> list[Allocation]:
    """The walk where the number of devices is the only limit."""
    jobs = view.jobs
    movable: list[Rung] = []
    (left,) = entitlements.capacity.values()
    for standing in order:
        state = jobs[standing.number]
        if state.phase in _FREE_TO_CHANGE and (standing.since is None or state.job.preemptible):
            movable.append(standing)
        elif state.phase is not Phase.PREEMPTING:
            placement = state.target or state.placement
            left -= placement.devices if placement else 0
    answer: list[Allocation] = []
    for standing in movable:
        if standing.devices <= left:
            left -= standing.devices
            if standing.since is None:
                answer.append(exactly(standing.number, jobs[standing.number].job.workers.gang))
        elif standing.since is not None:
            answer.append(exactly(standing.number, 0))
    return answer


def _deal_pools(view: View, entitlements: Entitlements, order: list[Rung]) -> list[Allocation]:
    """The walk where pools, their limits and device types matter."""
    room = Room(view, entitlements)
    movable = {state.number for state in room.movable}
    states = (view.jobs[standing.number] for standing in order if standing.number in movable)
    choices = (_choose(view, room, state) for state in states)
    return [choice for choice in choices if choice is not None]


def _choose(view: View, room: Room, state: JobState) -> Allocation | None:
    """Take what the job gets from the room; None: it keeps what it has."""
    types = room.types(state.job)
    held = type_held(view, state)
    if held is not None:
        workers = holds(state)
        if room.most(state.job, held) >= workers:
            room.take(state.job, held, workers)
            return None
    gang = state.job.workers.gang
    for device_type in types:
        if device_type != held and room.most(state.job, device_type) >= gang:
            room.take(state.job, device_type, gang)
            return exactly(state.number, gang, device_type=device_type if len(types) > 1 else None)
    return exactly(state.number, 0) if held is not None else None


def _again(
    queues: Queues, found: Mapping[int, Rung], walk: tuple[Allocation, ...], now: float
) -> float:
    """Return when the next job changes queue if the walk is followed."""
    moved = {allocation.job: allocation.most for allocation in walk}
    soonest = inf
    for number, standing in found.items():
        if number not in moved:
            due = standing.due
        else:  # a stopped job is looked at once it has stopped
            due = _due_once_begun(queues, standing, now) if moved[number] else inf
        if due < soonest:
            soonest = due
    return soonest


POLICIES = (Tiresias(), TiresiasGittins())
