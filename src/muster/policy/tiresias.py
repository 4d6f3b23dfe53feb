"""Tiresias: least attained service first, in discrete queues; and the form that goes by Gittins index.

Source: Gu et al., NSDI 2019, "Tiresias: a GPU cluster manager for distributed deep learning"; the order
inside a queue and the walk as in the published evaluation on the T4 data.

Rule (2D-LAS): attained service (device-s) = sum over time of devices held. A job enters queue 0 when it
is submitted and moves to queue q when its service reaches thresholds[q - 1]. Queue 0 goes first, then
queue 1 and so on, each in order of arrival in that queue. Walking them, a job runs with its gang if
that still fits in what is left, else it is stopped; later, smaller ones may still run. The moment of
arrival is that of crossing: for devices held since `since` with `served` by then

    moment = since + (threshold - served) / devices                                      (s)

Promotion (the paper's STARVELIMIT, off unless given): a stopped job that has waited `starve` times as
long as it has run returns to queue 0 with its service forgiven.

The Gittins form has queues of doubling width; they go by the index of the service at which they begin,
highest first. How much service jobs take it learns from those that end.

Where nothing is contended nobody need be walked or remembered: whoever waits is started. Moments of
demotion are worked out when they are first needed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter

from muster.model.cluster import NodeState
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.gittins import ServiceSample
from muster.policy.room import Room, holds, type_held

THRESHOLDS = (57_600.0,)
"""16 GPU-hours in device-s: two queues, as in the published evaluation on the T4 data."""
QUANTUM = 3_250.0
"""Device-s in the first queue of the Gittins form: the quantum of the authors' public code."""
LEVELS = (0.0, *(QUANTUM * 2.0**k for k in range(32)))
"""Where its queues begin. They double, so that a job changes queue only log(service) times."""

_FREE_TO_CHANGE = (Phase.WAITING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Rung:
    """Where a job stands: good while it holds what it holds, and until `due`."""

    number: int
    """Of its job."""
    rank: tuple[int, int, float, float, int]
    """-priority, queue, arrival in it (s), submission (s), number."""
    devices: int
    """Held, or wanted while it waits."""
    since: float | None
    served: float
    """The state's, for which this was worked out."""
    due: float
    """When it moves to another queue if it goes on like this, in s."""
    waits: float | None = None
    """Since when it is known to wait; None: it holds devices."""
    forgiven: float = 0.0
    """Device-s that do not count since it was promoted."""

    def attained(self, now: float) -> float:
        """Device-s it has held by now if it still holds what it did."""
        return self.served if self.since is None else self.served + self.devices * (now - self.since)


@dataclass(frozen=True, slots=True)
class Queues:
    """The rule by which jobs move between queues."""

    thresholds: tuple[float, ...]
    starve: float | None = None

    def stand(self, state: JobState, old: Rung | None, now: float) -> Rung:
        """Where the job stands now; `old` is what was known of it."""
        since, served = state.since, state.served
        queue, arrived = old.rank[1:3] if old else (0, state.submitted)
        forgiven = old.forgiven if old else 0.0
        reached = bisect_right(self.thresholds, served - forgiven)
        if reached > queue:
            # It crossed while it held other devices: when it was due to, and before it got these.
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
        """When a job of the queue that holds so many devices moves to the next, in s."""
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
        """Where every job stands that needs devices; those known before first, in the old order."""
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
    """What the policy keeps: where jobs stood, and (Gittins) what those took that have ended."""

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
    """Promote a job that has waited so many times as long as it has run; None: never."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Starts and stops; every other job keeps what it has."""
        waiting = [state for state in view.jobs.values() if state.phase is Phase.WAITING]
        if _plenty(view, entitlements, waiting):
            return Shares(_start_all(waiting), memory, steers=True)
        known = memory if isinstance(memory, Remembered) else Remembered()
        queues = Queues(self.thresholds, self.starve)
        found = queues.survey(view, known.rungs, now)
        order = sorted(found.values(), key=attrgetter("rank"))
        walk = _walk(view, entitlements, order)
        ordered = {standing.number: standing for standing in order}
        again = _again(queues, ordered, walk, now)
        return Shares(walk, Remembered(ordered), steers=True, again=again)


@dataclass(frozen=True, slots=True)
class TiresiasGittins:
    """The same by Gittins index; until anything is known, by attained service."""

    name: str = "tiresias-g"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Starts and stops; every other job keeps what it has."""
        known = memory if isinstance(memory, Remembered) else Remembered()
        queues = Queues(LEVELS[1:])
        found = queues.survey(view, known.rungs, now)
        sample = known.sample.learn(_ended(known.rungs, view, now), LEVELS)
        waiting = [state for state in view.jobs.values() if state.phase is Phase.WAITING]
        if _plenty(view, entitlements, waiting):
            walk, again = _start_all(waiting), inf
        else:
            walk = _walk(view, entitlements, sorted(found.values(), key=_by_index(sample)))
            again = _again(queues, found, walk, now)
        # A job that starts and ends before the next cycle has been seen waiting only.
        found.update(
            {a.job: _begun(queues, found[a.job], now) for a in walk if a.most and a.job in found}
        )
        return Shares(walk, Remembered(found, sample), steers=True, again=again)


def _by_index(sample: ServiceSample) -> Callable[[Rung], tuple[float, ...]]:
    """Order of the walk: priority, then the highest index, then as by attained service."""
    index = sample.index or (0.0,) * len(LEVELS)
    return lambda standing: (standing.rank[0], -index[standing.rank[1]], *standing.rank[1:])


def _ended(known: Mapping[int, Rung], view: View, now: float) -> list[float]:
    """Service of the jobs that ran when last seen and are gone, in device-s."""
    gone = (standing for number, standing in known.items() if number not in view.jobs)
    return [standing.attained(now) for standing in gone if standing.since is not None]


def _begun(queues: Queues, standing: Rung, now: float) -> Rung:
    """Where a waiting job stands once it is started."""
    return replace(standing, since=now, due=_due_once_begun(queues, standing, now), waits=None)


def _due_once_begun(queues: Queues, standing: Rung, now: float) -> float:
    served = standing.served - standing.forgiven
    return queues.crossing(standing.rank[1], served, now, standing.devices)


def _wanted(state: JobState) -> int:
    workers = state.job.workers
    return workers.gang * workers.need.devices


def _plenty(view: View, entitlements: Entitlements, waiting: list[JobState]) -> bool:
    """Whether what is idle is enough for everybody who waits, without a closer look."""
    if not waiting:
        return True
    if not _undivided(view, entitlements, waiting):
        return False
    up = (node for node in view.cluster.nodes if node.free and node.state is NodeState.UP)
    left = 0
    for state in waiting:  # counts no further than it must
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
    """Who is to start and who to stop, when devices are dealt in this order."""
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
    """Take from the room what the job gets; None: it keeps what it has."""
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
    """When the next job changes queue if the walk is followed."""
    moved = {allocation.job: allocation.most for allocation in walk}
    soonest = inf
    for number, standing in found.items():
        if number not in moved:
            due = standing.due
        else:  # one that is stopped begins to wait: it is looked at when it has stopped
            due = _due_once_begun(queues, standing, now) if moved[number] else inf
        if due < soonest:
            soonest = due
    return soonest
