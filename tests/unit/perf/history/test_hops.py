"""Whose link is slow, from what passed between nodes."""

from collections.abc import Mapping, Sequence

import pytest

from muster.model.cluster import Cluster
from muster.perf.history.hops import FRESH, KEPT, Hops, HopSeen, odd
from muster.perf.history.links import HALF_LIFE, with_own_links
from muster.perf.wires import LinkClass, Wire, prior
from tests.builders import cluster

CLAIMED = prior(cluster(), LinkClass(Wire.NIC, "a")).bandwidth


def ring(
    hops: Hops, names: Sequence[str], speeds: Mapping[str, float], at: float = 0.0, times: int = KEPT
) -> Hops:
    """Reports of a ring: each hop carries what the slower of its ends does, as parts of the claim."""
    for _ in range(times):
        for source, target in zip(names, (*names[1:], names[0]), strict=True):
            rate = CLAIMED * min(speeds.get(source, 1.0), speeds.get(target, 1.0))
            hops.add(HopSeen(source, target, rate, at))
    return hops


def found(hops: Hops, where: Cluster, now: float = 0.0) -> dict[str, object]:
    """The nodes whose link is believed to differ, as parts of the claim."""
    rates = odd(hops.nodes(where, now), where)
    return {name: pytest.approx(rate / CLAIMED) for name, rate in rates.items()}


@pytest.mark.parametrize("slow", ["n0", "n1", "n2", "n3"])
def test_one_slow_link_in_a_ring_is_found_though_its_neighbours_hops_are_slow_too(slow: str) -> None:
    hops = ring(Hops(), ("n0", "n1", "n2", "n3"), {slow: 0.1})
    assert found(hops, cluster(4)) == {slow: 0.1}


def test_two_slow_links_beside_each_other_are_found() -> None:
    hops = ring(Hops(), ("n0", "n1", "n2", "n3", "n4"), {"n1": 0.1, "n2": 0.3})
    assert found(hops, cluster(5)) == {"n1": 0.1, "n2": 0.3}


def test_a_node_that_reads_late_since_its_next_hop_is_slow_is_not_blamed() -> None:
    """n1 sends to the slow n2, and takes what n0 sends at half its speed."""
    hops = ring(Hops(), ("n0", "n1", "n2", "n3"), {"n2": 0.1})
    for _ in range(KEPT):
        hops.add(HopSeen("n0", "n1", CLAIMED / 2, 0.0))
    assert found(hops, cluster(4)) == {"n2": 0.1}


def test_of_two_nodes_alone_either_may_be_slow_until_one_is_fast_with_another() -> None:
    hops = ring(Hops(), ("n0", "n1"), {"n1": 0.1})
    assert found(hops, cluster(4)) == {"n0": 0.1, "n1": 0.1}
    ring(hops, ("n0", "n2"), {}, at=60.0)
    assert found(hops, cluster(4)) == {"n1": 0.1}


def test_a_fast_node_is_not_blamed_for_a_partner_known_to_be_slow() -> None:
    hops = ring(Hops(), ("n0", "n1", "n2", "n3"), {"n3": 0.1})
    ring(hops, ("n0", "n3"), {"n3": 0.1}, at=10 * FRESH)
    assert found(hops, cluster(4), 10 * FRESH) == {"n3": 0.1}


def test_a_link_that_breaks_is_noticed_though_it_was_fast_before() -> None:
    hops = ring(Hops(), ("n0", "n1", "n2", "n3"), {})
    assert found(hops, cluster(4)) == {}
    ring(hops, ("n0", "n1", "n3", "n2"), {"n2": 0.1}, at=2 * FRESH)
    assert found(hops, cluster(4), 2 * FRESH) == {"n2": 0.1}


def test_a_link_that_is_repaired_is_believed_after_half_as_many_reports_as_are_kept() -> None:
    names = ("n0", "n1", "n2", "n3")
    hops = ring(Hops(), names, {"n2": 0.1})
    ring(hops, names, {}, at=60.0, times=KEPT // 2 + 1)
    assert found(hops, cluster(4), 60.0) == {}


def test_a_slow_link_that_nobody_uses_comes_back_over_hours() -> None:
    hops = ring(Hops(), ("n0", "n1", "n2", "n3"), {"n2": 0.1})
    there = cluster(4)
    assert found(hops, there, HALF_LIFE) == {"n2": 0.1**0.5}
    assert found(hops, there, 6 * HALF_LIFE) == {}


def test_links_that_all_carry_less_than_claimed_are_usual() -> None:
    names = ("n0", "n1", "n2", "n3")
    hops = ring(Hops(), names, dict.fromkeys(names, 0.2) | {"n3": 0.02})
    assert found(hops, cluster(8)) == {"n3": 0.02}


def test_a_slow_level_between_racks_is_not_blamed_on_nodes() -> None:
    """n0 to n3 in one rack, n4 to n7 in another: every hop between them is slow."""
    hops = Hops()
    for i in range(4):
        for _ in range(KEPT):
            hops.add(HopSeen(f"n{i}", f"n{i + 4}", CLAIMED / 5, 0.0))
    assert found(hops, cluster(8, racks=2)) == {}


def test_a_node_with_a_link_of_its_own_is_of_a_class_of_its_own() -> None:
    there = cluster(3)
    assert with_own_links(there, {}) is there
    seen = with_own_links(there, {"n1": 1e8, "gone": 1e8})
    kinds = [LinkClass(Wire.NIC, node.configuration) for node in seen.nodes]
    assert [prior(seen, kind).bandwidth for kind in kinds] == [CLAIMED, 1e8, CLAIMED]
    assert seen.configuration_of(seen.node("n1")).device_type == "A100"
