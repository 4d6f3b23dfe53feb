"""The neighbour that a job was placed apart from, to be told with the reason of its start."""

from typing import TYPE_CHECKING

from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.reason import Avoided
from muster.place.pack import pack

if TYPE_CHECKING:
    from muster.core.cycle.cycle_state import CycleState

TOLD = 0.05
"""Least difference worth telling."""


def avoided(cycle: "CycleState", job: Job, placement: Placement) -> Avoided | None:
    """Return the worst neighbour where the job would be, were neighbours not known to slow it."""
    slowdowns = cycle.view.slowdowns
    if not slowdowns.pairs or job.number not in slowdowns.kinds:
        return None
    option = cycle.options.used_by(job, placement)
    if option is None:
        return None
    servers = placement.count(Role.SERVER)
    request = cycle.options.request(job, placement.count(Role.WORKER), option, servers)
    unpriced = pack(cycle.board, request)
    if unpriced is None or unpriced.bits() == placement.bits():
        return None
    there, who = _worst(cycle, job, unpriced)
    here, _ = _worst(cycle, job, placement)
    if there - here < TOLD:
        return None
    return Avoided(cycle.view.jobs[who].job.name, who, there)


def _worst(cycle: "CycleState", job: Job, placement: Placement) -> tuple[float, int]:
    places = placement.bits().items()
    return max(cycle.prices.worst(job.number, node, bits) for node, bits in places)
