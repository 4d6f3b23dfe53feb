"""Who competes with whom in a pool, by the measure that its policy ranks jobs by.

A waiting job has to pass the last of those that were served. What it is compared by, and by how much
they are ahead, is the policy's own (`Merits`); the rest is what the cycle has decided.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from muster.core.quotas.demand import held_by_type
from muster.model.job import Job
from muster.model.placement import Slot
from muster.model.pool import Entitlements
from muster.model.reason import Measure, QueueRank, QueueRival
from muster.model.view import JobState, Phase, View
from muster.policy.base import Merits

NAMED = 3
"""Rivals named in a rank."""

HeldAfter = Callable[[JobState], tuple[Slot, ...]]
"""What a job holds after the cycle."""


@dataclass(slots=True)
class _Entrant:
    """A job in the order of its pool."""

    state: JobState
    value: float
    turn: int
    """In the policy's order, from 0."""
    devices: Mapping[str, int]
    """That it holds, by type."""
    urgent: bool

    def rival(self) -> QueueRival:
        """Return it as one who is ahead of another."""
        job, devices = self.state.job, sum(self.devices.values())
        return QueueRival(job.name, devices, self.value, job.number, job.priority, self.urgent)


@dataclass(slots=True)
class _Order:
    """One pool's jobs, most urgent first."""

    measure: Measure
    steers: bool
    """Whether those that run have to be passed too: a queue stops nobody."""
    served: list[_Entrant] = field(default_factory=list)
    waiting: list[_Entrant] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Of those that wait, from 0."""

    def before(self, place: int) -> tuple[QueueRival, ...]:
        """Return those that wait just before a place."""
        return tuple(each.rival() for each in self.waiting[max(0, place - NAMED) : place])


class Rivals:
    """The orders of all pools in one cycle."""

    def __init__(
        self,
        view: View,
        entitled: Entitlements,
        merits: Iterable[tuple[Merits, bool]],
        held: HeldAfter,
    ) -> None:
        """`merits`: each policy's, and whether it steers."""
        self._view, self._entitled, self._held = view, entitled, held
        self._orders: dict[str, _Order] = {}
        self._values: dict[int, float] = {}
        self._urgent: set[int] = set()
        self._use: dict[tuple[str, tuple[str, ...]], tuple[int, int]] = {}
        for each in merits:
            self._enter(*each)

    def rank(self, state: JobState) -> QueueRank | None:
        """Return where a job stands, and whom it has to pass; None: no policy has ranked it."""
        order, value = self._orders.get(state.job.pool), self._values.get(state.number)
        if order is None or value is None:
            return None
        place = order.places.get(state.number)
        ahead = self._ahead(order, state.job, place)
        holding = () if ahead or place is None else _last_of(order.served, state.job)
        used, entitled = self._pool_use(state.job)
        return QueueRank(
            order.measure,
            ahead,
            value,
            0 if place is None else place + 1,
            len(order.waiting),
            state.job.pool,
            used,
            entitled,
            state.job.priority,
            holding,
            state.number in self._urgent,
        )

    def against(self, state: JobState, served: int) -> QueueRank | None:
        """Return a job's own value beside that of the one which gets its devices."""
        order, value = self._orders.get(state.job.pool), self._values.get(state.number)
        theirs, other = self._values.get(served), self._view.jobs.get(served)
        if order is None or value is None or theirs is None or other is None:
            return None
        if other.job.pool != state.job.pool or not order.steers:
            return None  # it is not by their values that one makes way for the other
        mine, job = state.job.priority, other.job
        urgent = served in self._urgent
        rival = QueueRival(job.name, 0, theirs, served, job.priority, urgent)
        same = value == theirs and mine == job.priority and not urgent
        return None if same else QueueRank(order.measure, (rival,), value, priority=mine)

    def left_out(self) -> Iterator[int]:
        """Yield the jobs that were given nothing, pool by pool, most urgent first."""
        for order in self._orders.values():
            yield from (each.state.number for each in order.waiting)

    def _enter(self, merits: Merits, steers: bool) -> None:
        jobs, cluster = self._view.jobs, self._view.cluster
        self._urgent |= merits.urgent
        for turn, (number, value) in enumerate(merits.ranked):
            state = jobs.get(number)
            if state is None:
                continue
            self._values[number] = value
            order = self._orders.setdefault(state.job.pool, _Order(merits.measure, steers))
            slots, urgent = self._held(state), number in merits.urgent
            if slots:
                order.served.append(_Entrant(state, value, turn, held_by_type(cluster, slots), urgent))
            elif state.phase is Phase.WAITING:
                order.places[number] = len(order.waiting)
                order.waiting.append(_Entrant(state, value, turn, {}, urgent))

    def _ahead(self, order: _Order, job: Job, place: int | None) -> tuple[QueueRival, ...]:
        """Return the last before it that were served of the types that the job may have; if none were,
        the next before it. One that was served after it has devices that the job cannot use."""
        if not order.steers:
            return order.before(place or 0)
        if place is None:  # it runs, and is not ahead of itself
            return _last_of([e for e in order.served if e.state.number != job.number], job)
        turn = order.waiting[place].turn
        first = order.served[: bisect_left(order.served, turn, key=_turn)]
        return _last_of(first, job) or order.before(place)

    def _pool_use(self, job: Job) -> tuple[int, int]:
        """Return the devices that its pool uses of its types, and those that it is entitled to."""
        key = (job.pool, job.device_types)
        if key not in self._use:
            types = job.device_types or tuple(self._entitled.capacity)
            served = self._orders[job.pool].served
            used = sum(each.devices.get(one, 0) for each in served for one in types)
            self._use[key] = used, sum(self._entitled.of(job.pool, one) for one in types)
        return self._use[key]


def _turn(entrant: _Entrant) -> int:
    return entrant.turn


def _last_of(served: Sequence[_Entrant], job: Job) -> tuple[QueueRival, ...]:
    """Return the last that hold devices of one of a job's types, the most urgent of them first."""
    types = frozenset(job.device_types)
    fitting = (
        each
        for each in reversed(served)
        if any(each.devices.values()) and (not types or not types.isdisjoint(each.devices))
    )
    return tuple(each.rival() for each in islice(fitting, NAMED))[::-1]
