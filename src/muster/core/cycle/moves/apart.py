"""Move a job away from neighbours, if all of them together gain more than the move costs.

Only by what was measured often enough, and only while no job waits: what is free then is needed less.
One such move per cycle, out of the nodes whose jobs lose most to each other; where none can be made,
the next look comes after a while.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.make_room import moved, time_left
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.prices import Prices

WORST = 4
"""Nodes looked at in a cycle, those that lose most, and jobs tried: the others' turn comes."""
MARGIN = 5.0
"""A move must gain this many times its cost: how long a job still runs is a guess, and moves are a
risk."""
PATIENCE = 1.0
"""s until jobs are looked at again after none could be moved, for each job: cycles come the more often
the more jobs there are, and four of them are tried each time."""
APART = ("adaptive", "spread")
"""Strategies that keep jobs apart."""


@dataclass(frozen=True, slots=True)
class _Disturbed:
    """A job that may be moved: the price of its place, s it still runs, device-seconds of a move."""

    state: JobState
    price: float
    left: float
    cost: float

    @property
    def most(self) -> float:
        """The most that moving it could gain, in device-seconds."""
        return self.price * self.left - MARGIN * self.cost


def part_neighbours(cycle: CycleState, looked: float | None) -> float | None:
    """Move the first job, of those that could gain most, whose move pays.

    `looked`: when this was last tried in vain, None: not since the last move; returns the same after
    this cycle.
    """
    slowdowns = cycle.view.slowdowns
    if not slowdowns.proven or not cycle.rules.migrate or cycle.rules.strategy not in APART:
        return looked
    if looked is not None and looked < cycle.now < looked + PATIENCE * len(cycle.view.jobs):
        return looked
    if others_need_room(cycle):
        return looked
    prices = cycle.standing.prices_without_doubt()
    nodes = nlargest(WORST, cycle.standing.neighbourhood.crowded(), key=prices.lost)
    disturbed = (each for node in nodes if prices.lost(node) for each in _tenants(cycle, prices, node))
    for each in nlargest(WORST, disturbed, key=attrgetter("most")):
        if each.most > 0 and _part(cycle, prices, each):
            return None
    return cycle.now


def others_need_room(cycle: CycleState) -> bool:
    """Whether a job waits, or something is being moved or stopped for one."""
    outcome = cycle.outcome
    if outcome.promises or outcome.moves or outcome.stops or cycle.is_coming():
        return True
    return any(number not in outcome.starts for number in cycle.standing.waiting)


def _tenants(cycle: CycleState, prices: Prices, node: str) -> Iterator[_Disturbed]:
    """Yield the jobs of a node that may be moved."""
    for number, bits in cycle.standing.neighbourhood.on(node).items():
        state = cycle.view.jobs[number]
        if _may_move(cycle, state):
            cost = bits.bit_count() * cycle.view.resize_pause(state)
            yield _Disturbed(state, prices.of(number, node, bits), time_left(cycle, number), cost)


def _may_move(cycle: CycleState, state: JobState) -> bool:
    """Whether a job runs on one node and nothing else is decided about it."""
    if state.phase is not Phase.RUNNING or not state.job.preemptible or state.placement is None:
        return False
    changes = (cycle.outcome.resizes, cycle.settled)
    return len(state.placement.nodes()) == 1 and not any(state.number in each for each in changes)


def _part(cycle: CycleState, prices: Prices, job: _Disturbed) -> bool:
    """Move a job to the best place there is, if that pays."""
    request = moved(cycle, job.state)
    placement = cycle.place(job.state.job, request) if request is not None else None
    if placement is None:
        return False
    number = job.state.number
    there = sum(prices.of(number, node, bits) for node, bits in placement.bits().items())
    gain = (job.price - there) * job.left
    if gain <= MARGIN * job.cost:
        return False
    reason = Reason(Code.MIGRATED_APART, cost=job.cost, gain=gain)
    cycle.move(job.state, placement, reason)
    return True
