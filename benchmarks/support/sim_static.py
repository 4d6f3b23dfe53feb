"""Static allocation with a choice: an equal share when a job starts, kept to its end."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.room import Room, holds, type_held


@dataclass(frozen=True, slots=True)
class StaticShare:
    """First in, first out: each job starts with devices / live jobs, and nobody's share ever moves."""

    name: str = "static-share"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """What those who wait start with, as far as it is free; who runs is left as it is."""
        room = Room(view, entitlements)
        for state in room.movable:
            held = type_held(view, state)
            if held is not None:
                room.take(state.job, held, holds(state))
        waiting = sorted(
            (s for s in room.movable if s.phase is Phase.WAITING), key=lambda s: (s.submitted, s.number)
        )
        share = max(1, sum(entitlements.capacity.values()) // max(1, len(view.jobs)))
        return Shares(tuple(_started(room, waiting, share)), memory, steers=True)


def _started(room: Room, waiting: list[JobState], share: int) -> Iterator[Allocation]:
    """In order, until one finds not even its gang."""
    for state in waiting:
        job, spec = state.job, state.job.workers
        sizes = {each: min(share, spec.most, room.most(job, each)) for each in room.types(job)}
        best = max(sizes, key=lambda each: sizes[each], default=None)
        if best is None or sizes[best] < spec.gang:
            return
        room.take(job, best, sizes[best])
        yield exactly(state.number, sizes[best], device_type=best if len(sizes) > 1 else None)
