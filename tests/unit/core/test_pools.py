"""Entitlement: the worked examples of docs/explanation/pools.md, and the corners."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.core.quotas.pools import entitle
from muster.model.pool import Pool, PoolError, PoolTree, Quota

PAGE = Path(__file__).parents[3] / "docs/explanation/pools.md"


@dataclass(frozen=True, slots=True)
class Example:
    """One table of the page."""

    title: str
    capacity: int
    rows: tuple[dict[str, str], ...]


def examples() -> list[Example]:
    """Every section of the page that has a capacity and a table."""
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        capacity = re.search(r"Capacity: (\d+) devices", section)
        if capacity is None:
            continue
        lines = [line for line in section.splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        rows = tuple(dict(zip(cells[0], row, strict=True)) for row in cells[2:])
        found.append(Example(section.splitlines()[0], int(capacity[1]), rows))
    return found


def pool_of(row: dict[str, str]) -> Pool:
    limit = None if row["limit"] == "-" else int(row["limit"])
    quota = Quota(int(row["reservation"]), float(row["share"]), limit)
    return Pool(row["pool"], row["below"], {"A100": quota})


def test_the_page_has_the_published_examples_and_a_tree() -> None:
    titles = [example.title for example in examples()]
    assert titles[:2] == ["Lending what others leave", "Demand rises again"]
    assert "A tree of two levels" in titles


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.title)
def test_the_tables_of_the_page_are_true(example: Example) -> None:
    tree = PoolTree({row["pool"]: pool_of(row) for row in example.rows})
    demand = {(row["pool"], "A100"): int(row["demand"]) for row in example.rows if row["demand"] != "-"}
    entitled = entitle(tree, {"A100": example.capacity}, demand)
    for row in example.rows:
        assert entitled.of(row["pool"], "A100") == int(row["entitlement"]), row["pool"]


def flat(**quotas: Quota) -> PoolTree:
    return PoolTree({name: Pool(name, quotas={"A100": quota}) for name, quota in quotas.items()})


def dealt(tree: PoolTree, capacity: int, **demand: int) -> dict[str, int]:
    asked = {(name, "A100"): devices for name, devices in demand.items()}
    entitled = entitle(tree, {"A100": capacity}, asked)
    return {name: entitled.of(name, "A100") for name in tree.pools}


def test_what_nobody_asks_for_is_not_dealt_out() -> None:
    assert dealt(flat(a=Quota(50), b=Quota()), 100, a=10, b=5) == {"a": 10, "b": 5}


def test_a_pool_without_demand_is_entitled_to_nothing() -> None:
    assert dealt(flat(a=Quota(50), b=Quota()), 100) == {"a": 0, "b": 0}


def test_odd_devices_go_to_the_largest_remainder() -> None:
    # 10 by 5:3:3 is 4.5, 2.7 and 2.7.
    tree = flat(a=Quota(share=5), b=Quota(share=3), c=Quota(share=3))
    assert dealt(tree, 10, a=99, b=99, c=99) == {"a": 4, "b": 3, "c": 3}


def test_of_equal_remainders_the_first_in_the_tree_gets_the_odd_device() -> None:
    assert dealt(flat(a=Quota(), b=Quota()), 3, a=99, b=98) == {"a": 2, "b": 1}
    assert dealt(flat(b=Quota(), a=Quota()), 3, a=99, b=98) == {"b": 2, "a": 1}


def test_shares_need_not_be_whole() -> None:
    tree = flat(a=Quota(share=0.1), b=Quota(share=0.2), c=Quota(share=0.3))
    assert dealt(tree, 60, a=99, b=99, c=99) == {"a": 10, "b": 20, "c": 30}


def test_what_one_pool_cannot_use_goes_to_the_others() -> None:
    tree = flat(a=Quota(share=10), b=Quota(share=2), c=Quota(share=1))
    assert dealt(tree, 100, a=10, b=40, c=99) == {"a": 10, "b": 40, "c": 50}


def test_without_any_device_nobody_is_entitled() -> None:
    assert dealt(flat(a=Quota(5), b=Quota()), 0, a=5, b=5) == {"a": 0, "b": 0}


def test_device_types_are_dealt_by_themselves() -> None:
    tree = PoolTree({"a": Pool("a", quotas={"V100": Quota(limit=1)}), "b": Pool("b")})
    demand = {("a", "A100"): 9, ("b", "A100"): 9, ("a", "V100"): 9, ("b", "V100"): 9}
    entitled = entitle(tree, {"A100": 8, "V100": 8}, demand)
    assert [entitled.of(pool, "A100") for pool in "ab"] == [4, 4]
    assert [entitled.of(pool, "V100") for pool in "ab"] == [1, 7]


def test_a_type_the_cluster_does_not_have_entitles_to_nothing() -> None:
    entitled = entitle(flat(a=Quota()), {"A100": 8}, {("a", "H100"): 4})
    assert entitled.devices == {("a", "A100"): 0}
    assert entitled.of("a", "H100") == 0


def test_children_may_come_before_their_parents_in_the_tree() -> None:
    tree = PoolTree({"leaf": Pool("leaf", "top"), "top": Pool("top"), "other": Pool("other")})
    entitled = entitle(tree, {"A100": 10}, {("leaf", "A100"): 10, ("other", "A100"): 10})
    assert [entitled.of(name, "A100") for name in ("leaf", "top", "other")] == [5, 5, 5]


@pytest.mark.parametrize("name", ["top", "nowhere"])
def test_only_pools_that_take_jobs_have_demand(name: str) -> None:
    tree = PoolTree({"top": Pool("top"), "leaf": Pool("leaf", "top")})
    with pytest.raises(PoolError, match=name):
        entitle(tree, {"A100": 8}, {(name, "A100"): 1})
