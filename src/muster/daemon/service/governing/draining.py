"""What becomes of the jobs on a draining node."""

from collections.abc import Callable

from muster.core.cycle.moves.drain import finding_room, leaves_at, moves_live
from muster.model.cluster import Node
from muster.model.job import Job
from muster.model.view import JobState, View
from muster.wire.api.records import LeavingRecord

Finish = Callable[[int], float | None]
"""When a job is expected to end, in s; None: unknown."""
NameOf = Callable[[Job], str | None]
"""What the caller may know a job as."""


class Draining:
    """Says how jobs leave draining nodes. A list asks for node after node of one view: the room found
    for its jobs is remembered."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._with_room: frozenset[int] = frozenset()

    def leaving(
        self, view: View, node: Node, finish: Finish, name_of: NameOf
    ) -> tuple[LeavingRecord, ...]:
        """Return how each job on the node leaves it."""
        there = [s for s in view.jobs.values() if any(slot.node == node.name for slot in s.held())]
        if there and self._view is not view:
            self._view, self._with_room = view, finding_room(view)
        return tuple(
            self._leaves(node, state, finish(state.number), name_of(state.job) or "") for state in there
        )

    def _leaves(self, node: Node, state: JobState, end: float | None, name: str) -> LeavingRecord:
        assert self._view is not None
        number, moves = state.number, moves_live(state.job)
        room = number in self._with_room
        if moves and room:
            return LeavingRecord(number, name, "moves")
        if end is not None and node.until is not None and end <= node.until:
            return LeavingRecord(number, name, "ends", end)
        if node.until is None:
            return LeavingRecord(number, name, "stays" if moves else "ends", end)
        at = leaves_at(self._view, state)
        if state.keeps_work:
            return LeavingRecord(number, name, "restarts" if room else "queues", at)
        return LeavingRecord(number, name, "starts over", at, state.at_risk(at))
