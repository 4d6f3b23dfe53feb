"""Shortest remaining time first, preemptive.

Source: Schrage 1968, "A proof of the optimality of the shortest remaining processing time discipline"
(for one machine); the informed baseline of Tiresias, AFS and others for training jobs.

Rule: higher priority first, then the job with the least

    remaining = left / rate(type, gang)                                                  (s)

work left over believed speed with the requested gang. Each gets its gang if it still fits, else
nothing; later, smaller ones may still run. The rest goes in the same order, to each job while one more
worker makes it faster. Without an outlook the remaining time is what the duration leaves; jobs without
either count as longest, oldest first.
"""

from dataclasses import dataclass
from functools import partial

from muster.model.pool import Entitlements
from muster.model.view import JobState, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.merits import by_time_left
from muster.policy.room import Room, type_held
from muster.policy.unknown import remaining


@dataclass(frozen=True, slots=True)
class Srtf:
    """Gangs for the jobs nearest to their end, then growth in the same order."""

    name: str = "srtf"
    informed: bool = True

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate to every job that can be changed."""
        room = Room(view, entitlements)
        ranked = [(_urgency(view, room, state, now), state) for state in room.movable]
        ranked.sort(key=lambda pair: pair[0])
        queue = [state for _, state in ranked]
        types = {state.number: _admit(view, room, state) for state in queue}
        answer = (_allocation(view, room, state, types[state.number]) for state in queue)
        merits = partial(by_time_left, view, room, view.jobs.values(), now)
        return Shares(tuple(answer), memory, steers=True, merits=merits)


def _urgency(view: View, room: Room, state: JobState, now: float) -> tuple[int, float, float, int]:
    left = remaining(view, state, _types(view, room, state), now)
    return (-state.job.priority, left, state.submitted, state.number)


def _types(view: View, room: Room, state: JobState) -> tuple[str, ...]:
    """Return its device types, the current one first, as changing costs a restart."""
    types = room.types(state.job)
    held = type_held(view, state) if len(types) > 1 else None
    return types if held is None else (held, *(each for each in types if each != held))


def _admit(view: View, room: Room, state: JobState) -> str | None:
    """Take its gang from the first type with room where it can run; None: there is none."""
    job, gang = state.job, state.job.workers.gang
    outlook = view.outlooks.get(state.number)
    for each in _types(view, room, state):
        if room.most(job, each) >= gang and (outlook is None or outlook.speed.rate(each, gang) > 0):
            room.take(job, each, gang)
            return each
    return None


def _allocation(view: View, room: Room, state: JobState, device_type: str | None) -> Allocation:
    job = state.job
    if not job.workers.need.devices:
        return exactly(state.number, job.workers.gang)
    if device_type is None:
        return exactly(state.number, 0)
    workers = _grown(view, room, state, device_type)
    room.take(job, device_type, workers - job.workers.gang)
    chosen = device_type if len(room.types(job)) > 1 else None
    return exactly(state.number, workers, device_type=chosen)


def _grown(view: View, room: Room, state: JobState, device_type: str) -> int:
    """Return its workers after growing while each makes it faster."""
    spec = state.job.workers
    most = min(spec.most, spec.gang + room.most(state.job, device_type))
    outlook = view.outlooks.get(state.number)
    if outlook is None:
        return most
    workers, rate = spec.gang, outlook.speed.rate(device_type, spec.gang)
    while workers < most and (faster := outlook.speed.rate(device_type, workers + 1)) > rate:
        workers, rate = workers + 1, faster
    return workers


POLICIES = (Srtf(),)
