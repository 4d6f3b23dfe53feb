"""Reservations and limits that are parts of what there is."""

from dataclasses import replace

import pytest

from muster.core.state.evolve import evolve
from muster.model.event import NodeAdded, NodeLeft, NodeLost, NodeReturned, PoolsSet
from muster.model.pool import EVERY_TYPE, Pool, PoolError, PoolTree, Quota, whole_pool
from muster.model.view import View
from tests.builders import cluster, mixed, node_set


def tree(**quotas: Quota) -> PoolTree:
    return PoolTree({name: Pool(name, quotas={EVERY_TYPE: q}) for name, q in quotas.items()})


def reserved(view: View, pool: str, device_type: str = "A100") -> int:
    return view.pools.pools[pool].quota(device_type).reservation


def test_a_quarter_follows_the_nodes_that_come_and_go() -> None:
    parts = tree(a=Quota(reservation_part=0.25), b=Quota(reservation_part=0.5))
    state = View(0, cluster(2), parts, {})
    assert (reserved(state, "a"), reserved(state, "b")) == (4, 8)
    third = replace(cluster(3).node("n2"))
    joined = evolve(state, [NodeAdded(third, 1.0)])
    assert (reserved(joined, "a"), reserved(joined, "b")) == (6, 12)
    lost = evolve(joined, [NodeLost("n0", 2.0)])
    assert reserved(lost, "a") == 4
    assert reserved(evolve(lost, [NodeReturned("n0", 3.0)]), "a") == 6
    assert reserved(evolve(lost, [NodeLeft("n0", 3.0), NodeLeft("n1", 3.0)]), "a") == 2


def test_a_part_of_every_type_holds_for_types_that_come_later() -> None:
    state = View(0, cluster(1), tree(a=Quota(reservation_part=0.5)), {})
    other = node_set("b", device_type="V100", devices=4)
    joined = mixed((1, node_set()), (1, other)).node("n1")
    after = evolve(state, [NodeAdded(joined, 1.0, other)])
    assert (reserved(after, "a"), reserved(after, "a", "V100")) == (4, 2)


def test_reservations_are_rounded_down_and_limits_up() -> None:
    quota = Quota(reservation_part=0.3, limit_part=0.3).sized(5)
    assert (quota.reservation, quota.limit) == (1, 2)
    assert Quota(reservation_part=0.29).sized(100).reservation == 29
    assert Quota(limit_part=0.07).sized(100).limit == 7


def test_the_fixed_one_of_limit_and_reservation_stands() -> None:
    assert Quota(limit=2, reservation_part=0.5).sized(100).reservation == 2
    assert Quota(reservation=3, limit_part=0.1).sized(4).limit == 3


def test_the_same_devices_leave_the_pools_as_they_are() -> None:
    state = View(0, cluster(2), whole_pool(), {})
    assert evolve(state, [NodeAdded(replace(cluster(2).node("n0"), rack="r9"), 1.0)]).pools is (
        state.pools
    )


def test_pools_that_are_replaced_are_sized_too() -> None:
    state = View(0, cluster(2), whole_pool("a"), {})
    after = evolve(state, [PoolsSet(tree(a=Quota(reservation_part=0.5)), 1.0)])
    assert reserved(after, "a") == 8


def test_parts_together_may_be_no_more_than_the_whole() -> None:
    parts = tree(a=Quota(reservation_part=0.75), b=Quota(reservation_part=0.5))
    assert parts.overbooked({"A100": 8}) == ("A100", 10, 8)
    assert tree(a=Quota(reservation_part=0.5)).overbooked({"A100": 0}) is None


@pytest.mark.parametrize(
    ("above", "below", "problem"),
    [
        (Quota(reservation_part=0.5), Quota(reservation_part=0.75), "75% together.*only 50%"),
        (Quota(reservation=4), Quota(reservation_part=0.5), "50% together.*only 0%"),
        (Quota(reservation=4), Quota(reservation=5), "5 together.*only 4"),
        (Quota(), Quota(reservation_part=1.5), "from 0% to 100%, not 150%"),
        (Quota(), Quota(reservation_part=0.5, limit_part=0.25), "limit 25% is below reservation 50%"),
    ],
)
def test_what_cannot_be_kept_is_rejected(above: Quota, below: Quota, problem: str) -> None:
    with pytest.raises(PoolError, match=problem):
        PoolTree({"a": Pool("a", quotas={"A100": above}), "b": Pool("b", "a", quotas={"A100": below})})


def test_a_fixed_reservation_below_a_part_is_never_an_error_when_nodes_leave() -> None:
    pools = PoolTree(
        {
            "a": Pool("a", quotas={"A100": Quota(reservation_part=0.5)}),
            "b": Pool("b", "a", quotas={"A100": Quota(reservation=6)}),
        }
    )
    state = View(0, cluster(2), pools, {})
    assert reserved(evolve(state, [NodeLeft("n0", 1.0)]), "b") == 6
