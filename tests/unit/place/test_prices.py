"""What a place costs because of the neighbours there, and where jobs then go."""

from collections.abc import Callable
from functools import partial

import pytest

from muster.model.cluster import Cluster
from muster.model.slowdowns import Common, Slowdowns
from muster.place.adaptive import cheapest
from muster.place.board import Board
from muster.place.neighbourhood import Neighbourhood
from muster.place.pack import pack
from muster.place.prices import Prices
from muster.place.spread import spread
from tests.builders import cluster, placement, taken
from tests.unit.place.asks import ask

HALVES = {Common.SWITCH: 0.4, Common.SOCKET: 0.2, Common.NODE: 0.1, Common.NETWORK: 0.0}
ME = 9


def town(there: Cluster, jobs: dict[int, tuple[str, int]]) -> tuple[Board, Neighbourhood]:
    neighbourhood = Neighbourhood(there)
    for number, place in jobs.items():
        neighbourhood.put(number, placement(place))
    slots = [slot for place in jobs.values() for slot in placement(place).slots]
    return Board(taken(there, slots)), neighbourhood


def price(neighbourhood: Neighbourhood, slowdowns: Slowdowns) -> Callable[[str, int], float]:
    return partial(Prices(neighbourhood, slowdowns).of, ME)


def test_a_newcomer_pays_for_both_sides() -> None:
    _, there = town(cluster(1), {1: ("n0", 0b1)})
    cost = price(there, Slowdowns(HALVES))
    assert cost("n0", 0b10) == pytest.approx(2 * 0.4)
    assert cost("n0", 0b100) == pytest.approx(2 * 0.2)
    assert cost("n0", 0b10000) == pytest.approx(2 * 0.1)


def test_who_is_disturbed_already_is_not_disturbed_again() -> None:
    _, there = town(cluster(1), {1: ("n0", 0b1), 2: ("n0", 0b10)})
    assert price(there, Slowdowns(HALVES))("n0", 0b10000) == pytest.approx(0.1)


def test_a_gang_loses_on_all_its_devices() -> None:
    _, there = town(cluster(1), {1: ("n0", 0b1111)})
    assert price(there, Slowdowns(HALVES))("n0", 0b10000) == pytest.approx(0.1 + 4 * 0.1)


def test_prices_follow_the_tenants() -> None:
    _, there = town(cluster(1), {1: ("n0", 0b1)})
    cost = price(there, Slowdowns(HALVES))
    assert cost("n0", 0b10) > 0
    there.put(1, None)
    assert cost("n0", 0b10) == 0


def test_jobs_over_nodes_share_the_network() -> None:
    there = Neighbourhood(cluster(3))
    there.put(1, placement(("n0", 0b1), ("n1", 0b1)))
    there.put(2, placement(("n1", 0b10000), ("n2", 0b1)))
    there.put(3, placement(("n2", 0b10000)))
    assert there.beside(2) == {1: (Common.NETWORK, Common.NODE), 3: (Common.NODE,)}


def test_of_equally_close_places_every_strategy_takes_the_kinder_neighbour() -> None:
    """Two nodes alike but for their tenants: the kind of one is known to slow ours down."""
    board, there = town(cluster(2), {1: ("n0", 0b1), 2: ("n1", 0b1)})
    loud = {Common.NODE: {"mine": {"loud": 0.5, "quiet": 0.0}, "loud": {"mine": 0.0}}}
    known = Slowdowns(HALVES, loud, {ME: "mine", 1: "loud", 2: "quiet"})
    for strategy in (cheapest, spread):
        found = strategy(board, ask(1), price(there, known))
        assert found is not None and found.nodes() == {"n1"}
    for strategy in (cheapest, spread, pack):
        assert strategy(board, ask(1)) is not None


def test_where_neighbours_cost_nothing_adaptive_packs() -> None:
    board, there = town(cluster(2), {1: ("n0", 0b1)})
    nothing = Slowdowns(dict.fromkeys(Common, 0.0))
    found = cheapest(board, ask(1), price(there, nothing))
    assert found is not None and found.bits() == {"n0": 0b10}


def test_where_they_cost_something_adaptive_takes_an_empty_node() -> None:
    board, there = town(cluster(2), {1: ("n0", 0b1)})
    found = cheapest(board, ask(1), price(there, Slowdowns(HALVES)))
    assert found is not None and found.nodes() == {"n1"}


def test_adaptive_finds_a_place_wherever_pack_does() -> None:
    board, there = town(cluster(1), {1: ("n0", 0b0111_1111)})
    found = cheapest(board, ask(1), price(there, Slowdowns(HALVES)))
    assert found is not None and found.bits() == {"n0": 0b1000_0000}
