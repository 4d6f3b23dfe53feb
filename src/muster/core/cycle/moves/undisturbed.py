"""Give a gang over several nodes whole ones, if that is worth moving the small jobs there.

The place that it would get has neighbours, and each step of all of it would take as long as beside the
worst of them.
"""

from math import inf

import numpy as np

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.apart import APART, MARGIN
from muster.core.cycle.moves.make_room import carry_out, movable, run_expected
from muster.model.decision import Promise
from muster.model.placement import Placement
from muster.model.reason import Code
from muster.model.view import JobState
from muster.place.emptied import cheapest_emptying
from muster.place.migrate import Migration, Movable
from muster.place.prices import Prices
from muster.place.request import Request


def undisturbed(cycle: CycleState, state: JobState, found: Placement) -> Promise | None:
    """Return a promise of whole nodes that are being emptied; None: the gang goes where it fits."""
    if cycle.outcome.migrations or len(found.nodes()) == 1:
        return None
    option = cycle.options.used_by(state.job, found)
    if not cycle.rules.migrate or cycle.rules.strategy not in APART or option is None:
        return None
    if len(roles := {slot.role for slot in found.slots}) > 1:
        return None
    request = cycle.options.request(state.job, found.count(*roles), option)
    prices = cycle.prices
    lost, run = prices.over(state.number, found.bits()), run_expected(cycle, state)
    movables = _movables(cycle, request, lost * run / MARGIN)
    emptying = cheapest_emptying(cycle.board, request, movables) if movables else None
    if emptying is None:
        return None
    gain = (lost - _left(cycle, state, emptying) - _caused(prices, emptying)) * run
    if gain <= MARGIN * emptying.cost:
        return None
    carry_out(cycle, state, option, emptying, gain)
    return Promise(state.number, emptying.placement, Code.WAITING_MIGRATION, inf)


def _movables(cycle: CycleState, request: Request, gain: float) -> list[Movable]:
    states, devices, costs = cycle.moving_costs
    cheap = np.flatnonzero((devices < request.plan.devices) & (costs < gain)).tolist()
    small = (states[i] for i in cheap if cycle.untouched(states[i]))
    found = (movable(cycle, state, request.kinds, request, gain) for state in small)
    return [each for each in found if each is not None]


def _left(cycle: CycleState, state: JobState, emptying: Migration) -> float:
    """Return the price of the emptied place: who was moved may be beside it again, or others still."""
    for move in emptying.moves:
        cycle.standing.neighbourhood.put(move.job, move.placement)
    price = cycle.prices.over(state.number, emptying.placement.bits())
    for move in emptying.moves:
        cycle.standing.seat(cycle.view.jobs[move.job])
    return price


def _caused(prices: Prices, emptying: Migration) -> float:
    """Return the price of the new places of the moved jobs."""
    return sum(prices.over(move.job, move.placement.bits()) for move in emptying.moves)
