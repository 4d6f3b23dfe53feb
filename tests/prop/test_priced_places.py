"""Places are priced only where the price decides: the same are chosen as if all were."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.cluster import Cluster
from muster.place import adaptive, fit, pack, spread
from muster.place.board import Board
from muster.place.request import Request
from tests.prop.test_place import clusters, requests

TASTES = (pack.TASTE, spread.TASTE, adaptive.TASTE)
PRICES = (0.0, 0.003, 0.5, 1.0, 2.0)


@settings(max_examples=60, deadline=None)
@given(clusters(most=6), requests(servers=False), st.sampled_from(TASTES), st.integers(0, 99))
def test_the_same_place_as_if_all_were_priced(
    cluster: Cluster, request: Request, taste: fit.Taste, seed: int
) -> None:
    def price(node: str, bits: int) -> float:
        return PRICES[(7 * int(node[1:]) + 3 * bits + seed) % len(PRICES)]

    board = Board(cluster)
    every = replace(taste, price_at=0)
    assert fit.place(board, request, taste, price) == fit.place(board, request, every, price)
