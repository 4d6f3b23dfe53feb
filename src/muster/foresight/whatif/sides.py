"""One world on one side: as everything is, or with the changes."""

from dataclasses import dataclass, field
from math import inf

from muster.foresight.draws import WorldDraws
from muster.foresight.open_ends import StartAndEnd
from muster.foresight.play import HORIZON, Beside, play
from muster.foresight.whatif.changes import Altered
from muster.model.event import NodeAdded, NodeDraining, NodeEvent
from muster.model.view import View
from muster.sim.truth import Arrival


@dataclass(frozen=True, slots=True)
class HeldLoad:
    """What is held from a moment on, in devices."""

    at: float
    pools: dict[str, int]
    scattered: int
    """Free ones on partly used nodes."""
    devices: int
    """All that are there."""


@dataclass(frozen=True, slots=True)
class PlayedSide:
    """When jobs start and end in one world, and what is held meanwhile."""

    jobs: dict[int, StartAndEnd]
    loads: list[HeldLoad] = field(repr=False)

    @property
    def end(self) -> float:
        """When the last job has ended that ever does, s."""
        ends = (each.finish for each in self.jobs.values())
        return max((at for at in ends if at < inf), default=0.0)


def play_side(side: Altered, draws: WorldDraws, world: int) -> PlayedSide:
    """Play a world of these draws."""
    loads: list[HeldLoad] = []
    underway = draws.underway(world)
    arrivals = [
        Arrival(each.at or 0.0, each.job, underway[each.job.number].truth)
        for each in sorted(side.submissions, key=lambda each: each.at or 0.0)
    ]
    beside = Beside(
        _incidents(side, draws, world),
        tuple(arrivals),
        lambda view, now: loads.append(_load(view, now)),
    )
    return PlayedSide(play(side.present, draws, world, beside), loads)


def _incidents(side: Altered, draws: WorldDraws, world: int) -> tuple[NodeEvent, ...]:
    """Return what happens to nodes: as drawn, and as changed."""
    view, until = side.present.view, side.present.now + HORIZON
    drawn = draws.incidents(world, until, view.cluster)
    joins = {each.node.name for each in side.later if isinstance(each, NodeAdded)}
    drained = {each.node: each.at for each in side.later if isinstance(each, NodeDraining)}
    # A drained node that is lost later does not come back to work.
    kept = (each for each in drawn if _node(each) not in drained or each.at < drained[_node(each)])
    return tuple(sorted((*(each for each in kept if _node(each) not in joins), *side.later), key=_at))


def _node(event: NodeEvent) -> str:
    return event.node.name if isinstance(event, NodeAdded) else event.node


def _at(event: NodeEvent) -> float:
    return event.at


def _load(view: View, now: float) -> HeldLoad:
    pools: dict[str, int] = dict.fromkeys(view.pools.leaves(), 0)
    for state in view.jobs.values():
        if state.placement is not None:
            pools[state.job.pool] += sum(slot.bits.bit_count() for slot in state.held())
    _, scattered = view.cluster.free_devices()
    return HeldLoad(now, pools, scattered, sum(view.cluster.present().values()))
