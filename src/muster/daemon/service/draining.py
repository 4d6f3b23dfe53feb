"""What becomes of the jobs on a draining node."""

from collections.abc import Callable

from muster.core.cycle.drain import leaves_at, moves_live
from muster.model.cluster import Node
from muster.model.job import Job
from muster.model.view import JobState, View
from muster.wire.records import LeavingRecord

Finish = Callable[[int], float | None]
"""When a job is expected to end, in s; None: unknown."""
NameOf = Callable[[Job], str | None]
"""What the caller may know a job as."""


def leaving(view: View, node: Node, finish: Finish, name_of: NameOf) -> tuple[LeavingRecord, ...]:
    """Return how each job on the node leaves it."""
    there = (s for s in view.jobs.values() if any(slot.node == node.name for slot in s.held()))
    return tuple(
        _leaves(view, node, state, finish(state.number), name_of(state.job) or "") for state in there
    )


def _leaves(view: View, node: Node, state: JobState, end: float | None, name: str) -> LeavingRecord:
    number = state.number
    if moves_live(state.job):
        return LeavingRecord(number, name, "moves")
    if node.until is None or (end is not None and end <= node.until):
        return LeavingRecord(number, name, "ends", end)
    at = leaves_at(view, state)
    if state.keeps_work:
        return LeavingRecord(number, name, "restarts", at)
    return LeavingRecord(number, name, "starts over", at, state.at_risk(at))
