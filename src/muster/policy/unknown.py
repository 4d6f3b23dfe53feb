"""A job as policies see it, with assumptions for jobs of which nothing is known.

Of a job without an outlook two things are assumed, here and nowhere else:

- speed: in proportion to its devices, on any type (work is then counted in device-seconds);
- work left, in device-seconds: as much again as it has had, and a device-hour while it has had less.

As much again is the median of what is left of a job whose length has the tail P(length > x) ~ 1/x, the
heavy tail that makes attained service informative at all (Tiresias, NSDI'19). The logarithm of left /
attained is then logistic with scale 1, of standard deviation pi / sqrt(3).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, pi, sqrt

from muster.model.job import Role
from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, View
from muster.perf.learnt.tables import ByType
from muster.planner.counts import plan_for
from muster.policy.base import Allocation, exactly
from muster.policy.room import Room, most_on_node, type_held

DEVICE_HOUR = 3600.0
"""Least device-seconds a job is assumed to have left."""
SPREAD = pi / sqrt(3)
"""Of the logarithm of the time left (see above)."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear speed-up: device-seconds per s, with `each` devices per worker."""

    each: int = 1

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Return device-seconds per s."""
        return float(max(0, workers) * self.each)

    def batch(self, device_type: str, workers: int) -> int | None:
        """The job's own batch."""
        return None


def expected(state: JobState, now: float) -> float:
    """Return the device-seconds left of a job of which only the attained service is known."""
    return max(DEVICE_HOUR, state.attained(now))


def remaining(view: View, state: JobState, types: Iterable[str], now: float) -> float:
    """Return the seconds left with its gang on the first type where it runs; inf: unknown, or none."""
    job, gang = state.job, state.job.workers.gang
    outlook = view.outlooks.get(state.number)
    if outlook is not None:
        rates = (outlook.speed.rate(each, gang) for each in types)
        rate = next((rate for rate in rates if rate > 0), 0.0)
        return outlook.left / rate if rate else inf
    if job.duration is None:
        return inf
    devices = gang * job.workers.need.devices
    return max(0.0, job.duration - state.attained(now) / devices) if devices else job.duration


def outlook_of(view: View, state: JobState, now: float) -> Outlook:
    """Return the job's outlook, or the assumptions above."""
    if (known := view.outlooks.get(state.number)) is not None:
        return known
    return Outlook(expected(state, now), Linear(max(1, state.job.workers.need.devices)), SPREAD)


class Crowd:
    """Devices of each type, and the jobs assigned there in this deal."""

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self.capacity = capacity
        self.jobs: Counter[str] = Counter()


class Prospect:
    """A job to deal to: its request, work left, and speeds, cached."""

    def __init__(self, view: View, state: JobState, now: float) -> None:
        outlook = outlook_of(view, state, now)
        workers = state.job.workers
        self._view = view
        self._speed = outlook.speed
        self._slowed = outlook.slowed
        self._rates: dict[tuple[str, int], float] = {}
        self.state = state
        self.job = state.job
        self.left = outlook.left
        self.spread = outlook.spread
        self.each = workers.need.devices
        self.gang = workers.gang
        self.most = workers.most
        self.served = any(spec.role is Role.SERVER for spec in state.job.roles)

    def rate(self, device_type: str, workers: int) -> float:
        """Return the work per s with these workers and the servers that go with them."""
        key = (device_type, workers)
        known = self._rates.get(key)
        if known is None:
            known = self.rate_with(device_type, workers, self._servers(workers))
            self._rates[key] = known
        return known

    def rate_with(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Return the work per s with these workers and servers, beside neighbours unless they have
        whole nodes."""
        rate = self._speed.rate(device_type, workers, servers)
        if self._slowed == 1.0 or not workers * self.each % most_on_node(self._view, device_type):
            return rate
        return rate / self._slowed

    def rates(
        self, device_type: str, workers: Sequence[int], servers: Sequence[int] = ()
    ) -> list[float]:
        """Return the same for several numbers of workers; `servers`: those of each, empty: none."""
        if servers:
            pairs = zip(workers, servers, strict=True)
            return [self.rate_with(device_type, count, each) for count, each in pairs]
        speed = self._speed
        table = speed.table(device_type) if isinstance(speed, ByType) else speed
        if isinstance(table, Table):
            rates = table.all_rates(workers)
            if self._slowed == 1.0:
                return rates
            node = most_on_node(self._view, device_type)
            return [
                rate / self._slowed if count * self.each % node else rate
                for count, rate in zip(workers, rates, strict=True)
            ]
        return [self.rate_with(device_type, count) for count in workers]

    def time(self, device_type: str, workers: int) -> float:
        """Return the s left with these workers; inf if it cannot run so."""
        rate = self.rate(device_type, workers)
        return self.left / rate if rate > 0 else inf

    def choose_type(self, room: Room, crowd: "Crowd") -> str | None:
        """Return the best type with room for its gang, and count it there; None: there is none.

        The best is where it is fastest on an equal part of the type's devices: by the speed of gangs
        alone all jobs would crowd on the fastest type. Ties: the type it holds, then the least crowded.
        """
        fitting = [each for each in room.types(self.job) if self._fits(room, each)]
        if not fitting:
            return None
        if len(fitting) > 1:
            held = type_held(self._view, self.state)
            fitting.sort(key=lambda each: self._merit(crowd, each, held))
        crowd.jobs[fitting[0]] += 1
        return fitting[0]

    def gets(self, device_type: str, workers: int, servers: int | None = None) -> Allocation:
        """Return its allocation; the type is open if it takes no devices."""
        if not workers:
            return exactly(self.job.number, 0)
        batch = self._speed.batch(device_type, workers)
        chosen = device_type if self.each else None
        return exactly(self.job.number, workers, servers=servers, device_type=chosen, batch=batch)

    def _fits(self, room: Room, device_type: str) -> bool:
        """Whether its gang would run there; in a full cluster most jobs fail the first, cheap test."""
        return (
            room.free(device_type) >= self.gang * self.each
            and room.most(self.job, device_type) >= self.gang
            and self.rate(device_type, self.gang) > 0
        )

    def _merit(self, crowd: "Crowd", device_type: str, held: str | None) -> tuple[float, int]:
        """Sorts the best type first."""
        jobs = crowd.jobs[device_type]
        part = crowd.capacity[device_type] // (jobs + 1) // self.each
        rate = self.rate(device_type, max(self.gang, min(self.most, part)))
        return (-rate, -1 if device_type == held else jobs)

    def _servers(self, workers: int) -> int:
        return plan_for(self.job, workers).count(Role.SERVER) if self.served and workers else 0


def prospects(view: View, states: Iterable[JobState], now: float) -> list[Prospect]:
    """Return the jobs in order: higher priority first, then older, then by number."""
    queue = sorted(states, key=_urgency)
    return [Prospect(view, state, now) for state in queue]


def _urgency(state: JobState) -> tuple[int, float, int]:
    return (-state.job.priority, state.submitted, state.job.number)
